//! Pages of `docs/` that are written from the code.

use std::fs;
use std::path::Path;

use crate::TaskError;

/// One generated page.
pub struct GeneratedPage {
    /// Where it lives, relative to the workspace.
    pub path: &'static str,
    /// Renders it.
    pub render: fn() -> String,
}

/// Every generated page. A new one is a line here.
pub const PAGES: &[GeneratedPage] = &[
    GeneratedPage {
        path: "docs/configuration.md",
        render: fermix_config::schema::render_markdown,
    },
    GeneratedPage {
        path: "docs/tools.md",
        render: tools,
    },
];

/// The tools of a fresh home, as the registry has them.
fn tools() -> String {
    let home = fermix_testkit::TestHome::new();
    fermix_daemon::inspect::tools_reference(&home.fermix_home(), home.os_home())
        .expect("a fresh home has everything the built-in tools need")
}

/// The pages whose file is missing or differs from what the code says.
pub fn stale<'a>(root: &Path, pages: &'a [GeneratedPage]) -> Vec<&'a GeneratedPage> {
    pages
        .iter()
        .filter(|page| {
            fs::read_to_string(root.join(page.path)).ok().as_deref() != Some(&(page.render)())
        })
        .collect()
}

/// Names the stale pages. True when there are none.
///
/// # Errors
/// Never; the signature is that of a task.
pub fn print_stale(root: &Path) -> Result<bool, TaskError> {
    let stale = stale(root, PAGES);
    for page in &stale {
        println!("{} is out of date; run `cargo xtask docgen`", page.path);
    }
    Ok(stale.is_empty())
}

/// Writes the stale pages and names them.
///
/// # Errors
/// When a page cannot be written.
pub fn write(root: &Path) -> Result<bool, TaskError> {
    for page in stale(root, PAGES) {
        let path = root.join(page.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(TaskError::file(folder))?;
        }
        fs::write(&path, (page.render)()).map_err(TaskError::file(&path))?;
        println!("wrote {}", page.path);
    }
    Ok(true)
}
