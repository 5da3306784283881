//! "Where is X defined?"

use super::clause::{after_fillers, position};
use super::place;
use super::search::Search;
use crate::offline::words::Word;

const DEFINED: [&str; 6] = [
    "defined",
    "declared",
    "implemented",
    "definiert",
    "defining",
    "define",
];
/// Words that introduce a name in source code.
const KEYWORDS: &str = "fn|struct|enum|union|trait|type|class|interface|def|func|function|const|static|let|var|val|mod|\
                        module|namespace|record|protocol|macro_rules!|#\\s*define";
/// Words that may stand before those.
const MODIFIERS: &str = "pub(?:\\([^)]*\\))?|export|default|declare|async|unsafe|const|static|public|private|protected|\
                         internal|final|abstract|extern|inline|virtual|override|sealed|partial|local";

/// The search a question for a definition asks for.
pub(super) fn read(words: &[Word]) -> Option<Search> {
    let asks = words[0].is_one_of(&["where", "wo", "which", "what", "who"]);
    let verb = position(words, &DEFINED).filter(|at| asks && *at >= 2);
    let definition = position(words, &["definition", "declaration", "implementation"]);
    if let Some(verb) = verb {
        let name = after_fillers(
            &words[1..verb],
            &[
                "is", "are", "the", "file", "files", "ist", "method", "constant", "gets", "macro",
                "variable",
            ],
        );
        let place = place::at_end(&words[verb + 1..]);
        let source = match name {
            [] => &words[verb + 1..],
            named => named,
        };
        return defined(source, place);
    }
    let at = definition
        .filter(|_| words[0].is_one_of(&["find", "show", "locate", "where", "search", "go"]))?;
    let rest = after_fillers(&words[at + 1..], &["of", "for", "the"]);
    let end = place::at_end(rest);
    let named = &rest[..end.from];
    defined(named, end)
}

/// The search for the definition of what `words` name: `Registry`, `struct Registry`, in quotes
/// or not.
fn defined(words: &[Word], place: place::Place) -> Option<Search> {
    let parts: Vec<&str> = words
        .iter()
        .flat_map(|word| word.text.split_whitespace())
        .collect();
    let (name, before) = parts.split_last()?;
    let kinds: Vec<&str> = KEYWORDS.split('|').collect();
    let modifiers = ["pub", "async", "const", "static", "export", "function"];
    let are_kinds = before
        .iter()
        .all(|word| kinds.contains(word) || modifiers.contains(word));
    if !are_kinds || before.len() > 4 {
        return None;
    }
    let plain = name
        .trim_end_matches("()")
        .trim_end_matches('!')
        .trim_end_matches('{');
    let last = plain.rsplit("::").next().unwrap_or(plain);
    let is_name = !last.is_empty()
        && last
            .chars()
            .all(|each| each.is_alphanumeric() || each == '_');
    // "The function main" may be written with `fn`, `def` or `func`.
    let kind = before
        .iter()
        .rev()
        .find(|word| kinds.contains(word) && **word != "function");
    let keywords = kind.copied().unwrap_or(KEYWORDS);
    let assigned = if kind.is_none() {
        format!("|^{last}\\s*(?::[^=]+)?=[^=]")
    } else {
        String::new()
    };
    is_name.then(|| Search {
        regex: true,
        definition_of: Some(last.to_owned()),
        path: place.folder,
        glob: place.glob,
        ..Search::plain(&format!(
            "^\\s*(?:(?:{MODIFIERS})\\s+)*(?:{keywords})\\s+(?:mut\\s+|\\([^)]*\\)\\s*)?{last}\\b{assigned}"
        ))
    })
}
