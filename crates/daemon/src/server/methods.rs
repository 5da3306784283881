//! The methods with one reply.

use std::sync::Arc;
use std::time::Duration;

use fermix_api::{Health, HealthRow, Reply, Request, RowStatus, Status};
use fermix_sandbox::MAX_RUNS;
use fermix_types::{ConversationKey, Kind};
use serde_json::{Map, Value, json};

use super::message::{is_session_id, origin};
use super::peer::Peer;
use super::{MAX_CONNECTIONS, MAX_DELEGATED, Server};

/// How long the database may take to show that it works.
const STORE_CHECK: Duration = Duration::from_secs(5);

impl Server {
    /// Answers every method but `agent_message`.
    pub(super) async fn reply(&self, request: Request, peer: Peer) -> Reply {
        if let Err(refusal) = permit(&request, &peer) {
            return Reply::error(refusal);
        }
        match request {
            Request::Status {} => Reply::ok(&self.status()),
            Request::Overview {} => Reply::ok(&json!({ "overview": self.overview() })),
            Request::Health {} => Reply::ok(&json!({ "health": self.health().await })),
            Request::Capabilities { kind } => self.capabilities(kind.as_deref()),
            Request::Answer {
                token,
                choice,
                session_id,
            } => {
                self.answer(&token, choice.as_deref(), &session_id, &peer)
                    .await
            }
            Request::Policy {
                operation,
                confirmed,
            } => match self.engine.owner_requests() {
                Some(owner) => {
                    let origin = origin(super::message::DEFAULT_SESSION);
                    owner.policy(operation, confirmed, &origin).await
                }
                None => missing("policy"),
            },
            Request::Undo { list, id } => match self.engine.owner_requests() {
                Some(owner) => owner.undo(list, id).await,
                None => missing("undo"),
            },
            Request::Reload {} => self.reload().await,
            Request::StopWork { session_id } => self.stop_work(session_id.as_deref()),
            Request::Shutdown {} => {
                tracing::info!("the owner asked for the end over the socket");
                Reply::ShuttingDown {}
            }
            Request::AgentMessage { .. } => Reply::error("invalid request"),
        }
    }

    fn status(&self) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            pid: std::process::id(),
        }
    }

    /// What runs and what waits.
    fn overview(&self) -> Value {
        let agent = self.engine.agent_so_far();
        let turns = agent
            .as_ref()
            .map(|agent| agent.status())
            .unwrap_or_default();
        let conversations: Vec<Value> = agent
            .map(|agent| agent.lanes())
            .unwrap_or_default()
            .into_iter()
            .map(|lane| {
                json!({
                    "channel": lane.conversation.channel,
                    "chat_id": lane.conversation.chat_id,
                    "thread": lane.conversation.thread,
                    "is_running": lane.is_running,
                    "waiting": lane.waiting,
                })
            })
            .collect();
        json!({
            "active_turns": turns.active_conversations,
            "waiting_messages": turns.pending_requests,
            "conversations": conversations,
            "running_commands": self.engine.assembled.sandbox.runner().live(),
            "connections": self.connections(),
            "capabilities": self.engine.everything(None).len(),
        })
    }

    /// What only this process knows about itself.
    async fn health(&self) -> Health {
        let mut rows = vec![self.daemon_row(), self.turns_row(), self.commands_row()];
        rows.push(self.store_row().await);
        let engine = Arc::clone(&self.engine);
        let read = tokio::task::spawn_blocking(move || {
            (engine.is_outdated(), engine.assembled.providers.get())
        });
        match read.await {
            Ok((outdated, providers)) => {
                rows.push(self.configuration_row(outdated));
                rows.push(match providers {
                    Ok(providers) => {
                        let routes: Vec<String> = providers
                            .routes()
                            .iter()
                            .map(|route| format!("{} {}", route.provider, route.model))
                            .collect();
                        row("providers", RowStatus::Ok, routes.join(", "))
                    }
                    Err(problem) => row("providers", RowStatus::Fail, problem.to_string()),
                });
            }
            Err(_) => rows.push(row(
                "configuration",
                RowStatus::Fail,
                "reading it crashed; look at `fermix logs`",
            )),
        }
        Health { rows }
    }

    fn daemon_row(&self) -> HealthRow {
        let status = self.status();
        let open = self.connections();
        let mut found = if open >= MAX_CONNECTIONS {
            row(
                "daemon",
                RowStatus::Warn,
                format!("{open} connections are open, and no more are taken"),
            )
        } else {
            row(
                "daemon",
                RowStatus::Ok,
                format!(
                    "version {}, up {} s",
                    status.version,
                    status.uptime_ms / 1000
                ),
            )
        };
        found.facts = facts([
            ("pid", json!(status.pid)),
            ("uptime_ms", json!(status.uptime_ms)),
            ("connections", json!(open)),
            ("max_connections", json!(MAX_CONNECTIONS + MAX_DELEGATED)),
        ]);
        found
    }

    fn turns_row(&self) -> HealthRow {
        let agent = self.engine.agent_so_far();
        let turns = agent.map(|agent| agent.status()).unwrap_or_default();
        HealthRow {
            facts: facts([
                ("active", json!(turns.active_conversations)),
                ("waiting", json!(turns.pending_requests)),
            ]),
            ..row(
                "turns",
                RowStatus::Ok,
                format!(
                    "{} running, {} waiting",
                    turns.active_conversations, turns.pending_requests
                ),
            )
        }
    }

    fn commands_row(&self) -> HealthRow {
        let live = self.engine.assembled.sandbox.runner().live();
        let status = if live < MAX_RUNS {
            RowStatus::Ok
        } else {
            RowStatus::Warn
        };
        HealthRow {
            facts: facts([("live", json!(live)), ("max", json!(MAX_RUNS))]),
            ..row("commands", status, format!("{live} of {MAX_RUNS} running"))
        }
    }

    async fn store_row(&self) -> HealthRow {
        use fermix_store::ConversationLog as _;
        let conversations = match self.engine.conversations() {
            Ok(conversations) => conversations,
            Err(error) => return row("store", RowStatus::Fail, error.to_string()),
        };
        match tokio::time::timeout(STORE_CHECK, conversations.list_conversations(1)).await {
            Ok(Ok(_)) => {
                let path = self.engine.parts().home.database();
                let verdict =
                    tokio::task::spawn_blocking(move || crate::doctor::database(&path)).await;
                verdict.unwrap_or_else(|_| {
                    row("store", RowStatus::Fail, "looking at the database crashed")
                })
            }
            Ok(Err(error)) => row("store", RowStatus::Fail, error.to_string()),
            Err(_) => row(
                "store",
                RowStatus::Fail,
                format!(
                    "the database did not answer within {} s",
                    STORE_CHECK.as_secs()
                ),
            ),
        }
    }

    fn configuration_row(&self, outdated: Result<bool, String>) -> HealthRow {
        let waiting = self.engine.waits_for_restart();
        match outdated {
            Err(problem) => row(
                "configuration",
                RowStatus::Fail,
                format!("config.toml is not usable, and what was read before holds: {problem}"),
            ),
            Ok(true) => row(
                "configuration",
                RowStatus::Warn,
                "config.toml has changed; put it in force with `fermix reload`",
            ),
            Ok(false) if !waiting.is_empty() => row(
                "configuration",
                RowStatus::Warn,
                format!("changes of {} wait for a restart", waiting.join(", ")),
            ),
            Ok(false) => row("configuration", RowStatus::Ok, "config.toml is in force"),
        }
    }

    fn capabilities(&self, kind: Option<&str>) -> Reply {
        let kind = match kind {
            None | Some("all") => None,
            Some(name) => match name.parse::<Kind>() {
                Ok(kind) => Some(kind),
                Err(error) => return Reply::error(format!("invalid_kind: {error}")),
            },
        };
        Reply::ok(&json!({ "capabilities": self.engine.everything(kind) }))
    }

    /// An answer to a prompt is the slash command that it stands for.
    async fn answer(&self, token: &str, choice: Option<&str>, session: &str, peer: &Peer) -> Reply {
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_word(token) || !choice.is_none_or(is_word) || !is_session_id(session) {
            return Reply::error("invalid request");
        }
        let command = match choice {
            None => format!("/confirm {token}"),
            Some("deny") => format!("/deny {token}"),
            Some(choice) => format!("/confirm {token} {choice}"),
        };
        let asker = fermix_channels::commands::Asker {
            origin: origin(session),
            standing: fermix_channels::commands::Standing::local(peer.local, peer.has_terminal),
            bot_name: None,
        };
        match self.engine.command(&command, &asker).await {
            Ok(Some(Ok(message))) => Reply::ok(&json!({ "message": message })),
            Ok(Some(Err(refused))) => Reply::error(refused.0),
            Ok(None) => Reply::error("unknown_token: nothing waits for an answer"),
            Err(error) => Reply::error(error.to_string()),
        }
    }

    async fn reload(&self) -> Reply {
        let engine = Arc::clone(&self.engine);
        match tokio::task::spawn_blocking(move || engine.reload()).await {
            Ok(Ok(reloaded)) => {
                self.engine.refresh_secrets().await;
                tracing::info!(
                    applied = reloaded.applied.join(","),
                    needs_restart = reloaded.needs_restart.join(","),
                    "the configuration was read again"
                );
                Reply::ok(&json!({ "reload": reloaded }))
            }
            Ok(Err(error)) => Reply::error(error.to_string()),
            Err(_) => Reply::error("crashed: nothing was reloaded; look at `fermix logs`"),
        }
    }

    fn stop_work(&self, session: Option<&str>) -> Reply {
        if !session.is_none_or(is_session_id) {
            return Reply::error("invalid request");
        }
        let counts = match (self.engine.agent_so_far(), session) {
            (None, _) => fermix_agent::StopCounts::default(),
            (Some(agent), None) => agent.stop_all(),
            (Some(agent), Some(session)) => agent.stop(&ConversationKey::root("cli", session)),
        };
        Reply::ok(&json!({ "turns": counts.turns, "queued": counts.queued }))
    }
}

/// Some things are the owner's to ask for in person, or the agent could, through a command, answer
/// its own questions and widen its own sandbox.
fn permit(request: &Request, peer: &Peer) -> Result<(), String> {
    match request {
        Request::Status {}
        | Request::Overview {}
        | Request::Health {}
        | Request::Capabilities { .. }
        | Request::Undo { list: true, .. }
        | Request::AgentMessage { .. } => Ok(()),
        Request::Policy { .. } => peer.in_person("the sandbox's policy"),
        Request::Undo { list: false, .. } => peer.in_person("undoing a change"),
        Request::Reload {} => peer.in_person("a reload"),
        Request::StopWork { .. } => peer.in_person("stopping other work"),
        Request::Shutdown {} => peer.in_person("the daemon's end"),
        Request::Answer { .. } => {
            peer.in_person("the answer to a prompt")?;
            if peer.can_answer() {
                Ok(())
            } else {
                Err(
                    "no_terminal: a prompt is answered at a terminal, by somebody who has read it"
                        .to_owned(),
                )
            }
        }
    }
}

fn missing(method: &str) -> Reply {
    Reply::Error {
        reason: "unknown method".to_owned(),
        more: facts([("method", json!(method))]),
    }
}

fn facts<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn row(name: &str, status: RowStatus, detail: impl Into<String>) -> HealthRow {
    HealthRow {
        name: name.to_owned(),
        status,
        detail: detail.into(),
        facts: Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_owners_is_refused_to_what_fermix_started() {
        let peer = Peer::own_child();
        let asked = |text: &str| permit(&Request::from_bytes(text.as_bytes()).unwrap(), &peer);
        for allowed in [
            r#"{"method":"status"}"#,
            r#"{"method":"overview"}"#,
            r#"{"method":"health"}"#,
            r#"{"method":"capabilities"}"#,
            r#"{"method":"undo","params":{"list":true}}"#,
        ] {
            asked(allowed).unwrap();
        }
        for refused in [
            r#"{"method":"shutdown"}"#,
            r#"{"method":"reload"}"#,
            r#"{"method":"stop_work"}"#,
            r#"{"method":"undo"}"#,
            r#"{"method":"policy","params":{"operation":{"kind":"status"}}}"#,
            r#"{"method":"answer","params":{"token":"ABCDEFGH","session_id":"s"}}"#,
        ] {
            let words = asked(refused).unwrap_err();
            assert!(words.starts_with("not_in_person"), "{refused}: {words}");
        }
    }
}
