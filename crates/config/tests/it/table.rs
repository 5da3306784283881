//! The table of keys and the configuration are the same thing seen from two sides.

use std::collections::BTreeSet;

use fermix_config::commands::{CommandEntry, CommandsConfig};
use fermix_config::schema::{KeyDoc, keys, render_markdown};
use fermix_config::{
    Agent, ApproveMode, ChannelConfig, Channels, Compaction, Config, ConfineConfig, EnvConfig,
    EnvSource, ModelOverride, Personalization, ProviderId, ProviderSettings, RouteSetting, Routing,
    SandboxConfig, env,
};
use pretty_assertions::{assert_eq, assert_ne};

use crate::support::TestHome;

/// The row's path with a name in place of each part in angle brackets, and a value it accepts.
fn example(row: &KeyDoc) -> (String, String) {
    let path = row
        .path()
        .replace("<model>", "some-model")
        .replace("<NAME>", "VARIABLE")
        .replace("<command>", "git")
        .replace("<channel>", "slack");
    let takes_example = ["boolean", "some of a list"].contains(&row.type_text().as_str());
    let value = if row.accepted().is_empty() || takes_example {
        row.example().to_owned()
    } else {
        format!("\"{}\"", row.example())
    };
    (path, value)
}

/// A file that sets `row` to something that is not its default.
fn file_for(row: &KeyDoc) -> String {
    let (path, value) = example(row);
    let value = if value == row.default() && row.accepted().len() > 1 {
        let other = row
            .accepted()
            .into_iter()
            .find(|other| !row.default().contains(other))
            .unwrap();
        if row.type_text() == "boolean" {
            other.to_owned()
        } else {
            format!("\"{other}\"")
        }
    } else {
        value
    };
    // A source without a command would be refused.
    let extra = if path.ends_with(".source") {
        "sandbox.env.VARIABLE.command = \"pass\"\n"
    } else {
        ""
    };
    format!("{path} = {value}\n{extra}")
}

#[test]
fn every_key_of_the_table_is_read_and_changes_something() {
    for row in keys() {
        let text = file_for(row);
        let test = TestHome::with_file(&text);
        let config = test.load().unwrap_or_else(|error| panic!("{text}{error}"));
        let defaults = Config::defaults(&test.home);
        if row.path().ends_with(".auth_mode") {
            // The one key whose only value is its default: it exists to say no to the others.
            assert_eq!(row.accepted(), ["api_key"]);
            assert_eq!(config, defaults);
        } else {
            assert_ne!(
                Config {
                    warnings: vec![],
                    ..config
                },
                defaults,
                "{text}"
            );
        }
    }
}

#[test]
fn the_documented_default_is_the_default() {
    for row in keys().filter(|row| row.default() != "unset") {
        let (path, _) = example(row);
        let test = TestHome::with_file(&format!("{path} = {}\n", row.default()));
        let mut config = test.load().unwrap();
        // A block with nothing but defaults in it is as good as none.
        config
            .channels
            .by_name
            .retain(|_, channel| *channel != ChannelConfig::default());
        config
            .sandbox
            .env
            .sources
            .retain(|_, source| *source != EnvSource::default());
        config
            .sandbox
            .commands
            .explicit
            .retain(|_, entry| *entry != CommandEntry::default());
        assert_eq!(config, Config::defaults(&test.home), "{path}");
    }
}

/// Every field must differ from its default when every key is set. The patterns name every field
/// without `..`, so a field that is added without a row stops the build or fails here.
#[test]
fn every_field_comes_from_a_key_of_the_table() {
    let mut text: String = String::new();
    for row in keys() {
        let is_second_primary =
            row.path().ends_with(".primary") && !row.path().contains(".openai.");
        if row.alias_of().is_none() && !is_second_primary && !row.path().ends_with("<NAME>.name") {
            text.push_str(file_for(row).lines().next().unwrap());
            text.push('\n');
        }
    }
    text.push_str("sandbox.env.RENAMED.name = \"ORIGINAL\"\n");
    let test = TestHome::with_file(&text);
    let config = test.load().unwrap_or_else(|error| panic!("{text}{error}"));
    let before = Config::defaults(&test.home);

    let Config {
        timezone,
        profile,
        secret_store,
        redact_tool_results,
        agent,
        compaction,
        personalization,
        providers,
        routing,
        models,
        tool_search,
        sandbox,
        channels,
        warnings,
    } = config;
    let Agent {
        name,
        guest_persona,
        provider,
        daily_token_budget,
        ask_when_tainted,
    } = agent;
    assert!(timezone.is_some() && provider.is_some() && daily_token_budget.is_some());
    assert!(profile != before.profile && secret_store.is_some() && !redact_tool_results);
    assert_ne!(
        (name, guest_persona, tool_search),
        (
            before.agent.name,
            before.agent.guest_persona,
            before.tool_search
        )
    );
    let Compaction {
        enabled,
        threshold,
        reasoning_effort,
    } = compaction;
    assert!(!enabled && threshold != before.compaction.threshold);
    assert_ne!(reasoning_effort, before.compaction.reasoning_effort);
    let Personalization {
        user_name,
        timezone,
        communication_style,
    } = personalization;
    assert!(user_name.is_some() && timezone.is_some() && communication_style.is_some());
    let Routing { subagent, cron } = routing;
    for RouteSetting {
        provider,
        model,
        reasoning_effort,
    } in [subagent, cron]
    {
        assert!(provider.is_some() && model.is_some() && reasoning_effort.is_some());
    }
    let ModelOverride {
        context_window,
        max_output,
        effort_ceiling,
        vision,
    } = &models["some-model"];
    assert!(
        context_window.is_some()
            && max_output.is_some()
            && effort_ceiling.is_some()
            && vision.is_some()
    );
    let SandboxConfig {
        mode,
        workspace_root,
        allowed_roots,
        read_roots,
        blocked_roots,
        env,
        approve,
        commands,
        confine,
        trusted_repos,
    } = sandbox;
    let ConfineConfig {
        mode: confine_mode,
        network,
        extra_read,
        extra_write,
        ssh,
        max_pids,
        max_memory_mb,
        allow_nested,
    } = confine;
    assert!(!trusted_repos.is_empty());
    assert!(ask_when_tainted);
    assert_ne!(approve, ApproveMode::default());
    let plain = ConfineConfig::default();
    assert_ne!(
        (confine_mode, network, ssh),
        (plain.mode, plain.network, plain.ssh)
    );
    assert_ne!(max_pids, plain.max_pids);
    assert_ne!(max_memory_mb, plain.max_memory_mb);
    assert!(allow_nested && !extra_read.is_empty() && !extra_write.is_empty());
    assert_ne!(
        (mode, workspace_root),
        (before.sandbox.mode, before.sandbox.workspace_root)
    );
    let CommandsConfig {
        profile,
        presets,
        explicit,
    } = commands;
    assert_ne!(profile, before.sandbox.commands.profile);
    assert!(!presets.is_empty());
    let CommandEntry {
        command,
        args,
        pass_env,
        timeout_ms,
        description,
        enabled,
        allow_push,
    } = &explicit["git"];
    assert!(command.is_some() && !args.is_empty() && !pass_env.is_empty());
    assert!(*timeout_ms != 30_000 && description.is_some() && !enabled && *allow_push);
    let EnvConfig {
        mode,
        allow,
        deny,
        sources,
    } = env;
    assert_ne!(mode, before.sandbox.env.mode);
    assert!(
        ![
            allowed_roots.len(),
            read_roots.len(),
            blocked_roots.len(),
            allow.len(),
            deny.len()
        ]
        .contains(&0)
    );
    let EnvSource {
        source,
        name: _,
        command,
        args,
        timeout_ms,
    } = &sources["VARIABLE"];
    assert!(source.is_some() && command.is_some() && !args.is_empty() && *timeout_ms != 3000);
    assert!(sources["RENAMED"].name.is_some());
    let Channels { coalesce, by_name } = channels;
    let ChannelConfig {
        owner_user_id,
        allowed_user_ids,
    } = &by_name["slack"];
    assert!(!coalesce && owner_user_id.is_some() && !allowed_user_ids.is_empty());
    assert_eq!(warnings.len(), keys().filter(|row| row.secret()).count());

    // No provider has every field, but each field is some provider's.
    let mut seen = BTreeSet::new();
    for (_, block) in providers.iter() {
        let ProviderSettings {
            primary,
            default_model,
            api_key,
            base_url,
            reasoning_effort,
            fast,
            context_window,
            vision,
            tools,
        } = block;
        let flags = [
            ("primary", *primary),
            ("default_model", default_model.is_some()),
            ("api_key", api_key.is_some()),
            ("base_url", base_url.is_some()),
            ("reasoning_effort", reasoning_effort.is_some()),
            ("fast", *fast),
            ("context_window", context_window.is_some()),
            ("vision", vision.is_some()),
            ("tools", tools.is_some()),
        ];
        seen.extend(flags.iter().filter(|(_, set)| *set).map(|(name, _)| *name));
    }
    assert_eq!(seen.len(), 9, "{seen:?}");
}

/// The keys of each block are those of the table of providers, no more and no fewer.
#[test]
fn provider_blocks_have_exactly_their_keys() {
    let expected = [
        "openai_codex: default_model, fast, primary, reasoning_effort",
        "openai: api_key, base_url, default_model, primary, reasoning_effort",
        "anthropic: api_key, auth_mode, base_url, default_model, primary, reasoning_effort",
        "xai: api_key, auth_mode, base_url, default_model, primary, reasoning_effort",
        "openrouter: api_key, base_url, default_model, primary",
        "mistral: api_key, base_url, default_model, primary",
        "ollama: base_url, default_model, primary",
        "openai_compatible: api_key, base_url, context_window, default_model, primary, tools, vision",
    ];
    let found = ProviderId::ALL.map(|id| {
        let block = format!("fermix_core.providers.{id}.");
        let names: BTreeSet<&str> = keys()
            .filter_map(|row| row.path().strip_prefix(&block))
            .collect();
        format!("{id}: {}", names.into_iter().collect::<Vec<_>>().join(", "))
    });
    assert_eq!(found, expected.map(str::to_owned));
}

#[test]
fn paths_are_unique_and_the_reference_has_every_key_and_variable() {
    let page = render_markdown();
    let mut paths = BTreeSet::new();
    for row in keys() {
        assert!(
            paths.insert(row.path()),
            "{} is in the table twice",
            row.path()
        );
        let (section, key) = row.path().rsplit_once('.').unwrap();
        let after = page
            .split_once(&format!("## `[{section}]`\n"))
            .expect("the section is in the page")
            .1;
        let part = after.split("\n## ").next().unwrap();
        assert!(part.contains(&format!("| `{key}` |")), "{}", row.path());
        if let Some(alias) = row.alias_of() {
            assert!(keys().any(|other| other.path() == alias), "{alias}");
        }
    }
    for name in keys()
        .filter_map(KeyDoc::variable)
        .chain(env::VARIABLES.iter().map(|doc| doc.name))
    {
        assert_eq!(
            page.matches(&format!("\n| `{name}` |")).count(),
            1,
            "{name}"
        );
    }
    // A section that appears twice would split its keys over the page.
    let headers: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("## "))
        .collect();
    assert_eq!(headers.len(), headers.iter().collect::<BTreeSet<_>>().len());
}
