//! Greetings, thanks, and questions about this assistant and its tools.

use super::Intent;
use super::clause::{after_fillers, starts_with};
use crate::offline::toolbox::Toolbox;
use crate::offline::words::Word;

const GREETINGS: [&str; 20] = [
    "hi",
    "hello",
    "hey",
    "hallo",
    "bonjour",
    "salut",
    "servus",
    "moin",
    "good",
    "morning",
    "evening",
    "afternoon",
    "guten",
    "tag",
    "morgen",
    "abend",
    "there",
    "fermix",
    "greetings",
    "yo",
];
const THANKS: [&str; 27] = [
    "thanks", "thank", "you", "thx", "danke", "merci", "ok", "okay", "great", "perfect", "nice",
    "cool", "much", "very", "so", "schön", "beaucoup", "a", "lot", "cheers", "please", "bye",
    "goodbye", "for", "now", "that", "the",
];
const THANKING: [&str; 8] = [
    "thanks", "thank", "thx", "danke", "merci", "great", "perfect", "cheers",
];
const GOODBYES: [&str; 14] = [
    "bye", "goodbye", "tschüss", "ciao", "adieu", "see", "you", "later", "good", "night", "ok",
    "okay", "bye-bye", "now",
];
const LEAVING: [&str; 9] = [
    "bye", "goodbye", "tschüss", "ciao", "adieu", "later", "night", "exit", "quit",
];
/// Words that only keep a conversation going.
const NODDING: [&str; 18] = [
    "ok", "okay", "please", "yes", "no", "sure", "fine", "good", "alright", "right", "cool",
    "nice", "yep", "nope", "hm", "hmm", "bitte", "k",
];

const HELP: [&[&str]; 22] = [
    &["help"],
    &["what", "can", "you", "do"],
    &["what", "can", "i", "ask"],
    &["what", "can", "i", "do"],
    &["what", "are", "you", "able"],
    &["what", "do", "you", "do"],
    &["what", "do", "you", "know"],
    &["how", "can", "you", "help"],
    &["what", "tools"],
    &["which", "tools"],
    &["list", "tools"],
    &["list", "the", "tools"],
    &["list", "your", "tools"],
    &["list", "all", "tools"],
    &["show", "tools"],
    &["show", "your", "tools"],
    &["show", "me", "your", "tools"],
    &["show", "the", "tools"],
    &["hilfe"],
    &["was", "kannst", "du"],
    &["que", "peux-tu", "faire"],
    &["aide"],
];

const IDENTITY: [&[&str]; 19] = [
    &["connect", "the", "model"],
    &["who", "are", "you"],
    &["what", "are", "you"],
    &["which", "model"],
    &["what", "model"],
    &["are", "you", "an", "ai"],
    &["are", "you", "a"],
    &["are", "you", "chatgpt"],
    &["are", "you", "claude"],
    &["how", "do", "i", "connect"],
    &["how", "can", "i", "connect"],
    &["connect", "a", "model"],
    &["how", "do", "i", "set", "up"],
    &["how", "do", "i", "add", "a", "model"],
    &["how", "do", "i", "configure"],
    &["what", "is", "your", "name"],
    &["wer", "bist", "du"],
    &["qui", "es-tu"],
    &["how", "do", "i", "use", "a", "model"],
];

/// A message that as a whole is manners.
pub(super) fn whole(words: &[Word]) -> Option<Intent> {
    let only = |from: &[&str]| words.iter().all(|word| word.is_one_of(from));
    let any = |of: &[&str]| words.iter().any(|word| word.is_one_of(of));
    if words.is_empty() || words.len() > 6 {
        return None;
    }
    if starts_with(words, &["help", "me"]) && words[2..].iter().all(|word| word.is("please")) {
        return Some(Intent::Help);
    }
    if only(&NODDING) {
        return Some(Intent::Nod);
    }
    let leaves = words.len() == 1 && words[0].is_one_of(&["exit", "quit"]);
    let parts = words
        .iter()
        .all(|word| word.is_one_of(&GOODBYES) || word.is_one_of(&THANKS));
    if leaves || (parts && any(&LEAVING)) {
        return Some(Intent::Goodbye);
    }
    if only(&GREETINGS) || starts_with(words, &["how", "are", "you"]) {
        return Some(Intent::Greeting);
    }
    (only(&THANKS) && any(&THANKING)).then_some(Intent::Thanks)
}

/// A question about this assistant or one of its tools.
pub(super) fn asked(words: &[Word], toolbox: &Toolbox<'_>) -> Option<Intent> {
    if let Some(name) = tool_in_question(words, toolbox) {
        return Some(Intent::ToolHelp(name));
    }
    let fits = |openings: &[&[&str]]| {
        openings.iter().any(|opening| {
            // A longer sentence that only begins like this asks about something else.
            starts_with(words, opening) && words.len() <= opening.len() + 4
        })
    };
    let about_files = words
        .iter()
        .any(|word| word.is_quoted() || super::super::values::is_path(&word.text));
    if about_files {
        return None;
    }
    if fits(&HELP) {
        return Some(Intent::Help);
    }
    fits(&IDENTITY).then_some(Intent::Identity)
}

/// The tool a request for help is about.
fn tool_in_question(words: &[Word], toolbox: &Toolbox<'_>) -> Option<String> {
    const OPENINGS: [&[&str]; 20] = [
        &["help", "with"],
        &["help", "for"],
        &["help", "on"],
        &["help", "about"],
        &["help"],
        &["tool_help"],
        &["how", "do", "i", "use"],
        &["how", "do", "you", "use"],
        &["how", "to", "use"],
        &["how", "does"],
        &["how", "is"],
        &["what", "does"],
        &["what", "is"],
        &["explain"],
        &["describe"],
        &["show", "help", "for"],
        &["show", "me", "help", "for"],
        &["tell", "me", "about"],
        &["usage", "of"],
        &["hilfe", "zu"],
    ];
    let opening = OPENINGS
        .iter()
        .find(|opening| starts_with(words, opening))?;
    let rest = after_fillers(
        &words[opening.len()..],
        &["the", "tool", "a", "with", "for", "on", "about"],
    );
    let (first, after) = rest.split_first()?;
    let name = first.text.trim_end_matches("()");
    let ends_there = after.iter().all(|word| {
        word.is_one_of(&[
            "tool",
            "work",
            "works",
            "do",
            "used",
            "mean",
            "for",
            "please",
            "capability",
            "take",
        ])
    });
    let says_tool = rest.iter().chain(words).any(|word| word.is("tool"));
    let looks_like_one = name.contains('_') && !name.contains(['.', '/', ':', ' ']);
    let asks_for_help = words[0].is_one_of(&["help", "tool_help", "hilfe", "usage"]);
    let known = toolbox.find(name).is_some();
    // "Help for NAME" says that it is a name.
    let by_form = after.is_empty()
        && (starts_with(words, &["help", "for"]) || words[0].is("tool_help"))
        && !first.is_one_of(&["me", "this", "files", "everything", "all"]);
    let fits = ends_there && (known || by_form || (looks_like_one && (says_tool || asks_for_help)));
    fits.then(|| name.to_owned())
}
