//! From text to settings: what is accepted, what is refused, and in which words.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use fermix_config::{
    ApiKey, ChannelConfig, Config, ConfigError, ConfigFile, EnvLookup, EnvMode, KeySetting,
    Overrides, ProviderId, RouteSetting, Routing, RoutingError, validate_routing,
};
use fermix_types::{Effort, SandboxMode};
use pretty_assertions::assert_eq;

use crate::support::TestHome;

const WHOLE: &str = r#"
[fermix_core]
timezone = "Europe/Berlin"

[fermix_core.agent]
name = "ferra"
guest_persona = true
daily_token_budget = 0

[fermix_core.personalization]
user_name = "Ada"
communication_style = """
short
and dry"""

[fermix_core.providers.openai_codex]
reasoning_effort = "xhigh"
fast = true

[fermix_core.providers.anthropic]
primary = true
auth_mode = "api_key"
default_model = "claude-x"
reasoning_effort = "low"

[fermix_core.providers]
ollama = { base_url = "http://10.0.0.2:11434/v1" }
openai_compatible.base_url = "http://localhost:1234/v1"
openai_compatible.context_window = 32_768
openai_compatible.vision = false
openai_compatible.tools = true

[fermix_core.routing]
subagent_provider = "openrouter"
subagent_model = "some/model"
cron_reasoning_effort = "none"

[fermix_core.models."qwen3:32b"]
context_window = 40000
max_output = 4000
effort_ceiling = "high"
vision = true

[fermix_core.tools.tool_search]
enabled = false

[sandbox]
mode = "strict"
workspace_root = "~/work"
allowed_roots = ["/srv/a", "~"]
blocked_roots = ["/srv/a/b"]

[sandbox.env]
mode = "all"
allow = ["EDITOR"]
deny = ["LESS"]

[sandbox.env.TOKEN]
command = "pass"
args = ["show", ""]
timeout_ms = 50

[sandbox.env.sources.OTHER]
name = "REAL_NAME"

[fermix_channels]
coalesce = false

[fermix_channels.telegram]
owner_user_id = 123
allowed_user_ids = [7, "08"]
"#;

#[test]
fn a_whole_file_arrives_where_it_belongs() {
    let test = TestHome::with_file(WHOLE);
    let config = test.load().unwrap();
    let os_home = test.os_home();

    assert_eq!(config.timezone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(config.owner_timezone(), Some("Europe/Berlin"));
    assert_eq!(
        (config.agent.name.as_str(), config.agent.guest_persona),
        ("ferra", true)
    );
    assert_eq!(config.agent.daily_token_budget, Some(0));
    assert_eq!(
        config.personalization.communication_style.as_deref(),
        Some("short\nand dry")
    );
    assert_eq!(config.named_primary(), Some(ProviderId::Anthropic));
    let codex = config.providers.get(ProviderId::OpenaiCodex);
    assert_eq!(
        (codex.reasoning_effort, codex.fast),
        (Some(Effort::XHigh), true)
    );
    let local = config.providers.get(ProviderId::OpenaiCompatible);
    assert_eq!(
        (local.context_window, local.vision, local.tools),
        (Some(32_768), Some(false), Some(true))
    );
    assert_eq!(
        config.providers.get(ProviderId::Ollama).base_url.as_deref(),
        Some("http://10.0.0.2:11434/v1")
    );
    assert_eq!(
        config.routing.subagent.provider,
        Some(ProviderId::Openrouter)
    );
    assert_eq!(config.routing.cron.reasoning_effort, Some(Effort::None));
    assert_eq!(
        config.models["qwen3:32b"].effort_ceiling,
        Some(Effort::High)
    );
    assert!(!config.tool_search);
    assert_eq!(config.sandbox.mode, SandboxMode::Strict);
    assert_eq!(config.sandbox.workspace_root, os_home.join("work"));
    assert_eq!(
        config.sandbox.allowed_roots,
        ["/srv/a".into(), os_home.to_owned()]
    );
    assert_eq!(config.sandbox.env.mode, EnvMode::All);
    assert_eq!(
        config.sandbox.env.lookup("TOKEN"),
        EnvLookup::Command {
            command: "pass",
            args: &["show".to_owned(), String::new()],
            timeout_ms: 50
        }
    );
    assert_eq!(
        config.sandbox.env.lookup("OTHER"),
        EnvLookup::Variable("REAL_NAME")
    );
    assert_eq!(
        config.sandbox.env.lookup("EDITOR"),
        EnvLookup::Variable("EDITOR")
    );
    assert!(!config.channels.coalesce);
    assert_eq!(
        config.channels.by_name["telegram"],
        ChannelConfig {
            owner_user_id: Some("123".to_owned()),
            allowed_user_ids: vec!["7".to_owned(), "08".to_owned()]
        }
    );
    assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
}

#[test]
fn no_file_and_an_empty_file_are_the_defaults() {
    let test = TestHome::new();
    let defaults = Config::defaults(&test.home);
    assert_eq!(test.load().unwrap(), defaults);
    for text in [
        "",
        "\u{feff}",
        "# nothing\r\n",
        "[sandbox]\n[fermix_core.providers.openai]\n",
    ] {
        test.write(text);
        assert_eq!(test.load().unwrap(), defaults, "{text:?}");
    }
    assert!(defaults.tool_search && defaults.channels.coalesce && !defaults.agent.guest_persona);
    assert_eq!(defaults.sandbox.workspace_root, test.home.workspace());
}

#[test]
fn refusals_name_line_section_key_value_and_the_way_out() {
    // (file, what the message is)
    let cases: &[(&str, &str)] = &[
        (
            "[fermix_core.providers.openai]\n\napi_kye = \"x\"\n",
            "config.toml:3: [fermix_core.providers.openai] api_kye: unknown key; did you mean `api_key`?",
        ),
        (
            "[fermix_core.provider.openai]\n",
            "config.toml:1: [fermix_core] provider: unknown section; did you mean `providers`?",
        ),
        (
            "[fermix_core.providers.opena]\n",
            "config.toml:1: [fermix_core.providers] opena: no such provider; accepted: openai_codex, openai, anthropic, xai, openrouter, mistral, ollama, openai_compatible; did you mean `openai`?",
        ),
        (
            "[fermix_core.models.gpt-4.1]\nvision = true\n",
            "config.toml:1: [fermix_core.models.gpt-4] 1: unknown section; a name with dots needs quotes: [fermix_core.models.\"gpt-4.1\"]",
        ),
        (
            "[sandbox]\nmod = \"open\"\n",
            "config.toml:2: [sandbox] mod: unknown key; did you mean `mode`?",
        ),
        ("colour = 1\n", "config.toml:1: colour: unknown key"),
        (
            "[sandbox]\nmode = \"stirct\"\n",
            "config.toml:2: [sandbox] mode: \"stirct\" is not accepted; accepted: strict, standard, open; did you mean `strict`?",
        ),
        (
            "[sandbox]\nmode = true\n",
            "config.toml:2: [sandbox] mode: `true` is not accepted; accepted: strict, standard, open",
        ),
        (
            "sandbox.mode = \"developer\"\n",
            "config.toml:1: [sandbox] mode: \"developer\" is not accepted: it is called `standard` now; run `fermix config set sandbox.mode standard`",
        ),
        (
            "[sandbox]\nmode = \"workspace\"\n",
            "config.toml:2: [sandbox] mode: \"workspace\" is not accepted: it is called `strict` now; run `fermix config set sandbox.mode strict`",
        ),
        (
            "[sandbox]\nmode = \"trusted_local\"\n",
            "config.toml:2: [sandbox] mode: \"trusted_local\" is not accepted: it is called `open` now; run `fermix config set sandbox.mode open`",
        ),
        (
            "[fermix_core.providers.xai]\nauth_mode = \"oauth\"\n",
            "config.toml:2: [fermix_core.providers.xai] auth_mode: \"oauth\" is not accepted: this provider takes API keys only; use `api_key` and give the key",
        ),
        (
            "[fermix_core.tools.tool_search]\nenabled = \"yes\"\n",
            "config.toml:2: [fermix_core.tools.tool_search] enabled: \"yes\" is not accepted; accepted: true, false",
        ),
        (
            "[fermix_core.agent]\ndaily_token_budget = -1\n",
            "config.toml:2: [fermix_core.agent] daily_token_budget: `-1` is not accepted; expected: whole number, at least 0, for example 4096",
        ),
        (
            "[fermix_core.agent]\ndaily_token_budget = 1.5\n",
            "config.toml:2: [fermix_core.agent] daily_token_budget: is a fraction; expected: whole number, at least 0, for example 4096",
        ),
        (
            "[fermix_core.compaction]\nthreshold = 0.05\n",
            "config.toml:2: [fermix_core.compaction] threshold: `0.05` is not accepted; expected: number, 0.1 to 1, for example 0.75",
        ),
        (
            "[fermix_core.compaction]\nthreshold = 2\n",
            "config.toml:2: [fermix_core.compaction] threshold: `2` is not accepted; expected: number, 0.1 to 1, for example 0.75",
        ),
        (
            "[fermix_core.compaction]\nthreshold = nan\n",
            "config.toml:2: [fermix_core.compaction] threshold: `nan` is not accepted; expected: number, 0.1 to 1, for example 0.75",
        ),
        (
            "[fermix_core.compaction]\nthreshold = \"0.5\"\n",
            "config.toml:2: [fermix_core.compaction] threshold: \"0.5\" is not accepted; expected: number, 0.1 to 1, for example 0.75",
        ),
        (
            "[fermix_core.compaction]\nreasoning_effort = \"maximum\"\n",
            "config.toml:2: [fermix_core.compaction] reasoning_effort: \"maximum\" is not accepted; accepted: none, low, medium, high, xhigh, max",
        ),
        (
            "[fermix_core.agent.name]\n",
            "config.toml:1: [fermix_core.agent] name: is a section; expected: string, one line, at most 100 characters, for example \"a name\"",
        ),
        (
            "sandbox = 3\n",
            "config.toml:1: sandbox: is a section; write its keys below one header of that name",
        ),
        (
            "[[sandbox]]\n",
            "config.toml:1: sandbox: is a section; write its keys below one header of that name",
        ),
        (
            "[sandbox]\nallowed_roots = [\"/a\", \" \"]\n",
            "config.toml:2: [sandbox] allowed_roots: entry 2: is blank; remove the line or give a value (expected: path starting with `/` or `~/`, for example \"/srv/work\")",
        ),
        (
            "[sandbox]\nallowed_roots = [\"a/b\"]\n",
            "config.toml:2: [sandbox] allowed_roots: entry 1: \"a/b\": a relative path has no fixed meaning here; start it with `/` or `~/`",
        ),
        (
            "[sandbox.env]\nallow = [\"A B\"]\n",
            "config.toml:2: [sandbox.env] allow: entry 1: \"A B\" is not accepted; expected: name of an environment variable, for example \"EDITOR\"",
        ),
        (
            "[sandbox.env.X]\nsource = \"command\"\n",
            "config.toml:2: [sandbox.env.X] source: is `command`, but no `command` is given; add the helper's program",
        ),
        (
            "[sandbox.env.X]\nname = \"Y\"\ncommand = \"pass\"\n",
            "config.toml:2: [sandbox.env.X] name: has no meaning beside `command`; remove one of them",
        ),
        (
            "[sandbox.env.X]\ntimeout_ms = 0\n",
            "config.toml:2: [sandbox.env.X] timeout_ms: `0` is not accepted; expected: whole number, 1 to 60000, for example 4096",
        ),
        (
            "[sandbox.env.X]\nname = \"Y\"\n[sandbox.env.sources.X]\nname = \"Z\"\n",
            "config.toml:4: [sandbox.env.sources.X] name: is the same setting as `sandbox.env.X.name`; keep one of them",
        ),
        (
            "[fermix_core]\ntimezone = \"Mars/Olympus\"\n",
            "config.toml:2: [fermix_core] timezone: \"Mars/Olympus\" is not accepted; expected: IANA time zone, for example \"Europe/Berlin\"",
        ),
        (
            "[fermix_core.routing]\ncron_model = \"a\\nb\"\n",
            "config.toml:2: [fermix_core.routing] cron_model: \"a\\nb\" has a control character; remove it",
        ),
        (
            "[fermix_core.routing]\ncron_provider = \"anthropic\"\ncron_reasoning_effort = \"none\"\n",
            "config.toml:3: [fermix_core.routing] cron_reasoning_effort: \"none\" is not accepted with anthropic; accepted: low, medium, high, xhigh, max",
        ),
        (
            "[fermix_core.routing]\nsubagent_provider = \"opnrouter\"\n",
            "config.toml:2: [fermix_core.routing] subagent_provider: \"opnrouter\" is not accepted; accepted: openai_codex, openai, anthropic, xai, openrouter, mistral, ollama, openai_compatible; did you mean `openrouter`?",
        ),
        (
            "[fermix_core.providers.mistral]\nbase_url = \"ftp://h/\"\n",
            "config.toml:2: [fermix_core.providers.mistral] base_url: \"ftp://h/\": must start with `http://` or `https://` and name a host",
        ),
        (
            "[fermix_core.providers.mistral]\nbase_url = \"https://me:hunter2@h/v1\"\n",
            "config.toml:2: [fermix_core.providers.mistral] base_url: \"h/v1\": must not hold a user name or password; give the key as `api_key`",
        ),
        (
            "[fermix_core.providers.openrouter]\nreasoning_effort = \"low\"\n",
            "config.toml:2: [fermix_core.providers.openrouter] reasoning_effort: unknown key",
        ),
        (
            "[fermix_channels.telegarm]\nowner_user_id = 1\n",
            "config.toml:1: [fermix_channels] telegarm: no such channel; accepted: discord, signal, slack, telegram, whatsapp; did you mean `telegram`?",
        ),
        (
            "[fermix_channels.slack]\nowner_user_id = \"\"\n",
            "config.toml:2: [fermix_channels.slack] owner_user_id: is blank; remove the line or give a value (expected: string or whole number, for example \"12345\")",
        ),
        (
            "[fermix_core.providers.xai]\nprimary = true\n[fermix_core.providers.mistral]\nprimary = true\n",
            "config.toml:2: [fermix_core.providers.xai] primary: is true, and so is `fermix_core.providers.mistral.primary`; only one provider can be asked first",
        ),
        (
            "[sandbox]\nmode = 1\nmoed = 2\n",
            "config.toml:2: [sandbox] mode: `1` is not accepted; accepted: strict, standard, open\nconfig.toml:3: [sandbox] moed: unknown key; did you mean `mode`?",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(TestHome::with_file(text).refusal(), *expected);
    }
    for (text, line) in [
        ("[sandbox]\nmode = \n", 2),
        ("[sandbox\n", 1),
        ("a = 1\n\na = 2\n", 3),
    ] {
        let found = TestHome::with_file(text).refusal();
        assert!(
            found.starts_with(&format!("config.toml:{line}: not valid TOML: ")),
            "{found}"
        );
    }
}

#[test]
fn a_key_is_never_repeated_in_a_message_or_in_debug_output() {
    const KEY: &str = "sk-topsecret0123456789";
    let block = "[fermix_core.providers.openai]\n";
    let broken = [
        format!("{block}api_key = \"{KEY}\n"),
        format!("{block}api_key = \"{KEY} with space\"\n"),
        format!("{block}api_key = {KEY}\n"),
        format!("{block}api_key = [\"{KEY}\"]\n"),
        format!("{block}api_key = {{ value = \"{KEY}\" }}\n"),
        format!("{block}api_kye = \"{KEY}\"\n"),
        format!("{block}base_url = \"https://{KEY}@host/v1\"\n"),
        format!("{block}api_key = \"@vault\" # {KEY}\n"),
    ];
    for text in &broken {
        let test = TestHome::with_file(text);
        let error = test.load().expect_err("not accepted");
        assert!(
            !format!("{error} {error:?}").contains("topsecret"),
            "{error:?}"
        );
    }

    let test = TestHome::with_file(&format!("{block}api_key = \"{KEY}\"\n"));
    fs::set_permissions(test.home.config_file(), fs::Permissions::from_mode(0o644)).unwrap();
    let config = test.load().unwrap();
    assert!(!format!("{config:?}").contains("topsecret"));
    assert_eq!(
        config
            .providers
            .get(ProviderId::Openai)
            .api_key
            .as_ref()
            .and_then(KeySetting::text)
            .map(ApiKey::expose),
        Some(KEY)
    );
    let warnings = config.warnings.join("\n");
    assert!(
        warnings.contains("run `fermix secrets migrate` to move it"),
        "{warnings}"
    );
    assert!(
        warnings.contains("mode 644") && !warnings.contains("topsecret"),
        "{warnings}"
    );
}

#[test]
fn invocation_wins_over_environment_wins_over_file() {
    const FILE: &str = "[fermix_core.providers.xai]\napi_key = \"file\"\nbase_url = \"http://file/v1\"\n\
                        [fermix_core.providers.mistral]\napi_key = \"file\"\n[sandbox]\nmode = \"strict\"\n";
    let test = TestHome::with_variables(&[
        ("XAI_API_KEY", " env \n"),
        ("XAI_BASE_URL", "http://env/v1"),
        ("MISTRAL_API_KEY", "  "),
        ("OLLAMA_BASE_URL", "http://localhost:1/v1"),
        ("OPENAI_COMPATIBLE_API_KEY", "own"),
        ("TELEGRAM_BOT_TOKEN", "ignored"),
    ]);
    test.write(FILE);
    let overrides = Overrides::default()
        .with("fermix_core.providers.xai.base_url", "http://flag/v1")
        .with("fermix_core.models.\"a:b\".vision", "true")
        .with("sandbox.mode", "open");
    let config = Config::load(&test.home, &test.environment, &overrides).unwrap();
    let key = |id| {
        config
            .providers
            .get(id)
            .api_key
            .as_ref()
            .and_then(KeySetting::text)
            .map(ApiKey::expose)
    };
    assert_eq!(key(ProviderId::Xai), Some("env"));
    assert_eq!(
        key(ProviderId::Mistral),
        Some("file"),
        "a blank variable counts as unset"
    );
    assert_eq!(key(ProviderId::OpenaiCompatible), Some("own"));
    assert_eq!(
        config.providers.get(ProviderId::Xai).base_url.as_deref(),
        Some("http://flag/v1")
    );
    assert_eq!(
        config.providers.get(ProviderId::Ollama).base_url.as_deref(),
        Some("http://localhost:1/v1")
    );
    assert_eq!(config.sandbox.mode, SandboxMode::Open);
    assert_eq!(config.models["a:b"].vision, Some(true));

    let broken = TestHome::with_variables(&[
        ("OLLAMA_BASE_URL", "localhost"),
        ("FERMIX_XAI_AUTH_MODE", "oauth"),
    ]);
    let overrides = Overrides::default()
        .with("sandbox.mod", "open")
        .with("sandbox", "open");
    let error = Config::load(&broken.home, &broken.environment, &overrides)
        .unwrap_err()
        .to_string();
    for part in [
        "environment variable OLLAMA_BASE_URL: [fermix_core.providers.ollama] base_url: \"localhost\": not an address",
        "environment variable FERMIX_XAI_AUTH_MODE: [fermix_core.providers.xai] auth_mode: \"oauth\" is not accepted",
        "command line: [sandbox] mod: unknown key; did you mean `mode`?",
        "command line: sandbox: is a section; name one of its keys",
    ] {
        assert!(error.contains(part), "{part}\nnot in\n{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_not_an_empty_one() {
    let test = TestHome::new();
    let path = test.home.config_file();
    fs::write(&path, b"[sandbox]\nmode = \"\xff\"\n").unwrap();
    assert_eq!(
        test.refusal(),
        "cannot read `config.toml`: line 2 is not UTF-8; save the file as UTF-8"
    );
    fs::write(&path, "#".repeat(1024 * 1024 + 1)).unwrap();
    assert!(test.refusal().contains("larger than"));
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(test.home.root().join("gone"), &path).unwrap();
    assert!(matches!(test.load(), Err(ConfigError::Unreadable { .. })));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(test.refusal().contains("not a regular file"));
}

#[test]
fn a_pipe_or_a_device_is_refused_without_waiting_for_it() {
    let test = TestHome::new();
    let path = test.home.config_file();
    let pipe = || {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
    };
    pipe().unwrap();
    assert!(test.refusal().contains("not a regular file"));
    assert!(ConfigFile::open(&test.home).is_err());
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    assert!(test.refusal().contains("not a regular file"));
    fs::remove_file(&path).unwrap();

    let lock = test.home.root().join("config.toml.lock");
    pipe().unwrap();
    fs::rename(&path, &lock).unwrap();
    let error = test
        .set("sandbox.mode", "open")
        .expect_err("a pipe is no lock");
    assert!(error.contains("cannot lock"), "{error}");
}

#[test]
fn a_model_runs_only_where_it_is_sold() {
    let owner = |slug: &str| match slug {
        "gpt-5" => Some("openai"),
        "qwen3:32b" => Some("ollama"),
        _ => None,
    };
    let route = |provider: Option<ProviderId>, model: &str| Routing {
        subagent: RouteSetting {
            provider,
            model: Some(model.to_owned()),
            reasoning_effort: None,
        },
        cron: RouteSetting::default(),
    };
    let check =
        |provider, model: &str, primary| validate_routing(&route(provider, model), primary, &owner);
    let anthropic = Some(ProviderId::Anthropic);

    assert_eq!(
        check(Some(ProviderId::Openrouter), "unheard/of", anthropic),
        Ok(())
    );
    assert_eq!(
        check(Some(ProviderId::OpenaiCodex), "gpt-5", anthropic),
        Ok(())
    );
    assert_eq!(
        check(Some(ProviderId::OpenaiCompatible), "qwen3:32b", None),
        Ok(())
    );
    assert_eq!(check(None, "gpt-5", None), Ok(()));
    assert_eq!(
        check(Some(ProviderId::Openrouter), "qwen3:32b", None)
            .unwrap_err()
            .to_string(),
        "`subagent_model` is `qwen3:32b`, a model of ollama, but it would run on openrouter; \
         set `subagent_provider` to `ollama` or choose a model of openrouter"
    );
    let on_primary = check(None, "gpt-5", anthropic);
    assert!(matches!(
        on_primary,
        Err(RoutingError::WrongOwner {
            provider: ProviderId::Anthropic,
            ..
        })
    ));
    assert_eq!(
        check(None, "a\nb", None),
        Err(RoutingError::ControlCharacter { route: "subagent" })
    );
    let mut silent = Routing::default();
    silent.cron.reasoning_effort = Some(Effort::None);
    assert_eq!(
        validate_routing(&silent, anthropic, &owner),
        Err(RoutingError::NoSuchEffort { route: "cron" })
    );
    assert_eq!(
        validate_routing(&silent, Some(ProviderId::Openai), &owner),
        Ok(())
    );
}

#[test]
fn the_older_name_of_the_primary_is_read_only_without_a_newer_one() {
    let test = TestHome::with_file("[fermix_core.agent]\nprovider = \"mistral\"\n");
    assert_eq!(
        test.load().unwrap().named_primary(),
        Some(ProviderId::Mistral)
    );
    test.write("[fermix_core.agent]\nprovider = \"mistral\"\n[fermix_core.providers.xai]\nprimary = true\n");
    assert_eq!(test.load().unwrap().named_primary(), Some(ProviderId::Xai));
}
