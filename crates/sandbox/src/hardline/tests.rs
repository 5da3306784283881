//! The corpus: every line of `corpus.txt` is classified exactly.

use std::path::{Path, PathBuf};

use super::check;

#[test]
fn the_corpus_is_classified_exactly() {
    let home = Path::new("/home/owner");
    let roots = [
        PathBuf::from("/home/owner/work"),
        PathBuf::from("/srv/data"),
    ];
    let corpus = include_str!("corpus.txt");
    let (mut bad, mut benign) = (0, 0);
    let mut wrong = Vec::new();
    for line in corpus
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("##"))
    {
        let (kind, command) = line.split_once('\t').expect("a kind, a tab and a command");
        // A table of lines cannot hold a line break as itself.
        let command = command.replace("⏎", "\n");
        let found = check(&command, &roots, home, Some(Path::new("/home/owner/work")));
        match kind {
            "bad" => bad += 1,
            "ok" => benign += 1,
            other => panic!("unknown kind {other}"),
        }
        if (kind == "bad") != found.is_some() {
            wrong.push(format!("{kind}: {command} gave {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(bad >= 200 && benign >= 200, "{bad} bad and {benign} benign");
}

#[test]
fn nothing_makes_it_panic() {
    use proptest::prelude::*;
    let pieces = prop::sample::select(vec![
        "rm ",
        "-rf ",
        "/",
        "$(",
        ")",
        "`",
        "'",
        "\"",
        "\\",
        "${",
        "}",
        "<<",
        "<(",
        "\n",
        "EOF",
        "|",
        "&",
        ";",
        "~",
        "*",
        "$HOME",
        "find ",
        "-exec ",
        "é",
        "(",
        "{",
        "sh -c ",
        "xargs ",
        "#",
        ">",
        "2>",
        "$((",
        "=",
        "{",
        ",",
        "x=",
        "$x",
        "for x in ",
        "printf %s ",
        "<(echo ",
        "read ",
        "[",
        "]",
        "chmod ",
        "-",
        "trap ",
        "mv ",
        "sudo ",
        "~+",
        "pwd",
        "\u{E004}",
        "\u{E007}",
        "\u{E008}",
        "\u{E003}",
    ]);
    proptest!(ProptestConfig::with_cases(2000), |(parts in prop::collection::vec(pieces, 0..24))| {
        check(&parts.concat(), &[], Path::new("/home/owner"), None);
    });
}

#[test]
fn the_largest_commands_neither_overflow_nor_multiply() {
    let home = Path::new("/home/owner");
    for piece in [
        "x=$x$x;",
        "{a,b}",
        "{",
        "<(echo $x)",
        "$(x=a{b,c})",
        "$(",
        "for x in / ~;",
        "$x$x{",
        "[",
        "${",
    ] {
        let command = format!(
            "x=/aaaaaaaaaaaaaaaa; {}; rm -rf /",
            piece.repeat(64 * 1024 / piece.len())
        );
        let found = check(&command, &[], home, Some(home));
        // What is no complete command is let pass; everything else is read to its end.
        let is_complete = !matches!(piece, "$(" | "${");
        assert_eq!(found.is_some(), is_complete, "{piece}");
    }
}
