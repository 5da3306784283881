//! Changes of `auth.json`: one exchange of a rotating token at a time, nothing lost, nothing quoted.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fermix_secrets::{AuthFile, ExposeSecret as _, NewTokens, RefreshError, SecretString};
use fermix_types::UnixMillis;
use serde_json::{Value, json};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

struct Home(tempfile::TempDir);

impl Home {
    fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(contents: &str) -> Self {
        let home = Self::empty();
        fs::write(home.path(), contents).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o600)).unwrap();
        home
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("auth.json")
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path()).unwrap()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn tokens(access: &str, refresh: Option<&str>) -> NewTokens {
    NewTokens {
        access_token: access.into(),
        refresh_token: refresh.map(SecretString::from),
        expires_at: Some(UnixMillis(NOW.0 + 3_600_000)),
    }
}

#[test]
fn a_first_sign_in_makes_a_private_file() {
    let home = Home::empty();
    let file = AuthFile::open(home.path());
    let updated = file
        .update(NOW, |document| {
            document.set(
                "openai_codex",
                Some("chatgpt"),
                &tokens("a-1", Some("r-1")),
                NOW,
            );
        })
        .unwrap();
    assert!(updated.preserved.is_none());
    let metadata = fs::metadata(home.path()).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o600);
    assert_eq!(
        home.json(),
        json!({"version": 1, "providers": {"openai_codex": {
            "auth_mode": "chatgpt",
            "tokens": {"access_token": "a-1", "refresh_token": "r-1"},
            "expires_at": "2027-01-15T09:00:00Z",
            "last_refresh": "2027-01-15T08:00:00Z",
        }}})
    );
    assert_eq!(home.names(), ["auth.json", "auth.json.lock"]);
}

#[test]
fn unknown_fields_and_other_sign_ins_stay() {
    let home = Home::with(
        &json!({"version": 1, "later": {"a": [1]}, "providers": {
            "other": {"tokens": {"access_token": "o"}, "more": true},
            "openai_codex": {"auth_mode": "chatgpt", "plan": "pro",
                "tokens": {"access_token": "a", "refresh_token": "r", "id_token": "i"}},
        }})
        .to_string(),
    );
    let file = AuthFile::open(home.path());
    file.update(NOW, |document| {
        document.set("openai_codex", None, &tokens("b", None), NOW);
    })
    .unwrap();
    let json = home.json();
    assert_eq!(json["later"], json!({"a": [1]}));
    assert_eq!(
        json["providers"]["other"],
        json!({"tokens": {"access_token": "o"}, "more": true})
    );
    let codex = &json["providers"]["openai_codex"];
    assert_eq!(
        (&codex["plan"], &codex["auth_mode"]),
        (&json!("pro"), &json!("chatgpt"))
    );
    assert_eq!(
        codex["tokens"],
        json!({"access_token": "b", "refresh_token": "r", "id_token": "i"})
    );
    let removed = file.update(NOW, |document| {
        (document.remove("other"), document.remove("nobody"))
    });
    assert_eq!(removed.unwrap().answer, (true, false));
    assert!(home.json()["providers"].get("other").is_none());
}

#[test]
fn a_legacy_file_takes_the_present_form_when_it_is_written() {
    let home = Home::with(
        &json!({"OPENAI_API_KEY": null, "tokens": {"access_token": "a", "account_id": "acc"}})
            .to_string(),
    );
    let file = AuthFile::open(home.path());
    file.update(NOW, |document| {
        document.set("other", None, &tokens("o", None), NOW);
    })
    .unwrap();
    let json = home.json();
    assert_eq!(json["version"], json!(1));
    assert_eq!(
        json["providers"]["openai_codex"],
        json!({"OPENAI_API_KEY": null, "tokens": {"access_token": "a", "account_id": "acc"}})
    );
    let read = file.provider("openai_codex").unwrap();
    assert_eq!(read.account_id.as_deref(), Some("acc"));
}

#[test]
fn a_damaged_file_is_put_aside_and_one_that_others_may_read_is_refused() {
    let damaged = "{\"version\": 1, \"providers\": {\"openai_codex\": {\"tok";
    let home = Home::with(damaged);
    let file = AuthFile::open(home.path());
    let set = |document: &mut fermix_secrets::AuthDocument| {
        document.set("other", None, &tokens("o", None), NOW);
    };
    let kept = file.update(NOW, set).unwrap().preserved.unwrap();
    assert!(
        kept.ends_with("auth.json.corrupt-20270115T080000Z"),
        "{kept:?}"
    );
    assert_eq!(fs::read_to_string(&kept).unwrap(), damaged);
    assert_eq!(fs::metadata(&kept).unwrap().mode() & 0o777, 0o600);
    assert_eq!(
        file.provider("other").unwrap().access_token.expose_secret(),
        "o"
    );

    // A second one in the same second must not take the place of the first.
    fs::write(home.path(), "{").unwrap();
    assert_eq!(file.update(NOW, set).unwrap_err().tag(), "unwritable");
    assert_eq!(fs::read_to_string(&kept).unwrap(), damaged);
    assert_eq!(fs::read_to_string(home.path()).unwrap(), "{");

    let open = Home::with("{}");
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let refused = AuthFile::open(open.path()).update(NOW, set).unwrap_err();
    assert_eq!(refused.tag(), "wrong_mode");
    assert_eq!(fs::read_to_string(open.path()).unwrap(), "{}");
}

/// A provider that ends the session when it sees a refresh token twice.
#[derive(Default)]
struct Rotating {
    used: Mutex<Vec<String>>,
}

impl Rotating {
    async fn exchange(&self, refresh: String) -> Result<NewTokens, &'static str> {
        // Long enough for every other process to come by.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut used = self.used.lock().unwrap();
        if used.contains(&refresh) {
            return Err("reuse detected: the session is over");
        }
        used.push(refresh);
        let next = used.len();
        Ok(tokens(&format!("a-{next}"), Some(&format!("r-{next}"))))
    }
}

/// Each worker has a runtime and an [`AuthFile`] of its own, as a process has: what keeps them
/// apart is the lock on the disk.
#[test]
fn five_that_renew_one_rotating_token_do_so_once() {
    let home = Home::with(
        &json!({"version": 1, "providers": {"openai_codex": {
            "tokens": {"access_token": "a-0", "refresh_token": "r-0"},
            "expires_at": "2027-01-15T07:00:00Z"}}})
        .to_string(),
    );
    let provider = Arc::new(Rotating::default());
    let answers: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..5)
            .map(|_| {
                let (path, provider) = (home.path(), Arc::clone(&provider));
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()
                        .unwrap();
                    let file = AuthFile::open(path);
                    let renewed = runtime.block_on(file.refreshed(
                        "openai_codex",
                        NOW,
                        |newest| newest.expires_at.is_some_and(|end| end > NOW),
                        move |newest| async move {
                            let refresh = newest.refresh_token.unwrap();
                            provider.exchange(refresh.expose_secret().to_owned()).await
                        },
                    ));
                    renewed.unwrap().access_token.expose_secret().to_owned()
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    assert_eq!(answers, ["a-1"; 5]);
    assert_eq!(*provider.used.lock().unwrap(), ["r-0"]);
}

#[tokio::test]
async fn an_exchange_that_began_is_saved_though_its_asker_has_gone() {
    let home = Home::with(
        &json!({"providers": {"p": {"tokens": {"access_token": "a-0", "refresh_token": "r-0"}}}})
            .to_string(),
    );
    let file = AuthFile::open(home.path());
    let (began, has_begun) = tokio::sync::oneshot::channel();
    let (finish, may_finish) = tokio::sync::oneshot::channel::<()>();
    let asked = tokio::spawn({
        let file = file.clone();
        async move {
            file.refreshed(
                "p",
                NOW,
                |_| false,
                |_| async move {
                    began.send(()).unwrap();
                    may_finish.await.unwrap();
                    Ok::<_, &str>(tokens("a-1", Some("r-1")))
                },
            )
            .await
        }
    });
    has_begun.await.unwrap();
    asked.abort();
    assert!(asked.await.unwrap_err().is_cancelled());
    finish.send(()).unwrap();
    // The next asker waits for the lock, so it sees what was saved.
    let next = file
        .refreshed("p", NOW, |_| true, |_| async { Err("not asked") })
        .await
        .unwrap();
    assert_eq!(next.access_token.expose_secret(), "a-1");
}

#[tokio::test]
async fn a_refused_exchange_leaves_the_file_alone() {
    let contents =
        json!({"providers": {"p": {"tokens": {"access_token": "a", "refresh_token": "r"}}}});
    let home = Home::with(&contents.to_string());
    let file = AuthFile::open(home.path());
    let refused = file
        .refreshed("p", NOW, |_| false, |_| async { Err("revoked") })
        .await;
    assert!(
        matches!(refused, Err(RefreshError::Exchange("revoked"))),
        "{refused:?}"
    );
    assert_eq!(home.json(), contents);
    let absent = file
        .refreshed("nobody", NOW, |_| false, |_| async { Err("not asked") })
        .await;
    assert!(matches!(absent, Err(RefreshError::Auth(_))), "{absent:?}");
}
