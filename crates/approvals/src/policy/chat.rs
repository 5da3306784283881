//! The policy's commands in a chat: `/sandbox`, `/grant`, `/revoke`, `/confirm`, `/deny`.

use fermix_capability::{ApprovalPrompt, Choice, PromptOrigin};

use super::directory::is_foreign;
use super::error::PolicyError;
use super::operation::{GrantScope, Operation, State};
use super::pending::{PendingChange, title};
use super::{By, Intent, PolicyDesk, Provenance, blocking};
use crate::waiting::render;

/// Every form there is.
const USAGE: &str = "\
/sandbox status
/sandbox explain
/sandbox grants
/sandbox check PATH [--write]
/sandbox mode strict|standard|open
/sandbox env allow|deny|unset|get NAME
/sandbox env set NAME -- COMMAND [ARGS…]
/sandbox commands list
/sandbox commands profile bare|assistant|extended
/sandbox commands enable|disable NAME
/grant path PATH [--read|--once]
/revoke path PATH
/confirm TOKEN [once|read|always]
/deny TOKEN";

/// Who sends a command, as the transport knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The owner in person.
    Owner,
    /// A process that Fermix started, or one that cannot be told from such: it speaks for the agent.
    StartedByFermix,
    /// Anyone else whom the channel lets in.
    Guest {
        /// Whether the channel's `command_allowlist` names them.
        is_allowlisted: bool,
    },
}

/// What the sender is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Complete in itself, the prompt included.
    pub text: String,
    /// The prompt, for a channel that shows it in a better way than as text. It then leaves `text`
    /// out.
    pub prompt: Option<ApprovalPrompt>,
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self { text, prompt: None }
    }
}

/// A command that was understood.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Run(Operation),
    Answer {
        token: String,
        choice: Option<Choice>,
    },
}

impl PolicyDesk {
    /// Carries out one command. `words` are those of the message, the command's name first, with or
    /// without its slash.
    pub async fn chat_command(
        &self,
        words: &[impl AsRef<str> + Sync],
        origin: &PromptOrigin,
        who: Who,
    ) -> Reply {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        // Who may not command learns nothing about what was typed, and no token is looked at.
        if who == Who::StartedByFermix {
            return "this command is the owner's, and this process was started by Fermix"
                .to_owned()
                .into();
        }
        let command = parse(&words);
        let is_open_look = matches!(
            &command,
            Some(Command::Run(Operation::Status {} | Operation::Explain {}))
        );
        match who {
            Who::Owner => {}
            Who::Guest {
                is_allowlisted: true,
            } if is_open_look => {}
            Who::Guest { .. } | Who::StartedByFermix => {
                return "only the owner may do that".to_owned().into();
            }
        }
        match command {
            None => format!("usage:\n{USAGE}").into(),
            Some(Command::Answer { token, choice }) => {
                let answer = self.answer(&token, choice, origin).await;
                answer.unwrap_or_else(|error| error.to_string()).into()
            }
            Some(Command::Run(operation)) => {
                let proposed = self.propose(operation, origin).await;
                proposed.unwrap_or_else(|error| error.to_string().into())
            }
        }
    }

    /// Carries out what gives nothing, and asks for the rest.
    async fn propose(
        &self,
        operation: Operation,
        origin: &PromptOrigin,
    ) -> Result<Reply, PolicyError> {
        let by = By::message(origin);
        if operation.is_look() {
            return Ok(self.run(operation, false, by).await?.message.into());
        }
        let desk = self.clone();
        let asked = operation.clone();
        let change = blocking(move || {
            let provenance = Provenance {
                reason: "",
                requested_by: &by.user,
                token: None,
            };
            desk.change(&asked, Intent::Unconfirmed, &by, &provenance)
        })
        .await?;
        if change.state != State::NeedsConfirmation {
            let outcome = change.outcome();
            let mut lines = vec![outcome.message];
            lines.extend(outcome.diff);
            return Ok(lines.join("\n").into());
        }
        let requested = match operation {
            Operation::Grant { path, .. } => Some(path),
            _ => None,
        };
        let mut body = Vec::new();
        if let Operation::Grant { path, .. } = &change.operation
            && is_foreign(path)
        {
            body.push("Note: this folder belongs to another user of this machine.".to_owned());
        }
        let title = title(&change.operation);
        let pending = PendingChange {
            desk: self.clone(),
            operation: change.operation,
            requested,
            diff: change.diff,
            requested_by: origin.user.clone(),
            reason: String::new(),
            turn: None,
        };
        let (_, prompt) = pending.park(origin, title, body)?;
        Ok(Reply {
            text: render(&prompt),
            prompt: Some(prompt),
        })
    }
}

fn parse(words: &[&str]) -> Option<Command> {
    let (name, rest) = words.split_first()?;
    let name = name.strip_prefix('/').unwrap_or(name).to_ascii_lowercase();
    match (name.as_str(), rest) {
        ("sandbox", rest) => sandbox(rest).map(Command::Run),
        ("grant", ["path", rest @ ..]) => grant(rest).map(Command::Run),
        ("revoke", ["path", rest @ ..]) => {
            Some(Command::Run(Operation::Revoke { path: path(rest)? }))
        }
        ("confirm", [token]) => Some(answer(token, None)),
        ("confirm", [token, choice]) => Some(answer(
            token,
            Some(match choice.to_ascii_lowercase().as_str() {
                "once" => Choice::Once,
                "read" => Choice::Read,
                "always" => Choice::Always,
                _ => return None,
            }),
        )),
        ("deny", [token]) => Some(answer(token, Some(Choice::Deny))),
        _ => None,
    }
}

fn answer(token: &str, choice: Option<Choice>) -> Command {
    Command::Answer {
        token: token.trim_matches('`').to_owned(),
        choice,
    }
}

fn sandbox(words: &[&str]) -> Option<Operation> {
    let owned = |word: &str| word.to_owned();
    Some(match words {
        ["status"] => Operation::Status {},
        ["explain"] => Operation::Explain {},
        ["grants"] => Operation::Grants {},
        ["check", rest @ .., "--write"] => Operation::Check {
            path: path(rest)?,
            write: true,
        },
        ["check", rest @ ..] => Operation::Check {
            path: path(rest)?,
            write: false,
        },
        ["mode", mode] => Operation::SetMode {
            mode: mode.parse().ok()?,
        },
        ["env", "allow", name] => Operation::EnvAllow { name: owned(name) },
        ["env", "deny", name] => Operation::EnvDeny { name: owned(name) },
        ["env", "unset", name] => Operation::EnvUnset { name: owned(name) },
        ["env", "get", name] => Operation::EnvGet { name: owned(name) },
        ["env", "set", name, "--", command, args @ ..] => Operation::EnvSet {
            name: owned(name),
            command: owned(command),
            args: args.iter().map(|word| owned(word)).collect(),
        },
        ["commands", "list"] => Operation::Commands {},
        ["commands", "profile", profile] => Operation::CommandProfile {
            profile: owned(profile),
        },
        ["commands", "enable", name] => Operation::enable(name),
        ["commands", "disable", name] => Operation::disable(name),
        _ => return None,
    })
}

fn grant(words: &[&str]) -> Option<Operation> {
    let (scope, words) = match words {
        [rest @ .., "--read"] | ["--read", rest @ ..] => (GrantScope::Read, rest),
        [rest @ .., "--once"] | ["--once", rest @ ..] => (GrantScope::Once, rest),
        rest => (GrantScope::Always, rest),
    };
    Some(Operation::Grant {
        path: path(words)?,
        scope,
    })
}

/// A path may have spaces, and a message has no other place for what stands around it.
fn path(words: &[&str]) -> Option<std::path::PathBuf> {
    (!words.is_empty() && !words[0].starts_with("--")).then(|| words.join(" ").into())
}

impl Operation {
    /// Switches a preset or a configured program on, whichever has the name.
    pub fn enable(name: &str) -> Self {
        let name = name.to_owned();
        if fermix_config::commands::PRESET_NAMES.contains(&name.as_str()) {
            Self::EnablePreset { name }
        } else {
            Self::EnableCommand { name }
        }
    }

    /// Switches it off.
    pub fn disable(name: &str) -> Self {
        let name = name.to_owned();
        if fermix_config::commands::PRESET_NAMES.contains(&name.as_str()) {
            Self::DisablePreset { name }
        } else {
            Self::DisableCommand { name }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_form_is_understood_and_nothing_else() {
        for line in USAGE.lines() {
            let line = line
                .replace(" [ARGS…]", " a b")
                .replace(['[', ']'], "")
                .replace("PATH", "/a b");
            let words: Vec<&str> = line
                .split_whitespace()
                .map(|word| word.split('|').next().unwrap_or(word))
                .collect();
            assert!(parse(&words).is_some(), "{line}");
        }
        for line in [
            "",
            "/sandbox",
            "/sandbox mode wide",
            "/sandbox env set A",
            "/sandbox env set A pass",
            "/grant /x",
            "/grant path",
            "/grant path --read",
            "/confirm",
            "/confirm A maybe",
            "/deny",
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(parse(&words), None, "{line}");
        }
    }
}
