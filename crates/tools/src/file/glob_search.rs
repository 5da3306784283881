//! `glob_search`: files by name.

use std::collections::BinaryHeap;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fermix_capability::{Audience, CallContext, Capability, RegistrationError};
use fermix_sandbox::{ReadablePath, Sandbox, Scope, WalkOptions};
use fermix_types::{Category, PolicyClass, ToolError, ToolOutput, ToolResult};
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::searching::{clamped_results, climbs, fitting, start, threads, unseen, wants_git};
use crate::blocking::blocking;
use crate::scope::sandbox_scope;

/// How long a walk may take, and how many entries it looks at (spec/02 §4.5).
const WALK_TIME: Duration = Duration::from_secs(10);
const MAX_ENTRIES: usize = 200_000;
/// The longest pattern, in bytes; matching is linear in it.
const MAX_PATTERN: usize = 4 * 1024;

/// Find files by name. Gives a JSON array of absolute paths, sorted.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Glob on the path below `path`, e.g. `**/*.rs`, `src/*.{ts,tsx}`.
    #[schemars(length(min = 1))]
    pattern: String,
    /// Folder to search. Default: the working directory.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// Leave out what `.gitignore` names.
    respect_gitignore: Option<bool>,
    /// 1-1000. Default 200.
    max_results: Option<i64>,
}

/// The capability over `sandbox`.
pub fn capability(sandbox: Sandbox) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "glob_search",
        PolicyClass::ReadOnly,
        Category::File,
        Audience::OwnerOnly,
    )
    .when_to_use("Find or list files by name; to find files by what they hold, use `content_search`.")
    .example(
        json!({"pattern": "**/*.md", "path": "docs"}),
        "Every Markdown file below `docs`.",
    )
    .failure(
        "invalid_pattern",
        "The pattern is not a glob, is absolute, or has a `..` component.",
    )
    .failure("invalid_path", "The path has a `..` component or cannot be resolved.")
    .failure("invalid_working_dir", "There is no working directory; give `path`.")
    .failure("not_found", "Nothing has the name `path`.")
    .failure("not_a_directory", "`path` names a file.")
    .failure(
        "sandbox_denied",
        "The path is outside the sandbox roots, protected or blocked; the message names the remedy.",
    )
    .failure("stopped", "The turn was stopped, or fermix is shutting down.")
    .handler(move |args: Args, context| run(sandbox.clone(), args, context))
}

async fn run(sandbox: Sandbox, args: Args, context: CallContext) -> ToolResult {
    let scope = sandbox_scope(&context);
    blocking(move || search(&sandbox, &args, &scope, context.max_output)).await
}

fn search(sandbox: &Sandbox, args: &Args, scope: &Scope, max_output: usize) -> ToolResult {
    let pattern = args.pattern.strip_prefix("./").unwrap_or(&args.pattern);
    let matcher = compiled(pattern)?;
    let (max_results, clamp) = clamped_results(args.max_results);
    let root = start(sandbox, args.path.as_deref(), scope)?;
    if !root.is_dir() {
        return Err(ToolError::new(
            "not_a_directory",
            format!(
                "{} is a file; search the folder it lies in",
                root.path().display()
            ),
        ));
    }
    let base = root.path().to_owned();
    let found = Mutex::new(First::new(max_results));
    let mut notes: Vec<String> = clamp.into_iter().collect();
    let respect_gitignore = args.respect_gitignore.unwrap_or(false);
    let start = if respect_gitignore {
        // A folder further down may be one that is left out, which only the way to it tells.
        Some((root, 0))
    } else {
        narrowed(sandbox, root, pattern, scope)
    };
    if let Some((start, levels)) = start {
        let options = WalkOptions {
            respect_gitignore,
            max_depth: deepest(pattern).map(|deepest| deepest.saturating_sub(levels)),
            include_git: wants_git(Some(pattern), &base),
            deadline: Instant::now() + WALK_TIME,
            max_entries: MAX_ENTRIES,
            threads: threads(),
        };
        let summary = sandbox.batch(start, scope).walk(&options, &|file| {
            let below = file.path().strip_prefix(&base).unwrap_or(file.path());
            if matcher.is_match(below) && file.is_permitted() {
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.add(file.path());
            }
            ControlFlow::Continue(())
        })?;
        notes.extend(unseen(&summary)?);
    }
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let total = found.total;
    let mut paths = found.sorted();
    let sizes = paths.iter().map(|path| json!(path).to_string().len() + 1);
    let fitting = fitting(sizes, max_output);
    paths.truncate(fitting);
    if paths.len() < total {
        notes.push(format!(
            "truncated: the first {} of {total} files are shown; narrow `pattern` or `path`, or raise `max_results`",
            paths.len()
        ));
    }
    let mut output = ToolOutput::json(&paths);
    output.notes = notes;
    Ok(output)
}

fn compiled(pattern: &str) -> Result<GlobMatcher, ToolError> {
    let refused =
        |why: String| ToolError::new("invalid_pattern", format!("invalid_pattern: {why}"));
    if pattern.is_empty() || pattern.len() > MAX_PATTERN {
        return Err(refused(format!("a pattern has 1 to {MAX_PATTERN} bytes")));
    }
    if pattern.starts_with('/') || pattern.starts_with("~/") {
        return Err(refused(format!(
            "`{pattern}` is absolute; give the folder as `path` and the rest as `pattern`"
        )));
    }
    if climbs(pattern) {
        return Err(refused(format!(
            "`{pattern}` has a `..` component; give the folder as `path`"
        )));
    }
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| refused(error.to_string()))
}

/// How many components a match has at most; nothing when the pattern does not bound them. The `/`
/// inside alternatives are all counted, of which each match needs only some.
fn deepest(pattern: &str) -> Option<usize> {
    (!pattern.contains("**")).then(|| pattern.split('/').count())
}

/// The folder every match lies in: `root`, or the folder that the first plain components of the
/// pattern name, and how many levels it lies below `root`. Nothing when that folder does not exist, may not be read, or is a link, which the
/// walk would not have entered.
fn narrowed(
    sandbox: &Sandbox,
    root: ReadablePath,
    pattern: &str,
    scope: &Scope,
) -> Option<(ReadablePath, usize)> {
    let mut parts: Vec<&str> = pattern.split('/').collect();
    parts.pop();
    let plain: PathBuf = parts
        .into_iter()
        .take_while(|part| !part.is_empty() && !part.contains(['*', '?', '[', ']', '{', '}', '\\']))
        .collect();
    if plain.as_os_str().is_empty() {
        return Some((root, 0));
    }
    let levels = plain.components().count();
    let folder = root.path().join(plain);
    let narrowed = sandbox.readable(folder.to_str()?, scope).ok()?;
    (narrowed.is_dir() && narrowed.path() == folder).then_some((narrowed, levels))
}

/// The first paths in the order of their bytes, whatever order they come in.
struct First {
    most: usize,
    total: usize,
    kept: BinaryHeap<OsString>,
}

impl First {
    fn new(most: usize) -> Self {
        Self {
            most,
            total: 0,
            kept: BinaryHeap::with_capacity(most + 1),
        }
    }

    fn add(&mut self, path: &Path) {
        self.total += 1;
        let is_full = self.kept.len() >= self.most;
        if is_full
            && self
                .kept
                .peek()
                .is_some_and(|last| last.as_bytes() <= path.as_os_str().as_bytes())
        {
            return;
        }
        self.kept.push(path.as_os_str().to_owned());
        if is_full {
            self.kept.pop();
        }
    }

    fn sorted(self) -> Vec<String> {
        self.kept
            .into_sorted_vec()
            .into_iter()
            .map(|path| path.to_string_lossy().into_owned())
            .collect()
    }
}
