//! The folders where a supervised daemon also looks for programs: service managers start it with
//! hardly any.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use fermix_config::{Environment, env};

/// `environment` with the baseline behind its own search path: what the owner put first stays first.
pub(super) fn with_search_path(environment: Environment, executable: &Path) -> Environment {
    let given = environment.get_os(env::PATH).map(OsString::from);
    let mut folders: Vec<PathBuf> = given
        .iter()
        .flat_map(|path| std::env::split_paths(path))
        .collect();
    let own = executable.parent().map(Path::to_owned);
    let fixed = ["/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin"].map(PathBuf::from);
    // Homebrew on Linux has one place, in the home of a user of its own.
    let homebrew = Path::new("/home").join("linuxbrew/.linuxbrew/bin");
    let user = environment
        .get_os(env::HOME)
        .map(|home| Path::new(home).join(".local/bin"));
    for folder in own.into_iter().chain(fixed).chain([homebrew]).chain(user) {
        if folder.is_absolute() && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    match std::env::join_paths(folders) {
        Ok(path) => environment.with(env::PATH, path),
        // A folder with a colon in its name cannot be in a search path.
        Err(_) => environment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_comes_last_and_nothing_twice() {
        let environment = Environment::from_pairs([("PATH", "/mine:/bin"), ("HOME", "/owner")]);
        let environment = with_search_path(environment, Path::new("/opt/fermix/bin/fermix"));
        let path = environment.get("PATH").unwrap();
        assert!(
            path.starts_with("/mine:/bin:/opt/fermix/bin:/usr/local/bin:/usr/bin:"),
            "{path}"
        );
        assert!(path.ends_with(":/owner/.local/bin"), "{path}");
        let folders: Vec<_> = path.split(':').collect();
        let once: std::collections::BTreeSet<_> = folders.iter().collect();
        assert_eq!(folders.len(), once.len(), "{path}");
    }
}
