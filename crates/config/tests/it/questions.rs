//! What a person asks the file about: whole sections, keys that are not quite right, and whether
//! a file that is accepted will do what it says.

use fermix_config::EditError;
use pretty_assertions::assert_eq;

use crate::support::TestHome;

const FILE: &str = "\
[fermix_core.agent]   # who
name = \"ferra\"      # hers

[fermix_core.providers.openai]
api_key = \"sk-hidden\"
default_model = \"m\"

[sandbox]
mode = \"open\"
env = { mode = \"all\", TOKEN = { command = \"pass\" } }
";

#[test]
fn a_section_is_shown_with_its_secrets_masked() {
    let test = TestHome::with_file(FILE);
    let file = test.open();
    let cases = [
        (
            "fermix_core",
            Some(
                "[fermix_core.agent]   # who\nname = \"ferra\"      # hers\n\n\
                 [fermix_core.providers.openai]\napi_key = \"***\"\ndefault_model = \"m\"\n",
            ),
        ),
        (
            "fermix_core.providers",
            Some("[fermix_core.providers.openai]\napi_key = \"***\"\ndefault_model = \"m\"\n"),
        ),
        (
            "sandbox.env",
            Some("[sandbox.env]\nmode = \"all\"\nTOKEN = { command = \"pass\" }\n"),
        ),
        (
            "sandbox.env.TOKEN",
            Some("[sandbox.env.TOKEN]\ncommand = \"pass\"\n"),
        ),
        ("fermix_channels", Some("")),
        ("fermix_core.models.\"a.b\"", Some("")),
        ("sandbox.mode", None),
        ("sandbox.moed", None),
    ];
    for (key, expected) in cases {
        let shown = file.section(key).unwrap();
        assert_eq!(shown.as_deref(), expected, "{key}");
        if let Some(text) = shown {
            TestHome::with_file(&text.replace("***", "key"))
                .load()
                .unwrap();
        }
    }
    assert!(matches!(
        file.section("a..b"),
        Err(EditError::NotAKey { .. })
    ));
}

#[test]
fn a_key_that_is_not_quite_right_is_answered_with_the_right_one() {
    const PROVIDERS: &str = "no such provider; accepted: openai_codex, openai, anthropic, xai, openrouter, mistral, ollama, openai_compatible";
    const QUOTES: &str = "a part with dots needs quotes, and those need quotes for a shell: write";
    let cases = [
        ("sandbox.moed", "; did you mean `sandbox.mode`?".to_owned()),
        ("sandbxo.moed", "; did you mean `sandbox.mode`?".to_owned()),
        (
            "agent.name",
            "; did you mean `fermix_core.agent.name`?".to_owned(),
        ),
        (
            "agent.nmae",
            "; did you mean `fermix_core.agent.name`?".to_owned(),
        ),
        ("agent", "; did you mean `fermix_core.agent`?".to_owned()),
        (
            "models.x.vision",
            "; did you mean `fermix_core.models.x.vision`?".to_owned(),
        ),
        (
            "fermix_channels.telegrm.owner_user_id",
            "; did you mean `fermix_channels.telegram.owner_user_id`?".to_owned(),
        ),
        (
            "telegram.owner_user_id",
            "; did you mean `fermix_channels.telegram.owner_user_id`?".to_owned(),
        ),
        (
            "fermix_core.models.gpt-4.1.vision",
            format!(": {QUOTES} 'fermix_core.models.\"gpt-4.1\".vision'"),
        ),
        (
            "models.gpt-4.1.vision",
            format!(": {QUOTES} 'fermix_core.models.\"gpt-4.1\".vision'"),
        ),
        (
            "fermix_core.models.gpt-4.visoin",
            "; did you mean `fermix_core.models.gpt-4.vision`?".to_owned(),
        ),
        ("fermix_core.providers.foo", format!(": {PROVIDERS}")),
        (
            "fermix_core.providers.foo.api_key",
            format!(": {PROVIDERS}"),
        ),
        ("providers.foo", format!(": {PROVIDERS}")),
        (
            "fermix_core.providers.opena.base_url",
            "; did you mean `fermix_core.providers.openai.base_url`?".to_owned(),
        ),
        (
            "fermix_channels.matrix.owner_user_id",
            ": no such channel; accepted: discord, signal, slack, telegram, whatsapp".to_owned(),
        ),
        ("colour", String::new()),
    ];
    let test = TestHome::new();
    for (key, answer) in cases {
        let expected = format!("unknown key `{key}`{answer}");
        assert_eq!(test.set(key, "true"), Err(expected.clone()));
        assert_eq!(test.open().get(key).unwrap_err().to_string(), expected);
    }
    for (key, words) in [
        ("sandbox", "it is a section; name one of its keys"),
        ("fermix_core.models.qwen3:32b.vision", "with quotes"),
        ("a..b", "is not a dotted key"),
    ] {
        let error = test.set(key, "true").unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_provider_that_cannot_be_asked_is_named_with_the_fix() {
    const CANNOT: &str = "so no question can be answered";
    let block = |name: &str, rest: &str| format!("[fermix_core.providers.{name}]\n{rest}\n");
    let base = "base_url = \"http://localhost:1/v1\"";
    let model = "default_model = \"m\"";
    let primary = "primary = true";
    // (file, words of the one warning; none when there is to be none)
    let cases: Vec<(String, Vec<&str>)> = vec![
        (String::new(), vec![]),
        (
            block("openai_compatible", base),
            vec![
                CANNOT,
                "set `fermix_core.providers.openai_compatible.default_model`",
            ],
        ),
        (
            block("ollama", base),
            vec![CANNOT, "set `fermix_core.providers.ollama.default_model`"],
        ),
        (
            block("ollama", primary),
            vec![CANNOT, "set `fermix_core.providers.ollama.default_model`"],
        ),
        (
            block("ollama", model),
            vec![
                "ollama is ignored: no base_url",
                "set `fermix_core.providers.ollama.base_url`",
            ],
        ),
        (
            block("openai_compatible", model),
            vec!["openai_compatible is ignored: no base_url"],
        ),
        (
            block("openai_compatible", primary),
            vec![CANNOT, "has no base_url"],
        ),
        (block("ollama", &format!("{base}\n{model}")), vec![]),
        (block("ollama", &format!("{primary}\n{model}")), vec![]),
        (
            block("openai_compatible", &format!("{base}\n{model}\n{primary}")),
            vec![],
        ),
        (
            block("anthropic", primary),
            vec![
                CANNOT,
                "run `fermix secrets set anthropic` or set the environment variable ANTHROPIC_API_KEY",
            ],
        ),
        (
            "[fermix_core.agent]\nprovider = \"xai\"\n".to_owned(),
            vec![CANNOT, "XAI_API_KEY"],
        ),
        (
            block("openrouter", model),
            vec!["openrouter is ignored: no key", "OPENROUTER_API_KEY"],
        ),
        (block("openrouter", ""), vec![]),
        // The key is in the environment.
        (block("mistral", primary), vec![]),
        (
            block("openai_codex", primary),
            vec![CANNOT, "nobody is signed in"],
        ),
    ];
    let test = TestHome::with_variables(&[("MISTRAL_API_KEY", "a-key")]);
    for (text, words) in cases {
        test.write(&text);
        let warnings = test.load().unwrap().warnings;
        assert_eq!(
            warnings.len(),
            usize::from(!words.is_empty()),
            "{text}: {warnings:?}"
        );
        for word in words {
            assert!(warnings[0].contains(word), "{text}: {warnings:?}");
        }
    }
    std::fs::write(test.home.auth_file(), "{}").unwrap();
    test.write(&block("openai_codex", primary));
    assert_eq!(test.load().unwrap().warnings, Vec::<String>::new());
}
