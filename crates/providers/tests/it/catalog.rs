//! What is configured, what is known about models, and where workers run.

use fermix_providers::{Catalog, Choice, ProviderId, Route, effort, rows};
use fermix_testkit::{FakeModel, Step};
use fermix_types::Effort;
use pretty_assertions::assert_eq;

use crate::support::{request, setup, try_setup};

fn slugs(routes: &[Route]) -> Vec<String> {
    routes
        .iter()
        .map(|route| format!("{}/{}", route.provider, route.model))
        .collect()
}

#[test]
fn routes_come_primary_first_and_then_in_table_order() {
    let keys = [
        ("MISTRAL_API_KEY", "m-key-123456"),
        ("OPENAI_API_KEY", "o-key-123456"),
        ("ANTHROPIC_API_KEY", "a-key-123456"),
    ];
    let cases: [(&str, &[&str]); 4] = [
        (
            "",
            &[
                "openai/gpt-5.5",
                "anthropic/claude-sonnet-4-6",
                "mistral/mistral-medium-latest",
            ],
        ),
        (
            "[fermix_core.providers.mistral]\nprimary = true\n",
            &[
                "mistral/mistral-medium-latest",
                "openai/gpt-5.5",
                "anthropic/claude-sonnet-4-6",
            ],
        ),
        (
            "[fermix_core.agent]\nprovider = \"anthropic\"\n",
            &[
                "anthropic/claude-sonnet-4-6",
                "openai/gpt-5.5",
                "mistral/mistral-medium-latest",
            ],
        ),
        (
            "[fermix_core.providers.ollama]\nbase_url = \"http://localhost:11434/v1\"\ndefault_model = \"qwen3:8b\"\n",
            &[
                "openai/gpt-5.5",
                "anthropic/claude-sonnet-4-6",
                "mistral/mistral-medium-latest",
                "ollama/qwen3:8b",
            ],
        ),
    ];
    for (toml, expected) in cases {
        assert_eq!(
            slugs(&try_setup(toml, &keys).unwrap().providers.routes()),
            expected,
            "{toml}"
        );
    }
    assert!(setup("").providers.routes().is_empty());
}

#[test]
fn what_cannot_work_is_named() {
    let cases = [
        (
            "[fermix_core.providers.openai]\nprimary = true\n",
            "set OPENAI_API_KEY",
        ),
        (
            "[fermix_core.providers.openai_codex]\nprimary = true\n",
            "`codex login`",
        ),
        (
            "[fermix_core.providers.openai_compatible]\nprimary = true\n",
            "base_url",
        ),
        (
            "[fermix_core.providers.ollama]\nprimary = true\n",
            "default_model",
        ),
    ];
    for (toml, expected) in cases {
        let problem = try_setup(toml, &[]).map(|_| ()).unwrap_err();
        assert!(problem.contains(expected), "{toml}: {problem}");
    }
}

#[test]
fn every_row_is_a_provider_of_the_configuration() {
    let configured: Vec<ProviderId> = fermix_config::ProviderId::ALL
        .into_iter()
        .map(ProviderId::from)
        .collect();
    assert_eq!(rows::ROWS.map(|row| row.id).to_vec(), configured);
    for id in ProviderId::ALL {
        assert_eq!(id.as_str().parse(), Ok(id));
    }
}

#[test]
fn facts_and_efforts_of_models() {
    use Effort::{High, Low, Max, None as Unset, XHigh};
    let catalog = Catalog::default();
    // provider, model, window, wanted effort, sent effort
    let cases = [
        (
            ProviderId::Openai,
            "gpt-5.5",
            272_000,
            Some(Max),
            Some(XHigh),
        ),
        (
            ProviderId::OpenaiCodex,
            "gpt-5.5",
            272_000,
            Some(Unset),
            None,
        ),
        (
            ProviderId::Openai,
            "gpt-5-2025-08-07",
            272_000,
            Some(XHigh),
            Some(High),
        ),
        (
            ProviderId::Openai,
            "gpt-5-pro",
            272_000,
            Some(Low),
            Some(High),
        ),
        (
            ProviderId::Openai,
            "gpt-5.9-moon",
            100_000,
            Some(Max),
            Some(XHigh),
        ),
        (
            ProviderId::Openai,
            "gpt-4o-2024-08-06",
            128_000,
            Some(High),
            None,
        ),
        (
            ProviderId::Anthropic,
            "claude-haiku-4-5-20251001",
            200_000,
            Some(High),
            None,
        ),
        (
            ProviderId::Anthropic,
            "claude-opus-4-6",
            200_000,
            Some(XHigh),
            Some(High),
        ),
        (
            ProviderId::Anthropic,
            "claude-opus-4-7",
            1_000_000,
            Some(XHigh),
            Some(XHigh),
        ),
        (ProviderId::Xai, "grok-4", 256_000, Some(High), None),
        (
            ProviderId::Xai,
            "grok-3-mini",
            131_072,
            Some(Max),
            Some(High),
        ),
        (
            ProviderId::Mistral,
            "mistral-large-latest",
            128_000,
            Some(High),
            None,
        ),
        (
            ProviderId::Openrouter,
            "nobody/knows",
            100_000,
            Some(High),
            None,
        ),
        (
            ProviderId::OpenaiCompatible,
            "qwen3:32b",
            40_960,
            None,
            None,
        ),
    ];
    for (provider, model, window, wanted, sent) in cases {
        let facts = catalog.facts(provider, model);
        assert_eq!(
            (facts.context_window, effort::for_model(&facts, wanted)),
            (window, sent),
            "{model}"
        );
    }
    assert!(effort::check(ProviderId::Anthropic, Unset).is_err());
    assert!(effort::check(ProviderId::Openai, Unset).is_ok());
    for (model, owner) in [
        ("qwen3:32b", Some("ollama")),
        ("gpt-5.5", Some("openai_codex")),
        ("gpt-99", None),
    ] {
        assert_eq!(catalog.owner_of(model), owner, "{model}");
    }
    // Every provider with models of its own has one to start with, and knows it.
    for row in rows::ROWS
        .iter()
        .filter(|row| row.address.is_some() && row.id != ProviderId::Ollama)
    {
        let model = catalog.default_model(row.id).unwrap();
        assert!(catalog.owners_of(model).contains(&row.id), "{model}");
    }
}

#[test]
fn the_owner_corrects_the_catalog() {
    let setup = setup(
        "[fermix_core.providers.openai_compatible]\nbase_url = \"http://127.0.0.1:9/v1\"\ndefault_model = \"a\"\n\
         context_window = 5000\nvision = true\ntools = false\n\n\
         [fermix_core.models.\"b\"]\ncontext_window = 7000\nvision = true\nmax_output = 99\n",
    );
    let facts = |route: &Route| {
        (
            route.context_window,
            route.max_output,
            route.vision,
            route.tools,
        )
    };
    assert_eq!(
        facts(&setup.providers.routes()[0]),
        (5000, 8192, true, false)
    );
    assert_eq!(
        facts(&setup.providers.route(None, Some("b")).unwrap()),
        (7000, 99, true, false)
    );
    assert_eq!(
        facts(&setup.providers.route(None, Some("c")).unwrap()),
        (100_000, 8192, false, false)
    );
}

#[test]
fn workers_run_where_call_routing_and_inheritance_say() {
    let setup = try_setup(
        "[fermix_core.providers.anthropic]\nprimary = true\nreasoning_effort = \"low\"\n",
        &[
            ("ANTHROPIC_API_KEY", "a-key-123456"),
            ("OPENROUTER_API_KEY", "r-key-123456"),
        ],
    )
    .unwrap();
    let inherited = setup.providers.routes();
    let choice = |provider: &str, model: &str, effort: Option<Effort>| Choice {
        provider: provider.parse().ok(),
        model: (!model.is_empty()).then(|| model.to_owned()),
        effort,
    };
    let none = Choice::default();
    let both = "anthropic/claude-sonnet-4-6 openrouter/openrouter/auto";
    let cases = [
        (none.clone(), none.clone(), Ok((both, Some(Effort::Low)))),
        (
            choice("", "", Some(Effort::High)),
            none.clone(),
            Ok((both, Some(Effort::High))),
        ),
        (
            none.clone(),
            choice("", "", Some(Effort::High)),
            Ok((both, Some(Effort::High))),
        ),
        (
            choice("openrouter", "", None),
            none.clone(),
            Ok(("openrouter/openrouter/auto", None)),
        ),
        (
            choice("", "claude-opus-4-7", None),
            none.clone(),
            Ok(("anthropic/claude-opus-4-7", Some(Effort::Low))),
        ),
        (
            choice("", "claude-opus-4-7", None),
            choice("openrouter", "x", None),
            Err("not of openrouter"),
        ),
        (
            choice("anthropic", "", None),
            choice("openrouter", "", Some(Effort::Max)),
            Ok(("anthropic/claude-sonnet-4-6", Some(Effort::Max))),
        ),
        (
            none.clone(),
            choice("openrouter", "new/model", None),
            Ok(("openrouter/new/model", None)),
        ),
        (
            none.clone(),
            choice("", "new-model", None),
            Ok(("anthropic/new-model", Some(Effort::Low))),
        ),
        (
            none.clone(),
            choice("openrouter", "qwen3:32b", None),
            Err("a model of ollama"),
        ),
        (
            none.clone(),
            choice("openrouter", "a\nb = 1", None),
            Err("control characters"),
        ),
        (
            choice("mistral", "", None),
            none.clone(),
            Err("not configured; configured: anthropic, openrouter"),
        ),
        (
            choice("", "", Some(Effort::None)),
            none,
            Err("no reasoning effort `none`"),
        ),
    ];
    for (call, routing, expected) in cases {
        let got = setup.providers.resolve(&call, &routing, &inherited);
        match (expected, got) {
            (Ok((routes, effort)), Ok(got)) => {
                assert_eq!(
                    (slugs(&got).join(" ").as_str(), got[0].effort),
                    (routes, effort),
                    "{call:?} {routing:?}"
                );
            }
            (Err(words), Err(error)) => assert!(error.to_string().contains(words), "{error}"),
            (expected, got) => panic!("{call:?} {routing:?}: expected {expected:?}, got {got:?}"),
        }
    }
}

#[tokio::test]
async fn a_model_without_tools_is_offered_none_and_mistral_gets_its_short_ids() {
    let model = FakeModel::script_loop(|_| Step::say("ok"));
    let no_tools = setup(&format!(
        "[fermix_core.providers.openai_compatible]\nbase_url = \"{}\"\ndefault_model = \"m\"\ntools = false\n",
        model.base_url()
    ));
    no_tools.first(&request("go")).await.0.unwrap();
    assert_eq!(model.last_request().tool_names(), Vec::<&str>::new());

    let model = FakeModel::start([
        Step::raw_call("file_read", r#"{"path":"a"}{"path":"b"}"#),
        Step::say("done"),
    ]);
    let mistral = setup(&format!(
        "[fermix_core.providers.mistral]\nbase_url = \"{}\"\napi_key = \"m-key-123456\"\n",
        model.base_url()
    ));
    let mut conversation = request("go");
    let (response, _) = mistral.first(&conversation).await.0.unwrap();
    crate::support::append(&mut conversation, &response, &[]);
    mistral
        .next(&mistral.providers.routes()[0], &conversation)
        .await
        .unwrap();
    let body = model.last_request().body.clone();
    let ids: Vec<&str> = body["messages"][2]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    assert!(
        ids.len() == 2
            && ids
                .iter()
                .all(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()))
    );
    assert_eq!(body.get("stream_options"), None);
}

#[tokio::test]
async fn parameters_follow_the_model() {
    // model, thinking, effort, temperature, max_tokens
    let cases = [
        (
            "claude-opus-4-7",
            Some("adaptive"),
            Some("xhigh"),
            None,
            128_000,
        ),
        (
            "claude-opus-4-6",
            Some("adaptive"),
            Some("high"),
            None,
            128_000,
        ),
        (
            "claude-sonnet-5-20270101",
            Some("adaptive"),
            Some("xhigh"),
            None,
            64_000,
        ),
        ("claude-haiku-4-5-20251001", None, None, Some(0.5), 64_000),
        ("claude-next", None, None, None, 8192),
    ];
    for (slug, thinking, effort, temperature, max_tokens) in cases {
        let model = FakeModel::start([Step::say("ok")]);
        let setup = setup(&format!(
            "[fermix_core.providers.anthropic]\nbase_url = \"{}\"\napi_key = \"key-0001-abcd\"\n\
             default_model = \"{slug}\"\nreasoning_effort = \"xhigh\"\n",
            model.base_url()
        ));
        setup.first(&request("go")).await.0.unwrap();
        let body = model.last_request().body.clone();
        assert_eq!(
            (
                body["thinking"]["type"].as_str(),
                body["output_config"]["effort"].as_str(),
                body["temperature"].as_f64()
            ),
            (thinking, effort, temperature),
            "{slug}"
        );
        assert_eq!(body["max_tokens"], max_tokens, "{slug}");
    }
}

#[tokio::test]
async fn a_custom_address_of_openai_speaks_chat() {
    let model = FakeModel::start([Step::say("ok")]);
    let setup = setup(&format!(
        "[fermix_core.providers.openai]\nbase_url = \"{}/\"\napi_key = \"key-0001-abcd\"\nreasoning_effort = \"max\"\n",
        model.base_url()
    ));
    setup.first(&request("go")).await.0.unwrap();
    let seen = model.last_request();
    assert_eq!(
        (seen.path.as_str(), seen.key.as_deref()),
        ("/v1/chat/completions", Some("key-0001-abcd"))
    );
    assert_eq!(
        (&seen.body["reasoning_effort"], seen.body.get("temperature")),
        (&"xhigh".into(), None)
    );
}
