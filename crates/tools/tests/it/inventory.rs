//! What holds for every built-in tool (spec/01 §2).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use fermix_capability::{Capability, Deferral};
use fermix_tools::docs::render_markdown;
use pretty_assertions::assert_eq;

use crate::world::World;

fn tools(deferral: Deferral) -> Vec<Arc<Capability>> {
    World::built(deferral, |_, _| {})
        .registry
        .all_for_inspection()
}

/// Class, category and owner-only as the specification's table has them.
#[test]
fn each_tool_is_classified_as_specified() {
    let table: Vec<String> = tools(Deferral::On)
        .iter()
        .map(|tool| {
            let owner_only = if tool.is_owner_only() {
                "owner"
            } else {
                "anyone"
            };
            format!(
                "{} {} {} {owner_only}",
                tool.name(),
                tool.class(),
                tool.category()
            )
        })
        .collect();
    let expected = [
        "content_search read_only file owner",
        "file_edit read_write file anyone",
        "file_read read_only file owner",
        "file_write read_write file anyone",
        "git_read read_only git owner",
        "git_write read_write git anyone",
        "glob_search read_only file owner",
        "model_routing_config read_write config anyone",
        "request_directory_access external_api system anyone",
        "shell exec system anyone",
        "tool_call read_only system anyone",
        "tool_describe read_only system anyone",
        "tool_help read_only system anyone",
        "tool_search read_only system anyone",
    ];
    assert_eq!(table, expected);
    assert_eq!(tools(Deferral::Off).len(), expected.len() - 3);
}

/// Every tool says what it does, when to use it, how, and how it fails, in few words: all of their
/// schemas go out with every request.
#[test]
fn each_tool_is_documented_and_lean() {
    let (mut total, mut count) = (0, 0);
    for tool in tools(Deferral::On) {
        let name = tool.name();
        let metadata = tool.metadata();
        tool.schema().compiles().expect("a schema of ours compiles");
        assert!(!tool.description().is_empty(), "{name} has no description");
        assert!(
            metadata.when_to_use.is_some(),
            "{name} does not say when to use it"
        );
        assert!(!metadata.examples.is_empty(), "{name} has no example");
        assert!(
            !metadata.failure_modes.is_empty(),
            "{name} names no failure"
        );
        for (parameter, schema) in tool.schema().properties() {
            assert!(
                schema.get("description").is_some(),
                "{name}.{parameter} has no description"
            );
        }
        let bytes = tool.description().len() + tool.schema().wire_text().get().len();
        assert!(bytes <= 1000, "{name} takes {bytes} bytes of every request");
        total += bytes;
        count += 1;
    }
    // 44 tools at this average leave a quarter of the first request's 32,000 bytes to the prompt.
    assert!(total <= count * 540, "{total} bytes for {count} tools");
}

/// What both git tools share.
const GIT: &[&str] = &[
    "blocking.rs",
    "git/configuration.rs",
    "git/links.rs",
    "git/outcome.rs",
    "git/repository.rs",
    "git/request.rs",
    "git/session.rs",
    "git/submodules.rs",
];

/// Every tag that a tool's own source gives a failure is documented, also those that no test brings
/// about; what the tests bring about is checked at each of their calls.
#[test]
fn each_failure_in_the_source_is_documented() {
    // What a tool's file shares with others.
    let shared: &[(&str, &[&str])] = &[
        ("content_search", &["file/searching.rs", "blocking.rs"]),
        ("file_edit", &["file/file_write.rs", "blocking.rs"]),
        ("file_read", &["file/document/mod.rs", "blocking.rs"]),
        ("file_write", &["blocking.rs"]),
        ("glob_search", &["file/searching.rs", "blocking.rs"]),
        ("git_read", GIT),
        ("git_write", GIT),
        ("model_routing_config", &["blocking.rs"]),
        ("shell", &["blocking.rs"]),
    ];
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    for tool in tools(Deferral::On) {
        let name = tool.name().as_str();
        let own = source.join(format!("{}/{name}.rs", tool.category()));
        let mut files = vec![own.clone()];
        if let Ok(folder) = fs::read_dir(own.with_extension("")) {
            files.extend(folder.map(|entry| entry.expect("it is ours").path()));
        }
        let others = shared.iter().find(|(user, _)| *user == name);
        files.extend(
            others
                .iter()
                .flat_map(|(_, files)| *files)
                .map(|file| source.join(file)),
        );
        let documented: BTreeSet<&str> = tool
            .metadata()
            .failure_modes
            .iter()
            .map(|failure| failure.tag.as_str())
            .collect();
        for file in files.iter().filter(|file| file.is_file()) {
            let text = fs::read_to_string(file).expect("it is text");
            for tag in tags(&text) {
                seen += 1;
                assert!(documented.contains(tag), "{name} does not document `{tag}`");
            }
        }
    }
    assert!(seen > 30, "only {seen} tags were found");
}

/// The text that each making of a failure in `source` starts with.
fn tags(source: &str) -> impl Iterator<Item = &str> {
    ["ToolError::new(", "refused(", "failed("]
        .into_iter()
        .flat_map(|maker| source.split(maker).skip(1))
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .filter(|tag| {
            tag.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        })
}

#[test]
fn the_reference_has_every_tool_and_parameter() {
    let tools = tools(Deferral::On);
    let page = render_markdown(&tools);
    for tool in &tools {
        assert!(
            page.contains(&format!("\n## {}\n", tool.name())),
            "{}",
            tool.name()
        );
        for (parameter, _) in tool.schema().properties() {
            assert!(page.contains(&format!("| `{parameter}` |")), "{parameter}");
        }
        for failure in &tool.metadata().failure_modes {
            assert!(page.contains(&format!("- `{}`: {}", failure.tag, failure.description)));
        }
    }
    assert!(
        page.contains("| [`shell`](#shell) | `exec` | system | no | none |"),
        "{page}"
    );
    assert!(
        page.contains("| `timeout_ms` | integer | no | 1 to 600000, default 30000. |"),
        "{page}"
    );
    assert_eq!(
        page,
        render_markdown(&tools),
        "the same tools give the same page"
    );
}
