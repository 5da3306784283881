//! Changing modes or owners of a whole system or home.

use super::{Looking, readable, split_options};
use crate::hardline::lexer::{UNKNOWN, USER};
use crate::hardline::targets::Reach;
use crate::hardline::{Class, Reason};

impl Looking<'_> {
    pub(super) fn permissions(self, name: &str, args: &[&str]) -> Option<Reason> {
        let (mut options, mut targets) = split_options(args);
        // `-rwx` is a mode and `--reference=x` stands for one.
        let is_mode = |option: &&str| {
            name == "chmod"
                && !option.starts_with("--")
                && option[1..].chars().all(|letter| "rwxXst".contains(letter))
        };
        let mode = options
            .iter()
            .position(is_mode)
            .map(|at| options.remove(at));
        let is_recursive = options
            .iter()
            .any(|option| match option.strip_prefix("--") {
                Some(long) => !long.is_empty() && "recursive".starts_with(long),
                None => option.contains('R'),
            });
        if !is_recursive || targets.is_empty() {
            return None;
        }
        let has_reference = options.iter().any(|option| option.starts_with("--ref"));
        let change = match mode {
            Some(mode) => mode,
            None if has_reference => "",
            None => targets.remove(0),
        };
        let spares_home = match name {
            "chmod" => mode_is_livable(change),
            "chgrp" => true,
            _ => self.is_own(change),
        };
        targets
            .iter()
            .find(|target| match self.ground.reach(target, self.cwd) {
                Reach::System => true,
                Reach::Home => !spares_home,
                Reach::Elsewhere => false,
            })
            .map(|target| {
                Reason::new(
                    Class::Permissions,
                    format!("recursive {name} of {}", readable(target)),
                )
            })
    }

    /// Whether `owner` is the owner of the home: `NAME`, `NAME:GROUP`, `:GROUP`.
    fn is_own(self, owner: &str) -> bool {
        let user = owner.split([':', '.']).next().unwrap_or_default();
        let home = self.ground.home.file_name();
        user.is_empty()
            || user.contains([USER, UNKNOWN])
            || home.is_some_and(|home| home.to_str() == Some(user))
    }
}

/// Whether the owner can still use a home whose every file has this mode, and others cannot write
/// into it.
fn mode_is_livable(mode: &str) -> bool {
    if mode.contains(UNKNOWN) {
        return true;
    }
    if let Ok(bits) = u32::from_str_radix(mode, 8) {
        return bits & 0o700 == 0o700 && bits & 0o002 == 0;
    }
    mode.split(',').all(|clause| {
        let Some(at) = clause.find(['+', '-', '=']) else {
            return false;
        };
        let (who, what) = clause.split_at(at);
        let (operator, what) = what.split_at(1);
        let is_for_owner = who.is_empty() || who.contains(['a', 'u']);
        let takes_from_owner = is_for_owner
            && match operator {
                "-" => what.contains(['r', 'w', 'x', 'X']),
                "=" => !(what.contains('r') && what.contains('w') && what.contains(['x', 'X'])),
                _ => false,
            };
        // Without `a` or `o` the umask keeps others out.
        let gives_to_others = who.contains(['a', 'o']) && operator != "-" && what.contains('w');
        !(takes_from_owner || gives_to_others)
    })
}
