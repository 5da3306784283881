//! Requests to search inside files.

mod manner;

use self::manner::{Flag, with_expression, without_flags};
use super::clause::{after_fillers, position, starts_with, without_politeness};
use super::{Intent, Report, define, place};
use crate::offline::values::{is_extension, is_glob, is_identifier, is_path, kind_glob};
use crate::offline::words::{Word, spoken};

/// The most words without quotes that are taken as the text to find.
const MAX_PLAIN: usize = 5;
/// The most texts that one request searches for.
const MAX_TEXTS: usize = 4;

/// Text to find inside files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::offline) struct Search {
    /// What to look for.
    pub(in crate::offline) pattern: String,
    /// Whether that is a regular expression.
    pub(in crate::offline) regex: bool,
    /// A folder or a file; nothing means where one is.
    pub(in crate::offline) path: Option<String>,
    /// Which files.
    pub(in crate::offline) glob: Option<String>,
    /// What is reported.
    pub(in crate::offline) report: Report,
    /// The name whose definition is looked for, when it is one.
    pub(in crate::offline) definition_of: Option<String>,
    /// Whether files that git ignores count too.
    pub(in crate::offline) all_files: bool,
    /// Whether upper and lower case are the same.
    pub(in crate::offline) ignore_case: bool,
    /// Whether several words without quotes were taken as the text to find.
    pub(in crate::offline) guessed: bool,
}

impl Search {
    /// The search for `text` as it stands, where one is.
    pub(in crate::offline) fn plain(text: &str) -> Self {
        Self {
            pattern: text.to_owned(),
            regex: false,
            path: None,
            glob: None,
            report: Report::Lines,
            definition_of: None,
            all_files: false,
            ignore_case: false,
            guessed: false,
        }
    }
}

/// Verbs that say what stands inside a file.
const HOLD: [&str; 33] = [
    "mention",
    "mentions",
    "mentioned",
    "mentioning",
    "contain",
    "contains",
    "containing",
    "include",
    "includes",
    "including",
    "reference",
    "references",
    "referencing",
    "use",
    "uses",
    "using",
    "import",
    "imports",
    "importing",
    "define",
    "defines",
    "declare",
    "declares",
    "have",
    "has",
    "say",
    "says",
    "implement",
    "implements",
    "call",
    "calls",
    "enthalten",
    "contiennent",
];
const OCCURS: [&str; 8] = [
    "mentioned",
    "used",
    "called",
    "referenced",
    "imported",
    "set",
    "written",
    "found",
];
/// Words around the text that are not part of it.
const AROUND: [&str; 22] = [
    "the",
    "a",
    "word",
    "text",
    "string",
    "term",
    "phrase",
    "about",
    "for",
    "pattern",
    "any",
    "all",
    "occurrences",
    "uses",
    "usages",
    "references",
    "mentions",
    "of",
    "occurrence",
    "every",
    "to",
    "expression",
];

/// The request to search; `None` when the clause is none.
pub(super) fn read(words: &[Word]) -> Option<Intent> {
    let (words, flags) = without_flags(words);
    let (words, is_expression) = with_expression(words);
    if words.is_empty() {
        return None;
    }
    let mut search = define::read(&words)
        .or_else(|| holding(&words))
        .or_else(|| occurrences(&words))
        .or_else(|| imperative(&words))?;
    if search.definition_of.is_none() {
        let quoted = words
            .iter()
            .any(|word| word.text == search.pattern && word.is_quoted());
        let plain: Vec<&str> = search.pattern.split_whitespace().collect();
        if !quoted && search.pattern.contains('"') {
            return Some(Intent::Declined(
                "A quotation mark stands there without its partner, so I did not search."
                    .to_owned(),
            ));
        }
        search.guessed = !quoted && plain.len() > 1;
        // Where the text ends and the rest of the sentence begins, only quotes tell.
        let runs_on = plain.len() > MAX_PLAIN
            || plain
                .iter()
                .skip(1)
                .any(|word| matches!(*word, "in" | "under" | "then" | "but" | "within" | "inside"));
        if search.guessed && runs_on {
            return Some(Intent::Declined(format!(
                "I cannot tell which words of \"{}\" are the text to look for, so I did not search. Quote it: search \
                 for \"{}\" in src",
                fermix_types::text::shortened(&spoken(&words), 200),
                plain[0]
            )));
        }
    }
    search.regex |= is_expression || flags.contains(&Flag::Regex);
    search.ignore_case |= flags.contains(&Flag::IgnoreCase);
    search.all_files |=
        flags.contains(&Flag::AllFiles) || position(&words, &["ignored", "gitignored"]).is_some();
    Some(Intent::Search(search))
}

/// The same request once for each of several quoted texts: "search for "a" and "b" in src".
pub(super) fn each_text(words: &[Word]) -> Vec<Vec<Word>> {
    let one = || vec![words.to_vec()];
    let is_joint =
        |word: &Word| word.is_one_of(&["and", "or", "und", "oder", "as", "well", "also"]);
    let Some(first) = words.iter().position(Word::is_quoted) else {
        return one();
    };
    let length = words[first..]
        .iter()
        .take_while(|word| word.is_quoted() || is_joint(word))
        .count();
    let run = &words[first..first + length];
    let texts: Vec<&Word> = run.iter().filter(|word| word.is_quoted()).collect();
    if !(2..=MAX_TEXTS).contains(&texts.len()) {
        return one();
    }
    let joints = run.len() - texts.len();
    // What follows the last text belongs to the rest of the sentence.
    let after = first + length - run.iter().rev().take_while(|word| is_joint(word)).count();
    let each: Vec<Vec<Word>> = texts
        .into_iter()
        .map(|text| {
            let mut words_of_one = words[..first].to_vec();
            words_of_one.push(text.clone());
            words_of_one.extend_from_slice(&words[after..]);
            words_of_one
        })
        .collect();
    let are_searches = each.iter().all(|words| {
        let words = without_politeness(words);
        !words.is_empty()
            && !words[0].is_quoted()
            && (read(words).is_some_and(|intent| matches!(intent, Intent::Search(_)))
                || super::find::read(words).is_some())
    });
    let is_list = joints > 0 || run.iter().any(|word| word.tail == Some(','));
    if are_searches && is_list { each } else { one() }
}

fn found(pattern: &str, place: place::Place, report: Report) -> Search {
    Search {
        path: place.folder,
        glob: place.glob,
        report,
        ..Search::plain(pattern)
    }
}

/// "Which files mention X", "files containing X", "what uses X", "does a.txt mention X".
fn holding(words: &[Word]) -> Option<Search> {
    let counts = starts_with(words, &["how", "many"]) || words[0].is("count");
    let holds = |at: usize| {
        // "Files with "x" in them", but not "files with the name "x"".
        words[at].is_one_of(&HOLD)
            || (words[at].is("with") && words.get(at + 1).is_some_and(Word::is_quoted))
    };
    let verb = (1..words.len()).find(|at| holds(*at))?;
    let subject = &words[..verb];
    // What a name contains is no matter of what a file does.
    if position(subject, &["name", "names", "filename", "filenames"]).is_some() {
        return None;
    }
    let about_files = position(
        subject,
        &[
            "file", "files", "dateien", "fichiers", "anything", "anyone", "code",
        ],
    )
    .is_some();
    let asks = (subject.len() == 1 && subject[0].is_one_of(&["who", "what", "which"]))
        || (subject.len() <= 4
            && (starts_with(subject, &["where", "do"])
                || starts_with(subject, &["where", "does"])));
    if words[verb].is("with") && position(subject, &["file", "files"]).is_none() {
        return None;
    }
    let one_file = position(subject, &["does", "do", "is"]).and_then(|_| {
        subject
            .iter()
            .find(|word| !word.is_quoted() && is_path(&word.text))
    });
    if !(about_files || asks || one_file.is_some()) {
        return None;
    }
    // In "how many times does a.txt mention X" the times are counted, not files.
    let times = position(subject, &["times", "often"]).is_some();
    let (pattern, mut place) = object(&words[verb + 1..])?;
    let quoted = words[verb + 1..].iter().any(Word::is_quoted);
    if asks && !quoted && !is_identifier(&pattern) {
        return None;
    }
    if let Some(file) = one_file {
        place.folder = Some(file.text.clone());
    } else {
        let before = place::at_end(subject_without_verb(subject));
        place.folder = place.folder.or(before.folder);
        place.glob = place
            .glob
            .or(before.glob)
            .or_else(|| kind_before_files(subject));
    }
    let report = match (counts, times || one_file.is_some()) {
        (true, _) => Report::Count,
        (false, true) => Report::Lines,
        (false, false) => Report::Files,
    };
    Some(found(&pattern, place, report))
}

fn subject_without_verb(subject: &[Word]) -> &[Word] {
    match subject {
        [rest @ .., last] if last.is_one_of(&["that", "which", "do", "does", "can", "to"]) => rest,
        all => all,
    }
}

fn kind_before_files(words: &[Word]) -> Option<String> {
    let pair = words
        .windows(2)
        .find(|pair| pair[1].is_one_of(&["files", "file"]))?;
    kind_glob(&pair[0])
        .map(str::to_owned)
        .or_else(|| is_extension(&pair[0].text).then(|| format!("*{}", pair[0].text)))
        .or_else(|| is_glob(&pair[0].text).then(|| pair[0].text.clone()))
}

/// "Where is X used", "is X mentioned in src", "how often does X occur", "count X in src".
fn occurrences(words: &[Word]) -> Option<Search> {
    let asks = words[0].is_one_of(&["where", "is", "are"]);
    let counts = starts_with(words, &["how", "often"])
        || starts_with(words, &["how", "many", "times"])
        || starts_with(words, &["count"]);
    if asks
        && !words[0].is("where")
        && position(words, &OCCURS).is_none()
        && let Some(search) = inside(words)
    {
        return Some(search);
    }
    if asks {
        let verb = position(words, &OCCURS).filter(|at| *at > 1)?;
        let name = after_fillers(&words[1..verb], &["is", "are", "the", "word", "text"]);
        let pattern = text_of(name)?;
        let says_text = words[0].is("where")
            && words[verb].is_one_of(&["mentioned", "used", "referenced", "written"]);
        let knows = name.iter().any(Word::is_quoted)
            || is_identifier(&pattern)
            || (says_text && name.len() == 1);
        let place = place::at_end(&words[verb + 1..]);
        let ends = place.from == 0 || verb + 1 == words.len();
        return (knows && ends).then(|| found(&pattern, place, Report::Lines));
    }
    let skip = if words[0].is("count") { 1 } else { 3 };
    if !counts || words.len() <= skip {
        return None;
    }
    let place = place::at_end(words);
    let quoted: Vec<&Word> = words[..place.from]
        .iter()
        .filter(|word| word.is_quoted())
        .collect();
    let named: Vec<&Word> = words[skip..place.from]
        .iter()
        .filter(|word| is_identifier(&word.text))
        .collect();
    let pattern = quoted.first().or(named.first())?;
    Some(found(&pattern.text, place, Report::Count))
}

/// "Is "Monday" in notes.txt?", "is there anything about flour?"
fn inside(words: &[Word]) -> Option<Search> {
    let about = position(words, &["about"]).filter(|at| {
        words[..*at].iter().all(|word| {
            word.is_one_of(&[
                "is",
                "there",
                "are",
                "anything",
                "something",
                "files",
                "any",
            ])
        })
    });
    if let Some(at) = about {
        let (text, place) = object(&words[at + 1..])?;
        return Some(found(&text, place, Report::Lines));
    }
    let place = place::at_end(words);
    let named = after_fillers(
        &words[1..place.from],
        &["there", "the", "word", "text", "line", "a", "any", "string"],
    );
    let [text] = named else { return None };
    let knows = text.is_quoted() || is_identifier(&text.text);
    let is_there = knows && place.folder.is_some() && !text.text.is_empty();
    is_there.then(|| found(&text.text, place, Report::Lines))
}

/// "Search for X in src", "grep X", "find X in src".
fn imperative(words: &[Word]) -> Option<Search> {
    let searches = words[0].is_one_of(&["search", "grep", "rg", "suche", "cherche", "scan"]);
    let looks = starts_with(words, &["look", "for"]);
    let finds = words[0].is_one_of(&["find", "finde", "trouve", "locate"])
        || starts_with(words, &["where", "is"])
        || starts_with(words, &["show", "me"]);
    if !(searches || looks || finds) {
        return None;
    }
    let skip = if words[0].is_one_of(&["where", "show", "look"]) {
        2
    } else {
        1
    };
    let rest = words.get(skip..).filter(|rest| !rest.is_empty())?;
    if position(rest, &["web", "internet", "online"]).is_some() {
        return None;
    }
    // "files named X" is about names; so are patterns and kinds of files.
    let names_files = position(rest, &["named", "called", "file", "files"]).is_some_and(|at| {
        !rest[..at]
            .iter()
            .any(|word| word.is_one_of(&["in", "under", "within", "across", "through"]))
    }) && !rest[0].is("for")
        || (position(rest, &["file", "files"]).is_some()
            && position(rest, &["named", "called", "ending", "extension"]).is_some());
    let first = after_fillers(rest, &AROUND).first()?;
    let is_name = !first.is_quoted()
        && (is_glob(&first.text)
            || is_extension(&first.text)
            || (is_path(&first.text) && (finds || looks || searches && rest[0].is("for"))));
    let is_quoted_name = finds
        && first.is_quoted()
        && is_path(&first.text)
        && !first.text.contains(char::is_whitespace);
    if is_name || is_quoted_name || names_files {
        return None;
    }
    // "search src for X" says the place first.
    if searches && let Some(at) = position(rest, &["for", "nach"]).filter(|at| *at > 0) {
        let (pattern, tail) = object(&rest[at + 1..])?;
        let before = after_fillers(&rest[..at], &["through", "in", "the", "all"]);
        let mut place = place::described(before).unwrap_or_default();
        place.folder = place.folder.or(tail.folder);
        place.glob = place.glob.or(tail.glob);
        return Some(found(&pattern, place, Report::Lines));
    }
    if searches && rest[0].is_one_of(&["in", "through"]) && rest.iter().any(Word::is_quoted) {
        let at = rest.iter().position(Word::is_quoted)?;
        let place = place::described(&rest[..at]).unwrap_or_default();
        return Some(found(&rest[at].text, place, Report::Lines));
    }
    let (pattern, place) = object(rest)?;
    let has_place = place.folder.is_some() || place.glob.is_some() || place.deep;
    let quoted = rest.iter().any(Word::is_quoted);
    let certain = searches
        || looks
        || quoted
        || is_identifier(&pattern)
        || (has_place && words[0].is_one_of(&["find", "finde", "trouve"]));
    // A kind of file with a place is a search for files: "find rust files in src".
    let is_kind = kind_glob(first).is_some() && position(rest, &["files", "file"]).is_some();
    (certain && !is_kind).then(|| found(&pattern, place, Report::Lines))
}

/// The text to look for, and the place behind it.
fn object(words: &[Word]) -> Option<(String, place::Place)> {
    let words = without_around(words);
    let place = place::at_end(words);
    let text = text_of(&words[..place.from])?;
    Some((text, place))
}

/// `words` without what stands around a text. In "a and b" the "a" is part of it.
fn without_around(words: &[Word]) -> &[Word] {
    let mut rest = words;
    while let [first, after @ ..] = rest
        && first.is_one_of(&AROUND)
        && !after
            .first()
            .is_some_and(|joint| joint.is_one_of(&["and", "or"]))
    {
        rest = after;
    }
    rest
}

/// The first quoted piece, else the words as they stand.
fn text_of(words: &[Word]) -> Option<String> {
    let words = without_around(words);
    if let Some(quoted) = words.iter().find(|word| word.is_quoted()) {
        return Some(quoted.text.clone()).filter(|text| !text.is_empty());
    }
    let words: Vec<Word> = words
        .iter()
        .take_while(|word| !word.is_one_of(&["anywhere", "everywhere"]))
        .cloned()
        .collect();
    if let [name, noun] = words.as_slice()
        && noun.is_one_of(&["comment", "comments", "marker", "markers"])
        && is_identifier(&name.text)
    {
        return Some(name.text.clone());
    }
    (!words.is_empty() && words.len() <= 12).then(|| spoken(&words))
}
