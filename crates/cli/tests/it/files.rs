//! The file tools through the binary: every byte that was not named stays.

use std::os::unix::fs::symlink;

use fermix_testkit::TestHome;
use serde_json::{Value, json};

use crate::support::{Run, fermix, tree};

fn call(home: &TestHome, tool: &str, args: &Value) -> Run {
    fermix(home, &["tools", "call", tool, "--args", &args.to_string()])
}

#[test]
fn an_edit_touches_only_what_it_names() {
    let home = TestHome::new();
    // Name, before, anchor, replacement, after.
    type Case = (
        &'static str,
        &'static [u8],
        &'static str,
        &'static str,
        &'static [u8],
    );
    let cases: [Case; 6] = [
        (
            "crlf",
            b"one\r\ntwo\r\nthree\r\n",
            "one\ntwo",
            "1\n2",
            b"1\r\n2\r\nthree\r\n",
        ),
        (
            "tabs",
            b"\tif a {\n\t\tb\n\t}\n",
            "\t\tb",
            "\t\tc",
            b"\tif a {\n\t\tc\n\t}\n",
        ),
        (
            "bom",
            b"\xEF\xBB\xBFhello\n",
            "hello",
            "bye",
            b"\xEF\xBB\xBFbye\n",
        ),
        ("no newline", b"a b", "b", "c", b"a c"),
        ("latin1", b"caf\xE9 one\n", "one", "two", b"caf\xE9 two\n"),
        ("mixed ends", b"a\r\nb\nc\r\n", "b", "B", b"a\r\nB\nc\r\n"),
    ];
    for (name, before, old, new, after) in cases {
        home.file("f.txt", before);
        call(
            &home,
            "file_edit",
            &json!({ "path": "f.txt", "old_string": old, "new_string": new }),
        )
        .code(0);
        assert_eq!(home.read("f.txt").unwrap(), after, "{name}");
    }
}

#[test]
fn an_edit_that_is_not_exact_changes_nothing_and_says_where_to_look() {
    let home = TestHome::new();
    let text = "fn a() {\n\treturn 1;\n}\nfn b() {\n\treturn 1;\n}\n";
    home.file("f.rs", text);
    let cases = [
        ("    return 1;", vec!["2"]),
        ("return 1;", vec!["2", "5", "not unique"]),
        ("return 2;", vec!["not found"]),
    ];
    for (old, words) in cases {
        let run = call(
            &home,
            "file_edit",
            &json!({ "path": "f.rs", "old_string": old, "new_string": "x" }),
        )
        .code(1);
        for word in words {
            assert!(run.stdout.contains(word), "{old}: {}", run.stdout);
        }
        assert_eq!(home.read("f.rs").unwrap(), text.as_bytes());
    }
}

#[test]
fn links_that_stay_inside_work_and_links_that_leave_are_refused() {
    let home = TestHome::new();
    home.file("real.txt", "inside\n");
    let outside = home.os_home().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("secret.txt"), "secret\n").unwrap();
    symlink("real.txt", home.workspace().join("stays.txt")).unwrap();
    symlink(
        outside.join("secret.txt"),
        home.workspace().join("leaves.txt"),
    )
    .unwrap();
    symlink(&outside, home.workspace().join("folder")).unwrap();

    assert!(
        call(&home, "file_read", &json!({ "path": "stays.txt" }))
            .code(0)
            .stdout
            .contains("inside")
    );
    let before = tree(home.os_home());
    for path in [
        "leaves.txt",
        "folder/secret.txt",
        "../../outside/secret.txt",
    ] {
        for (tool, args) in [
            ("file_read", json!({ "path": path })),
            ("file_write", json!({ "path": path, "content": "x" })),
            (
                "file_edit",
                json!({ "path": path, "old_string": "secret", "new_string": "x" }),
            ),
        ] {
            let run = call(&home, tool, &args).code(1);
            assert!(
                !run.stdout.contains("secret\n"),
                "{tool} {path}: {}",
                run.stdout
            );
        }
    }
    let after = tree(home.os_home());
    let changed = |path: &std::path::Path| !path.starts_with(home.fermix_home().join("traces"));
    let only_tools_files = |files: std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>| {
        files
            .into_iter()
            .filter(|(path, _)| changed(path))
            .collect::<Vec<_>>()
    };
    assert_eq!(only_tools_files(before), only_tools_files(after));
}

#[test]
fn fermix_keeps_its_own_state_to_itself() {
    let home = TestHome::new();
    home.write_config("[sandbox]\nmode = \"open\"\n");
    for path in [
        "~/.fermix/config.toml",
        "~/.FERMIX/Config.toml",
        "~/.fermix/memory.db-wal",
        "~/.ssh/id_rsa",
        "/etc/passwd",
    ] {
        for (tool, args) in [
            ("file_read", json!({ "path": path })),
            ("file_write", json!({ "path": path, "content": "x" })),
        ] {
            let run = call(&home, tool, &args).code(1);
            assert!(run.stdout.starts_with("Error: "), "{path}: {}", run.stdout);
        }
    }
    assert_eq!(
        std::fs::read_to_string(home.config_path()).unwrap(),
        "[sandbox]\nmode = \"open\"\n"
    );
}

#[test]
fn bytes_that_are_no_text_and_endless_output_stay_bounded() {
    let home = TestHome::new();
    let run = call(
        &home,
        "shell",
        &json!({ "command": "printf 'caf\\351\\n'" }),
    )
    .code(0);
    assert!(run.stdout.contains("caf\u{FFFD}"), "{}", run.stdout);
    let run = call(
        &home,
        "shell",
        &json!({ "command": "head -c 50000000 /dev/zero | tr '\\0' 'x'" }),
    )
    .code(0);
    assert!(run.stdout.len() < 300_000, "{} bytes", run.stdout.len());
    assert!(
        run.stdout.contains("omitted") || run.stdout.contains("cut"),
        "{}",
        &run.stdout[run.stdout.len() - 500..]
    );
}
