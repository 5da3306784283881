//! Requests that change files or run commands, read strictly.
//!
//! Each form is matched to its last word. A condition, a second thought or anything else that is
//! not part of the form makes the whole clause unintelligible, and the answer says which form
//! would have been understood.

mod parts;

use fermix_types::text::shortened;

use self::parts::Parts;
use super::clause::position;
use super::{Intent, follow};
use crate::offline::values::{familiar, is_path, path_of};
use crate::offline::words::{Word, spoken};

const WRITE_FORM: &str = "write \"the text\" to notes.txt";
const CREATE_FORM: &str = "create a file notes.txt containing \"the text\"";
const EDIT_FORM: &str = "replace \"old text\" with \"new text\" in notes.txt";
const APPEND_FORM: &str = "append \"the text\" to notes.txt";
const RUN_FORM: &str = "run `ls -la`";

const WRITE: [&str; 8] = [
    "write",
    "save",
    "put",
    "store",
    "overwrite",
    "schreibe",
    "schreib",
    "écris",
];
const CREATE: [&str; 6] = ["create", "make", "touch", "erstelle", "crée", "new"];
const EDIT: [&str; 7] = [
    "replace",
    "change",
    "substitute",
    "swap",
    "edit",
    "ersetze",
    "remplace",
];
const APPEND: [&str; 3] = ["append", "add", "prepend"];
const REMOVE: [&str; 4] = ["remove", "delete", "erase", "lösche"];
const RUN: [&str; 7] = [
    "run", "execute", "exec", "launch", "führe", "exécute", "lance",
];
const INTO: [&str; 11] = [
    "to", "in", "into", "as", "inside", "onto", "at", "nach", "dans", "auf", "within",
];

/// The change a clause asks for; `None` when it asks for none.
pub(super) fn read(words: &[Word]) -> Option<Intent> {
    // "Find and replace …" only looks like a search.
    let words = match words {
        [find, and, rest @ ..]
            if find.is("find")
                && and.is("and")
                && rest.first().is_some_and(|word| word.is_one_of(&EDIT)) =>
        {
            rest
        }
        all => all,
    };
    let first = &words[0];
    // "In notes.txt, replace …" and "edit notes.txt: replace …" name the file first.
    if let Some(intent) = file_first(words) {
        return Some(intent);
    }
    if first.is_one_of(&WRITE) {
        // "Write a poem" is not about a file.
        let concerns_files = about_a_file(words) || words.iter().any(Word::is_quoted);
        return write(&words[1..])
            .or_else(|| concerns_files.then(|| declined(words, "write a file", WRITE_FORM)));
    }
    if first.is_one_of(&CREATE) {
        return create(words);
    }
    if first.is_one_of(&EDIT) {
        return edit(&words[1..], None).or_else(|| {
            (about_a_file(words) || words.iter().any(Word::is_quoted))
                .then(|| declined(words, "change a file", EDIT_FORM))
        });
    }
    if first.is_one_of(&APPEND) {
        let appended = (!first.is("prepend"))
            .then(|| append(&words[1..]))
            .flatten();
        return appended.or_else(|| {
            (about_a_file(words) || first.is("append"))
                .then(|| declined(words, "add text to the end of a file", APPEND_FORM))
        });
    }
    if first.is_one_of(&REMOVE) {
        // A part of a file is no file.
        if position(
            words,
            &["line", "lines", "text", "word", "words", "paragraph"],
        )
        .is_some()
            && remove(&words[1..]).is_none()
        {
            return Some(declined(
                words,
                "remove a piece of text",
                "remove \"old text\" from notes.txt",
            ));
        }
        let means_files = about_a_file(words)
            || words[1..].iter().any(|word| {
                word.is_one_of(&["everything", "all", "it", "them", "this"]) || is_path(&word.text)
            });
        return remove(&words[1..]).or_else(|| {
            means_files
                .then(|| command_instead(words, "delete files", "rm"))
                .flatten()
        });
    }
    if first.is_one_of(&RUN) {
        return Some(run(&words[1..]).unwrap_or_else(|| unquoted_command(words)));
    }
    if first.is_one_of(&["rename", "move"]) {
        return about_a_file(words)
            .then(|| command_instead(words, "move or rename files", "mv"))
            .flatten();
    }
    if first.is("compare") {
        return about_a_file(words)
            .then(|| command_instead(words, "compare files", "diff"))
            .flatten();
    }
    if first.is("copy") {
        return about_a_file(words)
            .then(|| command_instead(words, "copy files", "cp"))
            .flatten();
    }
    None
}

/// Says that a form was not met, and which one would be.
fn declined(words: &[Word], what: &str, form: &str) -> Intent {
    if follow::points_nowhere(words) {
        return Intent::Declined(format!(
            "I do not know which file is meant in \"{}\", so I did nothing: I look back only to a message of yours that \
             names exactly one. Name it: {form}",
            said(words)
        ));
    }
    // The name that was given makes the example one that can be sent as it is.
    let named = words
        .iter()
        .rev()
        .find(|word| !word.is_quoted() && is_path(&word.text));
    let form = named.map_or_else(
        || form.to_owned(),
        |name| form.replace("notes.txt", &name.text),
    );
    // Without a quoted text there may be one to be thought up.
    let to_invent = !words.iter().any(Word::is_quoted) && what == "write a file";
    let connect = if to_invent {
        "\n\nI am not a language model, so I make up nothing; ask \"how do I connect a model?\" for one that does."
    } else {
        ""
    };
    Intent::Declined(format!(
        "I did not understand all of \"{}\", so I did nothing. I {what} only when every part is spelled out and the text \
         is quoted. Say it like this: {form}{connect}",
        said(words)
    ))
}

fn said(words: &[Word]) -> String {
    shortened(&spoken(words), 200)
}

/// "Run ls -la" without quotes.
fn unquoted_command(words: &[Word]) -> Intent {
    let command = spoken(&words[1..]);
    let plain = !command.is_empty()
        && words[1..].iter().all(|word| {
            !word.is_quoted()
                && !word.is_one_of(&["the", "a", "my", "tests", "unless", "if", "and", "then"])
                && !word.text.contains('`')
        });
    let form = if plain {
        format!("run `{command}`")
    } else {
        RUN_FORM.to_owned()
    };
    Intent::Declined(format!(
        "I did not understand all of \"{}\", so I did nothing. I run a command only when the whole of it is quoted: {form}",
        said(words)
    ))
}

/// What no tool here does, and the command that does it to the files that were named.
pub(super) fn command_instead(words: &[Word], what: &str, program: &str) -> Option<Intent> {
    let mut named: Vec<&str> = words[1..].iter().filter_map(path_of).collect();
    // A folder may have any name: "copy notes.txt docs".
    if named.len() == 1
        && program != "rm"
        && let Some(last) = words.last()
        && path_of(last).is_none()
        && last
            .text
            .chars()
            .all(|each| each.is_alphanumeric() || matches!(each, '_' | '-'))
        && !last.is_one_of(&["folder", "file", "directory", "there", "somewhere"])
    {
        named.push(&last.text);
    }
    let (wanted, done) = match program {
        "rm" => (1, "deleted"),
        "mv" => (2, "moved"),
        "diff" => (2, "compared"),
        _ => (2, "copied"),
    };
    // A folder that holds everything is not suggested for deletion.
    let is_safe = named.iter().all(|name| {
        name.trim_matches(['/', '.', '~'])
            .chars()
            .any(char::is_alphanumeric)
            && !name.contains(['`', '\'', '\n'])
            && !name.starts_with('-')
    });
    let form = if named.len() == wanted && is_safe {
        let arguments: Vec<String> = named.iter().map(|name| argument(name)).collect();
        format!(
            " A command does it when you quote it: run `{program} {}`",
            arguments.join(" ")
        )
    } else {
        String::new()
    };
    Some(Intent::Declined(format!(
        "I do not {what}, so nothing was {done}.{form}"
    )))
}

/// A name as a shell takes it.
fn argument(name: &str) -> String {
    if name
        .chars()
        .all(|each| each.is_alphanumeric() || matches!(each, '/' | '.' | '_' | '-' | '~' | ':'))
    {
        name.to_owned()
    } else {
        format!("'{name}'")
    }
}

fn about_a_file(words: &[Word]) -> bool {
    words.iter().any(|word| {
        (!word.is_quoted() && is_path(&word.text))
            || word.is_one_of(&["file", "files", "folder"])
            || familiar(word).is_some()
    })
}

fn write(words: &[Word]) -> Option<Intent> {
    let content_first = || {
        let (content, rest) = Parts(words).quoted()?;
        let (path, rest) = rest.word(&INTO)?.path()?;
        rest.end(written(path, content, false))
    };
    let path_first = || {
        let (path, rest) = Parts(words).optional(&INTO).path()?;
        let (content, rest) = with_text(rest)?;
        rest.end(written(path, content, false))
    };
    // "Write this to notes.txt:" with the text in a block.
    let block_last = || {
        let (path, rest) = Parts(words).fillers().word(&INTO)?.path()?;
        let (content, rest) = rest.quoted()?;
        rest.end(written(path, content, false))
    };
    content_first().or_else(path_first).or_else(block_last)
}

fn create(clause: &[Word]) -> Option<Intent> {
    let words = &clause[1..];
    let is_empty = words
        .iter()
        .take(3)
        .any(|word| word.is_one_of(&["empty", "leere"]));
    let is_folder = words
        .iter()
        .take(4)
        .any(|word| word.is_one_of(&["folder", "directory"]));
    let is_file = position(words, &["file", "datei"]).is_some();
    let kept: Vec<Word> = words
        .iter()
        .filter(|word| !word.is_one_of(&["empty", "leere"]))
        .cloned()
        .collect();
    let with_content = || {
        let (path, rest) = Parts(&kept).path()?;
        if is_empty {
            return rest.end(written(path, "", true));
        }
        let (content, rest) = with_text(rest)?;
        rest.end(written(path, content, true))
    };
    let content_in_front = || {
        let (path, rest) = Parts(&kept).fillers().optional(&["in", "at"]).path()?;
        let (content, rest) = rest.quoted()?;
        rest.end(written(path, content, true))
    };
    if is_folder && !is_file {
        let name = words.last().filter(|word| {
            !word.is_one_of(&["folder", "directory", "new", "empty"]) && !word.text.contains('`')
        });
        let form = name.map_or_else(String::new, |name| {
            format!(
                " A command does it when you quote it: run `mkdir {}`",
                argument(&name.text)
            )
        });
        return Some(Intent::Declined(format!(
            "I do not create folders by themselves, so nothing was done; they appear when I write a file into them.{form}"
        )));
    }
    let bare = || {
        let (path, rest) = Parts(&kept).path()?;
        rest.end(written(path, "", true))
    };
    with_content()
        .or_else(content_in_front)
        .or_else(bare)
        .or_else(|| about_a_file(words).then(|| declined(clause, "create a file", CREATE_FORM)))
}

/// "containing", "with the content", "saying", and the text.
fn with_text(parts: Parts<'_>) -> Option<(&str, Parts<'_>)> {
    let parts = parts
        .optional(&["and", "which", "that"])
        .optional(&[
            "containing",
            "with",
            "saying",
            "contains",
            "says",
            "reading",
            "holding",
            "mit",
            "avec",
            "contenant",
            "put",
            "write",
            "and",
        ])
        .fillers()
        .optional(&["in", "it"])
        .optional(&["it"]);
    parts.quoted()
}

fn written(path: &str, content: &str, only_new: bool) -> Intent {
    Intent::Write {
        path: path.to_owned(),
        content: content.to_owned(),
        only_new,
    }
}

const EVERY: [&str; 5] = ["all", "every", "each", "alle", "everywhere"];
const OCCURRENCE: [&str; 6] = [
    "occurrences",
    "occurrence",
    "instances",
    "instance",
    "of",
    "appearance",
];

fn edit(words: &[Word], file: Option<&str>) -> Option<Intent> {
    let (all, parts) = every(Parts(words).fillers());
    let (old, rest) = parts.quoted()?;
    let (new, rest) = rest
        .word(&["with", "by", "to", "into", "for", "durch", "par", "mit"])?
        .quoted()?;
    let (path, rest) = match file {
        Some(path) => (path, rest),
        None => rest
            .word(&["in", "inside", "within", "of", "from", "dans"])?
            .path()?,
    };
    let (everywhere, rest) = every(rest);
    rest.end(edited(path, old, new, all || everywhere))
}

/// Whether every occurrence is meant.
fn every(parts: Parts<'_>) -> (bool, Parts<'_>) {
    let before = parts.0.len();
    let mut parts = parts.optional(&EVERY);
    let all = parts.0.len() < before;
    while all
        && parts
            .0
            .first()
            .is_some_and(|word| word.is_one_of(&OCCURRENCE))
    {
        parts = parts.optional(&OCCURRENCE);
    }
    (all, parts)
}

fn edited(path: &str, old: &str, new: &str, all: bool) -> Intent {
    if old.is_empty() {
        return Intent::Declined(
            "The text to replace is empty; quote the text that is to go.".to_owned(),
        );
    }
    Intent::Edit {
        path: path.to_owned(),
        old: old.to_owned(),
        new: new.to_owned(),
        all,
    }
}

fn remove(words: &[Word]) -> Option<Intent> {
    let (all, parts) = every(Parts(words).fillers());
    let (old, rest) = parts.quoted()?;
    let (path, rest) = rest.word(&["from", "in", "aus"])?.path()?;
    rest.end(edited(path, old, "", all))
}

fn append(words: &[Word]) -> Option<Intent> {
    let text_first = || {
        let (text, rest) = Parts(words).quoted()?;
        let rest = rest.word(&["to", "at", "onto", "an"])?;
        let rest = end_of(rest.fillers());
        let (path, rest) = rest.path()?;
        let rest = end_of(rest.optional(&["at"]).fillers());
        rest.end((path, text))
    };
    let path_first = || {
        let (path, rest) = Parts(words).fillers().word(&["to"])?.path()?;
        let (text, rest) = rest.quoted()?;
        rest.end((path, text))
    };
    let (path, text) = text_first().or_else(path_first)?;
    Some(Intent::Append {
        path: path.to_owned(),
        text: text.to_owned(),
    })
}

fn end_of(parts: Parts<'_>) -> Parts<'_> {
    parts.optional(&["end", "bottom"]).optional(&["of"])
}

fn file_first(words: &[Word]) -> Option<Intent> {
    let (path, rest) = Parts(words)
        .word(&["in", "edit", "open", "inside", "dans"])?
        .path()?;
    let rest = rest.optional(&["and"]);
    let (verb, after) = rest.0.split_first()?;
    verb.is_one_of(&EDIT)
        .then(|| edit(after, Some(path)))
        .flatten()
}

fn run(words: &[Word]) -> Option<Intent> {
    let parts = Parts(words)
        .fillers()
        .optional(&["shell", "terminal", "bash"])
        .optional(&["command", "befehl", "commande"])
        .optional(&["in"])
        .optional(&["shell"]);
    let (command, rest) = parts.quoted()?;
    let rest = rest.optional(&["aus", "command"]);
    let folder = match rest.0 {
        [preposition, ..] if preposition.is_one_of(&["in", "inside", "from", "within"]) => {
            let (folder, after) = Parts(&rest.0[1..])
                .fillers()
                .optional(&["folder", "directory"])
                .folder()?;
            after.end(())?;
            Some(folder.to_owned())
        }
        _ => {
            rest.end(())?;
            None
        }
    };
    if command.trim().is_empty() || command.contains('\0') {
        return None;
    }
    Some(Intent::Run {
        command: command.trim().to_owned(),
        folder,
    })
}
