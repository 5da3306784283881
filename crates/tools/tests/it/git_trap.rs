//! A repository whose every setting names a program (spec/02 §4.8, §9.4 row 12).
//!
//! Each program leaves its name behind. The controls run the owner's own git in the same repository
//! and see the names, so a trap that has stopped working fails the test too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;

use crate::git_support::{Daemon, git, script, settings, try_git, verdict};
use crate::world::{World, refused};

/// A world with a trapped repository, and the server it was cloned from.
struct Trap {
    world: World,
    repo: PathBuf,
    upstream: PathBuf,
    _daemon: Daemon,
}

const HOOKS: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "reference-transaction",
];

impl Trap {
    fn new() -> Self {
        let world = World::new();
        settings(&world);
        let base = world.home.os_home().join("served");
        let upstream = base.join("work");
        let library = base.join("library");
        for folder in [&upstream, &library] {
            fs::create_dir_all(folder).unwrap();
            git(&world, folder, &["init", "-q"]);
        }
        fs::write(library.join("lib.txt"), "lib\n").unwrap();
        fs::write(library.join(".gitattributes"), "*.txt filter=sub\n").unwrap();
        git(&world, &library, &["add", "."]);
        git(&world, &library, &["commit", "-qm", "library"]);
        for (name, text) in [
            (
                ".gitattributes",
                "*.txt filter=trap diff=ext merge=trap\n*.conv diff=conv\n*.proc filter=proc\n",
            ),
            ("a.txt", "one\ntwo\nthree\n"),
            ("b.txt", "b\n"),
            ("c.conv", "c\n"),
            ("p.proc", "p\n"),
            ("i.inf", "i\n"),
        ] {
            fs::write(upstream.join(name), text).unwrap();
        }
        let daemon = Daemon::start(&world, &base);
        let url = |name: &str| format!("git://127.0.0.1:{}/{name}", daemon.port);
        git(
            &world,
            &upstream,
            &["submodule", "add", "-q", &url("library"), "sub"],
        );
        git(&world, &upstream, &["add", "."]);
        let signer = world.home.os_home().join("signer");
        script(
            &signer,
            "cat > /dev/null; echo >&2; echo '[GNUPG:] SIG_CREATED x' >&2; echo '-----BEGIN PGP SIGNATURE-----'; echo '-----END PGP SIGNATURE-----'",
        );
        let signer = format!("gpg.program={}", signer.display());
        git(
            &world,
            &upstream,
            &["-c", &signer, "commit", "-q", "-S", "-m", "first"],
        );
        git(&world, &upstream, &["checkout", "-q", "-b", "other"]);
        fs::write(upstream.join("b.txt"), "other\n").unwrap();
        fs::write(upstream.join("q.proc"), "other\n").unwrap();
        git(&world, &upstream, &["add", "."]);
        git(&world, &upstream, &["commit", "-qm", "other"]);
        git(&world, &upstream, &["checkout", "-q", "main"]);

        let workspace = world.home.workspace();
        git(
            &world,
            &workspace,
            &["clone", "-q", "--recurse-submodules", &url("work"), "trap"],
        );
        let repo = workspace.join("trap");
        git(&world, &repo, &["branch", "-q", "other", "origin/other"]);
        let trap = Self {
            world,
            repo,
            upstream,
            _daemon: daemon,
        };
        trap.bare_repository();
        trap.arm(&trap.repo, &trap.repo.join(".git"), "");
        trap.arm(
            &trap.repo.join("sub"),
            &trap.repo.join(".git/modules/sub"),
            "sub-",
        );
        trap.disturb();
        trap
    }

    fn touched(&self) -> PathBuf {
        self.world.home.os_home().join("touched")
    }

    /// What a program called `name` is configured as.
    fn canary(&self, name: &str) -> String {
        let program = self.world.home.os_home().join("trap/canary");
        format!("{} {name}", program.display())
    }

    /// The names left behind so far, which are forgotten.
    fn sprung(&self) -> BTreeSet<String> {
        let folder = self.touched();
        let names = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        names
    }

    /// Sets every program that a command can do without.
    fn arm(&self, work_tree: &Path, git_dir: &Path, prefix: &str) {
        let touched = self.touched();
        fs::create_dir_all(&touched).unwrap();
        script(
            &self.world.home.os_home().join("trap/canary"),
            &format!(
                ": > {}/\"$1\"\ncase \"$1\" in *clean|*smudge|*inf|*pager) cat;; *textconv) cat \"$2\";; esac\nexit 0",
                touched.display()
            ),
        );
        let set = |key: &str, name: &str| {
            let mut value = self.canary(&format!("{prefix}{name}"));
            if key.ends_with(".program") {
                // Git takes these for a path without arguments.
                let program = self
                    .world
                    .home
                    .os_home()
                    .join(format!("trap/{prefix}{name}"));
                script(&program, &value);
                value = program.display().to_string();
            }
            git(&self.world, work_tree, &["config", key, &value]);
        };
        for (key, name) in [
            ("core.fsmonitor", "fsmonitor"),
            ("core.pager", "pager"),
            ("core.editor", "editor"),
            ("core.askPass", "askpass"),
            ("sequence.editor", "sequence"),
            ("interactive.diffFilter", "difffilter"),
            ("diff.external", "external"),
            ("diff.ext.command", "extcommand"),
            ("diff.conv.textconv", "textconv"),
            ("filter.trap.clean", "clean"),
            ("filter.trap.smudge", "smudge"),
            ("filter.sub.clean", "libclean"),
            ("filter.sub.smudge", "libsmudge"),
            ("filter.proc.process", "process"),
            ("filter.inf.clean", "inf"),
            ("merge.trap.driver", "driver"),
            ("gpg.program", "gpg"),
            ("gpg.ssh.program", "gpgssh"),
            ("gpg.x509.program", "gpgx509"),
            ("pager.log", "pager"),
            ("pager.status", "pager"),
            ("alias.status", "alias"),
            ("trailer.sign.command", "trailer"),
        ] {
            set(key, name);
        }
        for (key, value) in [
            ("commit.gpgSign", "true"),
            ("log.showSignature", "true"),
            ("filter.trap.required", "true"),
            ("submodule.recurse", "true"),
            ("status.submoduleSummary", "true"),
            ("diff.submodule", "diff"),
            ("diff.ignoreSubmodules", "none"),
            ("color.ui", "always"),
            ("gc.auto", "1"),
            ("fetch.recurseSubmodules", "true"),
            ("rebase.autoStash", "true"),
            ("merge.autoStash", "true"),
            ("branch.main.mergeOptions", "--edit"),
            ("core.hooksPath", "hooks-of-trap"),
        ] {
            git(&self.world, work_tree, &["config", key, value]);
        }
        fs::write(git_dir.join("info/attributes"), "*.inf filter=inf\n").unwrap();
        for hook in HOOKS {
            let run = self.canary(&format!("{prefix}hook-{hook}"));
            script(&work_tree.join("hooks-of-trap").join(hook), &run);
            script(&git_dir.join("hooks").join(hook), &run);
        }
        // The traps themselves are nothing to commit.
        fs::write(git_dir.join("info/exclude"), "hooks-of-trap\nbare\n").unwrap();
    }

    /// A bare repository among the files, which git finds when it starts there.
    fn bare_repository(&self) {
        let bare = self.repo.join("bare");
        git(&self.world, &self.repo, &["init", "-q", "--bare", "bare"]);
        git(
            &self.world,
            &bare,
            &["config", "core.fsmonitor", &self.canary("bare-fsmonitor")],
        );
        git(&self.world, &bare, &["config", "core.bare", "false"]);
        git(&self.world, &bare, &["config", "core.worktree", ".."]);
    }

    /// Changes files, so that there is something to compare.
    fn disturb(&self) {
        for (name, text) in [
            ("a.txt", "one\ntwo\nthree\nmine\n"),
            ("c.conv", "mine\n"),
            ("p.proc", "mine\n"),
            ("i.inf", "mine\n"),
            // As long as before, so that git has to look inside.
            ("sub/lib.txt", "own\n"),
        ] {
            fs::write(self.repo.join(name), text).unwrap();
        }
    }
}

const READS: &[(&str, &[&str])] = &[
    ("status", &[]),
    ("status", &["-v"]),
    ("status", &["--porcelain=v2"]),
    ("diff", &[]),
    ("diff", &["HEAD"]),
    ("diff", &["--stat", "--submodule=short"]),
    ("log", &["-p"]),
    ("log", &["--format=%G? %h"]),
    ("show", &[]),
    ("show", &["HEAD:c.conv"]),
    ("branch", &["-vv"]),
    ("branch", &["--format=%(refname) %(signature:grade)"]),
];

#[tokio::test]
async fn reading_springs_no_trap() {
    let trap = Trap::new();
    trap.sprung();
    for (command, args) in READS {
        let (found, outcome) = verdict(&trap.world, "git_read", command, &trap.repo, args).await;
        assert_eq!(found, "ok", "{command} {args:?}: {}", outcome.text);
        assert_eq!(trap.sprung(), BTreeSet::new(), "{command} {args:?}");
        assert!(
            outcome
                .text
                .contains("filters of the repository's own configuration")
        );
    }
    // The bare repository among the files is none.
    let bare = trap.repo.join("bare");
    let (found, outcome) = verdict(&trap.world, "git_read", "status", &bare, &[]).await;
    assert_eq!(found, "not_a_repository", "{}", outcome.text);
    assert_eq!(trap.sprung(), BTreeSet::new());
    // The submodule is a repository of its own.
    let sub = trap.repo.join("sub");
    let (found, outcome) = verdict(&trap.world, "git_read", "status", &sub, &[]).await;
    assert_eq!(found, "ok", "{}", outcome.text);
    assert_eq!(trap.sprung(), BTreeSet::new());

    // The control.
    for args in [
        &["status"][..],
        &["diff"],
        // A program that does not speak the protocol ends git; the next ones get their turn.
        &["config", "--unset", "filter.proc.process"],
        &["diff", "--submodule=short"],
        &["diff", "--no-ext-diff"],
        &["log", "--format=%G?"],
    ] {
        try_git(&trap.world, &trap.repo, args);
    }
    try_git(&trap.world, &bare, &["status"]);
    let sprung = trap.sprung();
    for name in [
        "fsmonitor",
        "extcommand",
        "external",
        "textconv",
        "clean",
        "process",
        "inf",
        "gpg",
        "hook-post-index-change",
        "bare-fsmonitor",
        "sub-fsmonitor",
        "sub-libclean",
    ] {
        assert!(sprung.contains(name), "{name} is no trap: {sprung:?}");
    }
}

const WRITES: &[(&str, &[&str])] = &[
    ("add", &["-p"]),
    ("add", &["-A"]),
    ("commit", &["-m", "mine"]),
    ("commit", &["--allow-empty", "-am", "again"]),
    ("commit", &["--amend", "--no-edit", "--allow-empty"]),
    ("checkout", &["other"]),
    ("checkout", &["-f", "main"]),
    ("checkout", &["-b", "work"]),
    ("checkout", &["HEAD~1", "--", "a.txt"]),
    ("checkout", &["-f", "main"]),
];

#[tokio::test]
async fn writing_springs_no_trap() {
    let trap = Trap::new();
    trap.sprung();
    for (command, args) in WRITES {
        let (found, outcome) = verdict(&trap.world, "git_write", command, &trap.repo, args).await;
        assert_eq!(found, "ok", "{command} {args:?}: {}", outcome.text);
        assert_eq!(trap.sprung(), BTreeSet::new(), "{command} {args:?}");
    }
    // A commit of nothing prints the status, which looks into the submodule.
    fs::write(trap.repo.join("sub/lib.txt"), "alt\n").unwrap();
    let nothing = verdict(&trap.world, "git_write", "commit", &trap.repo, &["-m", "x"]).await;
    assert_eq!(nothing.0, "git_failed", "{}", nothing.1.text);
    assert_eq!(trap.sprung(), BTreeSet::new());

    // A pull that merges, in the file whose driver is a trap.
    fs::write(trap.upstream.join("a.txt"), "theirs\none\ntwo\nthree\n").unwrap();
    git(&trap.world, &trap.upstream, &["commit", "-qam", "theirs"]);
    for args in [&["--no-rebase"][..], &["--rebase"]] {
        let (found, outcome) = verdict(&trap.world, "git_write", "pull", &trap.repo, args).await;
        assert!(
            matches!(found.as_str(), "ok" | "git_failed"),
            "{}",
            outcome.text
        );
        assert!(
            outcome.text.contains("a.txt"),
            "the pull did not come to the merge: {}",
            outcome.text
        );
        assert_eq!(trap.sprung(), BTreeSet::new(), "{args:?}");
        for abort in ["merge", "rebase"] {
            try_git(
                &trap.world,
                &trap.repo,
                &["-c", "core.hooksPath=/dev/null", abort, "--abort"],
            );
        }
        trap.sprung();
    }
}

#[tokio::test]
async fn the_traps_work() {
    let trap = Trap::new();
    trap.sprung();
    for args in [
        &["add", "-A"][..],
        &["config", "--unset", "filter.proc.process"],
        &["add", "-A"],
        &["commit", "-m", "signed"],
        &["-c", "commit.gpgSign=false", "commit", "-m", "mine"],
        &["-c", "commit.gpgSign=false", "commit", "--amend"],
        &["checkout", "other"],
        &["checkout", "-f", "other"],
        &["checkout", "-f", "main"],
    ] {
        try_git(&trap.world, &trap.repo, args);
    }
    fs::write(trap.upstream.join("a.txt"), "theirs\none\ntwo\nthree\n").unwrap();
    git(&trap.world, &trap.upstream, &["commit", "-qam", "theirs"]);
    try_git(
        &trap.world,
        &trap.repo,
        &[
            "-c",
            "commit.gpgSign=false",
            "pull",
            "--no-rebase",
            "--no-edit",
        ],
    );
    let sprung = trap.sprung();
    for name in [
        "clean",
        "smudge",
        "process",
        "gpg",
        "editor",
        "driver",
        "fsmonitor",
        "hook-pre-commit",
        "hook-post-commit",
        "hook-commit-msg",
        "hook-post-checkout",
        "hook-reference-transaction",
        "sub-libclean",
    ] {
        assert!(sprung.contains(name), "{name} is no trap: {sprung:?}");
    }
}

/// Settings that no value on the command line takes back: reads do without them, writes say which
/// one stops them, and no program runs.
#[tokio::test]
async fn what_cannot_be_overridden_stops_a_write() {
    let trap = Trap::new();
    let run = trap.canary("run");
    let include = trap.world.home.os_home().join("included");
    fs::write(
        &include,
        format!("[core]\nfsmonitor = {run}\n[filter \"trap\"]\nclean = {run}\n"),
    )
    .unwrap();
    let include = include.display().to_string();
    let cases = [
        ("core.sshCommand", run.as_str()),
        ("core.gitProxy", &run),
        ("core.alternateRefsCommand", &run),
        ("credential.helper", &run),
        ("credential.https://example.org.helper", &run),
        ("url.ext::sh -c true.insteadOf", "git://"),
        ("http.proxy", "http://127.0.0.1:9"),
        ("http.https://example.org.proxy", "http://127.0.0.1:9"),
        ("include.path", &include),
        ("includeIf.gitdir:/.path", &include),
        ("hook.mine.command", &run),
        ("filter.a=b.clean", &run),
        ("new.futureCommand", &run),
    ];
    for (key, value) in cases {
        git(&trap.world, &trap.repo, &["config", "--add", key, value]);
        trap.sprung();
        let is_split = key.contains('=');
        for (command, args) in READS {
            let (found, outcome) =
                verdict(&trap.world, "git_read", command, &trap.repo, args).await;
            let expected = if is_split {
                "untrusted_repo_config"
            } else {
                "ok"
            };
            assert_eq!(found, expected, "{key} {command}: {}", outcome.text);
        }
        for (command, args) in [
            ("add", &["-A"][..]),
            ("commit", &["-am", "x"]),
            ("checkout", &["other"]),
            ("pull", &[]),
        ] {
            let (found, outcome) =
                verdict(&trap.world, "git_write", command, &trap.repo, args).await;
            assert_eq!(
                found, "untrusted_repo_config",
                "{key} {command}: {}",
                outcome.text
            );
            let (section, _) = key.split_once('.').unwrap();
            let (_, name) = key.rsplit_once('.').unwrap();
            refused(
                &outcome,
                &[
                    &section.to_lowercase(),
                    &name.to_lowercase(),
                    "trusted_repos",
                ],
            );
        }
        assert_eq!(trap.sprung(), BTreeSet::new(), "{key}");
        git(&trap.world, &trap.repo, &["config", "--unset-all", key]);
    }
    // Only fetching uses these.
    for (key, value) in [
        ("remote.origin.vcs", "evil"),
        ("remote.origin.uploadpack", "evil"),
        ("remote.origin.receivepack", "evil"),
        ("remote.origin.proxy", "http://127.0.0.1:9"),
        ("http.sslVerify", "false"),
        ("http.cookieFile", "/tmp/x"),
        ("fetch.bundleURI", "file:///tmp/x"),
    ] {
        git(&trap.world, &trap.repo, &["config", "--add", key, value]);
        let (found, outcome) = verdict(&trap.world, "git_write", "pull", &trap.repo, &[]).await;
        assert_eq!(found, "untrusted_repo_config", "{key}: {}", outcome.text);
        let (found, outcome) = verdict(&trap.world, "git_write", "add", &trap.repo, &["-A"]).await;
        assert_eq!(found, "ok", "{key}: {}", outcome.text);
        git(&trap.world, &trap.repo, &["config", "--unset-all", key]);
    }
    // The same in a submodule, which `git status` would be run in.
    let sub = trap.repo.join("sub");
    git(&trap.world, &sub, &["config", "include.path", &include]);
    let (found, outcome) = verdict(&trap.world, "git_write", "add", &trap.repo, &["-A"]).await;
    assert_eq!(found, "untrusted_repo_config", "{}", outcome.text);
    refused(&outcome, &["submodule", "include.path"]);
    assert_eq!(trap.sprung(), BTreeSet::new());
}

/// A partial clone would fetch what it lacks in the middle of a read.
#[tokio::test]
async fn reading_never_fetches() {
    let trap = Trap::new();
    let repo = &trap.repo;
    let blob = git(&trap.world, repo, &["rev-parse", "origin/other:q.proc"]);
    for (key, value) in [
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", &format!("ext::{}", trap.canary("ext"))),
        ("protocol.ext.allow", "always"),
    ] {
        git(&trap.world, repo, &["config", key, value]);
    }
    // The clone keeps its objects in a pack; without it, everything but what was made here lacks.
    for entry in fs::read_dir(repo.join(".git/objects/pack")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let loose = repo.join(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]));
    let _ = fs::remove_file(loose);
    trap.sprung();
    for (command, args) in [
        ("show", ["origin/other:q.proc"]),
        ("log", ["-p"]),
        ("diff", ["HEAD"]),
    ] {
        let (found, outcome) = verdict(&trap.world, "git_read", command, repo, &args).await;
        assert_eq!(found, "git_failed", "{}", outcome.text);
    }
    assert_eq!(trap.sprung(), BTreeSet::new());
    try_git(&trap.world, repo, &["show", "origin/other:q.proc"]);
    assert!(trap.sprung().contains("ext"), "the control fetched nothing");
}
