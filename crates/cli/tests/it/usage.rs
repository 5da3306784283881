//! `fermix usage` through the binary.

use fermix_testkit::TestHome;

use crate::support::fermix;

#[test]
fn turns_are_counted_by_day_model_and_conversation() {
    let home = TestHome::new();
    let empty = fermix(&home, &["usage"]).code(0);
    assert_eq!(empty.stdout.trim(), "no turn has used a model since then");

    for _ in 0..2 {
        fermix(&home, &["ask", "-s", "work", "hello"]).code(0);
    }
    fermix(&home, &["ask", "-s", "play", "hello"]).code(0);
    let by_day = fermix(&home, &["usage", "--json"]).code(0).json();
    assert_eq!(by_day["rows"].as_array().unwrap().len(), 1);
    assert_eq!(by_day["total"]["turns"], 3);
    // The embedded assistant's tokens are nobody's bill.
    assert_eq!(by_day["today"]["tokens"], 0);
    let by_conversation = fermix(&home, &["usage", "--by", "conversation"]).code(0);
    for words in ["cli:work:root", "cli:play:root", "offline", "total"] {
        assert!(
            by_conversation.stdout.contains(words),
            "{}",
            by_conversation.stdout
        );
    }
    fermix(&home, &["usage", "--since", "lately"]).code(2);
}
