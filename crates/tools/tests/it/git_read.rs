//! `git_read` (spec/02 §4.7, §4.8).

use std::fs;
use std::time::{Duration, SystemTime};

use fermix_capability::{Caller, Ports};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::git_support::{git, repository, settings, snapshot, try_git, verdict};
use crate::world::{World, ok, refused};

/// Argument vectors, and what each comes to.
const VECTORS: &[(&str, &[&str], &str)] = &[
    // What reads.
    ("status", &[], "ok"),
    ("status", &["-s"], "ok"),
    ("status", &["-sb"], "ok"),
    ("status", &["--porcelain=v2", "--branch"], "ok"),
    ("status", &["-uno"], "ok"),
    ("status", &["--ignored", "-z"], "ok"),
    ("status", &["--", "a.txt"], "ok"),
    ("status", &["-v"], "ok"),
    ("log", &[], "ok"),
    ("log", &["--oneline", "-n", "5"], "ok"),
    ("log", &["-n5"], "ok"),
    ("log", &["-5"], "ok"),
    ("log", &["-1", "--stat", "HEAD"], "ok"),
    ("log", &["v1..main"], "ok"),
    ("log", &["v1...topic", "--left-right"], "ok"),
    ("log", &["HEAD~1"], "ok"),
    ("log", &["--format=%H %s", "--", "a.txt"], "ok"),
    ("log", &["--format", "%h"], "ok"),
    ("log", &["--author", "/etc/passwd"], "ok"),
    ("log", &["--since=2 weeks ago", "--until", "now"], "ok"),
    ("log", &["-p", "-U1"], "ok"),
    ("log", &["-Smore"], "ok"),
    ("log", &["-S", "more", "--pickaxe-all"], "ok"),
    ("log", &["-G", "m.re", "-i"], "ok"),
    ("log", &["-L1,1:a.txt"], "ok"),
    ("log", &["-L", "/one/,+1:a.txt"], "ok"),
    ("log", &["--follow", "-M50%", "--", "a.txt"], "ok"),
    ("log", &["--graph", "--all", "--decorate=short"], "ok"),
    ("log", &["--grep", "--output=x"], "ok"),
    ("log", &["^v1", "main"], "ok"),
    ("diff", &[], "ok"),
    ("diff", &["--stat"], "ok"),
    ("diff", &["--cached"], "ok"),
    ("diff", &["HEAD~1", "HEAD", "--name-only"], "ok"),
    ("diff", &["v1..HEAD", "--", "dir"], "ok"),
    ("diff", &["--exit-code", "v1", "HEAD"], "ok"),
    ("diff", &["-wb", "--ignore-blank-lines"], "ok"),
    ("diff", &["HEAD:a.txt", "v1:a.txt"], "ok"),
    ("diff", &["--submodule=short"], "ok"),
    ("show", &[], "ok"),
    ("show", &["HEAD:dir/b.txt"], "ok"),
    ("show", &["v1", "--stat", "--format=medium"], "ok"),
    ("show", &[":/first"], "ok"),
    ("branch", &[], "ok"),
    ("branch", &["-a"], "ok"),
    ("branch", &["-av"], "ok"),
    ("branch", &["-vv"], "ok"),
    ("branch", &["-l"], "ok"),
    ("branch", &["--list"], "ok"),
    ("branch", &["--show-current"], "ok"),
    ("branch", &["--contains=HEAD"], "ok"),
    ("branch", &["--contains"], "ok"),
    ("branch", &["--merged=main"], "ok"),
    ("branch", &["--no-merged=v1"], "ok"),
    ("branch", &["--points-at=v1"], "ok"),
    ("branch", &["--sort=-committerdate"], "ok"),
    ("branch", &["--format=%(refname:short)"], "ok"),
    // What leads out of the repository.
    ("diff", &["--no-index", "a.txt", "b"], "flag_refused"),
    ("diff", &["--no-ind", "a.txt", "b"], "flag_refused"),
    ("diff", &["a.txt", "/etc/passwd"], "path_refused"),
    ("diff", &["a.txt", "~/x"], "path_refused"),
    ("diff", &["--", "../other"], "path_refused"),
    ("diff", &["dir/../../x"], "path_refused"),
    ("diff", &[":(top)../x"], "path_refused"),
    ("diff", &[":!../x"], "path_refused"),
    ("diff", &["--relative=../x"], "path_refused"),
    ("show", &["HEAD:../x"], "path_refused"),
    ("log", &["--", "/etc"], "path_refused"),
    ("log", &["-L1,2:../x"], "path_refused"),
    ("status", &[".."], "path_refused"),
    ("log", &["ext::sh -c true"], "flag_refused"),
    ("log", &["--git-dir=/tmp"], "flag_refused"),
    ("log", &["--work-tree=/"], "flag_refused"),
    ("log", &["--exec-path=/tmp"], "flag_refused"),
    // What writes a file.
    ("log", &["--output=x"], "flag_refused"),
    ("log", &["--outp=x"], "flag_refused"),
    ("diff", &["--output", "x"], "flag_refused"),
    ("diff", &["--output-directory=x"], "flag_refused"),
    // What runs a program or reads a file of the caller's choosing.
    ("diff", &["--ext-diff"], "flag_refused"),
    ("log", &["--ext-d", "-p"], "flag_refused"),
    ("show", &["--textconv"], "flag_refused"),
    ("log", &["--show-signature"], "flag_refused"),
    ("diff", &["-Oorder"], "flag_refused"),
    ("log", &["--help"], "flag_refused"),
    ("log", &["--stdin"], "flag_refused"),
    ("log", &["--open-files-in-pager"], "flag_refused"),
    ("status", &["--pathspec-from-file=x"], "flag_refused"),
    ("diff", &["--submodule=diff"], "invalid_args"),
    ("show", &["--diff-merges=remerge"], "invalid_args"),
    ("log", &["--remerge-diff"], "flag_refused"),
    ("status", &["--ignore-submodules=none"], "invalid_args"),
    ("log", &["--recurse-submodules"], "flag_refused"),
    // What is spelled in another way.
    ("log", &["--onel"], "flag_refused"),
    ("log", &["--onelin"], "flag_refused"),
    ("log", &["-pO", "x"], "flag_refused"),
    ("log", &["-"], "flag_refused"),
    ("log", &["--end-of-options", "HEAD"], "flag_refused"),
    ("log", &["--stat-count"], "invalid_args"),
    ("log", &["-n", "five"], "invalid_args"),
    ("log", &["--oneline=yes"], "invalid_args"),
    // What would change a branch.
    ("branch", &["new"], "branch_writes_refused"),
    ("branch", &["--list", "t*"], "branch_writes_refused"),
    ("branch", &["--contains", "HEAD"], "branch_writes_refused"),
    ("branch", &["--", "new"], "branch_writes_refused"),
    ("branch", &["-d", "topic"], "branch_writes_refused"),
    ("branch", &["-D", "topic"], "branch_writes_refused"),
    ("branch", &["-avd", "topic"], "branch_writes_refused"),
    ("branch", &["-m", "topic", "x"], "branch_writes_refused"),
    ("branch", &["-M", "x"], "branch_writes_refused"),
    ("branch", &["-C", "x"], "branch_writes_refused"),
    ("branch", &["-c", "x"], "branch_writes_refused"),
    ("branch", &["-f", "topic", "main"], "branch_writes_refused"),
    ("branch", &["-uorigin/main"], "branch_writes_refused"),
    ("branch", &["-u", "main"], "branch_writes_refused"),
    ("branch", &["-tdirect"], "branch_writes_refused"),
    ("branch", &["--delete", "topic"], "branch_writes_refused"),
    ("branch", &["--del", "topic"], "branch_writes_refused"),
    ("branch", &["--move", "x"], "branch_writes_refused"),
    ("branch", &["--copy", "x"], "branch_writes_refused"),
    ("branch", &["--force", "x"], "branch_writes_refused"),
    ("branch", &["--set-upstream-to=x"], "branch_writes_refused"),
    ("branch", &["--set-up=x"], "branch_writes_refused"),
    ("branch", &["--unset-upstream"], "branch_writes_refused"),
    ("branch", &["--edit-description"], "branch_writes_refused"),
    ("branch", &["--edit"], "branch_writes_refused"),
    ("branch", &["--create-reflog"], "branch_writes_refused"),
    ("branch", &["--track", "x"], "branch_writes_refused"),
    ("branch", &["--track=direct"], "branch_writes_refused"),
    ("branch", &["--no-track"], "branch_writes_refused"),
    // Other commands.
    ("push", &[], "unknown_command"),
    ("commit", &["-m", "x"], "unknown_command"),
    ("", &[], "unknown_command"),
    ("-c", &["x"], "unknown_command"),
    ("log --output=x", &[], "unknown_command"),
];

#[tokio::test]
async fn each_vector_has_its_verdict_and_changes_nothing() {
    let world = World::new();
    let repo = repository(&world, "repo");
    fs::write(repo.join("a.txt"), "changed\n").unwrap();
    let before = snapshot(&world.home.workspace());
    for (command, args, expected) in VECTORS {
        let (found, outcome) = verdict(&world, "git_read", command, &repo, args).await;
        assert_eq!(&found, expected, "{command} {args:?}: {}", outcome.text);
        assert_eq!(
            snapshot(&world.home.workspace()),
            before,
            "{command} {args:?} left something"
        );
        if *expected != "ok" {
            assert!(
                args.is_empty() || outcome.text.len() > 20,
                "{command} {args:?}: {}",
                outcome.text
            );
        }
    }
    assert!(VECTORS.len() >= 80);
}

#[tokio::test]
async fn answers_are_git_s_own() {
    let world = World::new();
    let repo = repository(&world, "repo");
    fs::write(repo.join("new.txt"), "x\n").unwrap();
    let call = |arguments| world.call("git_read", arguments);
    let git_says = |args: &[&str]| format!("{}\n", git(&world, &repo, args));
    for (command, args) in [
        ("status", vec!["--short"]),
        ("log", vec!["--stat"]),
        ("show", vec!["HEAD"]),
        ("diff", vec!["v1", "HEAD"]),
        ("branch", vec!["-v"]),
    ] {
        let words: Vec<&str> = [command].iter().chain(&args).copied().collect();
        let said = ok(call(json!({"command": command, "repo": repo, "args": args})).await);
        assert_eq!(said, git_says(&words), "{words:?}");
    }
    // A folder below, and the turn's own folder.
    let below = call(json!({"command": "status", "repo": "repo/dir", "args": ["-s"]})).await;
    assert_eq!(ok(below), "?? ../new.txt\n");
    let nowhere = call(json!({"command": "status"})).await;
    refused(&nowhere, &["is not in a git repository"]);
    // What git finds is told by its exit code, and nothing is told as nothing.
    let differs = call(json!({"command": "diff", "repo": "repo", "args": ["--quiet", "v1"]})).await;
    assert!(ok(differs).contains("exit code 1"));
    let same = call(json!({"command": "diff", "repo": "repo"})).await;
    assert_eq!(ok(same), "[note: git diff printed nothing]");
    let unknown = call(json!({"command": "log", "repo": "repo", "args": ["absent"]})).await;
    refused(&unknown, &["git log failed (exit 128):", "absent"]);
}

#[tokio::test]
async fn errors_name_the_thing_and_the_fix() {
    let world = World::new();
    repository(&world, "repo");
    let outside = world.home.os_home().join("outside");
    fs::create_dir(&outside).unwrap();
    world.home.file("plain", "");
    let cases = [
        (
            json!({"command": "blame", "repo": "repo"}),
            vec!["unknown_command: blame", "status, log, diff, branch, show"],
        ),
        (
            json!({"command": "log", "repo": "absent"}),
            vec!["repo does not exist", "absent"],
        ),
        (
            json!({"command": "log", "repo": "plain"}),
            vec!["repo is not a folder"],
        ),
        (
            json!({"command": "log", "repo": "a\0b"}),
            vec!["repo contains null bytes"],
        ),
        (
            json!({"command": "log", "repo": "repo", "args": ["a\0b"]}),
            vec!["git args must be strings without null bytes"],
        ),
        (
            json!({"command": "log", "repo": outside}),
            vec!["outside the sandbox roots", "fermix ask --root"],
        ),
        (json!({"command": "log", "args": [{}]}), vec!["args"]),
        (
            json!({"command": "log", "repo": "repo", "args": ["--outp=x"]}),
            vec!["`--outp`", "escape sandbox containment", "--oneline"],
        ),
        (
            json!({"command": "log", "repo": "repo", "args": ["--onel"]}),
            vec!["`--onel`", "Write it in full: --oneline"],
        ),
        (
            json!({"command": "branch", "repo": "repo", "args": ["x"]}),
            vec!["--contains=HEAD"],
        ),
        (
            json!({"command": "status", "repo": "repo/.git"}),
            vec!["inside git's own folder"],
        ),
    ];
    for (arguments, words) in cases {
        refused(&world.call("git_read", arguments).await, &words);
    }
    let guest = Caller::guest(Ports::default());
    let unseen = world
        .call_as(guest, "git_read", json!({"command": "log"}))
        .await;
    assert_eq!(unseen.text, "Error: Tool 'git_read' not found");
}

/// `git diff` would write the index anew when only times have changed.
#[tokio::test]
async fn reading_leaves_the_repository_as_it_is() {
    let world = World::new();
    let repo = repository(&world, "repo");
    let later = SystemTime::now() + Duration::from_secs(100);
    let touch = || {
        let file = fs::File::options()
            .write(true)
            .open(repo.join("a.txt"))
            .unwrap();
        file.set_modified(later).unwrap();
    };
    touch();
    let before = snapshot(&repo.join(".git"));
    for command in ["status", "diff", "log", "show", "branch"] {
        let said = verdict(&world, "git_read", command, &repo, &[]).await;
        assert_eq!(said.0, "ok");
        assert_eq!(snapshot(&repo.join(".git")), before, "{command}");
    }
    let diff = verdict(&world, "git_read", "diff", &repo, &[]).await.1;
    assert_eq!(diff.text, "[note: git diff printed nothing]");
    // The control: without that care it does.
    try_git(&world, &repo, &["diff"]);
    assert!(snapshot(&repo.join(".git")) != before);
}

#[tokio::test]
async fn long_output_keeps_its_start_and_end() {
    let world = World::new();
    let repo = repository(&world, "repo");
    let text: String = (0..60_000).map(|line| format!("line {line}\n")).collect();
    fs::write(repo.join("big.txt"), text).unwrap();
    git(&world, &repo, &["add", "."]);
    let (_, outcome) = verdict(&world, "git_read", "diff", &repo, &["--cached"]).await;
    let text = ok(outcome);
    assert!(text.starts_with("diff --git"));
    assert!(text.contains("line 59999") && text.contains("bytes omitted"));
    assert!(text.contains("[note: the middle of the output is left out"));
}

/// What a process has in its environment never decides what git does.
#[tokio::test]
async fn inherited_variables_do_not_reach_git() {
    let world = World::with(|_, surroundings| {
        let home = surroundings.home.clone();
        for (name, value) in [
            ("GIT_DIR", home.join("elsewhere")),
            ("GIT_EXTERNAL_DIFF", home.join("program")),
            ("GIT_CONFIG_GLOBAL", home.join("other")),
            ("GIT_TRACE", home.join("trace")),
        ] {
            surroundings.environment.insert(name.into(), value.into());
        }
    });
    let repo = repository(&world, "repo");
    let (found, outcome) = verdict(&world, "git_read", "log", &repo, &["-p"]).await;
    assert_eq!(found, "ok", "{}", outcome.text);
    assert!(!world.home.os_home().join("trace").exists());
}

/// A branch nobody has committed to, and a folder that is only called `.git`.
#[tokio::test]
async fn odd_repositories_are_read() {
    let world = World::new();
    settings(&world);
    let fresh = world.home.workspace().join("fresh");
    fs::create_dir_all(fresh.join("sub/.git")).unwrap();
    git(&world, &fresh, &["init", "-q"]);
    let (found, outcome) = verdict(&world, "git_read", "status", &fresh, &[]).await;
    assert_eq!(found, "ok", "{}", outcome.text);
    assert!(outcome.text.contains("No commits yet"));
    let (found, outcome) = verdict(&world, "git_read", "status", &fresh.join("sub"), &[]).await;
    assert_eq!(found, "ok", "{}", outcome.text);
    let main = repository(&world, "main");
    let linked = world.home.workspace().join("linked");
    git(
        &world,
        &main,
        &["worktree", "add", "-q", "../linked", "topic"],
    );
    let (found, outcome) =
        verdict(&world, "git_read", "branch", &linked, &["--show-current"]).await;
    assert_eq!((found.as_str(), outcome.text.as_str()), ("ok", "topic\n"));
}
