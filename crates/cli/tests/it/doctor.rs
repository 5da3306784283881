//! `fermix doctor` through the binary.

use fermix_testkit::TestHome;
use serde_json::{Value, json};

use crate::support::{Run, fermix};

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let rows = rows.as_array().expect("a list");
    rows.iter()
        .find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("no row {name}: {rows:?}"))
}

fn rows(run: &Run) -> Value {
    run.json()
}

#[test]
fn a_fresh_home_is_sound_and_says_what_is_missing() {
    let home = TestHome::new();
    let run = fermix(&home, &["doctor", "--json"]).code(0);
    let rows = rows(&run);
    for (name, status) in [
        ("home", "ok"),
        ("config", "ok"),
        ("daemon", "warn"),
        ("store", "ok"),
        ("sandbox", "ok"),
        ("providers", "warn"),
        ("discovery", "ok"),
    ] {
        assert_eq!(row(&rows, name)["status"], status, "{}", row(&rows, name));
    }
    // That no daemon runs is one row's finding.
    assert_eq!(run.stdout.matches("not running").count(), 1);
    let shown = fermix(&home, &["doctor"]).code(0);
    assert!(shown.stdout.contains("warn  providers"), "{}", shown.stdout);
}

#[test]
fn a_broken_file_fails_its_row_and_the_others_still_print() {
    let home = TestHome::new();
    std::fs::write(
        home.fermix_home().join("config.toml"),
        "[sandbox]\nmode = 7\n",
    )
    .unwrap();
    std::fs::write(
        home.fermix_home().join("memory.db"),
        "not a database, but long enough",
    )
    .unwrap();
    let run = fermix(&home, &["doctor", "--json"]).code(1);
    let rows = rows(&run);
    assert_eq!(row(&rows, "config")["status"], "fail");
    assert!(
        row(&rows, "config")["detail"]
            .as_str()
            .unwrap()
            .contains("mode")
    );
    assert_eq!(row(&rows, "store")["status"], "fail");
    assert_eq!(row(&rows, "home")["status"], "ok");
}

#[test]
fn a_home_that_was_open_to_others_is_the_owners_alone_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = TestHome::new();
    fermix(&home, &["doctor"]).code(0);
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.fermix_home(), open).unwrap();
    let rows = rows(&fermix(&home, &["doctor", "--json"]).code(0));
    assert_eq!(row(&rows, "home")["facts"]["mode"], "700");
}

#[test]
fn refused_folders_come_with_the_grant_that_would_open_them() {
    let home = TestHome::new();
    let outside = home.os_home().join("elsewhere");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("a.txt"), "x").unwrap();
    for _ in 0..2 {
        let args = json!({"path": outside.join("a.txt")}).to_string();
        fermix(&home, &["tools", "call", "file_read", "--args", &args]).code(1);
    }
    let ssh = json!({"path": "~/.ssh/id_rsa"}).to_string();
    fermix(&home, &["tools", "call", "file_read", "--args", &ssh]).code(1);
    let rows = rows(&fermix(&home, &["doctor", "--json"]).code(0));
    let found = row(&rows, "sandbox");
    let detail = found["detail"].as_str().unwrap();
    let grant = format!(
        "fermix grant path {}",
        outside.canonicalize().unwrap().display()
    );
    assert!(detail.contains(&grant) && detail.contains("2×"), "{detail}");
    assert!(detail.contains("not grantable"), "{detail}");
}
