//! What the owner reads, from what the server said.

use fermix_providers::ErrorKind;
use fermix_testkit::{FakeModel, Step};
use pretty_assertions::assert_eq;

use crate::support::{request, setup};

/// The commands there are. A sentence that names another sends its reader nowhere.
const VERBS: [&str; 9] = [
    "secrets",
    "ask",
    "capabilities",
    "tools",
    "config",
    "traces",
    "completions",
    "version",
    "help",
];

struct Case {
    provider: &'static str,
    step: Step,
    kind: ErrorKind,
    sentence: &'static [&'static str],
}

fn case(
    provider: &'static str,
    step: Step,
    kind: ErrorKind,
    sentence: &'static [&'static str],
) -> Case {
    Case {
        provider,
        step,
        kind,
        sentence,
    }
}

#[tokio::test]
async fn each_failure_has_its_sentence_and_none_shows_a_secret() {
    let limit = r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_in_seconds":3541}}"#;
    let later =
        r#"{"error":{"type":"usage_limit_reached","message":"no more","resets_at":1800000600}}"#;
    let quoted = r#"{"error":{"message":"Incorrect API key provided: key-0001-abcdefgh","type":"invalid_request_error","code":"invalid_api_key"}}"#;
    let cases = [
        case(
            "mistral",
            Step::status(401).with_body(quoted),
            ErrorKind::Auth,
            &["API key", "`MISTRAL_API_KEY`", "[secret]"],
        ),
        case(
            "xai",
            Step::status(403),
            ErrorKind::Auth,
            &[
                "no API access",
                "`fermix config set`",
                "fermix_core.providers.xai.primary",
            ],
        ),
        case(
            "openrouter",
            Step::status(402).with_message("add credits"),
            ErrorKind::Quota,
            &["billing", "add credits"],
        ),
        case(
            "openrouter",
            Step::status(429),
            ErrorKind::RateLimit,
            &["Wait a moment"],
        ),
        case(
            "openrouter",
            Step::status(429).with_header("retry-after", "1500"),
            ErrorKind::RateLimit,
            &["resets in 25 min"],
        ),
        // A success that is none.
        case(
            "mistral",
            Step::status(200).with_body(limit),
            ErrorKind::RateLimit,
            &["of the plus plan", "resets in 60 min"],
        ),
        case(
            "xai",
            Step::status(200).with_body(format!("\n [{quoted}]")),
            ErrorKind::Auth,
            &["API key", "[secret]"],
        ),
        case(
            "anthropic",
            Step::say("x").with_raw(0, "{\"error\": {\"message\": \"no such deployment\"}}\n\n"),
            ErrorKind::Provider,
            &["“no such deployment”", "`fermix traces`"],
        ),
        case(
            "mistral",
            Step::status(200).with_body("{\"data\": []}"),
            ErrorKind::Transport,
            &["a document instead of a stream"],
        ),
        case(
            "mistral",
            Step::status(429).with_body(limit),
            ErrorKind::RateLimit,
            &["of the plus plan", "resets in 60 min"],
        ),
        case(
            "mistral",
            Step::status(429).with_body(later),
            ErrorKind::RateLimit,
            &["resets in 10 min"],
        ),
        case(
            "anthropic",
            Step::status(529).with_message("Overloaded").times(4),
            ErrorKind::ProviderUnavailable,
            &["“Overloaded”", "another provider"],
        ),
        case(
            "anthropic",
            Step::status(400).with_message("prompt is too long: 210000 tokens > 200000 maximum"),
            ErrorKind::ContextLength,
            &["outgrown the window of slug", "`--session`"],
        ),
        case(
            "anthropic",
            Step::status(413).with_message("request_too_large"),
            ErrorKind::Provider,
            &["`fermix traces` has the details"],
        ),
        case(
            "ollama",
            Step::status(404).with_message("model not found"),
            ErrorKind::Provider,
            &["`ollama pull slug`"],
        ),
        case(
            "mistral",
            Step::status(422).with_body(r#"{"detail":"field required"}"#),
            ErrorKind::Provider,
            &["“field required”"],
        ),
        case(
            "mistral",
            Step::status(422).with_body(r#"{"detail":[{"msg":"too\n short"}]}"#),
            ErrorKind::Provider,
            &["“too short”"],
        ),
        case(
            "mistral",
            Step::status(502)
                .with_body("<html>secret page</html>")
                .times(4),
            ErrorKind::ProviderUnavailable,
            &["status 502"],
        ),
        case(
            "mistral",
            Step::status(400).with_message("Image input is not supported"),
            ErrorKind::ImageUnsupported,
            &["takes no images"],
        ),
        case(
            "ollama",
            Step::status(500).with_message("input length exceeds the context size (4096 tokens)"),
            ErrorKind::ContextLength,
            &["outgrown"],
        ),
        case(
            "ollama",
            Step::status(500).with_message("image input is not supported"),
            ErrorKind::ImageUnsupported,
            &["slug takes no images"],
        ),
        case(
            "xai",
            Step::status(400)
                .with_body(r#"{"code":"invalid argument","error":"Incorrect API key provided"}"#),
            ErrorKind::Auth,
            &["`XAI_API_KEY`"],
        ),
        case(
            "ollama",
            Step::say("x").stall_after(0),
            ErrorKind::Cancelled,
            &["Stopped"],
        ),
    ];
    for case in cases {
        let model = FakeModel::start([case.step]);
        let key = if case.provider == "ollama" {
            ""
        } else {
            "api_key = \"key-0001-abcdefgh\"\n"
        };
        let setup = setup(&format!(
            "[fermix_core.providers.{}]\n{key}base_url = \"{}\"\ndefault_model = \"slug\"\n",
            case.provider,
            model.base_url()
        ));
        if case.kind == ErrorKind::Cancelled {
            setup.cancel.cancel();
        }
        let error = setup.first(&request("go")).await.0.unwrap_err();
        let sentence = error.user_sentence();
        assert_eq!(error.kind, case.kind, "{}: {sentence}", case.provider);
        for part in case.sentence {
            assert!(
                sentence.contains(part),
                "{}: {part}: {sentence}",
                case.provider
            );
        }
        assert!(
            !error.job_sentence().contains("`/"),
            "{}",
            error.job_sentence()
        );
        for word in sentence.split("`fermix ").skip(1) {
            let verb = word.split([' ', '`']).next().unwrap();
            assert!(VERBS.contains(&verb), "{verb}: {sentence}");
        }
        for leak in ["key-0001", "<html>", "{\"", "Bearer"] {
            assert!(
                !sentence.contains(leak) && !format!("{error:?}").contains(leak),
                "{leak}: {error:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_wait_may_be_given_as_a_date() {
    // The test's clock shows Fri, 15 Jan 2027 08:00:00 GMT.
    for (date, requests) in [
        ("Fri, 15 Jan 2027 08:00:00 GMT", 2),
        ("Fri, 15 Jan 2027 08:00:31 GMT", 1),
    ] {
        let steps = vec![
            Step::status(429).with_header("retry-after", date),
            Step::say("ok"),
        ];
        let model = FakeModel::start(steps);
        let setup = setup(&format!(
            "[fermix_core.providers.openai_compatible]\nbase_url = \"{}\"\ndefault_model = \"m\"\n",
            model.base_url()
        ));
        let outcome = setup.first(&request("go")).await.0;
        assert_eq!(
            (outcome.is_ok(), model.request_count()),
            (requests == 2, requests),
            "{date}"
        );
    }
}
