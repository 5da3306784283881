//! `content_search`: lines of files that hold a text or match a regular expression.
//!
//! Matching takes time linear in the text, whatever the expression. Files are searched by several
//! threads; the answer is the same as if one had searched them in the order of their paths.

mod found;
mod look;

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fermix_capability::{Audience, CallContext, Capability, RegistrationError};
use fermix_sandbox::{FileError, Sandbox, Scope, Stopped, WalkOptions};
use fermix_types::{Category, PolicyClass, ToolError, ToolOutput, ToolResult};
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::found::Found;
use self::look::{Looker, Skipped};
use super::searching::{clamped, clamped_results, start, threads, unseen, wants_git};
use crate::blocking::blocking;
use crate::scope::sandbox_scope;

/// The default and the most of `timeout_ms` (spec/02 §4.6).
const DEFAULT_TIMEOUT_MS: i64 = 30_000;
const MAX_TIMEOUT_MS: i64 = 120_000;
/// The most lines of context on each side.
const MAX_CONTEXT: i64 = 5;
/// The most entries one search looks at.
const MAX_ENTRIES: usize = 1_000_000;

/// Search in files, line by line. Gives `{"matches":[{"path","line","text"}],"truncated"}`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Text to find, case-sensitive.
    #[schemars(length(min = 1))]
    pattern: String,
    /// Folder or file. Default: the working directory.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// `pattern` is a regular expression; `(?i)` ignores case.
    regex: Option<bool>,
    /// Only files like this, e.g. `*.rs`, `src/**`.
    #[schemars(length(min = 1))]
    glob: Option<String>,
    /// Lines around each match, 0-5.
    context: Option<i64>,
    /// Leave out what `.gitignore` names.
    respect_gitignore: Option<bool>,
    /// 1-1000. Default 200.
    max_results: Option<i64>,
    /// Default 30000.
    timeout_ms: Option<i64>,
}

/// The capability over `sandbox`.
pub fn capability(sandbox: Sandbox) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "content_search",
        PolicyClass::ReadOnly,
        Category::File,
        Audience::OwnerOnly,
    )
    .when_to_use("Find where something is said in files; to find files by name, use `glob_search`.")
    .example(
        json!({"pattern": "fn main", "glob": "*.rs"}),
        "Every line of a Rust file that holds `fn main`.",
    )
    .failure("invalid_regex", "The pattern is not a regular expression this search knows.")
    .failure("invalid_pattern", "The pattern has a line break, or `glob` is not a glob.")
    .failure("invalid_path", "The path has a `..` component or cannot be resolved.")
    .failure("invalid_working_dir", "There is no working directory; give `path`.")
    .failure("not_found", "Nothing has the name `path`.")
    .failure("not_regular_file", "`path` names a FIFO, a device or a socket.")
    .failure("io_failed", "The file `path` names could not be read; the message says why.")
    .failure(
        "sandbox_denied",
        "The path is outside the sandbox roots, protected or blocked; the message names the remedy.",
    )
    .failure("stopped", "The turn was stopped, or fermix is shutting down.")
    // The search ends itself before this, with what it found.
    .deadline(Duration::from_millis(MAX_TIMEOUT_MS as u64) + Duration::from_secs(10))
    .handler(move |args: Args, context| run(sandbox.clone(), args, context))
}

async fn run(sandbox: Sandbox, args: Args, context: CallContext) -> ToolResult {
    let scope = sandbox_scope(&context);
    blocking(move || search(&sandbox, &args, &scope, context.max_output)).await
}

fn search(sandbox: &Sandbox, args: &Args, scope: &Scope, max_output: usize) -> ToolResult {
    let (max_results, results_note) = clamped_results(args.max_results);
    let (timeout_ms, timeout_note) = clamped(
        "timeout_ms",
        args.timeout_ms,
        DEFAULT_TIMEOUT_MS,
        1..=MAX_TIMEOUT_MS,
    );
    let deadline = Instant::now() + Duration::from_millis(timeout_ms as u64);
    let (context, context_note) = clamped("context", args.context, 0, 0..=MAX_CONTEXT);
    let filter = args.glob.as_deref().map(compiled).transpose()?;
    let looker = Looker::new(
        &args.pattern,
        args.regex.unwrap_or(false),
        context,
        deadline,
        scope.cancel.clone(),
    )?;
    let root = start(sandbox, args.path.as_deref(), scope)?;
    let is_folder = root.is_dir();
    let base = root.path().to_owned();
    let found = Found::new(max_results);
    let skipped = Skipped::default();
    // Of a folder's files, those that cannot be read are left out. The one file that was asked for
    // is what the call is about.
    let refusal: Mutex<Option<FileError>> = Mutex::default();
    let options = WalkOptions {
        respect_gitignore: args.respect_gitignore.unwrap_or(false),
        max_depth: None,
        include_git: wants_git(args.glob.as_deref(), &base),
        deadline,
        max_entries: MAX_ENTRIES,
        threads: threads(),
    };
    let summary = sandbox.batch(root, scope).walk(&options, &|file| {
        let below = file.path().strip_prefix(&base).unwrap_or(file.path());
        let is_wanted = !is_folder || filter.as_ref().is_none_or(|filter| filter.is_match(below));
        if is_wanted && found.may_hold(file.path()) {
            match file.open() {
                Ok(opened) => {
                    if let Some(matches) = looker.look(opened, max_results, &skipped) {
                        found.add(file.path(), matches);
                    }
                }
                Err(_) if is_folder => skipped.unreadable(),
                Err(error) => {
                    *refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = refusal.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error.into());
    }
    let timed_out = summary.stopped == Some(Stopped::Deadline) || looker.is_timed_out();
    let unseen = unseen(&summary)?;
    if scope.cancel.is_cancelled() {
        return Err(ToolError::new("stopped", "stopped before it finished"));
    }
    let is_partial = timed_out || !unseen.is_empty();
    let mut notes: Vec<String> = [results_note, timeout_note, context_note]
        .into_iter()
        .flatten()
        .collect();
    if timed_out && summary.stopped != Some(Stopped::Deadline) {
        notes.push("truncated: the time was up; search a narrower `path`".to_owned());
    }
    notes.extend(unseen);
    notes.extend(skipped.notes());
    let (answer, cut) = found.into_answer(is_partial, timed_out, max_output);
    notes.extend(cut);
    let mut output = ToolOutput::json(&answer);
    output.notes = notes;
    Ok(output)
}

/// A filter on the path below the start. Without a `/` it is a filter on the file's name.
fn compiled(glob: &str) -> Result<GlobMatcher, ToolError> {
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    let whole = if glob.contains('/') {
        glob.to_owned()
    } else {
        format!("**/{glob}")
    };
    GlobBuilder::new(&whole)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| ToolError::new("invalid_pattern", format!("invalid_pattern: {error}")))
}
