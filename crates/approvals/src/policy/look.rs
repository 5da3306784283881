//! Looking at the policy: nothing here changes anything or records a decision.

use std::path::Path;
use std::sync::Arc;

use fermix_config::{EnvMode, SandboxConfig};
use fermix_sandbox::{Access, Root, RootAccess};
use serde_json::{Value, json};

use super::error::PolicyError;
use super::operation::{Operation, Outcome, State};
use super::{By, PolicyDesk, diff, edit, lock};
use crate::shown::{visible, visible_path};

pub(super) fn run(
    desk: &PolicyDesk,
    operation: &Operation,
    by: &By,
) -> Result<Outcome, PolicyError> {
    let config = lock(&desk.inner.in_force).clone();
    let (message, facts) = match operation {
        Operation::Explain {} => explain(desk, &config, by),
        Operation::Grants {} => grants(desk, &config, by),
        Operation::Check { path, write } => check(desk, path, *write, by)?,
        Operation::EnvGet { name } => variable(&config, name),
        Operation::Commands {} => commands(desk, &config),
        _ => status(desk, &config),
    };
    Ok(Outcome {
        state: State::Shown,
        diff: Vec::new(),
        message,
        facts: Some(facts),
    })
}

fn status(desk: &PolicyDesk, config: &SandboxConfig) -> (String, Value) {
    let names = passed(config).len();
    let message = format!(
        "mode: {}\nworkspace: {}\nallowed roots: {}\nread-only roots: {}\nvariables passed on: {names}",
        config.mode,
        visible_path(&config.workspace_root),
        config.allowed_roots.len(),
        config.read_roots.len(),
    );
    let confined = desk.inner.sandbox.confinement().confined;
    let message = format!("{message}\ncommands confined by: {confined}");
    let facts = json!({
        "mode": config.mode,
        "confined": confined,
        "workspace": config.workspace_root,
        "allowed_roots": config.allowed_roots.len(),
        "read_roots": config.read_roots.len(),
        "env": names,
    });
    (message, facts)
}

/// The names of variables that commands get.
fn passed(config: &SandboxConfig) -> Vec<&str> {
    let env = &config.env;
    let allowed = env.allow.iter().filter(|name| !env.deny.contains(*name));
    allowed.map(String::as_str).collect()
}

fn origin(root: &Root) -> String {
    let word = root.provenance.as_str();
    match root.access {
        RootAccess::ReadWrite => word.to_owned(),
        RootAccess::ReadOnly => format!("{word}, read only"),
    }
}

fn explain(desk: &PolicyDesk, config: &SandboxConfig, by: &By) -> (String, Value) {
    let roots = desk.inner.sandbox.roots(&by.scope());
    let protected = desk.inner.sandbox.protected_paths();
    let mut lines = vec![format!("mode: {}", config.mode), "roots:".to_owned()];
    lines.extend(
        roots
            .iter()
            .map(|root| format!("  {} ({})", visible_path(&root.path), origin(root))),
    );
    if !config.blocked_roots.is_empty() {
        lines.push("blocked:".to_owned());
        let blocked = config.blocked_roots.iter();
        lines.extend(blocked.map(|path| format!("  {}", visible_path(path))));
    }
    lines.push(match (config.env.mode, passed(config).as_slice()) {
        (EnvMode::All, []) => "variables: every one of Fermix's own".to_owned(),
        (_, []) => "variables: the base ones".to_owned(),
        (_, names) => format!("variables: the base ones and {}", names.join(", ")),
    });
    let confinement = desk.inner.sandbox.confinement();
    lines.push(format!(
        "commands: confined by {} ({})",
        confinement.confined,
        match confinement.missing.as_slice() {
            [] => "nothing is missing".to_owned(),
            missing => missing
                .iter()
                .map(|layer| format!("no {}: {}", layer.layer, layer.reason))
                .collect::<Vec<_>>()
                .join("; "),
        }
    ));
    lines.push("protected, whatever is granted:".to_owned());
    lines.extend(
        protected
            .iter()
            .map(|path| format!("  {}", visible_path(path))),
    );
    let facts = json!({
        "mode": config.mode,
        "workspace": config.workspace_root,
        "roots": roots.iter().map(facts_of_root).collect::<Vec<_>>(),
        "blocked": config.blocked_roots,
        "env": passed(config),
        "protected": protected,
        "confinement": confinement,
        "command_view": desk.inner.sandbox.explain_view(&by.scope()),
        "commands": config.commands.tools().iter().map(|tool| tool.name.clone()).collect::<Vec<_>>(),
    });
    (lines.join("\n"), facts)
}

fn facts_of_root(root: &Arc<Root>) -> Value {
    json!({
        "path": root.path,
        "from": root.provenance.as_str(),
        "read_only": root.access == RootAccess::ReadOnly,
    })
}

fn grants(desk: &PolicyDesk, config: &SandboxConfig, by: &By) -> (String, Value) {
    let records = desk.records();
    let persisted = config
        .allowed_roots
        .iter()
        .map(|path| (path.clone(), "always"))
        .chain(config.read_roots.iter().map(|path| (path.clone(), "read")));
    let here = by
        .conversation
        .iter()
        .flat_map(|conversation| desk.inner.sandbox.conversation_grants(conversation))
        .map(|path| (path, "once"));
    let mut lines = Vec::new();
    let mut facts = Vec::new();
    for (path, scope) in persisted.chain(here) {
        let record = records
            .iter()
            .find(|record| record.scope.as_str() == scope && edit::is_same(&record.path, &path));
        let how = match scope {
            "always" => "reading and writing",
            "read" => "reading only",
            _ => "this conversation",
        };
        let mut line = format!("{}  {how}", visible_path(&path));
        if let Some(record) = record {
            line.push_str(&format!(
                "  asked by {} on {}",
                visible(&record.requested_by),
                visible(&record.channel)
            ));
            if !record.reason.is_empty() {
                line.push_str(&format!(": \"{}\"", visible(&record.reason)));
            }
        }
        lines.push(line);
        facts.push(json!({ "path": path, "scope": scope, "record": record }));
    }
    if lines.is_empty() {
        lines.push("nothing is granted".to_owned());
    }
    (lines.join("\n"), Value::Array(facts))
}

fn check(
    desk: &PolicyDesk,
    path: &Path,
    write: bool,
    by: &By,
) -> Result<(String, Value), PolicyError> {
    let path = desk.absolute(path)?;
    let text = path.to_str().ok_or_else(|| {
        PolicyError::Invalid(format!("`{}` is not valid UTF-8", visible_path(&path)))
    })?;
    let access = if write { Access::Write } else { Access::Read };
    Ok(
        match desk.inner.sandbox.would_allow(text, access, &by.scope()) {
            Ok(allowed) => {
                let root = &allowed.root;
                let rule = format!("inside {} ({})", visible_path(&root.path), origin(root));
                (
                    format!(
                        "allow {}: {}\nrule: {rule}",
                        access.as_str(),
                        visible_path(&allowed.path)
                    ),
                    json!({
                        "decision": "allow",
                        "access": access.as_str(),
                        "path": allowed.path,
                        "rule": "inside_root",
                        "root": facts_of_root(root),
                    }),
                )
            }
            Err(denied) => (
                format!(
                    "deny {}: {}\nrule: {}\n{}",
                    access.as_str(),
                    visible_path(&denied.path),
                    denied.reason,
                    visible(&denied.to_string())
                ),
                json!({
                    "decision": "deny",
                    "access": access.as_str(),
                    "path": denied.path,
                    "rule": denied.reason.as_str(),
                    "message": denied.to_string(),
                    "grant": denied.grantable(),
                }),
            ),
        },
    )
}

fn variable(config: &SandboxConfig, name: &str) -> (String, Value) {
    let env = &config.env;
    let is_denied = env.deny.iter().any(|denied| denied == name);
    let is_passed = !is_denied
        && (env.allow.iter().any(|allowed| allowed == name)
            || (env.mode == EnvMode::All && env.allow.is_empty()));
    let source = diff::variable(config, name);
    let words = match (is_passed, is_denied) {
        (true, _) => format!("passed to commands: {source}"),
        (false, true) => format!("{} is denied", visible(name)),
        (false, false) => format!(
            "{} is not passed to commands; allow it with `fermix sandbox env allow NAME`",
            visible(name)
        ),
    };
    let facts = json!({ "name": name, "passed": is_passed, "denied": is_denied, "source": source });
    (words, facts)
}

fn commands(desk: &PolicyDesk, config: &SandboxConfig) -> (String, Value) {
    let tools = config.commands.tools();
    let mut lines = vec![format!("profile: {}", config.commands.profile.as_str())];
    let mut facts = Vec::new();
    for tool in &tools {
        let found = desk.inner.sandbox.executable(&tool.command);
        let place = match (&found, tool.preset) {
            (None, _) => "  (not found, so no tool)".to_owned(),
            (Some(_), Some(preset)) => format!("  (preset {preset})"),
            (Some(_), None) => String::new(),
        };
        lines.push(format!("{}{place}", diff::command(tool)));
        facts.push(json!({
            "name": tool.name,
            "command": tool.command,
            "args": tool.args,
            "pass_env": tool.pass_env,
            "preset": tool.preset,
            "executable": found,
        }));
    }
    if tools.is_empty() {
        lines.push("no program is a tool".to_owned());
    }
    let facts = json!({ "profile": config.commands.profile.as_str(), "presets": config.commands.presets, "commands": facts });
    (lines.join("\n"), facts)
}
