//! The tools of one request, and what their schemas say.

use fermix_types::ToolDefinition;
use serde_json::Value;

use crate::request::SystemPart;

/// The most properties of one schema that are looked at.
const MAX_PROPERTIES: usize = 64;

/// The tools that may be called.
pub(super) struct Toolbox<'a> {
    tools: &'a [ToolDefinition],
    system: &'a [SystemPart],
    /// Tools that were called before; when the turn is being closed no other are left.
    called: Vec<&'a str>,
}

impl<'a> Toolbox<'a> {
    pub(super) fn new(
        tools: &'a [ToolDefinition],
        system: &'a [SystemPart],
        called: Vec<&'a str>,
    ) -> Self {
        Self {
            tools,
            system,
            called,
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> &'a [ToolDefinition] {
        self.tools
    }

    pub(super) fn find(&self, name: &str) -> Option<&'a ToolDefinition> {
        self.tools.iter().find(|tool| tool.name.as_str() == name)
    }

    /// Whether `name` may be called, or was called before the turn had to close.
    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some() || (self.is_closed() && self.called.contains(&name))
    }

    /// Whether no tool may be called any more.
    pub(super) fn is_closed(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether `tool` has a parameter `property`.
    pub(super) fn takes(&self, tool: &str, property: &str) -> bool {
        match self.find(tool) {
            Some(tool) => Schema::of(tool)
                .properties
                .iter()
                .any(|each| each.name == property),
            // The call was made already; only its form matters now.
            None => self.has(tool),
        }
    }

    /// Whether there are tools beyond these that can be searched.
    pub(super) fn has_more(&self) -> bool {
        self.find("tool_search").is_some()
            && self
                .system
                .iter()
                .flat_map(|part| part.text.lines())
                .any(|line| matches!(line.trim_end(), "## Plugins" | "## MCP servers"))
    }

    /// Whether the person is somebody this machine's files are open to. What is not known to be
    /// the owner is spoken to like a guest.
    pub(super) fn is_owner(&self) -> bool {
        ["file_read", "shell"].iter().any(|name| self.has(name))
    }

    /// The heading that the catalog in the prompt puts a tool under.
    pub(super) fn heading(&self, name: &str) -> Option<&'a str> {
        let entry = format!("`{name}` ");
        let mut heading = None;
        for line in self.system.iter().flat_map(|part| part.text.lines()) {
            if let Some(title) = line.strip_prefix("### ") {
                heading = Some(title.trim());
            } else if line.starts_with("## ") {
                heading = None;
            } else if line.starts_with(&entry) && heading.is_some() {
                return heading;
            }
        }
        None
    }
}

/// What a value has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Integer,
    Number,
    Boolean,
    /// A list of texts.
    Texts,
    /// Anything that cannot be said in a sentence.
    Structure,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) value: Type,
    pub(super) choices: Vec<String>,
    pub(super) format: String,
    pub(super) description: String,
    pub(super) required: bool,
}

/// The parameters of a tool, in the order of its schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Schema {
    pub(super) properties: Vec<Property>,
}

impl Schema {
    pub(super) fn of(tool: &ToolDefinition) -> Self {
        serde_json::from_str(tool.parameters.get())
            .map_or_else(|_| Self::default(), |value| Self::read(&value))
    }

    pub(super) fn read(root: &Value) -> Self {
        let required: Vec<&str> = root
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let Some(properties) = root.get("properties").and_then(Value::as_object) else {
            return Self::default();
        };
        Self {
            properties: properties
                .iter()
                .take(MAX_PROPERTIES)
                .map(|(name, property)| {
                    read_property(root, name, property, required.contains(&name.as_str()))
                })
                .collect(),
        }
    }
}

fn read_property(root: &Value, name: &str, property: &Value, required: bool) -> Property {
    let description = property
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let resolved = substance(root, property);
    let choices = resolved
        .get("enum")
        .and_then(Value::as_array)
        .map(|values| {
            values
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default();
    Property {
        name: name.to_owned(),
        value: type_of(root, resolved),
        choices,
        format: resolved
            .get("format")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        description: description.to_owned(),
        required,
    }
}

/// The schema behind one reference, or behind "this or null".
fn substance<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return target
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer))
            .unwrap_or(schema);
    }
    let variants = ["anyOf", "oneOf"]
        .iter()
        .find_map(|key| schema.get(key)?.as_array());
    let other_than_null = variants.and_then(|variants| {
        variants
            .iter()
            .find(|variant| variant.get("type").and_then(Value::as_str) != Some("null"))
    });
    match other_than_null {
        Some(variant) => match variant.get("$ref").and_then(Value::as_str) {
            Some(target) => target
                .strip_prefix('#')
                .and_then(|pointer| root.pointer(pointer))
                .unwrap_or(variant),
            None => variant,
        },
        None => schema,
    }
}

fn type_of(root: &Value, schema: &Value) -> Type {
    let name = match schema.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .find(|name| *name != "null"),
        _ => None,
    };
    match name {
        Some("string") => Type::Text,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        Some("array") => {
            let items = schema
                .get("items")
                .map(|items| type_of(root, substance(root, items)));
            if items == Some(Type::Text) {
                Type::Texts
            } else {
                Type::Structure
            }
        }
        None if schema.get("enum").is_some() => Type::Text,
        _ => Type::Structure,
    }
}
