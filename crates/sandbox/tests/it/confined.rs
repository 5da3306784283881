//! Confinement from outside: what is reported, what fails closed, what is left behind.

use std::fs;
use std::time::Duration;

use fermix_sandbox::{
    CommandSpec, ConfineMode, Confinement, Jail, RunError, Scope, SshAccess, Step, Surroundings,
};
use fermix_types::SandboxMode;
use tokio_util::sync::CancellationToken;

use crate::support::{TestHome, gone, is_confined, marked, said, shell, spec, unique};

fn home() -> TestHome {
    TestHome::new(SandboxMode::Standard).at_home()
}

#[tokio::test]
async fn every_step_that_fails_keeps_the_command_from_running() {
    if !is_confined(&home().sandbox(), "full") {
        return;
    }
    for step in Step::ALL {
        let test = home().launched_by(&format!("fail-late-at-{step}"));
        let sandbox = test.sandbox();
        assert_eq!(sandbox.confinement().confined, "full", "{step}");
        let result = sandbox
            .runner()
            .run(
                shell(&sandbox, "echo ran > ran").await,
                &CancellationToken::new(),
            )
            .await;
        match result {
            Err(RunError::NotConfined { step: failed, .. }) => assert_eq!(failed, *step),
            other => panic!("{step}: {other:?}"),
        }
        assert!(!test.workspace().join("ran").exists(), "{step}");
    }
    let leftovers: Vec<_> = fs::read_dir("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("fermix-"))
        .collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

#[tokio::test]
async fn a_missing_layer_is_reported_and_refuses_only_where_all_are_required() {
    for (step, layers, missing) in [
        (Step::View, "landlock+seccomp", "namespaces"),
        (Step::Landlock, "namespaces+seccomp", "landlock"),
        (Step::Seccomp, "namespaces+landlock", "seccomp"),
    ] {
        let test = home().launched_by(&format!("fail-at-{step}"));
        let sandbox = test.sandbox();
        if !is_confined(&sandbox, layers) {
            continue;
        }
        let report = sandbox.confinement();
        assert!(!report.refuses_commands);
        assert_eq!(report.missing.len(), 1);
        assert_eq!(report.missing[0].layer, missing);
        assert!(
            report.missing[0].reason.starts_with(step.as_str()),
            "{report:?}"
        );
        let outcome = sandbox
            .runner()
            .run(shell(&sandbox, "exit 0").await, &CancellationToken::new())
            .await
            .expect("ran");
        assert_eq!(outcome.confined.as_str(), layers);

        let mut settings = sandbox.settings();
        settings.confine.mode = ConfineMode::Require;
        sandbox.reconfigure(settings).expect("valid");
        assert!(sandbox.confinement().refuses_commands);
        let refused = sandbox
            .runner()
            .run(shell(&sandbox, "exit 0").await, &CancellationToken::new())
            .await;
        let Err(error @ RunError::Unconfined { .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(error.to_string().contains(missing), "{error}");
        // What Fermix runs for itself is not the model's.
        let own = CommandSpec {
            jail: Jail::open(),
            ..shell(&sandbox, "exit 0").await
        };
        let outcome = sandbox.runner().run(own, &CancellationToken::new()).await;
        assert_eq!(outcome.expect("ran").confined, Confinement::NONE);
    }
    // Without a launcher there is nothing to confine with.
    let mut direct = home();
    direct.surroundings = Surroundings {
        launcher: None,
        ..direct.surroundings
    };
    assert_eq!(direct.sandbox().confinement().confined, "none");
    direct.settings.confine.mode = ConfineMode::Require;
    let sandbox = direct.sandbox();
    let refused = sandbox
        .runner()
        .run(shell(&sandbox, "exit 0").await, &CancellationToken::new())
        .await;
    assert!(
        matches!(refused, Err(RunError::Unconfined { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_command_nobody_gave_a_view_sees_the_system_alone() {
    let test = home();
    let sandbox = test.sandbox();
    if !is_confined(&sandbox, "full") {
        return;
    }
    let closed = CommandSpec {
        jail: Jail::closed(),
        ..shell(
            &sandbox,
            "pwd; cat note.txt ~/project/a.txt; ls /usr >/dev/null && echo usr",
        )
        .await
    };
    let outcome = sandbox
        .runner()
        .run(closed, &CancellationToken::new())
        .await
        .expect("ran");
    let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
    assert!(text.starts_with("/\n") && text.ends_with("usr\n"), "{text}");
    assert!(
        !text.contains("hello") && !text.contains("\nproject"),
        "{text}"
    );
    // The program itself starts all the same, wherever its file lies.
    let own = CommandSpec {
        program: test.surroundings.launcher.clone().expect("there is one"),
        jail: Jail::closed(),
        args: Vec::new(),
        ..shell(&sandbox, "").await
    };
    let outcome = sandbox.runner().run(own, &CancellationToken::new()).await;
    assert_eq!(
        outcome.expect("ran").exit,
        2,
        "it says that it was not asked"
    );
}

#[tokio::test]
async fn temporary_files_are_private_and_do_not_stay() {
    for launcher in ["launcher", "fail-at-namespaces"] {
        let test = home().launched_by(launcher);
        let sandbox = test.sandbox();
        let mark = unique();
        let script =
            format!("echo {mark} > $TMPDIR/{mark}; echo $TMPDIR; ls $TMPDIR; stat -c %a $TMPDIR");
        let (text, _) = said(&sandbox, &script).await;
        let folder = text.lines().next().expect("printed");
        assert!(text.contains(&mark), "{text}");
        assert!(
            !std::path::Path::new(folder).join(&mark).exists(),
            "{launcher}"
        );
        let (text, _) = said(&sandbox, "ls $TMPDIR").await;
        assert!(!text.contains(&mark), "{launcher}: {text}");
    }
}

#[tokio::test]
async fn the_agent_of_ssh_is_opened_without_the_keys() {
    let mut test = home();
    let socket = test.home.join("run/agent.sock");
    fs::create_dir_all(test.home.join("run")).expect("made");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    fs::write(test.home.join(".ssh/known_hosts"), "known").expect("written");
    let environment = &mut test.surroundings.environment;
    environment.insert("SSH_AUTH_SOCK".into(), socket.into_os_string());
    let script = "cat ~/.ssh/known_hosts; cat ~/.ssh/id; python3 -c \"import os,socket; s=socket.socket(socket.AF_UNIX); s.connect(os.environ['SSH_AUTH_SOCK']); print('connected')\"";
    if !is_confined(&test.sandbox(), "full") {
        return;
    }
    let (text, _) = said(&test.sandbox(), script).await;
    assert!(
        !text.contains("known\n") && !text.contains("connected"),
        "{text}"
    );
    test.settings.confine.ssh = SshAccess::Agent;
    let (text, _) = said(&test.sandbox(), script).await;
    assert!(
        text.starts_with("known") && text.contains("connected"),
        "{text}"
    );
    assert!(!text.contains("SECRET"), "{text}");
}

#[tokio::test]
async fn skills_are_changed_only_while_the_owner_is_there() {
    let test = home();
    let sandbox = test.sandbox();
    if !is_confined(&sandbox, "full") {
        return;
    }
    for attended in [false, true] {
        let scope = Scope {
            attended,
            ..Scope::default()
        };
        let run = CommandSpec {
            jail: sandbox.jail(&scope),
            ..shell(&sandbox, "echo x > ../skills/new").await
        };
        let outcome = sandbox.runner().run(run, &scope.cancel).await.expect("ran");
        assert_eq!(outcome.exit == 0, attended);
        assert_eq!(test.home.join(".fermix/skills/new").exists(), attended);
    }
    let summary = sandbox.explain_view(&Scope::default());
    assert!(
        summary.writable.contains(&test.workspace().to_owned()),
        "{summary:?}"
    );
    assert!(
        summary
            .read_only
            .contains(&test.home.join(".fermix/skills")),
        "{summary:?}"
    );
}

#[tokio::test]
async fn nothing_outlives_a_confined_run() {
    for launcher in ["launcher", "fail-at-namespaces"] {
        let test = home().launched_by(launcher);
        let sandbox = test.sandbox();
        let mark = unique();
        let cancel = CancellationToken::new();
        // It cannot reach its launcher, and what it hides is found.
        let script = "kill -9 $PPID; env -i MARK=$MARK setsid sh -c 'sleep 300 & sleep 300' & trap '' TERM; sleep 300";
        let run = sandbox
            .runner()
            .run(spec(&sandbox, &mark, script).await, &cancel);
        let stop = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(run, stop);
        println!("{launcher}: {outcome:?}");
        gone(&mark, Duration::from_secs(2)).await;
        assert_eq!(marked(&mark), Vec::<String>::new(), "{launcher}");
    }
}

/// How much longer a confined command takes. Nothing is asserted of the times: other work on the
/// machine would decide it.
#[tokio::test]
async fn the_cost_of_confinement_is_printed() {
    let test = home();
    let sandbox = test.sandbox();
    let expected = sandbox.confinement().confined;
    let mut fastest = Vec::new();
    for (mode, confined) in [(ConfineMode::Auto, expected), (ConfineMode::Off, "none")] {
        let mut settings = sandbox.settings();
        settings.confine.mode = mode;
        sandbox.reconfigure(settings).expect("valid");
        let spec = shell(&sandbox, "exit 0").await;
        let mut best = Duration::MAX;
        for _ in 0..100 {
            let started = std::time::Instant::now();
            let outcome = sandbox
                .runner()
                .run(spec.clone(), &CancellationToken::new())
                .await
                .expect("ran");
            best = best.min(started.elapsed());
            assert_eq!((outcome.exit, outcome.confined.as_str()), (0, confined));
        }
        fastest.push(best);
    }
    println!("confined {:?}, unconfined {:?}", fastest[0], fastest[1]);
}
