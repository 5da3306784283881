//! Files that something runs without being asked again: build files, hooks, scripts, settings of
//! tools. Writing one is running code at somebody else's time.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path};

/// Files that build tools, editors, shells and services read as programs, in small letters.
const NAMES: &[&str] = &[
    "makefile",
    "gnumakefile",
    "justfile",
    "rakefile",
    "gemfile",
    "vagrantfile",
    "dockerfile",
    "containerfile",
    "jenkinsfile",
    "procfile",
    "tiltfile",
    "cmakelists.txt",
    "meson.build",
    "build.rs",
    "cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "conftest.py",
    "noxfile.py",
    "tox.ini",
    "sitecustomize.py",
    "usercustomize.py",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "pom.xml",
    "composer.json",
    "mix.exs",
    "build.zig",
    "docker-compose.yml",
    "docker-compose.yaml",
    "compose.yml",
    "compose.yaml",
    "flake.nix",
    "default.nix",
    "shell.nix",
    "taskfile.yml",
    "configure",
    "skill.md",
    "agents.md",
    "claude.md",
];

/// Kinds of files that are programs.
const EXTENSIONS: &[&str] = &[
    "sh", "bash", "zsh", "fish", "ksh", "csh", "ps1", "bat", "cmd", "command", "desktop",
    "service", "timer", "socket", "plist", "pth", "mk", "cmake", "so", "dylib", "dll",
];

/// Whether something runs `path`, a canonical one, without being asked again. A file of a tool's
/// settings, which begins with a dot or lies in a folder that does, counts: what such files may
/// hold is not ours to know.
pub(super) fn is_run_later(path: &Path) -> bool {
    let folders = path.parent().into_iter().flat_map(Path::components);
    let in_hidden_folder = folders
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy()),
            _ => None,
        })
        // The Fermix home begins with a dot, and its workspace is where ordinary work is done.
        .any(|name| name.starts_with('.') && name != "." && !name.starts_with(".fermix"));
    let Some(name) = path.file_name() else {
        return true;
    };
    let name = name.to_string_lossy().to_lowercase();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    in_hidden_folder
        || name.starts_with('.')
        || NAMES.contains(&name.as_str())
        || EXTENSIONS.contains(&extension)
        || name.starts_with("dockerfile.")
        || path
            .components()
            .any(|part| part.as_os_str() == "hooks" || part.as_os_str() == "skills")
        || is_executable(path)
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_later_is_told_from_text() {
        for path in [
            "/w/Makefile",
            "/w/build.rs",
            "/w/.git/hooks/pre-commit",
            "/w/.github/workflows/ci.yml",
            "/w/.envrc",
            "/w/run.sh",
            "/w/.vscode/tasks.json",
            "/w/Dockerfile.dev",
            "/h/.bashrc",
            "/h/.fermix/skills/x/SKILL.md",
        ] {
            assert!(is_run_later(Path::new(path)), "{path}");
        }
        for path in [
            "/w/notes.md",
            "/w/src/main.rs",
            "/w/data.json",
            "/h/.fermix/workspace/out.txt",
        ] {
            assert!(!is_run_later(Path::new(path)), "{path}");
        }
    }
}
