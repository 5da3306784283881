//! Which names of tools a prompt holds: those the turn has, within the budget, and no other.

use fermix_types::Trust;
use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn attached_names_stay_bounded(groups in proptest::collection::vec(1_usize..120, 0..30), length in 1_usize..50) {
        let registry = Registry::new(Deferral::On);
        let mut entries = Vec::new();
        for (group, count) in groups.iter().enumerate() {
            for member in 0..*count {
                let name = format!("g{group}m{member}_{}", "x".repeat(length));
                let entry = if group % 2 == 0 {
                    plugin_tool(&format!("plugin<{group}>"), &name)
                } else {
                    finish(Capability::mcp(&name, &format!("server{group}"), PolicyClass::ReadOnly))
                };
                entries.push(entry);
            }
        }
        registry.register_all(entries).unwrap();
        let view = registry.view(&owner());
        let text = Surface::new(&view).attached();
        prop_assert!(text.len() <= attached::MAX_NAMES, "{}", text.len());
        prop_assert_eq!(text.is_empty(), groups.is_empty());
        prop_assert!(!text.contains("plugin<"));
        // Either every name is there, or every group is there with its count.
        let all_named = text.contains("m0_");
        for (group, count) in groups.iter().enumerate() {
            let last = format!("g{group}m{}_", count - 1);
            let plural = if *count == 1 { "" } else { "s" };
            let counted = if group % 2 == 0 {
                format!("<plugin name=\"plugin&lt;{group}&gt;\">{count} tool{plural}</plugin>\n")
            } else {
                format!("- server{group}: {count} tool{plural}\n")
            };
            prop_assert!(text.contains(&last) == all_named && text.contains(&counted) != all_named, "{text}");
        }
    }

    /// Whatever is registered and whoever asks, the prompt names nothing the turn does not have.
    #[test]
    fn prompt_names_are_advertised_or_deferred(
        picked in proptest::collection::vec((0_usize..UNIVERSE.len(), 0_usize..6, any::<bool>()), 0..UNIVERSE.len()),
        who in 0_usize..7,
        listed in proptest::collection::vec(0_usize..UNIVERSE.len(), 0..6),
    ) {
        let registry = Registry::new(Deferral::On);
        for (index, class, owner_only) in picked {
            let name = UNIVERSE[index];
            let class = PolicyClass::ALL[class];
            let audience = if owner_only { Audience::OwnerOnly } else { Audience::Anyone };
            let entry = if name.starts_with("plugin") {
                plugin_tool("p", name)
            } else {
                // The routing sentence speaks of another tool, as real ones do.
                let other = UNIVERSE[(index + 1) % 14];
                finish(
                    Capability::builtin(name, class, Category::System, audience)
                        .when_to_use(format!("Use it well; or else use `{other}`.")),
                )
            };
            // The same name drawn twice is refused and changes nothing.
            let _ = registry.register(entry);
        }
        let names: std::collections::BTreeSet<String> =
            listed.iter().map(|index| UNIVERSE[*index].to_owned()).collect();
        let caller = match who {
            0 => (*owner()).clone(),
            1 => (*guest()).clone(),
            2 => owner().worker(),
            3 => (*owner()).clone().only_tools(Some(names)),
            4 => (*owner()).clone().without_tools(names),
            5 => Caller::job(Trust::Operator, JobGrant::default()),
            _ => Caller::voice(Presence::vouched_by_ingress(), true),
        };
        check_names(&registry, caller)?;
    }
}

/// Every tool's name stands in the prompt when it is on offer, and nowhere as a word otherwise.
fn check_names(registry: &Registry, caller: Caller) -> Result<(), TestCaseError> {
    let view = registry.view(&Arc::new(caller));
    let text = fixture(|_| {}).text(&view);
    for name in UNIVERSE {
        let is =
            |entries: &[Arc<Capability>]| entries.iter().any(|entry| entry.name().as_str() == name);
        let (offered, deferred) = (is(view.advertised()), is(view.deferred()));
        if offered && !name.starts_with("plugin") {
            prop_assert!(
                text.contains(&format!("`{name}` — ")),
                "{name} not in {text}"
            );
        }
        // A name that was never registered cannot be told from other quoted words.
        let known = registry
            .all_for_inspection()
            .iter()
            .any(|entry| entry.name().as_str() == name);
        let named = has_word(&text, name);
        prop_assert!(offered || deferred || !known || !named, "{name} in {text}");
    }
    if view.deferred().is_empty() {
        prop_assert!(!text.contains("find a tool with"), "{text}");
    }
    Ok(())
}

/// Whether `word` stands in `text` by itself, quoted or not.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

/// The callers of the matrix of spec/01 §8.3, each over a registry with every kind of tool.
#[test]
fn every_caller_reads_of_its_own_tools_only() {
    let registry = Registry::new(Deferral::On);
    let stand_in = |name: &str, class, category, audience| {
        finish(
            Capability::builtin(name, class, category, audience).when_to_use(format!(
                "Use {name} well. Before it, `shell` or `web_fetch`; after it, `file_edit`."
            )),
        )
    };
    for (names, class, category, audience) in [
        (
            &["shell"][..],
            PolicyClass::Exec,
            Category::System,
            Audience::Anyone,
        ),
        (
            &["file_read", "glob_search", "content_search"],
            PolicyClass::ReadOnly,
            Category::File,
            Audience::OwnerOnly,
        ),
        (
            &["file_edit"],
            PolicyClass::ReadWrite,
            Category::File,
            Audience::Anyone,
        ),
        (
            &["tool_search", "tool_help"],
            PolicyClass::ReadOnly,
            Category::System,
            Audience::Anyone,
        ),
        (
            &["web_search", "web_fetch", "browser"],
            PolicyClass::Network,
            Category::Web,
            Audience::Anyone,
        ),
        (
            &["schedule_job"],
            PolicyClass::ReadWrite,
            Category::Scheduling,
            Audience::Anyone,
        ),
        (
            &["skill_view"],
            PolicyClass::Exec,
            Category::SkillAdmin,
            Audience::Anyone,
        ),
        (
            &["subagents"],
            PolicyClass::ExternalApi,
            Category::Delegation,
            Audience::Anyone,
        ),
        (
            &["memory_store"],
            PolicyClass::ReadWrite,
            Category::Memory,
            Audience::Anyone,
        ),
        (
            &["react"],
            PolicyClass::ReadOnly,
            Category::Channel,
            Audience::Anyone,
        ),
    ] {
        for name in names {
            registry
                .register(stand_in(name, class, category, audience))
                .unwrap();
        }
    }
    registry
        .register(plugin_tool("slack", "slack_send"))
        .unwrap();
    let listed = ["file_read".to_owned(), "tool_search".to_owned()];
    let job = |tools| {
        let grant = JobGrant {
            allowed_tools: tools,
            ..JobGrant::default()
        };
        Caller::job(Trust::Operator, grant)
    };
    let callers = [
        ((*owner()).clone(), 15),
        ((*guest()).clone(), 3),
        (owner().worker(), 12),
        (job(None), 15),
        (job(Some(listed.into())), 2),
        (Caller::voice(Presence::vouched_by_ingress(), true), 13),
    ];
    for (caller, count) in callers {
        let view = registry.view(&Arc::new(caller.clone()));
        let named: Vec<&str> = view
            .advertised()
            .iter()
            .map(|entry| entry.name().as_str())
            .collect();
        assert_eq!(named.len(), count, "{named:?}");
        let text = fixture(|_| {}).text(&view);
        for entry in registry.all_for_inspection() {
            let name = entry.name().as_str();
            let has = named.contains(&name)
                || view
                    .deferred()
                    .iter()
                    .any(|entry| entry.name().as_str() == name);
            assert_eq!(
                has_word(&text, name),
                has,
                "{:?}: {name} in {text}",
                caller.run()
            );
        }
    }
}

#[test]
fn plugins_that_do_not_fit_are_counted_the_biggest_first() {
    let registry = Registry::new(Deferral::On);
    let mut entries = vec![tool(
        "tool_search",
        PolicyClass::ReadOnly,
        Category::System,
        Audience::Anyone,
    )];
    for group in 0..150 {
        for member in 0..=usize::from(group == 99) {
            entries.push(plugin_tool(
                &format!("plugin-{group}"),
                &format!("p{group}_tool_{member}"),
            ));
        }
    }
    registry.register_all(entries).unwrap();
    let view = registry.view(&owner());
    let text = Surface::new(&view).attached();
    assert!(text.len() <= attached::MAX_NAMES, "{} bytes", text.len());
    assert!(
        text.len() > attached::MAX_NAMES - 100,
        "{} bytes",
        text.len()
    );
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("  <plugin "));
    assert_eq!(
        lines.next(),
        Some("  <plugin name=\"plugin-99\">2 tools</plugin>")
    );
    assert_eq!(
        lines.next(),
        Some("  <plugin name=\"plugin-0\">1 tool</plugin>")
    );
    let shown = text.matches("<plugin ").count();
    let end = format!(
        "</plugins>\n(+{} more; find them with `tool_search`)\n",
        150 - shown
    );
    assert!(text.ends_with(&end), "{text}");
}
