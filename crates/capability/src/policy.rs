//! Which classes a level of trust may call, and how an explicit policy narrows that.

use fermix_types::{ClassSet, PolicyClass, Trust, UnknownName};
use serde_json::Value;

/// A policy as callers write it: what to allow and what to deny.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `None` allows every class.
    pub allow: Option<ClassSet>,
    /// Denied classes; they win over allowed ones.
    pub deny: ClassSet,
}

/// A policy value that is not a list of classes, nor an object of `allow` and `deny`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A class that does not exist. Never ignored, since ignoring a deny would widen.
    #[error(transparent)]
    UnknownClass(#[from] UnknownName),
    /// Some other shape.
    #[error("a policy is a list of classes or an object with `allow` and `deny` lists, not {0}")]
    Shape(String),
}

impl Policy {
    /// The shorthand: these classes and no others.
    pub fn allowing(classes: ClassSet) -> Self {
        Self {
            allow: Some(classes),
            deny: ClassSet::EMPTY,
        }
    }

    /// Reads `null`, `[class…]` or `{allow, deny}`. `null` and an empty policy give `None`: the
    /// default of the caller's trust.
    pub fn from_json(value: &Value) -> Result<Option<Self>, PolicyError> {
        match value {
            Value::Null => Ok(None),
            Value::Array(classes) if classes.is_empty() => Ok(None),
            Value::Array(_) => Ok(Some(Self::allowing(class_list(value)?))),
            Value::Object(members) => {
                if let Some(unknown) = members
                    .keys()
                    .find(|key| !matches!(key.as_str(), "allow" | "deny"))
                {
                    return Err(PolicyError::Shape(format!(
                        "an object with the key `{unknown}`"
                    )));
                }
                if members.is_empty() {
                    return Ok(None);
                }
                let list = |key: &str| {
                    members
                        .get(key)
                        .filter(|list| !list.is_null())
                        .map(class_list)
                        .transpose()
                };
                Ok(Some(Self {
                    allow: list("allow")?,
                    deny: list("deny")?.unwrap_or_default(),
                }))
            }
            other => Err(PolicyError::Shape(other.to_string())),
        }
    }

    /// The classes that remain.
    pub fn classes(&self) -> ClassSet {
        self.allow.unwrap_or(ClassSet::ALL).difference(self.deny)
    }
}

fn class_list(value: &Value) -> Result<ClassSet, PolicyError> {
    let Value::Array(names) = value else {
        return Err(PolicyError::Shape(value.to_string()));
    };
    names
        .iter()
        .map(|name| {
            let name = name
                .as_str()
                .ok_or_else(|| PolicyError::Shape(name.to_string()))?;
            Ok(name.parse::<PolicyClass>()?)
        })
        .collect()
}

/// The classes a level of trust may call; nobody's word is a guest's.
pub fn trust_default(trust: Option<Trust>) -> ClassSet {
    match trust {
        Some(Trust::Operator) => ClassSet::ALL,
        Some(Trust::Guest) | None => ClassSet::READ_ONLY,
    }
}

/// An effective allow and deny list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedPolicy {
    /// Allowed classes.
    pub allow: ClassSet,
    /// Denied classes.
    pub deny: ClassSet,
}

/// The effective policy: the trust's default, narrowed by `policy`, never widened by it.
pub fn resolve_policy(trust: Option<Trust>, policy: Option<&Policy>) -> ResolvedPolicy {
    let ceiling = trust_default(trust);
    let asked = policy.copied().unwrap_or_default();
    ResolvedPolicy {
        allow: ceiling.intersection(asked.allow.unwrap_or(ClassSet::ALL)),
        deny: ClassSet::ALL.difference(ceiling).union(asked.deny),
    }
}

/// The flattened `allow − deny` of [`resolve_policy`].
pub fn resolved_policy_classes(trust: Option<Trust>, policy: Option<&Policy>) -> ClassSet {
    let resolved = resolve_policy(trust, policy);
    resolved.allow.difference(resolved.deny)
}
