//! What the owner is asked about, what their answers bind, and that nothing runs without one.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fermix_approvals::ConfirmError;
use fermix_approvals::commands::{ApprovalRules, CallApprovals};
use fermix_capability::{
    ApprovalPort, ApprovalPrompt, CallOutcome, Caller, Choice, JobGrant, OutsideSource,
    OutsideSources, PromptOrigin, TurnScope,
};
use fermix_config::ApproveMode;
use fermix_types::{ConversationKey, TraceKind, Trust};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{World, ok, owner, refused};

/// What the owner does with every question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Says(Choice),
    /// Looks away.
    Nothing,
    /// Nothing can be shown.
    Unreachable,
}

/// An owner at a chat.
#[derive(Debug)]
pub struct Chat {
    approvals: Arc<CallApprovals>,
    origin: PromptOrigin,
    answer: Mutex<Answer>,
    shown: Mutex<Vec<ApprovalPrompt>>,
}

#[async_trait]
impl ApprovalPort for Chat {
    async fn show(&self, prompt: &ApprovalPrompt) -> Result<(), String> {
        self.shown.lock().unwrap().push(prompt.clone());
        let answer = *self.answer.lock().unwrap();
        match answer {
            Answer::Says(choice) => {
                self.approvals
                    .answer(&prompt.token, choice, &self.origin)
                    .await
                    .unwrap();
                Ok(())
            }
            Answer::Nothing => Ok(()),
            Answer::Unreachable => Err("the connection is gone".to_owned()),
        }
    }

    fn is_private(&self) -> bool {
        true
    }
}

impl Chat {
    pub fn prompts(&self) -> usize {
        self.shown.lock().unwrap().len()
    }

    pub fn last(&self) -> ApprovalPrompt {
        self.shown.lock().unwrap().last().unwrap().clone()
    }

    fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    async fn first_prompt(&self) -> ApprovalPrompt {
        while self.prompts() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.last()
    }
}

/// A world that asks by these rules, and an owner who answers like this.
pub fn asking(commands: ApproveMode, when_tainted: bool, answer: Answer) -> (World, Arc<Chat>) {
    let world = World::with(|settings, _| {
        settings.env.allow = ["SECRET_TOKEN".to_owned()].into();
    });
    world.approvals.reconfigure(ApprovalRules {
        commands,
        when_tainted,
    });
    let chat = Arc::new(Chat {
        approvals: Arc::clone(&world.approvals),
        origin: PromptOrigin {
            conversation: ConversationKey::root("cli", "test"),
            user: "owner".into(),
        },
        answer: Mutex::new(answer),
        shown: Mutex::default(),
    });
    (world, chat)
}

/// A turn of the owner at `chat`, that has read nothing. Every turn has a frame of its own.
pub fn turn(world: &World, chat: &Arc<Chat>) -> TurnScope {
    TurnScope {
        origin: Some(chat.origin.clone()),
        approval: Some(chat.clone()),
        outside_sources: OutsideSources::clean(),
        frame: fermix_capability::FrameId::random(),
        ..world.turn(owner())
    }
}

fn shell(command: &str) -> Value {
    json!({ "command": command })
}

/// The outcome and the gate's label of the last call.
fn last_row(world: &World) -> (String, String) {
    let row = world.rows(TraceKind::ToolExec).pop().unwrap();
    let text = |key| {
        let field = row.fields.get(key).and_then(Value::as_str);
        field.unwrap_or_default().to_owned()
    };
    (text("outcome"), text("access"))
}

fn assert_nothing_ran(world: &World, outcome: &CallOutcome, tag: &str) {
    assert_eq!(outcome.outcome, tag, "{}", outcome.text);
    assert!(!outcome.ran && outcome.is_error);
    assert!(outcome.text.contains(tag), "{}", outcome.text);
    assert!(!world.home.workspace().join("canary").exists());
    assert_eq!(world.sandbox.runner().live(), 0);
    let row = world.rows(TraceKind::ToolExec).pop().unwrap();
    assert_eq!(row.fields["enforcement"]["phase"], "pre_execution");
    assert_eq!(
        world.questions.live(Instant::now()),
        0,
        "no question is left"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_denied_expires_or_cannot_be_asked_has_run_nothing() {
    // The same call again in the same turn: who said no or looked away is not asked again.
    let cases = [
        (
            Answer::Says(Choice::Deny),
            ["approval_denied", "approval_denied"],
            1,
        ),
        (Answer::Nothing, ["approval_expired", "approval_denied"], 1),
        (
            Answer::Unreachable,
            ["approval_unavailable", "approval_unavailable"],
            2,
        ),
    ];
    for (answer, tags, prompts) in cases {
        let (world, chat) = asking(ApproveMode::Always, false, answer);
        let turn = turn(&world, &chat);
        for tag in tags {
            let outcome = world.call_in(&turn, "shell", shell("touch canary")).await;
            assert_nothing_ran(&world, &outcome, tag);
        }
        assert_eq!(chat.prompts(), prompts, "{answer:?}");
    }
}

#[tokio::test]
async fn where_nobody_attends_nothing_is_asked_and_nothing_runs() {
    let (world, chat) = asking(ApproveMode::Always, false, Answer::Says(Choice::Once));
    let with_view = |caller: Caller| TurnScope {
        view: Arc::new(world.registry.view(&Arc::new(caller))),
        ..turn(&world, &chat)
    };
    let without_port = TurnScope {
        approval: None,
        ..turn(&world, &chat)
    };
    let without_origin = TurnScope {
        origin: None,
        ..turn(&world, &chat)
    };
    for unattended in [
        without_port,
        without_origin,
        with_view(owner().worker()),
        with_view(Caller::detached()),
        with_view(job(&["shell"])),
    ] {
        let outcome = world
            .call_in(&unattended, "shell", shell("touch canary"))
            .await;
        assert_nothing_ran(&world, &outcome, "approval_unavailable");
    }
    assert_eq!(chat.prompts(), 0);
}

#[tokio::test]
async fn a_yes_runs_the_command_once_and_the_next_one_is_asked_about_again() {
    let (world, chat) = asking(ApproveMode::Always, false, Answer::Says(Choice::Once));
    let turn = turn(&world, &chat);
    ok(world.call_in(&turn, "shell", shell("touch canary")).await);
    assert!(world.home.workspace().join("canary").exists());
    assert_eq!(last_row(&world), ("ok".into(), "approved_once".into()));
    ok(world.call_in(&turn, "shell", shell("touch canary")).await);
    assert_eq!(chat.prompts(), 2);
    // Only commands are asked about.
    ok(world
        .call_in(&turn, "glob_search", json!({"pattern": "*"}))
        .await);
    assert_eq!(chat.prompts(), 2);
}

#[tokio::test]
async fn a_yes_for_good_binds_the_command_its_folder_and_its_variables() {
    let (world, chat) = asking(ApproveMode::Always, false, Answer::Says(Choice::Always));
    std::fs::create_dir(world.home.workspace().join("sub")).unwrap();
    let first = shell("touch canary");
    ok(world
        .call_in(&turn(&world, &chat), "shell", first.clone())
        .await);
    assert_eq!(last_row(&world).1, "approved_always");

    chat.answers(Answer::Says(Choice::Deny));
    let again = || world.call_in_new(&chat, first.clone());
    ok(again().await);
    assert_eq!(last_row(&world).1, "approved_before");
    assert_eq!(chat.prompts(), 1);
    let siblings = [
        shell("touch canary2"),
        shell("touch  canary"),
        shell("touch canary; ls"),
        json!({"command": "touch canary", "working_dir": "sub"}),
    ];
    for sibling in &siblings {
        let outcome = world.call_in_new(&chat, sibling.clone()).await;
        refused(&outcome, &["approval_denied"]);
    }
    assert_eq!(chat.prompts(), 1 + siblings.len());
    // Another variable is another command.
    let mut settings = world.sandbox.settings();
    settings.env.allow.insert("OTHER".to_owned());
    world.sandbox.reconfigure(settings.clone()).unwrap();
    refused(&again().await, &["approval_denied"]);
    settings.env.allow.remove("OTHER");
    world.sandbox.reconfigure(settings).unwrap();
    ok(again().await);

    // The list is private and readable. What others could have written approves nothing.
    let file = world.home.fermix_home().join("grants/commands.json");
    let mode =
        |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let listed = world.approvals.approved().list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].command, "touch canary");
    let workspace = world.home.workspace().display().to_string();
    assert_eq!(listed[0].folder, workspace);
    mode(0o644);
    refused(&again().await, &["approval_denied"]);
    mode(0o600);
    ok(again().await);
    // What is removed is asked about again.
    assert!(!world.approvals.approved().remove("").unwrap());
    assert!(
        world
            .approvals
            .approved()
            .remove(&listed[0].digest)
            .unwrap()
    );
    refused(&again().await, &["approval_denied"]);
}

impl World {
    /// A call of `shell` in a turn of its own.
    async fn call_in_new(&self, chat: &Arc<Chat>, arguments: Value) -> CallOutcome {
        self.call_in(&turn(self, chat), "shell", arguments).await
    }
}

#[tokio::test]
async fn the_owner_sees_all_of_it_and_no_value() {
    let (world, chat) = asking(ApproveMode::Always, false, Answer::Says(Choice::Deny));
    let command = "echo safe\u{202E} #\u{7}\n│ Folder: /elsewhere\nls x";
    world.call_in_new(&chat, shell(command)).await;
    let prompt = chat.last();
    assert_eq!(prompt.choices, [Choice::Once, Choice::Always, Choice::Deny]);
    let expected = format!(
        "Command:\n  │ echo safe⟨U+202E⟩ #⟨U+0007⟩\n  │ ⟨U+2502⟩ Folder: /elsewhere\n  │ ls x\nFolder: {}\n\
         Variables: HOME, LANG, PATH, SECRET_TOKEN, TERM\n\
         Asked because `[sandbox] approve` is \"always\"",
        world.home.workspace().display()
    );
    assert_eq!(prompt.body, expected);
    // Neither the model nor the trace has the token.
    let rows = format!("{:?}", world.rows(TraceKind::ToolExec));
    assert!(!rows.contains(&prompt.token));
}

#[tokio::test]
async fn an_answer_counts_once_and_only_from_where_the_question_was_shown() {
    let (world, chat) = asking(ApproveMode::Always, false, Answer::Nothing);
    let asked = async {
        let token = chat.first_prompt().await.token;
        let stranger = PromptOrigin {
            user: "stranger".into(),
            ..chat.origin.clone()
        };
        let answer = |choice, origin| world.approvals.answer(&token, choice, origin);
        let mismatch = ConfirmError::OriginMismatch;
        assert_eq!(answer(Choice::Once, &stranger).await, Err(mismatch));
        let unfit = answer(Choice::Read, &chat.origin).await;
        assert!(matches!(unfit, Err(ConfirmError::Unfit(_))), "{unfit:?}");
        assert!(answer(Choice::Once, &chat.origin).await.is_ok());
        let unknown = ConfirmError::UnknownToken;
        assert_eq!(answer(Choice::Once, &chat.origin).await, Err(unknown));
    };
    let (outcome, ()) = tokio::join!(world.call_in_new(&chat, shell("touch canary")), asked);
    ok(outcome);
}

#[tokio::test]
async fn while_a_question_waits_nothing_of_the_turn_runs_and_a_stop_takes_it_back() {
    let (world, chat) = asking(ApproveMode::Always, false, Answer::Nothing);
    let turn = turn(&world, &chat);
    let others = async {
        chat.first_prompt().await;
        for (tool, arguments) in [
            ("shell", shell("touch canary")),
            ("shell", shell("touch other")),
            ("glob_search", json!({"pattern": "*"})),
        ] {
            let outcome = world.call_in(&turn, tool, arguments).await;
            refused(&outcome, &["access_waiting"]);
        }
        // The same question from the same place is one question, whichever turn asks it.
        let twin = world.call_in_new(&chat, shell("touch canary")).await;
        refused(&twin, &["access_waiting"]);
        turn.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(world.call_in(&turn, "shell", shell("touch canary")), others);
    assert_eq!(outcome.outcome, "cancelled");
    assert!(!outcome.ran);
    assert_eq!(chat.prompts(), 1);
    assert_eq!(world.questions.live(Instant::now()), 0);
    assert!(!world.home.workspace().join("canary").exists());
}

#[tokio::test]
async fn a_folder_that_changes_under_the_question_stops_the_command() {
    let (world, chat) = asking(ApproveMode::Always, false, Answer::Nothing);
    let workspace = world.home.workspace();
    let here = workspace.join("here");
    for folder in ["a", "b"] {
        std::fs::create_dir(workspace.join(folder)).unwrap();
    }
    symlink(workspace.join("a"), &here).unwrap();
    let swapped = async {
        let token = chat.first_prompt().await.token;
        std::fs::remove_file(&here).unwrap();
        symlink(workspace.join("b"), &here).unwrap();
        world
            .approvals
            .answer(&token, Choice::Once, &chat.origin)
            .await
            .unwrap();
    };
    let call = json!({"command": "touch canary", "working_dir": "here"});
    let (outcome, ()) = tokio::join!(world.call_in_new(&chat, call), swapped);
    refused(&outcome, &["approval_changed"]);
    assert!(!workspace.join("a/canary").exists() && !workspace.join("b/canary").exists());
}

#[tokio::test]
async fn what_the_sandbox_refuses_is_not_asked_about() {
    let (world, chat) = asking(ApproveMode::Always, false, Answer::Says(Choice::Once));
    let outcome = world.call_in_new(&chat, shell("rm -rf ~")).await;
    refused(&outcome, &["hardline"]);
    let elsewhere = json!({"command": "ls", "working_dir": "/etc"});
    refused(&world.call_in_new(&chat, elsewhere).await, &["protected"]);
    assert_eq!(chat.prompts(), 0);
}

fn web() -> OutsideSource {
    OutsideSource::new("web", "web_fetch")
}

#[tokio::test]
async fn a_tainted_turn_asks_before_it_runs_code_or_writes_where_code_will_run() {
    let (world, chat) = asking(ApproveMode::Never, true, Answer::Says(Choice::Deny));
    let turn = turn(&world, &chat);
    let write = |path: &str| json!({"path": path, "content": "x"});
    ok(world.call_in(&turn, "shell", shell("true")).await);
    ok(world.call_in(&turn, "file_write", write("Makefile")).await);
    symlink("Makefile", world.home.workspace().join("notes")).unwrap();
    assert_eq!(chat.prompts(), 0);

    turn.outside_sources.add(web());
    let edit = json!({"path": "run.sh", "old_string": "a", "new_string": "b"});
    for (tool, arguments) in [
        ("shell", shell("true")),
        ("file_write", write("Makefile")),
        ("file_write", write("notes")),
        ("file_write", write(".github/workflows/ci.yml")),
        ("file_edit", edit),
    ] {
        let outcome = world.call_in(&turn, tool, arguments.clone()).await;
        assert_eq!(
            outcome.outcome, "approval_denied",
            "{tool} {arguments}: {}",
            outcome.text
        );
    }
    assert_eq!(chat.prompts(), 5);
    // A call of a tainted turn is allowed once or not at all.
    assert_eq!(chat.last().choices, [Choice::Once, Choice::Deny]);
    ok(world.call_in(&turn, "file_write", write("text.md")).await);
    ok(world
        .call_in(&turn, "file_read", json!({"path": "text.md"}))
        .await);
    assert_eq!(chat.prompts(), 5);
    // Nobody to ask, nothing done.
    let alone = TurnScope {
        approval: None,
        ..turn
    };
    let outcome = world.call_in(&alone, "shell", shell("touch canary")).await;
    refused(&outcome, &["approval_unavailable"]);
}

fn job(tools: &[&str]) -> Caller {
    let tools: BTreeSet<String> = tools.iter().map(|tool| (*tool).to_owned()).collect();
    Caller::job(
        Trust::Operator,
        JobGrant {
            job_id: "nightly".into(),
            allowed_tools: (!tools.is_empty()).then_some(tools),
            policy: None,
        },
    )
}

#[tokio::test]
async fn a_tainted_job_runs_only_what_its_own_row_names() {
    // Without any setting: in a scheduled run the refusal is the default.
    let (world, chat) = asking(ApproveMode::Never, false, Answer::Says(Choice::Once));
    for (caller, runs) in [
        (job(&[]), false),
        (job(&["shell"]), true),
        (job(&[]).worker(), false),
        (job(&["shell"]).worker(), true),
    ] {
        let turn = TurnScope {
            view: Arc::new(world.registry.view(&Arc::new(caller))),
            approval: None,
            ..turn(&world, &chat)
        };
        ok(world.call_in(&turn, "shell", shell("true")).await);
        turn.outside_sources.add(web());
        let outcome = world.call_in(&turn, "shell", shell("true")).await;
        if runs {
            ok(outcome);
        } else {
            refused(&outcome, &["approval_unavailable", "allowed_tools"]);
        }
    }
    assert_eq!(chat.prompts(), 0);
}
