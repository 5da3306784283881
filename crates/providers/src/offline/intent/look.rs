//! Requests to show a file or a folder.

mod lines;

use self::lines::wanted_lines;
use super::clause::{after_fillers, position, starts_with};
use super::find::object_pattern;
use super::{Intent, Lines, Target, place};
use crate::offline::values::{familiar, is_path, is_url, kind_glob, path_of};
use crate::offline::words::Word;

/// How many files one request shows.
const MAX_TARGETS: usize = 8;

/// Openings that ask to see something, and whether they are only used for files.
const OPENINGS: [(&[&str], bool); 46] = [
    (&["read"], true),
    (&["cat"], true),
    (&["open"], true),
    (&["view"], true),
    (&["print"], true),
    (&["display"], true),
    (&["head"], true),
    (&["tail"], true),
    (&["lies"], true),
    (&["lis"], true),
    (&["ouvre"], true),
    (&["öffne"], true),
    (&["output"], false),
    (&["show", "me"], false),
    (&["show"], false),
    (&["zeige"], false),
    (&["zeig", "mir"], false),
    (&["zeig"], false),
    (&["montre-moi"], false),
    (&["montre"], false),
    (&["affiche"], false),
    (&["let", "me", "see"], false),
    (&["give", "me"], false),
    (&["look", "at"], false),
    (&["look", "into"], false),
    (&["see"], false),
    (&["check"], false),
    (&["get"], false),
    (&["what", "is", "in"], false),
    (&["what", "is", "inside"], false),
    (&["what", "are", "in"], false),
    (&["was", "steht", "in"], false),
    (&["what", "does"], false),
    (&["what", "is"], false),
    (&["what", "are"], false),
    (&["contents", "of"], false),
    (&["content", "of"], false),
    (&["summarise"], false),
    (&["summarize"], false),
    (&["explain"], false),
    (&["describe"], false),
    (&["review"], false),
    (&["analyse"], false),
    (&["analyze"], false),
    (&["tell", "me", "about"], false),
    (&["tell", "me", "what", "is", "in"], false),
];
const JUDGING: [&str; 8] = [
    "summarise",
    "summarize",
    "explain",
    "describe",
    "review",
    "analyse",
    "analyze",
    "tell",
];
/// Words that add nothing to a request to show a file.
const PLAIN: [&str; 53] = [
    "the",
    "a",
    "an",
    "file",
    "files",
    "of",
    "in",
    "me",
    "content",
    "contents",
    "line",
    "lines",
    "first",
    "last",
    "top",
    "bottom",
    "end",
    "beginning",
    "start",
    "from",
    "to",
    "through",
    "and",
    "please",
    "both",
    "my",
    "this",
    "is",
    "are",
    "does",
    "say",
    "contain",
    "what",
    "whole",
    "entire",
    "full",
    "all",
    "text",
    "document",
    "at",
    "until",
    "on",
    "head",
    "tail",
    "named",
    "called",
    "inside",
    "up",
    "-n",
    "datei",
    "die",
    "out",
    "then",
];

/// The request to look at something; `None` when the clause is none.
pub(super) fn read(words: &[Word]) -> Option<Intent> {
    if let Some(intent) = about_project(words) {
        return Some(intent);
    }
    if let Some(intent) = list(words) {
        return Some(intent);
    }
    let unnamed = after_fillers(words, &["the"]);
    let range_first = unnamed
        .first()
        .is_some_and(|first| first.is_one_of(&["lines", "line", "first", "last"]))
        && (wanted_lines(words).0 != Lines::All
            || position(words, &["bytes", "characters"]).is_some());
    let (opening, only_files) = match OPENINGS
        .iter()
        .find(|(opening, _)| starts_with(words, opening))
    {
        Some((opening, only_files)) => (*opening, *only_files),
        None if range_first => (&[] as &[&str], false),
        // A path alone is a request to see it.
        None if words.len() == 1 && !words[0].is_quoted() && is_path(&words[0].text) => {
            (&[] as &[&str], false)
        }
        None => return None,
    };
    let object = &words[opening.len()..];
    if let [only] = after_fillers(object, &["to", "me"])
        && only.is_one_of(&["it", "them", "that", "those", "es", "le", "la"])
    {
        return Some(Intent::Read {
            targets: vec![Target::Previous],
            lines: Lines::All,
            left_over: String::new(),
            needs_judgement: JUDGING.contains(&opening[0]),
        });
    }
    if let Some(unit) = position(words, &["byte", "bytes", "character", "characters"])
        && let Some(file) = object.iter().rev().find_map(path_of)
    {
        return Some(Intent::Declined(format!(
            "I show lines, not {}, so I did nothing. Say it like this: show the first 10 lines of {file}",
            words[unit].text
        )));
    }
    let (lines, numbers) = wanted_lines(words);
    // In a question, something quoted is more often a command or a term than a file.
    let is_question = !only_files
        && opening.first().is_some_and(|first| {
            matches!(
                *first,
                "what" | "explain" | "describe" | "tell" | "check" | "get" | "output"
            )
        })
        && opening != ["what", "is", "in"]
        && opening != ["what", "is", "inside"];
    let says_file = position(object, &["file", "files"]).is_some();
    let reads_like_a_file = |word: &Word| {
        !word.is_quoted()
            || !is_question
            || says_file
            || (is_path(&word.text) && !word.text.contains(' '))
    };
    let mut targets = Vec::new();
    let mut left: Vec<&str> = Vec::new();
    for (at, word) in object.iter().enumerate() {
        let is_number = numbers.contains(&word.text);
        let after_about = at > 0 && object[at - 1].is("about");
        if let Some(path) = path_of(word).filter(|_| !after_about && reads_like_a_file(word)) {
            targets.push(Target::Path(path.to_owned()));
        } else if let Some((name, glob)) = familiar(word) {
            targets.push(Target::Usual(name, glob));
        } else if !(is_number || word.is_one_of(&PLAIN)) {
            left.push(&word.text);
        }
    }
    let shows_one = matches!(opening, ["show"] | ["show", "me"])
        && matches!(object, [only] if !only.is_quoted() && only.text.len() > 2);
    if targets.is_empty() && (only_files || shows_one) {
        let named = after_fillers(object, &["the", "my", "file", "a", "named", "called"]);
        let named = match named {
            [first, last] if last.is_one_of(&["file", "document", "folder", "directory"]) => {
                std::slice::from_ref(first)
            }
            other => other,
        };
        if let [only] = named
            && !only.text.trim().is_empty()
            && !is_url(&only.text)
            && !only.is_one_of(&[
                "everything",
                "it",
                "this",
                "that",
                "files",
                "minds",
                "mind",
                "all",
                "more",
            ])
        {
            targets.push(Target::Named(only.text.clone()));
            left.clear();
        }
    }
    targets.dedup();
    // "Read the file" behind a search means what was found.
    let points_back = !object.is_empty()
        && object.iter().all(|word| {
            word.is_one_of(&[
                "the", "that", "this", "those", "these", "file", "files", "same", "first", "one",
                "ones", "result", "results", "match", "matches", "found", "again", "all", "of",
                "them", "it",
            ])
        })
        && !words.iter().any(|word| word.is("first"));
    if targets.is_empty() && points_back {
        targets.push(Target::Previous);
        left.clear();
    }
    // "What is in data" may be a folder or a file.
    if targets.is_empty()
        && matches!(
            opening,
            ["what", "is", "in" | "inside"] | ["was", "steht", "in"]
        )
        && let [only] = after_fillers(object, &["the", "my", "this", "folder", "directory"])
        && !only.is_quoted()
        && !only.is_one_of(&["it", "there", "here", "store", "stock", "season"])
    {
        targets.push(Target::Named(only.text.clone()));
        left.clear();
    }
    if targets.is_empty() && lines != Lines::All && left.is_empty() {
        targets.push(Target::Previous);
    }
    if targets.is_empty() {
        return None;
    }
    targets.truncate(MAX_TARGETS);
    let asks = |first: &&str| JUDGING.contains(first) || matches!(*first, "what" | "check");
    let judging = opening.first().is_some_and(|first| JUDGING.contains(first))
        || (!left.is_empty() && opening.first().is_some_and(asks));
    Some(Intent::Read {
        targets,
        lines,
        left_over: if judging {
            String::new()
        } else {
            left.join(" ")
        },
        needs_judgement: judging,
    })
}

/// "What does this project do", "summarise this repository", "what is this folder about": the
/// readme says it.
fn about_project(words: &[Word]) -> Option<Intent> {
    let about = position(
        words,
        &[
            "project",
            "repo",
            "repository",
            "codebase",
            "projekt",
            "folder",
            "directory",
        ],
    )?;
    let asks = starts_with(words, &["what", "does"])
        || starts_with(words, &["what", "is"])
        || words[0].is_one_of(&JUDGING)
        || starts_with(words, &["tell", "me", "about"])
        || starts_with(words, &["was", "macht"])
        || starts_with(words, &["give", "me", "an", "overview"]);
    let plainly = words[about + 1..]
        .iter()
        .all(|word| word.is_one_of(&["do", "about", "for", "here", "is", "good"]));
    let pointed = about > 0 && words[about - 1].is_one_of(&["this", "the", "my", "dieses", "our"]);
    // "What is in this folder" asks for its files.
    let inside = position(words, &["in", "inside", "files", "contents"]).is_some();
    (asks && plainly && pointed && !inside).then(|| Intent::Read {
        targets: vec![Target::Project],
        lines: Lines::All,
        left_over: String::new(),
        needs_judgement: true,
    })
}

fn list(words: &[Word]) -> Option<Intent> {
    const LIST: [&[&str]; 28] = [
        &["give", "me", "a", "list", "of"],
        &["show", "me", "a", "list", "of"],
        &["show", "a", "list", "of"],
        &["what", "do", "we", "have"],
        &["what", "do", "i", "have"],
        &["go", "to"],
        &["list"],
        &["ls"],
        &["dir"],
        &["liste"],
        &["zeige"],
        &["show", "me"],
        &["show"],
        &["what", "files", "are"],
        &["which", "files", "are"],
        &["what", "is", "in"],
        &["what", "is", "inside"],
        &["what", "is"],
        &["what", "are"],
        &["what", "files", "do", "i", "have"],
        &["browse"],
        &["welche", "dateien", "sind"],
        &["look", "at"],
        &["look", "in"],
        &["look", "into"],
        &["let", "me", "see"],
        &["see"],
        &["contents", "of"],
    ];
    const OBJECTS: [&str; 22] = [
        "me",
        "the",
        "all",
        "files",
        "file",
        "folder",
        "folders",
        "directory",
        "directories",
        "contents",
        "content",
        "of",
        "in",
        "there",
        "everything",
        "available",
        "here",
        "and",
        "my",
        "dateien",
        "alle",
        "every",
    ];
    let opening = LIST.iter().find(|opening| starts_with(words, opening))?;
    let mut object = &words[opening.len()..];
    const DEEP: [&str; 3] = ["recursively", "deep", "deeply"];
    let mut deep = false;
    while let [rest @ .., last] = object
        && last.is_one_of(&DEEP)
    {
        object = rest;
        deep = true;
    }
    let is_this = opening[..] == ["what", "is"]
        && matches!(object, [only] if only.is_one_of(&["this", "here"]))
        || opening[..] == ["what", "is", "in"] && matches!(object, [only] if only.is("here"));
    let says_list =
        opening[0] == "list" || opening[0] == "ls" || opening[0] == "dir" || opening[0] == "liste";
    let says_files = words
        .iter()
        .any(|word| word.is_one_of(&["files", "dateien"]));
    let folder_word = words
        .iter()
        .any(|word| word.is_one_of(&["folder", "directory", "dir", "verzeichnis", "ordner"]));
    let slash = object
        .iter()
        .any(|word| word.text.ends_with('/') || matches!(word.text.as_str(), "." | ".." | "~"));
    let is_going = opening[..] == ["go", "to"];
    let is_having = opening.len() == 4 && matches!(object, [only] if only.is("here"));
    if is_going && let [only] = after_fillers(object, &["the", "folder", "directory"]) {
        return Some(Intent::Read {
            targets: vec![Target::Named(only.text.clone())],
            lines: Lines::All,
            left_over: String::new(),
            needs_judgement: false,
        });
    }
    if is_this || is_having {
        return Some(Intent::List {
            folder: None,
            deep: false,
        });
    }
    if !(says_list || says_files || folder_word || slash) {
        return None;
    }
    let rest = after_fillers(object, &OBJECTS);
    // A kind of file or a pattern is a search for files, not a folder.
    let skipped = object.len() - rest.len();
    let kinds = words
        .iter()
        .any(|word| kind_glob(word).is_some() && !word.is("c"));
    if kinds && says_files && object_pattern(object).is_some() {
        return None;
    }
    let deep_words = words.iter().any(|word| {
        word.is_one_of(&[
            "recursively",
            "subfolders",
            "everything",
            "deep",
            "subdirectories",
            "nested",
        ])
    });
    let all_files = words.windows(2).any(|pair| {
        pair[0].is_one_of(&["all", "every", "alle"])
            && pair[1].is_one_of(&["files", "file", "dateien"])
    });
    deep |= deep_words || all_files;
    if rest.is_empty() {
        return Some(Intent::List { folder: None, deep });
    }
    let opened = if skipped > 0 && object[skipped - 1].is_one_of(&["in", "of"]) {
        skipped - 1
    } else {
        skipped
    };
    let place = place::described(&object[opened..]).or_else(|| place::described(rest))?;
    if place.glob.is_some() {
        return None;
    }
    Some(Intent::List {
        folder: place.folder,
        deep: deep || place.deep,
    })
}
