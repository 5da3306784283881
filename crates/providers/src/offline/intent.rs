//! From words to what the person wants.
//!
//! A request is cut into clauses at connecting words, and each clause is read by itself. Looking
//! is read generously, changing strictly: a write or a command needs an imperative, quoted text,
//! and no word left over that might have meant something else.

pub(super) mod change;
mod clause;
mod define;
pub(super) mod find;
pub(super) mod follow;
pub(super) mod look;
mod place;
mod quality;
pub(super) mod search;
mod shell;
mod talk;

use fermix_types::text::shortened;
use serde_json::{Map, Value};

use super::choose;
use super::reply;
use super::toolbox::Toolbox;
use super::values::is_path;
use super::words::{Word, spoken};

/// The most clauses of one request.
const MAX_CLAUSES: usize = 8;
/// The most of a clause that an answer repeats, in bytes.
const MAX_QUOTED: usize = 200;
/// How many connecting words are tried for each; prose has many and none of them matters.
const MAX_CONNECTIONS: usize = 12;

/// A file somebody wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Named by its path.
    Path(String),
    /// Named by a word such as "readme": the usual name, and the glob when it has another.
    Usual(&'static str, &'static str),
    /// Named by something that may be part of its name.
    Named(String),
    /// What the clause before was about.
    Previous,
    /// What tells what the folder is: its readme, else what is in it.
    Project,
}

/// Which lines of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lines {
    /// All of it.
    #[default]
    All,
    /// From one line on, at most so many when that is known.
    From(u64, Option<u64>),
    /// The last so many.
    Last(u64),
}

/// What of a search is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The lines.
    Lines,
    /// The files.
    Files,
    /// How many.
    Count,
}

/// What the person wants.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Intent {
    Greeting,
    Thanks,
    Goodbye,
    /// "Ok", "please".
    Nod,
    /// "What can you do?"
    Help,
    /// "Who are you?", "How do I connect a model?"
    Identity,
    /// Something that needs judgement.
    Judgement,
    /// Nothing that makes sense here.
    Unclear(Vec<Word>),
    /// Understood well enough to say why nothing is done.
    Declined(String),
    /// How to use one tool.
    ToolHelp(String),
    Read {
        targets: Vec<Target>,
        lines: Lines,
        /// Words that were not understood.
        left_over: String,
        /// More was asked for than to show the file.
        needs_judgement: bool,
    },
    List {
        folder: Option<String>,
        deep: bool,
    },
    Find(find::Find),
    Search(search::Search),
    CountLines(Target),
    Write {
        path: String,
        content: String,
        /// Only when there is no such file yet.
        only_new: bool,
    },
    Edit {
        path: String,
        old: String,
        new: String,
        all: bool,
    },
    Append {
        path: String,
        text: String,
    },
    Run {
        command: String,
        folder: Option<String>,
    },
    /// A tool without a grammar of its own, with its arguments.
    Tool {
        name: String,
        arguments: Map<String, Value>,
    },
    /// No tool on offer fits, but there are others that can be searched.
    FindTool(Vec<Word>),
}

impl Intent {
    /// Whether carrying it out changes something.
    pub(super) fn acts(&self) -> bool {
        match self {
            Self::Write { .. }
            | Self::Edit { .. }
            | Self::Append { .. }
            | Self::Run { .. }
            | Self::Tool { .. }
            | Self::FindTool(_) => true,
            Self::Greeting
            | Self::Thanks
            | Self::Goodbye
            | Self::Nod
            | Self::Unclear(_)
            | Self::Help
            | Self::Identity
            | Self::Judgement
            | Self::Declined(_)
            | Self::ToolHelp(_)
            | Self::Read { .. }
            | Self::List { .. }
            | Self::Find(_)
            | Self::Search(_)
            | Self::CountLines(_) => false,
        }
    }

    /// Whether it continues with what the clause before found.
    pub(super) fn needs_previous(&self) -> bool {
        match self {
            Self::Read { targets, .. } => targets.contains(&Target::Previous),
            Self::CountLines(target) => *target == Target::Previous,
            _ => false,
        }
    }

    /// Whether a clause that reads so was understood.
    fn is_understood(&self) -> bool {
        !matches!(
            self,
            Self::Judgement | Self::Unclear(_) | Self::Declined(_) | Self::FindTool(_)
        )
    }

    /// Whether carrying it out changes something for sure, so that a question must not.
    fn changes(&self) -> bool {
        match self {
            Self::Write { .. } | Self::Edit { .. } | Self::Append { .. } | Self::Run { .. } => true,
            Self::Tool { name, .. } => choose::acts(name),
            _ => false,
        }
    }

    /// Whether it is manners and nothing else.
    fn is_manners(&self) -> bool {
        matches!(
            self,
            Self::Greeting | Self::Thanks | Self::Goodbye | Self::Nod
        )
    }
}

/// One part of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) intent: Intent,
    /// The words it came from.
    pub(super) said: String,
}

/// Reads a request. `earlier` is the file that the person spoke of before.
pub(super) fn parse(words: &[Word], earlier: Option<&str>, toolbox: &Toolbox<'_>) -> Vec<Step> {
    let words = follow::with_names(words, earlier);
    let mut steps: Vec<Step> = Vec::new();
    if words.is_empty() {
        steps.push(Step {
            intent: Intent::Help,
            said: String::new(),
        });
    }
    let mut rest = words.as_slice();
    while !rest.is_empty() && steps.len() < MAX_CLAUSES {
        let (clause, after) = next_clause(rest, toolbox);
        rest = after;
        for words in search::each_text(clause) {
            let intent = read_clause(&words, toolbox);
            // Thanks behind a request ask for nothing.
            if intent.is_manners() && !steps.is_empty() {
                continue;
            }
            steps.push(Step {
                intent: continued(intent, &words, steps.last()),
                said: spoken(&words),
            });
        }
    }
    if !rest.is_empty() {
        steps.push(Step {
            intent: Intent::Declined(format!(
                "I take at most {MAX_CLAUSES} steps in one message; please send the rest as another one."
            )),
            said: spoken(rest),
        });
    }
    whole_or_nothing(steps)
}

/// A request that changes something is carried out as a whole or not at all: the part that was not
/// understood may be the condition for the rest.
fn whole_or_nothing(steps: Vec<Step>) -> Vec<Step> {
    let changes = steps.iter().any(|step| step.intent.changes());
    let unclear = steps.iter().find(|step| !step.intent.is_understood());
    let (true, Some(step)) = (changes, unclear) else {
        return steps;
    };
    let why = match &step.intent {
        Intent::Declined(words) => words.clone(),
        _ => "Leave that part out, or say it differently.".to_owned(),
    };
    vec![Step {
        said: spoken_steps(&steps),
        intent: Intent::Declined(format!(
            "I did not do any of it, because of this part: \"{}\". {why}",
            shortened(&step.said, MAX_QUOTED)
        )),
    }]
}

fn spoken_steps(steps: &[Step]) -> String {
    let said: Vec<&str> = steps.iter().map(|step| step.said.as_str()).collect();
    said.join("; ")
}

/// "Show me the files" behind a search means the files that were found.
fn continued(intent: Intent, words: &[Word], before: Option<&Step>) -> Intent {
    // What was just shown needs not be shown again to say that it cannot be judged.
    if let (
        Intent::Read {
            targets,
            needs_judgement: true,
            ..
        },
        Some(Intent::Read { .. }),
    ) = (&intent, before.map(|step| &step.intent))
        && *targets == [Target::Previous]
    {
        return Intent::Declined(reply::only_shown().to_owned());
    }
    let has_found =
        before.is_some_and(|step| matches!(step.intent, Intent::Find(_) | Intent::Search(_)));
    let points_back = matches!(intent, Intent::List { folder: None, .. })
        && words.windows(2).any(|pair| {
            pair[0].is_one_of(&["the", "those", "these"]) && pair[1].is_one_of(&["file", "files"])
        });
    if !(has_found && points_back) {
        return intent;
    }
    Intent::Read {
        targets: vec![Target::Previous],
        lines: Lines::All,
        left_over: String::new(),
        needs_judgement: false,
    }
}

/// The first clause, and what follows it. A connecting word only separates clauses when the left
/// side makes sense by itself and the right side does too, or at least begins like a request:
/// "search for read and write" is one.
fn next_clause<'a>(words: &'a [Word], toolbox: &Toolbox<'_>) -> (&'a [Word], &'a [Word]) {
    let connections = (1..words.len())
        .filter_map(|at| Some((at, clause::connector_end(words, at)?)))
        .take(MAX_CONNECTIONS);
    for (at, after) in connections {
        let (left, right) = (&words[..at], &words[after..]);
        if right.is_empty() {
            continue;
        }
        let left_reads = match by_grammar(left, toolbox) {
            // Manners before a request belong to it.
            Some(intent) => intent.is_understood() && !intent.is_manners(),
            None => false,
        };
        if !left_reads {
            continue;
        }
        let tail = words[at - 1].tail;
        let ends_sentence = matches!(tail, Some('.' | '!' | '?'));
        if ends_sentence || clause::is_step(right) {
            return (left, right);
        }
        // "Find a.txt and b.txt" names one more file; it does not ask to see it.
        let names_only = right.iter().all(|word| {
            word.is_quoted() || is_path(&word.text) || word.is_one_of(&["and", "or", "then"])
        });
        if names_only {
            continue;
        }
        let right_reads = (1..=right.len())
            .filter(|end| *end == right.len() || clause::connector_end(right, *end).is_some())
            .take(MAX_CONNECTIONS)
            .chain(std::iter::once(right.len()))
            .any(|end| {
                by_grammar(&right[..end], toolbox).is_some_and(|intent| {
                    // "search for ok and thanks" looks for both words.
                    intent.is_understood() && (tail.is_some() || !intent.is_manners())
                })
            });
        if right_reads {
            return (left, right);
        }
    }
    (words, &[])
}

/// Whether `words` as a whole are understood without guessing.
pub(super) fn is_clear(words: &[Word], toolbox: &Toolbox<'_>) -> bool {
    by_grammar(words, toolbox).is_some_and(|intent| intent.is_understood() && !intent.is_manners())
}

fn read_clause(words: &[Word], toolbox: &Toolbox<'_>) -> Intent {
    by_grammar(words, toolbox)
        .unwrap_or_else(|| choose::ranked(clause::without_politeness(words), toolbox))
}

/// What the clause says by the grammar; `None` when the grammar does not know.
fn by_grammar(words: &[Word], toolbox: &Toolbox<'_>) -> Option<Intent> {
    if let Some(intent) = talk::whole(words) {
        return Some(intent);
    }
    let said = words;
    let words = clause::without_politeness(words);
    if words.is_empty() {
        return Some(Intent::Nod);
    }
    if clause::is_negated(words) {
        return Some(Intent::Declined(
            "Understood: I leave that alone and have done nothing.".to_owned(),
        ));
    }
    let intent = talk::asked(words, toolbox)
        .or_else(|| choose::named(words, toolbox))
        .or_else(|| shell::read(words))
        .or_else(|| change::read(words))
        .or_else(|| quality::read(words))
        .or_else(|| search::read(words))
        .or_else(|| find::read(words))
        .or_else(|| look::read(words))?;
    let is_question = words.last().is_some_and(|last| last.tail == Some('?'));
    if intent.changes() && is_question && !clause::asks_politely(said) {
        return Some(Intent::Declined(format!(
            "That is a question, so I did nothing. To have it done, say it without the question mark: {}",
            shortened(&spoken(words), MAX_QUOTED)
        )));
    }
    Some(match unheard(&intent, words) {
        Some(word) => Intent::Declined(format!(
            "I did not understand what \"{}\" is for in \"{}\", so I did nothing. One request at a time is safest.",
            shortened(&word.text, MAX_QUOTED),
            shortened(&spoken(words), MAX_QUOTED)
        )),
        None => intent,
    })
}

/// A quoted piece that `intent` has no use for. Somebody who quotes means something by it.
fn unheard<'a>(intent: &Intent, words: &'a [Word]) -> Option<&'a Word> {
    let takes = |text: &str| match intent {
        Intent::Search(search) => {
            search.pattern.contains(text)
                || search.path.as_deref() == Some(text)
                || search
                    .definition_of
                    .as_ref()
                    .is_some_and(|name| text.contains(name.as_str()))
        }
        Intent::Find(find) => find.wanted.contains(text) || find.folder.as_deref() == Some(text),
        Intent::List { folder, .. } => folder.as_deref() == Some(text),
        Intent::CountLines(target) => is_target(target, text),
        Intent::Read { targets, .. } => targets.iter().any(|target| is_target(target, text)),
        // These forms are matched to their last word.
        _ => true,
    };
    words
        .iter()
        .find(|word| word.is_quoted() && !takes(&word.text))
}

fn is_target(target: &Target, text: &str) -> bool {
    matches!(target, Target::Path(name) | Target::Named(name) if name == text)
        || matches!(target, Target::Usual(..))
}
