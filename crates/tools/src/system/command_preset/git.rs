//! What the `git` command may be told, and what it is protected from.
//!
//! Pushing is the owner's decision, and so is running what arguments or a repository name. This is a
//! list of what is allowed: an alias could be called anything.

use std::ffi::OsString;

use fermix_types::{Enforcement, EnforcementDecision, ToolError};

/// Subcommands that neither send anything away nor exist to run a program.
const ALLOWED: &[&str] = &[
    "add",
    "apply",
    "blame",
    "branch",
    "checkout",
    "cherry-pick",
    "clean",
    "clone",
    "commit",
    "describe",
    "diff",
    "fetch",
    "init",
    "log",
    "ls-files",
    "ls-tree",
    "merge",
    "merge-base",
    "mv",
    "pull",
    "rebase",
    "reflog",
    "remote",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "shortlog",
    "show",
    "stash",
    "status",
    "switch",
    "tag",
    "version",
    "worktree",
];
/// Options before the subcommand that change nothing but how it prints.
const GLOBAL: &[&str] = &["--no-pager", "-P", "--no-optional-locks", "--version"];
/// Options that name a program, a configuration or another place for output; abbreviations count.
const REFUSED: &[&str] = &[
    "exec",
    "upload-pack",
    "receive-pack",
    "config",
    "ext-diff",
    "textconv",
    "open-files-in-pager",
    "template",
    "strategy",
    "git-dir",
    "work-tree",
    "exec-path",
    "output",
    "gpg-sign",
    "show-signature",
    "recurse-submodules",
    "separate-git-dir",
];

/// Variables that win over what a repository configures.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_ALLOW_PROTOCOL", "https:ssh:git"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "/bin/false"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_PAGER", "cat"),
    (
        "GIT_SSH_COMMAND",
        "ssh -oBatchMode=yes -oPermitLocalCommand=no",
    ),
];
/// The same for what only configuration can say.
const CONFIGURATION: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.gitProxy", ""),
    ("diff.external", ""),
    ("log.showSignature", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("protocol.ext.allow", "never"),
    ("safe.bareRepository", "explicit"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
];

/// Refuses arguments by which Git would push, or run what they name.
pub(super) fn check(argv: &[String], allow_push: bool) -> Result<(), ToolError> {
    let refused = |words: String| {
        let mut error = ToolError::new("git_refused", words);
        error.enforcement = Some(Enforcement {
            source: "sandbox",
            decision: EnforcementDecision::Deny,
            phase: "pre_execution",
        });
        Err(error)
    };
    let mut rest = argv.iter().map(String::as_str);
    let subcommand = loop {
        match rest.next() {
            Some(option) if GLOBAL.contains(&option) => {}
            other => break other,
        }
    };
    let Some(subcommand) = subcommand else {
        return Ok(());
    };
    if subcommand == "push" && !allow_push {
        return refused(
            "git push is not allowed here; ask the owner to push, or to set `[sandbox.commands.git] allow_push = true`"
                .to_owned(),
        );
    }
    if subcommand != "push" && !ALLOWED.contains(&subcommand) {
        return refused(format!(
            "`git {}` is not allowed here; the allowed commands are {}",
            fermix_types::text::shortened(subcommand, 64),
            ALLOWED.join(", ")
        ));
    }
    for argument in rest {
        let is_refused = match argument.strip_prefix("--") {
            Some(word) => {
                let word = word.split('=').next().unwrap_or(word);
                !word.is_empty() && REFUSED.iter().any(|bad| bad.starts_with(word))
            }
            // `rebase -x COMMAND`, `clone -c KEY=VALUE` and `clone -u COMMAND`.
            None => match subcommand {
                "rebase" => is_cluster_with(argument, "xsS"),
                "clone" => is_cluster_with(argument, "cu"),
                "commit" | "merge" | "cherry-pick" | "revert" | "pull" => {
                    is_cluster_with(argument, "Ss")
                }
                _ => false,
            },
        };
        let names_transport = ["ext::", "fd::"]
            .iter()
            .any(|scheme| argument.contains(scheme));
        if is_refused && !is_sign_off(subcommand, argument) || names_transport {
            return refused(format!(
                "`{}` may have git run something; leave it out",
                fermix_types::text::shortened(argument, 64)
            ));
        }
    }
    Ok(())
}

/// `-s` signs off a commit, and names a program for a merge.
fn is_sign_off(subcommand: &str, argument: &str) -> bool {
    matches!(subcommand, "commit" | "revert" | "cherry-pick")
        && !argument.contains('S')
        && !argument.starts_with("--")
}

fn is_cluster_with(argument: &str, letters: &str) -> bool {
    argument.strip_prefix('-').is_some_and(|cluster| {
        // What follows a letter with a value is the value: `-mSome`.
        cluster
            .chars()
            .take_while(|letter| *letter != 'm')
            .any(|letter| letters.contains(letter))
    })
}

/// Takes away what was inherited for Git, and puts in what wins over the repository.
pub(super) fn harden(vars: &mut Vec<(OsString, OsString)>) {
    vars.retain(|(name, _)| !name.to_string_lossy().starts_with("GIT_"));
    let mut put = |name: String, value: &str| vars.push((name.into(), value.into()));
    for (name, value) in ENVIRONMENT {
        put((*name).to_owned(), value);
    }
    put(
        "GIT_CONFIG_COUNT".to_owned(),
        &CONFIGURATION.len().to_string(),
    );
    for (place, (key, value)) in CONFIGURATION.iter().enumerate() {
        put(format!("GIT_CONFIG_KEY_{place}"), key);
        put(format!("GIT_CONFIG_VALUE_{place}"), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(line: &str, allow_push: bool) -> bool {
        let argv: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        check(&argv, allow_push).is_ok()
    }

    #[test]
    fn what_pushes_or_runs_is_refused() {
        for line in [
            "push",
            "--no-pager push origin main",
            "-c alias.x=push x",
            "-C /tmp push",
            "p",
            "subtree push --prefix x origin main",
            "send-pack origin",
            "fetch --upload-pa=/tmp/x origin",
            "rebase -x ls HEAD~1",
            "rebase --exec ls HEAD~1",
            "clone -c core.fsmonitor=/tmp/x https://example.com/a",
            "diff --ext-diff",
            "fetch ext::sh",
            "merge -s evil x",
            "commit -S -m x",
            "bisect run ls",
            "submodule foreach ls",
            "config core.pager ls",
        ] {
            assert!(!verdict(line, false), "{line}");
        }
        for line in [
            "status",
            "commit -mSomething",
            "commit -s -m x",
            "log --oneline",
            "stash push",
            "--no-pager diff HEAD~1",
            "--version",
        ] {
            assert!(verdict(line, false), "{line}");
        }
        assert!(verdict("push origin main", true));
        assert!(!verdict("push --receive-pack=/tmp/x origin", true));
    }
}
