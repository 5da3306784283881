//! What a running tool can do to its turn: hang, panic, flood, fail.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fermix_capability::dispatch::{INTERNAL_ERROR_TAG, MAX_OUTPUT_BYTES};
use fermix_capability::{CallContext, Capability, Deferral, Gate, ResultScreen};
use fermix_types::text::to_valid_utf8;
use fermix_types::{Category, EnforcementDecision, Image, PolicyClass, ToolError, ToolOutput};
use serde_json::{Value, json};

use crate::support::{
    Anyone, OwnerOnly, builtin, doing, echo, guest, owner, read_only, registry, turn, with_schema,
};

fn handled<F, R>(name: &str, deadline: Duration, run: F) -> Capability
where
    F: Fn(CallContext) -> R + Send + Sync + 'static,
    R: Future<Output = fermix_types::ToolResult> + Send + 'static,
{
    read_only(name)
        .deadline(deadline)
        .raw_handler(json!({ "type": "object" }), move |_, context| run(context))
        .expect("the stand-in is valid")
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_end_is_told_and_then_abandoned() {
    let cleaned = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&cleaned);
    let polite = handled("polite", Duration::from_secs(30), move |context| {
        let cleaned = Arc::clone(&counted);
        async move {
            context.cancel.cancelled().await;
            cleaned.fetch_add(1, Ordering::SeqCst);
            Err(ToolError::new("stopped", "stopped"))
        }
    });
    let deaf = handled("deaf", Duration::from_millis(1_500), |_| {
        std::future::pending()
    });
    let registry = registry(Deferral::On, [polite, deaf]);
    let turn_ = turn(&registry, owner());

    let begun = tokio::time::Instant::now();
    let outcome = turn_.call("polite", "{}").await;
    assert_eq!(outcome.text, "Error: timed out after 30s");
    assert_eq!((outcome.outcome, outcome.ran), ("timed_out", true));
    assert_eq!(cleaned.load(Ordering::SeqCst), 1, "it was told to stop");
    assert!(begun.elapsed() < Duration::from_secs(31));

    let begun = tokio::time::Instant::now();
    assert_eq!(
        turn_.call("deaf", "{}").await.text,
        "Error: timed out after 1.5s"
    );
    assert!(begun.elapsed() < Duration::from_secs(7));
    assert!(
        !turn_.scope.cancel.is_cancelled(),
        "one tool's deadline is not the turn's"
    );

    for name in ["polite", "deaf"] {
        let turn = turn(&registry, owner());
        let cancel = turn.scope.cancel.clone();
        let begun = tokio::time::Instant::now();
        let (outcome, ()) = tokio::join!(turn.call(name, "{}"), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cancel.cancel();
        });
        assert_eq!(
            (outcome.outcome, outcome.ran),
            ("cancelled", true),
            "{name}"
        );
        assert!(begun.elapsed() < Duration::from_secs(6), "{name}");
        assert_eq!(turn.row()["outcome"], "cancelled");
        let late = turn.call(name, "{}").await;
        assert_eq!(
            (late.outcome, late.ran),
            ("cancelled", false),
            "a stopped turn starts nothing"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_dropped_takes_its_tool_along() {
    struct Alive(Arc<AtomicUsize>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let alive = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&alive);
    let deaf = handled("deaf", Duration::from_secs(600), move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        let guard = Alive(Arc::clone(&counted));
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok("".into())
        }
    });
    let registry = registry(Deferral::On, [deaf]);
    let turn = turn(&registry, owner());
    let dropped = tokio::time::timeout(Duration::from_secs(1), turn.call("deaf", "{}")).await;
    assert!(dropped.is_err());
    assert_eq!(alive.load(Ordering::SeqCst), 1);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_panic_is_one_fixed_sentence_and_the_next_call_works() {
    let early = handled(
        "early",
        Duration::from_secs(1),
        |_| -> std::future::Ready<fermix_types::ToolResult> { panic!("the password is swordfish") },
    );
    let late = handled("late", Duration::from_secs(1), |_| async {
        tokio::task::yield_now().await;
        panic!("the password is {}", "swordfish")
    });
    let registry = registry(Deferral::On, [early, late, echo(read_only("fine"))]);
    for name in ["early", "late"] {
        let turn = turn(&registry, owner());
        let outcome = turn.call(name, "{}").await;
        let reference = outcome
            .text
            .strip_prefix("Error: tool raised an internal error; the log has it under ")
            .expect("the fixed sentence");
        assert!(
            reference.len() == 8 && reference.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{reference}"
        );
        let row = turn.row();
        assert_eq!(row["outcome"], "panicked");
        assert!(!Value::Object(row).to_string().contains("swordfish"));
        assert_eq!(turn.call("fine", "{}").await.outcome, "ok");
    }
}

#[tokio::test]
async fn output_is_bounded_and_says_so() {
    let flood = doing(read_only("flood"), || {
        Ok("ü".repeat(25 * 1024 * 1024).into())
    });
    let web_flood = doing(
        builtin("web_flood", PolicyClass::Network, Category::Web, Anyone),
        || Ok("<".repeat(2 * 1024 * 1024).into()),
    );
    let failing = doing(read_only("failing"), || {
        Err(ToolError::new("odd", "x".repeat(1024 * 1024)))
    });
    let latin = doing(read_only("latin"), || {
        Ok(to_valid_utf8(vec![b'a', 0xF3, b'b']).into())
    });
    let images = doing(read_only("images"), || {
        Ok(ToolOutput {
            images: vec![
                Image {
                    mime_type: "image/png".to_owned(),
                    data: Bytes::from(vec![0; 9 * 1024 * 1024])
                };
                3
            ],
            ..ToolOutput::default()
        })
    });
    let noted = doing(read_only("noted"), || {
        Ok(
            (0..20).fold(ToolOutput::from("{\"a\":1}"), |output, index| {
                output.note(format!("note {index}"))
            }),
        )
    });
    let registry = registry(
        Deferral::On,
        [flood, web_flood, failing, latin, images, noted],
    );
    let turn_ = turn(&registry, owner());

    let flood = turn_.call("flood", "{}").await;
    assert!(flood.text.len() < MAX_OUTPUT_BYTES + 300);
    assert!(
        flood
            .text
            .contains("[cut: the first 262144 of 52428800 bytes are shown; narrow the call")
    );
    let web = turn_.call("web_flood", "{}").await;
    assert!(web.text.len() < MAX_OUTPUT_BYTES + 1_000);
    let (_, after) = web
        .text
        .split_once("</untrusted_tool_result>")
        .expect("a closed frame");
    assert!(
        after.trim().starts_with("[cut: "),
        "our own words stand outside: {after}"
    );
    let failing = turn_.call("failing", "{}").await;
    assert!(failing.text.starts_with("Error: xxx") && failing.text.len() < MAX_OUTPUT_BYTES + 300);
    assert_eq!(turn_.call("latin", "{}").await.text, "a\u{FFFD}b");
    let images = turn_.call("images", "{}").await;
    assert_eq!(images.images.len(), 2);
    assert!(
        images.text.contains("the first 2 of 3 images"),
        "{}",
        images.text
    );
    let noted = turn_.call("noted", "{}").await;
    let mut lines = noted.text.lines();
    assert_eq!(lines.next(), Some("{\"a\":1}"));
    assert_eq!(lines.next(), Some("[note: note 0]"));
    assert_eq!(lines.next_back(), Some("[note: and 4 more notes]"));
    for row in turn_.trace.rows() {
        assert!(Value::Object(row.fields).to_string().len() < 4_096);
    }
}

#[tokio::test]
async fn failures_keep_their_meaning() {
    let denied = doing(read_only("denied"), || {
        Err(ToolError::new("denied", "outside the workspace")
            .denied(EnforcementDecision::Deny)
            .note("ask the owner"))
    });
    let fault = doing(
        builtin("fault", PolicyClass::Network, Category::Web, Anyone),
        || Err(ToolError::new(INTERNAL_ERROR_TAG, "the decoder gave up")),
    );
    let last = doing(
        builtin("react", PolicyClass::ReadOnly, Category::Channel, Anyone).terminal(),
        || Ok("".into()),
    );
    let registry = registry(Deferral::On, [denied, fault, last]);

    let turn_ = turn(&registry, owner());
    let outcome = turn_.call("denied", "{}").await;
    assert_eq!(
        outcome.text,
        "Error: outside the workspace\n[note: ask the owner]"
    );
    let row = turn_.row();
    assert_eq!(
        row["enforcement"],
        json!({ "source": "sandbox", "decision": "deny", "phase": "pre_execution" })
    );
    assert_eq!(row["error"], "outside the workspace");
    assert_eq!(row["failure"], "denied");

    let turn_ = turn(&registry, owner());
    let outcome = turn_.call("fault", "{}").await;
    assert!(
        outcome
            .text
            .starts_with("Error executing tool: <untrusted_tool_result source=\"fault\"")
    );
    assert_eq!(outcome.outcome, "internal_error");
    assert_eq!(turn_.row()["error"], "the decoder gave up");

    let outcome = turn(&registry, owner()).call("react", "{}").await;
    assert_eq!((outcome.terminal, outcome.text.as_str()), (true, ""));
}

#[tokio::test]
async fn parameters_that_depend_on_the_caller_are_shown_and_checked() {
    let react = builtin("react", PolicyClass::ReadOnly, Category::Channel, Anyone)
        .gate(Gate::LiveReply)
        .dynamic_parameters(|caller| {
            let trusted = caller.trust() == fermix_types::Trust::Operator;
            trusted.then(|| json!({ "type": "object", "properties": { "emoji": { "enum": ["👍"] } }, "required": ["emoji"] }))
        });
    let react = with_schema(
        react,
        json!({ "type": "object", "properties": { "emoji": { "type": "string" } } }),
    );
    let broken = builtin("broken", PolicyClass::ReadOnly, Category::System, OwnerOnly)
        .dynamic_parameters(|_| Some(json!({ "type": "array" })));
    let broken = with_schema(
        broken,
        json!({ "type": "object", "properties": { "a": { "type": "string" } } }),
    );
    let registry = registry(Deferral::On, [react, broken]);

    let owners = turn(&registry, owner());
    assert!(
        owners.scope.view.definitions()[1]
            .parameters
            .get()
            .contains("👍")
    );
    assert_eq!(
        owners.call("react", r#"{"emoji":"x"}"#).await.outcome,
        "invalid_arguments"
    );
    assert_eq!(
        owners.call("react", r#"{"emoji":"👍"}"#).await.outcome,
        "ok"
    );
    assert_eq!(
        owners.call("broken", r#"{"a":1}"#).await.outcome,
        "invalid_arguments",
        "keeps its registered checks"
    );

    let guests = turn(&registry, guest());
    assert_eq!(guests.call("react", r#"{"emoji":"x"}"#).await.outcome, "ok");
}

/// Hides one word, wherever it stands.
struct Hiding(&'static str);

impl ResultScreen for Hiding {
    fn screen<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match text.contains(self.0) {
            true => Cow::Owned(text.replace(self.0, "[hidden]")),
            false => Cow::Borrowed(text),
        }
    }
}

#[tokio::test]
async fn a_screen_sees_all_of_an_answer_before_anybody_else_does() {
    let filler = "x".repeat(MAX_OUTPUT_BYTES - 3);
    let straddling = filler.clone();
    let minute = Duration::from_secs(60);
    let registry = registry(
        Deferral::On,
        [
            handled("said", minute, |_| async {
                Ok(ToolOutput::from("a secret here").note("and a secret there"))
            }),
            handled("failed", minute, |_| async {
                Err(ToolError {
                    notes: vec!["secret".to_owned()],
                    ..ToolError::new("broken", "the secret word")
                })
            }),
            handled("cut", minute, move |_| {
                let text = format!("{straddling}secret");
                async move { Ok(ToolOutput::from(text)) }
            }),
        ],
    );
    let mut turn = turn(&registry, owner());
    turn.dispatcher = turn
        .dispatcher
        .screening_results(Arc::new(Hiding("secret")));
    let said = turn.call("said", "{}").await;
    assert_eq!(said.text, "a [hidden] here\n[note: and a [hidden] there]");
    assert_eq!(said.output, "a [hidden] here");
    assert_eq!(said.notes, ["and a [hidden] there"]);
    let failed = turn.call("failed", "{}").await;
    assert_eq!(failed.text, "Error: the [hidden] word\n[note: [hidden]]");
    let cut = turn.call("cut", "{}").await;
    assert!(
        cut.output.starts_with(&format!("{filler}[hi")),
        "not half of it"
    );
    for row in turn.trace.rows() {
        let row = serde_json::to_string(&row.fields).unwrap();
        assert!(!row.contains("secret"), "{row}");
    }
}
