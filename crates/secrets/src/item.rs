//! What an entry of a store is called.

use std::fmt;

/// The profile of a home that names none.
const GENERAL: &str = "general";
/// The first part of every address.
const PRODUCT: &str = "fermix";

/// The address of one secret: the namespace of the home, and the secret's own name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    prefix: String,
    name: String,
}

/// A name that could not be part of a path or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of a secret or profile has letters, digits, `-` and `_` only; rename it")]
pub struct InvalidName;

impl Item {
    /// The secret `name` of `profile`; the profile `general` is the one without a name.
    ///
    /// # Errors
    /// When either could reach beyond its place in a path.
    pub fn new(profile: &str, name: &str) -> Result<Self, InvalidName> {
        let is_plain = |text: &str| {
            !text.is_empty()
                && text.len() <= 128
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        if !is_plain(profile) || !is_plain(name) {
            return Err(InvalidName);
        }
        let prefix = match profile {
            GENERAL => PRODUCT.to_owned(),
            named => format!("{PRODUCT}:{named}"),
        };
        Ok(Self {
            prefix,
            name: name.to_owned(),
        })
    }

    /// The namespace: `fermix`, or `fermix:<profile>`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The secret's own name, written like an environment variable.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its file.
    pub(crate) fn file_name(&self) -> String {
        self.to_string().replace(':', ".")
    }
}

impl fmt::Display for Item {
    /// The whole address, `fermix:OPENAI_API_KEY`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.prefix, self.name)
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Item({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_with_profiles_have_addresses_of_their_own() {
        let general = Item::new("general", "OPENAI_API_KEY").unwrap();
        let work = Item::new("work", "OPENAI_API_KEY").unwrap();
        assert_eq!(general.to_string(), "fermix:OPENAI_API_KEY");
        assert_eq!(work.to_string(), "fermix:work:OPENAI_API_KEY");
        assert_eq!(work.prefix(), "fermix:work");
        assert_eq!(work.file_name(), "fermix.work.OPENAI_API_KEY");
        for (profile, name) in [
            ("", "A"),
            ("a/b", "A"),
            ("a", "../A"),
            ("a", ""),
            ("a.b", "A"),
        ] {
            assert_eq!(
                Item::new(profile, name),
                Err(InvalidName),
                "{profile} {name}"
            );
        }
    }
}
