//! Did-you-mean.

use fermix_search::{edit_distance_within, near_name};

#[test]
fn a_slip_is_forgiven_and_a_different_name_is_not() {
    let tools = [
        "file_write",
        "shell",
        "file_read",
        "glob_search",
        "ls",
        "web_fetch",
        "发送邮件",
    ];
    let cases = [
        ("file_raed", Some("file_read")),
        ("FILE_READ", Some("file_read")),
        ("filewrit", Some("file_write")),
        ("read_file", Some("file_read")),
        ("searchGlob", Some("glob_search")),
        ("shel", Some("shell")),
        ("sehll", Some("shell")),
        ("发送邮", Some("发送邮件")),
        // Two edits make any two-letter name out of any other.
        ("cp", None),
        ("shell", None),
        ("file", None),
        ("calendar", None),
        ("", None),
        ("___", None),
    ];
    for (name, expected) in cases {
        assert_eq!(near_name(name, tools), expected, "{name:?}");
        let reversed = tools.into_iter().rev();
        assert_eq!(near_name(name, reversed), expected, "{name:?}, reversed");
    }
    // Fewer edits first, then the alphabet.
    assert_eq!(
        near_name("note_ad", ["note_bcd", "note_add"]),
        Some("note_add")
    );
    assert_eq!(near_name("note_a", ["note_c", "note_b"]), Some("note_b"));
    assert_eq!(near_name("b_a", ["a_b"]), Some("a_b"));
}

#[test]
fn edits_are_counted_up_to_the_bound() {
    let cases = [
        ("", "", Some(0)),
        ("abc", "acb", Some(1)),
        ("abc", "abcde", Some(2)),
        ("abc", "abcdef", None),
        ("öl", "ol", Some(1)),
        ("kitten", "sitting", None),
    ];
    for (a, b, expected) in cases {
        assert_eq!(edit_distance_within(a, b, 2), expected, "{a:?} {b:?}");
        assert_eq!(edit_distance_within(b, a, 2), expected, "{b:?} {a:?}");
    }
    let long = "x".repeat(129);
    assert_eq!(edit_distance_within(&long, &long, 2), None);
}
