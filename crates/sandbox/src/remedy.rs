//! What the owner can do about a refusal. All such words are here, so that they change together.

use std::path::{Path, PathBuf};

use crate::denial::{Access, DenialReason};
use crate::resolve::Resolved;
use crate::roots::{RootSet, UnsafeRoot, safe_to_grant};
use crate::sandbox::Inner;

/// A way out of a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remedy {
    /// The folder whose grant would allow it; nothing when no grant could.
    pub(crate) folder: Option<PathBuf>,
    /// A sentence without its full stop.
    pub(crate) words: String,
}

/// The way out of `reason` for `object`.
pub(crate) fn of(
    reason: DenialReason,
    access: Access,
    object: &Resolved,
    roots: &RootSet,
    inner: &Inner,
) -> Remedy {
    match reason {
        DenialReason::OutsideRoot => match roots.holding(&object.path, Access::Read) {
            Some(root) if access == Access::Write => read_only(&root.path),
            _ => outside(access, object, inner),
        },
        DenialReason::ProtectedPath | DenialReason::ProtectedAlias => words(format!(
            "Nothing opens it, because {}",
            inner.protected.why(object)
        )),
        DenialReason::BlockedRoot => words(match roots.blocking(object) {
            Some(folder) => format!(
                "The owner has closed `{}` in `sandbox.blocked_roots`; as long as it stands there, nothing opens it",
                folder.display()
            ),
            None => "The owner has closed it in `sandbox.blocked_roots`".to_owned(),
        }),
        _ => Remedy::default(),
    }
}

fn words(words: String) -> Remedy {
    Remedy {
        folder: None,
        words,
    }
}

/// The folder is open, but not for this.
fn read_only(folder: &Path) -> Remedy {
    Remedy {
        words: format!(
            "`{}` is open for reading only; the owner can open it for writing with `fermix grant path {}`",
            folder.display(),
            shell_quoted(folder)
        ),
        folder: Some(folder.to_owned()),
    }
}

/// The folder is the path itself, or its parent when the path is (or would be) a file.
fn outside(access: Access, object: &Resolved, inner: &Inner) -> Remedy {
    let is_folder = object.kind == Some(rustix::fs::FileType::Directory);
    let folder = match access {
        Access::Execute => &object.path,
        Access::Read if is_folder => &object.path,
        Access::Read | Access::Write => object.path.parent().unwrap_or(&object.path),
    };
    match safe_to_grant(folder, &inner.surroundings, &inner.protected) {
        Ok(folder) => Remedy {
            words: format!(
                "The owner can open the folder for one question with `fermix ask --root {quoted}`, or for good with `fermix grant path {quoted}`; where the owner is in the conversation, `request_directory_access` asks them",
                quoted = shell_quoted(&folder),
            ),
            folder: Some(folder),
        },
        Err(UnsafeRoot::NotADirectory) => words(format!(
            "`{}` is not an existing folder; the owner can make it and then open it with `fermix ask --root {}`",
            folder.display(),
            shell_quoted(folder)
        )),
        Err(cause) => words(format!(
            "`{}` itself can never be opened, because {cause}; use a folder below it, or put the file into `{}`",
            folder.display(),
            inner.settings.workspace_root.display()
        )),
    }
}

/// How the owner opens a guarded path, given in its own spelling.
pub(crate) fn guarded(member: &Path, inner: &Inner) -> String {
    match safe_to_grant(member, &inner.surroundings, &inner.protected) {
        Ok(folder) => format!(
            "The owner can open it by name with `fermix grant path {}`",
            shell_quoted(&folder)
        ),
        // A file is no root, but it may be named.
        Err(UnsafeRoot::NotADirectory) => {
            format!("The owner can open it by name {}", for_good(member, inner))
        }
        Err(_) => "The owner has to change it by hand".to_owned(),
    }
}

fn for_good(path: &Path, inner: &Inner) -> String {
    if inner.settings.allowed_roots.is_empty() {
        let list = serde_json::json!([path]).to_string();
        format!(
            "with `fermix config set sandbox.allowed_roots {}`",
            quoted(&list)
        )
    } else {
        // Setting the list replaces it, so a ready-made command would take away the others.
        format!(
            "by adding `{}` to `sandbox.allowed_roots`, beside what stands there (`fermix config get sandbox.allowed_roots`)",
            path.display()
        )
    }
}

/// `path` as one word of a shell.
pub(crate) fn shell_quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = text.chars().all(|letter| {
        letter.is_alphanumeric() || matches!(letter, '/' | '.' | '_' | '-' | '+' | ',' | '@' | ':')
    });
    if is_plain {
        text.into_owned()
    } else {
        quoted(&text)
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
