//! Whatever the tree and whatever the path, an opened descriptor lies inside the roots and outside
//! the protected set.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fermix_sandbox::{FileError, Scope};
use fermix_types::SandboxMode;
use proptest::prelude::*;

use crate::support::TestHome;

/// A name to link at, a target to link to, both from a small vocabulary, so that links meet.
fn links() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop::sample::select(vec!["a", "b", "c", "d/a", "d/b", "d/e/a"]);
    let target = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "d",
        "d/e",
        "..",
        "../..",
        "../../..",
        ".",
        "../.ssh",
        "../.ssh/id",
        "../project",
        "/etc/passwd",
        "/",
        "HOME",
        "HOME/.ssh",
        "HOME/.fermix/auth.json",
        "OUTSIDE",
        "OUTSIDE/file",
        "note.txt",
        "../note.txt",
        "nowhere/x",
    ]);
    prop::collection::vec(
        (name.prop_map(str::to_owned), target.prop_map(str::to_owned)),
        0..8,
    )
}

fn paths() -> impl Strategy<Value = Vec<String>> {
    let part = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "d",
        "e",
        "..",
        ".",
        "note.txt",
        ".ssh",
        ".SSH",
        "id",
        "file",
        "auth.json",
        ".fermix",
        "workspace",
        "new",
    ]);
    let start = prop::sample::select(vec!["", "~/", "WS/", "WS/", "OUTSIDE/", "/"]);
    let path = (start, prop::collection::vec(part, 1..6))
        .prop_map(|(start, parts)| format!("{start}{}", parts.join("/")));
    prop::collection::vec(path, 1..12)
}

fn check(mode: SandboxMode, links: &[(String, String)], paths: &[String]) {
    let test = TestHome::new(mode);
    let workspace = test.workspace().to_owned();
    fs::create_dir_all(workspace.join("d/e")).expect("created");
    let place = |text: &str| {
        text.replace("HOME", &test.home.display().to_string())
            .replace("OUTSIDE", &test.outside().display().to_string())
            .replace("WS", &workspace.display().to_string())
    };
    for (name, target) in links {
        // A name that is taken already stays what it is.
        let _ = symlink(place(target), workspace.join(name));
    }
    let sandbox = test.sandbox();
    let scope = Scope {
        attended: true,
        ..Scope::default()
    };
    let root: &Path = if mode == SandboxMode::Open {
        &test.home
    } else {
        &workspace
    };
    let skills = test.home.join(".fermix/skills");
    let is_inside = |path: &Path| {
        (path.starts_with(root) || (mode == SandboxMode::Standard && path.starts_with(&skills)))
            && ![".ssh", ".netrc", ".fermix/auth.json"]
                .iter()
                .any(|secret| path.starts_with(test.home.join(secret)))
    };
    for path in paths {
        let path = place(path);
        if let Ok(checked) = sandbox.readable(&path, &scope)
            && let Ok(opened) = checked.open()
        {
            let real: PathBuf =
                fs::read_link(format!("/proc/self/fd/{}", opened.file.as_raw_fd())).expect("open");
            assert!(
                is_inside(&real),
                "{path} opened {} with {links:?}",
                real.display()
            );
            assert_eq!(real, opened.path, "{path} with {links:?}");
        }
        if let Ok(checked) = sandbox.writable(&path, &scope) {
            // Most fail; those that do not must land inside.
            let written: Result<_, FileError> = checked
                .create_parents()
                .and_then(|()| checked.replace(b"written", None));
            if written.is_ok() {
                let real = checked.path().canonicalize().expect("written");
                assert!(
                    is_inside(&real),
                    "{path} wrote {} with {links:?}",
                    real.display()
                );
            }
        }
    }
    for (secret, text) in [
        (test.home.join(".ssh/id"), "SECRET key"),
        (test.home.join(".netrc"), "SECRET netrc"),
        (test.outside().join("file"), "SECRET outside"),
    ] {
        assert_eq!(
            fs::read_to_string(&secret).expect("untouched"),
            text,
            "with {links:?} and {paths:?}"
        );
    }
    assert_eq!(
        fs::read_dir(test.outside()).expect("listed").count(),
        1,
        "with {links:?} and {paths:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_descriptor_leaves_the_roots(
        mode in prop::sample::select(SandboxMode::ALL),
        links in links(),
        paths in paths(),
    ) {
        check(mode, &links, &paths);
    }
}
