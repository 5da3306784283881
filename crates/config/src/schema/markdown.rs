//! The configuration reference, made from the table.

use std::fmt::Write as _;

use super::{KeyDoc, keys};
use crate::env;

/// The reference of `config.toml` and of the environment, as Markdown.
pub fn render_markdown() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         <!-- Generated from the table of keys in crates/config. Do not edit. -->\n\n\
         Settings live in `config.toml` in the Fermix home (`fermix config path` prints where).\n\
         The file is optional. An unknown section or key, or a value of the wrong type, stops\n\
         Fermix with the line and the nearest accepted name.\n\n\
         A value given for one invocation wins over an environment variable, which wins over\n\
         the file, which wins over the default.\n",
    );
    let mut section = "";
    for row in keys() {
        let (row_section, key) = row.path().rsplit_once('.').unwrap_or(("", row.path()));
        if row_section != section {
            section = row_section;
            let _ = write!(
                page,
                "\n## `[{section}]`\n\n| Key | Type | Default | Meaning |\n| --- | --- | --- | --- |\n"
            );
        }
        let _ = writeln!(
            page,
            "| `{key}` | {} | {} | {} |",
            cell(&type_cell(row)),
            default_cell(row),
            cell(&meaning_cell(row))
        );
    }
    page.push_str("\n## Environment\n\n| Variable | Effect |\n| --- | --- |\n");
    let mut variables: Vec<(&str, String)> = env::VARIABLES
        .iter()
        .map(|doc| (doc.name, doc.effect.to_owned()))
        .collect();
    variables.extend(
        keys().filter_map(|row| Some((row.variable()?, format!("wins over `{}`", row.path())))),
    );
    variables.sort();
    for (name, effect) in variables {
        let _ = writeln!(page, "| `{name}` | {} |", cell(&effect));
    }
    page
}

fn type_cell(row: &KeyDoc) -> String {
    let accepted = row.accepted();
    if accepted.is_empty() || row.type_text() == "boolean" {
        return row.type_text();
    }
    accepted
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn default_cell(row: &KeyDoc) -> String {
    if row.default() == "unset" {
        "unset".to_owned()
    } else {
        format!("`{}`", cell(row.default()))
    }
}

fn meaning_cell(row: &KeyDoc) -> String {
    let mut meaning = match row.alias_of() {
        Some(path) => format!("{} See `{path}`.", row.doc()),
        None => row.doc().to_owned(),
    };
    if let Some(name) = row.variable() {
        let _ = write!(meaning, " Environment: `{name}`.");
    }
    meaning
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
