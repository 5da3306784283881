//! Files whose content makes some later command run something: writing one is running code later.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::names::{fold, is_within};
use crate::protected::names_of;
use crate::remedy;
use crate::roots::RootSet;
use crate::sandbox::Inner;
use crate::settings::Scope;

/// What the owner's shell, session or tools run by themselves, relative to the home. Guarded in
/// every mode: whoever asks from inside one of these folders has made it a root.
const PERSISTENCE: &[&str] = &[
    ".bashrc",
    ".bashrc.d",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".inputrc",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".ssh/rc",
    ".gitconfig",
    ".vimrc",
    ".vim",
    ".tmux.conf",
    ".config/git",
    ".config/systemd",
    ".config/environment.d",
    ".config/autostart",
    ".config/plasma-workspace",
    ".config/fish",
    ".config/nushell",
    ".config/nvim",
    ".config/tmux",
    ".config/pip",
    "Library/LaunchAgents",
    ".local/bin",
    ".local/share/applications",
    "bin",
    ".cargo/bin",
    ".cargo/env",
    ".cargo/config.toml",
    ".cargo/config",
];

/// Where the system keeps what it runs at set times.
const CRONTABS: &[&str] = &["/var/spool/cron", "/var/at"];

/// Why the canonical `path` may not be written, if it may not.
pub(crate) fn refusal(
    path: &Path,
    roots: &RootSet,
    inner: &Arc<Inner>,
    scope: &Scope,
) -> Option<String> {
    let folded = fold(path);
    if is_git_machinery(&folded) {
        return Some("Git runs programs named in its own files; change the repository with git commands instead".to_owned());
    }
    let skills = inner.surroundings.fermix_home.join("skills");
    let in_skills = [Some(skills.clone()), skills.canonicalize().ok()]
        .into_iter()
        .flatten()
        .any(|skills| is_within(&folded, &fold(&skills)));
    if in_skills && !scope.attended {
        return Some("A skill is run with the owner's trust, so skills are only written while the owner is there".to_owned());
    }
    let home = &inner.surroundings.home;
    let homes: Vec<PathBuf> = [Some(home.clone()), home.canonicalize().ok()]
        .into_iter()
        .flatten()
        .collect();
    // What is run may be a link into a folder of dotfiles; then what it leads to is run.
    let member = homes
        .iter()
        .flat_map(|home| PERSISTENCE.iter().map(|name| home.join(name)))
        .chain(CRONTABS.iter().map(PathBuf::from))
        .flat_map(|member| names_of(&member))
        .find(|member| is_within(&folded, &fold(member)))
        .or_else(|| {
            let is_startup = is_run_on_entry(&folded)
                || homes.iter().any(|home| is_python_startup(&folded, home));
            is_startup.then(|| path.to_owned())
        })?;
    // A grant names the path when it grants the guarded thing itself or a part of it that holds the
    // path, not when it grants something that happens to contain it.
    let guard = fold(&member);
    let is_named = roots
        .granted
        .iter()
        .any(|grant| is_within(&folded, grant) && is_within(grant, &guard));
    (!is_named).then(|| {
        format!(
            "It is run by itself later (startup files, services, programs on the search path). {}",
            remedy::guarded(&member, inner)
        )
    })
}

/// What `direnv` runs when somebody enters the folder.
fn is_run_on_entry(folded: &str) -> bool {
    folded.ends_with("/.envrc")
}

/// What Python runs at its start: `~/.local/lib/python*/site-packages/*.pth` and the modules it
/// looks for there by name.
fn is_python_startup(folded: &str, home: &Path) -> bool {
    let libraries = fold(&home.join(".local/lib"));
    let Some(below) = folded
        .strip_prefix(&libraries)
        .and_then(|rest| rest.strip_prefix('/'))
    else {
        return false;
    };
    let parts: Vec<&str> = below.split('/').collect();
    let [python, "site-packages", file] = parts.as_slice() else {
        return false;
    };
    python.starts_with("python")
        && (file.ends_with(".pth") || matches!(*file, "sitecustomize.py" | "usercustomize.py"))
}

/// Files below a `.git` folder, or a `.git` file itself, that decide what Git runs or which tree it
/// works on.
fn is_git_machinery(folded: &str) -> bool {
    let parts: Vec<&str> = folded.split('/').collect();
    let Some(git) = parts.iter().position(|part| *part == ".git") else {
        return false;
    };
    let (Some(first), Some(last)) = (parts.get(git + 1), parts.last()) else {
        // The path ends with `.git`: a file there points Git at a folder of its writer's choice.
        return true;
    };
    let inside = &parts[git + 1..];
    matches!(*last, "config" | "config.worktree" | "commondir" | "gitdir")
        || *first == "hooks"
        || inside.contains(&"hooks")
        || inside.ends_with(&["info", "attributes"])
        || inside.ends_with(&["objects", "info", "alternates"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_machinery_is_told_from_content() {
        for path in [
            "/w/.git",
            "/w/.git/config",
            "/w/a/.git/hooks/pre-commit",
            "/w/.git/info/attributes",
            "/w/.git/objects/info/alternates",
            "/w/.git/modules/sub/config",
            "/w/.git/modules/sub/hooks/post-checkout",
            "/w/.git/worktrees/x/gitdir",
        ] {
            assert!(is_git_machinery(path), "{path}");
        }
        for path in [
            "/w/.gitignore",
            "/w/.github/config",
            "/w/config",
            "/w/.git/commit_editmsg",
            "/w/hooks/x",
        ] {
            assert!(!is_git_machinery(path), "{path}");
        }
    }

    #[test]
    fn python_startup_files_are_told_from_modules() {
        let home = Path::new("/home/owner");
        let site = "/home/owner/.local/lib/python3.12/site-packages";
        for (file, expected) in [
            ("x.pth", true),
            ("usercustomize.py", true),
            ("requests/api.py", false),
            ("deep/x.pth", false),
        ] {
            assert_eq!(is_python_startup(&format!("{site}/{file}"), home), expected);
        }
    }
}
