//! Matching and replacing, compared with the slow and obvious way.

use proptest::prelude::*;

use super::*;

/// What an anchor without line breaks must give.
fn slow(file: &[u8], anchor: &[u8]) -> Vec<Range<usize>> {
    (0..file.len())
        .filter(|start| file[*start..].starts_with(anchor))
        .map(|start| start..start + anchor.len())
        .collect()
}

proptest! {
    #[test]
    fn overlapping_occurrences_are_all_found(file in "[ab\r]{0,40}", anchor in "[ab]{1,4}") {
        let found = Anchor::new(file.as_bytes(), anchor.as_bytes());
        let found: Vec<_> = found.matches().collect();
        prop_assert_eq!(found, slow(file.as_bytes(), anchor.as_bytes()));
    }

    /// A file of CRLF lines behaves like the same file of LF lines, and keeps its endings.
    #[test]
    fn crlf_files_behave_like_lf_files(file in "[ab\n]{0,40}", anchor in "[ab\n]{1,4}", new in "[xy\n]{0,4}") {
        let windows = file.replace('\n', "\r\n");
        let plain = Anchor::new(file.as_bytes(), anchor.as_bytes());
        let found = Anchor::new(windows.as_bytes(), anchor.as_bytes());
        prop_assert_eq!(found.matches().count(), plain.matches().count());
        prop_assert_eq!(found.lines(99), plain.lines(99));
        if file.contains('\n') {
            let text = |bytes| String::from_utf8(bytes).expect("ASCII");
            prop_assert_eq!(text(found.replaced_by(&new)), text(plain.replaced_by(&new)).replace('\n', "\r\n"));
        }
    }

    /// Outside the replaced places every byte stays, whatever the bytes are.
    #[test]
    fn the_rest_of_the_file_is_untouched(before in proptest::collection::vec(any::<u8>(), 0..40),
                                         after in proptest::collection::vec(any::<u8>(), 0..40)) {
        let file = [&before[..], "\u{1F33B}".as_bytes(), &after[..]].concat();
        let found = Anchor::new(&file, "\u{1F33B}".as_bytes());
        prop_assume!(found.matches().count() == 1);
        prop_assert_eq!(found.replaced_by("flower"), [&before[..], b"flower", &after[..]].concat());
    }
}
