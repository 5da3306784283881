//! The hot paths: finding a capability, taking a view, calling, searching.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use fermix_capability::untrusted::OutsideSources;
use fermix_capability::{
    Audience, Caller, Capability, Catalog, Deferral, Dispatcher, FrameId, Ports, PreparedSchema,
    Presence, Registry, TurnScope,
};
use fermix_types::{Category, PolicyClass, ToolCall, TraceIds, TraceRow, TraceSink};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Takes rows and drops them.
struct Nowhere;

impl TraceSink for Nowhere {
    fn record(&self, row: TraceRow) {
        black_box(row);
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Path relative to the workspace." },
            "limit": { "type": "integer", "minimum": 1, "maximum": 100 },
            "mode": { "type": "string", "enum": ["fast", "slow"] },
        },
        "required": ["path"],
    })
}

fn tool(name: &str, category: Category) -> Capability {
    Capability::builtin(name, PolicyClass::ReadOnly, category, Audience::Anyone)
        .description(format!(
            "Does the work of {name} on files, messages and calendars."
        ))
        .raw_handler(schema(), |_, _| async { Ok("done".into()) })
        .expect("a usable schema")
}

fn filled(count: usize, category: Category) -> Registry {
    let verbs = [
        "send", "list", "open", "merge", "close", "search", "update", "archive",
    ];
    let nouns = [
        "mail", "issue", "page", "task", "event", "photo", "invoice", "contact", "branch", "note",
    ];
    let registry = Registry::new(Deferral::On);
    registry
        .register_all((0..count).map(|index| {
            let (verb, noun) = (
                verbs[index % verbs.len()],
                nouns[index / verbs.len() % nouns.len()],
            );
            tool(&format!("{noun}_{verb}_{index}"), category)
        }))
        .expect("different names");
    registry
}

fn owner() -> Arc<Caller> {
    Arc::new(Caller::owner(
        Presence::vouched_by_ingress(),
        Ports::default(),
    ))
}

fn registry(criterion: &mut Criterion) {
    let inline = filled(1_000, Category::File);
    let deferred = filled(1_000, Category::Plugin);
    let caller = owner();
    let view = inline.view(&caller);
    criterion.bench_function("find in the registry", |bencher| {
        bencher.iter(|| inline.find(black_box("issue_open_10")));
    });
    criterion.bench_function("find in a view", |bencher| {
        bencher.iter(|| view.find(black_box("issue_open_10")));
    });
    criterion.bench_function("view of 1,000 inline", |bencher| {
        bencher.iter(|| inline.view(black_box(&caller)));
    });
    criterion.bench_function("view of 1,000 deferred", |bencher| {
        bencher.iter(|| deferred.view(black_box(&caller)));
    });
}

fn schemas(criterion: &mut Criterion) {
    criterion.bench_function("prepare a schema of our own", |bencher| {
        bencher.iter(|| PreparedSchema::new(black_box(schema())));
    });
    criterion.bench_function("prepare and compile a third-party schema", |bencher| {
        bencher.iter(|| PreparedSchema::third_party(black_box(schema())));
    });
}

fn dispatch(criterion: &mut Criterion) {
    let registry = filled(44, Category::File);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime");
    let scope = TurnScope {
        view: Arc::new(registry.view(&owner())),
        ids: TraceIds::default(),
        conversation: None,
        cwd: None,
        session_env: Arc::from([]),
        cancel: CancellationToken::new(),
        outside_sources: OutsideSources::clean(),
        origin: None,
        approval: None,
        frame: FrameId::new("00"),
    };
    let dispatcher = Dispatcher::new(Arc::new(Nowhere));
    criterion.bench_function("dispatch of nothing", |bencher| {
        bencher.iter_custom(|rounds| {
            runtime.block_on(async {
                let begun = Instant::now();
                for _ in 0..rounds {
                    let call = ToolCall {
                        call_id: "call".to_owned(),
                        name: "mail_send_0".to_owned(),
                        arguments: r#"{"path":"a","limit":"5"}"#.to_owned(),
                    };
                    black_box(dispatcher.call(&scope, call).await);
                }
                begun.elapsed()
            })
        });
    });
}

fn search(criterion: &mut Criterion) {
    let registry = filled(10_000, Category::Plugin);
    let view = registry.view(&owner());
    let catalog = Catalog::new();
    criterion.bench_function("search over 10,000", |bencher| {
        bencher
            .iter(|| catalog.search(&view, black_box("send an invoice by mail to a contact"), 5));
    });
    criterion.bench_function("index of 10,000", |bencher| {
        bencher.iter(|| Catalog::new().search(&view, black_box("invoice"), 5));
    });
}

criterion_group!(benches, registry, schemas, dispatch, search);
criterion_main!(benches);
