//! Which files give a sign-in, which are refused, and that a refusal neither changes nor quotes
//! the file.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use base64::Engine as _;
use fermix_secrets::{AuthError, AuthFile, ExposeSecret as _, Tokens};
use fermix_types::UnixMillis;
use serde_json::{Value, json};

struct Home(tempfile::TempDir);

impl Home {
    fn with(contents: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::write(home.path(), contents).unwrap();
        home.set_mode(0o600);
        home
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("auth.json")
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(self.path(), Permissions::from_mode(mode)).unwrap();
    }

    fn codex(&self) -> Result<Tokens, AuthError> {
        AuthFile::open(self.path()).provider("openai_codex")
    }
}

fn jwt(claims: &Value) -> String {
    let encode =
        |value: &Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string());
    format!(
        "{}.{}.c2lnbmF0dXJl",
        encode(&json!({"alg": "RS256"})),
        encode(claims)
    )
}

fn file(entry: &Value) -> String {
    json!({"version": 1, "providers": {"openai_codex": entry, "other": {}}}).to_string()
}

#[test]
fn a_sign_in_is_read_as_it_is_now() {
    let token = jwt(
        &json!({"exp": 1_800_000_000, "https://api.openai.com/auth": {"chatgpt_account_id": "acc-1"}}),
    );
    let home = Home::with(&file(&json!({
        "auth_mode": "chatgpt",
        "tokens": {"access_token": token, "refresh_token": "refresh-1", "account_id": "of the file"},
        "expires_at": "2026-12-01T12:00:00Z",
        "last_refresh": null,
        "a_later_field": [1, 2],
    })));
    let auth = AuthFile::open(home.path());
    let tokens = auth.provider("openai_codex").unwrap();
    assert_eq!(tokens.access_token.expose_secret(), token);
    assert_eq!(
        tokens.refresh_token.as_ref().unwrap().expose_secret(),
        "refresh-1"
    );
    assert_eq!(tokens.auth_mode.as_deref(), Some("chatgpt"));
    assert_eq!(tokens.account_id.as_deref(), Some("acc-1"));
    assert_eq!(tokens.expires_at, Some(UnixMillis(1_796_126_400_000)));
    assert_eq!(tokens.last_refresh, None);
    assert!(!format!("{tokens:?}").contains("refresh-1"), "{tokens:?}");

    fs::write(
        home.path(),
        file(&json!({"tokens": {"access_token": "opaque"}})),
    )
    .unwrap();
    let tokens = auth.provider("openai_codex").unwrap();
    assert_eq!(tokens.access_token.expose_secret(), "opaque");
    assert!(
        tokens.refresh_token.is_none()
            && tokens.account_id.is_none()
            && tokens.expires_at.is_none()
    );
}

#[test]
fn a_legacy_flat_file_is_the_sign_in_to_codex() {
    let token = jwt(&json!({"exp": 1_800_000_000}));
    let home = Home::with(
        &json!({"OPENAI_API_KEY": null, "tokens": {"access_token": token, "account_id": "acc-2"}, "last_refresh": "2026-11-30T08:00:00.123456Z"})
            .to_string(),
    );
    let tokens = home.codex().unwrap();
    assert_eq!(tokens.account_id.as_deref(), Some("acc-2"));
    assert_eq!(tokens.expires_at, Some(UnixMillis(1_800_000_000_000)));
    assert_eq!(tokens.last_refresh, Some(UnixMillis(1_796_025_600_123)));
    let other = AuthFile::open(home.path()).provider("other").unwrap_err();
    assert_eq!(other.tag(), "provider_missing");
}

#[test]
fn what_cannot_be_used_is_named_kept_and_not_quoted() {
    let secret = "hush-hush-hush";
    let entry = |value: Value| file(&value);
    let cases = [
        (
            "invalid_json",
            format!("{{\"tokens\": {{\"access_token\": \"{secret}\""),
        ),
        ("invalid_json", format!("\"{secret}\"")),
        ("invalid_json", String::new()),
        (
            "invalid_json",
            json!({"version": 1, "providers": [secret]}).to_string(),
        ),
        (
            "invalid_json",
            json!({"version": secret, "providers": {}}).to_string(),
        ),
        (
            "unsupported_version",
            json!({"version": 2, "providers": {}}).to_string(),
        ),
        (
            "no_providers",
            json!({"version": 1, "providers": {}}).to_string(),
        ),
        ("no_providers", "{}".to_owned()),
        (
            "provider_missing",
            json!({"providers": {"other": {"tokens": {"access_token": secret}}}}).to_string(),
        ),
        ("invalid_auth_entry", entry(json!(secret))),
        ("invalid_auth_entry", entry(json!({}))),
        ("invalid_auth_entry", entry(json!({"tokens": secret}))),
        (
            "invalid_auth_entry",
            entry(json!({"tokens": {"refresh_token": secret}})),
        ),
        (
            "invalid_auth_entry",
            entry(json!({"tokens": {"access_token": null}})),
        ),
        (
            "invalid_auth_entry",
            entry(json!({"tokens": {"access_token": ""}})),
        ),
        (
            "invalid_auth_entry",
            entry(json!({"tokens": {"access_token": [secret]}})),
        ),
        (
            "invalid_auth_entry",
            entry(json!({"tokens": {"access_token": format!("{secret}\r\nX-Header: 1")}})),
        ),
        (
            "invalid_auth_entry",
            entry(json!({"tokens": {"access_token": "a", "refresh_token": 7}})),
        ),
        (
            "invalid_auth_entry",
            entry(json!({"tokens": {"access_token": "a"}, "expires_at": secret})),
        ),
    ];
    for (tag, contents) in cases {
        let home = Home::with(&contents);
        let error = home.codex().unwrap_err();
        assert_eq!(error.tag(), tag, "{contents}");
        assert!(
            error
                .to_string()
                .contains(&home.path().display().to_string()),
            "{error}"
        );
        assert!(!format!("{error} {error:?}").contains(secret), "{error:?}");
        assert_eq!(fs::read_to_string(home.path()).unwrap(), contents);
    }
}

#[test]
fn only_an_ordinary_file_of_mode_0600_is_read() {
    let contents = file(&json!({"tokens": {"access_token": "a"}}));
    for mode in [0o644, 0o640, 0o400, 0o700, 0o4600] {
        let home = Home::with(&contents);
        home.set_mode(mode);
        let error = home.codex().unwrap_err();
        assert_eq!(error.tag(), "wrong_mode", "{mode:o}");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    let home = Home::with(&contents);
    fs::remove_file(home.path()).unwrap();
    assert_eq!(home.codex().unwrap_err().tag(), "no_auth_file");
    fs::create_dir(home.path()).unwrap();
    assert_eq!(home.codex().unwrap_err().tag(), "unreadable");
    fs::remove_dir(home.path()).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        home.path(),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    assert_eq!(home.codex().unwrap_err().tag(), "unreadable");
    fs::remove_file(home.path()).unwrap();
    fs::write(home.path(), " ".repeat((1 << 20) + 1)).unwrap();
    home.set_mode(0o600);
    assert_eq!(home.codex().unwrap_err().tag(), "unreadable");
}
