//! Everyday sentences that were once half understood: each does all of what it says, or says what
//! it does not do.

use pretty_assertions::assert_eq;

use super::{HERE, Unseen, calls, request, respond, tools};

/// A sentence, and either its first calls or, behind `say:`, words of the answer.
const SENTENCES: &[(&str, &[&str])] = &[
    // Nothing is dropped and nothing is swallowed.
    (
        "search for \"recipes\" and \"Monday\"",
        &[
            r#"content_search {"pattern":"recipes","respect_gitignore":true}"#,
            r#"content_search {"pattern":"Monday","respect_gitignore":true}"#,
        ],
    ),
    (
        "search for \"a\", \"b\" and \"c\" in src",
        &[
            r#"content_search {"pattern":"a","path":"src"}"#,
            r#"content_search {"pattern":"b","path":"src"}"#,
            r#"content_search {"pattern":"c","path":"src"}"#,
        ],
    ),
    (
        "find \"bread\" and replace it with \"milk\" in notes.txt",
        &[r#"content_search {"pattern":"bread","respect_gitignore":true}"#],
    ),
    (
        "run `make` and replace it with milk in notes.txt",
        &["say:I did not do any of it"],
    ),
    (
        "find and replace \"bread\" with \"milk\" in notes.txt",
        &[r#"file_edit {"path":"notes.txt","old_string":"bread","new_string":"milk"}"#],
    ),
    (
        "write \"x\" to a.txt and delete b.txt",
        &["say:because of this part: \"delete b.txt\". I do not delete files"],
    ),
    (
        "list files and delete notes.txt",
        &[
            r#"glob_search {"pattern":"*","max_results":1000}"#,
            r#"glob_search {"pattern":"*/*","max_results":1000}"#,
        ],
    ),
    (
        "find all python files and count the lines",
        &[r#"glob_search {"pattern":"**/*.py"}"#],
    ),
    (
        "search for TODO and read the file",
        &[r#"content_search {"pattern":"TODO","respect_gitignore":true}"#],
    ),
    (
        "search for TODO case insensitively",
        &[r#"content_search {"pattern":"(?i)TODO","regex":true,"respect_gitignore":true}"#],
    ),
    (
        "find files with recipe in the name",
        &[r#"glob_search {"pattern":"**/*recipe*"}"#],
    ),
    (
        "find files whose name contains \"recipe\" in docs",
        &[r#"glob_search {"pattern":"**/*recipe*","path":"docs"}"#],
    ),
    (
        "search for the word hello in src and in docs quickly",
        &["say:I cannot tell which words"],
    ),
    ("search for \"def main", &["say:without its partner"]),
    // Properties that no tool knows, and words meant for a shell.
    ("show hidden files", &[r#"glob_search {"pattern":"**/.*"}"#]),
    (
        "files changed today",
        &["say:run `find . -type f -mtime -1`"],
    ),
    (
        "list files modified in the last week",
        &["say:run `find . -type f -mtime -7`"],
    ),
    (
        "find files bigger than 1MB",
        &["say:run `find . -type f -size +1M`"],
    ),
    (
        "find files smaller than 10 kb in src",
        &["say:run `find src -type f -size -10k`"],
    ),
    ("find empty files", &["say:run `find . -empty`"]),
    ("show me the newest file", &["say:run `ls -t . | head -1`"]),
    (
        "list everything recursively",
        &[
            r#"glob_search {"pattern":"*","max_results":1000}"#,
            r#"glob_search {"pattern":"**/*","max_results":1000}"#,
        ],
    ),
    ("ls -la", &["say:run `ls -la`"]),
    ("git status", &["say:run `git status`"]),
    ("pwd", &["say:run `pwd`"]),
    ("grep -rn TODO .", &[r#"content_search {"pattern":"TODO"}"#]),
    (
        "grep TODO src/main.py",
        &[r#"content_search {"pattern":"TODO","path":"src/main.py"}"#],
    ),
    (
        "grep -i todo src",
        &[r#"content_search {"pattern":"(?i)todo","path":"src","regex":true}"#],
    ),
    ("grep -A 3 todo src", &["say:run `grep -A 3 todo src`"]),
    (
        "search for /def \\w+/ in src",
        &[r#"content_search {"pattern":"def \\w+","path":"src","regex":true}"#],
    ),
    ("what is in data", &[r#"file_read {"path":"data"}"#]),
    ("open docs", &[r#"file_read {"path":"docs"}"#]),
    ("how big is a.txt?", &["say:run `wc -c a.txt`"]),
    ("how many words are in a.txt", &["say:run `wc -w a.txt`"]),
    ("open the newest file", &["say:run `ls -t . | head -1`"]),
    ("rm a.txt", &["say:run `rm a.txt`"]),
    ("append \"x\" to a.docx", &["say:I write plain text only"]),
    ("create a.txt", &[r#"file_read {"path":"a.txt","limit":1}"#]),
    (
        "find all files",
        &[
            r#"glob_search {"pattern":"*","max_results":1000}"#,
            r#"glob_search {"pattern":"**/*","max_results":1000}"#,
        ],
    ),
    (
        "find files named a.txt or b.txt",
        &[r#"glob_search {"pattern":"**/{a.txt,b.txt}"}"#],
    ),
    (
        "find md and txt files in docs",
        &[r#"glob_search {"pattern":"**/{*.md,*.txt}","path":"docs"}"#],
    ),
    (
        "find notes.txt and new.txt",
        &[r#"glob_search {"pattern":"**/{notes.txt,new.txt}"}"#],
    ),
    ("find files with no extension", &["say:did not understand"]),
    (
        "cat notes.txt | grep milk",
        &["say:run `cat notes.txt | grep milk`"],
    ),
    ("copy notes.txt docs", &["say:run `cp notes.txt docs`"]),
    ("open the docs folder", &[r#"file_read {"path":"docs"}"#]),
    (
        "where is flour mentioned",
        &[r#"content_search {"pattern":"flour","respect_gitignore":true}"#],
    ),
    (
        "is there anything about flour in docs",
        &[r#"content_search {"pattern":"flour","path":"docs"}"#],
    ),
    ("what time is it", &["say:run `date`"]),
    ("diff a.txt b.txt", &["say:run `diff a.txt b.txt`"]),
    // Questions change nothing.
    (
        "write \"hello\" to notes.txt?",
        &["say:That is a question, so I did nothing."],
    ),
    (
        "can you write \"hello\" to notes.txt?",
        &[r#"file_read {"path":"notes.txt","limit":1}"#],
    ),
    ("run `ls`?", &["say:That is a question"]),
    // Manners.
    ("ok", &["say:All right."]),
    ("help me", &["say:The tools here:"]),
    ("please", &["say:All right."]),
    ("bye", &["say:Goodbye!"]),
    ("thanks, bye", &["say:Goodbye!"]),
    ("read a.txt, please", &[r#"file_read {"path":"a.txt"}"#]),
    ("read a.txt. Thanks!", &[r#"file_read {"path":"a.txt"}"#]),
    ("read a.txt thanks ok", &[r#"file_read {"path":"a.txt"}"#]),
    // What is not understood is not a matter of judgement.
    (
        "blorp the frobs",
        &["say:I did not understand \"blorp the frobs\""],
    ),
    ("raed notes.txt", &["say:Did you mean: read notes.txt"]),
    ("serach for TODO", &["say:Did you mean: search for TODO"]),
    ("read", &["say:Did you mean: read notes.txt"]),
    (
        "does notes.txt exist?",
        &[r#"glob_search {"pattern":"**/notes.txt"}"#],
    ),
    (
        "is there a file /etc/hosts?",
        &[r#"glob_search {"pattern":"hosts","path":"/etc"}"#],
    ),
    (
        "is \"Monday\" in notes.txt?",
        &[r#"content_search {"pattern":"Monday","path":"notes.txt"}"#],
    ),
    (
        "delete line 2 of a.txt",
        &["say:remove \"old text\" from a.txt"],
    ),
    ("delete everything", &["say:I do not delete files"]),
    ("delete notes.txt", &["say:run `rm notes.txt`"]),
    ("delete \"my notes.txt\"", &["say:run `rm 'my notes.txt'`"]),
    ("rename a.txt to b.txt", &["say:run `mv a.txt b.txt`"]),
    ("copy a.txt to b.txt", &["say:run `cp a.txt b.txt`"]),
    (
        "create a folder called archive",
        &["say:run `mkdir archive`"],
    ),
    ("write me a poem", &["say:needs a language model"]),
    (
        "which is better, a.txt or b.txt",
        &["say:needs a language model"],
    ),
    // The part that was not understood is named.
    (
        "replace a with b in plan.md",
        &["say:replace \"old text\" with \"new text\" in plan.md"],
    ),
    (
        "write hello to plan.md",
        &["say:did not understand all of \"write hello to plan.md\", so I did nothing"],
    ),
    // Lines.
    (
        "show the last line of a.txt",
        &[r#"file_read {"path":"a.txt"}"#],
    ),
    (
        "first line of a.txt",
        &[r#"file_read {"path":"a.txt","limit":1}"#],
    ),
    (
        "read a.txt from 4990",
        &[r#"file_read {"path":"a.txt","offset":4990}"#],
    ),
    (
        "show the first 10 bytes of a.txt",
        &["say:I show lines, not bytes"],
    ),
    // Tools.
    ("help for nosuch", &[r#"tool_help {"name":"nosuch"}"#]),
    // What was named before.
    ("show it again", &[r#"file_read {"path":"secrets.txt"}"#]),
    (
        "replace \"a\" with \"b\" in it",
        &[r#"file_edit {"path":"secrets.txt","old_string":"a","new_string":"b"}"#],
    ),
    // Where one is.
    (
        "what files are here",
        &[
            r#"glob_search {"pattern":"*","max_results":1000}"#,
            r#"glob_search {"pattern":"*/*","max_results":1000}"#,
        ],
    ),
    (
        "what is this folder",
        &[r#"file_read {"path":"README.md"}"#],
    ),
];

#[test]
fn each_sentence_is_done_whole_or_not_at_all() {
    let mut wrong = String::new();
    for (sentence, expected) in SENTENCES {
        let response = respond(&request(sentence, tools(&[])), &mut Unseen);
        let mut got = calls(&response);
        got.retain(|call| call != HERE);
        let text = &response.message.text;
        let fits = match expected {
            [words] if words.starts_with("say:") => {
                got.is_empty() && text.contains(&words[4..]) && text.len() < 1800
            }
            calls => got == *calls,
        };
        if !fits {
            wrong.push_str(&format!(
                "{sentence}\n  want {expected:?}\n  got  {got:?} {text}\n"
            ));
        }
    }
    assert_eq!(wrong, "", "sentences that were misunderstood");
}

#[test]
fn it_stands_for_the_one_file_of_the_latest_message_that_names_any() {
    let mut asked = request("read it", tools(&[]));
    asked
        .messages
        .insert(2, super::user("read a.txt and b.txt"));
    let response = respond(&asked, &mut Unseen);
    assert_eq!(calls(&response), [""; 0]);
    assert!(
        response.message.text.contains("which file you mean"),
        "{}",
        response.message.text
    );
    asked.messages[2] = super::user("what files are here?");
    assert_eq!(
        calls(&respond(&asked, &mut Unseen)),
        [r#"file_read {"path":"secrets.txt"}"#]
    );
    // Neither does a file count that only an answer or a result named.
    asked.messages[0] = super::user("hello");
    assert_eq!(calls(&respond(&asked, &mut Unseen)), [""; 0]);
}
