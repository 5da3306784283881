//! What changes, what has to be confirmed, what is written (spec/02 §2.10).

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use fermix_approvals::policy::{By, GrantScope, Operation, State};
use fermix_approvals::{Outcome, PolicyError};
use fermix_config::{Config, Environment, Overrides};
use fermix_sandbox::UnsafeRoot;
use fermix_types::{SandboxMode, TraceKind};

use crate::support::World;

fn grant(path: impl Into<std::path::PathBuf>) -> Operation {
    Operation::Grant {
        path: path.into(),
        scope: GrantScope::Always,
    }
}

fn set_mode(mode: SandboxMode) -> Operation {
    Operation::SetMode { mode }
}

#[track_caller]
fn state(outcome: Result<Outcome, PolicyError>) -> (State, Vec<String>) {
    let outcome = outcome.unwrap();
    (outcome.state, outcome.diff)
}

#[test]
fn a_grant_is_shown_confirmed_saved_and_in_force() {
    let world = World::new("# mine\n[sandbox]\nmode = \"strict\" # tight\n");
    let folder = world.folder("project");
    let path = folder.display().to_string();
    let diff = vec![
        format!("effective_roots + {path}"),
        format!("allowed_roots + {path}"),
    ];
    assert_eq!(
        state(world.run(&grant("~/project/"), false)),
        (State::NeedsConfirmation, diff.clone())
    );
    assert!(!world.may_read(&folder) && world.records().is_empty());
    assert_eq!(
        state(world.run(&grant("~/project/"), true)),
        (State::Applied, diff)
    );
    assert!(world.may_read(&folder));
    assert_eq!(
        world.config(),
        format!("# mine\n[sandbox]\nmode = \"strict\" # tight\nallowed_roots = [\"{path}\"]\n")
    );
    let records = world.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["path"], path);
    assert_eq!(records[0]["scope"], "always");
    assert_eq!(records[0]["channel"], "cli");
    assert_eq!(records[0]["confirmed_by"], "owner");
    assert_eq!(records[0]["ts"], 1_700_000_000_000_i64);
    let file = world
        .test
        .fermix_home()
        .join("grants/grant-1700000000000-0.json");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(file.clone()), 0o600);
    assert_eq!(mode(file.parent().unwrap().to_owned()), 0o700);
    let rows = world.trace.rows();
    assert!(rows.iter().any(|row| row.kind == TraceKind::AgentEvent
        && row.fields["event"] == "policy_change"
        && row.fields["operation"] == "grant"));
    // Once more changes nothing.
    assert_eq!(
        state(world.run(&grant(&folder), true)),
        (State::Unchanged, vec![])
    );
    // Taking it away asks nobody.
    assert_eq!(
        state(world.run(
            &Operation::Revoke {
                path: folder.clone()
            },
            false
        )),
        (
            State::Applied,
            vec![
                format!("effective_roots - {path}"),
                format!("allowed_roots - {path}"),
            ]
        )
    );
    assert!(!world.may_read(&folder));
    assert_eq!(
        world.config(),
        "# mine\n[sandbox]\nmode = \"strict\" # tight\n"
    );
}

#[test]
fn what_the_owner_wrote_with_a_tilde_stays_so() {
    let world = World::new("[sandbox]\nallowed_roots = [\"~/one\", \"~/gone\"]\n");
    let one = world.folder("one");
    let two = world.folder("two");
    world.run(&grant(&two), true).unwrap();
    assert_eq!(
        world.config(),
        format!(
            "[sandbox]\nallowed_roots = [\"~/one\", \"~/gone\", \"{}\"]\n",
            two.display()
        )
    );
    // A folder that is gone is revoked by its name.
    for path in ["~/gone".into(), one] {
        let outcome = world.run(&Operation::Revoke { path }, false).unwrap();
        assert_eq!(outcome.state, State::Applied);
    }
    assert_eq!(
        world.config(),
        format!("[sandbox]\nallowed_roots = [\"{}\"]\n", two.display())
    );
}

#[test]
fn unsafe_roots_are_refused_before_anything_else() {
    let world = World::new("");
    let home = world.test.os_home().to_owned();
    world.folder(".ssh/inner");
    symlink(&home, world.folder("links").join("home")).unwrap();
    for (path, expected) in [
        ("/".into(), UnsafeRoot::System),
        ("/tmp".into(), UnsafeRoot::System),
        ("~".into(), UnsafeRoot::Home),
        (home.clone(), UnsafeRoot::Home),
        (home.join("links/home"), UnsafeRoot::Home),
        (home.parent().unwrap().to_owned(), UnsafeRoot::Home),
        (world.test.fermix_home(), UnsafeRoot::FermixHome),
        ("~/.ssh".into(), UnsafeRoot::Protected),
        ("~/.ssh/inner".into(), UnsafeRoot::Protected),
        ("/etc".into(), UnsafeRoot::Protected),
        ("~/absent".into(), UnsafeRoot::NotADirectory),
    ] {
        for confirmed in [false, true] {
            match world.run(&grant(&path), confirmed) {
                Err(PolicyError::UnsafeRoot { cause, .. }) => {
                    assert_eq!(cause, expected, "{}", path.display());
                }
                other => panic!("{}: {other:?}", path.display()),
            }
        }
    }
    let relative = world.run(&grant("project"), true);
    assert!(matches!(relative, Err(PolicyError::Relative(_))));
    assert_eq!(world.config(), "");
    assert!(world.records().is_empty());
}

#[test]
fn a_blocked_folder_is_not_granted() {
    let world = World::new("[sandbox]\nblocked_roots = [\"~/closed\"]\n");
    let inner = world.folder("closed/inner");
    let refused = world.run(&grant(inner), true).unwrap_err();
    assert!(matches!(refused, PolicyError::Blocked { .. }), "{refused}");
}

#[test]
fn narrowing_a_mode_asks_nobody_and_widening_it_does() {
    let world = World::new("");
    let (state_of, _) = state(world.run(&set_mode(SandboxMode::Strict), false));
    assert_eq!(state_of, State::Applied);
    let (state_of, diff) = state(world.run(&set_mode(SandboxMode::Open), false));
    assert_eq!(state_of, State::NeedsConfirmation);
    assert!(diff[0].starts_with("effective_roots + "), "{diff:?}");
    assert_eq!(world.sandbox.settings().mode, SandboxMode::Strict);
    world.run(&set_mode(SandboxMode::Open), true).unwrap();
    assert_eq!(world.sandbox.settings().mode, SandboxMode::Open);
    // Its one root has another name, so leaving it asks too.
    let (state_of, _) = state(world.run(&set_mode(SandboxMode::Standard), false));
    assert_eq!(state_of, State::NeedsConfirmation);
}

fn env_set(command: &str) -> Operation {
    Operation::EnvSet {
        name: "TOKEN".into(),
        command: command.into(),
        args: vec!["show".into(), "--plain".into()],
    }
}

#[test]
fn binding_a_known_name_to_another_program_is_a_gain() {
    let world = World::new("");
    let allow = Operation::EnvAllow {
        name: "TOKEN".into(),
    };
    assert_eq!(
        state(world.run(&allow, false)),
        (State::NeedsConfirmation, vec!["env + TOKEN".into()])
    );
    world.run(&allow, true).unwrap();
    let (state_of, diff) = state(world.run(&env_set("pass"), false));
    assert_eq!(state_of, State::NeedsConfirmation);
    assert_eq!(
        diff,
        ["env + TOKEN (from `pass show --plain`)", "env - TOKEN"]
    );
    world.run(&env_set("pass"), true).unwrap();
    let (state_of, diff) = state(world.run(&env_set("/srv/evil"), false));
    assert_eq!(state_of, State::NeedsConfirmation, "{diff:?}");
    world.run(&env_set("/srv/evil"), true).unwrap();
    let unset = Operation::EnvUnset {
        name: "TOKEN".into(),
    };
    assert_eq!(state(world.run(&unset, false)).0, State::Applied);
    assert_eq!(world.config(), "");

    let bind = |command: &str| Operation::BindCommand {
        name: "deploy".into(),
        command: command.into(),
        args: vec![],
    };
    assert_eq!(
        state(world.run(&bind("/srv/deploy"), false)),
        (
            State::NeedsConfirmation,
            vec!["commands + deploy = `/srv/deploy`".into()]
        )
    );
    world.run(&bind("/srv/deploy"), true).unwrap();
    let (state_of, _) = state(world.run(&bind("/srv/other"), false));
    assert_eq!(state_of, State::NeedsConfirmation);
    let disable = Operation::disable("deploy");
    assert_eq!(state(world.run(&disable, false)).0, State::Applied);
    let enable = Operation::enable("deploy");
    assert_eq!(state(world.run(&enable, false)).0, State::NeedsConfirmation);
    let expected = [vec!["deploy".to_owned()], vec![]];
    let registered = world.registered.lock().unwrap();
    assert_eq!(registered[registered.len() - 2..], expected);
}

#[test]
fn a_profile_asks_when_it_makes_tools_appear() {
    let world = World::new("");
    let profile = |name: &str| Operation::CommandProfile {
        profile: name.into(),
    };
    // With nothing listed, no tool appears.
    assert_eq!(
        state(world.run(&profile("assistant"), false)).0,
        State::Applied
    );
    assert_eq!(state(world.run(&profile("bare"), false)).0, State::Applied);
    let enable = Operation::enable("dev_tools");
    assert_eq!(
        state(world.run(&enable, false)),
        (State::NeedsConfirmation, vec!["presets + dev_tools".into()])
    );
    world.run(&enable, true).unwrap();
    let (state_of, diff) = state(world.run(&profile("extended"), false));
    assert_eq!(state_of, State::NeedsConfirmation);
    assert_eq!(diff, ["commands + gh = `gh`, git = `git`, make = `make`"]);
    world.run(&profile("extended"), true).unwrap();
    let disable = Operation::disable("dev_tools");
    assert_eq!(state(world.run(&disable, false)).0, State::Applied);
    for nonsense in [
        profile("trusted"),
        Operation::enable("no_such"),
        Operation::BindCommand {
            name: "a.b".into(),
            command: "x".into(),
            args: vec![],
        },
        Operation::BindCommand {
            name: "x".into(),
            command: "./relative".into(),
            args: vec![],
        },
        Operation::EnvAllow {
            name: "TELEGRAM_BOT_TOKEN".into(),
        },
        Operation::EnvAllow {
            name: "A.command".into(),
        },
    ] {
        let before = world.config();
        world.run(&nonsense, true).unwrap_err();
        assert_eq!(world.config(), before);
    }
}

#[test]
fn denying_the_only_allowed_name_never_widens() {
    let world = World::new("[sandbox.env]\nmode = \"all\"\nallow = [\"ONE\"]\n");
    let deny = Operation::EnvDeny { name: "ONE".into() };
    assert_eq!(
        state(world.run(&deny, false)),
        (State::Applied, vec!["env - ONE".into()])
    );
    // Taking it off the list would pass everything on, so that asks.
    let unset = Operation::EnvUnset { name: "ONE".into() };
    let (state_of, diff) = state(world.run(&unset, false));
    assert_eq!(state_of, State::NeedsConfirmation);
    assert_eq!(diff, ["env + every variable"]);
}

#[test]
fn an_edit_from_outside_stops_changes_until_it_is_taken_over() {
    let world = World::new("[sandbox]\nmode = \"strict\"\n");
    let folder = world.folder("project");
    world.test.write_config("[sandbox]\nmode = \"standard\"\n");
    for operation in [grant(&folder), set_mode(SandboxMode::Strict)] {
        let refused = world.run(&operation, true).unwrap_err();
        assert!(matches!(refused, PolicyError::ConfigChanged), "{refused}");
    }
    assert_eq!(world.config(), "[sandbox]\nmode = \"standard\"\n");
    assert!(world.records().is_empty());
    let environment = Environment::from_pairs([("HOME", world.test.os_home())]);
    let config = Config::load(&world.home, &environment, &Overrides::default()).unwrap();
    world.desk.reload(config.sandbox).unwrap();
    assert_eq!(world.sandbox.settings().mode, SandboxMode::Standard);
    world.run(&grant(&folder), true).unwrap();
    assert!(world.config().contains("mode = \"standard\""));
}

#[test]
fn a_grant_that_cannot_be_recorded_is_not_given() {
    let world = World::new("");
    let folder = world.folder("project");
    fs::write(world.test.fermix_home().join("grants"), "in the way").unwrap();
    let refused = world.run(&grant(&folder), true).unwrap_err();
    assert!(matches!(refused, PolicyError::Record { .. }), "{refused}");
    assert!(!world.may_read(&folder));
    assert_eq!(world.config(), "");
}

#[test]
fn looking_shows_where_each_right_comes_from() {
    let world = World::new("");
    let project = world.folder("project");
    let notes = world.folder("notes");
    world.run(&grant(&project), true).unwrap();
    let read = Operation::Grant {
        path: notes.clone(),
        scope: GrantScope::Read,
    };
    assert_eq!(
        state(world.run(&read, true)).1,
        [
            format!("effective_roots + {} (read only)", notes.display()),
            format!("read_roots + {}", notes.display()),
        ]
    );
    let look = |operation: Operation| world.run(&operation, false).unwrap();
    let explain = look(Operation::Explain {}).message;
    for line in [
        format!("  {} (granted)", project.display()),
        format!("  {} (granted, read only)", notes.display()),
        format!("  {} (mode)", world.test.workspace().display()),
        format!("  {}", world.test.os_home().join(".ssh").display()),
    ] {
        assert!(
            explain.lines().any(|found| found == line),
            "{line}\n{explain}"
        );
    }
    let check = |path: &std::path::Path, write| {
        let path = path.to_owned();
        look(Operation::Check { path, write }).facts.unwrap()
    };
    assert_eq!(check(&project, true)["decision"], "allow");
    assert_eq!(check(&project, true)["root"]["from"], "granted");
    assert_eq!(check(&notes.join("x"), false)["decision"], "allow");
    assert_eq!(check(&notes.join("x"), true)["rule"], "outside_root");
    assert_eq!(check("~/.ssh/id".as_ref(), false)["rule"], "protected_path");
    let grants = look(Operation::Grants {}).facts.unwrap();
    assert_eq!(grants[0]["scope"], "always");
    assert_eq!(grants[1]["record"]["scope"], "read");
    let status = look(Operation::Status {}).facts.unwrap();
    assert_eq!(
        (&status["allowed_roots"], &status["read_roots"]),
        (&1.into(), &1.into())
    );
    // A grant for one conversation has no place on the command line.
    let once = Operation::Grant {
        path: project,
        scope: GrantScope::Once,
    };
    let refused = world
        .desk
        .run_blocking(&once, true, &By::command_line(None))
        .unwrap_err();
    assert!(matches!(refused, PolicyError::Invalid(_)));
}
