//! What holds for every vector of arguments.

use proptest::prelude::*;

use super::*;
use crate::git::{git_read, git_write};

fn grammars() -> impl Iterator<Item = &'static Grammar> {
    git_read::COMMANDS.iter().chain(git_write::COMMANDS)
}

fn parsed(command: &str, args: &[&str]) -> Arguments {
    let grammar = grammars()
        .find(|grammar| grammar.name == command)
        .expect("it is in a table");
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    parse(grammar, &args).expect("it is accepted")
}

#[test]
fn flags_are_written_anew_one_by_one() {
    for (command, args, expected) in [
        ("commit", &["-am", "x"][..], &["-a", "-mx"][..]),
        ("commit", &["-m", ""], &["-m", ""]),
        ("commit", &["-m", "-a"], &["-m-a"]),
        (
            "commit",
            &["--message", "--file=x"],
            &["--message=--file=x"],
        ),
        ("commit", &["-asmFixed"], &["-a", "-s", "-mFixed"]),
        ("log", &["-5"], &["-n5"]),
        ("log", &["-n", "5"], &["-n5"]),
        ("log", &["-pU3"], &["-p", "-U3"]),
        ("log", &["-M50%"], &["-M50%"]),
        ("diff", &["--stat=100", "--stat"], &["--stat=100", "--stat"]),
        ("branch", &["-avv"], &["-a", "-v", "-v"]),
        ("checkout", &["-t", "origin/x"], &["-t"]),
        ("checkout", &["-qbx"], &["-q", "-bx"]),
    ] {
        assert_eq!(parsed(command, args).flag_words(), expected, "{args:?}");
    }
    let arguments = parsed("checkout", &["-", "--", "-f", "--"]);
    assert_eq!(arguments.operands, ["-"]);
    assert_eq!(arguments.path_words(), ["--", "-f", "--"]);
}

/// No table lists what the specification names as dangerous, in any beginning that git would take.
#[test]
fn no_table_lists_what_escapes() {
    let dangerous = ESCAPES.iter().chain(FILE_READERS).chain(PROGRAMS);
    for grammar in grammars() {
        for flag in dangerous.clone() {
            assert_eq!(grammar.find(flag), None, "git {} {flag}", grammar.name);
        }
        for flag in grammar.spelled() {
            assert!(flag.starts_with('-'), "{flag}");
            assert!(!flag.contains("exec") && !flag.contains("config"), "{flag}");
        }
    }
}

#[test]
fn tables_name_each_flag_once() {
    for grammar in grammars() {
        let mut spelled = grammar.spelled();
        spelled.sort();
        let count = spelled.len();
        spelled.dedup();
        assert_eq!(spelled.len(), count, "git {}", grammar.name);
    }
}

#[test]
fn too_many_arguments_are_refused() {
    let log = grammars()
        .find(|grammar| grammar.name == "log")
        .expect("it is there");
    let many = vec!["a".to_owned(); MAX_ARGUMENTS + 1];
    assert_eq!(parse(log, &many).expect_err("too many").tag, "invalid_args");
    let long = vec!["a".repeat(MAX_BYTES)];
    assert_eq!(parse(log, &long).expect_err("too long").tag, "invalid_args");
}

fn word() -> impl Strategy<Value = String> {
    let listed: Vec<String> = grammars()
        .flat_map(Grammar::spelled)
        .map(|flag| flag.trim_end_matches(['=', '[', ']', ' ', '…']).to_owned())
        .collect();
    let beginnings = (prop::sample::select(listed.clone()), 1usize..20)
        .prop_map(|(flag, length)| flag.chars().take(length).collect());
    prop_oneof![
        prop::sample::select(listed),
        beginnings,
        prop::sample::select([ESCAPES, FILE_READERS, PROGRAMS, BRANCH_WRITERS].concat())
            .prop_map(str::to_owned),
        "-[a-zA-Z0-9]{1,5}",
        "--[a-z-]{0,12}(=[a-z/.]{0,6})?",
        "[a-zA-Z/.:^~@-]{0,8}",
        Just("--".to_owned()),
        Just("-".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Only listed flags come through, whatever they were hidden in; what Git is given is taken
    /// apart in the same way again; and nothing else looks like a flag.
    #[test]
    fn nothing_unlisted_comes_through(
        at in 0usize..9,
        args in prop::collection::vec(word(), 0..8),
    ) {
        let grammar = grammars().nth(at).expect("there are nine");
        let Ok(arguments) = parse(grammar, &args) else { return Ok(()) };
        for flag in &arguments.flags {
            let form = grammar.find(flag.name);
            match flag.value {
                None => prop_assert!(matches!(form, Some(Form::Switch | Form::Optional(_)))),
                Some(_) => prop_assert!(matches!(form, Some(Form::Required(_) | Form::Optional(_)))),
            }
        }
        for operand in &arguments.operands {
            prop_assert!(!operand.starts_with('-') || operand == "-" && grammar.takes_dash);
        }
        let mut words = arguments.flag_words();
        words.extend(arguments.operands.iter().cloned());
        words.extend(arguments.path_words());
        prop_assert_eq!(parse(grammar, &words).ok(), Some(arguments));
    }

    /// A word that starts with a dash is never an operand of a read.
    #[test]
    fn a_dash_is_a_flag_or_a_refusal(at in 0usize..5, word in "-[ -~]{0,12}") {
        let grammar = grammars().nth(at).expect("there are nine");
        if let Ok(arguments) = parse(grammar, &[word]) {
            prop_assert!(arguments.operands.is_empty());
        }
    }
}
