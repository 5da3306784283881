//! Commands run to their end, and nothing of them stays.

use std::fs;
use std::time::{Duration, Instant};

use fermix_sandbox::{CommandSpec, Ending, MAX_RUNS, MAX_STDIN, RunError, Stderr, Surroundings};
use fermix_types::{ConversationKey, SandboxMode};
use tokio_util::sync::CancellationToken;

use crate::support::{TestHome, marked, shell, spec, unique};

/// Both ways of starting a command.
fn homes() -> [(&'static str, TestHome); 2] {
    let launched = TestHome::new(SandboxMode::Standard);
    let mut direct = TestHome::new(SandboxMode::Standard);
    direct.surroundings = Surroundings {
        launcher: None,
        ..direct.surroundings
    };
    [("launched", launched), ("direct", direct)]
}

#[tokio::test]
async fn a_command_gives_its_output_and_its_end() {
    for (way, test) in homes() {
        let sandbox = test.sandbox();
        let cancel = CancellationToken::new();
        for (script, expected, exit) in [
            ("echo out; echo err >&2; echo out", "out\nerr\nout\n", 0),
            ("pwd", &*format!("{}\n", test.workspace().display()), 0),
            ("echo partial; exit 7", "partial\n", 7),
            ("kill -9 $$", "", 137),
            ("cat; echo done", "done\n", 0),
            ("ls /proc/self/fd | wc -l", "4\n", 0),
            ("printf 'a\\377b'", "a\u{FFFD}b", 0),
        ] {
            let outcome = sandbox
                .runner()
                .run(shell(&sandbox, script).await, &cancel)
                .await
                .expect("ran");
            let text = String::from_utf8_lossy(&outcome.stdout);
            if way == "direct" && script.starts_with("ls /proc") {
                continue;
            }
            assert_eq!(
                (text.as_ref(), outcome.exit, outcome.ending),
                (expected, exit, Ending::Exited),
                "{way}: {script}"
            );
            assert!(outcome.is_clean && !outcome.truncated, "{way}: {script}");
        }
        let mut fed = CommandSpec {
            stdin: Some(vec![b'x'; MAX_STDIN]),
            ..shell(&sandbox, "wc -c").await
        };
        let outcome = sandbox
            .runner()
            .run(fed.clone(), &cancel)
            .await
            .expect("ran");
        assert_eq!(
            String::from_utf8_lossy(&outcome.stdout).trim(),
            "20971520",
            "{way}"
        );
        fed.stdin = Some(vec![b'x'; MAX_STDIN + 1]);
        assert!(
            matches!(
                sandbox.runner().run(fed, &cancel).await,
                Err(RunError::Invalid(_))
            ),
            "{way}"
        );

        let apart = CommandSpec {
            stderr: Stderr::Separate,
            ..shell(&sandbox, "echo out; echo err >&2").await
        };
        let outcome = sandbox.runner().run(apart, &cancel).await.expect("ran");
        assert_eq!(
            (outcome.stdout.as_slice(), outcome.stderr.as_slice()),
            (&b"out\n"[..], &b"err\n"[..]),
            "{way}"
        );

        let missing = CommandSpec {
            program: "/no/such/program".into(),
            ..shell(&sandbox, "true").await
        };
        assert!(
            matches!(
                sandbox.runner().run(missing, &cancel).await,
                Err(RunError::ExecutableNotFound(_))
            ),
            "{way}"
        );
        let relative = CommandSpec {
            program: "sh".into(),
            ..shell(&sandbox, "true").await
        };
        assert!(
            matches!(
                sandbox.runner().run(relative, &cancel).await,
                Err(RunError::Invalid(_))
            ),
            "{way}"
        );
        let script = test.workspace().join("not-executable");
        fs::write(&script, "#!/bin/sh\n").expect("written");
        let refused = CommandSpec {
            program: script,
            ..shell(&sandbox, "true").await
        };
        assert!(
            matches!(
                sandbox.runner().run(refused, &cancel).await,
                Err(RunError::NotStarted { .. })
            ),
            "{way}"
        );
    }
}

#[tokio::test]
async fn the_environment_is_the_given_one() {
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    let private = CommandSpec {
        private_files: true,
        ..shell(
            &sandbox,
            "env | sort; umask; id -u >/dev/null; ps -o sid= -p $$ 2>/dev/null | tr -d ' ' >sid",
        )
        .await
    };
    let outcome = sandbox
        .runner()
        .run(private, &CancellationToken::new())
        .await
        .expect("ran");
    let text = String::from_utf8(outcome.stdout).expect("text");
    let names: Vec<&str> = text
        .lines()
        .map(|line| line.split('=').next().unwrap_or(line))
        .collect();
    assert_eq!(
        names,
        [
            "FERMIX_RUN",
            "HOME",
            "LC_ALL",
            "PATH",
            "PWD",
            "TERM",
            "TMPDIR",
            "0077"
        ]
    );
}

#[tokio::test]
async fn a_timeout_keeps_the_output_and_ends_the_whole_tree() {
    for (way, test) in homes() {
        let sandbox = test.sandbox();
        let mark = unique();
        let script = "echo before; sleep 300 & setsid sleep 300 & (setsid sh -c 'sleep 300 & sleep 300' &) ; sleep 300; echo after";
        let timed = CommandSpec {
            timeout: Duration::from_millis(500),
            ..spec(&sandbox, &mark, script).await
        };
        let started = Instant::now();
        let outcome = sandbox
            .runner()
            .run(timed, &CancellationToken::new())
            .await
            .expect("ran");
        assert!(
            started.elapsed() < Duration::from_millis(1500),
            "{way}: {:?}",
            started.elapsed()
        );
        assert_eq!(
            (outcome.ending, outcome.stdout.as_slice()),
            (Ending::TimedOut, &b"before\n"[..]),
            "{way}"
        );
        assert!(outcome.is_clean, "{way}");
        assert_eq!(marked(&mark), Vec::<String>::new(), "{way}");
    }
}

#[tokio::test]
async fn what_is_left_behind_and_what_resists_is_gone() {
    for (way, test) in homes() {
        let sandbox = test.sandbox();
        for (script, stops) in [
            ("nohup sleep 300 >/dev/null 2>&1 & exit 0", false),
            ("setsid nohup sleep 300 >/dev/null 2>&1 & exit 0", false),
            (
                "trap '' TERM HUP INT; exec >&- 2>&-; while :; do sleep 1; done",
                true,
            ),
            (
                "sh -c 'trap \"\" TERM; setsid sh -c \"trap : TERM; sleep 300; sleep 300\"; sleep 300' & kill -STOP $$",
                true,
            ),
        ] {
            let mark = unique();
            let cancel = CancellationToken::new();
            let run = sandbox
                .runner()
                .run(spec(&sandbox, &mark, script).await, &cancel);
            if stops {
                let stop = async {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    cancel.cancel();
                    Instant::now()
                };
                let (outcome, cancelled) = tokio::join!(run, stop);
                assert_eq!(
                    outcome.expect("ran").ending,
                    Ending::Cancelled,
                    "{way}: {script}"
                );
                assert!(
                    cancelled.elapsed() < Duration::from_millis(700),
                    "{way}: {script}: {:?}",
                    cancelled.elapsed()
                );
            } else {
                let outcome = run.await.expect("ran");
                assert_eq!(
                    (outcome.ending, outcome.exit),
                    (Ending::Exited, 0),
                    "{way}: {script}"
                );
            }
            assert_eq!(marked(&mark), Vec::<String>::new(), "{way}: {script}");
        }
    }
}

#[tokio::test]
async fn five_hundred_sessions_are_gone_after_a_cancel() {
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    let mark = unique();
    let cancel = CancellationToken::new();
    // An environment without the run's marker hides nobody.
    let script = "i=0; while [ $i -lt 500 ]; do env -i MARK=$MARK setsid sleep 300 & i=$((i+1)); done; echo ready; wait";
    let run = sandbox
        .runner()
        .run(spec(&sandbox, &mark, script).await, &cancel);
    let stop = async {
        let started = Instant::now();
        while marked(&mark).len() < 500 {
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "only {} started",
                marked(&mark).len()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        cancel.cancel();
        Instant::now()
    };
    let (outcome, cancelled) = tokio::join!(run, stop);
    let took = cancelled.elapsed();
    let outcome = outcome.expect("ran");
    assert_eq!(
        (outcome.ending, outcome.is_clean),
        (Ending::Cancelled, true)
    );
    assert_eq!(marked(&mark), Vec::<String>::new());
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test]
async fn endless_output_is_bounded() {
    if crate::alone::was_run_elsewhere("runs::endless_output_is_bounded") {
        return;
    }
    for (way, test) in homes() {
        let sandbox = test.sandbox();
        let before = resident();
        let endless = CommandSpec {
            timeout: Duration::from_secs(20),
            ..shell(&sandbox, "yes | head -c 10737418240").await
        };
        let outcome = sandbox
            .runner()
            .run(endless, &CancellationToken::new())
            .await
            .expect("ran");
        assert_eq!(outcome.ending, Ending::OutputLimit, "{way}");
        assert!(
            outcome.truncated && outcome.stdout.len() < 1100 * 1024,
            "{way}"
        );
        let grown = resident().saturating_sub(before);
        assert!(grown < 8 * 1024 * 1024, "{way}: grew by {grown} bytes");

        let long = shell(&sandbox, "seq 1 400000; echo last").await;
        let outcome = sandbox
            .runner()
            .run(long, &CancellationToken::new())
            .await
            .expect("ran");
        let text = String::from_utf8(outcome.stdout).expect("text");
        assert!(
            text.starts_with("1\n2\n3\n") && text.ends_with("\n400000\nlast\n"),
            "{way}"
        );
        assert!(
            text.contains(&format!("[… {} bytes omitted …]", outcome.omitted_bytes)),
            "{way}"
        );
        assert_eq!(
            (outcome.exit, outcome.ending),
            (0, Ending::Exited),
            "{way}: a long success is a success"
        );
    }
}

fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/statm").expect("mounted");
    status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok())
        .expect("a number")
        * 4096
}

#[tokio::test]
async fn a_thousand_runs_leak_nothing() {
    if crate::alone::was_run_elsewhere("runs::a_thousand_runs_leak_nothing") {
        return;
    }
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    let cancel = CancellationToken::new();
    let spec = shell(&sandbox, "exit 0").await;
    sandbox
        .runner()
        .run(spec.clone(), &cancel)
        .await
        .expect("ran");
    let descriptors = || fs::read_dir("/proc/self/fd").expect("mounted").count();
    let before = descriptors();
    let mut fastest = Duration::MAX;
    for _ in 0..1000 {
        let started = Instant::now();
        assert_eq!(
            sandbox
                .runner()
                .run(spec.clone(), &cancel)
                .await
                .expect("ran")
                .exit,
            0
        );
        fastest = fastest.min(started.elapsed());
    }
    assert!(sandbox.runner().shutdown(Duration::from_secs(5)).await);
    assert!(
        descriptors() <= before,
        "{} descriptors became {}",
        before,
        descriptors()
    );
    assert_eq!(children(), Vec::<String>::new());
    println!("fastest run: {fastest:?}");
    assert!(
        matches!(
            sandbox.runner().run(spec, &cancel).await,
            Err(RunError::Cancelled)
        ),
        "nothing starts after a shutdown"
    );
}

fn children() -> Vec<String> {
    let me = std::process::id().to_string();
    let is_mine = |stat: &str| {
        stat.rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').nth(1))
            == Some(&me)
    };
    fs::read_dir("/proc")
        .expect("mounted")
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter(|stat| is_mine(stat))
        .collect()
}

#[tokio::test]
async fn limits_make_others_wait_and_then_say_busy() {
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    let cancel = CancellationToken::new();
    let chat = Some(ConversationKey::root("cli", "1"));
    let held: Vec<_> = {
        let mut held = Vec::new();
        for _ in 0..8 {
            let spec = CommandSpec {
                conversation: chat.clone(),
                ..shell(&sandbox, "sleep 300").await
            };
            let (runner, cancel) = (sandbox.runner().clone(), cancel.clone());
            held.push(tokio::spawn(async move { runner.run(spec, &cancel).await }));
        }
        held
    };
    let started = Instant::now();
    while sandbox.runner().live() < 8 {
        assert!(started.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let waiting = CommandSpec {
        conversation: chat,
        timeout: Duration::from_millis(100),
        ..shell(&sandbox, "true").await
    };
    assert!(matches!(
        sandbox.runner().run(waiting.clone(), &cancel).await,
        Err(RunError::Busy(_))
    ));
    let other = CommandSpec {
        conversation: Some(ConversationKey::root("cli", "2")),
        ..waiting
    };
    assert_eq!(
        sandbox
            .runner()
            .run(other, &CancellationToken::new())
            .await
            .expect("another conversation runs")
            .exit,
        0
    );
    cancel.cancel();
    for run in held {
        assert_eq!(
            run.await.expect("no panic").expect("ran").ending,
            Ending::Cancelled
        );
    }
    assert!(MAX_RUNS > 8 && sandbox.runner().live() <= 8);
}
