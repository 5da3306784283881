//! Comparing paths by name the way the most forgiving file system would.
//!
//! Some file systems ignore case, some ignore how an accented letter is composed, some ignore
//! invisible characters. A protected name must be recognised on all of them, so both sides of a
//! comparison are folded first. Folding is only ever used to refuse, never to admit.

use std::path::Path;

use unicode_normalization::UnicodeNormalization as _;

/// `path` in folded form. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn fold(path: &Path) -> String {
    let text = path.as_os_str().to_string_lossy();
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // Upper case first: `ſ` and `K` have a plain letter only as their other case's other case.
    let visible: String = text.nfc().filter(|letter| !is_invisible(*letter)).collect();
    visible.to_uppercase().to_lowercase().nfc().collect()
}

/// Characters HFS+ leaves out when it compares names.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

/// Whether the folded `path` is the folded `folder` or lies in it.
pub(crate) fn is_within(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Like [`is_within`], and also true of a sibling whose name is the folder's name and a suffix that
/// starts with `.` or `-`: backups, journals and lock files hold what the original holds.
pub(crate) fn is_within_or_variant(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '.', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_fold_alike() {
        for (spelling, plain) in [
            ("/Home/.SSH", "/home/.ssh"),
            ("/home/.\u{17F}sh", "/home/.ssh"),
            ("/home/.s\u{200C}sh", "/home/.ssh"),
            ("/home/cafe\u{301}", "/home/café"),
            ("/HOME/CAFÉ", "/home/café"),
            ("/home/\u{212A}ube", "/home/kube"),
        ] {
            assert_eq!(
                fold(Path::new(spelling)),
                fold(Path::new(plain)),
                "{spelling}"
            );
        }
    }

    #[test]
    fn a_separator_ends_a_name() {
        assert!(is_within("/w/a", "/w") && is_within("/w", "/w") && is_within("/x", "/"));
        assert!(!is_within("/w-evil", "/w") && !is_within("/v", "/w"));
        assert!(is_within_or_variant("/h/memory.db-wal", "/h/memory.db"));
        assert!(is_within_or_variant("/h/config.toml.bak", "/h/config.toml"));
        assert!(!is_within_or_variant("/h/config.tomls", "/h/config.toml"));
    }
}
