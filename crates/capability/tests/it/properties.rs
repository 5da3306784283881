//! What holds for every registry, caller and call (spec/01 §23).

use std::collections::BTreeSet;
use std::sync::Arc;

use fermix_capability::{
    Audience, Caller, Capability, Catalog, Deferral, FrameId, Gate, OutsideSources, Policy,
    Registry, View,
};
use fermix_types::{Category, ClassSet, PolicyClass, Trust};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{builtins, callers, echo, guest, registry, tool_call, turn, with_schema};

const GATES: [Gate; 9] = [
    Gate::Open,
    Gate::AttendedOwner,
    Gate::OwnerRead,
    Gate::Harness,
    Gate::JobMutation,
    Gate::DirectoryAccess,
    Gate::TopLevel,
    Gate::LiveReply,
    Gate::Desktop,
];

#[derive(Clone, Debug)]
struct Tool {
    class: PolicyClass,
    category: Category,
    owner_only: bool,
    hidden: bool,
    gate: Gate,
    mcp: bool,
    offered: bool,
}

fn tool() -> impl Strategy<Value = Tool> {
    (
        prop::sample::select(PolicyClass::ALL),
        prop::sample::select(Category::ALL),
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::sample::select(GATES.to_vec()),
        any::<bool>(),
        prop::bool::weighted(0.8),
    )
        .prop_map(
            |(class, category, owner_only, hidden, gate, mcp, offered)| Tool {
                class,
                category,
                owner_only,
                hidden,
                gate,
                mcp,
                offered,
            },
        )
}

fn built(tools: &[Tool], deferral: Deferral) -> Registry {
    registry(
        deferral,
        tools.iter().enumerate().map(|(index, tool)| {
            let name = format!("tool_{index}");
            let audience = if tool.owner_only {
                Audience::OwnerOnly
            } else {
                Audience::Anyone
            };
            let builder = if tool.mcp {
                Capability::mcp(&name, "server", tool.class).audience(audience)
            } else {
                Capability::builtin(&name, tool.class, tool.category, audience)
            };
            let offered = tool.offered;
            echo(
                builder
                    .hidden(tool.hidden)
                    .gate(tool.gate)
                    .advertise_when(move |_| offered),
            )
        }),
    )
}

fn callable(view: &View) -> BTreeSet<String> {
    view.reachable()
        .map(|entry| entry.name().to_string())
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    Worker,
    Skill(Trust, Option<ClassSet>, Option<BTreeSet<String>>),
    Narrowed(ClassSet),
    OnlyTools(BTreeSet<String>),
}

fn classes() -> impl Strategy<Value = ClassSet> {
    prop::collection::vec(prop::sample::select(PolicyClass::ALL), 0..6)
        .prop_map(|list| list.into_iter().collect())
}

fn some_names() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set((0..12).prop_map(|index| format!("tool_{index}")), 0..8)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Worker),
        (
            prop::sample::select(vec![Trust::Operator, Trust::Guest]),
            prop::option::of(classes()),
            prop::option::of(some_names())
        )
            .prop_map(|(trust, classes, names)| Step::Skill(trust, classes, names)),
        classes().prop_map(Step::Narrowed),
        some_names().prop_map(Step::OnlyTools),
    ]
}

fn child(parent: &Caller, step: &Step) -> Caller {
    match step {
        Step::Worker => parent.worker(),
        Step::Skill(trust, classes, names) => {
            let policy = classes.map(Policy::allowing);
            parent.skill(*trust, policy.as_ref(), names.clone())
        }
        Step::Narrowed(classes) => parent.clone().narrowed(*classes),
        Step::OnlyTools(names) => parent.clone().only_tools(Some(names.clone())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn what_is_shown_or_found_can_be_called(
        tools in prop::collection::vec(tool(), 0..12),
        deferral in prop::sample::select(vec![Deferral::On, Deferral::Off]),
    ) {
        let registry = built(&tools, deferral);
        let catalog = Catalog::new();
        for (_, caller) in callers() {
            let view = registry.view(&Arc::new(caller));
            let callable = callable(&view);
            let shown: BTreeSet<String> = view
                .definitions()
                .iter()
                .map(|tool| tool.name.to_string())
                .chain(view.deferred().iter().map(|entry| entry.name().to_string()))
                .collect();
            prop_assert!(shown.is_subset(&callable));
            let found = catalog.search(&view, "tool", 20);
            prop_assert!(found.matches.len() <= found.total_available);
            for found in found.matches {
                prop_assert!(callable.contains(found.capability.name().as_str()));
            }
            for index in 0..12 {
                let name = format!("tool_{index}");
                let described = catalog.describe(&view, &name, &FrameId::new("0"), &OutsideSources::clean());
                prop_assert_eq!(described.is_ok(), callable.contains(&name));
            }
        }
    }

    #[test]
    fn no_child_run_gains_a_tool(
        tools in prop::collection::vec(tool(), 0..12),
        steps in prop::collection::vec(step(), 1..5),
        place in any::<prop::sample::Index>(),
    ) {
        let registry = built(&tools, Deferral::On);
        let (_, mut caller) = callers().swap_remove(place.index(callers().len()));
        for step in &steps {
            let next = child(&caller, step);
            let before = callable(&registry.view(&Arc::new(caller)));
            let after = callable(&registry.view(&Arc::new(next.clone())));
            prop_assert!(after.is_subset(&before), "{step:?} added {:?}", after.difference(&before));
            caller = next;
        }
    }

    #[test]
    fn a_guest_learns_nothing_about_hidden_tools(
        name in "[a-z]{3,8}_[a-z]{3,8}",
        hidden in tool(),
        query in "[a-z ]{0,30}",
    ) {
        prop_assume!(builtins().iter().all(|entry| entry.name().as_str() != name));
        // The same registry with and without one tool that guests must not see.
        let without = registry(Deferral::On, builtins());
        let with = registry(Deferral::On, builtins());
        let secret = Capability::builtin(&name, hidden.class, hidden.category, Audience::OwnerOnly)
            .gate(hidden.gate)
            .hidden(hidden.hidden);
        with.register(echo(secret)).expect("a new name");
        let answers = |registry: &Registry| {
            let turn = turn(registry, guest());
            let view = &turn.scope.view;
            let catalog = Catalog::new();
            let read = &turn.scope.outside_sources;
            let prepared = turn.dispatcher.prepare(&turn.scope, tool_call(&name, "{}"));
            let outcome = turn.dispatcher.decline(&turn.scope, prepared, "no".to_owned(), "declined");
            let shape: Vec<String> = turn.row().keys().cloned().collect();
            let direct = tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("a runtime")
                .block_on(turn.call(&name, &query));
            (
                outcome.text,
                direct,
                shape,
                catalog.describe(view, &name, &turn.scope.frame, read).map_err(|error| error.message),
                catalog.help(view, &name, &turn.scope.frame, read).map_err(|error| error.message),
                catalog.search(view, &query, 20).to_json(&query, &turn.scope.frame, read),
                catalog.search(view, &name, 20).to_json(&name, &turn.scope.frame, read),
            )
        };
        prop_assert_eq!(answers(&without), answers(&with));
    }

    #[test]
    fn any_argument_text_gives_one_answer(
        text in prop_oneof![any::<String>(), json_like(), "\\{\"(path|limit|items)\":.{0,20}\\}"],
        bridged in any::<bool>(),
    ) {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "limit": { "type": "integer" },
                "items": { "type": "array", "items": { "type": "object", "properties": { "a": { "type": "integer" } } } },
            },
            "required": ["path"],
        });
        let tool = with_schema(
            Capability::builtin("look", PolicyClass::ReadOnly, Category::System, Audience::Anyone),
            schema,
        );
        let registry = registry(Deferral::On, builtins().into_iter().chain([tool]));
        let turn = turn(&registry, guest());
        let name = if bridged { "tool_call" } else { "look" };
        let outcome = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime")
            .block_on(turn.call(name, &text));
        prop_assert_eq!(&outcome.call_id, "call-1");
        prop_assert_eq!(outcome.ran, !outcome.is_error);
        prop_assert_eq!(turn.row()["success"].clone(), json!(outcome.ran));
    }
}

/// Text that is nearly, or really, a JSON object.
fn json_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        "\"path\"",
        "\"limit\"",
        "\"items\"",
        "\"name\"",
        "\"arguments\"",
        "\"look\"",
        ":",
        ",",
        "1",
        "-0.5",
        "1e400",
        "null",
        "true",
        "\"a\"",
        "\"{\\\"path\\\":\\\"a\\\"}\"",
        "\\",
        "\u{FEFF}",
        " ",
    ]);
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}
