//! Why a command that failed may have failed because it is confined, and what the owner can do.

use std::path::{Path, PathBuf};

use fermix_sandbox::{CommandOutcome, Confinement, Sandbox, Scope};

/// The most output that is looked through, in bytes from its end.
const MAX_READ: usize = 16 * 1024;
/// What programs say of a file they cannot have.
const DENIALS: &[&str] = &[
    "Permission denied",
    "No such file or directory",
    "Read-only file system",
    "Operation not permitted",
    "ENOENT",
    "EACCES",
    "EROFS",
    "os error 2",
    "os error 13",
    "os error 30",
];
/// What SSH says without keys and without an agent.
const SSH_REFUSALS: &[&str] = &[
    "Permission denied (publickey",
    "Host key verification failed",
    "Could not open a connection to your authentication agent",
];

/// One line about a failed and confined command; nothing when confinement does not explain it.
pub(super) fn hint(
    outcome: &CommandOutcome,
    text: &str,
    sandbox: &Sandbox,
    scope: &Scope,
) -> Option<String> {
    if outcome.confined == Confinement::NONE || outcome.exit == 0 {
        return None;
    }
    let text = fermix_types::text::suffix(text, MAX_READ);
    if text.contains("no new privileges") {
        return Some(
            "commands are confined and cannot gain rights, so `sudo` and the like do not work; ask the owner to run that part"
                .to_owned(),
        );
    }
    if SSH_REFUSALS.iter().any(|refusal| text.contains(refusal)) {
        return Some(
            "commands do not see the owner's SSH keys; pushing and signing in over SSH is the owner's to do, or to allow with `[sandbox.confine] ssh = \"agent\"`"
                .to_owned(),
        );
    }
    text.lines()
        .filter(|line| DENIALS.iter().any(|denial| line.contains(denial)))
        .flat_map(paths)
        .find_map(|path| sandbox.why_not_seen(&path, scope))
}

/// The absolute paths a line names.
fn paths(line: &str) -> impl Iterator<Item = PathBuf> {
    line.split(|letter: char| letter.is_whitespace() || "'\"`:,;()[]<>=‘’".contains(letter))
        .filter(|word| word.len() > 1 && Path::new(word).is_absolute())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_what_programs_say() {
        for (line, expected) in [
            ("cat: /srv/x: Permission denied", "/srv/x"),
            ("cp: cannot open '/srv/a b': No such file", "/srv/a"),
            (
                "Error: ENOENT: no such file or directory, open '/srv/data.json'",
                "/srv/data.json",
            ),
            (
                "sh: 1: cannot create /srv/new: Directory nonexistent",
                "/srv/new",
            ),
            (
                "FileNotFoundError: [Errno 2] No such file or directory: '/srv/x'",
                "/srv/x",
            ),
        ] {
            assert_eq!(paths(line).next(), Some(PathBuf::from(expected)), "{line}");
        }
        assert_eq!(paths("cat: x: Permission denied / or not").next(), None);
    }
}
