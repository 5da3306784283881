//! The leniencies, and unknown parameters.
//!
//! One walk along schema and arguments together. Where a schema offers several forms for one
//! place and more than one fits, nothing is changed, save that parameters without a value go.

use serde_json::{Map, Value};

use super::{parse_strict, shown_name};
use crate::schema::{Author, PreparedSchema, members, resolve};

/// Deeper arguments are left to the validator.
const MAX_DEPTH: usize = 64;
/// How many accepted names an error lists.
const MAX_LISTED: usize = 12;

/// A parameter that no schema mentions.
pub(super) struct Unknown {
    /// The JSON pointer of the object that holds it.
    pub(super) holder: String,
    /// The sentence for the model.
    pub(super) line: String,
}

/// Changes `arguments` in place and returns the unknown parameters.
pub(super) fn apply(schema: &PreparedSchema, arguments: &mut Value) -> Vec<Unknown> {
    let mut walk = Walk {
        root: schema.value(),
        author: schema.author(),
        unknown: Vec::new(),
    };
    let place = Place {
        pointer: String::new(),
        depth: 0,
        decoded: false,
    };
    walk.visit(schema.value(), arguments, &place);
    walk.unknown
}

struct Walk<'a> {
    root: &'a Value,
    author: Author,
    unknown: Vec<Unknown>,
}

struct Place {
    pointer: String,
    depth: usize,
    /// Whether this was JSON text before. It is decoded once, not again and again.
    decoded: bool,
}

impl Place {
    fn below(&self, key: &str) -> Self {
        Self {
            pointer: format!(
                "{}/{}",
                self.pointer,
                key.replace('~', "~0").replace('/', "~1")
            ),
            depth: self.depth + 1,
            decoded: self.decoded,
        }
    }
}

impl<'a> Walk<'a> {
    fn visit(&mut self, schema: &'a Value, value: &mut Value, place: &Place) {
        if place.depth > MAX_DEPTH {
            return;
        }
        let forms = self.forms(schema);
        let mut decoded = place.decoded;
        if let Some(better) = coerced(&forms, value, &mut decoded) {
            *value = better;
        }
        let place = Place {
            pointer: place.pointer.clone(),
            depth: place.depth,
            decoded,
        };
        match value {
            Value::Object(object) => {
                self.drop_nothings(&forms, object);
                if let Some(form) = only(&forms, "object") {
                    self.visit_object(form, object, &place);
                }
            }
            Value::Array(items) => {
                let Some(rule) = only(&forms, "array").and_then(|form| form.get("items")) else {
                    return;
                };
                for (index, item) in items.iter_mut().enumerate() {
                    self.visit(rule, item, &place.below(&index.to_string()));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// A parameter whose value is nothing is not there, unless nothing is one of its values in any
    /// of the forms.
    fn drop_nothings(&self, forms: &[&'a Value], object: &mut Map<String, Value>) {
        object.retain(|key, value| {
            let mut rules = forms
                .iter()
                .filter_map(|form| members(form, "properties")?.get(key))
                .peekable();
            let is_known = rules.peek().is_some();
            !(value.is_null() && is_known && rules.all(|rule| !admits(&self.forms(rule), "null")))
        });
    }

    fn visit_object(&mut self, form: &'a Value, object: &mut Map<String, Value>, place: &Place) {
        let properties = members(form, "properties");
        let known = |key: &str| properties.and_then(|all| all.get(key));
        let closed = self.is_closed(form, place);
        for (key, value) in object.iter_mut() {
            match known(key) {
                Some(rule) => self.visit(rule, value, &place.below(key)),
                None if closed => {
                    let line = self.unknown_line(key, properties, place);
                    self.unknown.push(Unknown {
                        holder: place.pointer.clone(),
                        line,
                    });
                }
                None => {}
            }
        }
    }

    /// Whether an object of this form has no other members than its properties.
    fn is_closed(&self, form: &Value, place: &Place) -> bool {
        if form.get("patternProperties").is_some() {
            return false;
        }
        // Another part of the schema may know the name.
        let has_other_parts = ["allOf", "anyOf", "oneOf", "if", "$ref", "dependentSchemas"]
            .iter()
            .any(|keyword| form.get(*keyword).is_some());
        match form.get("additionalProperties") {
            Some(Value::Bool(false)) => true,
            Some(_) => false,
            None => {
                self.author == Author::Ourselves
                    && !has_other_parts
                    && form.get("unevaluatedProperties").is_none()
                    && (place.depth == 0 || members(form, "properties").is_some())
            }
        }
    }

    fn unknown_line(
        &self,
        key: &str,
        properties: Option<&Map<String, Value>>,
        place: &Place,
    ) -> String {
        let key = fermix_types::text::shortened(key, 80);
        let names = || {
            properties
                .into_iter()
                .flat_map(Map::keys)
                .map(String::as_str)
        };
        let holder = if place.pointer.is_empty() {
            String::new()
        } else {
            format!(" in {}", place.pointer)
        };
        if let Some(near) = fermix_search::near_name(&key, names()) {
            let near = shown_name(near, self.author);
            return format!("unknown parameter `{key}`{holder}; did you mean `{near}`?");
        }
        let listed: Vec<&str> = names()
            .take(MAX_LISTED)
            .map(|name| shown_name(name, self.author))
            .collect();
        if listed.is_empty() {
            format!("unknown parameter `{key}`{holder}; none are accepted here")
        } else {
            format!(
                "unknown parameter `{key}`{holder}; accepted: {}",
                listed.join(", ")
            )
        }
    }

    /// The forms one place may take, references followed.
    fn forms(&self, schema: &'a Value) -> Vec<&'a Value> {
        let mut schema = resolve(self.root, schema);
        // The way to put words beside a reference.
        while let (Some([only]), None) = (
            schema
                .get("allOf")
                .and_then(Value::as_array)
                .map(Vec::as_slice),
            schema.get("properties"),
        ) {
            schema = resolve(self.root, only);
        }
        let branches = ["anyOf", "oneOf"]
            .iter()
            .find_map(|keyword| schema.get(*keyword)?.as_array())
            .filter(|_| schema.get("properties").is_none());
        match branches {
            Some(branches) => branches
                .iter()
                .map(|branch| resolve(self.root, branch))
                .collect(),
            None => vec![schema],
        }
    }
}

/// Whether any form takes a value of `type_name`.
fn admits(forms: &[&Value], type_name: &str) -> bool {
    forms.iter().any(|form| form_admits(form, type_name))
}

fn form_admits(form: &Value, type_name: &str) -> bool {
    match form.get("type") {
        Some(Value::String(name)) => name == type_name,
        Some(Value::Array(names)) => names.iter().any(|name| name == type_name),
        _ => {
            let listed = form
                .get("enum")
                .and_then(Value::as_array)
                .map(Vec::as_slice)
                .or_else(|| form.get("const").map(std::slice::from_ref));
            match listed {
                Some(values) => values
                    .iter()
                    .any(|value| super::type_name(value) == type_name),
                None if form.get("properties").is_some() => type_name == "object",
                None => true,
            }
        }
    }
}

/// The one form that takes a value of `type_name`.
fn only<'a>(forms: &[&'a Value], type_name: &str) -> Option<&'a Value> {
    let mut fitting = forms.iter().filter(|form| form_admits(form, type_name));
    match (fitting.next(), fitting.next()) {
        (Some(form), None) => Some(form),
        _ => None,
    }
}

fn coerced(forms: &[&Value], value: &Value, decoded: &mut bool) -> Option<Value> {
    match value {
        Value::String(text) if !admits(forms, "string") => {
            if admits(forms, "integer") {
                return integer_in(text).map(Value::from);
            }
            if *decoded {
                return None;
            }
            let inner = parse_strict(text).ok()?;
            let fits = (inner.is_object() && admits(forms, "object"))
                || (inner.is_array() && admits(forms, "array"));
            *decoded = fits;
            fits.then_some(inner)
        }
        Value::Number(number) if admits(forms, "integer") && !admits(forms, "number") => {
            if number.is_i64() || number.is_u64() {
                return None;
            }
            whole(number.as_f64()?).map(Value::from)
        }
        _ => None,
    }
}

/// `5` in `"5"`, and nothing in `"5 apples"`, `"0x5"` or `" 5"`.
fn integer_in(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// A float that stands for exactly one integer.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}
