//! The matrix of spec/01 §8.3: every kind of tool for every kind of run.

use fermix_capability::{Caller, Deferral, Depth, Ports, Presence};
use serde_json::json;

use crate::support::{advertised, builtins, chat_ports, guest, job, owner, registry, turn};

const COLUMNS: [&str; 9] = [
    "owner chat",
    "owner command line",
    "voice",
    "job",
    "job naming it",
    "worker",
    "continuation",
    "background",
    "guest",
];

/// `A` offered and callable, `n` callable by name only, `R` refused by its gate, `H` not there.
const MATRIX: &[(&str, &str)] = &[
    (
        "file_read glob_search content_search git_read",
        "A A A A A A A A H",
    ),
    ("file_write file_edit git_write", "A A A A A H A A H"),
    ("shell skill_run skill_view", "A A A A A A A A H"),
    (
        "web_fetch web_search browser place_search",
        "A A A A A A A A H",
    ),
    ("subagents", "A A H A A R A A H"),
    (
        "event_store event_update event_remove reminder_snooze",
        "A A A R R H R R H",
    ),
    ("event_list", "A A A A A R R R R"),
    (
        "codex_run claude_code_run codex_cloud_run",
        "A R R R A R A R H",
    ),
    ("list_coding_runs get_coding_run", "A R R R A R A R R"),
    (
        "cancel_coding_run stop_tracking_coding_run",
        "A R R R A H A R H",
    ),
    (
        "schedule_job update_job run_job_now pause_job resume_job remove_job",
        "A A A R A H A A H",
    ),
    ("list_jobs list_job_runs get_job_run", "A A A A A A A A H"),
    ("request_directory_access", "A R R R R R R R H"),
    ("send_attachment", "A R H R R R A R A"),
    ("react", "A R H R R R A R A"),
    ("generate_image", "A A H A A A A A H"),
    ("computer_use", "A A A R R H A R H"),
    ("tool_search tool_describe tool_help", "A A A A A A A A A"),
    ("memory_recall skill_list", "A A A A A A A A A"),
    (
        "memory_store model_routing_config skill_create skill_reload",
        "A A A A A H A A H",
    ),
    ("memory_sources_list", "A A A A A A A A H"),
];

fn caller(column: &str, tool: &str) -> Caller {
    match column {
        "owner chat" => owner(),
        "owner command line" => Caller::owner(Presence::vouched_by_ingress(), Ports::default()),
        "voice" => Caller::voice(Presence::vouched_by_ingress(), false),
        "job" => job(None),
        "job naming it" => job(Some(&[tool])),
        "worker" => owner().worker(),
        "continuation" => Caller::continuation(Depth::TOP, chat_ports()),
        "background" => Caller::detached(),
        "guest" => guest(),
        other => panic!("no such column: {other}"),
    }
}

#[tokio::test]
async fn every_tool_answers_every_run_as_the_matrix_says() {
    let registry = registry(Deferral::On, builtins());
    let mut wrong = Vec::new();
    let mut tools = 0;
    for (group, cells) in MATRIX {
        let cells: Vec<&str> = cells.split(' ').collect();
        assert_eq!(cells.len(), COLUMNS.len(), "{group}");
        for tool in group.split(' ') {
            tools += 1;
            for (column, expected) in COLUMNS.iter().zip(&cells) {
                let turn = turn(&registry, caller(column, tool));
                let view = &turn.scope.view;
                let offered = advertised(view).iter().any(|name| name == tool);
                let reachable = view.reachable().any(|entry| entry.name().as_str() == tool);
                let outcome = turn.call(tool, "{}").await;
                let found = match (offered, reachable, outcome.outcome) {
                    (true, true, "ok") => "A",
                    (false, true, "ok") => "n",
                    (false, false, "refused") => "R",
                    (false, false, "not_found")
                        if outcome.text == format!("Error: Tool '{tool}' not found") =>
                    {
                        "H"
                    }
                    _ => "contradiction",
                };
                if found != *expected {
                    wrong.push(format!("{tool} for {column}: {found}, not {expected}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    // `tool_call` itself is always taken apart, so it has no row.
    assert_eq!(tools, builtins().len() - 1);
}

#[tokio::test]
async fn what_the_channel_lacks_is_not_offered() {
    let registry = registry(Deferral::On, builtins());
    let without_reactions = Ports {
        reactions: None,
        ..chat_ports()
    };
    let turn_ = turn(
        &registry,
        Caller::owner(Presence::vouched_by_ingress(), without_reactions),
    );
    assert!(!advertised(&turn_.scope.view).contains(&"react".to_owned()));
    assert_eq!(
        turn_.call("react", "{}").await.outcome,
        "ok",
        "only its offer depends on it"
    );

    let with_slash_commands = Ports {
        reply: true,
        approval: true,
        ..Ports::default()
    };
    let line = turn(
        &registry,
        Caller::owner(Presence::vouched_by_ingress(), with_slash_commands),
    );
    assert!(advertised(&line.scope.view).contains(&"request_directory_access".to_owned()));
    assert_eq!(
        line.call("codex_run", "{}").await.outcome,
        "refused",
        "no late outcome"
    );

    let private = turn(
        &registry,
        Caller::voice(Presence::vouched_by_ingress(), true),
    );
    assert_eq!(private.call("codex_run", "{}").await.outcome, "not_found");
}

#[tokio::test]
async fn a_malformed_depth_never_opens_a_gate() {
    let registry = registry(Deferral::On, builtins());
    let malformed = [
        json!("0"),
        json!(-1),
        json!(1.0),
        json!(0.0),
        json!(false),
        json!([]),
        json!({}),
        json!(u64::MAX),
        json!(1),
    ];
    for depth in &malformed {
        let read = Depth::from_json(Some(depth));
        assert!(!read.is_top(), "{depth}");
        let caller = Caller::continuation(read, chat_ports());
        for tool in ["event_store", "event_list", "request_directory_access"] {
            let outcome = turn(&registry, caller.clone()).call(tool, "{}").await;
            assert_eq!(outcome.outcome, "refused", "{tool} at {depth}");
        }
    }
    // A stored context of any kind of run, whichever of its depths is malformed.
    let stored = malformed.iter().flat_map(|depth| {
        ["subagent_depth", "skill_depth", "continuation_depth"].map(|name| json!({ name: depth }))
    });
    let contexts = stored.chain([json!(null), json!("{}"), json!([0])]);
    let naming = job(Some(&["event_list"]));
    for context in contexts {
        for caller in [owner(), naming.clone(), owner().worker()] {
            let caller = caller.as_deep_as(&context);
            for tool in ["event_list", "event_store", "request_directory_access"] {
                let outcome = turn(&registry, caller.clone()).call(tool, "{}").await;
                assert!(!outcome.ran, "{tool} within {context}");
            }
        }
    }
    let plain = json!({ "subagent_depth": 0, "skill_depth": null });
    assert_eq!(owner().as_deep_as(&plain), owner());
    assert_eq!(owner().worker().as_deep_as(&plain), owner().worker());
    for top in [None, Some(json!(null)), Some(json!(0))] {
        assert!(Depth::from_json(top.as_ref()).is_top());
    }
}

#[tokio::test]
async fn a_child_run_never_regains_what_its_parent_lost() {
    let registry = registry(Deferral::On, builtins());
    let job = job(Some(&["web_search", "subagents"]));
    let worker = turn(&registry, job.worker());
    assert_eq!(advertised(&worker.scope.view), ["web_search"]);
    assert_eq!(
        worker.call("file_read", "{}").await.outcome,
        "not_available"
    );

    let plugin_skill = owner().skill(fermix_types::Trust::Guest, None, None);
    let skill = turn(&registry, plugin_skill);
    assert_eq!(
        skill.call("file_read", "{}").await.text,
        "Error: Tool 'file_read' not found"
    );
    assert_eq!(skill.call("event_store", "{}").await.outcome, "not_found");
}
