//! How text becomes words.

use fermix_search::tokens;

#[test]
fn text_is_cut_into_the_words_a_reader_sees() {
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        ("  -- !? ", &[]),
        ("x_search_posts", &["x", "search", "posts"]),
        ("Send an E-Mail, now!", &["send", "an", "e", "mail", "now"]),
        ("mailBox", &["mail", "box"]),
        ("HTTPServer", &["http", "server"]),
        ("s3Bucket", &["s3", "bucket"]),
        ("all PDFs", &["all", "pdfs"]),
        ("ÜberSetzung", &["über", "setzung"]),
        ("Kalender öffnen", &["kalender", "öffnen"]),
        // The same letter as one character and as two.
        ("o\u{308}ffnen", &["öffnen"]),
        ("\u{308} stray", &["stray"]),
        ("発", &["発"]),
        ("发送邮件", &["发送", "送邮", "邮件"]),
        ("用email发送", &["用", "email", "发送"]),
        // A virama and vowel signs hold a word together.
        ("हिन्दी अनुवाद", &["हिन्दी", "अनुवाद"]),
        ("ส่งอีเมล", &["ส่ง", "งอี", "อีเ", "เม", "มล"]),
        ("Отправить письмо", &["отправить", "письмо"]),
        ("أرسل بريدا", &["أرسل", "بريدا"]),
        ("emoji 🎉 party", &["emoji", "party"]),
    ];
    for (text, expected) in cases {
        assert_eq!(tokens(text), *expected, "{text:?}");
    }
    let blob = "A".repeat(5_000);
    assert_eq!(tokens(&format!("key {blob} end")), ["key", "end"]);
}
