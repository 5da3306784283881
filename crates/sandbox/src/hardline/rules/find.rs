//! `find` as a way to delete.

use super::{Looking, readable};
use crate::hardline::lexer::GLOB;
use crate::hardline::{Class, Reason};

/// Tests of `find` that leave most files alone.
const NARROWING: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-lname",
    "-ilname",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-used",
    "-newer",
    "-anewer",
    "-cnewer",
    "-size",
    "-empty",
    "-perm",
    "-inum",
    "-samefile",
    "-links",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-nouser",
    "-nogroup",
    "-fstype",
];

/// A call of `find` taken apart.
pub(super) struct Search<'a> {
    paths: Vec<&'a str>,
    expression: Vec<&'a str>,
}

impl<'a> Search<'a> {
    pub(super) fn new(args: &[&'a str]) -> Self {
        let args: Vec<&str> = args
            .iter()
            .copied()
            .skip_while(|arg| matches!(*arg, "-H" | "-L" | "-P"))
            .collect();
        let paths_end = args
            .iter()
            .position(|arg| arg.starts_with('-') || matches!(*arg, "(" | "!"))
            .unwrap_or(args.len());
        let (paths, expression) = args.split_at(paths_end);
        Self {
            paths: if paths.is_empty() {
                vec!["."]
            } else {
                paths.to_vec()
            },
            expression: expression.to_vec(),
        }
    }

    /// What it finds in so far as it finds everything: the folders it starts at, or all that lies in
    /// them.
    pub(super) fn finds(&self) -> Vec<String> {
        if self.is_narrowed() {
            return Vec::new();
        }
        let leaves_start = self
            .expression
            .windows(2)
            .any(|pair| pair[0] == "-mindepth" && pair[1] != "0");
        let all = self.paths.iter().map(|path| {
            if leaves_start {
                format!("{path}/{GLOB}")
            } else {
                (*path).to_owned()
            }
        });
        all.collect()
    }

    fn is_narrowed(&self) -> bool {
        let mut tests = self.expression.iter().peekable();
        while let Some(test) = tests.next() {
            let is_narrow = match *test {
                // Files and folders are nearly everything there is.
                "-type" | "-xtype" => tests
                    .peek()
                    .is_some_and(|kinds| !kinds.contains(['f', 'd'])),
                test => NARROWING.contains(&test) || test.starts_with("-newer"),
            };
            if is_narrow {
                return true;
            }
        }
        false
    }
}

impl<'a> Looking<'a> {
    pub(super) fn find(self, args: &[&'a str]) -> Option<Reason> {
        let search = Search::new(args);
        let finds = search.finds();
        if search.expression.contains(&"-delete")
            && let Some(path) = finds
                .iter()
                .find(|path| self.ground.forbids_delete(path, self.cwd))
        {
            return Some(Reason::new(
                Class::Delete,
                format!("find {} -delete", readable(path)),
            ));
        }
        let starts = search
            .expression
            .iter()
            .enumerate()
            .filter(|(_, test)| matches!(**test, "-exec" | "-execdir" | "-ok" | "-okdir"));
        for (at, _) in starts {
            let command: Vec<&str> = search.expression[at + 1..]
                .iter()
                .copied()
                .take_while(|word| !matches!(*word, ";" | "+"))
                .collect();
            let below = finds.iter().map(|path| Some(path.as_str()));
            let below: Vec<Option<&str>> = if finds.is_empty() {
                vec![None]
            } else {
                below.collect()
            };
            for deletes_below in below {
                let inside = Looking {
                    deletes_below,
                    ..self
                };
                if let Some(reason) = inside.at(&command) {
                    return Some(reason);
                }
            }
        }
        None
    }
}
