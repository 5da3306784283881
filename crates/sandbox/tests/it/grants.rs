//! Grants for one conversation and grants for reading only.

use std::fs;

use fermix_sandbox::{Access, Provenance, RootAccess, Scope, UnsafeRoot};
use fermix_types::{ConversationKey, SandboxMode};

use crate::support::TestHome;

fn of(chat: &str) -> Scope {
    Scope {
        conversation: Some(ConversationKey::root("telegram", chat)),
        attended: true,
        ..Scope::default()
    }
}

#[test]
fn a_grant_for_one_conversation_is_open_to_it_alone() {
    let test = TestHome::new(SandboxMode::Strict);
    let sandbox = test.sandbox();
    let clone = sandbox.clone();
    let outside = test.outside();
    let file = outside.join("file").display().to_string();
    let key = ConversationKey::root("telegram", "a");
    assert_eq!(
        sandbox.grant_for_conversation(&key, &outside),
        Ok(outside.clone())
    );
    for sandbox in [&sandbox, &clone] {
        sandbox.writable(&file, &of("a")).expect("granted");
        sandbox.readable(&file, &of("b")).expect_err("another chat");
        sandbox
            .readable(&file, &Scope::default())
            .expect_err("no conversation");
    }
    // Other settings do not take it away; what is blocked stays blocked.
    let mut settings = sandbox.settings();
    settings.allowed_roots = vec![test.home.join("project")];
    sandbox.reconfigure(settings.clone()).expect("valid");
    sandbox.writable(&file, &of("a")).expect("still granted");
    let roots = sandbox.roots(&of("a"));
    let root = roots.iter().find(|root| root.path == outside);
    assert_eq!(
        root.map(|root| root.provenance),
        Some(Provenance::Conversation)
    );
    settings.blocked_roots = vec![outside.clone()];
    sandbox.reconfigure(settings.clone()).expect("valid");
    sandbox.readable(&file, &of("a")).expect_err("blocked");
    settings.blocked_roots.clear();
    sandbox.reconfigure(settings).expect("valid");

    assert!(!sandbox.revoke_for_conversation(&ConversationKey::root("telegram", "b"), &outside));
    assert!(clone.revoke_for_conversation(&key, &outside));
    sandbox.readable(&file, &of("a")).expect_err("revoked");
    sandbox
        .grant_for_conversation(&key, &outside)
        .expect("again");
    sandbox.forget_conversation(&key);
    assert!(sandbox.conversation_grants(&key).is_empty());
    for unsafe_root in [test.home.clone(), test.home.join(".ssh"), "/".into()] {
        sandbox
            .grant_for_conversation(&key, &unsafe_root)
            .expect_err("never granted");
    }
}

#[test]
fn a_grant_for_one_conversation_does_not_open_startup_files() {
    let test = TestHome::new(SandboxMode::Open);
    let autostart = test.home.join(".config/autostart");
    fs::create_dir_all(&autostart).expect("created");
    let sandbox = test.sandbox();
    let key = ConversationKey::root("telegram", "a");
    sandbox
        .grant_for_conversation(&key, &autostart)
        .expect("granted");
    let file = autostart.join("x.desktop").display().to_string();
    sandbox.writable(&file, &of("a")).expect_err("guarded");
}

#[test]
fn a_read_root_is_read_and_not_written() {
    let mut test = TestHome::new(SandboxMode::Strict);
    let outside = test.outside();
    test.settings.read_roots = vec![outside.clone()];
    let sandbox = test.sandbox();
    let file = outside.join("file").display().to_string();
    let scope = Scope::default();
    sandbox.readable(&file, &scope).expect("readable");
    let denied = sandbox.writable(&file, &scope).expect_err("not writable");
    assert!(
        denied.to_string().contains("open for reading only"),
        "{denied}"
    );
    let jail = sandbox.jail(&scope);
    assert!(jail.readable.contains(&outside) && !jail.writable.contains(&outside));

    // A grant for reading takes nothing away from a wider one.
    let mut settings = sandbox.settings();
    settings.allowed_roots = vec![outside.clone()];
    sandbox.reconfigure(settings).expect("valid");
    sandbox.writable(&file, &scope).expect("granted");
    let roots = sandbox.roots(&scope);
    let same: Vec<_> = roots.iter().filter(|root| root.path == outside).collect();
    assert_eq!(same.len(), 1);
    assert_eq!(same[0].access, RootAccess::ReadWrite);

    let mut settings = sandbox.settings();
    settings.allowed_roots = vec![outside.parent().expect("a parent").to_owned()];
    sandbox.reconfigure(settings).expect("valid");
    sandbox.writable(&file, &scope).expect("the outer root");
}

#[test]
fn looking_records_nothing() {
    let test = TestHome::new(SandboxMode::Strict);
    let sandbox = test.sandbox();
    let scope = Scope::default();
    let allowed = sandbox
        .would_allow("note.txt", Access::Write, &scope)
        .expect("in the workspace");
    assert_eq!(allowed.root.path, *test.workspace());
    sandbox
        .would_allow("~/.ssh/id", Access::Read, &scope)
        .expect_err("protected");
    assert!(test.trace.rows().is_empty());
}

#[test]
fn what_holds_everything_is_never_granted() {
    let test = TestHome::new(SandboxMode::Strict);
    let sandbox = test.sandbox();
    for path in ["/", "/home", "/var", "/tmp", "/proc", "/dev"] {
        if std::path::Path::new(path).is_dir() {
            assert_eq!(
                sandbox.grantable_root(path.as_ref()),
                Err(UnsafeRoot::System),
                "{path}"
            );
        }
    }
}
