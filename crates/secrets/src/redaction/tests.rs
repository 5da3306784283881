//! A secret planted anywhere never survives; ordinary text does, byte for byte.

use std::borrow::Cow;

use base64::Engine as _;
use proptest::prelude::*;
use proptest::string::string_regex;
use secrecy::SecretString;

use super::{Redactor, TooManySecrets};

/// Each shape: its label, what stays in front of it, the secret.
const PLANTED: &[(&str, &str, &str)] = &[
    ("openai", "", "sk-(ant-|proj-)?[A-Za-z0-9_-]{16,60}"),
    ("github", "", "gh[pousr]_[A-Za-z0-9]{20,40}"),
    ("github", "", "github_pat_[A-Za-z0-9_]{20,80}"),
    ("slack", "", "xox[baprs]-[A-Za-z0-9-]{10,50}"),
    ("aws", "", "(AKIA|ASIA)[A-Z0-9]{16}"),
    ("xai", "", "xai-[A-Za-z0-9]{20,80}"),
    ("google", "", "AIza[A-Za-z0-9_-]{30,40}"),
    ("telegram", "", "[0-9]{6,10}:[A-Za-z0-9_-]{30,40}"),
    (
        "telegram",
        "https://api.telegram.org/bot",
        "[0-9]{6,10}:[A-Za-z0-9_-]{30,40}",
    ),
    (
        "bearer",
        "Authorization: Bearer ",
        "[A-Za-z0-9._~+/-]{20,60}",
    ),
    (
        "jwt",
        "",
        r"eyJ[A-Za-z0-9_-]{6,40}\.eyJ[A-Za-z0-9_-]{6,80}\.[A-Za-z0-9_-]{6,43}",
    ),
    ("gitlab", "", "glpat-[A-Za-z0-9_-]{20}"),
    ("npm", "", "npm_[A-Za-z0-9]{36}"),
    ("huggingface", "", "hf_[A-Za-z0-9]{30,40}"),
    ("stripe", "", "sk_live_[A-Za-z0-9]{24,99}"),
    (
        "discord",
        "",
        r"[MN][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}",
    ),
    (
        "credentials",
        "postgres://",
        "[a-z]{1,8}:[A-Za-z0-9@!$%^&*().]{8,20}@",
    ),
    (
        "parameter",
        "https://example.org/a?b=c&key=",
        "[A-Za-z0-9_%-]{8,40}",
    ),
    (
        "parameter",
        "https://example.org/a?sig=",
        "[A-Za-z0-9_%-]{8,40}",
    ),
    (
        "parameter",
        "/callback?Access_Token=",
        "[A-Za-z0-9_%-]{8,40}",
    ),
    (
        "private-key",
        "",
        "-----BEGIN (RSA |EC |OPENSSH |ENCRYPTED )?PRIVATE KEY-----\n([A-Za-z0-9+/]{64}\n){1,4}[A-Za-z0-9+/]{1,60}=\n-----END (RSA )?PRIVATE KEY-----",
    ),
    (
        "private-key",
        "",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n([A-Za-z0-9+/]{64}\n){1,4}=[A-Za-z0-9+/]{4}\n-----END PGP PRIVATE KEY BLOCK-----",
    ),
    // Cut at its start, and cut at its end.
    (
        "private-key",
        "",
        "[A-Za-z0-9+/]{10,64}\n([A-Za-z0-9+/]{64}\n){1,4}[A-Za-z0-9+/]{1,60}==\n-----END PRIVATE KEY-----",
    ),
    (
        "private-key",
        "",
        "-----BEGIN PRIVATE KEY-----\n([A-Za-z0-9+/]{64}\n){1,4}[A-Za-z0-9+/]{1,60}",
    ),
];

fn planted() -> impl Strategy<Value = (&'static str, String, String)> {
    (0..PLANTED.len()).prop_flat_map(|index| {
        let (label, front, pattern) = PLANTED[index];
        string_regex(pattern)
            .unwrap()
            .prop_map(move |secret| (label, front.to_owned(), secret))
    })
}

/// Text that ends where a word may begin.
fn before() -> impl Strategy<Value = String> {
    let end = prop_oneof![
        Just(""),
        Just(" "),
        Just("\""),
        Just("="),
        Just("键"),
        Just("ñ"),
        Just("\n"),
        Just("\u{1b}[0m"),
    ];
    ("[ a-zA-Z0-9áß語\"{}:,.]{0,30}", end).prop_map(|(text, end)| {
        // Text that ends in a word needs something between it and the secret.
        let needs_space =
            end.is_empty() && text.ends_with(|last: char| last.is_ascii_alphanumeric());
        if needs_space {
            format!("{text} ")
        } else {
            format!("{text}{end}")
        }
    })
}

/// Whether any piece of the secret that could help an attacker is left.
fn survives(clean: &str, secret: &str) -> bool {
    let characters: Vec<char> = secret.chars().collect();
    characters.windows(characters.len().min(14)).any(|piece| {
        let piece: String = piece.iter().collect();
        !piece.contains("PRIVATE KEY") && !piece.contains("-----") && clean.contains(&piece)
    })
}

/// No regression file: a failing case goes into the tables above.
fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[test]
fn a_secret_of_any_shape_never_survives() {
    let redactor = Redactor::new();
    let after = "([ \"',;)}\n語].{0,30})?";
    proptest!(config(), |((label, front, secret) in planted(), before in before(), after in after)| {
        let text = format!("{before}{front}{secret}{after}");
        let clean = redactor.redact(&text);
        let mark = format!("[REDACTED:{label}]");
        prop_assert!(clean.contains(&mark), "{text:?} became {clean:?}");
        prop_assert!(!survives(&clean, &secret), "{text:?} became {clean:?}");
        // Where a key's beginning was cut off, nothing tells it from a word right before it.
        let has_beginning = label != "private-key" || secret.starts_with("-----BEGIN");
        prop_assert!(!has_beginning || clean.starts_with(&before), "{text:?} became {clean:?}");

        // The record a sink writes is one JSON object on one line.
        let record = serde_json::json!({ "fields": { "message": text } }).to_string();
        let clean = redactor.redact(&record);
        let is_json = serde_json::from_str::<serde_json::Value>(&clean).is_ok();
        prop_assert!(is_json, "{record} became {clean}");
        let quoted = serde_json::json!(secret).to_string();
        prop_assert!(!survives(&clean, quoted.trim_matches('"')), "{record} became {clean}");
    });
}

#[test]
fn a_known_value_never_survives_in_any_form() {
    let value = "[A-Za-z0-9 !\"#$%&'()*+,./:;<=>?@\\\\^_`{|}~é語-]{8,40}";
    proptest!(config(), |(value in value, before in "[a-z é]{0,9}", after in "[a-z é]{0,9}")| {
        let value = value.trim().to_owned();
        prop_assume!(value.len() >= 8);
        let redactor = Redactor::with_values([&SecretString::from(value.as_str())]).unwrap();
        let standard = base64::engine::general_purpose::STANDARD;
        let url_safe = base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let json = serde_json::json!(value).to_string();
        let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
        let forms = [
            value.clone(),
            json[1..json.len() - 1].to_owned(),
            form.replace('+', "%20"),
            form,
            standard.encode(&value),
            url_safe.encode(&value),
        ];
        for form in forms {
            let text = format!("{before}{form}{after}");
            let clean = redactor.redact_values(&text);
            let kept = format!("{before}[REDACTED:secret]");
            prop_assert!(clean.starts_with(&kept), "{text:?} became {clean:?}");
            // Padding, and the last character of a base64 text, tell at most four bits.
            let most = kept.len() + after.len() + 3;
            prop_assert!(clean.len() <= most, "{text:?} became {clean:?}");
        }
        // As a part of something longer, such as the header of basic authentication.
        for user in ["", "a", "ab", "abc"] {
            let header = standard.encode(format!("{user}:{value}:rest"));
            let clean = redactor.redact_values(&header);
            prop_assert!(clean.contains("[REDACTED:secret]"), "{header} became {clean}");
        }
    });
}

#[test]
fn a_text_without_known_values_stays_as_it_is() {
    let value = SecretString::from("no text holds this value");
    let redactor = Redactor::with_values([&value]).unwrap();
    proptest!(config(), |(text in ".{0,200}")| {
        prop_assert_eq!(redactor.redact_values(&text), Cow::Borrowed(text.as_str()));
        // What has no place where a shape could begin stays too.
        let words: String = text.chars().filter(|character| character.is_alphabetic()).collect();
        prop_assert_eq!(redactor.redact(&words), Cow::Borrowed(words.as_str()));
    });
}

#[test]
fn ordinary_text_survives() {
    let redactor = Redactor::with_values([&SecretString::from("hunter2 is taken")]).unwrap();
    let texts = [
        "a risk-based approach to task-management-and-scheduling",
        "disk-encryption-at-rest-for-everyone, ask-me-anything-you-want",
        "Größe, 日本語のテキスト, пример текста, 🗝️",
        "see https://example.org:8443/@user/notes?page=2&sort=name#key=top",
        "git@github.com:owner/name.git",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "2026-12-01T09:17:00Z took 123456: fine",
        "the bearer of this letter; Bearer token",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "xox-games, ghost_of_a_chance_in_a_long_identifier, npm_config_registry",
        "keyboard=qwerty; monkey=1&donkey=2",
        "",
    ];
    for text in texts {
        assert!(
            matches!(redactor.redact(text), Cow::Borrowed(same) if same == text),
            "{text:?} became {:?}",
            redactor.redact(text)
        );
    }
}

#[test]
fn what_stays_tells_what_was_there() {
    let redactor = Redactor::with_values([
        &SecretString::from(" abcdefgh\n"),
        &SecretString::from("short"),
    ])
    .unwrap();
    let cases = [
        ("key sk-aaaaaaaaaaaaaaaaaaaa.", "key [REDACTED:openai]."),
        (
            "Authorization: Bearer abcdefghijklmnopqrstuvwxyz\r\n",
            "Authorization: Bearer [REDACTED:bearer]\r\n",
        ),
        (
            "https://user:p@ss@example.org/x",
            "https://[REDACTED:credentials]example.org/x",
        ),
        (
            "/setup?t=abc123&tab=models",
            "/setup?t=[REDACTED:parameter]&tab=models",
        ),
        // A known value inside a longer key takes the rest of the key with it.
        ("sk-zzzzabcdefghzzzzzzzz", "[REDACTED:openai]"),
        ("x abcdefgh, short y", "x [REDACTED:secret], short y"),
        (
            "{\"a\":\"line\\nghp_aaaaaaaaaaaaaaaaaaaaaaaa\"}",
            "{\"a\":\"line\\n[REDACTED:github]\"}",
        ),
        (
            r#"{"u":"a?b=c\u0026Token=abc"}"#,
            r#"{"u":"a?b=c\u0026Token=[REDACTED:parameter]"}"#,
        ),
        (
            "q=a%20hf_aaaaaaaaaaaaaaaaaaaaaaaa",
            "q=a%20[REDACTED:huggingface]",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(redactor.redact(text), expected);
    }
}

#[test]
fn values_can_be_added_while_others_redact() {
    let redactor = std::sync::Arc::new(Redactor::new());
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let redactor = std::sync::Arc::clone(&redactor);
            scope.spawn(move || {
                for number in 0..20 {
                    let value = format!("value {worker} number {number}.");
                    redactor
                        .add_values([&SecretString::from(value.as_str())])
                        .unwrap();
                    assert_eq!(redactor.redact(&value), "[REDACTED:secret]");
                }
            });
        }
    });
    assert_eq!(
        redactor.redact_values("value 0 number 0., value 3 number 19."),
        "[REDACTED:secret], [REDACTED:secret]"
    );
}

#[test]
fn values_beyond_the_bounds_are_refused_not_forgotten() {
    let redactor = Redactor::new();
    let long = SecretString::from("x".repeat(64 * 1024 + 1));
    assert_eq!(redactor.add_values([&long]), Err(TooManySecrets));
    let many: Vec<_> = (0..1_025)
        .map(|number| SecretString::from(format!("secret number {number}")))
        .collect();
    assert_eq!(redactor.add_values(&many), Err(TooManySecrets));
    assert_eq!(
        redactor.redact("secret number 3"),
        "secret number 3",
        "all or nothing"
    );
    redactor.add_values(&many[..1_024]).unwrap();
    assert_eq!(redactor.redact("secret number 3"), "[REDACTED:secret]");
}
