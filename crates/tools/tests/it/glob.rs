//! `glob_search` (spec/02 §4.5).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{World, ok, refused};

fn file(root: &Path, name: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("below the root")).expect("the home is ours");
    fs::write(path, name).expect("the home is ours");
}

fn forest() -> World {
    let world = World::new();
    let root = world.home.workspace();
    for name in [
        "README.md",
        "a-b.rs",
        "a/b.rs",
        "a/deep/er/c.rs",
        "a/deep/d.txt",
        ".env",
        ".git/config",
        ".git/objects/ab/cd.rs",
        ".gitignore",
        "target/out.rs",
        "sp ace/ü.rs",
    ] {
        file(&root, name);
    }
    fs::write(root.join(".gitignore"), "target/\n").expect("the home is ours");
    world
}

/// Runs a search; the paths below the workspace, and the notes.
async fn search(world: &World, arguments: Value) -> (Vec<String>, Vec<String>) {
    let text = ok(world.call("glob_search", arguments).await);
    let mut lines = text.lines();
    let paths: Vec<String> =
        serde_json::from_str(lines.next().expect("an array")).expect("an array");
    let root = format!(
        "{}/",
        fs::canonicalize(world.home.workspace())
            .expect("it exists")
            .display()
    );
    let paths = paths
        .iter()
        .map(|path| {
            path.strip_prefix(&root)
                .expect("absolute and below the workspace")
                .to_owned()
        })
        .collect();
    (paths, lines.map(str::to_owned).collect())
}

#[tokio::test]
async fn patterns_find_regular_files_in_order() {
    let world = forest();
    let rust = [
        "a-b.rs",
        "a/b.rs",
        "a/deep/er/c.rs",
        "sp ace/ü.rs",
        "target/out.rs",
    ];
    let cases: &[(Value, &[&str])] = &[
        (json!({"pattern": "**/*.rs"}), &rust),
        (json!({"pattern": "./**/*.rs"}), &rust),
        (json!({"pattern": "*.rs"}), &["a-b.rs"]),
        (
            json!({"pattern": "*"}),
            &[".env", ".gitignore", "README.md", "a-b.rs"],
        ),
        (
            json!({"pattern": "*/*.rs"}),
            &["a/b.rs", "sp ace/ü.rs", "target/out.rs"],
        ),
        (
            json!({"pattern": "a/**"}),
            &["a/b.rs", "a/deep/d.txt", "a/deep/er/c.rs"],
        ),
        (json!({"pattern": "a/deep/*"}), &["a/deep/d.txt"]),
        (
            json!({"pattern": "**/{b,c}.rs"}),
            &["a/b.rs", "a/deep/er/c.rs"],
        ),
        (
            json!({"pattern": "**/[cd].*"}),
            &["a/deep/d.txt", "a/deep/er/c.rs"],
        ),
        (json!({"pattern": "README.md"}), &["README.md"]),
        (json!({"pattern": "*.rs", "path": "a"}), &["a/b.rs"]),
        (json!({"pattern": "**/*.none"}), &[]),
        (json!({"pattern": "no/such/folder/*"}), &[]),
        // Git's own files only when asked for.
        (json!({"pattern": ".git/*"}), &[".git/config"]),
        (
            json!({"pattern": "**/.git/**/*.rs"}),
            &[".git/objects/ab/cd.rs"],
        ),
        (json!({"pattern": "*", "path": ".git"}), &[".git/config"]),
        // Alternatives may go to different depths.
        (
            json!({"pattern": "{README.md,a/{b.rs,deep/*}}"}),
            &["README.md", "a/b.rs", "a/deep/d.txt"],
        ),
        // What git leaves out only when asked for, wherever the search starts.
        (
            json!({"pattern": "**/*.rs", "respect_gitignore": true}),
            &rust[..4],
        ),
        (
            json!({"pattern": "*/out.rs", "respect_gitignore": true}),
            &[],
        ),
        (
            json!({"pattern": "target/*.rs", "respect_gitignore": true}),
            &[],
        ),
        (
            json!({"pattern": "a/*.rs", "respect_gitignore": true}),
            &["a/b.rs"],
        ),
        (json!({"pattern": "target/*.rs"}), &["target/out.rs"]),
    ];
    for (arguments, expected) in cases {
        let (paths, notes) = search(&world, arguments.clone()).await;
        assert_eq!(paths, *expected, "{arguments}");
        assert_eq!(notes, Vec::<String>::new(), "{arguments}");
    }
}

#[tokio::test]
async fn links_and_special_files() {
    let world = forest();
    let root = world.home.workspace();
    file(world.home.os_home(), "elsewhere/secret.rs");
    symlink("a", root.join("folder-link")).unwrap();
    symlink("README.md", root.join("inside.md")).unwrap();
    symlink(world.home.os_home().join("elsewhere"), root.join("out")).unwrap();
    symlink(
        world.home.os_home().join("elsewhere/secret.rs"),
        root.join("secret.rs"),
    )
    .unwrap();
    symlink("..", root.join("a/up")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("fifo.rs"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let (paths, _) = search(&world, json!({"pattern": "**/*.{rs,md}"})).await;
    let expected = [
        "README.md",
        "a-b.rs",
        "a/b.rs",
        "a/deep/er/c.rs",
        "inside.md",
        "sp ace/ü.rs",
        "target/out.rs",
    ];
    assert_eq!(paths, expected);
    // A folder behind a link is not searched under the link's name, however it is written.
    for pattern in ["folder-link/*.rs", "out/*.rs", "a/up/*.md"] {
        assert_eq!(
            search(&world, json!({"pattern": pattern})).await.0,
            Vec::<String>::new(),
            "{pattern}"
        );
    }
}

#[tokio::test]
async fn protected_and_blocked_folders_are_pruned() {
    let world = World::with(|settings, surroundings| {
        settings.mode = fermix_types::SandboxMode::Open;
        settings.workspace_root = surroundings.home.clone();
        settings.blocked_roots = vec![surroundings.home.join("blocked")];
    });
    let home = world.home.os_home();
    for name in [".ssh/id.txt", "blocked/b.txt", ".netrc.txt", "open/ok.txt"] {
        file(home, name);
    }
    let text = ok(world
        .call("glob_search", json!({"pattern": "**/*.txt", "path": "~"}))
        .await);
    assert!(text.contains("open/ok.txt"), "{text}");
    for hidden in [".ssh", "blocked", ".netrc"] {
        assert!(!text.contains(hidden), "{text}");
    }
    for root in ["~/.ssh", "~/blocked"] {
        refused(
            &world
                .call("glob_search", json!({"pattern": "*", "path": root}))
                .await,
            &["Path is"],
        );
    }
}

#[tokio::test]
async fn too_many_results_are_told() {
    let world = World::new();
    for n in 0..1_100 {
        file(&world.home.workspace(), &format!("{n:04}.x"));
    }
    for (wanted, shown, notes) in [
        (json!(null), 200, 1),
        (json!(3), 3, 1),
        (json!(1000), 1000, 1),
        (json!(5000), 1000, 2),
        (json!(0), 1, 2),
        (json!(-4), 1, 2),
    ] {
        let (paths, told) = search(&world, json!({"pattern": "*.x", "max_results": wanted})).await;
        assert_eq!(paths.len(), shown, "{wanted}");
        let first: Vec<String> = (0..shown).map(|n| format!("{n:04}.x")).collect();
        assert_eq!(paths, first, "the first ones, sorted");
        assert_eq!(told.len(), notes, "{told:?}");
        assert!(
            told.iter().any(|note| note.contains("of 1100 files")),
            "{told:?}"
        );
    }
}

/// Folders that no match can lie in are not entered: a huge `target` costs nothing. Whether one was
/// entered shows in the trace, because a refused folder in it is recorded.
#[tokio::test]
async fn a_pattern_bounds_how_deep_a_search_goes() {
    let world = World::with(|settings, _| {
        settings.blocked_roots = vec![settings.workspace_root.join("crates/one/target/deps")];
    });
    let root = world.home.workspace();
    for name in [
        "Cargo.toml",
        "crates/one/Cargo.toml",
        "crates/one/target/Cargo.toml",
        "crates/one/target/deps/Cargo.toml",
    ] {
        file(&root, name);
    }
    let meetings = || {
        let rows = world.rows(fermix_types::TraceKind::SandboxEvent);
        let is_meeting = |row: &&fermix_types::TraceRow| row.fields["reason"] == "blocked_root";
        rows.iter().filter(is_meeting).count()
    };
    for (pattern, found) in [
        ("*.toml", "Cargo.toml"),
        ("{*,crates/none}.toml", "Cargo.toml"),
        ("*/*/*.toml", "crates/one/Cargo.toml"),
        ("crates/*/*.toml", "crates/one/Cargo.toml"),
        ("crates/one/*.toml", "crates/one/Cargo.toml"),
    ] {
        let (paths, notes) = search(&world, json!({"pattern": pattern})).await;
        assert_eq!(
            (paths, notes),
            (vec![found.to_owned()], vec![]),
            "{pattern}"
        );
        assert_eq!(meetings(), 0, "{pattern}");
    }
    for (count, pattern) in ["**/*.toml", "crates/one/**", "*/*/*/*/*.toml"]
        .iter()
        .enumerate()
    {
        search(&world, json!({"pattern": pattern})).await;
        assert_eq!(meetings(), count + 1, "{pattern}");
    }
}

/// However long the paths are, the answer stays one JSON array.
#[tokio::test]
async fn the_array_is_never_cut_in_the_middle() {
    let world = World::new();
    let mut folder = world.home.workspace();
    for _ in 0..12 {
        folder.push("n".repeat(250));
    }
    fs::create_dir_all(&folder).unwrap();
    for n in 0..150 {
        fs::write(folder.join(format!("{n:03}")), "").unwrap();
    }
    let (paths, notes) = search(&world, json!({"pattern": "**"})).await;
    assert!(paths.len() > 50 && paths.len() < 150, "{}", paths.len());
    assert!(notes[0].contains("of 150 files"), "{notes:?}");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let world = forest();
    let cases = [
        (json!({"pattern": "../*.rs"}), "invalid_pattern"),
        (json!({"pattern": "a/../../*"}), "invalid_pattern"),
        (json!({"pattern": "/etc/*"}), "give the folder as `path`"),
        (json!({"pattern": "~/x/*"}), "give the folder as `path`"),
        (json!({"pattern": "a[b"}), "invalid_pattern"),
        (json!({"pattern": ""}), "pattern"),
        (json!({}), "pattern"),
        (
            json!({"pattern": "*", "path": "a/.."}),
            "Path traversal is not allowed",
        ),
        (json!({"pattern": "*", "path": "nowhere"}), "File not found"),
        (json!({"pattern": "*", "path": "README.md"}), "is a file"),
        (
            json!({"pattern": "*", "path": "/etc"}),
            "Path is protected by the sandbox",
        ),
        (
            json!({"pattern": "*", "path": "~"}),
            "Path is outside the sandbox roots",
        ),
        (
            json!({"pattern": "*", "max_results": "many"}),
            "max_results",
        ),
    ];
    for (arguments, words) in cases {
        refused(&world.call("glob_search", arguments).await, &[words]);
    }
}

#[tokio::test]
async fn a_search_starts_in_the_turns_folder() {
    let mut world = forest();
    world.cwd = Some(world.home.os_home().join("project"));
    file(world.home.os_home(), "project/here.rs");
    let text = ok(world.call("glob_search", json!({"pattern": "**"})).await);
    let paths: Vec<String> = serde_json::from_str(&text).expect("an array");
    assert_eq!(paths.len(), 1);
    assert!(paths[0].ends_with("/project/here.rs"), "{paths:?}");
}
