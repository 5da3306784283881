//! Names with values: what goes, what stays, and that a row of JSON stays one.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::super::Redactor;

#[test]
fn the_value_of_a_secret_name_goes_and_nothing_else() {
    let redactor = Redactor::new();
    // `~` marks what is replaced: the text between two of them.
    let cases = [
        "password=~hunter2~",
        "mysql --password=~hunter2~ --user=me",
        "AWS_SECRET_ACCESS_KEY=~ab/cd+ef~ AWS_REGION=eu",
        "export PGPASSWORD='~a b\"c~' DBHOST=x",
        "GITHUB_TOKEN_PROD=~abc~\nNEXT=1",
        "client_secret: ~s3cr3t~, client_id: 7",
        "apiKey=~k~&tab=models",
        "Password=~p;w,d~;Database=d",
        "connect(host, token=~abc~), then",
        "passwd = ~pässwörd~\ttail",
        "the password is here; password: ~x~.",
        "X-Api-Key: ~12345~",
        "Authorization: Basic ~dXNlcjpwYXNz~\r\nAccept: */*",
        "curl -H 'Authorization: Bearer ~short~' https://h/",
        "proxy-authorization: Digest ~username=\"me\", response=\"0a\"~",
        "authorization: ~rawkey~",
        "{\"password\": \"~a, b~\", \"user\": \"me\"}",
        "{\"password\":\n  \"~abc~\"}",
        "{\"password\":\"~a\\\"b\\\\~\",\"n\":1}",
        "{\"Authorization\": \"Basic ~abc==~\"}",
        "{\"access_token\":\"~a~\",\"expires_in\":3600,\"token_type\":\"bearer\"}",
        "{\"body\":\"{\\\"password\\\":\\\"~a\\\\\\\"b~\\\",\\\"max_tokens\\\":12}\"}",
        "{\"env\":\"USER=me\\nAPI_TOKEN=~abc~\\nHOME=/\"}",
        "{\"cmd\":\"mysql --password=~abc~\"}",
        "{\"cmd\":\"login --token='~a b~' now\",\"token='\":1}",
        "{\"a\":\"password=\",\"b\":\"x\"}",
        "{\"a\":\"password\",\"b\":\"x\"}",
        "config[\"secret\"] = \"~abc~\"",
        "'password' => '~abc~',",
        "`token` := ~abc~",
        "row: {\\\"token\\\": \\\"~abc~\\\", \\\"n\\\": 1}",
        // Cut off in the middle of the value.
        "{\"error\":\"body: {\\\"token\\\":\\\"~abcdef~\"}",
        "body: {\"token\":\"~abcdef~",
        // What stays.
        "\"prompt_tokens\": 12, \"tokens\": {\"total\": 12}, \"max_tokens\": 4096",
        "{\"max_tokens\":5,\"token\":12,\"secret\":null,\"password\":true,\"token\":{\"a\":\"b\"},\"secret\":[\"a\"]}",
        "{\\\"token\\\": 12.5e3, \\\"secret\\\": false}",
        "tokens: 12, token budget, daily_token_budget = 5, token_count=7",
        "secret = unset; password: null, token=None",
        "let scope = token::Scope; if token == other { secret() }",
        "see token://id and the secretary: Ms Moneypenny",
        "token_url=https://h/t token_endpoint: https://h/e passwordless: yes",
        "password=[REDACTED:parameter] secret=***",
        "token: {\"a\": 1}, authorization_url=https://h",
        "\"password\": \"\", \"token\": \"\"",
    ];
    for case in cases {
        let parts: Vec<&str> = case.split('~').collect();
        let text = parts.concat();
        let expected: String = parts
            .iter()
            .enumerate()
            .map(|(index, part)| {
                if index % 2 == 0 {
                    part
                } else {
                    "[REDACTED:parameter]"
                }
            })
            .collect();
        assert_eq!(redactor.redact(&text), expected, "{text}");
        // Once more changes nothing.
        assert_eq!(redactor.redact(&expected), expected);
    }
}

/// Text made of all that tells names, values, quotes and escapes apart.
fn tricky_text() -> impl Strategy<Value = String> {
    let pieces = vec![
        "password",
        "token",
        "AWS_SECRET_KEY",
        "Authorization",
        "Basic ",
        "Digest ",
        "=",
        ":",
        "=>",
        " ",
        "\t",
        "\n",
        "\"",
        "'",
        "`",
        "\\",
        "\\\\",
        "\\\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ";",
        ")",
        "&",
        "<",
        "abc",
        "12",
        "true",
        "é",
        "語",
        "\u{1}",
        "\u{7f}",
        "\u{1f}npm_aaaaaaaaaaaaaaaaaaaaaaaa",
        "\nnpm_aaaaaaaaaaaaaaaaaaaaaaaa",
        "u0041",
        "/",
        ".",
        "{\"token\":\"",
        "\"}",
        "sk-aaaaaaaaaaaaaaaaaaaa",
        "://a:b@h",
        "?key=v",
    ];
    prop::collection::vec(select(pieces), 0..14).prop_map(|pieces| pieces.concat())
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 1_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[test]
fn a_row_of_json_stays_one() {
    let redactor = Redactor::new();
    proptest!(config(), |(texts in prop::collection::vec(tricky_text(), 4), number in any::<i32>())| {
        let [one, two, three, key] = texts.as_slice() else { unreachable!("four were made") };
        let inner = json!({ "password": one, "token": number, "text": two }).to_string();
        let twice = json!({ "secret": inner, "cmd": inner }).to_string();
        let row = json!({
            "ts": "2026-12-01T00:00:00.000Z", "tokens": number, "args": inner, "deep": twice, "token": three,
            key: two, "list": [one, two, { "secret": number }], "text": three,
        });
        for line in [row.to_string(), serde_json::to_string_pretty(&row).unwrap()] {
            let clean = redactor.redact(&line);
            let parsed: Result<Value, _> = serde_json::from_str(&clean);
            let Ok(parsed) = parsed else {
                return Err(TestCaseError::fail(format!("{line}\nbecame\n{clean}")));
            };
            prop_assert_eq!(&parsed["ts"], &row["ts"]);
            prop_assert_eq!(&parsed["tokens"], &row["tokens"]);
            prop_assert_eq!(&parsed["list"][2], &row["list"][2]);
        }
        // Any other text is answered, and does not grow without bound.
        let text = format!("{one}{two}{three}");
        prop_assert!(redactor.redact(&text).len() <= text.len() * 30);
    });
}

#[test]
fn a_value_beside_a_secret_name_never_survives() {
    let redactor = Redactor::new();
    let name = select(vec![
        "password",
        "DB_PASSWORD",
        "api_key",
        "x-api-key",
        "clientSecret",
        "TOKEN",
        "refresh_token",
        "MY_TOKEN_2",
    ]);
    // Whatever a value may hold; the mark in the middle is what must not be found again.
    let around = "[a-zA-Z0-9!#$%*+./?@^_|~é語\\\\ ,;:'\"&(){}<>=-]{0,12}";
    proptest!(config(), |(name in name, before in around, after in around)| {
        let value = format!("{before}QzXmark{after}");
        let object = json!({ name: value }).to_string();
        let texts = [
            object.clone(),
            json!({ "args": object, "n": 1 }).to_string(),
            json!({ "deep": json!({ "args": object }).to_string() }).to_string(),
            format!("sent {object} and got nothing"),
        ];
        for text in texts {
            let clean = redactor.redact(&text);
            prop_assert!(!clean.contains("QzXmark"), "{text} became {clean}");
        }
        // Without quotes a value begins like no object, and ends
        // where a shell or a header would end it.
        let word: String = value.chars().filter(|c| !" \"'&<>;,\\".contains(*c)).collect();
        let word = word.trim_start_matches(['{', '}']);
        for text in [format!("{name}={word}"), format!("--{name}={word} x"), format!("{name}: {word}\nnext")] {
            for text in [text.clone(), json!({ "text": text }).to_string()] {
                let clean = redactor.redact(&text);
                prop_assert!(!clean.contains("QzXmark"), "{text} became {clean}");
            }
        }
    });
}

#[test]
fn hostile_text_takes_no_longer_than_its_length_asks() {
    let redactor = Redactor::new();
    for piece in [
        "token:\\'",
        "token:'",
        "token:\"",
        "token:\\\"",
        "\"token\":",
        "token=\\",
        "authorization: digest ",
        "token",
        "\\",
        "token ",
        "{\"token\":",
        "password=,",
        "token=)",
    ] {
        let text = piece.repeat(30_000);
        let clean = redactor.redact(&text);
        assert!(!clean.is_empty(), "{piece}");
    }
}
