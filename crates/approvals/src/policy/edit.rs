//! One operation as changes of single keys, so that everything else in the file stays as it is.

use std::path::{Path, PathBuf};

use fermix_config::commands::PRESET_NAMES;
use fermix_config::{ConfigFile, EditError, EnvMode, SandboxConfig, SettingValue, Shown};

use super::error::PolicyError;
use super::operation::{GrantScope, Operation};
use crate::shown::visible;

const ALLOWED: &str = "sandbox.allowed_roots";
const READ: &str = "sandbox.read_roots";
/// What a channel signs in with is never a command's business.
const CHANNEL_SECRETS: &[&str] = &[
    "TELEGRAM_BOT_TOKEN",
    "DISCORD_BOT_TOKEN",
    "SLACK_BOT_TOKEN",
    "SLACK_SIGNING_SECRET",
    "WHATSAPP_ACCESS_TOKEN",
    "WHATSAPP_VERIFY_TOKEN",
    "WHATSAPP_APP_SECRET",
];

/// Makes the change in `file`, which holds `before`. Paths of grants are canonical by now.
pub(super) fn apply(
    operation: &Operation,
    file: &mut ConfigFile,
    before: &SandboxConfig,
) -> Result<(), PolicyError> {
    match operation {
        Operation::SetMode { mode } => file.set("sandbox.mode", mode.as_str())?,
        Operation::Grant { path, scope } => match scope {
            GrantScope::Always => {
                add(file, ALLOWED, path_text(path)?)?;
                // The wider grant says it all.
                remove_paths(file, READ, &before.read_roots, path)?;
            }
            GrantScope::Read => add(file, READ, path_text(path)?)?,
            GrantScope::Once => {}
        },
        Operation::Revoke { path } => {
            remove_paths(file, ALLOWED, &before.allowed_roots, path)?;
            remove_paths(file, READ, &before.read_roots, path)?;
        }
        Operation::EnvAllow { name } => allow_variable(file, name)?,
        Operation::EnvDeny { name } => {
            variable_name(name)?;
            // With `all`, an allow list that becomes empty would pass everything on.
            if before.env.mode == EnvMode::Selected {
                remove(file, "sandbox.env.allow", name)?;
            }
            add(file, "sandbox.env.deny", name.clone())?;
        }
        Operation::EnvSet {
            name,
            command,
            args,
        } => {
            allow_variable(file, name)?;
            program(command)?;
            let section = spelling(file, "sandbox.env", "sources", name)?;
            file.unset(&format!("{section}.name"))?;
            file.unset(&format!("{section}.source"))?;
            set_program(file, &section, command, args)?;
        }
        Operation::EnvUnset { name } => {
            variable_name(name)?;
            remove(file, "sandbox.env.allow", name)?;
            for section in [
                format!("sandbox.env.{name}"),
                format!("sandbox.env.sources.{name}"),
            ] {
                for key in ["source", "name", "command", "args", "timeout_ms"] {
                    file.unset(&format!("{section}.{key}"))?;
                }
            }
        }
        Operation::CommandProfile { profile } => file.set("sandbox.commands.profile", profile)?,
        Operation::EnablePreset { name } => {
            preset(name)?;
            let key = presets_key(file)?;
            add(file, key, name.clone())?;
        }
        Operation::DisablePreset { name } => {
            preset(name)?;
            let key = presets_key(file)?;
            remove(file, key, name)?;
        }
        Operation::EnableCommand { name } | Operation::DisableCommand { name } => {
            if !before.commands.explicit.contains_key(name) {
                return Err(PolicyError::Invalid(format!(
                    "there is no command `{}`; presets: {}; commands: {}",
                    visible(name),
                    PRESET_NAMES.join(", "),
                    listed(before.commands.explicit.keys().map(String::as_str))
                )));
            }
            let key = format!(
                "{}.enabled",
                spelling(file, "sandbox.commands", "explicit", name)?
            );
            match operation {
                Operation::EnableCommand { .. } => {
                    file.unset(&key)?;
                }
                _ => file.set(&key, "false")?,
            }
        }
        Operation::BindCommand {
            name,
            command,
            args,
        } => {
            program(command)?;
            let section = spelling(file, "sandbox.commands", "explicit", name)?;
            set_program(file, &section, command, args)?;
            file.unset(&format!("{section}.enabled"))?;
        }
        Operation::Status {}
        | Operation::Explain {}
        | Operation::Grants {}
        | Operation::Check { .. }
        | Operation::EnvGet { .. }
        | Operation::Commands {} => {}
    }
    Ok(())
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn path_text(path: &Path) -> Result<String, PolicyError> {
    let text = path
        .to_str()
        .filter(|text| !text.chars().any(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        PolicyError::Invalid(format!(
            "`{}` has characters in its name that config.toml cannot hold; rename the folder",
            visible(&path.display().to_string())
        ))
    })
}

fn variable_name(name: &str) -> Result<(), PolicyError> {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_on_well = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if starts_well && goes_on_well {
        Ok(())
    } else {
        Err(PolicyError::Invalid(format!(
            "`{}` is not the name of an environment variable; write it like GITHUB_TOKEN",
            visible(name)
        )))
    }
}

fn allow_variable(file: &mut ConfigFile, name: &str) -> Result<(), PolicyError> {
    variable_name(name)?;
    if CHANNEL_SECRETS.contains(&name) {
        return Err(PolicyError::Invalid(format!(
            "{name} signs a channel in and is never passed to commands"
        )));
    }
    remove(file, "sandbox.env.deny", name)?;
    add(file, "sandbox.env.allow", name.to_owned())
}

fn preset(name: &str) -> Result<(), PolicyError> {
    if PRESET_NAMES.contains(&name) {
        return Ok(());
    }
    Err(PolicyError::Invalid(format!(
        "there is no preset `{}`; presets: {}",
        visible(name),
        PRESET_NAMES.join(", ")
    )))
}

fn program(command: &str) -> Result<(), PolicyError> {
    if command.trim().is_empty() {
        return Err(PolicyError::Invalid(
            "the program is missing; name it after `--`".to_owned(),
        ));
    }
    if command.contains('/') && !command.starts_with('/') {
        return Err(PolicyError::Invalid(format!(
            "`{}` is neither an absolute path nor a name on the search path; write the whole path",
            visible(command)
        )));
    }
    Ok(())
}

fn set_program(
    file: &mut ConfigFile,
    section: &str,
    command: &str,
    args: &[String],
) -> Result<(), PolicyError> {
    // As TOML strings, so that the words stand for themselves whatever they begin with.
    let text = SettingValue::Text(command.to_owned()).to_string();
    file.set(&format!("{section}.command"), &text)?;
    let key = format!("{section}.args");
    if args.is_empty() {
        file.unset(&key)?;
    } else {
        let list = args.iter().cloned().map(SettingValue::Text).collect();
        file.set(&key, &SettingValue::List(list).to_string())?;
    }
    Ok(())
}

/// Where the file keeps the section called `name`: a section has two accepted places.
fn spelling(
    file: &ConfigFile,
    family: &str,
    other: &str,
    name: &str,
) -> Result<String, PolicyError> {
    let elsewhere = format!("{family}.{other}.{name}");
    let is_elsewhere =
        matches!(file.section(&elsewhere), Ok(Some(text)) if !text.trim().is_empty());
    let section = if is_elsewhere {
        elsewhere
    } else {
        format!("{family}.{name}")
    };
    match file.section(&section)? {
        Some(_) => Ok(section),
        None => Err(PolicyError::Invalid(format!(
            "`{}` cannot be a name there; use letters, digits and `_`, starting with a letter",
            visible(name)
        ))),
    }
}

fn presets_key(file: &ConfigFile) -> Result<&'static str, PolicyError> {
    let older = "sandbox.commands.enabled_presets";
    Ok(match file.get(older)? {
        Shown::Value(_) => older,
        Shown::Default(_) | Shown::Hidden => "sandbox.commands.presets",
    })
}

/// The list as the file has it, with `~` where the owner wrote it.
fn list(file: &ConfigFile, key: &str) -> Result<Vec<SettingValue>, EditError> {
    Ok(match file.get(key)? {
        Shown::Value(SettingValue::List(items)) => items,
        Shown::Value(_) | Shown::Default(_) | Shown::Hidden => Vec::new(),
    })
}

fn put(file: &mut ConfigFile, key: &str, items: Vec<SettingValue>) -> Result<(), EditError> {
    if items.is_empty() {
        file.unset(key).map(|_| ())
    } else {
        file.set(key, &SettingValue::List(items).to_string())
    }
}

fn add(file: &mut ConfigFile, key: &str, item: String) -> Result<(), PolicyError> {
    let mut items = list(file, key)?;
    let item = SettingValue::Text(item);
    if !items.contains(&item) {
        items.push(item);
        put(file, key, items)?;
    }
    Ok(())
}

fn remove(file: &mut ConfigFile, key: &str, item: &str) -> Result<(), PolicyError> {
    let mut items = list(file, key)?;
    let before = items.len();
    items.retain(|held| *held != SettingValue::Text(item.to_owned()));
    if items.len() < before {
        put(file, key, items)?;
    }
    Ok(())
}

/// Removes the entries that mean `path`. `meant` is the same list with its paths expanded.
fn remove_paths(
    file: &mut ConfigFile,
    key: &str,
    meant: &[PathBuf],
    path: &Path,
) -> Result<(), PolicyError> {
    let items = list(file, key)?;
    let kept: Vec<SettingValue> = items
        .iter()
        .zip(meant)
        .filter(|(_, entry)| !is_same(entry, path))
        .map(|(item, _)| item.clone())
        .collect();
    if kept.len() < items.len() {
        put(file, key, kept)?;
    }
    Ok(())
}

/// Whether two paths name one folder, also when it is gone.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || canonical(one) == canonical(other)
}
