//! The values this process has resolved, in the forms they take in text.

use aho_corasick::{AhoCorasick, MatchKind};
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret as _, SecretString};

use super::Found;

/// Shorter values would match ordinary text.
const MIN_BYTES: usize = 8;

/// The longest single value, for example a service account's key file.
const MAX_BYTES: usize = 64 * 1024;

/// The most values.
const MAX_VALUES: usize = 1_024;

/// The values do not fit, so they could not be kept out of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too many or too long secrets to redact: at most {MAX_VALUES} of at most {MAX_BYTES} bytes; remove secrets that are not used"
)]
pub struct TooManySecrets;

/// A set of values with the automaton that finds them. It holds them in ordinary memory, for as
/// long as the redactor lives.
#[derive(Default)]
pub(super) struct KnownValues {
    values: Vec<SecretString>,
    automaton: Option<AhoCorasick>,
}

impl KnownValues {
    /// This set and `values`; `None` when they are all in it.
    pub(super) fn with<'a>(
        &self,
        values: impl IntoIterator<Item = &'a SecretString>,
    ) -> Result<Option<Self>, TooManySecrets> {
        let mut all = self.values.clone();
        for value in values {
            let value = value.expose_secret().trim();
            if value.len() > MAX_BYTES {
                return Err(TooManySecrets);
            }
            let is_known = all.iter().any(|known| known.expose_secret() == value);
            if value.len() >= MIN_BYTES && !is_known {
                all.push(SecretString::from(value));
            }
        }
        if all.len() == self.values.len() {
            return Ok(None);
        }
        if all.len() > MAX_VALUES {
            return Err(TooManySecrets);
        }
        let mut forms: Vec<Vec<u8>> = all
            .iter()
            .flat_map(|value| forms(value.expose_secret()))
            .collect();
        forms.sort_unstable();
        forms.dedup();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(&forms)
            .map_err(|_| TooManySecrets)?;
        Ok(Some(Self {
            values: all,
            automaton: Some(automaton),
        }))
    }

    pub(super) fn find(&self, text: &str) -> Vec<Found> {
        let Some(automaton) = &self.automaton else {
            return Vec::new();
        };
        // Overlapping ones too: where two values share an end and a beginning, both must go. Every
        // form is whole characters, so every match begins and ends on one.
        automaton
            .find_overlapping_iter(text)
            .map(|found| Found {
                place: found.range(),
                label: "secret",
            })
            .collect()
    }
}

/// The byte strings by which `value` may stand in a text.
fn forms(value: &str) -> Vec<Vec<u8>> {
    let bytes = value.as_bytes();
    let mut forms = vec![bytes.to_vec()];
    // As a log line or a request body holds it; the quotes are not part of the value.
    let json = serde_json::Value::from(value).to_string();
    forms.push(json.as_bytes()[1..json.len() - 1].to_vec());
    // Encoders differ in what they leave as it is, and in the case of the digits.
    for (unreserved, upper) in [
        ("-_.~", true),
        ("-_.~", false),
        ("-_.!~*'()", true),
        ("-_.!~*'()", false),
        ("*-._", true),
    ] {
        forms.push(percent_encoded(bytes, unreserved.as_bytes(), upper, false));
    }
    forms.push(percent_encoded(bytes, b"*-._", true, true));
    for shift in 0..3 {
        forms.push(inside_base64(bytes, shift, &STANDARD_NO_PAD));
        forms.push(inside_base64(bytes, shift, &URL_SAFE_NO_PAD));
    }
    forms
}

/// The characters that `value` alone decides when it is encoded as part of something longer, such
/// as `user:password`, `shift` bytes after a multiple of three.
fn inside_base64(value: &[u8], shift: usize, alphabet: &impl base64::Engine) -> Vec<u8> {
    let mut padded = vec![0; shift];
    padded.extend_from_slice(value);
    let encoded = alphabet.encode(&padded).into_bytes();
    let first = (shift * 8).div_ceil(6);
    let last = padded.len() * 8 / 6;
    encoded[first..last].to_vec()
}

fn percent_encoded(value: &[u8], unreserved: &[u8], upper: bool, plus: bool) -> Vec<u8> {
    let mut encoded = String::with_capacity(value.len() * 3);
    for &byte in value {
        if byte.is_ascii_alphanumeric() || unreserved.contains(&byte) {
            encoded.push(char::from(byte));
        } else if plus && byte == b' ' {
            encoded.push('+');
        } else if upper {
            encoded.push_str(&format!("%{byte:02X}"));
        } else {
            encoded.push_str(&format!("%{byte:02x}"));
        }
    }
    encoded.into_bytes()
}
