//! A turn that reads more than its model can hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use fermix_agent::{TurnReport, TurnRequest, TurnStatus};
use fermix_capability::Capability;
use fermix_testkit::{Checks, FakeModel, Script, Seen as Request, Step};
use fermix_types::TraceKind;
use serde_json::json;
use tokio::sync::mpsc;

use crate::tools::{self, Seen};
use crate::world::{Plan, World, ended, here, owner};

/// How a request for a digest begins.
const DIGESTS: &str = "You shorten the result of a tool call";

fn is_digest(request: &Request) -> bool {
    request.system.starts_with(DIGESTS)
}

/// A model with a window of `tokens`, four bytes each, that refuses what does not fit.
fn within(
    tokens: usize,
    mut answer: impl FnMut(&Request) -> Step + Send + 'static,
) -> (FakeModel, Arc<std::sync::Mutex<Vec<usize>>>) {
    let refused: Arc<std::sync::Mutex<Vec<usize>>> = Arc::default();
    let log = Arc::clone(&refused);
    let model = FakeModel::start_with(
        Script::each(move |request| {
            if request.raw.len() / 4 > tokens {
                log.lock().unwrap().push(request.raw.len());
                return Step::status(400).with_message("this is over the maximum context length");
            }
            answer(request)
        }),
        Checks::all().for_shortened_results(),
    );
    (model, refused)
}

/// Reads `count` pages, one a step, and then answers. A digest keeps nothing of a page.
fn reader(tool: &'static str, count: usize) -> impl FnMut(&Request) -> Step + Send + 'static {
    move |request| {
        if is_digest(request) {
            return Step::say("A page of lines.\nOmitted: the lines.");
        }
        let read = request.results().count();
        if read < count {
            Step::call(tool, json!({"path": format!("page-{read}")}))
        } else {
            Step::say("I have read it all.")
        }
    }
}

fn digests(model: &FakeModel) -> usize {
    let requests = model.requests();
    requests.iter().filter(|request| is_digest(request)).count()
}

fn world(model: &FakeModel, tools: Vec<Capability>, more: &str) -> World {
    Plan::new(model, tools).with_config(more).build()
}

#[tokio::test]
async fn thirty_long_results_fit_a_window_of_a_hundred_thousand_tokens() {
    for provider in ["openai_compatible", "anthropic", "xai"] {
        let (model, refused) = within(100_000, reader("file_read", 30));
        let seen = Seen::new();
        let world = Plan::new(&model, vec![tools::pages(&seen, "file_read", 60_000)])
            .through(provider)
            .with_config("[fermix_core.models.fake-model]\ncontext_window = 100_000\n")
            .build();
        let report = world.ask("read the thirty pages").await;
        assert_eq!(
            report.status,
            TurnStatus::Completed,
            "{provider}: {report:?}"
        );
        assert_eq!(report.response, "I have read it all.");
        assert_eq!(*refused.lock().unwrap(), [0_usize; 0], "{provider}");
        assert_eq!((seen.count(), report.tool_failures), (30, 0));
        assert_eq!(report.iterations, 31, "digests are no steps of the turn");

        // The last three stand as they came; older ones became digests under the same call.
        let last = model.last_request();
        let results: Vec<_> = last.results().collect();
        assert_eq!(results.len(), 30);
        let ids: BTreeSet<_> = results.iter().map(|result| &result.call_id).collect();
        assert_eq!(ids.len(), 30);
        for result in &results[27..] {
            assert!(result.text.len() >= 60_000, "{}", result.text.len());
        }
        let shortened = results
            .iter()
            .filter(|result| result.text.starts_with("[Fermix shortened this result of "))
            .count();
        assert_eq!(shortened, digests(&model), "each was shortened once");
        assert!(shortened >= 20, "{shortened}");
        assert!(results[0].text.contains("Omitted: the lines."));

        // The bill holds the digests, and the rows know them by a name of their own.
        let rows = world.rows(TraceKind::LlmCall);
        let all: u64 = rows
            .iter()
            .map(|row| row["prompt_tokens"].as_u64().unwrap())
            .sum();
        assert_eq!(report.tokens.prompt, all);
        let aside = world.trace.rows().into_iter().filter(|row| {
            row.kind == TraceKind::LlmCall
                && row.ids.session_id == "context_digest:main-1"
                && row.ids.parent_session.as_deref() == Some("main-1")
        });
        assert_eq!(aside.count(), digests(&model));
    }
}

#[tokio::test]
async fn what_a_digest_left_out_is_read_from_the_original() {
    let mut looked = false;
    let mut pages = reader("web_fetch", 12);
    let (model, refused) = within(50_000, move |request| {
        let results: Vec<_> = request.results().collect();
        if is_digest(request) || results.len() < 12 {
            return pages(request);
        }
        if !looked {
            looked = true;
            assert!(results[0].text.contains("A page of lines."));
            assert!(!results[0].text.contains(&tools::fact("page-0")));
            assert!(request.tool_names().contains(&"tool_result_recall"));
            let id = results[0].call_id.clone().unwrap();
            return Step::calls([
                (
                    "tool_result_recall",
                    json!({"call_id": id, "query": "SECRET number"}),
                ),
                (
                    "tool_result_recall",
                    json!({"call_id": id, "offset": 3, "limit": 2}),
                ),
                ("tool_result_recall", json!({"call_id": "nobody"})),
            ]);
        }
        Step::say("done")
    });
    let seen = Seen::new();
    let world = world(
        &model,
        vec![tools::pages(&seen, "web_fetch", 30_000)],
        "context_window = 50_000\n",
    );
    let report = world.ask("read the pages").await;
    assert_eq!(report.response, "done", "{report:?}");
    assert!(refused.lock().unwrap().is_empty());
    let last = model.last_request();
    let results: Vec<_> = last.results().collect();
    // A stranger's page is a stranger's page, shortened and read again as well.
    for result in [&results[0], &results[12], &results[13]] {
        assert_eq!(
            result
                .text
                .matches("<untrusted_tool_result source=\"web_fetch\"")
                .count(),
            1,
            "{}",
            result.text
        );
    }
    assert!(results[12].text.contains(&tools::fact("page-0")));
    assert!(results[12].text.contains("1 matching lines of "));
    assert!(
        results[13]
            .text
            .contains("3: page-0: an ordinary line, number 2\n4: ")
    );
    assert!(
        results[14]
            .text
            .starts_with("Error: no original of call nobody is kept; kept are: ")
    );
    let recalled: Vec<_> = world
        .tool_rows()
        .into_iter()
        .filter(|(tool, _)| tool == "tool_result_recall")
        .map(|(_, outcome)| outcome)
        .collect();
    assert_eq!(recalled, ["ok", "ok", "error"]);
    // The next turn begins without it.
    let registered = world.registry.snapshot();
    assert!(registered.find("tool_result_recall").is_none());
}

#[tokio::test]
async fn a_run_with_a_list_of_tools_is_offered_no_other() {
    let (model, _) = within(50_000, reader("file_read", 12));
    let seen = Seen::new();
    let world = world(
        &model,
        vec![tools::pages(&seen, "file_read", 30_000)],
        "context_window = 50_000\n",
    );
    let caller = owner();
    let caller = Arc::unwrap_or_clone(caller).only_tools(Some(["file_read".to_owned()].into()));
    let request = TurnRequest::text(here(), Arc::new(caller), "read");
    let report = ended(world.send(request)).await;
    assert_eq!(report.status, TurnStatus::Completed, "{report:?}");
    let last = model.last_request();
    assert_eq!(last.tool_names(), ["file_read"]);
    let first = last.results().next().unwrap().text.clone();
    assert!(
        first.starts_with("[Fermix shortened this result of 30") && !first.contains("recall"),
        "{first}"
    );
}

#[tokio::test]
async fn a_run_within_its_budget_is_left_alone() {
    let model = FakeModel::start(Script::each(reader("file_read", 5)));
    let seen = Seen::new();
    let world = world(
        &model,
        vec![tools::pages(&seen, "file_read", 30_000)],
        "context_window = 60_000\n",
    );
    let report = world.ask("read").await;
    assert_eq!((report.status, digests(&model)), (TurnStatus::Completed, 0));
    assert_eq!(model.last_request().tool_names(), ["file_read"]);
    assert!(
        model
            .last_request()
            .results()
            .all(|result| result.text.len() >= 30_000)
    );
}

#[tokio::test]
async fn what_is_there_twice_goes_first_and_costs_no_call() {
    let steps = [
        json!({"path": "a"}),
        json!({"path": "b", "offset": 1}),
        json!({"path": "b", "offset": 9}),
        json!({"path": "a"}),
        json!({"path": "c"}),
        json!({"path": "./b"}),
        json!({"path": "d"}),
    ];
    let (model, refused) = within(20_000, move |request| {
        assert!(!is_digest(request), "nothing needs a digest");
        match steps.get(request.results().count()) {
            Some(arguments) => Step::call("file_read", arguments.clone()),
            None => Step::say("done"),
        }
    });
    let seen = Seen::new();
    let world = world(
        &model,
        vec![tools::pages(&seen, "file_read", 14_000)],
        "context_window = 20_000\n",
    );
    let report = world.ask("read").await;
    assert_eq!(report.response, "done", "{report:?}");
    assert!(refused.lock().unwrap().is_empty());
    let last = model.last_request();
    let results: Vec<_> = last.results().collect();
    let id = |index: usize| results[index].call_id.clone().unwrap();
    // The same words twice: the later one points at the earlier.
    assert_eq!(
        results[2].text,
        format!("[The same as the result of call {}, word for word.]", id(1))
    );
    assert_eq!(
        results[3].text,
        format!("[The same as the result of call {}, word for word.]", id(0))
    );
    // A part of a file that was read again as a whole.
    assert_eq!(
        results[1].text,
        format!("[Left out: call {} read this file again later.]", id(5))
    );
    assert!(results[0].text.contains(&tools::fact("a")) && results[4].text.len() > 13_000);
}

/// Reads one page and answers; refuses for length whenever it is asked to go on and `fits` says no.
fn refusing(digest: Step, mut fits: impl FnMut(&Request) -> bool + Send + 'static) -> Script {
    Script::each(move |request| {
        if is_digest(request) {
            digest.clone()
        } else if request.results().count() == 0 {
            Step::call("file_read", json!({"path": "a"}))
        } else if fits(request) {
            Step::say("done")
        } else {
            Step::status(400).with_message("the prompt is too long")
        }
    })
}

async fn refused(script: Script) -> (FakeModel, TurnReport, usize, Vec<String>) {
    let model = FakeModel::start_with(script, Checks::all().for_shortened_results());
    let seen = Seen::new();
    let world = world(&model, vec![tools::pages(&seen, "file_read", 60_000)], "");
    let report = world.ask("read").await;
    let kinds = world
        .rows(TraceKind::AgentEvent)
        .iter()
        .filter_map(|row| Some(row.get("error_kind")?.as_str()?.to_owned()))
        .collect();
    (model, report, seen.count(), kinds)
}

#[tokio::test]
async fn a_refusal_for_length_costs_a_digest_and_no_second_run() {
    let short = |request: &Request| request.results().all(|result| result.text.len() < 10_000);
    let (_, report, runs, _) = refused(refusing(Step::say("short\nOmitted: all"), short)).await;
    assert_eq!(
        (report.status, report.response.as_str(), runs),
        (TurnStatus::Completed, "done", 1),
        "{report:?}"
    );
}

#[tokio::test]
async fn a_refusal_that_nothing_helps_is_told_and_never_advises_a_new_session() {
    let (model, report, runs, kinds) =
        refused(refusing(Step::say("short\nOmitted: all"), |_| false)).await;
    assert_eq!((report.status, runs), (TurnStatus::Failed, 1));
    assert_eq!(kinds, ["context_overflow_after_compaction"]);
    assert!(report.response.contains("narrower slice") && !report.response.contains("/new"));
    assert!(model.request_count() <= 6, "{}", model.request_count());

    // The same when nobody can write a digest, with another name.
    let (_, report, runs, kinds) = refused(refusing(Step::status(500), |_| false)).await;
    assert_eq!((report.status, runs), (TurnStatus::Failed, 1));
    assert_eq!(kinds, ["context_recovery_failed"]);
    assert!(report.response.contains("split the request") && !report.response.contains("/new"));

    // A digest that is no digest is thrown away.
    let (model, report, _, kinds) =
        refused(refusing(Step::say("x".repeat(70_000)), |_| false)).await;
    assert_eq!(kinds, ["context_overflow_after_compaction"], "{report:?}");
    let results = model.last_request();
    assert!(digests(&model) >= 1 || results.results().count() == 1);
}

#[tokio::test]
async fn what_somebody_has_seen_is_not_said_again() {
    let script = Script::each(|request| {
        if request.results().count() == 0 {
            Step::call("file_read", json!({"path": "a"}))
        } else {
            Step::say("Half of an answer").then_fail("the prompt is too long")
        }
    });
    let model = FakeModel::start_with(script, Checks::all().for_shortened_results());
    let seen = Seen::new();
    let world = world(&model, vec![tools::pages(&seen, "file_read", 60_000)], "");
    let (sender, mut receiver) = mpsc::channel(64);
    let request = TurnRequest::text(here(), owner(), "read");
    let submitted = world
        .agent
        .submit(request, world.inbox.clone(), Some(sender));
    let report = ended(submitted).await;
    receiver.close();
    assert_eq!(report.status, TurnStatus::Failed);
    assert!(report.response.contains("narrower slice"), "{report:?}");
    assert_eq!((model.request_count(), digests(&model)), (2, 0));
}

#[tokio::test]
async fn a_failing_digest_never_fails_a_call_that_would_have_fitted() {
    // The window is wider than the budget: without a digest the call still fits.
    let mut pages = reader("file_read", 6);
    let (model, refused) = within(100_000, move |request| {
        if is_digest(request) {
            Step::status(400).with_message("no such model")
        } else {
            pages(request)
        }
    });
    let seen = Seen::new();
    let world = world(
        &model,
        vec![tools::pages(&seen, "file_read", 30_000)],
        "context_window = 50_000\n[fermix_core.compaction]\nthreshold = 0.5\n",
    );
    let report = world.ask("read").await;
    assert_eq!(report.response, "I have read it all.", "{report:?}");
    assert!(digests(&model) >= 1 && refused.lock().unwrap().is_empty());
}

#[tokio::test]
async fn only_the_newest_images_stay_in_view() {
    for provider in ["openai_compatible", "anthropic"] {
        let model = FakeModel::start_with(
            Script::each(|request| {
                let taken = request.results().count();
                if taken < 6 {
                    Step::call("picture", json!({"number": taken}))
                } else {
                    Step::say("seen")
                }
            }),
            Checks::all().for_shortened_results(),
        );
        let world = Plan::new(&model, vec![tools::picture()])
            .through(provider)
            .with_config("[fermix_core.models.fake-model]\nvision = true\n")
            .build();
        let report = world.ask("look").await;
        assert_eq!(report.response, "seen", "{provider}: {report:?}");
        let last = model.last_request();
        let shown: usize = last
            .messages
            .iter()
            .map(|message| message.images.len())
            .sum();
        assert_eq!(shown, 3, "{provider}");
        let void: Vec<bool> = last
            .results()
            .map(|result| result.text.contains("do not hold any more"))
            .collect();
        assert_eq!(void, [true, true, true, false, false, false], "{provider}");
    }
}

#[tokio::test]
async fn a_stop_reaches_a_digest() {
    let (model, _) = within(100_000, {
        let mut pages = reader("file_read", 9);
        move |request| {
            if is_digest(request) {
                Step::say("never").stall_after(0)
            } else {
                pages(request)
            }
        }
    });
    let seen = Seen::new();
    let world = world(
        &model,
        vec![tools::pages(&seen, "file_read", 60_000)],
        "context_window = 60_000\n",
    );
    let submitted = world.submit("read");
    let patience = crate::world::PATIENCE;
    let mut count = 1;
    while digests(&model) == 0 {
        assert!(model.wait_for_requests(count, patience).await);
        count += 1;
    }
    world.agent.stop(&here());
    assert_eq!(ended(submitted).await.status, TurnStatus::Stopped);
    assert!(model.wait_for_abandoned(1, patience).await);
    assert!(world.inbox.texts().is_empty());
    let stored = world.history().await;
    assert_eq!(stored.len(), 2, "the request and its marker");
}

#[tokio::test]
async fn an_answer_the_provider_broke_off_says_so() {
    for provider in ["openai_compatible", "anthropic"] {
        let model = FakeModel::start([Step::say("I began to say").declined(), Step::say("fine")]);
        let world = Plan::new(&model, vec![]).through(provider).build();
        let report = world.ask("go").await;
        assert_eq!(
            (report.status, report.response.as_str()),
            (TurnStatus::Completed, "I began to say")
        );
        let note = report.note.unwrap();
        assert!(
            note.contains("stopped this answer because of its content"),
            "{note}"
        );
        assert_eq!(world.inbox.delivered.lock().unwrap()[0].1, Some(note));
        assert_eq!(world.ask("again").await.note, None);
    }
}
