//! The embedded catalog against what the code takes for granted.

use fermix_types::Effort;

use super::{Catalog, undated};
use crate::request::ProviderId;

#[test]
fn every_entry_holds_together() {
    let catalog = Catalog::default();
    let parsed = catalog.parsed();
    assert!(parsed.models.len() > 40 && parsed.families.len() > 5);
    let named = parsed.models.iter().chain(
        parsed
            .families
            .iter()
            .map(|(prefix, entry)| (prefix, entry)),
    );
    for (name, entry) in named {
        let owners: Vec<ProviderId> = entry
            .providers
            .iter()
            .map(|owner| {
                owner
                    .parse()
                    .unwrap_or_else(|error| panic!("{name}: {error}"))
            })
            .collect();
        assert!(!owners.is_empty(), "{name} belongs to nobody");
        assert!(
            entry
                .default
                .iter()
                .all(|owner| entry.providers.contains(owner)),
            "{name}"
        );
        let efforts = entry.efforts.clone().unwrap_or_default();
        assert!(
            efforts.is_sorted() && !efforts.contains(&Effort::None),
            "{name}: efforts go from low to high"
        );
        let window = entry.context_window.unwrap_or(u64::MAX);
        assert!(
            entry.max_output.unwrap_or(0) < window,
            "{name}: an answer longer than the window"
        );
    }
    for (name, entry) in &parsed.models {
        assert!(
            entry.label.is_some() && entry.context_window.is_some() && entry.max_output.is_some(),
            "{name}"
        );
    }
    for provider in ProviderId::ALL {
        let defaults = parsed
            .models
            .values()
            .filter(|entry| entry.default.iter().any(|id| id == provider.as_str()));
        assert!(
            defaults.count() <= 1,
            "{provider} has more than one default"
        );
    }
}

#[test]
fn dates_at_the_end_are_no_part_of_a_model() {
    let cases = [
        ("claude-opus-4-5-20251101", Some("claude-opus-4-5")),
        ("gpt-5-2025-08-07", Some("gpt-5")),
        ("codestral-latest", Some("codestral")),
        ("grok-4-0709", None),
        ("gpt-5", None),
        ("-latest", Some("")),
        ("模型-latest", Some("模型")),
        ("型型型型型", None),
    ];
    for (model, base) in cases {
        assert_eq!(undated(model), base, "{model}");
    }
}
