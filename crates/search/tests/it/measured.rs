//! Recall on real requests, where the data set is at hand.

use std::path::PathBuf;

use fermix_search::{Document, Index, strong_single};

/// The folder named by `FERMIX_FIXTURES`; the data is not part of a clone.
#[expect(
    clippy::disallowed_methods,
    reason = "the data set of this measurement is named by the environment"
)]
fn fixtures() -> Option<PathBuf> {
    std::env::var_os("FERMIX_FIXTURES").map(PathBuf::from)
}

/// Rows of two cells; a quoted cell may hold commas, line breaks and doubled quotes.
fn rows(csv: &str) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut characters = csv.chars().peekable();
    while let Some(character) = characters.next() {
        let cell = cells.last_mut().expect("a row starts with one cell");
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                let row = std::mem::replace(&mut cells, vec![String::new()]);
                let [query, tool]: [String; 2] = row.try_into().expect("two cells a row");
                rows.push((query, tool));
            }
            other => cell.push(other),
        }
    }
    rows
}

#[test]
fn real_requests_find_the_tool_they_want() {
    let Some(fixtures) = fixtures() else {
        eprintln!("SKIPPED: FERMIX_FIXTURES is not set, recall was not measured");
        return;
    };
    let folder = fixtures.join("tool-retrieval");
    let tools = std::fs::read_to_string(folder.join("tools.json")).expect("tools.json is readable");
    let tools: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&tools).expect("tools.json maps names to descriptions");
    let tools: Vec<(&str, &str)> = tools
        .iter()
        .map(|(name, description)| (name.as_str(), description.as_str().unwrap_or_default()))
        .collect();
    let index = Index::build(tools.iter().map(|(name, description)| Document {
        name,
        description,
        ..Document::default()
    }));
    let csv = std::fs::read_to_string(folder.join("queries-10pct.csv")).expect("queries");
    let queries = rows(&csv).split_off(1);
    assert_eq!((tools.len(), queries.len()), (199, 2061));

    let (mut first, mut five, mut ten) = (0, 0, 0);
    let (mut strong, mut strong_right) = (0, 0);
    for (query, wanted) in &queries {
        let hits = index.search(query, 10);
        let place = hits.iter().position(|hit| tools[hit.document].0 == wanted);
        first += usize::from(place == Some(0));
        five += usize::from(place.is_some_and(|place| place < 5));
        ten += usize::from(place.is_some());
        if let Some(hit) = strong_single(&hits) {
            strong += 1;
            strong_right += usize::from(tools[hit.document].0 == wanted);
        }
    }
    let share = |count: usize| count as f64 / queries.len() as f64;
    eprintln!(
        "R@1 {:.4} R@5 {:.4} R@10 {:.4}; strong {strong}, right {strong_right}",
        share(first),
        share(five),
        share(ten)
    );
    assert!(share(first) >= 0.415, "R@1 is {:.4}", share(first));
    assert!(share(five) >= 0.615, "R@5 is {:.4}", share(five));
}
