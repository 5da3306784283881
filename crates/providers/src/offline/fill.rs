//! Which value of a sentence goes into which parameter of a tool.
//!
//! Nothing here knows any tool. A value goes where the person put a parameter's name in front of
//! it, else where its nature fits exactly one open parameter: a mail address, a web address, a
//! path, a moment, a number, one of the choices. Quoted text goes into the one required text that
//! is still open. Whatever could go to two places goes to none, and the person is asked.

use serde_json::{Map, Value, json};

use super::toolbox::{Property, Schema, Type};
use super::values::{count, date, is_email, is_moment, is_path, is_url, is_value, time};
use super::words::Word;

/// What became of a sentence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filled {
    pub(super) arguments: Map<String, Value>,
    /// Required parameters without a value.
    pub(super) missing: Vec<Property>,
    /// Values of the sentence that no parameter took.
    pub(super) left_over: Vec<String>,
    /// Plain words that no parameter took.
    pub(super) unused: Vec<String>,
}

/// What a parameter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    Email,
    Url,
    Path,
    Moment,
    Number,
    Choice,
    Flag,
    Text,
    Structure,
}

impl Nature {
    fn of(property: &Property) -> Self {
        let names = |wanted: &[&str]| {
            property
                .name
                .to_lowercase()
                .split(['_', '-'])
                .any(|part| wanted.contains(&part))
        };
        let format = property.format.as_str();
        match property.value {
            Type::Integer | Type::Number => Self::Number,
            Type::Boolean => Self::Flag,
            Type::Structure => Self::Structure,
            Type::Text | Type::Texts if !property.choices.is_empty() => Self::Choice,
            Type::Text | Type::Texts => {
                let described = property.description.to_lowercase();
                if format == "email"
                    || described.contains("e-mail address")
                    || described.contains("email address")
                    || names(&[
                        "email",
                        "emails",
                        "recipient",
                        "recipients",
                        "cc",
                        "bcc",
                        "attendees",
                        "participants",
                        "invitees",
                        "to",
                    ])
                {
                    Self::Email
                } else if matches!(format, "uri" | "url") || names(&["url", "uri", "link", "href"])
                {
                    Self::Url
                } else if matches!(format, "date" | "date-time" | "time")
                    || names(&[
                        "start", "end", "date", "time", "when", "due", "until", "deadline",
                        "since", "at", "begin",
                    ])
                {
                    Self::Moment
                } else if names(&["path", "file", "filename", "folder", "directory", "dir"]) {
                    Self::Path
                } else {
                    Self::Text
                }
            }
        }
    }
}

/// Other words people use for a parameter.
fn synonyms(name: &str) -> &'static [&'static str] {
    match name {
        "title" | "name" | "summary" => &["titled", "called", "named", "title", "name"],
        "subject" => &["subject", "about"],
        "body" | "message" | "text" | "content" => {
            &["body", "message", "text", "saying", "content", "says"]
        }
        "start" | "begin" => &["starting", "start", "from"],
        "end" | "until" => &["ending", "until", "end"],
        "query" | "q" | "search" => &["query", "for"],
        "attendees" | "participants" | "invitees" => &["attendees", "inviting", "invite", "with"],
        "location" | "place" | "city" => &["location"],
        "limit" | "max_results" | "count" => &["limit", "top"],
        _ => &[],
    }
}

/// Fills the parameters of `schema` from `words`.
pub(super) fn fill(words: &[Word], schema: &Schema, may_take_plain_text: bool) -> Filled {
    let mut filler = Filler {
        words: merged_moments(words),
        used: Vec::new(),
        arguments: Map::new(),
    };
    filler.used = vec![false; filler.words.len()];
    for property in &schema.properties {
        filler.labelled(property);
    }
    let ordered = || {
        let (required, optional): (Vec<&Property>, Vec<&Property>) = schema
            .properties
            .iter()
            .partition(|property| property.required);
        required.into_iter().chain(optional)
    };
    for property in ordered() {
        filler.by_nature(property);
    }
    filler.by_elimination(schema);
    if may_take_plain_text {
        filler.plain_text(schema);
    }
    let missing = schema
        .properties
        .iter()
        .filter(|property| property.required && !filler.arguments.contains_key(&property.name))
        .cloned()
        .collect();
    filler.finish(schema, missing)
}

struct Filler {
    words: Vec<Word>,
    used: Vec<bool>,
    arguments: Map<String, Value>,
}

impl Filler {
    fn is_open(&self, property: &Property) -> bool {
        !self.arguments.contains_key(&property.name)
    }

    fn set(&mut self, property: &Property, values: Vec<Value>) {
        let value = if property.value == Type::Texts {
            Value::Array(values)
        } else {
            match values.into_iter().next() {
                Some(value) => value,
                None => return,
            }
        };
        self.arguments.insert(property.name.clone(), value);
    }

    /// `name: value`, `name=value`, `name "value"`.
    fn labelled(&mut self, property: &Property) {
        let name = property.name.to_lowercase();
        let spelled: Vec<Vec<&str>> = std::iter::once(vec![name.as_str()])
            .chain(std::iter::once(name.split(['_', '-']).collect()))
            .chain(synonyms(&name).iter().map(|synonym| vec![*synonym]))
            .collect();
        for at in 0..self.words.len() {
            if self.used[at] || self.words[at].is_quoted() {
                continue;
            }
            if let Some(value) = self.glued(at, &name, property) {
                self.used[at] = true;
                self.set(property, vec![value]);
                return;
            }
            for label in &spelled {
                if self.follows(at, label, property) {
                    return;
                }
            }
        }
    }

    /// `limit=5` in one word.
    fn glued(&self, at: usize, name: &str, property: &Property) -> Option<Value> {
        let (label, value) = self.words[at].text.split_once(['=', ':'])?;
        if label.to_lowercase() != name || value.is_empty() {
            return None;
        }
        let word = Word {
            text: value.to_owned(),
            lower: value.to_lowercase(),
            quote: None,
            tail: None,
        };
        value_for(property, &word, true)
    }

    fn follows(&mut self, at: usize, label: &[&str], property: &Property) -> bool {
        let fits = label.iter().enumerate().all(|(offset, wanted)| {
            self.words
                .get(at + offset)
                .is_some_and(|word| word.is(wanted))
                && !self.used[at + offset]
        });
        if !fits {
            return false;
        }
        let mut place = at + label.len();
        let explicit = matches!(self.words[place - 1].tail, Some(':' | '='));
        while self
            .words
            .get(place)
            .is_some_and(|word| word.is_one_of(&["is", "of", "as", "the", "at", "on", "to"]))
        {
            place += 1;
        }
        let mut values = Vec::new();
        while let Some(word) = self.words.get(place).filter(|_| !self.used[place]) {
            let Some(value) = value_for(property, word, explicit) else {
                break;
            };
            values.push(value);
            self.used[place] = true;
            let joined = word.tail == Some(',')
                || self.words.get(place + 1).is_some_and(|next| next.is("and"));
            place += 1;
            if property.value != Type::Texts || !joined {
                break;
            }
            if self.words.get(place).is_some_and(|next| next.is("and")) {
                place += 1;
            }
        }
        if values.is_empty() {
            return false;
        }
        self.used[at..at + label.len()].fill(true);
        self.set(property, values);
        true
    }

    /// Values whose nature says where they belong.
    fn by_nature(&mut self, property: &Property) {
        let nature = Nature::of(property);
        let is_sure = matches!(
            nature,
            Nature::Email | Nature::Url | Nature::Path | Nature::Moment | Nature::Choice
        );
        if !self.is_open(property) || !(is_sure || (nature == Nature::Number && property.required))
        {
            return;
        }
        let mut values = Vec::new();
        for at in 0..self.words.len() {
            if self.used[at] || !has_nature(&self.words[at], nature, property) {
                continue;
            }
            let Some(value) = value_for(property, &self.words[at], true) else {
                continue;
            };
            self.used[at] = true;
            values.push(value);
            if property.value != Type::Texts {
                break;
            }
        }
        if !values.is_empty() {
            self.set(property, values);
        }
    }

    /// The one piece of quoted text for the one text that is still needed.
    fn by_elimination(&mut self, schema: &Schema) {
        let open: Vec<&Property> = schema
            .properties
            .iter()
            .filter(|property| {
                property.required && self.is_open(property) && property.value == Type::Text
            })
            .filter(|property| {
                matches!(
                    Nature::of(property),
                    Nature::Text | Nature::Path | Nature::Url
                )
            })
            .collect();
        let quoted: Vec<usize> = (0..self.words.len())
            .filter(|at| self.words[*at].is_quoted() && !self.used[*at])
            .collect();
        if let ([property], [at]) = (open.as_slice(), quoted.as_slice()) {
            self.used[*at] = true;
            let value = Value::String(self.words[*at].text.clone());
            self.set(property, vec![value]);
        }
    }

    /// "Weather in Lisbon": the words behind the last preposition, for tools that only look.
    fn plain_text(&mut self, schema: &Schema) {
        let open: Vec<&Property> = schema
            .properties
            .iter()
            .filter(|property| {
                property.required && self.is_open(property) && property.value == Type::Text
            })
            .filter(|property| Nature::of(property) == Nature::Text)
            .collect();
        let [property] = open.as_slice() else { return };
        let start = self
            .words
            .iter()
            .position(|word| word.is_one_of(&["for", "about", "of", "on", "in", "on"]));
        let Some(start) = start else { return };
        let taken: Vec<usize> = (start + 1..self.words.len())
            .filter(|at| !self.used[*at])
            .collect();
        let text: Vec<&str> = taken
            .iter()
            .map(|at| self.words[*at].text.as_str())
            .skip_while(|word| matches!(*word, "the" | "a"))
            .collect();
        if text.is_empty() {
            return;
        }
        let text = text.join(" ");
        for at in taken {
            self.used[at] = true;
        }
        self.set(property, vec![Value::String(text)]);
    }

    fn finish(mut self, schema: &Schema, missing: Vec<Property>) -> Filled {
        let is_value = |word: &Word| word.is_quoted() || is_value(&word.text);
        // In the order of the schema, whatever the order of the sentence.
        let arguments = schema
            .properties
            .iter()
            .filter_map(|property| self.arguments.remove_entry(&property.name))
            .collect();
        let open = || {
            self.words
                .iter()
                .zip(&self.used)
                .filter(|(_, used)| !**used)
                .map(|(word, _)| word)
        };
        Filled {
            left_over: open()
                .filter(|word| is_value(word))
                .map(|word| word.text.clone())
                .collect(),
            unused: open()
                .filter(|word| !is_value(word))
                .map(|word| word.lower.clone())
                .collect(),
            arguments,
            missing,
        }
    }
}

/// A date and the time after it as one word.
fn merged_moments(words: &[Word]) -> Vec<Word> {
    let mut merged: Vec<Word> = Vec::with_capacity(words.len());
    let mut rest = words;
    while let [word, after @ ..] = rest {
        rest = after;
        let mut word = word.clone();
        if date(&word.text).is_some() {
            let behind_at = match after {
                [at, behind @ ..] if at.is_one_of(&["at", "um", "à"]) => behind,
                other => other,
            };
            if let [clock, behind @ ..] = behind_at
                && let Some(time) = time(&clock.text)
            {
                word.text = format!("{}T{time}", word.text);
                word.lower = word.text.to_lowercase();
                word.tail = clock.tail;
                rest = behind;
            }
        }
        merged.push(word);
    }
    merged
}

fn has_nature(word: &Word, nature: Nature, property: &Property) -> bool {
    let text = word.text.as_str();
    match nature {
        Nature::Email => is_email(text),
        Nature::Url => is_url(text),
        Nature::Path => !word.is_quoted() && is_path(text),
        Nature::Moment => {
            is_moment(text)
                || date(text).is_some()
                || (property.format == "time" && time(text).is_some())
        }
        Nature::Number => count(word).is_some(),
        Nature::Choice => choice(property, text).is_some() && text.len() > 1,
        Nature::Flag | Nature::Text | Nature::Structure => false,
    }
}

fn choice<'a>(property: &'a Property, text: &str) -> Option<&'a str> {
    property
        .choices
        .iter()
        .map(String::as_str)
        .find(|choice| choice.eq_ignore_ascii_case(text))
}

/// The word as a value of the parameter. `explicit` says that the person named the parameter, so
/// an unquoted word will do for a text.
fn value_for(property: &Property, word: &Word, explicit: bool) -> Option<Value> {
    let text = word.text.as_str();
    match property.value {
        Type::Integer => text.parse::<i64>().ok().map(|number| json!(number)),
        Type::Number => text
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(|number| json!(number)),
        Type::Boolean => match word.lower.as_str() {
            "true" | "yes" | "on" => Some(Value::Bool(true)),
            "false" | "no" | "off" => Some(Value::Bool(false)),
            _ => None,
        },
        Type::Structure => None,
        Type::Text | Type::Texts => {
            if !property.choices.is_empty() {
                return choice(property, text).map(|choice| json!(choice));
            }
            let nature = Nature::of(property);
            let fits = explicit || word.is_quoted() || has_nature(word, nature, property);
            (fits && !text.is_empty()).then(|| json!(text))
        }
    }
}
