//! A writer that is killed at any moment leaves the old file or the new one.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fermix_config::{ConfigFile, Environment, Home};

use crate::support::TestHome;

/// How many writers are killed.
const ROUNDS: u64 = 25;

/// Tells a process of this executable that it is the one to be killed, and whose home it writes to.
const OS_HOME: &str = "FERMIX_CONFIG_TEST_HOME";

/// Saves two texts in turn. By itself a check that each is there once it is saved; in the process
/// that the next test starts it goes on and on, and is killed.
#[test]
fn two_texts_are_saved_in_turn() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test that starts this process tells it so by its environment"
    )]
    let told = std::env::var_os(OS_HOME);
    let rounds: u64 = if told.is_some() { u64::MAX } else { 4 };
    // Whoever is killed leaves no home of its own behind.
    let own = told.is_none().then(|| TestHome::with_file("# kept\n"));
    let home = match (&own, told) {
        (Some(test), _) => test.home.clone(),
        (None, os_home) => {
            let os_home = os_home.unwrap_or_default();
            Home::resolve(None, &Environment::from_pairs([("HOME", os_home)])).unwrap()
        }
    };
    for round in 0..rounds {
        let mut file = ConfigFile::open(&home).unwrap();
        file.set(
            "fermix_core.personalization.communication_style",
            &style(round % 2 == 0),
        )
        .unwrap();
        file.set(
            "fermix_core.agent.name",
            if round % 2 == 0 { "even" } else { "odd" },
        )
        .unwrap();
        file.save().unwrap();
        if let Some(test) = &own {
            let config = test.load().unwrap();
            let name = if round % 2 == 0 { "even" } else { "odd" };
            assert_eq!(config.agent.name, name);
            assert_eq!(
                config.personalization.communication_style,
                Some(style(round % 2 == 0))
            );
        } else if round == 0 {
            println!("writing");
        }
    }
}

fn style(even: bool) -> String {
    if even { "e" } else { "odd-" }.repeat(400)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test kills a process, so it must start one"
)]
fn start(os_home: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "crash::two_texts_are_saved_in_turn",
            "--nocapture",
        ])
        .env(OS_HOME, os_home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_writer_leaves_a_whole_file() {
    let test = TestHome::with_file("# kept\n");
    let mut outcomes = [false, false];
    for round in 0..ROUNDS {
        let mut child = start(test.os_home());
        let output = BufReader::new(child.stdout.take().unwrap());
        let is_writing = output
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains("writing"));
        assert!(is_writing, "the writer never saved");
        // A different moment of the cycle of saves each time.
        std::thread::sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();

        let text = test.read();
        assert!(text.starts_with("# kept\n"), "{text:?}");
        let config = test.load().expect("a whole file");
        let is_even = config.agent.name == "even";
        assert_eq!(
            config.personalization.communication_style,
            Some(style(is_even))
        );
        outcomes[usize::from(is_even)] = true;
    }
    assert!(outcomes.contains(&true));
    // The lock of a dead process is gone, and its leftovers do not stop the next save.
    test.set("fermix_core.agent.name", "alive").unwrap();
    let mut names: Vec<String> = std::fs::read_dir(test.home.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["config.toml", "config.toml.bak", "config.toml.lock"]
    );
}
