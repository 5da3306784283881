//! Prompts on the terminal: shown whole, one at a time, answered by one key.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::tty::{Keys, Tty};

/// The most prompts that wait to be shown. More are left to their time.
const MAX_WAITING: usize = 16;
/// The longest time a prompt counts down from, whatever the other side says.
const LONGEST: Duration = Duration::from_secs(3600);

/// What the owner is asked.
pub(super) struct Prompt {
    pub(super) token: String,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) choices: Vec<String>,
    pub(super) expires: Instant,
}

impl Prompt {
    /// A prompt that came just now.
    pub(super) fn new(
        token: &str,
        title: &str,
        body: &str,
        choices: &[String],
        expires_in_ms: u64,
    ) -> Self {
        let mut choices = choices.to_vec();
        // No is always an answer.
        if !choices.iter().any(|choice| choice == "deny") {
            choices.push("deny".to_owned());
        }
        Self {
            token: token.to_owned(),
            title: title.to_owned(),
            body: body.to_owned(),
            choices,
            expires: Instant::now() + Duration::from_millis(expires_in_ms).min(LONGEST),
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.expires
    }
}

/// An answer to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) token: String,
    pub(super) choice: String,
}

struct Open {
    prompt: Prompt,
    keys: Keys,
}

/// The prompts of one turn.
#[derive(Default)]
pub(super) struct Prompts {
    tty: Option<Tty>,
    waiting: VecDeque<Prompt>,
    open: Option<Open>,
}

impl Prompts {
    /// Takes a prompt; the one that is open is answered first. `false` when it cannot be shown.
    pub(super) fn add(&mut self, prompt: Prompt) -> bool {
        let is_same = |other: &Prompt| other.token == prompt.token;
        if self.waiting.iter().any(is_same)
            || self.open.as_ref().is_some_and(|open| is_same(&open.prompt))
        {
            return true;
        }
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        self.waiting.push_back(prompt);
        self.show_next()
    }

    /// Shows the next one when none is open.
    fn show_next(&mut self) -> bool {
        if self.open.is_some() {
            return true;
        }
        self.waiting.retain(|prompt| !prompt.is_over());
        let Some(prompt) = self.waiting.pop_front() else {
            return true;
        };
        if self.tty.is_none() {
            self.tty = Tty::open().filter(Tty::is_ours);
        }
        let Some(tty) = &self.tty else { return false };
        tty.write(&format!("? {}\n", prompt.title));
        for line in prompt.body.lines() {
            tty.write(&format!("  {line}\n"));
        }
        // Only now, so that what was typed before all of it was shown answers nothing.
        let Ok(keys) = tty.keys() else { return false };
        self.open = Some(Open { prompt, keys });
        self.draw();
        true
    }

    /// Waits for something to happen to the open prompt: an answer, a second less, its end.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        let Some(open) = &mut self.open else {
            return std::future::pending().await;
        };
        let left = open
            .prompt
            .expires
            .saturating_duration_since(Instant::now());
        // To the next whole second, so that the count is right.
        let tick = Duration::from_nanos(u64::from(left.subsec_nanos()) + 1_000_000);
        tokio::select! {
            key = open.keys.next() => {
                let choice = chosen(&open.prompt.choices, key)?;
                let answer = Answer {
                    token: open.prompt.token.clone(),
                    choice: choice.to_owned(),
                };
                self.close(&answer.choice);
                Some(answer)
            }
            () = tokio::time::sleep(tick) => {
                if open.prompt.is_over() {
                    self.close("no answer in time, so: no");
                } else {
                    self.draw();
                }
                None
            }
        }
    }

    /// Whether one waits for its answer.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes the question's line away so that something else can be written.
    pub(super) fn hide(&self) {
        if let (Some(_), Some(tty)) = (&self.open, &self.tty) {
            tty.write_raw("\r\x1b[K");
        }
    }

    /// Writes the question's line.
    pub(super) fn draw(&self) {
        if let (Some(open), Some(tty)) = (&self.open, &self.tty) {
            let left = open
                .prompt
                .expires
                .saturating_duration_since(Instant::now());
            let question = question(&open.prompt.choices, left);
            tty.write_raw("\r\x1b[K");
            tty.write(&question);
        }
    }

    /// The turn is over, or was stopped: nobody waits for an answer any more.
    pub(super) fn withdraw(&mut self) {
        self.waiting.clear();
        if self.open.is_some() {
            self.close("withdrawn");
        }
    }

    fn close(&mut self, outcome: &str) {
        self.hide();
        self.open = None;
        if let Some(tty) = &self.tty {
            tty.write(&format!("→ {outcome}\n"));
        }
        self.show_next();
    }
}

/// The key of each choice: the first of its letters that no earlier choice has.
fn keys(choices: &[String]) -> Vec<Option<char>> {
    let mut taken = Vec::new();
    choices
        .iter()
        .map(|choice| {
            let key = choice
                .chars()
                .map(|letter| letter.to_ascii_lowercase())
                .find(|letter| letter.is_ascii_alphanumeric() && !taken.contains(letter))?;
            taken.push(key);
            Some(key)
        })
        .collect()
}

fn chosen(choices: &[String], pressed: u8) -> Option<&str> {
    let pressed = char::from(pressed).to_ascii_lowercase();
    let at = keys(choices).iter().position(|key| *key == Some(pressed))?;
    choices.get(at).map(String::as_str)
}

/// `[o]nce [d]eny (no in 60 s) `
fn question(choices: &[String], left: Duration) -> String {
    let mut text = String::new();
    for (choice, key) in choices.iter().zip(keys(choices)) {
        match key {
            Some(key) if choice.starts_with(key) => {
                text.push_str(&format!("[{key}]{} ", &choice[key.len_utf8()..]));
            }
            Some(key) => text.push_str(&format!("[{key}] {choice} ")),
            None => {}
        }
    }
    text.push_str(&format!("(no in {} s) ", left.as_millis().div_ceil(1000)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn each_choice_has_a_key_of_its_own() {
        let usual = words(&["once", "always", "read", "deny"]);
        assert_eq!(
            question(&usual, Duration::from_millis(59_200)),
            "[o]nce [a]lways [r]ead [d]eny (no in 60 s) "
        );
        assert_eq!(chosen(&usual, b'A'), Some("always"));
        assert_eq!(chosen(&usual, b'x'), None);
        assert_eq!(chosen(&usual, b'\r'), None);
        let alike = words(&["deny", "delay", "dd"]);
        assert_eq!(
            question(&alike, Duration::from_secs(3)),
            "[d]eny [e] delay (no in 3 s) "
        );
        assert_eq!(chosen(&alike, b'e'), Some("delay"));
    }

    #[test]
    fn no_is_always_an_answer() {
        let prompt = Prompt::new("T", "t", "b", &words(&["once"]), u64::MAX);
        assert_eq!(prompt.choices, words(&["once", "deny"]));
        assert!(!prompt.is_over());
        assert!(Prompt::new("T", "t", "b", &[], 0).is_over());
    }
}
