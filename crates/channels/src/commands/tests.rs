//! The grammar, and who may give what.

use std::collections::BTreeSet;
use std::sync::Mutex;

use async_trait::async_trait;
use fermix_types::ConversationKey;

use super::*;

/// Writes down what it was asked for.
#[derive(Default)]
struct Recorder {
    lacks: Vec<Command>,
    asked: Mutex<Vec<String>>,
}

impl Recorder {
    fn note(&self, what: String) -> Outcome {
        self.asked.lock().unwrap().push(what.clone());
        Ok(what)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

#[async_trait]
impl CommandDesk for Recorder {
    fn offers(&self, command: Command) -> bool {
        !self.lacks.contains(&command)
    }

    async fn new_session(&self, conversation: &ConversationKey) -> Outcome {
        self.note(format!("new {conversation}"))
    }

    async fn compact(&self, conversation: &ConversationKey) -> Outcome {
        self.note(format!("compact {conversation}"))
    }

    fn work(&self, only: Option<&ConversationKey>) -> Vec<Work> {
        let lane = |chat: &str, waiting| Work {
            conversation: ConversationKey::root("telegram", chat),
            is_running: true,
            waiting,
        };
        let mut work = vec![lane("a", 2), lane("b", 0)];
        work.retain(|lane| only.is_none_or(|only| *only == lane.conversation));
        work
    }

    fn stop(&self, only: Option<&ConversationKey>) -> Stopped {
        let _ = self.note(format!("stop {only:?}"));
        Stopped {
            turns: 1,
            queued: 2,
        }
    }

    async fn undo(&self, request: UndoRequest, _asker: &Asker) -> Outcome {
        self.note(format!("undo {request:?}"))
    }

    async fn policy(&self, invocation: &Invocation, _asker: &Asker) -> Outcome {
        self.note(format!("policy {} {}", invocation.name, invocation.rest))
    }
}

fn rules() -> ChannelRules {
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
    ChannelRules {
        owner_user_id: Some("7".into()),
        allowed_user_ids: ids(&["8", "9"]),
        command_allowlist: ids(&["9", "7000"]),
    }
}

fn asker(user: &str, standing: Standing) -> Asker {
    Asker {
        origin: PromptOrigin {
            conversation: ConversationKey::root("telegram", "a"),
            user: user.into(),
        },
        standing,
        bot_name: Some("fermixbot".into()),
    }
}

fn remote(user: &str) -> Asker {
    asker(user, Standing::remote(user, &rules()).unwrap())
}

fn local(peer: LocalPeer, has_terminal: bool) -> Asker {
    asker(LOCAL_USER, Standing::local(peer, has_terminal))
}

#[test]
fn the_grammar_takes_commands_and_nothing_else() {
    let read = |text: &str| parse(text, Some("fermixbot")).map(|read| (read.name, read.rest));
    let command = |name: &str, rest: &str| Some((name.to_owned(), rest.to_owned()));
    assert_eq!(read("/help"), command("help", ""));
    assert_eq!(read("  \n/STOP@fermixbot\there "), command("stop", "here"));
    assert_eq!(read("/stop@FermixBot"), command("stop", ""));
    assert_eq!(read("/grant path  /a b"), command("grant", "path  /a b"));
    assert_eq!(read("/a_1 x\ny"), command("a_1", "x\ny"));
    for text in [
        "",
        "/",
        "//help",
        "/ help",
        "help",
        "/1help",
        "/_help",
        "/hé",
        "/etc/passwd is odd",
        "/stop.",
        "/stop@",
        "/stop@otherbot",
        "/stop@fermixbot@fermixbot",
        "say /help",
    ] {
        assert_eq!(read(text), None, "{text:?}");
    }
    assert!(parse("/stop@anybody", None).is_some());
    assert_eq!(
        parse("/grant path /a b", None).unwrap().words,
        ["path", "/a", "b"]
    );
}

#[tokio::test]
async fn unknown_names_and_paths_are_words_for_the_agent() {
    let desk = Recorder {
        lacks: vec![Command::Undo],
        ..Recorder::default()
    };
    for text in ["/etc/passwd is odd", "/ultra", "/undo", "hello", "/bg"] {
        assert_eq!(handle(text, &remote("7"), &desk).await, None, "{text}");
    }
    assert_eq!(desk.take(), Vec::<String>::new());
}

#[tokio::test]
async fn a_command_reaches_its_method_in_any_case_and_by_any_name() {
    let desk = Recorder::default();
    let owner = remote("7");
    for (text, reached) in [
        ("/STOP@fermixbot", "stop None"),
        ("/clear", "new telegram:a:root"),
        ("/new", "new telegram:a:root"),
        ("/compact", "compact telegram:a:root"),
        ("/undo", "undo Last"),
        ("/undo list", "undo List"),
        ("/undo 12", "undo Change(12)"),
        ("/grant path /a b", "policy grant path /a b"),
        ("/confirm ABCDEFGH once", "policy confirm ABCDEFGH once"),
        ("/deny ABCDEFGH", "policy deny ABCDEFGH"),
        ("/sandbox mode strict", "policy sandbox mode strict"),
        ("/revoke path /a", "policy revoke path /a"),
    ] {
        assert!(handle(text, &owner, &desk).await.unwrap().is_ok(), "{text}");
        assert_eq!(desk.take(), [reached], "{text}");
    }
    let stopped = handle("/stop here", &owner, &desk).await.unwrap();
    assert_eq!(stopped.unwrap(), "Stopped 1 turn and 2 queued messages.");
    assert!(desk.take()[0].starts_with("stop Some"));
}

#[tokio::test]
async fn words_after_a_command_that_takes_none_do_nothing() {
    let desk = Recorder::default();
    for text in [
        "/new plan for tomorrow",
        "/stop it",
        "/undo last one",
        "/help me",
    ] {
        let refused = handle(text, &remote("7"), &desk)
            .await
            .unwrap()
            .unwrap_err();
        assert!(
            refused.0.starts_with("nothing was done; usage: /"),
            "{text}"
        );
    }
    assert_eq!(desk.take(), Vec::<String>::new());
}

/// Which commands a sender is refused, with arguments that each takes.
async fn refused(asker: &Asker) -> BTreeSet<&'static str> {
    let desk = Recorder::default();
    let mut refused = BTreeSet::new();
    for text in [
        "/help",
        "/whoami",
        "/new",
        "/compact",
        "/tasks",
        "/stop",
        "/undo",
        "/sandbox status",
        "/sandbox mode danger",
        "/grant path /x",
        "/revoke path /x",
        "/confirm A",
        "/deny A",
    ] {
        let outcome = handle(text, asker, &desk).await.unwrap();
        let asked = desk.take();
        if outcome.is_err() {
            assert_eq!(asked, Vec::<String>::new(), "{text} was refused and done");
            refused.insert(text);
        }
    }
    refused
}

#[tokio::test]
async fn each_sender_may_give_exactly_their_commands() {
    let approvals = BTreeSet::from([
        "/confirm A",
        "/deny A",
        "/grant path /x",
        "/revoke path /x",
        "/sandbox mode danger",
    ]);
    let owners: BTreeSet<_> = approvals
        .union(&["/stop", "/undo"].into())
        .copied()
        .collect();
    assert_eq!(refused(&remote("7")).await, BTreeSet::new());
    assert_eq!(
        refused(&local(LocalPeer::InPerson, true)).await,
        BTreeSet::new()
    );
    assert_eq!(refused(&remote("9")).await, owners);
    let unlisted = ["/new", "/compact", "/tasks", "/sandbox status"];
    assert_eq!(
        refused(&remote("8")).await,
        owners.union(&unlisted.into()).copied().collect()
    );
    let not_in_person: BTreeSet<_> = approvals
        .union(&["/sandbox status"].into())
        .copied()
        .collect();
    assert_eq!(
        refused(&local(LocalPeer::InPerson, false)).await,
        not_in_person
    );
    assert_eq!(
        refused(&local(LocalPeer::StartedByFermix, true)).await,
        not_in_person.union(&["/undo"].into()).copied().collect()
    );
}

#[test]
fn strangers_and_nameless_senders_have_no_standing() {
    // On the list of commands alone is nobody.
    for sender in ["10", "7000", ""] {
        assert_eq!(Standing::remote(sender, &rules()), None, "{sender:?}");
    }
    let blank = ChannelRules {
        owner_user_id: Some(String::new()),
        ..ChannelRules::default()
    };
    assert_eq!(Standing::remote("", &blank), None);
}

#[tokio::test]
async fn help_lists_exactly_what_the_caller_may_give() {
    for asker in [
        remote("7"),
        remote("8"),
        remote("9"),
        local(LocalPeer::InPerson, false),
        local(LocalPeer::StartedByFermix, false),
    ] {
        let desk = Recorder {
            lacks: vec![Command::Compact],
            ..Recorder::default()
        };
        let help = handle("/help", &asker, &desk).await.unwrap().unwrap();
        for spec in table::ALL {
            let is_listed = help.lines().any(|line| line.starts_with(spec.usage));
            let text = format!("/{}", spec.name);
            let runs = match handle(&text, &asker, &desk).await {
                None => false,
                Some(Ok(_)) => true,
                Some(Err(refused)) => refused.0.starts_with("nothing was done"),
            };
            assert_eq!(is_listed, runs, "{text} for {asker:?}: {help}");
        }
    }
}

#[tokio::test]
async fn a_guest_sees_only_their_own_conversation() {
    let desk = Recorder::default();
    let own = handle("/tasks", &remote("9"), &desk)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(own, "telegram a: a turn is running, 2 messages waiting");
    let all = handle("/tasks", &remote("7"), &desk)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(all.lines().count(), 2);
}

#[tokio::test]
async fn whoami_tells_the_id_to_put_into_the_configuration() {
    let desk = Recorder::default();
    let told = handle("/whoami", &remote("8"), &desk)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(told, "8 on telegram, in conversation a: a guest.");
}

#[test]
fn every_name_is_a_name_and_none_is_given_twice() {
    let mut seen = BTreeSet::new();
    for spec in table::ALL {
        assert!(spec.usage.starts_with(&format!("/{}", spec.name)));
        for name in std::iter::once(&spec.name).chain(spec.aliases) {
            assert!(seen.insert(*name), "{name} twice");
            assert_eq!(parse(&format!("/{name}"), None).unwrap().name, *name);
        }
    }
}

proptest::proptest! {
    /// Whatever is written, what is read as a command begins with a slash and a letter.
    #[test]
    fn no_text_is_mistaken_for_a_command(text in "\\PC{0,24}") {
        if let Some(read) = parse(&text, None) {
            let mut start = text.trim().chars();
            proptest::prop_assert_eq!(start.next(), Some('/'));
            proptest::prop_assert!(start.next().is_some_and(|letter| letter.is_ascii_alphabetic()));
            proptest::prop_assert!(read.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'));
        }
    }
}
