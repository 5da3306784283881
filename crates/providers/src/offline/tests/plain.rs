//! Answers in a person's words: where was looked, what was done, and what it is called outside of
//! the tools.

use pretty_assertions::assert_eq;

use super::{HERE, play};

const NONE: &str = r#"{"matches":[],"truncated":false}"#;
const IGNORES: &str = r#"glob_search {"pattern":"{.gitignore,*/.gitignore}","max_results":1}"#;

#[test]
fn nothing_found_names_the_place_that_was_looked_at() {
    let here = (
        r#"file_read {"path":"."}"#,
        "Error: Path is a directory: /w",
    );
    let (own, below) = (
        r#"glob_search {"pattern":"*","max_results":1000}"#,
        r#"glob_search {"pattern":"*/*","max_results":1000}"#,
    );
    assert_eq!(
        play("list files", &[(own, "[]"), (below, "[]"), here]),
        "There are no files in `/w`."
    );
    assert_eq!(
        play(
            "list files",
            &[(own, "[]"), (below, "[\"/w/src/a.rs\",\"/w/docs/b.md\"]")]
        ),
        "`/w` holds 2 folders (folders without files of their own are not shown).\n\n- docs/\n- src/"
    );
    assert_eq!(
        play(
            "find *.zzz",
            &[
                (r#"glob_search {"pattern":"**/*.zzz"}"#, "[]"),
                (HERE, "[]"),
                here
            ]
        ),
        "I found no files matching `**/*.zzz` in `/w` or below it."
    );
    assert_eq!(
        play(
            "find *.zzz in docs",
            &[(r#"glob_search {"pattern":"**/*.zzz","path":"docs"}"#, "[]")]
        ),
        "I found no files matching `**/*.zzz` in `docs` or below it."
    );
    // A word is looked for in any case before it is called missing, and ignored files are spoken
    // of only where there are some.
    let search = r#"content_search {"pattern":"todo","respect_gitignore":true}"#;
    let again = r#"content_search {"pattern":"(?i)todo","regex":true,"respect_gitignore":true}"#;
    assert_eq!(
        play(
            "search for todo",
            &[(search, NONE), (again, NONE), (IGNORES, "[]")]
        ),
        "I found no line with `todo` in `/w`, upper and lower case alike."
    );
    let found = r#"{"matches":[{"path":"/w/a.py","line":2,"text":"TODO"}],"truncated":false}"#;
    assert_eq!(
        play("search for todo", &[(search, NONE), (again, found)]),
        "No line has exactly `todo`. I found `todo` in another case on 1 line of 1 file in `/w`:\n\na.py:2: TODO"
    );
    let guessed = play(
        "search for milk and honey",
        &[
            (
                r#"content_search {"pattern":"milk and honey","respect_gitignore":true}"#,
                NONE,
            ),
            (
                r#"content_search {"pattern":"(?i)milk and honey","regex":true,"respect_gitignore":true}"#,
                NONE,
            ),
            (IGNORES, "[]"),
        ],
    );
    assert!(
        guessed.starts_with(
            "I took all of `milk and honey` as the text to look for, and no line in `/w` has it."
        ),
        "{guessed}"
    );
}

#[test]
fn a_name_that_is_almost_right_is_offered() {
    let all = r#"glob_search {"pattern":"**/*","max_results":1000}"#;
    for written in ["NOTES.TXT", "notse.txt"] {
        assert_eq!(
            play(
                &format!("read {written}"),
                &[
                    (
                        &format!(r#"file_read {{"path":"{written}"}}"#),
                        &format!("Error: File not found: /w/{written}")
                    ),
                    (
                        &format!(r#"glob_search {{"pattern":"**/{written}"}}"#),
                        "[]"
                    ),
                    (all, "[\"/w/notes.txt\",\"/w/src/main.rs\"]"),
                ]
            ),
            format!("There is no file `{written}` in `/w`. Did you mean: read notes.txt")
        );
    }
    // One letter is no name to be near to.
    let unlike = play(
        "read a.txt",
        &[
            (
                r#"file_read {"path":"a.txt"}"#,
                "Error: File not found: /w/a.txt",
            ),
            (r#"glob_search {"pattern":"**/a.txt"}"#, "[]"),
            (all, "[\"/w/b.txt\"]"),
        ],
    );
    assert_eq!(
        unlike,
        "There is no file `a.txt` in `/w`. There is none of that name in the folders below `/w` either."
    );
    assert_eq!(
        play(
            "help for shel",
            &[(
                r#"tool_help {"name":"shel"}"#,
                "Error: Unknown capability: shel; did you mean `shell`?"
            )]
        ),
        "There is no tool `shel` here. Did you mean `shell`? Ask \"what can you do\" for a list."
    );
    assert_eq!(
        play(
            "help for shell",
            &[(
                r#"tool_help {"name":"shell"}"#,
                "# shell\n\nRuns.\n\n## Schema\n\n```json\n{}\n```"
            )]
        ),
        "# shell\n\nRuns."
    );
}

#[test]
fn what_was_done_is_told_without_the_words_of_the_tools() {
    let look = r#"file_read {"path":"a.txt","limit":1}"#;
    let write = r#"file_write {"path":"a.txt","content":"hello"}"#;
    for (before, after, told) in [
        (
            "Error: File not found: /w/a.txt",
            "Wrote 5 bytes to /w/a.txt",
            "Created `a.txt` (5 bytes).",
        ),
        (
            "x\n[note: lines 1-1 of 12]",
            "Wrote 5 bytes to /w/a.txt",
            "Replaced all of `a.txt` (12 lines before, 5 bytes now).",
        ),
        (
            "hello",
            "/w/a.txt already holds exactly these 5 bytes; unchanged",
            "`a.txt` already held exactly this text, so nothing changed.",
        ),
    ] {
        assert_eq!(
            play(
                "write \"hello\" to a.txt",
                &[(look, before), (write, after)]
            ),
            told
        );
    }
    let edit = r#"file_edit {"path":"a.txt","old_string":"a","new_string":"b"}"#;
    for (result, told) in [
        (
            "Replaced unique anchor in /w/a.txt",
            "Replaced `a` with `b` in `a.txt`.",
        ),
        (
            "Error: old_string is not unique; found 3 occurrences, at lines 1, 2 of /w/a.txt. Add neighbouring lines, or set replace_all",
            "`a` occurs 3 times in `a.txt` (lines 1, 2), so I changed nothing.\n\nTo change every one of them, say: replace all \"a\" with \"b\" in a.txt\nTo change one, quote more of the text around it.",
        ),
        (
            "Error: File not found: /w/a.txt",
            "There is no file `a.txt`, so I changed nothing.",
        ),
    ] {
        assert_eq!(
            play("replace \"a\" with \"b\" in a.txt", &[(edit, result)]),
            told
        );
    }
    let run = r#"shell {"command":"make"}"#;
    for (result, told) in [
        (
            "Error: Command failed (exit code 3):",
            "`make` failed with exit code 3 and printed nothing.",
        ),
        (
            "Error: Command timed out after 30000ms",
            "`make` was stopped because it took longer than 30 seconds and printed nothing.",
        ),
    ] {
        assert_eq!(play("run `make`", &[(run, result)]), told);
    }
    assert_eq!(
        play(
            "read a.txt from line 9000",
            &[(
                r#"file_read {"path":"a.txt","offset":9000}"#,
                "Error: offset 9000 is past the end: the file has 12 lines"
            )]
        ),
        "`a.txt` has only 12 lines."
    );
}

#[test]
fn steps_go_on_with_what_was_found_and_name_what_is_not_done() {
    let own = r#"glob_search {"pattern":"*","max_results":1000}"#;
    let below = r#"glob_search {"pattern":"*/*","max_results":1000}"#;
    let answer = play(
        "list files and delete notes.txt",
        &[(own, "[\"/w/notes.txt\"]"), (below, "[]")],
    );
    assert!(
        answer.ends_with("- notes.txt\n\nI do not delete files, so nothing was deleted. A command does it when you quote it: run `rm notes.txt`"),
        "{answer}"
    );
    assert_eq!(
        play(
            "find all python files and count the lines",
            &[
                (
                    r#"glob_search {"pattern":"**/*.py"}"#,
                    "[\"/w/a.py\",\"/w/b.py\"]"
                ),
                (
                    r#"file_read {"path":"a.py","limit":1}"#,
                    "x\n[note: lines 1-1 of 7]"
                ),
                (
                    r#"file_read {"path":"b.py","limit":1}"#,
                    "x\n[note: lines 1-1 of 1]"
                ),
            ]
        ),
        "I found 2 files matching `**/*.py` in `/w`:\n\n- a.py\n- b.py\n\n`a.py` has 7 lines.\n`b.py` has 1 line."
    );
    let bread =
        r#"{"matches":[{"path":"/w/notes.txt","line":1,"text":"bread"}],"truncated":false}"#;
    let answer = play(
        "find \"bread\" and replace it with \"milk\" in notes.txt",
        &[
            (
                r#"content_search {"pattern":"bread","respect_gitignore":true}"#,
                bread,
            ),
            (
                r#"file_edit {"path":"notes.txt","old_string":"bread","new_string":"milk"}"#,
                "Replaced unique anchor in /w/notes.txt",
            ),
        ],
    );
    assert!(
        answer.ends_with("Replaced `bread` with `milk` in `notes.txt`."),
        "{answer}"
    );
    let found = r#"{"matches":[{"path":"/w/a.txt","line":1,"text":"TODO"}],"truncated":false}"#;
    let answer = play(
        "search for TODO and read the file",
        &[
            (
                r#"content_search {"pattern":"TODO","respect_gitignore":true}"#,
                found,
            ),
            (r#"file_read {"path":"a.txt"}"#, "TODO\n"),
        ],
    );
    assert!(answer.ends_with("```\nTODO\n```"), "{answer}");
}

#[test]
fn a_definition_is_a_line_of_code() {
    let search = r#"content_search {"pattern":"^\\s*(?:(?:pub(?:\\([^)]*\\))?|export|default|declare|async|unsafe|const|static|public|private|protected|internal|final|abstract|extern|inline|virtual|override|sealed|partial|local)\\s+)*(?:struct)\\s+(?:mut\\s+|\\([^)]*\\)\\s*)?Registry\\b","regex":true,"respect_gitignore":true}"#;
    let found = r#"{"matches":[{"path":"/w/docs/a.md","line":3,"text":"struct Registry is old"},{"path":"/w/src/registry.rs","line":100,"text":"pub struct Registry {"}],"truncated":false}"#;
    assert_eq!(
        play("Where is \"struct Registry\" defined?", &[(search, found)]),
        "`Registry` is defined here:\n\nsrc/registry.rs:100: pub struct Registry {"
    );
    let mention = r#"content_search {"pattern":"Registry","respect_gitignore":true}"#;
    let mentioned =
        r#"{"matches":[{"path":"/w/docs/a.md","line":3,"text":"a Registry"}],"truncated":false}"#;
    assert_eq!(
        play(
            "where is struct Registry defined?",
            &[(search, NONE), (mention, mentioned)]
        ),
        "No line of code in `/w` looks like the definition of `Registry`. I found `Registry` on 1 line of 1 file in `/w`:\n\ndocs/a.md:3: a Registry"
    );
}

#[test]
fn a_folder_that_is_asked_about_is_shown_by_its_readme_or_its_files() {
    let answer = play(
        "what is this project?",
        &[
            (
                r#"file_read {"path":"README.md"}"#,
                "Error: File not found: /w/README.md",
            ),
            (r#"glob_search {"pattern":"{README,Readme,readme}*"}"#, "[]"),
            (
                r#"glob_search {"pattern":"*","max_results":1000}"#,
                "[\"/w/a.txt\"]",
            ),
            (r#"glob_search {"pattern":"*/*","max_results":1000}"#, "[]"),
        ],
    );
    assert!(
        answer.starts_with("There is no readme here. `/w` holds 1 file"),
        "{answer}"
    );
}
