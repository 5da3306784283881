//! The budget line "a search over 10,000 tools ≤ 1 ms", and what building the index costs.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use fermix_search::{Document, Entry, Index};

const TOOLS: usize = 10_000;

/// Words every generated tool draws from first, so that some postings are very long.
const COMMON: &[&str] = &[
    "create",
    "list",
    "update",
    "delete",
    "search",
    "send",
    "message",
    "file",
    "calendar",
    "event",
    "issue",
    "project",
    "user",
    "report",
    "schedule",
    "account",
    "image",
    "document",
    "channel",
    "translate",
];

/// A small linear congruential generator: the same tools on every run and machine.
struct Words {
    state: u64,
}

impl Words {
    fn below(&mut self, bound: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % bound
    }

    fn word(&mut self) -> String {
        if self.below(2) == 0 {
            return COMMON[self.below(COMMON.len())].to_owned();
        }
        // Squared, so that low numbers come up far more often than high ones.
        let number = self.below(60) * self.below(60);
        let syllables = [
            "ka", "to", "mi", "ren", "sol", "dar", "vi", "pe", "lun", "go",
        ];
        [number / 100, number / 10, number]
            .iter()
            .map(|digit| syllables[digit % 10])
            .collect()
    }

    fn text(&mut self, count: usize) -> String {
        let words: Vec<String> = (0..count).map(|_| self.word()).collect();
        words.join(" ")
    }
}

fn entries() -> Vec<Entry> {
    let mut words = Words { state: 7 };
    (0..TOOLS)
        .map(|number| {
            let name = format!("{}_{}_{number}", words.word(), words.word());
            let provider = format!("plugin{}", words.below(50));
            let description = words.text(18);
            let parameters = words.text(24);
            Entry::new(&Document {
                name: &name,
                provider: Some(&provider),
                description: &description,
                parameters: &parameters,
            })
        })
        .collect()
}

fn search(criterion: &mut Criterion) {
    let entries = entries();
    let index = Index::from_entries(&entries);
    let queries = [
        ("one_word", "calendar".to_owned()),
        (
            "request",
            "Please schedule a calendar event for the project and send a message to the channel"
                .to_owned(),
        ),
        ("prefixes", "sched calen trans proj katomi kato".to_owned()),
        ("every_common_word", COMMON.join(" ")),
        ("exact_name", entries[TOOLS / 2].name().to_owned()),
        ("nothing", "xylophone".to_owned()),
    ];
    let mut group = criterion.benchmark_group("search_10000");
    for (label, query) in &queries {
        group.bench_function(*label, |bencher| {
            bencher.iter(|| index.search(black_box(query), 5));
        });
    }
    group.finish();
}

fn build(criterion: &mut Criterion) {
    let entries = entries();
    let mut group = criterion.benchmark_group("index");
    group.sample_size(10);
    for count in [100, 2_000, TOOLS] {
        group.bench_function(format!("from_{count}_entries"), |bencher| {
            bencher.iter_batched(
                || &entries[..count],
                Index::from_entries,
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, search, build);
criterion_main!(benches);
