//! The grammar: `/name[@botname]`, then words.

/// The longest name of a command, in bytes. No command comes near it.
const MAX_NAME: usize = 32;

/// A message that has the form of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Without the slash, in lower case.
    pub name: String,
    /// What follows, split at white space.
    pub words: Vec<String>,
    /// What follows as it was written, without white space around it: a path may hold spaces.
    pub rest: String,
}

/// Reads a command: white space, `/name` in any case, optionally `@botname`, white space, words. A
/// name is a letter and then letters, digits or `_`, all ASCII. With a `bot_name`, a command that is
/// addressed to another bot is none of ours.
pub fn parse(text: &str, bot_name: Option<&str>) -> Option<Invocation> {
    let text = text.trim().strip_prefix('/')?;
    let (head, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (name, addressee) = match head.split_once('@') {
        Some((name, addressee)) => (name, Some(addressee)),
        None => (head, None),
    };
    if !is_name(name) {
        return None;
    }
    if let Some(addressee) = addressee {
        let is_ours = bot_name.is_none_or(|own| own.eq_ignore_ascii_case(addressee));
        if !is_ours || !is_bot_name(addressee) {
            return None;
        }
    }
    let rest = rest.trim();
    Some(Invocation {
        name: name.to_ascii_lowercase(),
        words: rest.split_whitespace().map(str::to_owned).collect(),
        rest: rest.to_owned(),
    })
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= MAX_NAME
        && bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_bot_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
