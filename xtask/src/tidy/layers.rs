//! Which crate may use which: the table of the design, over `cargo metadata`.

use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

use super::Problem;
use crate::TaskError;

/// What every package of the product is called before its folder's name.
const PREFIX: &str = "fermix-";

/// Test support: a dev-dependency of anyone, a dependency of nobody.
const TEST_SUPPORT: &str = "testkit";

/// This tool: uses what it likes, used by nobody.
const TOOL: &str = "xtask";

/// What a crate may use.
enum Reach {
    /// Every crate of a lower layer.
    Lower,
    /// Every crate up to this layer.
    UpTo(u8),
    /// These and no others.
    Only(&'static [&'static str]),
}

/// One row: layer, crate, reach. The same layer is never in reach.
const LAYERS: &[(u8, &str, Reach)] = &[
    (0, "types", Reach::Lower),
    (1, "api", Reach::Lower),
    (1, "archive", Reach::Lower),
    (1, "config", Reach::Lower),
    (1, "net", Reach::Lower),
    (1, "sandbox", Reach::Lower),
    (1, "search", Reach::Lower),
    (1, "secrets", Reach::Lower),
    (1, "store", Reach::Lower),
    (2, "capability", Reach::Only(&["types", "search"])),
    (3, "approvals", Reach::Lower),
    (3, "browser", Reach::Lower),
    (3, "harness", Reach::Lower),
    (3, "mcp", Reach::Lower),
    (3, "media", Reach::Lower),
    (3, "memory", Reach::Lower),
    (3, "providers", Reach::UpTo(1)),
    (3, "scheduler", Reach::Lower),
    (3, "skills", Reach::Lower),
    (3, "undo", Reach::Lower),
    (4, "agent", Reach::Lower),
    (4, "plugins", Reach::Lower),
    (4, "tools", Reach::Lower),
    (5, "channels", Reach::UpTo(2)),
    (5, "web", Reach::Lower),
    (6, "daemon", Reach::Lower),
    (7, "cli", Reach::Lower),
];

/// One crate of the workspace using another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency<'a> {
    /// The folder name of the crate that uses.
    pub user: &'a str,
    /// The folder name of the crate that is used.
    pub used: &'a str,
    /// Whether only its tests use it.
    pub in_tests_only: bool,
}

fn layer(name: &str) -> Option<(u8, &'static Reach)> {
    LAYERS
        .iter()
        .find(|(_, row, _)| *row == name)
        .map(|(layer, _, reach)| (*layer, reach))
}

/// Why a dependency is not allowed, or nothing.
pub fn check_dependency(dependency: Dependency<'_>) -> Option<String> {
    let Dependency {
        user,
        used,
        in_tests_only,
    } = dependency;
    if user == TOOL || (used == TEST_SUPPORT && in_tests_only) {
        return None;
    }
    if used == TEST_SUPPORT || used == TOOL {
        return Some(format!("{user} may use {used} in tests only"));
    }
    let Some((used_layer, _)) = layer(used) else {
        return Some(format!(
            "{used} has no layer; add a row to the table of layers"
        ));
    };
    if user == TEST_SUPPORT {
        return (used_layer > 0).then(|| format!("{user} may use types only, not {used}"));
    }
    let Some((user_layer, reach)) = layer(user) else {
        return Some(format!(
            "{user} has no layer; add a row to the table of layers"
        ));
    };
    let in_reach = match reach {
        Reach::Lower => used_layer < user_layer,
        Reach::UpTo(top) => used_layer <= *top,
        // Tests may wire up any lower crate; what ships may not.
        Reach::Only(names) => names.contains(&used) || (in_tests_only && used_layer < user_layer),
    };
    (!in_reach)
        .then(|| format!("{user} (layer {user_layer}) may not use {used} (layer {used_layer})"))
}

/// Checks every crate of the workspace at `root`.
pub(super) fn check(root: &Path) -> Result<Vec<Problem>, TaskError> {
    let metadata = MetadataCommand::new()
        .current_dir(root)
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()?;
    let mut problems = Vec::new();
    for package in metadata.workspace_packages() {
        let manifest = package.manifest_path.as_std_path();
        let path = manifest
            .strip_prefix(root)
            .unwrap_or(manifest)
            .display()
            .to_string();
        let mut flag = |what: String| {
            problems.push(Problem {
                path: path.clone(),
                line: 0,
                what,
            });
        };
        let folder = manifest
            .parent()
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let name = short_name(&package.name);
        if name != folder || (name != TOOL && package.name.as_str() == name) {
            flag(format!(
                "the package of this folder is called {PREFIX}{folder}"
            ));
        }
        if !matches!(name, TOOL | TEST_SUPPORT) && layer(name).is_none() {
            flag(format!(
                "{name} has no layer; add a row to the table of layers"
            ));
        }
        // A dependency inside the workspace has a path, whatever it is called.
        for dependency in package
            .dependencies
            .iter()
            .filter(|used| used.path.is_some())
        {
            let broken = check_dependency(Dependency {
                user: name,
                used: short_name(&dependency.name),
                in_tests_only: dependency.kind == DependencyKind::Development,
            });
            if let Some(what) = broken {
                flag(what);
            }
        }
    }
    Ok(problems)
}

fn short_name(package: &str) -> &str {
    package.strip_prefix(PREFIX).unwrap_or(package)
}
