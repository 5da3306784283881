//! What commands find in their environment.

use std::collections::BTreeSet;
use std::time::Duration;

use fermix_sandbox::{EnvError, EnvMode, EnvPolicy, EnvSource, Scope};
use fermix_types::SandboxMode;

use crate::support::TestHome;

fn helper(script: &str) -> EnvSource {
    EnvSource::Command {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        timeout: Duration::from_millis(500),
    }
}

async fn names(policy: EnvPolicy) -> Vec<String> {
    let mut test = TestHome::new(SandboxMode::Standard);
    test.settings.env = policy;
    let env = test.sandbox().child_env(&Scope::default()).await;
    env.vars
        .iter()
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn modes_and_lists_narrow() {
    let policy = |mode, allow: &[&str], deny: &[&str]| EnvPolicy {
        mode,
        allow: set(allow),
        deny: set(deny),
        ..EnvPolicy::default()
    };
    for (policy, expected) in [
        (policy(EnvMode::Selected, &[], &[]), "HOME LC_ALL PATH TERM"),
        (
            policy(EnvMode::Selected, &["API_KEY"], &[]),
            "API_KEY HOME LC_ALL PATH TERM",
        ),
        (
            policy(EnvMode::Selected, &["API_KEY"], &["API_KEY"]),
            "HOME LC_ALL PATH TERM",
        ),
        (
            policy(EnvMode::All, &[], &[]),
            "API_KEY HOME LC_ALL OTHER PATH TERM",
        ),
        (
            policy(EnvMode::All, &[], &["API_KEY"]),
            "HOME LC_ALL OTHER PATH TERM",
        ),
        (
            policy(EnvMode::All, &["API_KEY"], &[]),
            "API_KEY HOME LC_ALL PATH TERM",
        ),
        (
            policy(EnvMode::All, &["API_KEY"], &["API_KEY"]),
            "HOME LC_ALL PATH TERM",
        ),
    ] {
        assert_eq!(
            names(policy.clone()).await.join(" "),
            expected,
            "{policy:?}"
        );
    }
}

#[tokio::test]
async fn a_missing_variable_is_a_note_and_a_required_one_an_error() {
    let mut test = TestHome::new(SandboxMode::Standard);
    let sources = [
        (
            "RENAMED",
            EnvSource::Env {
                name: "API_KEY".to_owned(),
            },
        ),
        ("GOOD", helper("echo from-helper; echo noise >&2")),
        ("FAILS", helper("echo hunter2; exit 3")),
        ("SLOW", helper("echo hunter2; sleep 30")),
        ("LINES", helper("echo hunter2; echo hunter2")),
        ("EMPTY", helper("echo")),
        ("LONG", helper("head -c 9000 /dev/zero | tr '\\0' 'h'")),
        (
            "NOWHERE",
            EnvSource::Command {
                command: "no-such-helper".to_owned(),
                args: Vec::new(),
                timeout: EnvSource::HELPER_TIMEOUT,
            },
        ),
    ];
    test.settings.env = EnvPolicy {
        allow: sources
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .chain(["ABSENT".to_owned()])
            .collect(),
        deny: set(&["DENIED"]),
        sources: sources
            .iter()
            .map(|(name, source)| ((*name).to_owned(), source.clone()))
            .collect(),
        ..EnvPolicy::default()
    };
    let sandbox = test.sandbox();
    let scope = Scope {
        session_env: vec![("PATH".to_owned(), "/session".to_owned())],
        ..Scope::default()
    };
    let env = sandbox.child_env(&scope).await;
    let value = |name: &str| {
        env.vars
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.to_string_lossy().into_owned())
    };
    assert_eq!(value("RENAMED").as_deref(), Some("key-value"));
    assert_eq!(value("GOOD").as_deref(), Some("from-helper"));
    assert_eq!(value("PATH").as_deref(), Some("/session"));
    assert_eq!(
        env.unresolved.iter().cloned().collect::<BTreeSet<_>>(),
        set(&[
            "ABSENT", "EMPTY", "FAILS", "LINES", "LONG", "NOWHERE", "SLOW"
        ])
    );
    for (note, name) in env.notes.iter().zip(&env.unresolved) {
        assert!(
            note.contains(name.as_str()) && note.contains("fermix sandbox env set "),
            "{note}"
        );
        assert!(!note.contains("hunter2"), "{note}");
    }
    for (name, tag) in [
        ("ABSENT", "missing_env"),
        ("FAILS", "env_command_failed"),
        ("SLOW", "env_command_timeout"),
        ("NOWHERE", "env_command_not_found"),
        ("LONG", "env_command_output"),
        ("DENIED", "env_denied"),
        ("OTHER", "env_not_allowed"),
    ] {
        assert_eq!(
            sandbox
                .require(&[name], &scope)
                .await
                .expect_err(name)
                .tag(),
            tag,
            "{name}"
        );
    }
    assert_eq!(
        sandbox
            .require(&["FAILS"], &scope)
            .await
            .expect_err("fails"),
        EnvError::HelperFailed {
            name: "FAILS".to_owned(),
            exit: 3
        }
    );
    assert!(sandbox.require(&["GOOD"], &scope).await.is_ok());
}
