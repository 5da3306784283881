//! Changes to the text of the file that leave every other byte where it is.
//!
//! The parser only says where things are; the text itself is cut and pasted, so line endings,
//! comments, order and spacing of everything else survive. Every change is checked afterwards by
//! parsing the result: all other values must be what they were.

use std::collections::BTreeMap;
use std::ops::Range;

use toml_edit::{Document, DocumentMut, InlineTable, Item, Key, Table, TableLike};

use crate::schema::dotted;

/// The text is written in a way the change cannot follow.
#[derive(Debug)]
pub(crate) struct Unsupported;

/// The item at `path`, if there is one.
pub(crate) fn find<'d>(root: &'d Table, path: &[String]) -> Option<&'d Item> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(root.get(first)?, |item, part| {
        item.as_table_like()?.get(part)
    })
}

/// What the file says at `path`, as a file of its own; empty when it says nothing there.
pub(crate) fn excerpt(document: &DocumentMut, path: &[String]) -> String {
    let Some(item) = find(document.as_table(), path) else {
        return String::new();
    };
    let mut item = match item.clone().into_table() {
        Ok(mut section) => {
            section.set_dotted(false);
            if item.is_value() {
                // The spacing of braces means nothing on lines.
                section.fmt();
            }
            Item::Table(section)
        }
        Err(other) => other,
    };
    for part in path.iter().rev() {
        let mut parent = Table::new();
        parent.set_implicit(true);
        parent.insert(part, item);
        item = Item::Table(parent);
    }
    let document = item.into_table().map(DocumentMut::from).unwrap_or_default();
    document.to_string().trim_start().to_owned()
}

/// Sets the value at `path` to `value`, which is TOML.
pub(crate) fn set(text: &str, path: &[String], value: &str) -> Result<String, Unsupported> {
    let document = Document::parse(text).map_err(|_| Unsupported)?;
    let root = document.as_table();
    let changed = match find(root, path) {
        Some(Item::Value(old)) => splice(text, old.span().ok_or(Unsupported)?, value),
        Some(_) => return Err(Unsupported),
        None => insert(text, root, path, value)?,
    };
    check(root, &changed, path, Some(value))?;
    Ok(changed)
}

/// Removes the value at `path`; `None` when there is none. A comment behind it stays. A header that
/// is left with nothing below it goes too, unless a comment is about it.
pub(crate) fn unset(text: &str, path: &[String]) -> Result<Option<String>, Unsupported> {
    let document = Document::parse(text).map_err(|_| Unsupported)?;
    let root = document.as_table();
    let Some(item) = find(root, path) else {
        return Ok(None);
    };
    let value = item
        .as_value()
        .and_then(toml_edit::Value::span)
        .ok_or(Unsupported)?;
    let (leaf, parents) = path.split_last().ok_or(Unsupported)?;
    let parent: &dyn TableLike = match parents {
        [] => root,
        _ => find(root, parents)
            .and_then(Item::as_table_like)
            .ok_or(Unsupported)?,
    };
    let key = parent.key(leaf).and_then(Key::span).ok_or(Unsupported)?;
    let is_inline =
        (1..path.len()).any(|depth| find(root, &path[..depth]).is_some_and(Item::is_inline_table));
    let changed = if is_inline {
        remove_from_inline(text, key, value)
    } else {
        let changed = remove_line(text, key, value);
        remove_bare_header(&changed, parents).unwrap_or(changed)
    };
    check(root, &changed, path, None)?;
    Ok(Some(changed))
}

fn splice(text: &str, range: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..range.start], &text[range.end..])
}

fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(end) if text[..end].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// The start of the line `offset` is on. A byte order mark belongs to the file, not to its line.
fn line_start(text: &str, offset: usize) -> usize {
    match text[..offset].rfind('\n') {
        Some(end) => end + 1,
        None if text.starts_with('\u{feff}') => '\u{feff}'.len_utf8(),
        None => 0,
    }
}

/// The end of the line `offset` is on, its line break included.
fn line_end(text: &str, offset: usize) -> usize {
    text[offset..]
        .find('\n')
        .map_or(text.len(), |end| offset + end + 1)
}

fn insert(text: &str, root: &Table, path: &[String], value: &str) -> Result<String, Unsupported> {
    // The deepest table with a header of its own (or the file itself), and the innermost pair of
    // braces: a new key goes into one of the two.
    let mut block = (0, root);
    let mut braces: Option<(usize, &InlineTable)> = None;
    let mut here: &dyn TableLike = root;
    let mut depth = 0;
    let mut parent_is_dotted = false;
    for part in &path[..path.len() - 1] {
        let Some(item) = here.get(part) else { break };
        depth += 1;
        match item {
            Item::Table(table) => {
                parent_is_dotted = table.is_dotted();
                if !table.is_dotted() && !table.is_implicit() {
                    block = (depth, table);
                }
                here = table;
            }
            Item::Value(toml_edit::Value::InlineTable(table)) => {
                if !table.is_dotted() {
                    braces = Some((depth, table));
                }
                here = table;
            }
            _ => return Err(Unsupported),
        }
    }
    let key_from = |depth: usize| dotted(&path[depth..]);
    if let Some((depth, table)) = braces {
        let entry = format!("{} = {value}", key_from(depth));
        return insert_into_braces(text, table, &entry);
    }
    let parent_exists = depth + 1 == path.len();
    if parent_exists && (block.0 == depth || parent_is_dotted) {
        let end = match last_value_end(block.1) {
            Some(end) => end,
            None => block.1.span().ok_or(Unsupported)?.start,
        };
        return Ok(insert_line(
            text,
            line_end(text, end),
            &format!("{} = {value}", key_from(block.0)),
        ));
    }
    let section = dotted(&path[..path.len() - 1]);
    let newline = newline(text);
    let gap = if text.trim_start_matches('\u{feff}').trim().is_empty() {
        ""
    } else {
        newline
    };
    let header = format!(
        "{gap}[{section}]{newline}{} = {value}",
        key_from(path.len() - 1)
    );
    Ok(insert_line(text, text.len(), &header))
}

/// Puts `line` at `offset`, which is the start of a line or the end of the text.
fn insert_line(text: &str, offset: usize, line: &str) -> String {
    let newline = newline(text);
    let before = &text[..offset];
    let unfinished = !before.trim_start_matches('\u{feff}').is_empty() && !before.ends_with('\n');
    let gap = if unfinished { newline } else { "" };
    format!("{before}{gap}{line}{newline}{}", &text[offset..])
}

fn insert_into_braces(text: &str, table: &InlineTable, entry: &str) -> Result<String, Unsupported> {
    let last = table
        .get_values()
        .iter()
        .filter_map(|(_, value)| value.span())
        .map(|span| span.end)
        .max();
    match last {
        Some(end) => Ok(splice(text, end..end, &format!(", {entry}"))),
        None => {
            let span = table.span().ok_or(Unsupported)?;
            Ok(splice(text, span, &format!("{{ {entry} }}")))
        }
    }
}

/// Where the last value of a table ends, dotted keys included, sections below it not.
fn last_value_end(table: &Table) -> Option<usize> {
    table
        .iter()
        .filter_map(|(_, item)| match item {
            Item::Value(value) => value
                .span()
                .map(|span| span.end)
                .or_else(|| inline_end(value)),
            Item::Table(table) if table.is_dotted() => last_value_end(table),
            _ => None,
        })
        .max()
}

fn inline_end(value: &toml_edit::Value) -> Option<usize> {
    value
        .as_inline_table()?
        .get_values()
        .iter()
        .filter_map(|(_, value)| Some(value.span()?.end))
        .max()
}

fn remove_line(text: &str, key: Range<usize>, value: Range<usize>) -> String {
    let start = line_start(text, key.start);
    let end = line_end(text, value.end);
    let behind = text[value.end..end].trim_start();
    splice(text, start..end, behind)
}

/// `text` without the header of the section at `path`, if nothing stands below it and no comment
/// is about it.
fn remove_bare_header(text: &str, path: &[String]) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let Some(Item::Table(section)) = find(document.as_table(), path) else {
        return None;
    };
    let is_bare =
        !section.is_implicit() && !section.is_dotted() && last_value_end(section).is_none();
    let header = section.span().filter(|_| is_bare)?;
    let start = line_start(text, header.start);
    let end = line_end(text, header.start);
    let below = text[end..].lines().map(str::trim);
    let is_free = |line: &&str| line.is_empty() || line.starts_with('#');
    let below: Vec<&str> = below.take_while(is_free).collect();
    let ends_file = text[end..].lines().count() == below.len();
    // Comments right above the next header, and apart from this one, are about the next section.
    let own = match below.iter().rposition(|line| line.is_empty()) {
        Some(gap) if !ends_file => &below[..gap],
        _ => &below[..],
    };
    let above = text[..start].lines().next_back().unwrap_or_default().trim();
    let is_commented = text[header.start..end].contains('#')
        || above.starts_with('#')
        || own.iter().any(|line| line.starts_with('#'));
    if is_commented {
        return None;
    }
    // One gap goes with it: the one above, else the one below.
    let gap_above = text[..start]
        .strip_suffix('\n')
        .map(|rest| rest.strip_suffix('\r').unwrap_or(rest))
        .filter(|rest| rest.is_empty() || rest.ends_with('\n'))
        .map(str::len);
    let range = match gap_above {
        Some(gap) => gap..end,
        None if below.first().is_some_and(|line| line.is_empty()) => start..line_end(text, end),
        None => start..end,
    };
    Some(splice(text, range, ""))
}

fn remove_from_inline(text: &str, key: Range<usize>, value: Range<usize>) -> String {
    let opening = text[..key.start].rfind(['{', ',']).unwrap_or(0);
    let after = &text[value.end..];
    let blank = after.len() - after.trim_start().len();
    if after[blank..].starts_with(',') {
        let rest = &after[blank + 1..];
        let gap = rest.len() - rest.trim_start().len();
        let start = opening + 1;
        let lead = text[start..].len() - text[start..].trim_start().len();
        return splice(text, start + lead..value.end + blank + 1 + gap, "");
    }
    let start = if text[opening..].starts_with(',') {
        opening
    } else {
        opening + 1
    };
    splice(text, start..value.end, "")
}

/// Every value except the one at `path` must be what it was, and that one what it should be.
fn check(
    before: &Table,
    changed: &str,
    path: &[String],
    value: Option<&str>,
) -> Result<(), Unsupported> {
    let after = Document::parse(changed).map_err(|_| Unsupported)?;
    let mut expected = BTreeMap::new();
    flatten(before, &mut Vec::new(), &mut expected);
    expected.remove(path);
    let mut found = BTreeMap::new();
    flatten(after.as_table(), &mut Vec::new(), &mut found);
    let new = found.remove(path);
    let is_as_wanted = new.as_deref() == value.map(str::trim);
    if is_as_wanted && expected == found {
        Ok(())
    } else {
        Err(Unsupported)
    }
}

fn flatten(
    table: &dyn TableLike,
    path: &mut Vec<String>,
    values: &mut BTreeMap<Vec<String>, String>,
) {
    for (name, item) in table.iter() {
        path.push(name.to_owned());
        match item.as_table_like() {
            Some(section) => flatten(section, path, values),
            None => {
                values.insert(path.clone(), item.to_string().trim().to_owned());
            }
        }
        path.pop();
    }
}
