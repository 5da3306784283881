//! A real keyring, on a session bus of the test's own. Where the machine has none, the test says so
//! and passes.

use std::path::Path;
use std::process::{Command, Stdio};

use fermix_testkit::{FakeModel, Step, TestHome};

/// What the test cannot do without, and where it is looked for.
const NEEDED: [&str; 3] = [
    "/usr/bin/dbus-run-session",
    "/usr/bin/dbus-send",
    "/usr/bin/gnome-keyring-daemon",
];

/// Runs in the session. Each part ends with a line that tells it from the next.
const SCRIPT: &str = r#"
printf password | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1
# It answers a moment after it was started.
tries=0
until echo "$KEY" | "$FERMIX" secrets set openai_compatible --stdin 2>stored; do
  tries=$((tries + 1)); [ "$tries" -lt 100 ] || break; sleep 0.2
done
grep api_key "$FERMIX_HOME/config.toml"; echo "== $(grep -c 'in the keyring store' stored)"
"$FERMIX" ask hello; echo "== $?"
"$FERMIX" secrets move --to file; "$FERMIX" ask hello; echo "== $?"
"$FERMIX" secrets move --to keyring; ls "$FERMIX_HOME/secrets"; echo "== $?"
dbus-send --session --print-reply --dest=org.freedesktop.secrets /org/freedesktop/secrets \
  org.freedesktop.Secret.Service.Lock array:objpath:/org/freedesktop/secrets/aliases/default >/dev/null
"$FERMIX" ask hello; echo "== $?"
echo another-key | "$FERMIX" secrets set openai_compatible --stdin; echo "== $?"
echo of-xai-0001 | "$FERMIX" secrets set xai --stdin; echo "== $?"
"$FERMIX" secrets list; echo "== $?"
"#;

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts a session as a desktop would"
)]
fn a_key_goes_into_a_real_keyring_and_comes_back_and_a_locked_one_asks_nobody() {
    if let Some(missing) = NEEDED.iter().find(|program| !Path::new(program).exists()) {
        eprintln!("skipped: {missing} is not installed");
        return;
    }
    let key = "zebra-93-quilt-Umlaut-4711";
    let home = TestHome::new();
    let model = FakeModel::start([Step::say("first"), Step::say("second")]);
    model.require_key(key);
    home.use_model(&model, "[fermix_core]\nsecret_store = \"keyring\"\n");
    let runtime = tempfile::tempdir().unwrap();
    let output = Command::new(NEEDED[0])
        .args(["--", "sh", "-c", SCRIPT])
        .env_clear()
        .envs(home.env())
        .env_remove("OPENAI_COMPATIBLE_API_KEY")
        .env("XDG_RUNTIME_DIR", runtime.path())
        .env("XDG_CACHE_HOME", runtime.path())
        .env("FERMIX", env!("CARGO_BIN_EXE_fermix"))
        .env("KEY", key)
        .current_dir(home.workspace())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let parts: Vec<&str> = text.split("== ").collect();
    let check = |index: usize, wanted: &[&str]| {
        for word in wanted {
            let part = parts.get(index).unwrap_or(&"");
            assert!(part.contains(word), "{index} {word}: {text}\n{errors}");
        }
    };
    check(0, &["api_key = \"@keyring\""]);
    check(1, &["1\n", "first"]);
    check(2, &["0\n", "second"]);
    check(3, &["0\n"]);
    // The file store is empty again, and a locked keyring fails at once and without a dialog.
    check(4, &["0\n"]);
    assert!(!parts[3].contains("fermix.OPENAI"), "{text}");
    check(5, &["1\n"]);
    check(6, &["1\n"]);
    // The store was named, so nothing falls back to the file.
    check(
        7,
        &[
            "1\n",
            "keyring  fermix_core.providers.openai_compatible.api_key",
            "not set",
        ],
    );
    assert_eq!(
        errors.matches("the keyring is locked").count(),
        4,
        "{errors}"
    );
    assert_eq!(model.request_count(), 2);
}
