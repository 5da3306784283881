//! A temporary home is complete, isolated and gone afterwards.

use std::collections::BTreeMap;
use std::ffi::OsString;

use fermix_testkit::{FakeModel, Script, Step, TestHome};
use pretty_assertions::assert_eq;

#[test]
fn a_home_holds_files_and_configuration_and_disappears() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|_| Step::say("ok")));
    home.use_model(&model, "[sandbox]\nmode = \"strict\"\n");
    let written = home.file("notes/today.txt", "hello");

    let config = std::fs::read_to_string(home.config_path()).unwrap();
    assert!(config.contains(&model.base_url()) && config.ends_with("mode = \"strict\"\n"));
    assert!(written.starts_with(home.workspace()) && home.workspace().starts_with(home.os_home()));
    assert_eq!(
        home.read("notes/today.txt").as_deref(),
        Some("hello".as_bytes())
    );
    assert_eq!(home.read("absent"), None);

    let env: BTreeMap<OsString, OsString> = home.env().into_iter().collect();
    assert_eq!(env[&OsString::from("HOME")], home.os_home());
    assert_eq!(env[&OsString::from("FERMIX_HOME")], home.fermix_home());
    assert!(env.contains_key(&OsString::from("PATH")));

    let root = home.os_home().to_owned();
    drop(home);
    assert!(!root.exists());
}

#[test]
#[should_panic(expected = "not a plain path inside the workspace")]
fn a_file_outside_the_workspace_is_refused() {
    TestHome::new().file("../elsewhere", "x");
}
