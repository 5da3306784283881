//! The workspace keeps its own rules, and the checker notices when it does not.

use xtask::docgen::{GeneratedPage, stale};
use xtask::test_run::Tally;
use xtask::tidy::{Dependency, check_dependency, check_text, problems};
use xtask::workspace_root;

#[test]
fn the_workspace_is_tidy() {
    let problems = problems(&workspace_root()).expect("the tree can be read");
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn layers_point_down() {
    let allowed = |user, used, in_tests_only| {
        check_dependency(Dependency {
            user,
            used,
            in_tests_only,
        })
        .is_none()
    };
    let cases = [
        ("config", "types", false, true),
        ("types", "config", false, false),
        ("config", "net", false, false),
        ("config", "net", true, false),
        ("agent", "tools", false, false),
        ("agent", "providers", false, true),
        ("providers", "net", false, true),
        ("providers", "capability", false, false),
        ("capability", "search", false, true),
        ("capability", "config", false, false),
        ("channels", "capability", false, true),
        ("channels", "agent", false, false),
        ("daemon", "channels", false, true),
        ("daemon", "cli", true, false),
        ("agent", "testkit", true, true),
        ("agent", "testkit", false, false),
        ("testkit", "types", false, true),
        ("testkit", "config", false, false),
        ("cli", "xtask", true, false),
        ("xtask", "testkit", false, true),
        ("unheard", "types", false, false),
        ("daemon", "unheard", false, false),
    ];
    for (user, used, in_tests_only, expected) in cases {
        assert_eq!(
            allowed(user, used, in_tests_only),
            expected,
            "{user} uses {used}"
        );
    }
}

#[test]
fn files_are_judged_by_their_text() {
    let long = format!("//! Doc.\n{}", "fn f() {}\n".repeat(600));
    let fits = format!("//! Doc.\n{}", "fn f() {}\n".repeat(599));
    let silenced = "//! Doc.\n#[expect(clippy::disallowed_methods, reason = \"x\")]\nfn f() {}\n";
    let tested = format!("//! Doc.\n#[cfg(test)]\nmod tests {{\n{silenced}}}\n");
    let unfinished = |name: &str| format!("//! Doc.\nfn f() {{ {name}!() }}\n");
    let path_line = |path: &str| format!("See \"{path}\".\n");
    let machine = ["wo", "rk/notes"].concat();
    let person = ["ho", "me/alex/notes"].concat();
    let anybody = ["ho", "me/owner/notes"].concat();
    let cases: Vec<(&str, String, usize)> = vec![
        ("crates/a/src/lib.rs", long, 1),
        ("crates/a/src/lib.rs", fits, 0),
        ("crates/a/src/lib.rs", "fn f() {}\n".to_owned(), 1),
        (
            "crates/a/src/lib.rs",
            "/// Item doc.\nfn f() {}\n".to_owned(),
            1,
        ),
        ("crates/a/src/lib.rs", String::new(), 1),
        (
            "crates/a/src/lib.rs",
            "#![expect(\n    dead_code,\n    reason = \"x\"\n)]\n//! Doc.\n".to_owned(),
            0,
        ),
        (
            "crates/a/src/lib.rs",
            "#![allow(dead_code)]\nfn f() {}\n".to_owned(),
            1,
        ),
        ("crates/a/src/lib.rs", silenced.to_owned(), 1),
        ("crates/net/src/client.rs", silenced.to_owned(), 0),
        ("crates/a/tests/it/main.rs", silenced.to_owned(), 0),
        ("crates/a/src/lib.rs", tested, 0),
        ("crates/a/src/lib.rs", unfinished("todo"), 1),
        ("crates/a/src/lib.rs", unfinished("unimplemented"), 1),
        ("crates/a/src/lib.rs", unfinished("dbg"), 1),
        ("crates/a/src/lib.rs", unfinished("my_todo"), 0),
        ("docs/a.md", path_line(&format!("/{machine}")), 1),
        ("docs/a.md", path_line(&format!("/{person}")), 1),
        ("docs/a.md", path_line(&format!("/{anybody}")), 0),
        ("docs/a.md", path_line(&format!("/srv/{machine}")), 0),
        (
            "docs/a.md",
            path_line(&format!("https://example.com/{machine}")),
            0,
        ),
    ];
    for (path, text, expected) in cases {
        let found = check_text(path, &text);
        assert_eq!(found.len(), expected, "{path}: {text:.80}\n{found:?}");
    }
}

#[test]
fn generated_pages_are_compared_with_the_code() {
    let pages = [
        GeneratedPage {
            path: "docs/fresh.md",
            render: || "same".to_owned(),
        },
        GeneratedPage {
            path: "docs/old.md",
            render: || "new".to_owned(),
        },
        GeneratedPage {
            path: "docs/missing.md",
            render: || "new".to_owned(),
        },
    ];
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(root.path().join("docs")).expect("a folder");
    std::fs::write(root.path().join("docs/fresh.md"), "same").expect("a file");
    std::fs::write(root.path().join("docs/old.md"), "old").expect("a file");
    let stale: Vec<&str> = stale(root.path(), &pages)
        .iter()
        .map(|page| page.path)
        .collect();
    assert_eq!(stale, ["docs/old.md", "docs/missing.md"]);
}

#[test]
fn the_closing_line_counts_what_the_runners_say() {
    let mut tally = Tally::default();
    tally.add_nextest("        PASS [   0.034s] (1/8) a::it b");
    tally.add_nextest(
        "     Summary [   0.966s] 8 tests run: 4 passed (1 slow, 1 flaky), 2 failed, 1 timed out, 1 exec failed, 3 skipped",
    );
    assert_eq!(
        tally,
        Tally {
            passed: 4,
            failed: 4
        }
    );
    tally.add_nextest("     Summary [   0.1s] 1 test run: 1 passed, 0 skipped");
    tally.add_cargo_test(
        "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out",
    );
    tally.add_cargo_test("test some::result ... ok");
    assert_eq!(
        tally,
        Tally {
            passed: 8,
            failed: 5
        }
    );
}
