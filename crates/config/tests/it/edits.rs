//! Changing the file key by key: what moves, what stays, what is refused.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use fermix_config::{ConfigFile, EditError, Shown};
use pretty_assertions::assert_eq;

use crate::support::TestHome;

const FILE: &str = "\
# top
[fermix_core.agent]   # who
name = \"ferra\"      # hers
# about the budget
daily_token_budget = 5

# models
[fermix_core.models.\"qwen3:32b\"]
vision = true

[sandbox]
allowed_roots = [
  \"/srv/a\", # first
  \"/srv/b\",
]
env = { mode = \"all\", allow = [\"A\"] }
# the end
";

#[test]
fn a_change_touches_its_own_line_only() {
    // (key, value or None to unset, what goes, what comes in its place)
    let cases: &[(&str, Option<&str>, &str, &str)] = &[
        (
            "fermix_core.agent.name",
            Some("other"),
            "\"ferra\"",
            "\"other\"",
        ),
        (
            "fermix_core.agent.name",
            Some("\"quoted \\\" one\""),
            "\"ferra\"",
            "'quoted \" one'",
        ),
        (
            "fermix_core.agent.name",
            None,
            "name = \"ferra\"      # hers",
            "# hers",
        ),
        (
            "fermix_core.agent.daily_token_budget",
            Some("1_000"),
            "= 5",
            "= 1000",
        ),
        (
            "fermix_core.agent.daily_token_budget",
            None,
            "daily_token_budget = 5\n",
            "",
        ),
        (
            "fermix_core.agent.guest_persona",
            Some("true"),
            "= 5\n",
            "= 5\nguest_persona = true\n",
        ),
        (
            "fermix_core.models.\"qwen3:32b\".vision",
            Some("false"),
            "vision = true",
            "vision = false",
        ),
        (
            "fermix_core.models.\"qwen3:32b\".max_output",
            Some("9"),
            "vision = true\n",
            "vision = true\nmax_output = 9\n",
        ),
        (
            "fermix_core.models.plain.vision",
            Some("true"),
            "# the end\n",
            "# the end\n\n[fermix_core.models.plain]\nvision = true\n",
        ),
        (
            "fermix_core.providers.openai_compatible.base_url",
            Some("http://localhost:1/v1"),
            "# the end\n",
            "# the end\n\n[fermix_core.providers.openai_compatible]\nbase_url = \"http://localhost:1/v1\"\n",
        ),
        (
            "sandbox.allowed_roots",
            Some("[/srv/c, \"/srv/d\"]"),
            "[\n  \"/srv/a\", # first\n  \"/srv/b\",\n]",
            "[\"/srv/c\", \"/srv/d\"]",
        ),
        (
            "sandbox.allowed_roots",
            None,
            "allowed_roots = [\n  \"/srv/a\", # first\n  \"/srv/b\",\n]\n",
            "",
        ),
        (
            "sandbox.mode",
            Some("strict"),
            "[\"A\"] }\n",
            "[\"A\"] }\nmode = \"strict\"\n",
        ),
        (
            "sandbox.env.mode",
            Some("selected"),
            "\"all\"",
            "\"selected\"",
        ),
        ("sandbox.env.mode", None, "mode = \"all\", ", ""),
        ("sandbox.env.allow", None, ", allow = [\"A\"]", ""),
        (
            "sandbox.env.deny",
            Some("[B, C]"),
            "[\"A\"] }",
            "[\"A\"], deny = [\"B\", \"C\"] }",
        ),
        (
            "sandbox.env.TOKEN.command",
            Some("pass"),
            "[\"A\"] }",
            "[\"A\"], TOKEN.command = \"pass\" }",
        ),
        (
            "fermix_channels.telegram.owner_user_id",
            Some("123"),
            "# the end\n",
            "# the end\n\n[fermix_channels.telegram]\nowner_user_id = \"123\"\n",
        ),
    ];
    for line_break in ["\n", "\r\n"] {
        for mark in ["", "\u{feff}"] {
            for (key, value, gone, came) in cases {
                let in_file = |text: &str| text.replace('\n', line_break);
                let before = format!("{mark}{}", in_file(FILE));
                let test = TestHome::with_file(&before);
                let mut file = test.open();
                match value {
                    Some(value) => file
                        .set(key, value)
                        .unwrap_or_else(|error| panic!("{key}: {error}")),
                    None => assert!(
                        file.unset(key)
                            .unwrap_or_else(|error| panic!("{key}: {error}")),
                        "{key}"
                    ),
                }
                assert_eq!(
                    file.save().map_err(|error| error.to_string()),
                    Ok(true),
                    "{key}"
                );
                assert_eq!(
                    test.read(),
                    before.replacen(&in_file(gone), &in_file(came), 1),
                    "{key}"
                );
                test.load().unwrap();
                let path = test.home.config_file();
                assert_eq!(
                    fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                    0o600
                );
                assert_eq!(
                    fs::read_to_string(path.with_extension("toml.bak")).unwrap(),
                    before
                );
            }
        }
    }
}

#[test]
fn keys_find_their_place_in_every_way_of_writing_a_file() {
    // (file, key, value, file afterwards)
    let cases = [
        ("", "sandbox.mode", "open", "[sandbox]\nmode = \"open\"\n"),
        (
            "# only a comment",
            "sandbox.mode",
            "open",
            "# only a comment\n\n[sandbox]\nmode = \"open\"\n",
        ),
        (
            "sandbox.mode = \"open\"",
            "sandbox.workspace_root",
            "~/w",
            "sandbox.mode = \"open\"\nsandbox.workspace_root = \"~/w\"\n",
        ),
        (
            "[fermix_core]\nagent.name = \"a\"\n",
            "fermix_core.agent.guest_persona",
            "true",
            "[fermix_core]\nagent.name = \"a\"\nagent.guest_persona = true\n",
        ),
        (
            "[sandbox.env]\nmode = \"all\"\n[fermix_core]\n",
            "sandbox.mode",
            "open",
            "[sandbox.env]\nmode = \"all\"\n[fermix_core]\n\n[sandbox]\nmode = \"open\"\n",
        ),
        (
            "[sandbox.env]\nmode = \"all\"\n[sandbox]\n# empty\n[fermix_core]\n",
            "sandbox.mode",
            "open",
            "[sandbox.env]\nmode = \"all\"\n[sandbox]\nmode = \"open\"\n# empty\n[fermix_core]\n",
        ),
        (
            "sandbox.mode = \"open\"\n[fermix_core]\n",
            "sandbox.env.mode",
            "all",
            "sandbox.mode = \"open\"\n[fermix_core]\n\n[sandbox.env]\nmode = \"all\"\n",
        ),
        (
            "[sandbox]\nenv = {}\n",
            "sandbox.env.mode",
            "all",
            "[sandbox]\nenv = { mode = \"all\" }\n",
        ),
        (
            "[sandbox]\nmode = \"open\"",
            "sandbox.env.allow",
            "[]",
            "[sandbox]\nmode = \"open\"\n\n[sandbox.env]\nallow = []\n",
        ),
    ];
    for (before, key, value, after) in cases {
        let test = TestHome::with_file(before);
        test.set(key, value).unwrap();
        assert_eq!(test.read(), after, "{key}");
        test.load().unwrap();
    }
}

#[test]
fn get_tells_value_default_and_secret_apart() {
    let test = TestHome::with_file(
        "[fermix_core.providers.openai]\napi_key = \"sk-hidden\"\n[sandbox]\nallowed_roots = ['/a']\n",
    );
    let file = test.open();
    assert_eq!(
        file.masked_text().unwrap(),
        "[fermix_core.providers.openai]\napi_key = \"***\"\n[sandbox]\nallowed_roots = ['/a']\n",
    );
    let shown = |key: &str| match file.get(key) {
        Ok(Shown::Value(value)) => value.to_string(),
        Ok(Shown::Hidden) => "hidden".to_owned(),
        Ok(Shown::Default(default)) => format!("default {default}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(shown("sandbox.allowed_roots"), "[\"/a\"]");
    assert_eq!(shown("sandbox.mode"), "default \"standard\"");
    assert_eq!(shown("fermix_core.timezone"), "default unset");
    assert_eq!(shown("fermix_core.providers.openai.api_key"), "hidden");
    assert_eq!(shown("fermix_core.providers.xai.api_key"), "default unset");
    assert!(shown("a..b").contains("is not a dotted key"));
}

#[test]
fn refused_changes_leave_the_file_alone() {
    const PRIMARY: &str = "# mine\n[fermix_core.providers.xai]\nprimary = true\n";
    let cases = [
        (
            "fermix_core.providers.openai.api_key",
            "sk-x",
            "`fermix_core.providers.openai.api_key` is a secret and is not written to config.toml; run `fermix secrets set openai` instead",
        ),
        (
            "fermix_core.agent.nam",
            "x",
            "unknown key `fermix_core.agent.nam`; did you mean `fermix_core.agent.name`?",
        ),
        (
            "sandbox.mode",
            "opne",
            "`sandbox.mode`: \"opne\" is not accepted; accepted: strict, standard, open; did you mean `open`?",
        ),
        (
            "sandbox.mode",
            "developer",
            "`sandbox.mode`: \"developer\" is not accepted: it is called `standard` now; run `fermix config set sandbox.mode standard`",
        ),
        (
            "fermix_core.agent.guest_persona",
            "yes",
            "`fermix_core.agent.guest_persona`: \"yes\" is not accepted; accepted: true, false",
        ),
        (
            "fermix_core.agent.name",
            "\"open",
            "`fermix_core.agent.name`: \"\\\"open\" has a quote that does not close",
        ),
        (
            "sandbox.allowed_roots",
            "/a",
            "`sandbox.allowed_roots`: \"/a\" is not accepted; expected: list of paths starting with `/` or `~/`, for example [\"/srv/work\", \"/srv/notes\"]",
        ),
        (
            "fermix_core.routing.subagent_model",
            "a\nb",
            "`fermix_core.routing.subagent_model`: \"a\\nb\" has a control character; remove it",
        ),
        (
            "fermix_core.providers.mistral.primary",
            "true",
            "config.toml:3: [fermix_core.providers.xai] primary: is true, and so is `fermix_core.providers.mistral.primary`; only one provider can be asked first",
        ),
        (
            "sandbox.env.X.source",
            "command",
            "config.toml:6: [sandbox.env.X] source: is `command`, but no `command` is given; add the helper's program",
        ),
    ];
    for (key, value, expected) in cases {
        let test = TestHome::with_file(PRIMARY);
        assert_eq!(test.set(key, value), Err(expected.to_owned()));
        assert_eq!(test.read(), PRIMARY);
        assert!(!test.home.root().join("config.toml.bak").exists());
    }
}

#[test]
fn a_wrong_key_can_be_removed_and_an_unknown_absent_one_is_a_slip() {
    let test = TestHome::with_file("[sandbox]\nmoed = 1 # typo\nmode = \"open\"\n");
    let mut file = test.open();
    file.set("sandbox.mode", "strict").unwrap();
    assert!(
        matches!(file.save(), Err(EditError::Invalid(_))),
        "the whole file is checked"
    );
    assert!(file.unset("sandbox.moed").unwrap());
    assert!(!file.unset("sandbox.workspace_root").unwrap());
    assert!(matches!(
        file.unset("sandbox.mdoe"),
        Err(EditError::Unknown { .. })
    ));
    assert!(matches!(
        file.unset("sandbox"),
        Err(EditError::Unsupported { .. })
    ));
    assert!(file.save().unwrap());
    assert!(!file.save().unwrap(), "nothing changed since");
    assert_eq!(test.read(), "[sandbox]\n# typo\nmode = \"strict\"\n");
}

#[test]
fn a_file_that_changed_meanwhile_is_not_overwritten() {
    const MINE: &str = "[sandbox]\nmode = \"open\"\n";
    let change = |test: &TestHome, outside: &dyn Fn(&TestHome)| {
        let mut file = test.open();
        file.set("sandbox.mode", "strict").unwrap();
        outside(test);
        file.save().expect_err("refused")
    };
    let test = TestHome::with_file(MINE);
    let error = change(&test, &|test| test.write("# by hand\n"));
    assert!(matches!(error, EditError::Changed { .. }), "{error}");
    assert_eq!(test.read(), "# by hand\n");

    let test = TestHome::with_file(MINE);
    let error = change(&test, &|test| {
        fs::remove_file(test.home.config_file()).unwrap();
    });
    assert!(matches!(error, EditError::Changed { .. }), "{error}");
    assert!(!test.home.config_file().exists());

    let test = TestHome::new();
    let error = change(&test, &|test| test.write("# first\n"));
    assert!(matches!(error, EditError::Changed { .. }), "{error}");
    assert_eq!(test.read(), "# first\n");
}

#[test]
fn another_writer_is_waited_for_and_a_link_stays_a_link() {
    let test = TestHome::new();
    let real = test.os_home().join("dotfiles.toml");
    fs::write(&real, "# kept\n").unwrap();
    symlink(&real, test.home.config_file()).unwrap();

    let lock = fs::File::create(test.home.root().join("config.toml.lock")).unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        let saving = scope.spawn(|| test.set("sandbox.mode", "open"));
        // While the lock is held, a save that is already waiting must not have written.
        assert_eq!(fs::read_to_string(&real).unwrap(), "# kept\n");
        lock.unlock().unwrap();
        saving.join().unwrap().unwrap();
    });
    assert_eq!(
        fs::read_to_string(&real).unwrap(),
        "# kept\n\n[sandbox]\nmode = \"open\"\n"
    );
    assert!(test.home.config_file().is_symlink());

    lock.lock().unwrap();
    let busy = test.set("sandbox.mode", "strict").unwrap_err();
    assert_eq!(busy, "another process is saving `config.toml`; try again");
}

#[test]
fn many_writers_at_once_all_make_their_change() {
    let test = TestHome::with_file("# kept\n");
    std::thread::scope(|scope| {
        for number in 0..12 {
            let home = &test.home;
            scope.spawn(move || {
                let key = format!("fermix_core.models.m{number}.max_output");
                let (before, is_written) = ConfigFile::update(home, |file| {
                    let before = file.get(&key)?;
                    file.set(&key, "7")?;
                    Ok(before)
                })
                .unwrap();
                assert_eq!((before, is_written), (Shown::Default("unset"), true));
            });
        }
    });
    assert_eq!(test.load().unwrap().models.len(), 12);
    assert!(test.read().starts_with("# kept\n"));

    // A change that fails changes nothing, and an editor's change is seen under the lock too.
    let before = test.read();
    let failed = ConfigFile::update(&test.home, |file| {
        file.set("sandbox.mode", "open")?;
        file.set("sandbox.mode", "opne")
    });
    assert!(matches!(failed, Err(EditError::BadValue { .. })));
    assert_eq!(test.read(), before);
    let mut held = ConfigFile::open_locked(&test.home).unwrap();
    held.set("sandbox.mode", "open").unwrap();
    test.write("# by hand\n");
    assert!(matches!(held.save(), Err(EditError::Changed { .. })));
    drop(held);
    test.set("sandbox.mode", "open").unwrap();
}

#[test]
fn a_header_that_is_left_bare_goes_unless_a_comment_is_about_it() {
    // (file, key, file afterwards)
    let cases = [
        ("[sandbox]\nmode = \"open\"\n", "sandbox.mode", ""),
        (
            "\u{feff}[sandbox]\r\nmode = \"open\"\r\n",
            "sandbox.mode",
            "\u{feff}",
        ),
        (
            "a.b = 1\n\n[sandbox]\nmode = \"open\"\n\n# next\n[fermix_core]\n",
            "sandbox.mode",
            "a.b = 1\n\n# next\n[fermix_core]\n",
        ),
        (
            "[sandbox]\nmode = \"open\"\n\n[sandbox.env]\nmode = \"all\"\n",
            "sandbox.mode",
            "[sandbox.env]\nmode = \"all\"\n",
        ),
        (
            "[sandbox]\nmode = \"open\"\nx = 1\n",
            "sandbox.mode",
            "[sandbox]\nx = 1\n",
        ),
        (
            "[sandbox] # mine\nmode = 1\n",
            "sandbox.mode",
            "[sandbox] # mine\n",
        ),
        (
            "# mine\n[sandbox]\nmode = 1\n",
            "sandbox.mode",
            "# mine\n[sandbox]\n",
        ),
        (
            "[sandbox]\nmode = 1 # was open\n",
            "sandbox.mode",
            "[sandbox]\n# was open\n",
        ),
        (
            "[sandbox]\n# mode\nmode = 1\n\n[a]\n",
            "sandbox.mode",
            "[sandbox]\n# mode\n\n[a]\n",
        ),
        (
            "[sandbox]\nenv.mode = 1\n",
            "sandbox.env.mode",
            "[sandbox]\n",
        ),
    ];
    for (before, key, after) in cases {
        let test = TestHome::with_file(before);
        let mut file = test.open();
        assert!(file.unset(key).unwrap());
        assert_eq!(file.text(), after, "{before:?}");
    }
}
