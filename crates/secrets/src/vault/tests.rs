//! A store that fails, is locked or never answers is an error with a name, in bounded time, and
//! never sends a secret anywhere else.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use super::*;

/// A keyring that does what a test wants.
struct Fake {
    state: StoreState,
    answer: Answer,
    reads: AtomicUsize,
    writes: AtomicUsize,
}

enum Answer {
    Value(&'static str),
    Fails(SecretError),
    Hangs,
}

impl Fake {
    fn new(state: StoreState, answer: Answer) -> Arc<Self> {
        Arc::new(Self {
            state,
            answer,
            reads: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
        })
    }
}

#[async_trait]
impl Backend for Fake {
    async fn state(&self) -> StoreState {
        if matches!(self.answer, Answer::Hangs) {
            std::future::pending::<()>().await;
        }
        self.state.clone()
    }

    async fn read(&self, _item: &Item) -> Result<Option<SecretString>, SecretError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        match &self.answer {
            Answer::Value(value) => Ok(Some(SecretString::from(*value))),
            Answer::Fails(error) => Err(error.clone()),
            Answer::Hangs => std::future::pending().await,
        }
    }

    async fn write(
        &self,
        _item: &Item,
        _value: &SecretString,
        _attendance: Attendance,
    ) -> Result<(), SecretError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        match &self.answer {
            Answer::Value(_) => Ok(()),
            Answer::Fails(error) => Err(error.clone()),
            Answer::Hangs => std::future::pending().await,
        }
    }

    async fn remove(&self, _item: &Item, _attendance: Attendance) -> Result<bool, SecretError> {
        Ok(true)
    }
}

fn vault(keyring: &Arc<Fake>) -> (tempfile::TempDir, Vault) {
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault {
        keyring: Arc::clone(keyring) as Arc<dyn Backend>,
        ..Vault::new(
            folder.path().join("secrets"),
            "general",
            Arc::new(Redactor::new()),
        )
    };
    (folder, vault)
}

#[tokio::test(start_paused = true)]
async fn a_new_secret_goes_to_the_keyring_only_when_that_is_ready() {
    let cases = [
        (StoreState::Ready, Answer::Value(""), SecretStore::Keyring),
        (StoreState::Locked, Answer::Value(""), SecretStore::File),
        (
            StoreState::Unavailable("no bus".to_owned()),
            Answer::Value(""),
            SecretStore::File,
        ),
        (StoreState::Ready, Answer::Hangs, SecretStore::File),
    ];
    for (state, answer, expected) in cases {
        let (_folder, vault) = vault(&Fake::new(state.clone(), answer));
        let choice = vault.choose(None).await;
        assert_eq!(choice.store, expected, "{state:?}");
        assert_eq!(
            choice.notice.is_some(),
            expected == SecretStore::File,
            "{choice:?}"
        );
        for named in SecretStore::ALL {
            let choice = vault.choose(Some(*named)).await;
            assert_eq!((choice.store, choice.notice), (*named, None));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_goes_nowhere_else() {
    for answer in [Answer::Fails(SecretError::Locked), Answer::Hangs] {
        let keyring = Fake::new(StoreState::Ready, answer);
        let (folder, vault) = vault(&keyring);
        let value = SecretString::from("a secret value");
        for attendance in [Attendance::Nobody, Attendance::Person] {
            let error = vault
                .write(SecretStore::Keyring, "A_KEY", &value, attendance)
                .await
                .unwrap_err();
            assert!(
                matches!(error, SecretError::Locked | SecretError::TimedOut { .. }),
                "{error:?}"
            );
        }
        assert_eq!(keyring.writes.load(Ordering::Relaxed), 2);
        assert!(!folder.path().join("secrets").exists());
    }
}

#[tokio::test]
async fn a_store_that_gives_back_something_else_has_kept_nothing() {
    let (_folder, vault) = vault(&Fake::new(StoreState::Ready, Answer::Value("another")));
    let value = SecretString::from("a secret value");
    let written = vault
        .write(SecretStore::Keyring, "A_KEY", &value, Attendance::Nobody)
        .await;
    assert_eq!(
        written,
        Err(SecretError::NotKept {
            store: SecretStore::Keyring
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_asked_once_and_then_left_alone_for_a_while() {
    let keyring = Fake::new(StoreState::Ready, Answer::Hangs);
    let (_folder, vault) = vault(&keyring);
    let secret = vault.stored(SecretStore::Keyring, "A_KEY");
    let answers = tokio::join!(secret.value(), secret.value(), secret.value());
    for answer in [answers.0, answers.1, answers.2] {
        let error = answer.unwrap_err();
        assert!(matches!(error, SecretError::TimedOut { .. }), "{error:?}");
    }
    assert_eq!(keyring.reads.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn what_is_read_is_known_to_the_redactor_before_anybody_has_it() {
    let keyring = Fake::new(StoreState::Ready, Answer::Value("a secret value"));
    let (_folder, vault) = vault(&keyring);
    assert_eq!(
        vault.redactor.redact_values("a secret value"),
        "a secret value"
    );
    let secret = vault.stored(SecretStore::Keyring, "A_KEY");
    assert!(!format!("{secret:?} {vault:?}").contains("value"));
    for _ in 0..3 {
        assert_eq!(
            secret.value().await.unwrap().expose_secret(),
            "a secret value"
        );
    }
    assert_eq!(keyring.reads.load(Ordering::Relaxed), 1);
    assert_eq!(
        vault.redactor.redact_values("a secret value"),
        "[REDACTED:secret]"
    );
}
