//! The Fermix home, its `config.toml`, and every environment variable the product reads.
//!
//! One table, [`schema::keys`], names every key with its type, default and setter. The reader,
//! the suggestions, `config set` and the generated reference all come from it, so a key that is
//! not in the table does not exist.
//!
//! Precedence of one value, first found wins:
//! 1. an [`Overrides`] entry of this invocation,
//! 2. the environment variable named in the table, if the key has one,
//! 3. `config.toml`,
//! 4. the default.

mod api_key;
pub mod commands;
mod confine;
mod edit;
pub mod env;
mod error;
mod file;
mod home;
mod load;
mod providers;
mod routing;
pub mod schema;
pub mod secrets;
mod settings;
mod warnings;
mod write;

pub use api_key::{ApiKey, InvalidApiKey, KeySetting};
pub use confine::{ConfineConfig, ConfineMode, NetworkAccess, SshAccess};
pub use env::Environment;
pub use error::{ConfigError, EditError, Place, Problem};
pub use file::{ConfigFile, PlainSecret, SecretPlace, Shown};
pub use home::{Home, HomeError};
pub use load::Overrides;
pub use providers::{ProviderBlocks, ProviderId, ProviderSettings};
pub use routing::{RouteSetting, Routing, RoutingError, validate_routing};
pub use schema::SettingValue;
pub use settings::{
    Agent, ApproveMode, ChannelConfig, Channels, Compaction, Config, EnvConfig, EnvLookup, EnvMode,
    EnvSource, EnvSourceKind, ModelOverride, Personalization, SandboxConfig,
};
