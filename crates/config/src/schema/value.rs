//! Values on their way from the file to the typed configuration.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use fermix_types::{Effort, SandboxMode, SecretStore};
use serde::Serialize;
use toml_edit::{Array, Item};

use super::kind::Rejected;
use crate::api_key::KeySetting;
use crate::commands::CommandProfile;
use crate::confine::{ConfineMode, NetworkAccess, SshAccess};
use crate::providers::ProviderId;
use crate::settings::{ApproveMode, EnvMode, EnvSourceKind};

/// A value as it stands in the file, before its key has looked at it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<SettingValue>),
}

impl SettingValue {
    /// Reads an item of the file; what no key accepts is named instead.
    pub(crate) fn from_item(item: &Item) -> Result<Self, &'static str> {
        match item {
            Item::Value(value) => Self::from_toml(value),
            Item::Table(_) => Err("a section"),
            Item::ArrayOfTables(_) => Err("a list of sections"),
            Item::None => Err("nothing"),
        }
    }

    fn from_toml(value: &toml_edit::Value) -> Result<Self, &'static str> {
        match value {
            toml_edit::Value::String(text) => Ok(Self::Text(text.value().clone())),
            toml_edit::Value::Integer(number) => Ok(Self::Integer(*number.value())),
            toml_edit::Value::Boolean(flag) => Ok(Self::Bool(*flag.value())),
            toml_edit::Value::Array(list) => list
                .iter()
                .map(Self::from_toml)
                .collect::<Result<_, _>>()
                .map(Self::List),
            toml_edit::Value::Float(number) => Ok(Self::Number(*number.value())),
            toml_edit::Value::Datetime(_) => Err("a date"),
            toml_edit::Value::InlineTable(_) => Err("a section"),
        }
    }

    pub(crate) fn to_toml(&self) -> toml_edit::Value {
        match self {
            Self::Bool(flag) => (*flag).into(),
            Self::Integer(number) => (*number).into(),
            Self::Number(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
            Self::List(items) => {
                toml_edit::Value::Array(items.iter().map(Self::to_toml).collect::<Array>())
            }
        }
    }
}

impl fmt::Display for SettingValue {
    /// The value as TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_toml().to_string().trim())
    }
}

/// A value its key has accepted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Flag(bool),
    Count(u64),
    Share(f64),
    Text(String),
    List(Vec<String>),
    Path(PathBuf),
    Paths(Vec<PathBuf>),
    Secret(KeySetting),
}

/// What a field of the configuration can be filled from.
pub(crate) trait FromValue: Sized {
    /// `None` when the table gives the key a type its field does not have.
    fn from_value(value: Value) -> Option<Self>;
}

/// Fills a field.
pub(crate) fn put<T: FromValue>(slot: &mut T, value: Value) -> Result<(), Rejected> {
    *slot = T::from_value(value).ok_or_else(|| {
        Rejected::new(
            "the table of keys gives this key a type its setting does not have; report this",
        )
    })?;
    Ok(())
}

macro_rules! from_value {
    ($($variant:ident => $type:ty),+ $(,)?) => {
        $(impl FromValue for $type {
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::$variant(inner) => Some(inner),
                    _ => None,
                }
            }
        })+
    };
}

from_value! {
    Flag => bool,
    Count => u64,
    Share => f64,
    Text => String,
    List => Vec<String>,
    Path => PathBuf,
    Paths => Vec<PathBuf>,
    Secret => KeySetting,
}

macro_rules! from_name {
    ($($type:ty),+) => {
        $(impl FromValue for $type {
            fn from_value(value: Value) -> Option<Self> {
                <$type>::from_str(&String::from_value(value)?).ok()
            }
        })+
    };
}

from_name!(
    Effort,
    ProviderId,
    SandboxMode,
    SecretStore,
    EnvMode,
    EnvSourceKind,
    CommandProfile,
    ApproveMode,
    ConfineMode,
    NetworkAccess,
    SshAccess
);

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value) -> Option<Self> {
        T::from_value(value).map(Some)
    }
}
