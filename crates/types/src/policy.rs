//! What a capability does (its class), where it belongs (its category) and who put it into the
//! registry (its kind).

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A name that is not one of a closed list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{name}`; accepted: {accepted}")]
pub struct UnknownName {
    /// What was being named, in the words of the user's documentation.
    pub what: &'static str,
    /// The name that was given.
    pub name: String,
    /// The accepted names, separated by commas.
    pub accepted: String,
}

macro_rules! closed_names {
    ($(#[$meta:meta])* $name:ident, $what:literal, { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The name used in configuration, on the wire and in documentation.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| UnknownName {
                    what: $what,
                    name: text.to_owned(),
                    accepted: Self::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}
pub(crate) use closed_names;

closed_names! {
    /// The effect of calling a capability. It bounds what a caller may do.
    PolicyClass, "policy class", {
        /// Reads data without modifying anything.
        ReadOnly = "read_only",
        /// Writes or mutates local state.
        ReadWrite = "read_write",
        /// Spawns an OS process or a delegated run.
        Exec = "exec",
        /// Makes outbound HTTP requests.
        Network = "network",
        /// Calls a third party's API.
        ExternalApi = "external_api",
        /// Drives the host's desktop.
        GuiControl = "gui_control",
    }
}

closed_names! {
    /// Where a capability belongs; lets a context exclude a whole family.
    Category, "category", {
        /// Shell, discovery, skills list, sandbox presets.
        System = "system",
        /// Reading, writing and searching files.
        File = "file",
        /// Version control.
        Git = "git",
        /// Pages, search, places, browser.
        Web = "web",
        /// Images and sound.
        Media = "media",
        /// Long-term memory.
        Memory = "memory",
        /// Jobs, events and reminders.
        Scheduling = "scheduling",
        /// Temporary helper agents.
        Delegation = "delegation",
        /// Creating, reloading, viewing and running skills.
        SkillAdmin = "skill_admin",
        /// Fermix's own settings.
        Config = "config",
        /// Acting on the chat the message came from.
        Channel = "channel",
        /// The host's desktop.
        Computer = "computer",
        /// Coding agents of other vendors.
        Harness = "harness",
        /// Every tool of a plugin.
        Plugin = "plugin",
    }
}

closed_names! {
    /// Who put a capability into the registry.
    Kind, "kind", {
        /// Compiled in, a sandbox preset, or a plugin's HTTP tool.
        Builtin = "builtin",
        /// Reserved for skills; nothing registers one at run time.
        Skill = "skill",
        /// Discovered from an MCP server.
        Mcp = "mcp",
    }
}

/// A set of policy classes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ClassSet(u8);

impl ClassSet {
    /// No class at all.
    pub const EMPTY: Self = Self(0);
    /// All six classes.
    pub const ALL: Self = Self(0b11_1111);
    /// `read_only` alone.
    pub const READ_ONLY: Self = Self(1);

    /// Whether `class` is a member.
    pub const fn contains(self, class: PolicyClass) -> bool {
        self.0 & (1 << class as u8) != 0
    }

    /// The set with `class` added.
    #[must_use]
    pub const fn with(self, class: PolicyClass) -> Self {
        Self(self.0 | (1 << class as u8))
    }

    /// The set with `class` removed.
    #[must_use]
    pub const fn without(self, class: PolicyClass) -> Self {
        Self(self.0 & !(1 << class as u8))
    }

    /// The classes in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The classes in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The classes in `self` that are not in `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether every member is also a member of `other`.
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether the set has no member.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members in declaration order.
    pub fn iter(self) -> impl Iterator<Item = PolicyClass> {
        PolicyClass::ALL
            .iter()
            .copied()
            .filter(move |class| self.contains(*class))
    }
}

impl FromIterator<PolicyClass> for ClassSet {
    fn from_iter<I: IntoIterator<Item = PolicyClass>>(classes: I) -> Self {
        classes.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for ClassSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for ClassSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for ClassSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<PolicyClass>::deserialize(deserializer)?
            .into_iter()
            .collect())
    }
}
