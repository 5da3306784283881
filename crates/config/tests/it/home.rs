//! Where the home is, who can enter it, and what the environment contributes.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fermix_config::{Environment, Home, HomeError};
use pretty_assertions::assert_eq;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn flag_then_variable_then_default_and_blank_is_unset() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    let at = |name: &str| base.join(name).to_str().unwrap().to_owned();
    // (flag, FERMIX_HOME, FERMIX_TRACE_DIR) → (home, traces)
    let cases = [
        (None, None, None, at(".fermix"), at(".fermix/traces")),
        (
            None,
            Some("".to_owned()),
            Some(" ".to_owned()),
            at(".fermix"),
            at(".fermix/traces"),
        ),
        (
            None,
            Some("  ".to_owned()),
            None,
            at(".fermix"),
            at(".fermix/traces"),
        ),
        (
            None,
            Some(at("variable")),
            None,
            at("variable"),
            at("variable/traces"),
        ),
        (
            None,
            Some("~/tilde".to_owned()),
            Some("~/elsewhere".to_owned()),
            at("tilde"),
            at("elsewhere"),
        ),
        (
            Some(at("flag/deep")),
            Some(at("ignored")),
            None,
            at("flag/deep"),
            at("flag/deep/traces"),
        ),
    ];
    for (flag, variable, traces, expected_root, expected_traces) in cases {
        let mut pairs = vec![("HOME", base.to_str().unwrap().to_owned())];
        pairs.extend(variable.map(|value| ("FERMIX_HOME", value)));
        pairs.extend(traces.map(|value| ("FERMIX_TRACE_DIR", value)));
        let home = Home::resolve(
            flag.as_ref().map(Path::new),
            &Environment::from_pairs(pairs),
        )
        .unwrap();
        assert_eq!(
            (home.root(), home.traces()),
            (Path::new(&expected_root), Path::new(&expected_traces))
        );
        assert_eq!(mode(home.root()), 0o700);
        assert_eq!(
            home.config_file(),
            PathBuf::from(&expected_root).join("config.toml")
        );
    }
    assert!(
        !base.join("ignored").exists(),
        "a home that is not used is not created"
    );
}

#[test]
fn only_an_empty_folder_or_a_fermix_home_is_made_private() {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment::from_pairs([("HOME", folder.path())]);
    // (what lies in the open folder, whether it may be made private)
    let cases: &[(&[(&str, &str)], bool)] = &[
        (&[], true),
        (&[("config.toml", "# nothing yet")], true),
        (
            &[
                ("config.toml", "[fermix_core.agent]\n"),
                ("notes.txt", "mine"),
            ],
            true,
        ),
        (&[("memory.db", ""), ("notes.txt", "mine")], true),
        (&[("auth.json", "{}"), ("workspace/a.txt", "")], true),
        (
            &[("traces/2026-12-01/x.jsonl", ""), ("config.toml.bak", "")],
            true,
        ),
        (&[("notes.txt", "mine")], false),
        (
            &[
                ("config.toml", "title = \"a web site\"\n"),
                ("content/page.md", ""),
            ],
            false,
        ),
        (&[("workspace/a.txt", ""), (".git/HEAD", "")], false),
        (&[("memory.db/a.txt", ""), ("src/main.rs", "")], false),
    ];
    for (index, (files, is_home)) in cases.iter().enumerate() {
        let open = folder.path().join(index.to_string());
        fs::create_dir(&open).unwrap();
        for (name, text) in *files {
            let file = open.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let pairs = [("HOME", folder.path()), ("FERMIX_HOME", open.as_path())];
        for outcome in [
            Home::resolve(Some(&open), &environment),
            Home::resolve(None, &Environment::from_pairs(pairs)),
        ] {
            if *is_home {
                outcome.unwrap_or_else(|error| panic!("{files:?}: {error}"));
                assert_eq!(mode(&open), 0o700, "{files:?}");
            } else {
                let error = outcome.expect_err("it is somebody's folder");
                assert!(matches!(error, HomeError::Occupied { .. }), "{error}");
                assert!(error.to_string().contains("chmod 700"), "{error}");
                assert_eq!(mode(&open), 0o755, "{files:?}");
                // The way out that the message names.
                fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
                Home::resolve(Some(&open), &environment).unwrap();
                fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
    }
}

#[test]
fn a_relative_home_is_no_exception() {
    // The working folder of a test is that of its crate.
    let before = mode(Path::new("."));
    for outcome in [
        Home::resolve(None, &Environment::from_pairs([("FERMIX_HOME", ".")])),
        Home::resolve(Some(Path::new("src/..")), &Environment::default()),
    ] {
        let is_open = before & 0o077 != 0;
        assert_eq!(matches!(outcome, Err(HomeError::Occupied { .. })), is_open);
    }
    assert_eq!(mode(Path::new(".")), before);
}

#[test]
fn a_folder_that_cannot_be_a_home_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment::from_pairs([("HOME", folder.path())]);
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let before = mode(folder.path());
    let mut cases = vec![
        (shared.as_path(), "users share"),
        (folder.path(), "home folder itself"),
        (Path::new("/"), "root of the file system"),
        (Path::new(""), "the name is empty"),
        (file.as_path(), "cannot create"),
    ];
    let of_the_system = [
        "/etc",
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/var",
        "/boot",
        "/dev",
        "/proc",
        "/sys",
        "/run",
        "/opt",
        "/srv",
        "/tmp",
        "/etc/",
        "/usr/../etc",
    ];
    cases.extend(of_the_system.map(|path| (Path::new(path), "of the operating system")));
    let mode_if_any = |path: &str| {
        fs::metadata(path)
            .ok()
            .map(|found| found.permissions().mode())
    };
    let modes = of_the_system.map(mode_if_any);
    for (path, reason) in cases {
        let error = Home::resolve(Some(path), &environment)
            .expect_err("not a home")
            .to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!(of_the_system.map(mode_if_any), modes);
    assert_eq!(
        (mode(&shared), mode(folder.path())),
        (0o1777, before),
        "a refused folder is left alone"
    );
}

#[test]
fn without_any_home_the_fix_is_named() {
    for pairs in [vec![], vec![("HOME", "")], vec![("HOME", "relative")]] {
        let error = Home::resolve(None, &Environment::from_pairs(pairs)).expect_err("no home");
        assert!(matches!(error, HomeError::Unknown));
        assert!(error.to_string().contains("--home"), "{error}");
    }
}

#[test]
fn the_environment_answers_blank_and_broken_values_as_unset_and_hides_values() {
    let environment = Environment::from_pairs([
        (OsString::from("BLANK"), OsString::from(" \t")),
        (
            OsString::from("BROKEN"),
            OsString::from_vec(vec![b'a', 0xff]),
        ),
        (
            OsString::from("OPENAI_API_KEY"),
            OsString::from("sk-visible"),
        ),
        (OsString::from("NO_COLOR"), OsString::from("1")),
    ]);
    assert_eq!(environment.get("BLANK"), None);
    assert_eq!(environment.get("BROKEN"), None);
    assert!(environment.get_os("BROKEN").is_some());
    assert_eq!(environment.get("OPENAI_API_KEY"), Some("sk-visible"));
    assert_eq!(environment.pairs().len(), 4);
    assert!(environment.no_color());
    assert!(!format!("{environment:?}").contains("sk-visible"));

    for (value, expected) in [("0", false), ("off", false), ("1", true), ("", true)] {
        let environment = Environment::from_pairs([("FERMIX_TRACE_CONTENT", value)]);
        assert_eq!(environment.trace_content(), expected, "{value:?}");
        assert!(!environment.no_color());
    }
}
