//! The one place that names the standard library's way to start a process.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::Access;

/// A command that inherits nothing from this process's environment.
#[expect(
    clippy::disallowed_methods,
    reason = "this crate is where processes are spawned"
)]
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    command
}

/// The executable file called `name`: an absolute path is taken as it is, a bare name is looked up
/// in the folders of `search_path`. Relative paths and relative folders find nothing, because they
/// would mean something else in every working directory.
pub fn find_executable(name: &OsStr, search_path: &OsStr) -> Option<PathBuf> {
    let is_runnable =
        |path: &Path| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok();
    let name = Path::new(name);
    if name.is_absolute() {
        return is_runnable(name).then(|| name.to_owned());
    }
    if name.components().count() != 1 {
        return None;
    }
    std::env::split_paths(search_path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_runnable(candidate))
}
