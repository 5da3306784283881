//! Which tools a query finds, and in what order.

use fermix_search::{Document, Entry, Index, strong_single};

const fn tool(name: &'static str, description: &'static str) -> Document<'static> {
    Document {
        name,
        provider: None,
        description,
        parameters: "",
    }
}

const fn plugin_tool(
    provider: &'static str,
    name: &'static str,
    description: &'static str,
    parameters: &'static str,
) -> Document<'static> {
    Document {
        name,
        provider: Some(provider),
        description,
        parameters,
    }
}

const TOOLS: &[Document<'static>] = &[
    plugin_tool(
        "github",
        "create_issue",
        "Open an issue in a GitHub repository",
        "repo title body",
    ),
    plugin_tool(
        "github",
        "list_issues",
        "List the issues of a repository",
        "repo state assignee",
    ),
    plugin_tool(
        "mail",
        "send_mail",
        "Deliver a message to a recipient",
        "recipient subject body",
    ),
    plugin_tool("mail", "search", "Look through the mailbox", "query folder"),
    tool(
        "calendar_create_event",
        "Add an appointment to the calendar",
    ),
    tool("kalender", "Kalender öffnen und Termine anzeigen"),
    tool("邮件", "发送一封电子邮件给联系人"),
    tool("weather", "Forecasts of rain and temperature for a city"),
    tool("translate", "Translate text between languages"),
    tool("readPdf", "Extract the text of PDFs"),
    tool("what_now", "Suggest a next step"),
    tool("summaries", "Categories of batteries and their summaries"),
];

fn index() -> Index {
    Index::build(TOOLS.iter().copied())
}

fn found(index: &Index, query: &str) -> Vec<&'static str> {
    let hits = index.search(query, 20);
    hits.iter().map(|hit| TOOLS[hit.document].name).collect()
}

#[test]
fn a_request_finds_its_tool_first() {
    let index = index();
    let cases = [
        ("open a new GitHub issue please", "create_issue"),
        ("github", "create_issue"),
        ("who is assigned? filter by assignee", "list_issues"),
        ("I'd like to send an email message", "send_mail"),
        // Both ways of the plural, and verb endings.
        ("forecast", "weather"),
        ("cities", "weather"),
        ("battery category", "summaries"),
        ("translating", "translate"),
        ("extracted pdf", "readPdf"),
        // The beginning of a word.
        ("appointm", "calendar_create_event"),
        ("tempera", "weather"),
        ("notificat translat", "translate"),
        // Other scripts, composed or not.
        ("Kalender öffnen", "kalender"),
        ("o\u{308}ffnen", "kalender"),
        ("TERMINE", "kalender"),
        ("发送邮件", "邮件"),
        ("联系人", "邮件"),
        ("件", "邮件"),
        // Nothing but stop words still means something when a tool is called that.
        ("what now", "what_now"),
    ];
    for (query, expected) in cases {
        assert_eq!(found(&index, query).first(), Some(&expected), "{query:?}");
    }
}

#[test]
fn only_real_matches_are_returned() {
    let index = index();
    for query in [
        "",
        "   ",
        "?!",
        "xylophone",
        "our",
        "and of the",
        "日本",
        "tra",
        "ранец",
    ] {
        let hits = index.search(query, 20);
        let literal = hits
            .iter()
            .all(|hit| hit.score == 0.1 && !hit.exact && !hit.sole);
        assert!(literal, "{query:?}: {hits:?}");
        let named: Vec<&str> = hits.iter().map(|hit| TOOLS[hit.document].name).collect();
        let expected: &[&str] = if query == "tra" { &["translate"] } else { &[] };
        assert_eq!(named, expected, "{query:?}");
    }
    // A piece of a name is looked for only when no word matches, and listed by name.
    assert_eq!(found(&index, "LEND"), ["calendar_create_event", "kalender"]);
    assert_eq!(
        found(&index, "_"),
        [
            "calendar_create_event",
            "create_issue",
            "list_issues",
            "send_mail",
            "what_now"
        ]
    );
    assert!(index.search("weather", 0).is_empty());
    assert!(Index::build([]).search("weather", 5).is_empty());
    assert!(Index::default().search("weather", 5).is_empty());
}

#[test]
fn named_tools_come_first_in_the_order_of_the_query() {
    let index = index();
    let cases: &[(&str, &[&str])] = &[
        ("weather", &["weather"]),
        ("WEATHER", &["weather"]),
        ("create issue", &["create_issue"]),
        ("github.create_issue", &["create_issue"]),
        ("github/create-issue", &["create_issue"]),
        ("read pdf", &["readPdf"]),
        ("translate weather", &["translate", "weather"]),
        (
            "weather, translate; `send_mail`",
            &["weather", "translate", "send_mail"],
        ),
        (
            "send_mail list_issues send_mail",
            &["send_mail", "list_issues"],
        ),
        ("how do I call list_issues?", &["list_issues"]),
        ("try sendMail instead", &["send_mail"]),
        // A plain word in a sentence is not a name.
        ("search the mailbox for rain", &[]),
    ];
    for (query, expected) in cases {
        let hits = index.search(query, 20);
        let exact: Vec<&str> = hits
            .iter()
            .take_while(|hit| hit.exact)
            .map(|hit| TOOLS[hit.document].name)
            .collect();
        assert_eq!(exact, *expected, "{query:?}");
        assert!(
            hits.iter().filter(|hit| hit.exact).count() == exact.len(),
            "{query:?}"
        );
        assert!(
            hits.iter().all(|hit| hit.exact == (hit.score == 1.0)),
            "{query:?}: {hits:?}"
        );
        let mut documents: Vec<usize> = hits.iter().map(|hit| hit.document).collect();
        documents.sort_unstable();
        documents.dedup();
        assert_eq!(documents.len(), hits.len(), "{query:?} lists a tool twice");
    }
}

#[test]
fn a_written_word_outweighs_a_completed_one() {
    let documents = [
        tool("alpha", "scheduler"),
        tool("beta", "sched"),
        tool("gamma", "other"),
    ];
    let hits = Index::build(documents).search("sched", 5);
    let found: Vec<usize> = hits.iter().map(|hit| hit.document).collect();
    assert_eq!(found, [1, 0]);
    assert!(
        (hits[1].score - hits[0].score / 2.0).abs() < 1e-6,
        "{hits:?}"
    );
    // Three letters are not a beginning.
    assert!(Index::build(documents).search("oth", 5).is_empty());
}

#[test]
fn a_single_strong_match_is_recognised_whatever_the_limit() {
    let index = index();
    let cases = [
        ("weather", Some("weather")),
        ("how do I call list_issues?", Some("list_issues")),
        ("forecast rain", Some("weather")),
        ("translate weather", None),
        ("issue in a repository", None),
        ("lend", None),
        ("xylophone", None),
    ];
    for (query, expected) in cases {
        for limit in [1, 2, 20] {
            let hits = index.search(query, limit);
            let single = strong_single(&hits).map(|hit| TOOLS[hit.document].name);
            assert_eq!(single, expected, "{query:?}, limit {limit}: {hits:?}");
        }
    }
}

#[test]
fn order_is_total_and_never_changes() {
    // Forty equal tools in no order: the same score for all, so only names can decide.
    let names: Vec<String> = (0..40)
        .map(|number| format!("github_t{}", number * 17 % 40))
        .collect();
    let entries: Vec<Entry> = names
        .iter()
        .map(|name| {
            Entry::new(&Document {
                name,
                provider: Some("github"),
                description: "Talks to GitHub about repositories",
                parameters: "repository",
            })
        })
        .collect();
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let mut reference = None;
    for _ in 0..100 {
        let index = Index::from_entries(&entries);
        let hits = index.search("github repositories", 20);
        let found: Vec<&str> = hits
            .iter()
            .map(|hit| names[hit.document].as_str())
            .collect();
        // A word that every tool holds still finds as many as were asked for.
        assert_eq!(found, sorted[..20]);
        assert_eq!(*reference.get_or_insert_with(|| hits.clone()), hits);
    }
    // The smaller list is the beginning of the longer one.
    let index = index();
    for query in [
        "issue repository mail text",
        "weather translate mail",
        "create",
    ] {
        let all = index.search(query, 20);
        for limit in 0..=all.len() {
            assert_eq!(index.search(query, limit), all[..limit], "{query:?}");
        }
    }
}

#[test]
fn huge_input_stays_bounded() {
    let description = "calendar ".repeat(200_000);
    let parameters = "ä".repeat(100_000);
    let index = Index::build([Document {
        name: "big",
        provider: Some(""),
        description: &description,
        parameters: &parameters,
    }]);
    assert_eq!(index.len(), 1);
    // Only the start of a query is read, cut between characters.
    let query = format!("calendar {}", "ä ".repeat(100_000));
    assert_eq!(index.search(&query, 5).len(), 1);
    let late = format!("{} calendar", "x ".repeat(100_000));
    assert!(index.search(&late, 5).is_empty());
}
