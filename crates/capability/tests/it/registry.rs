//! The registry and its filters (spec/01 §3, §4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fermix_capability::{
    Capability, Deferral, Filter, Policy, RegistrationError, Registry, RemovedBy, resolve_policy,
    resolved_policy_classes,
};
use fermix_types::{Category, ClassSet, Kind, PolicyClass, Trust};
use serde_json::{Map, Value, json};

use crate::support::{builtins, echo, guest, names, owner, plugin, read_only, registry, turn};

fn tags(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(tags) => tags,
        other => panic!("not an object: {other}"),
    }
}

fn family(prefix: &str, count: usize) -> Vec<Capability> {
    (0..count)
        .map(|index| echo(plugin(&format!("{prefix}_{index}"), "mail")))
        .collect()
}

fn listed(registry: &Registry, filter: Filter<'_>) -> Vec<String> {
    registry
        .snapshot()
        .list(filter)
        .map(|entry| entry.name().to_string())
        .collect()
}

#[test]
fn a_taken_name_changes_nothing() {
    let registry = registry(
        Deferral::On,
        [echo(read_only("first").description("the first"))],
    );
    let before = registry.snapshot();
    let again = registry.register_all([
        echo(read_only("fresh")),
        echo(read_only("first").description("the second")),
    ]);
    assert!(
        matches!(again, Err(RegistrationError::DuplicateName(name)) if name.as_str() == "first")
    );
    let after = registry.snapshot();
    assert_eq!(after.generation(), before.generation());
    assert_eq!(
        after
            .find("first")
            .map(|entry| entry.description().to_string())
            .as_deref(),
        Some("the first")
    );
    assert!(after.find("fresh").is_none(), "all or none");

    registry.unregister("first");
    registry.unregister("first");
    assert!(registry.find("first").is_none());
    assert!(
        before.find("first").is_some(),
        "a held snapshot stays whole"
    );
    registry.refresh(Kind::Mcp);
}

#[test]
fn a_family_leaves_as_one_and_others_stay() {
    let registry = registry(Deferral::On, builtins());
    let built_in = registry.snapshot().all().len();
    registry.register_all(family("mail", 3)).expect("new names");
    registry
        .register(echo(read_only("preset").tag("sandbox_command?", true)))
        .expect("a new name");
    registry
        .register(echo(Capability::mcp(
            "mcp_notes_add",
            "notes",
            PolicyClass::ExternalApi,
        )))
        .expect("a new name");

    registry.unregister_kind(
        Kind::Builtin,
        &tags(json!({ "plugin_owned?": true, "plugin": "calendar" })),
    );
    assert_eq!(
        registry.snapshot().all().len(),
        built_in + 5,
        "every member has to match"
    );
    registry.unregister_kind(Kind::Builtin, &tags(json!({ "plugin_owned?": true })));
    assert_eq!(registry.snapshot().all().len(), built_in + 2);
    registry.unregister_kind(Kind::Mcp, &Map::new());
    assert_eq!(registry.snapshot().all().len(), built_in + 1);
}

#[test]
fn replacing_a_family_reports_what_changed_and_keeps_strangers() {
    let registry = registry(Deferral::On, [echo(read_only("shell"))]);
    let mail = tags(json!({ "plugin": "mail" }));
    let first = registry.replace_family(Kind::Builtin, &mail, family("mail", 2));
    assert_eq!(first.added.len(), 2);
    let members = [
        echo(plugin("mail_1", "mail")),
        echo(plugin("mail_2", "mail")),
        echo(plugin("mail_2", "mail")),
        echo(plugin("shell", "mail")),
        // Not of this family, whatever their names.
        echo(plugin("mail_3", "calendar")),
        echo(read_only("mail_4")),
        echo(
            Capability::mcp("mail_5", "mail", fermix_types::PolicyClass::ReadOnly)
                .tag("plugin", "mail"),
        ),
    ];
    let change = registry.replace_family(Kind::Builtin, &mail, members);
    let text = |names: &[fermix_types::ToolName]| {
        names
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(text(&change.added), "mail_2");
    assert_eq!(text(&change.removed), "mail_0");
    assert_eq!(text(&change.changed), "mail_1");
    assert_eq!(text(&change.skipped), "mail_2 mail_3 mail_4 mail_5 shell");
    assert_eq!(
        registry.find("shell").map(|entry| entry.category()),
        Some(Category::System)
    );
}

#[test]
fn a_thousand_readers_see_the_old_family_or_the_new_one() {
    const READERS: usize = 1_000;
    let registry = Arc::new(registry(Deferral::On, builtins()));
    let mail = tags(json!({ "plugin": "mail" }));
    registry.replace_family(Kind::Builtin, &mail, family("old", 40));
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (registry, done, mail) = (Arc::clone(&registry), Arc::clone(&done), mail);
        std::thread::spawn(move || {
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) || rounds < 10 {
                let prefix = if rounds % 2 == 0 { "new" } else { "old" };
                registry.replace_family(Kind::Builtin, &mail, family(prefix, 40));
                rounds += 1;
            }
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..READERS / 8 {
                    let view = registry.view(&Arc::new(owner()));
                    let old = view
                        .deferred()
                        .iter()
                        .filter(|entry| entry.name().as_str().starts_with("old"))
                        .count();
                    let new = view
                        .deferred()
                        .iter()
                        .filter(|entry| entry.name().as_str().starts_with("new"))
                        .count();
                    assert!(
                        matches!((old, new), (40, 0) | (0, 40)),
                        "{old} old, {new} new"
                    );
                }
            });
        }
    });
    done.store(true, Ordering::Relaxed);
    writer.join().expect("the writer does not panic");
}

#[test]
fn filters_only_remove_and_say_which_step_did() {
    let registry = registry(Deferral::On, builtins());
    registry
        .register(echo(
            Capability::mcp("mcp_notes_add", "notes", PolicyClass::ReadOnly).hidden(true),
        ))
        .expect("a new name");
    let everything = listed(&registry, Filter::default());
    assert_eq!(
        everything.len(),
        builtins().len(),
        "hidden entries stay out"
    );
    assert!(everything.is_sorted());

    let none = names(&[]);
    let empty = Filter {
        allowed_tools: Some(&none),
        ..Filter::default()
    };
    assert!(listed(&registry, empty).is_empty());
    let scheduling = Filter {
        excluded_categories: &[Category::Scheduling],
        ..Filter::default()
    };
    assert_eq!(everything.len() - listed(&registry, scheduling).len(), 14);
    let inspected = Filter {
        kind: Some(Kind::Mcp),
        include_hidden: true,
        ..Filter::default()
    };
    assert_eq!(listed(&registry, inspected), ["mcp_notes_add"]);

    let entry = |name: &str| registry.find(name).expect("registered");
    let guest = guest();
    let guest = Filter::for_caller(&guest);
    let only_shell = names(&["shell"]);
    let cases = [
        (
            Filter {
                kind: Some(Kind::Skill),
                ..guest
            },
            "shell",
            Some(RemovedBy::Kind),
        ),
        (guest, "shell", Some(RemovedBy::Policy)),
        (guest, "file_read", Some(RemovedBy::OwnerOnly)),
        (guest, "mcp_notes_add", Some(RemovedBy::OwnerOnly)),
        (
            Filter {
                allowed_tools: Some(&only_shell),
                ..guest
            },
            "skill_list",
            Some(RemovedBy::Allowlist),
        ),
        (
            Filter {
                excluded_names: Some(&only_shell),
                ..Filter::default()
            },
            "shell",
            Some(RemovedBy::ExcludedName),
        ),
        (
            Filter {
                excluded_categories: &[Category::System],
                ..guest
            },
            "skill_list",
            Some(RemovedBy::ExcludedCategory),
        ),
        (Filter::default(), "mcp_notes_add", Some(RemovedBy::Hidden)),
        (guest, "skill_list", None),
    ];
    for (filter, name, expected) in cases {
        assert_eq!(filter.removal(&entry(name)), expected, "{name}");
    }
}

#[tokio::test]
async fn a_hidden_tool_is_not_found_by_name_even_for_the_owner() {
    let hidden =
        echo(Capability::mcp("mcp_notes_add", "notes", PolicyClass::ReadOnly).hidden(true));
    let registry = registry(Deferral::On, [hidden]);
    let outcome = turn(&registry, owner()).call("mcp_notes_add", "{}").await;
    assert_eq!(outcome.text, "Error: Tool 'mcp_notes_add' not found");
    assert_eq!(registry.all_for_inspection().len(), 1);
}

#[test]
fn a_policy_only_narrows() {
    let policy = |value: Value| Policy::from_json(&value).expect("a policy");
    let read_only = ClassSet::READ_ONLY;
    assert_eq!(
        policy(json!(["read_only"])),
        policy(json!({ "allow": ["read_only"] }))
    );
    assert_eq!(policy(json!([])), None);
    let exec = policy(json!(["exec"]));
    assert!(resolved_policy_classes(Some(Trust::Guest), exec.as_ref()).is_empty());
    for trust in [None, Some(Trust::Guest)] {
        assert_eq!(resolved_policy_classes(trust, None), read_only);
    }
    let denying = policy(json!({ "deny": ["exec"] }));
    let resolved = resolve_policy(Some(Trust::Operator), denying.as_ref());
    assert_eq!(resolved.allow, ClassSet::ALL);
    assert_eq!(resolved.deny, ClassSet::EMPTY.with(PolicyClass::Exec));
    for wrong in [
        json!(["reed_only"]),
        json!({ "deny": ["exek"] }),
        json!({ "denied": [] }),
        json!("exec"),
    ] {
        assert!(Policy::from_json(&wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn an_mcp_read_only_override_does_not_open_a_tool_to_guests() {
    let closed = Capability::mcp("mcp_notes_list", "notes", PolicyClass::ReadOnly);
    let open = Capability::mcp("mcp_notes_help", "notes", PolicyClass::ReadOnly)
        .audience(fermix_capability::Audience::Anyone);
    let registry = registry(Deferral::On, [echo(closed), echo(open)]);
    let turn = turn(&registry, guest());
    assert_eq!(turn.call("mcp_notes_list", "{}").await.outcome, "not_found");
    assert_eq!(turn.call("mcp_notes_help", "{}").await.outcome, "ok");
}
