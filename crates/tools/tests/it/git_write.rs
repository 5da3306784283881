//! `git_write` (spec/02 §4.7, §4.9).

use std::fs;
use std::path::{Path, PathBuf};

use fermix_capability::Caller;
use fermix_types::SandboxMode;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::git_support::{Daemon, git, repository, script, settings, snapshot, verdict};
use crate::world::{World, ok, refused};

/// Argument vectors, and what each comes to in a repository with a changed and a new file.
const VECTORS: &[(&str, &[&str], &str)] = &[
    ("add", &["-A"], "ok"),
    ("add", &["."], "ok"),
    ("add", &["-p"], "ok"),
    ("add", &["-nv", "new.txt"], "ok"),
    ("add", &["-u", "--", "a.txt"], "ok"),
    ("add", &["-N", "new.txt"], "ok"),
    ("add", &["--chmod=+x", "a.txt"], "ok"),
    ("add", &["-fv", "new.txt"], "ok"),
    ("add", &["-i"], "flag_refused"),
    ("add", &["-e"], "flag_refused"),
    ("add", &["--edit"], "flag_refused"),
    ("add", &["--pathspec-from-file=x"], "flag_refused"),
    ("add", &["--pathspec-fr", "x"], "flag_refused"),
    ("add", &["--chmod=+s", "a.txt"], "invalid_args"),
    ("add", &["../outside"], "git_failed"),
    ("add", &["/etc/passwd"], "git_failed"),
    ("add", &["absent"], "git_failed"),
    ("commit", &["-m", "message"], "git_failed"),
    ("commit", &["-am", "message"], "ok"),
    ("commit", &["-amFixed"], "ok"),
    ("commit", &["-mFixed", "-a"], "ok"),
    ("commit", &["-a", "--message=x", "--no-verify"], "ok"),
    ("commit", &["--message", "/etc/passwd", "-a"], "ok"),
    ("commit", &["-asm", "x"], "ok"),
    ("commit", &["--amend", "--no-edit"], "ok"),
    ("commit", &["--amend", "-m", "other"], "ok"),
    ("commit", &["--allow-empty", "-m", "--file=x"], "ok"),
    ("commit", &["-C", "HEAD", "--allow-empty"], "ok"),
    ("commit", &["--fixup=HEAD", "-a"], "ok"),
    ("commit", &["--dry-run"], "git_failed"),
    ("commit", &["--dry-run", "-a"], "ok"),
    ("commit", &["-m", "x", "--", "a.txt"], "ok"),
    (
        "commit",
        &["--author=Some One <some@example.org>", "-am", "x"],
        "ok",
    ),
    ("commit", &[], "message_missing"),
    ("commit", &["-a"], "message_missing"),
    ("commit", &["--amend"], "message_missing"),
    ("commit", &["-a", "--no-edit"], "message_missing"),
    ("commit", &["-F", "a.txt"], "flag_refused"),
    ("commit", &["-aF", "a.txt"], "flag_refused"),
    ("commit", &["-Fa.txt"], "flag_refused"),
    ("commit", &["--file=a.txt"], "flag_refused"),
    ("commit", &["--fil", "a.txt"], "flag_refused"),
    ("commit", &["-t", "a.txt", "-m", "x"], "flag_refused"),
    ("commit", &["--template=a.txt"], "flag_refused"),
    ("commit", &["-S", "-am", "x"], "flag_refused"),
    ("commit", &["--gpg-sign", "-am", "x"], "flag_refused"),
    ("commit", &["-e", "-am", "x"], "flag_refused"),
    ("commit", &["-c", "HEAD"], "flag_refused"),
    ("commit", &["--reedit-message=HEAD"], "flag_refused"),
    ("commit", &["--fixup=reword:HEAD"], "invalid_args"),
    ("commit", &["--squash=HEAD"], "flag_refused"),
    ("commit", &["-p", "-m", "x"], "flag_refused"),
    ("commit", &["--trailer=a:b", "-am", "x"], "flag_refused"),
    ("commit", &["--ame", "--no-edit"], "flag_refused"),
    ("commit", &["-C", "HEAD:../x"], "path_refused"),
    ("commit", &["-m"], "invalid_args"),
    ("checkout", &["topic"], "would_discard_changes"),
    ("checkout", &["-b", "x"], "ok"),
    ("checkout", &["-bx"], "ok"),
    ("checkout", &["-B", "topic"], "ok"),
    ("checkout", &["-f", "topic"], "ok"),
    ("checkout", &["-qf", "topic"], "ok"),
    ("checkout", &["-"], "git_failed"),
    ("checkout", &["--detach"], "ok"),
    ("checkout", &["--", "a.txt"], "ok"),
    ("checkout", &["a.txt"], "ok"),
    ("checkout", &["v1", "--", "a.txt"], "ok"),
    ("checkout", &["-m", "topic"], "ok"),
    ("checkout", &["--orphan", "o"], "ok"),
    ("checkout", &["--", "../x"], "git_failed"),
    ("checkout", &["-p"], "flag_refused"),
    (
        "checkout",
        &["--recurse-submodules", "topic"],
        "flag_refused",
    ),
    ("checkout", &["--recurse", "topic"], "flag_refused"),
    ("checkout", &["--pathspec-from-file=x"], "flag_refused"),
    ("checkout", &["--conflict=evil", "topic"], "invalid_args"),
    ("pull", &[], "remote_not_configured"),
    ("pull", &["origin"], "remote_not_configured"),
    ("pull", &["https://example.org/x"], "remote_not_configured"),
    ("pull", &["/tmp"], "remote_not_configured"),
    ("pull", &[".", "topic"], "remote_not_configured"),
    ("pull", &["ext::sh -c touch% x"], "flag_refused"),
    ("pull", &["--upload-pack=touch x"], "flag_refused"),
    ("pull", &["--upload-pac=touch x"], "flag_refused"),
    ("pull", &["--rebase=interactive"], "invalid_args"),
    ("pull", &["-s", "evil"], "invalid_args"),
    ("pull", &["--strategy=../evil"], "invalid_args"),
    ("pull", &["--autostash"], "flag_refused"),
    ("pull", &["--verify-signatures"], "flag_refused"),
    ("pull", &["--recurse-submodules"], "flag_refused"),
    ("pull", &["--all"], "flag_refused"),
    ("pull", &["--", "origin"], "flag_refused"),
    ("push", &[], "push_deferred"),
    ("push", &["--force"], "push_deferred"),
    ("reset", &["--hard"], "unknown_command"),
    ("status", &[], "unknown_command"),
];

#[tokio::test]
async fn each_vector_has_its_verdict() {
    let world = World::new();
    let repo = repository(&world, "repo");
    let spare = world.home.os_home().join("spare");
    fs::write(repo.join("a.txt"), "changed\n").unwrap();
    fs::write(repo.join("new.txt"), "new\n").unwrap();
    copy(&repo, &spare);
    for (command, args, expected) in VECTORS {
        let before = snapshot(&repo);
        let (found, outcome) = verdict(&world, "git_write", command, &repo, args).await;
        assert_eq!(&found, expected, "{command} {args:?}: {}", outcome.text);
        if !matches!(*expected, "ok" | "git_failed" | "would_discard_changes") {
            assert!(
                snapshot(&repo) == before,
                "{command} {args:?} left something"
            );
        }
        fs::remove_dir_all(&repo).unwrap();
        copy(&spare, &repo);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

async fn write(world: &World, repo: &Path, command: &str, args: &[&str]) -> String {
    ok(verdict(world, "git_write", command, repo, args).await.1)
}

#[tokio::test]
async fn a_change_is_staged_committed_and_switched() {
    let world = World::new();
    let repo = repository(&world, "repo");
    fs::write(repo.join("new.txt"), "new\n").unwrap();
    let said = write(&world, &repo, "add", &["-A"]).await;
    let head = git(&world, &repo, &["rev-parse", "--short", "HEAD"]);
    assert_eq!(said, format!("[note: HEAD is now {head}, on branch main]"));
    let said = write(&world, &repo, "commit", &["-m", "Add a file"]).await;
    let head = git(&world, &repo, &["rev-parse", "--short", "HEAD"]);
    assert!(said.contains("Add a file") && said.contains("create mode 100644 new.txt"));
    assert!(
        said.contains(&format!("HEAD is now {head}, on branch main")),
        "{said}"
    );
    let author = git(&world, &repo, &["log", "-1", "--format=%an %ae %s"]);
    assert_eq!(author, "Owner owner@example.org Add a file");
    let said = write(&world, &repo, "checkout", &["-b", "work"]).await;
    assert_eq!(said, format!("[note: HEAD is now {head}, on branch work]"));
    let said = write(&world, &repo, "checkout", &["-"]).await;
    assert!(said.contains("on branch main"));
    let said = write(&world, &repo, "checkout", &["v1"]).await;
    assert!(said.contains("detached"));
}

#[tokio::test]
async fn what_a_checkout_throws_away_is_told() {
    let world = World::new();
    let repo = repository(&world, "repo");
    let file = |name: &str| repo.join(name);
    fs::write(file("a.txt"), "mine\n").unwrap();
    let (found, outcome) = verdict(&world, "git_write", "checkout", &repo, &["topic"]).await;
    assert_eq!(found, "would_discard_changes");
    refused(&outcome, &["a.txt", "checkout -- FILE"]);
    assert_eq!(fs::read_to_string(file("a.txt")).unwrap(), "mine\n");
    let said = write(&world, &repo, "checkout", &["--", "a.txt"]).await;
    assert!(
        said.contains("discarded local changes in: a.txt]"),
        "{said}"
    );
    // By its bare name, staged and not.
    fs::write(file("a.txt"), "mine\n").unwrap();
    git(&world, &repo, &["add", "a.txt"]);
    let said = write(&world, &repo, "checkout", &["HEAD", "a.txt"]).await;
    assert!(
        said.contains("discarded local changes in: a.txt]"),
        "{said}"
    );
    // By force, what git does not know included.
    fs::write(file("a.txt"), "mine\n").unwrap();
    git(&world, &repo, &["checkout", "-q", "-b", "more"]);
    fs::write(file("c.txt"), "theirs\n").unwrap();
    git(&world, &repo, &["add", "c.txt"]);
    git(&world, &repo, &["commit", "-qm", "c", "c.txt"]);
    git(&world, &repo, &["checkout", "-q", "main"]);
    fs::write(file("c.txt"), "mine\n").unwrap();
    let said = write(&world, &repo, "checkout", &["-f", "more"]).await;
    assert!(
        said.contains("discarded local changes in: a.txt, c.txt]"),
        "{said}"
    );
    // A switch that carries changes along throws nothing away.
    fs::write(file("dir/b.txt"), "mine\n").unwrap();
    let said = write(&world, &repo, "checkout", &["main"]).await;
    assert!(!said.contains("discarded"), "{said}");
}

#[tokio::test]
async fn a_commit_needs_an_identity() {
    let world = World::new();
    let repo = repository(&world, "repo");
    fs::write(world.home.os_home().join(".gitconfig"), "").unwrap();
    fs::write(repo.join("a.txt"), "x\n").unwrap();
    let (found, outcome) = verdict(&world, "git_write", "commit", &repo, &["-am", "x"]).await;
    assert_eq!(found, "identity_missing", "{}", outcome.text);
    refused(&outcome, &["user.name", "user.email"]);
    // One that belongs to the repository is one.
    git(&world, &repo, &["config", "user.name", "Here"]);
    git(&world, &repo, &["config", "user.email", "here@example.org"]);
    write(&world, &repo, "commit", &["-am", "x"]).await;
}

#[tokio::test]
async fn the_message_of_a_merge_is_kept() {
    let world = World::new();
    let repo = repository(&world, "repo");
    git(&world, &repo, &["checkout", "-q", "topic"]);
    fs::write(repo.join("c.txt"), "c\n").unwrap();
    git(&world, &repo, &["add", "."]);
    git(&world, &repo, &["commit", "-qm", "c"]);
    git(&world, &repo, &["merge", "-q", "--no-commit", "main"]);
    write(&world, &repo, "commit", &["--no-edit"]).await;
    assert!(git(&world, &repo, &["log", "-1", "--format=%s"]).starts_with("Merge branch"));
}

#[tokio::test]
async fn files_that_hold_secrets_are_pointed_out() {
    let world = World::new();
    let repo = repository(&world, "repo");
    fs::write(repo.join(".env"), "TOKEN=x\n").unwrap();
    fs::write(repo.join(".env.example"), "TOKEN=\n").unwrap();
    fs::write(repo.join("dir/server.key"), "x\n").unwrap();
    let said = write(&world, &repo, "add", &["-A"]).await;
    assert!(
        said.contains("usually hold secrets: .env, dir/server.key;"),
        "{said}"
    );
    let said = write(&world, &repo, "commit", &["-m", "x"]).await;
    assert!(
        said.contains("usually hold secrets: .env, dir/server.key;"),
        "{said}"
    );
    fs::write(repo.join(".gitignore"), "secret/\n").unwrap();
    fs::create_dir(repo.join("secret")).unwrap();
    fs::write(repo.join("secret/id_rsa"), "x\n").unwrap();
    let (found, outcome) = verdict(&world, "git_write", "add", &repo, &["-f", "."]).await;
    assert_eq!(found, "protected_name");
    refused(&outcome, &["secret/id_rsa", "nothing was staged"]);
    assert_eq!(git(&world, &repo, &["diff", "--cached", "--name-only"]), "");
}

/// Two clones of a served repository, one of them in the workspace.
fn served(world: &World) -> (Daemon, PathBuf, PathBuf) {
    settings(world);
    let base = world.home.os_home().join("served");
    let other = base.join("work");
    fs::create_dir_all(&other).unwrap();
    git(world, &other, &["init", "-q"]);
    fs::write(other.join("a.txt"), "one\n").unwrap();
    git(world, &other, &["add", "."]);
    git(world, &other, &["commit", "-qm", "first"]);
    let daemon = Daemon::start(world, &base);
    let url = format!("git://127.0.0.1:{}/work", daemon.port);
    let workspace = world.home.workspace();
    git(world, &workspace, &["clone", "-q", &url, "clone"]);
    (daemon, other, workspace.join("clone"))
}

#[tokio::test]
async fn pulls_from_configured_remotes_only() {
    let world = World::new();
    let (daemon, other, repo) = served(&world);
    let publish = |text: &str| {
        fs::write(other.join("a.txt"), text).unwrap();
        git(&world, &other, &["commit", "-qam", text.trim()]);
        git(&world, &other, &["rev-parse", "--short", "HEAD"])
    };
    for args in [
        &[][..],
        &["origin"],
        &["origin", "main"],
        &["--rebase"],
        &["--ff-only", "-q"],
    ] {
        let head = publish(&format!("{args:?}\n"));
        let said = write(&world, &repo, "pull", args).await;
        assert!(
            said.contains(&format!("HEAD is now {head}, on branch main")),
            "{said}"
        );
    }
    // A merge has a message without an editor.
    publish("theirs\n");
    fs::write(repo.join("mine.txt"), "x\n").unwrap();
    write(&world, &repo, "add", &["."]).await;
    write(&world, &repo, "commit", &["-m", "mine"]).await;
    write(&world, &repo, "pull", &["--no-rebase"]).await;
    assert!(git(&world, &repo, &["log", "-1", "--format=%s"]).starts_with("Merge branch"));
    // Local changes stay.
    publish("again\n");
    fs::write(repo.join("a.txt"), "local\n").unwrap();
    let (found, outcome) = verdict(&world, "git_write", "pull", &repo, &["--no-rebase"]).await;
    assert_eq!(found, "would_discard_changes", "{}", outcome.text);
    refused(&outcome, &["a.txt"]);

    let refusing = [
        (vec!["origin", "+main:topic"], "invalid_args"),
        (
            vec!["https://user:hunter2@example.org/x"],
            "remote_not_configured",
        ),
        (vec!["nobody"], "remote_not_configured"),
    ];
    for (args, tag) in refusing {
        let (found, outcome) = verdict(&world, "git_write", "pull", &repo, &args).await;
        assert_eq!(found, tag, "{}", outcome.text);
        assert!(!outcome.text.contains("hunter2"));
    }
    for url in [
        "file:///tmp",
        "/tmp",
        "http://127.0.0.1/x",
        "ext::sh -c true",
        &format!("{}/work", world.home.os_home().display()),
    ] {
        git(&world, &repo, &["config", "remote.origin.url", url]);
        let (found, outcome) = verdict(&world, "git_write", "pull", &repo, &[]).await;
        assert_eq!(found, "remote_refused", "{url}: {}", outcome.text);
    }
    // A branch whose remote is an address or the repository itself.
    for remote in [".", "https://example.org/x", "../served/work"] {
        git(&world, &repo, &["config", "branch.main.remote", remote]);
        let (found, outcome) = verdict(&world, "git_write", "pull", &repo, &[]).await;
        assert_eq!(found, "remote_not_configured", "{remote}: {}", outcome.text);
    }
    drop(daemon);
}

/// The owner lists a repository whose own programs are to run.
#[tokio::test]
async fn a_trusted_repository_runs_its_hooks() {
    for is_trusted in [false, true] {
        let world = World::with(|settings, _| {
            if is_trusted {
                settings.trusted_repos = vec![settings.workspace_root.join("repo")];
            }
        });
        let repo = repository(&world, "repo");
        let ran = world.home.os_home().join("ran");
        let touch = format!("touch {}", ran.display());
        script(&repo.join(".git/hooks/pre-commit"), &touch);
        git(&world, &repo, &["config", "credential.helper", "store"]);
        fs::write(repo.join("a.txt"), "x\n").unwrap();
        let (read, _) = verdict(&world, "git_read", "status", &repo, &[]).await;
        assert_eq!(read, "ok");
        let (found, outcome) = verdict(&world, "git_write", "commit", &repo, &["-am", "x"]).await;
        let expected = if is_trusted {
            "ok"
        } else {
            "untrusted_repo_config"
        };
        assert_eq!(found, expected, "{}", outcome.text);
        assert_eq!(ran.exists(), is_trusted);
    }
}

/// A work tree that holds the owner's startup files takes commits, and no files from elsewhere.
#[tokio::test]
async fn the_home_is_not_overwritten() {
    let world = World::with(|settings, _| settings.mode = SandboxMode::Open);
    settings(&world);
    let home = world.home.os_home().to_owned();
    git(&world, &home, &["init", "-q"]);
    fs::write(home.join(".bashrc"), "one\n").unwrap();
    git(&world, &home, &["add", ".bashrc"]);
    write(&world, &home, "commit", &["-m", "x"]).await;
    for (command, args) in [("checkout", vec!["--", ".bashrc"]), ("pull", vec![])] {
        let (found, outcome) = verdict(&world, "git_write", command, &home, &args).await;
        assert_eq!(found, "guarded_path", "{}", outcome.text);
    }
}

#[tokio::test]
async fn pushing_is_left_to_the_owner() {
    let world = World::new();
    repository(&world, "repo");
    let push = json!({"command": "push", "repo": "repo"});
    refused(
        &world.call("git_write", push.clone()).await,
        &["git push", "owner"],
    );
    let guest = Caller::guest(fermix_capability::Ports::default());
    let unseen = world.call_as(guest, "git_write", push).await;
    assert_eq!(unseen.text, "Error: Tool 'git_write' not found");
}
