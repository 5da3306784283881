//! The encrypted files, through the vault: what lies on the disk, and which files are not trusted.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fermix_secrets::{
    Attendance, ExposeSecret as _, Redactor, SecretError, SecretString, StoreState, Vault,
};
use fermix_types::SecretStore::File;

const VALUE: &str = "sk-a-very-secret-value-0123456789";

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("secrets")
    }

    /// As a new process would make it.
    fn vault(&self, profile: &str) -> Vault {
        Vault::new(self.folder(), profile, Arc::new(Redactor::new()))
    }

    async fn write(&self, name: &str, value: &str) -> Result<(), SecretError> {
        self.vault("general")
            .write(File, name, &SecretString::from(value), Attendance::Nobody)
            .await
    }

    async fn read(&self, name: &str) -> Result<String, SecretError> {
        let value = self.vault("general").read(File, name).await?;
        Ok(value.expose_secret().to_owned())
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_secret_comes_back_and_lies_on_the_disk_sealed_and_private() {
    let home = Home::new();
    assert_eq!(home.vault("general").state(File).await, StoreState::Ready);
    assert!(!home.folder().exists(), "looking makes nothing");
    home.write("OPENAI_API_KEY", VALUE).await.unwrap();
    assert_eq!(home.read("OPENAI_API_KEY").await.unwrap(), VALUE);

    assert_eq!(mode(&home.folder()), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(home.folder()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{path:?}");
        let bytes = fs::read(&path).unwrap();
        let found = bytes
            .windows(8)
            .any(|window| VALUE.as_bytes().windows(8).any(|part| part == window));
        assert!(!found, "{path:?} holds the value");
        names.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    names.sort();
    assert_eq!(names, [".key", ".lock", "fermix.OPENAI_API_KEY"]);

    home.write("OPENAI_API_KEY", "another value").await.unwrap();
    assert_eq!(home.read("OPENAI_API_KEY").await.unwrap(), "another value");
    let vault = home.vault("general");
    let remove = || vault.remove(File, "OPENAI_API_KEY", Attendance::Nobody);
    assert_eq!((remove().await, remove().await), (Ok(true), Ok(false)));
    let missing = home.read("OPENAI_API_KEY").await.unwrap_err();
    assert!(
        missing
            .to_string()
            .contains("fermix secrets set OPENAI_API_KEY"),
        "{missing}"
    );
}

#[tokio::test]
async fn profiles_do_not_see_each_other() {
    let home = Home::new();
    let work = home.vault("work");
    let value = SecretString::from("of work");
    work.write(File, "A_KEY", &value, Attendance::Nobody)
        .await
        .unwrap();
    let error = home.read("A_KEY").await.unwrap_err();
    assert!(matches!(error, SecretError::Missing { .. }), "{error:?}");
    assert_eq!(
        work.read(File, "A_KEY").await.unwrap().expose_secret(),
        "of work"
    );
    let outside = home.vault("../x").read(File, "A_KEY").await;
    assert!(matches!(outside, Err(SecretError::Name(_))), "{outside:?}");
}

#[tokio::test]
async fn what_others_can_reach_is_refused_and_left_as_it_is() {
    let home = Home::new();
    home.write("A_KEY", VALUE).await.unwrap();
    let entry = home.folder().join("fermix.A_KEY");
    let key = home.folder().join(".key");
    for (path, wide, right) in [
        (home.folder(), 0o750, 0o700),
        (entry.clone(), 0o640, 0o600),
        (entry.clone(), 0o602, 0o600),
        (key.clone(), 0o644, 0o600),
    ] {
        let before = fs::read(&entry).unwrap();
        set_mode(&path, wide);
        let read = home.read("A_KEY").await.unwrap_err();
        assert!(matches!(read, SecretError::Exposed { .. }), "{read:?}");
        assert!(!read.to_string().contains(VALUE));
        let write = home.write("A_KEY", "new value").await.unwrap_err();
        assert!(matches!(write, SecretError::Exposed { .. }), "{write:?}");
        assert_eq!(mode(&path), wide, "not repaired");
        assert_eq!(fs::read(&entry).unwrap(), before);
        set_mode(&path, right);
    }
    assert_eq!(home.read("A_KEY").await.unwrap(), VALUE);
    set_mode(&home.folder(), 0o755);
    let state = home.vault("general").state(File).await;
    assert!(matches!(state, StoreState::Unavailable(_)), "{state:?}");
}

#[tokio::test]
async fn an_entry_that_was_changed_swapped_or_linked_is_refused() {
    let home = Home::new();
    home.write("A_KEY", VALUE).await.unwrap();
    home.write("B_KEY", "another value").await.unwrap();
    let [a, b] = ["A_KEY", "B_KEY"].map(|name| home.folder().join(format!("fermix.{name}")));
    let sealed = fs::read(&a).unwrap();

    let damaged = |read: Result<String, SecretError>| {
        let error = read.unwrap_err();
        assert!(matches!(error, SecretError::Damaged { .. }), "{error:?}");
    };
    fs::copy(&b, &a).unwrap();
    damaged(home.read("A_KEY").await);
    for position in [0, 9, sealed.len() - 1] {
        let mut changed = sealed.clone();
        changed[position] ^= 1;
        fs::write(&a, &changed).unwrap();
        damaged(home.read("A_KEY").await);
    }
    for length in [0, 8, 20, sealed.len() - 1] {
        fs::write(&a, &sealed[..length]).unwrap();
        damaged(home.read("A_KEY").await);
    }
    fs::write(&a, vec![0; 200 * 1024]).unwrap();
    damaged(home.read("A_KEY").await);
    fs::remove_file(&a).unwrap();
    std::os::unix::fs::symlink(&b, &a).unwrap();
    let linked = home.read("A_KEY").await.unwrap_err();
    assert!(matches!(linked, SecretError::Io { .. }), "{linked:?}");
}

#[tokio::test]
async fn a_lost_key_is_not_replaced_while_secrets_depend_on_it() {
    let home = Home::new();
    home.write("A_KEY", VALUE).await.unwrap();
    let key = home.folder().join(".key");
    let kept = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    let error = home.write("B_KEY", "another value").await.unwrap_err();
    assert!(error.to_string().contains("put the key back"), "{error}");
    assert!(!key.exists());
    fs::write(&key, kept).unwrap();
    set_mode(&key, 0o600);
    assert_eq!(home.read("A_KEY").await.unwrap(), VALUE);
}

#[test]
fn many_writers_at_once_share_one_key() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let home = &home;
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                for round in 0..5 {
                    let name = format!("KEY_{worker}");
                    let value = format!("value {worker} {round}");
                    runtime.block_on(home.write(&name, &value)).unwrap();
                }
            });
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for worker in 0..6 {
        let value = runtime
            .block_on(home.read(&format!("KEY_{worker}")))
            .unwrap();
        assert_eq!(value, format!("value {worker} 4"));
    }
}

#[tokio::test]
async fn a_value_that_is_none_is_refused() {
    let home = Home::new();
    for value in [String::new(), "x".repeat(64 * 1024 + 1)] {
        let error = home.write("A_KEY", &value).await.unwrap_err();
        assert!(matches!(error, SecretError::BadValue), "{error:?}");
    }
    assert!(!home.folder().exists());
}
