//! Carries out one intent: asks for the calls it needs and says what came of them.

mod change;
mod files;
mod here;
mod other;

use serde_json::{Map, Value, json};

use super::intent::{Intent, Target};
use super::ledger::{Call, Ledger, Pending};
use super::reply;
use super::toolbox::Toolbox;

/// What came of an intent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) text: String,
    /// Whether it is what was asked for; what depends on it goes on only then.
    pub(super) ok: bool,
    /// The files it was about, the likeliest first.
    pub(super) files: Vec<String>,
}

impl Done {
    fn said(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ok: true,
            files: Vec::new(),
        }
    }

    fn failed(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ok: false,
            files: Vec::new(),
        }
    }

    fn with(mut self, remark: &str) -> Self {
        self.text.push_str("\n\n");
        self.text.push_str(remark);
        self
    }

    fn about(mut self, files: Vec<String>) -> Self {
        self.files = files;
        self
    }
}

type Work = Result<Done, Pending>;

/// What an intent is carried out with.
pub(super) struct Desk<'a, 'b> {
    pub(super) toolbox: &'b Toolbox<'a>,
    pub(super) ledger: &'b mut Ledger<'a>,
    /// The files the clause before was about.
    pub(super) previous: &'b [String],
    /// How much one text may take in the answer, in bytes.
    pub(super) room: usize,
}

impl Desk<'_, '_> {
    /// A call of `tool` with those of `arguments` that the tool knows and that have a value.
    fn call(&self, tool: &str, arguments: &[(&str, Value)]) -> Call {
        let known: Map<String, Value> = arguments
            .iter()
            .filter(|(name, value)| !value.is_null() && self.toolbox.takes(tool, name))
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        Call::new(tool, known)
    }

    fn unavailable(&self, what: &str) -> Work {
        Ok(Done::failed(reply::unavailable(what, self.toolbox)))
    }
}

/// Carries out `intent` as far as the results allow.
pub(super) fn perform(intent: &Intent, desk: &mut Desk<'_, '_>) -> Work {
    match intent {
        Intent::Greeting => Ok(Done::said(reply::greeting())),
        Intent::Thanks => Ok(Done::said(reply::thanks())),
        Intent::Goodbye => Ok(Done::said(reply::goodbye())),
        Intent::Nod => Ok(Done::said(reply::nod())),
        Intent::Unclear(words) => Ok(Done::failed(reply::unclear(words, desk.toolbox))),
        Intent::Help => Ok(Done::said(reply::help(desk.toolbox))),
        Intent::Identity => Ok(Done::said(reply::identity(desk.toolbox))),
        Intent::Judgement => Ok(Done::failed(reply::judgement(desk.toolbox))),
        Intent::Declined(words) => Ok(Done::failed(words.clone())),
        Intent::ToolHelp(name) => other::tool_help(name, desk),
        Intent::Read {
            targets,
            lines,
            left_over,
            needs_judgement,
        } => {
            let shown = files::read(targets, *lines, desk)?;
            // What a folder is may be told by a list, to which the remark would not fit.
            let remarks = *needs_judgement && *targets != [Target::Project];
            Ok(match (shown.ok, remarks, left_over.as_str()) {
                (false, ..) | (true, false, "") => shown,
                (true, true, _) => shown.with(reply::only_shown()),
                (true, false, words) => shown.with(&reply::left_over(words)),
            })
        }
        Intent::List { folder, deep } => files::list(folder.as_deref(), *deep, desk),
        Intent::Find(find) => files::find(find, desk),
        Intent::Search(search) => files::search(search, desk),
        Intent::CountLines(target) => files::count_lines(target, desk),
        Intent::Write {
            path,
            content,
            only_new,
        } => change::write(path, content, *only_new, desk),
        Intent::Edit {
            path,
            old,
            new,
            all,
        } => change::edit(path, old, new, *all, desk),
        Intent::Append { path, text } => change::append(path, text, desk),
        Intent::Run { command, folder } => other::run(command, folder.as_deref(), desk),
        Intent::Tool { name, arguments } => other::tool(name, arguments, desk),
        Intent::FindTool(words) => other::find_tool(words, desk),
    }
}

/// A value, or null when there is none.
fn optional(value: Option<&str>) -> Value {
    value.map_or(Value::Null, |value| json!(value))
}
