//! What a dotted key that does not exist was meant to be.

use super::{COMMAND, Found, MODEL, VARIABLE, dotted, is_wildcard, keys, look_up, nearest};

/// How to go on from a path that names nothing.
#[derive(Debug, Default)]
pub(crate) struct Advice {
    /// The key or section that was probably meant.
    pub(crate) suggestion: Option<String>,
    /// What is wrong, and what is accepted.
    pub(crate) reason: Option<String>,
}

/// Advice on a path that [`look_up`] does not find. First found wins:
/// 1. the path with quotes around a name that has dots,
/// 2. the path with slips of the fingers mended, part by part,
/// 3. the path as the end of a longer one, with the same help for that one,
/// 4. the names that can stand where the first unknown part is.
pub(crate) fn advise(path: &[String]) -> Advice {
    if let Some(advice) = mended(path) {
        return advice;
    }
    let longer: Vec<(Vec<String>, usize)> = sections()
        .into_iter()
        .map(|section| ([section.as_slice(), path].concat(), section.len()))
        .filter(|(whole, first)| !is_of_own_choice(whole, *first))
        .collect();
    if let Some((whole, _)) = longer.iter().find(|(whole, _)| exists(whole)) {
        return suggest(whole);
    }
    // One word alone is like too many keys.
    if path.len() > 1
        && let Some(advice) = longer.iter().find_map(|(whole, _)| mended(whole))
    {
        return advice;
    }
    let reason = accepted(path).or_else(|| {
        longer
            .iter()
            .filter(|(whole, first)| exists(&whole[..=*first]))
            .find_map(|(whole, _)| accepted(whole))
    });
    let paths: Vec<&str> = keys().map(super::KeyDoc::path).collect();
    Advice {
        suggestion: nearest(&dotted(path), &paths).filter(|_| reason.is_none()),
        reason,
    }
}

/// `path` with the parts of a model's name, which was written without quotes, as one part.
pub(crate) fn dotted_name(path: &[String]) -> Option<Vec<String>> {
    let rejoined = |count: usize| -> Option<Vec<String>> {
        let start = model_at(path)?;
        let name = path.get(start..start + count)?.join(".");
        let rest = &path[start + count..];
        Some([&path[..start], &[name], rest].concat())
    };
    let all = (2..=path.len()).filter_map(rejoined);
    let mut sections = None;
    for candidate in all {
        match look_up(&candidate) {
            Found::Key(..) => return Some(candidate),
            Found::Section => sections = Some(candidate),
            Found::Nothing { .. } => {}
        }
    }
    sections
}

/// Whether any name could stand at `place`, so that standing there says nothing.
fn is_of_own_choice(path: &[String], place: usize) -> bool {
    keys().any(|row| {
        let mut parts = row.path().split('.');
        let leads_there = path[..place]
            .iter()
            .all(|given| parts.next() == Some(given));
        leads_there
            && parts
                .next()
                .is_some_and(|part| [MODEL, VARIABLE, COMMAND].contains(&part))
    }) && !keys().any(|row| {
        row.path()
            .split('.')
            .take(place + 1)
            .eq(path[..=place].iter())
    })
}

/// Where a model's name begins, if `path` leads there.
fn model_at(path: &[String]) -> Option<usize> {
    keys().find_map(|row| {
        let mut parts = row.path().split('.');
        let start = parts.clone().position(|part| part == MODEL)?;
        let leads_there = path.len() > start
            && path
                .iter()
                .take(start)
                .all(|given| parts.next() == Some(given));
        leads_there.then_some(start)
    })
}

fn mended(path: &[String]) -> Option<Advice> {
    let rejoined = dotted_name(path);
    let is_key = |path: &Vec<String>| matches!(look_up(path), Found::Key(..));
    if let Some(whole) = rejoined.as_ref().filter(|whole| is_key(whole)) {
        return Some(needs_quotes(whole));
    }
    if let Some(whole) = corrected(path) {
        return Some(suggest(&whole));
    }
    rejoined.as_deref().map(needs_quotes)
}

fn needs_quotes(whole: &[String]) -> Advice {
    Advice {
        suggestion: None,
        reason: Some(format!(
            "a part with dots needs quotes, and those need quotes for a shell: write '{}'",
            dotted(whole)
        )),
    }
}

fn suggest(whole: &[String]) -> Advice {
    Advice {
        suggestion: Some(dotted(whole)),
        reason: None,
    }
}

fn exists(path: &[String]) -> bool {
    !matches!(look_up(path), Found::Nothing { .. })
}

/// `path` with the nearest name for each part that does not exist.
fn corrected(path: &[String]) -> Option<Vec<String>> {
    let mut fixed = path.to_vec();
    for end in 1..=fixed.len() {
        if let Found::Nothing { suggestion, .. } = look_up(&fixed[..end]) {
            fixed[end - 1] = suggestion?;
        }
    }
    exists(&fixed).then_some(fixed)
}

/// The closed list that the first unknown part is not on.
fn accepted(path: &[String]) -> Option<String> {
    (1..=path.len()).find_map(|end| match look_up(&path[..end]) {
        Found::Nothing { reason, .. } => Some(reason),
        Found::Key(..) | Found::Section => None,
    })?
}

/// Every section whose name is fixed, in the order of the table.
fn sections() -> Vec<Vec<String>> {
    let mut sections: Vec<Vec<String>> = Vec::new();
    for row in keys() {
        let parts: Vec<String> = row
            .path()
            .split('.')
            .take_while(|part| !is_wildcard(part))
            .map(str::to_owned)
            .collect();
        for end in 1..parts.len() {
            if !sections.iter().any(|section| section == &parts[..end]) {
                sections.push(parts[..end].to_vec());
            }
        }
    }
    sections
}
