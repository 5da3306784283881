//! Tools that a query names outright.

use crate::entry::Entry;
use crate::tokens::folded;

/// What a sentence puts around a name.
const AROUND_NAMES: &[char] = &[
    '`', '\'', '"', '.', ',', ';', ':', '!', '?', '(', ')', '[', ']', '{', '}', '<', '>',
];

/// Every spelling under which a document may be named, sorted for lookup.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactNames {
    /// Lower-cased `name` and `provider.name`.
    literal: Box<[(Box<str>, u32)]>,
    /// The same without anything that is not a letter or digit.
    squashed: Box<[(Box<str>, u32)]>,
}

impl ExactNames {
    pub(crate) fn build(entries: &[&Entry]) -> ExactNames {
        let mut literal = Vec::new();
        let mut squashed = Vec::new();
        for (document, entry) in (0u32..).zip(entries) {
            let name = folded(entry.name());
            let qualified = entry
                .provider()
                .map(|provider| format!("{}.{name}", folded(provider)));
            for key in [Some(name), qualified].into_iter().flatten() {
                squashed.push((squash(&key).into_boxed_str(), document));
                literal.push((key.into_boxed_str(), document));
            }
        }
        squashed.retain(|(key, _)| !key.is_empty());
        for keys in [&mut literal, &mut squashed] {
            keys.sort_unstable();
            keys.dedup();
        }
        ExactNames {
            literal: literal.into(),
            squashed: squashed.into(),
        }
    }

    /// The documents `query` names, in the order it names them, each once; documents of one
    /// name are ordered by `rank`.
    ///
    /// 1. The whole query is a name, as written or with other punctuation.
    /// 2. Every word of it is a name.
    /// 3. Single words in it are names and look like one (`web_search`, `webSearch`). A plain
    ///    word in a sentence is just that word, even if some tool is called `search`.
    pub(crate) fn find(&self, query: &str, rank: &[u32]) -> Vec<u32> {
        let mut found = Vec::new();
        let whole = query.trim();
        add(&mut found, named(&self.literal, &folded(whole)), rank);
        add(&mut found, named(&self.squashed, &squash(whole)), rank);

        let words: Vec<&str> = whole
            .split(|character: char| character.is_whitespace() || matches!(character, ',' | ';'))
            .map(|word| word.trim_matches(AROUND_NAMES))
            .filter(|word| !word.is_empty())
            .collect();
        let all_are_names = words.iter().all(|word| self.names_any(word));
        for word in words {
            if !all_are_names && !looks_like_a_name(word) {
                continue;
            }
            let literal = named(&self.literal, &folded(word));
            if literal.is_empty() && looks_like_a_name(word) {
                add(&mut found, named(&self.squashed, &squash(word)), rank);
            } else {
                add(&mut found, literal, rank);
            }
        }
        found
    }

    fn names_any(&self, word: &str) -> bool {
        !named(&self.literal, &folded(word)).is_empty()
            || looks_like_a_name(word) && !named(&self.squashed, &squash(word)).is_empty()
    }
}

fn add(found: &mut Vec<u32>, keys: &[(Box<str>, u32)], rank: &[u32]) {
    let mut documents: Vec<u32> = keys.iter().map(|(_, document)| *document).collect();
    documents.sort_unstable_by_key(|document| rank[*document as usize]);
    for document in documents {
        if !found.contains(&document) {
            found.push(document);
        }
    }
}

fn named<'a>(keys: &'a [(Box<str>, u32)], key: &str) -> &'a [(Box<str>, u32)] {
    if key.is_empty() {
        return &[];
    }
    let start = keys.partition_point(|(other, _)| **other < *key);
    let length = keys[start..].partition_point(|(other, _)| **other == *key);
    &keys[start..start + length]
}

fn squash(text: &str) -> String {
    folded(text)
        .chars()
        .filter(|character| character.is_alphanumeric())
        .collect()
}

/// Whether a word is written the way identifiers are and prose is not.
fn looks_like_a_name(word: &str) -> bool {
    let joined = word
        .char_indices()
        .any(|(at, character)| at > 0 && matches!(character, '_' | '.' | ':' | '/'));
    let mut before_was_lower = false;
    joined
        || word.chars().any(|character| {
            let hump = before_was_lower && character.is_uppercase();
            before_was_lower = character.is_lowercase();
            hump
        })
}
