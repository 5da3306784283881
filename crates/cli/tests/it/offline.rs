//! A fresh home without a key and without a network.

use fermix_testkit::TestHome;
use serde_json::json;

use crate::support::{fermix, fermix_with_stdin, traces};

#[test]
fn it_answers_from_real_files_through_real_calls() {
    let home = TestHome::new();
    home.file("src/lib.rs", "pub enum PolicyClass { ReadOnly }\n");
    home.file("notes.txt", "buy milk\ncall the bank\n");
    let cases: [(&str, &str, &str); 6] = [
        (
            "Which files mention \"enum PolicyClass\"?",
            "content_search",
            "src/lib.rs",
        ),
        ("read notes.txt", "file_read", "call the bank"),
        ("find all rs files", "glob_search", "src/lib.rs"),
        ("run `echo it-works`", "shell", "it-works"),
        ("write \"hello there\" to new.txt", "file_write", "new.txt"),
        (
            "replace \"milk\" with \"bread\" in notes.txt",
            "file_edit",
            "notes.txt",
        ),
    ];
    for (question, tool, words) in cases {
        let answer = fermix(&home, &["ask", "--json", question]).code(0).json();
        assert!(
            answer["response"].as_str().unwrap().contains(words),
            "{question}: {answer}"
        );
        assert_eq!(answer["provider"], json!("offline"));
        let rows = traces(&home, "tool_exec");
        assert!(
            rows.iter()
                .any(|row| row["tool"] == json!(tool) && row["success"] == json!(true)),
            "{question}: {rows:?}"
        );
    }
    assert_eq!(home.read("new.txt").unwrap(), b"hello there");
    assert_eq!(
        home.read("notes.txt").unwrap(),
        b"buy bread\ncall the bank\n"
    );
}

#[test]
fn it_says_what_it_is_and_how_to_connect_a_model() {
    let home = TestHome::new();
    let answer = fermix(&home, &["ask", "Write me a poem about the sea"])
        .code(0)
        .stdout;
    assert!(
        answer.contains("not a language model") && answer.contains("API_KEY"),
        "{answer}"
    );
    let answer = fermix(&home, &["ask", "what can you do"]).code(0).stdout;
    assert!(
        answer.contains("file_read") || answer.contains("read"),
        "{answer}"
    );
    let answer = fermix(&home, &["ask", "help for file_edit"]).code(0).stdout;
    assert!(answer.contains("old_string"), "{answer}");
}

#[test]
fn the_folder_of_the_question_is_reachable_only_inside_the_home_or_by_flag() {
    let home = TestHome::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("a.txt"), "needle here\n").unwrap();
    let ask = |args: &[&str]| {
        let mut command = crate::support::command(&home, args);
        command.current_dir(outside.path());
        crate::support::finish(command.output().unwrap())
    };
    let refused = ask(&["ask", "read a.txt"]).code(0);
    assert!(!refused.stdout.contains("needle"), "{}", refused.stdout);
    assert!(
        refused.stderr.contains("is out of reach") && refused.stderr.contains("--root ."),
        "{}",
        refused.stderr
    );
    let granted = ask(&["ask", "--root", ".", "read a.txt"]).code(0).stdout;
    assert!(granted.contains("needle here"), "{granted}");
    for unsafe_root in ["/", "/etc", "~/.ssh", home.os_home().to_str().unwrap()] {
        let run = ask(&["ask", "--root", unsafe_root, "read a.txt"]).code(1);
        assert!(
            run.stderr.contains("cannot be given"),
            "{unsafe_root}: {}",
            run.stderr
        );
    }
}

#[test]
fn a_piped_message_is_asked() {
    let home = TestHome::new();
    home.file("notes.txt", "buy milk\n");
    let run = fermix_with_stdin(&home, &["ask", "--stdin"], b"read notes.txt\n").code(0);
    assert!(run.stdout.contains("buy milk"));
    let run = fermix_with_stdin(&home, &["ask", "--stdin"], &vec![b'x'; 300 * 1024]).code(2);
    assert!(run.stderr.contains("put it into a file"));
}

#[test]
fn in_the_home_itself_the_advice_is_one_that_works() {
    let home = TestHome::new();
    let mut command = crate::support::command(&home, &["ask", "list files"]);
    let run = crate::support::finish(command.current_dir(home.os_home()).output().unwrap()).code(0);
    assert!(
        run.stderr.contains("ask from a folder below it"),
        "{}",
        run.stderr
    );
}
