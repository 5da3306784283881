//! Secrets in the file: what names them, where each is, and how plain text leaves the file.

use std::fs;

use fermix_config::{
    ConfigFile, KeySetting, Overrides, ProviderId, SecretPlace, SettingValue, Shown,
    secrets as registry,
};
use fermix_types::SecretStore;

use crate::support::TestHome;

const KEY: &str = "sk-topsecret0123456789";

fn backup(test: &TestHome) -> String {
    let path = test.home.config_file().with_extension("toml.bak");
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_secret_answers_to_its_provider_its_variable_and_its_key() {
    for name in [
        "anthropic",
        "ANTHROPIC_API_KEY",
        "anthropic_api_key",
        " Anthropic ",
        "fermix_core.providers.anthropic.api_key",
    ] {
        let secret = registry::find(name).unwrap();
        assert_eq!(
            (secret.name(), secret.item(), secret.key()),
            (
                "anthropic",
                "ANTHROPIC_API_KEY",
                "fermix_core.providers.anthropic.api_key"
            ),
            "{name}"
        );
    }
    let unknown = registry::find("antropic").unwrap_err().to_string();
    assert!(unknown.contains("did you mean `anthropic`?"), "{unknown}");
    // Who pastes the key in the place of the name must not find it in a log.
    for pasted in [
        KEY,
        "AIzaSyA0123456789",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMN",
    ] {
        let error = registry::find(pasted).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(pasted), "{error}");
    }
    let mut names: Vec<&str> = registry::all().map(|secret| secret.name()).collect();
    let mut items: Vec<&str> = registry::all().map(|secret| secret.item()).collect();
    for list in [&mut names, &mut items] {
        let count = list.len();
        list.sort_unstable();
        list.dedup();
        assert_eq!(list.len(), count, "two secrets of one name");
    }
}

#[test]
fn a_sentinel_is_read_as_the_store_it_names_and_only_from_the_file() {
    for store in SecretStore::ALL {
        let test = TestHome::with_file(&format!(
            "[fermix_core.providers.openai]\napi_key = \"{}\"\n",
            store.sentinel()
        ));
        let config = test.load().unwrap();
        assert_eq!(
            config.providers.get(ProviderId::Openai).api_key,
            Some(KeySetting::Stored(*store))
        );
        assert_eq!(config.warnings, Vec::<String>::new());
        let secret = registry::find("openai").unwrap();
        let file = test.open();
        assert_eq!(
            file.secret_place(secret).unwrap(),
            SecretPlace::Stored(*store)
        );
        assert_eq!(file.plain_secrets().unwrap(), []);
        assert_eq!(
            file.masked_text().unwrap(),
            test.read(),
            "no secret to mask"
        );
        assert_eq!(
            file.get(secret.key()).unwrap(),
            Shown::Value(SettingValue::Text(store.sentinel().to_owned()))
        );

        let variables = TestHome::with_variables(&[("OPENAI_API_KEY", store.sentinel())]);
        let error = variables.load().unwrap_err().to_string();
        assert!(error.contains("fermix secrets set"), "{error}");
        let overrides =
            Overrides::default().with("fermix_core.providers.openai.api_key", store.sentinel());
        assert!(fermix_config::Config::load(&test.home, &test.environment, &overrides).is_err());
    }
}

#[test]
fn pointing_to_a_store_changes_the_value_alone_and_leaves_no_copy_in_the_backup() {
    let text = |openai: &str, xai: &str| {
        format!(
            "# mine\n[fermix_core.providers.openai] # the first\napi_key = {openai} # rotate in May\n\
             default_model = 'gpt' # ok\n\n[fermix_core.providers]\nxai = {{ api_key = {xai}, primary = true }}\n"
        )
    };
    let plain = text(&format!("'{KEY}'"), "\"xai-1\"");
    let test = TestHome::with_file(&plain);
    let mut file = test.open();
    let found = file.plain_secrets().unwrap();
    let names: Vec<_> = found
        .iter()
        .map(|plain| (plain.secret.name(), plain.value.expose()))
        .collect();
    assert_eq!(names, [("openai", KEY), ("xai", "xai-1")]);
    assert!(!format!("{found:?}").contains("topsecret"));

    file.point_to_store(found[0].secret, SecretStore::File)
        .unwrap();
    file.save().unwrap();
    let expected = text("\"@file\"", "\"xai-1\"");
    assert_eq!(test.read(), expected);
    // The other one is in the file still, so the backup is what the file was but for the key.
    assert_eq!(backup(&test), expected);

    let mut file = test.open();
    file.point_to_store(found[1].secret, SecretStore::Keyring)
        .unwrap();
    file.save().unwrap();
    assert_eq!(test.read(), text("\"@file\"", "\"@keyring\""));
    assert!(!backup(&test).contains("xai-1"));
}

#[test]
fn a_key_that_is_removed_or_replaced_does_not_stay_in_the_backup() {
    let test = TestHome::with_file(&format!(
        "[fermix_core.providers.openai]\napi_key = \"{KEY}\"\n[sandbox]\nmode = \"open\"\n"
    ));
    ConfigFile::update(&test.home, |file| {
        file.unset("fermix_core.providers.openai.api_key")
    })
    .unwrap();
    assert!(!test.read().contains(KEY));
    assert!(!backup(&test).contains(KEY));
    assert!(backup(&test).contains("mode = \"open\""));
}

#[test]
fn a_save_of_something_else_keeps_a_plain_key_where_it_was() {
    let test = TestHome::with_file(&format!(
        "[fermix_core.providers.openai]\napi_key = \"{KEY}\"\n"
    ));
    ConfigFile::update(&test.home, |file| file.set("sandbox.mode", "open")).unwrap();
    assert!(test.read().contains(KEY) && backup(&test).contains(KEY));
}

#[test]
fn a_profile_is_a_name_that_can_be_part_of_a_path() {
    for good in ["general", "work-2", "a_b"] {
        let test = TestHome::with_file(&format!("fermix_core.profile = \"{good}\"\n"));
        assert_eq!(test.load().unwrap().profile, good);
    }
    for bad in [
        "",
        " ",
        "../x",
        "a.b",
        "a:b",
        "Work",
        "aaaaaaaaaabbbbbbbbbbccccccccccddd",
    ] {
        let test = TestHome::with_file(&format!("fermix_core.profile = \"{bad}\"\n"));
        assert!(test.load().is_err(), "{bad:?}");
    }
}
