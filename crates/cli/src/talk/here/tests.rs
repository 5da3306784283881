//! Prompts and their answers within one process.

use std::sync::Mutex;

use fermix_config::{Config, Environment, Overrides};
use fermix_daemon::Parts;
use fermix_daemon::commands::{Invocation, NotDone, Outcome};
use fermix_daemon::desk::{Machinery, PolicyCommands};
use fermix_testkit::TestHome;

use super::*;

/// Writes down what it is told, and takes one token only.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

#[async_trait]
impl PolicyCommands for Recorder {
    async fn run(&self, invocation: &Invocation, asker: &Asker) -> Outcome {
        let said = format!(
            "{} {} {}",
            asker.origin.conversation, invocation.name, invocation.rest
        );
        self.0.lock().unwrap().push(said);
        match invocation.words.first().map(String::as_str) {
            Some("TOKEN234") => Ok("done".to_owned()),
            _ => Err(NotDone("unknown_token".to_owned())),
        }
    }
}

fn answers(home: &TestHome, machinery: Machinery) -> Answers {
    let environment = Environment::from_pairs(home.env());
    let fermix_home = Home::resolve(Some(&home.fermix_home()), &environment).unwrap();
    let config = Config::load(&fermix_home, &environment, &Overrides::default()).unwrap();
    let engine = Engine::build(Parts {
        home: fermix_home,
        environment,
        config,
        executable: std::env::current_exe().unwrap(),
        launch_dir: None,
        extra_roots: Vec::new(),
        redactor: Arc::default(),
    });
    Answers {
        engine: Arc::new(engine.unwrap().with_machinery(machinery)),
        asker: Asker {
            origin: PromptOrigin {
                conversation: ConversationKey::root("cli", "work"),
                user: commands::LOCAL_USER.to_owned(),
            },
            standing: Standing::local(LocalPeer::InPerson, true),
            bot_name: None,
        },
    }
}

#[tokio::test]
async fn a_key_becomes_the_command_that_a_chat_would_send() {
    let home = TestHome::new();
    let recorder = Arc::new(Recorder::default());
    let machinery = Machinery {
        policy: Some(Arc::clone(&recorder) as _),
        ..Machinery::default()
    };
    let answers = answers(&home, machinery);
    assert!(answers.engine.takes_answers());
    assert_eq!(answers.answer("TOKEN234", "always").await, Ok(()));
    assert_eq!(answers.answer("TOKEN234", "deny").await, Ok(()));
    assert_eq!(
        answers.answer("OTHER234", "once").await,
        Err("unknown_token".to_owned())
    );
    assert_eq!(
        *recorder.0.lock().unwrap(),
        [
            "cli:work:root confirm TOKEN234 always",
            "cli:work:root deny TOKEN234",
            "cli:work:root confirm OTHER234 once",
        ]
    );
}

#[tokio::test]
async fn nobody_is_asked_what_nothing_takes_the_answer_to() {
    let home = TestHome::new();
    let answers = answers(&home, Machinery::default());
    assert!(!answers.engine.takes_answers());
    assert!(answers.answer("TOKEN234", "once").await.is_err());
}

#[tokio::test]
async fn a_prompt_is_an_event_while_somebody_watches() {
    let prompt = ApprovalPrompt {
        token: "TOKEN234".into(),
        title: "run a command".into(),
        body: "date".into(),
        choices: vec![fermix_daemon::Choice::Once, fermix_daemon::Choice::Deny],
        expires_in: Duration::from_secs(60),
    };
    let (teller, mut told) = mpsc::channel(1);
    let shown = Shown(teller);
    assert_eq!(shown.show(&prompt).await, Ok(()));
    assert_eq!(
        told.recv().await,
        Some(Ok(Event::Approval {
            token: "TOKEN234".into(),
            title: "run a command".into(),
            body: "date".into(),
            choices: vec!["once".into(), "deny".into()],
            expires_in_ms: 60_000,
        }))
    );
    drop(told);
    assert!(shown.show(&prompt).await.is_err());
}
