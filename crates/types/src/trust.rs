//! Who speaks, and how far the sandbox reaches for them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::{UnknownName, closed_names};

/// Whether a message comes from the owner. Stamped once, where the message enters.
// A turn nobody vouched for is a guest's turn.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, PartialOrd, Ord,
)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The owner, or something the owner set up.
    Operator,
    /// Anybody else.
    #[default]
    Guest,
}

impl Trust {
    /// `operator` or `guest`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Guest => "guest",
        }
    }
}

closed_names! {
    /// How a run came about. A run without an origin is not attended.
    Origin, "origin", {
        /// Somebody typed the message just now.
        Interactive = "interactive",
        /// Somebody spoke the message just now.
        Voice = "voice",
        /// Machinery made the message.
        Unattended = "unattended",
    }
}

closed_names! {
    /// How much of the owner's disk the tools reach.
    SandboxMode, "sandbox mode", {
        /// The workspace only.
        Strict = "strict",
        /// The workspace, the skills folder, and the folder a request or the daemon was started from.
        Standard = "standard",
        /// The home folder less the protected paths.
        Open = "open",
    }
}
