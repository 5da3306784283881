//! What the agent takes from the configuration, and where its files lie.

use std::path::PathBuf;

use fermix_config::{Compaction, Config, Home};

/// Provider calls in one turn before the model is asked for its closing answer.
pub const MAX_ITERATIONS: u32 = 100;

/// The agent's settings. Plain data; they hold for the agent's life.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// What the agent is called.
    pub name: String,
    /// Whether guests meet the owner's persona instead of a neutral one.
    pub guest_persona: bool,
    /// Tokens a UTC day over all conversations; `None` = no limit.
    pub daily_token_budget: Option<u64>,
    /// How to address the owner.
    pub user_name: Option<String>,
    /// How to talk to the owner, in the owner's words.
    pub communication_style: Option<String>,
    /// The owner's IANA time zone, when known.
    pub timezone: Option<String>,
    /// Whether text messages that wait become one turn.
    pub coalesce: bool,
    /// The folder of IDENTITY.md, FERMIX.md and SOUL.md.
    pub bootstrap: PathBuf,
    /// The folder of USER.md and MEMORY.md.
    pub memory: PathBuf,
    /// Provider calls in one turn, the closing answer aside.
    pub max_iterations: u32,
    /// When and how the text a model is shown again is shortened.
    pub compaction: Compaction,
}

impl AgentSettings {
    /// The settings of the main agent.
    pub fn from_config(config: &Config, home: &Home) -> Self {
        Self {
            name: config.agent.name.clone(),
            guest_persona: config.agent.guest_persona,
            daily_token_budget: config.agent.daily_token_budget,
            user_name: config.personalization.user_name.clone(),
            communication_style: config.personalization.communication_style.clone(),
            timezone: config
                .personalization
                .timezone
                .clone()
                .or_else(|| config.timezone.clone()),
            coalesce: config.channels.coalesce,
            bootstrap: home.bootstrap(),
            memory: home.memory(),
            max_iterations: MAX_ITERATIONS,
            compaction: config.compaction,
        }
    }
}
