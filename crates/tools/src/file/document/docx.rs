//! The text of a Word document: paragraphs as lines, headings with `#`, tables as rows of cells
//! apart by tabs.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};

use super::extraction::{Extraction, Stop, counted};
use super::package::{self, Package, damaged};

/// How many XML events are read between two looks at the clock.
const EVENTS_PER_CHECK: usize = 2_000;
/// The deepest heading there is.
const MAX_HEADING: u8 = 9;

pub(super) fn extract(bytes: &[u8], found: &mut Extraction) -> Result<(), Stop> {
    let mut package = package::open(bytes, found)?;
    let main = main_part(&mut package, found)?;
    let headings = headings(&mut package, &main, found)?;
    found.describe("text of a Word document".to_owned());
    let mut written = 0;
    body(&mut package, &main, &headings, found, &mut written)?
        .ok_or_else(|| Stop::refused("it has no text part"))?;
    found.describe(format!(
        "text of a Word document with {}",
        counted(written, "paragraph")
    ));
    for (name, title) in [("footnotes.xml", "footnotes"), ("endnotes.xml", "endnotes")] {
        let name = sibling(&main, name);
        let mut notes = Extraction::new(found.deadline());
        let mut written = 0;
        let ended = body(&mut package, &name, &headings, &mut notes, &mut written).map(drop);
        let text = notes.finish(ended).map_err(Stop::Refused)?.text;
        if !text.trim().is_empty() {
            found.line(&format!("--- {title} ---"))?;
            found.push(text.trim_start_matches('\n'))?;
        }
    }
    Ok(())
}

/// The name of the part that holds the text, as the package's relationships have it.
fn main_part(package: &mut Package<'_>, found: &Extraction) -> Result<String, Stop> {
    let mut target = None;
    each_event(package, "_rels/.rels", found, |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "Relationship"
            && attribute(element, "Type").is_some_and(|kind| kind.ends_with("/officeDocument"))
        {
            target = attribute(element, "Target");
        }
        Ok(())
    })?;
    let target = target.unwrap_or_else(|| "word/document.xml".to_owned());
    Ok(target.trim_start_matches('/').to_owned())
}

/// Which paragraph styles are headings, and of which level. The ids of styles are in the language
/// of the writer's Word; their names and outline levels are not.
fn headings(
    package: &mut Package<'_>,
    main: &str,
    found: &Extraction,
) -> Result<HashMap<String, u8>, Stop> {
    let mut levels = HashMap::new();
    let mut style = None;
    each_event(package, &sibling(main, "styles.xml"), found, |event| {
        let (Event::Start(element) | Event::Empty(element)) = event else {
            return Ok(());
        };
        let value = || attribute(element, "val");
        let level = match element.local_name().as_ref() {
            "style" => {
                style = attribute(element, "styleId");
                None
            }
            "name" => value().and_then(|name| {
                let name = name.to_lowercase();
                if name == "title" {
                    return Some(1);
                }
                name.strip_prefix("heading ")?.parse::<u8>().ok()
            }),
            // 9 stands for body text.
            "outlineLvl" => value()
                .and_then(|level| level.parse::<u8>().ok())
                .filter(|level| *level < MAX_HEADING)
                .map(|level| level + 1),
            _ => None,
        };
        if let (Some(style), Some(level)) = (&style, level) {
            levels
                .entry(style.clone())
                .or_insert(level.clamp(1, MAX_HEADING));
        }
        Ok(())
    })?;
    Ok(levels)
}

/// Writes the paragraphs and tables of one part. Nothing when there is no such part.
fn body(
    package: &mut Package<'_>,
    name: &str,
    headings: &HashMap<String, u8>,
    found: &mut Extraction,
    written: &mut usize,
) -> Result<Option<()>, Stop> {
    let Some(part) = package::part(package, name)? else {
        return Ok(None);
    };
    let mut writer = Writer {
        headings,
        found,
        written,
        paragraph: String::new(),
        lead: String::new(),
        row: Vec::new(),
        cell: String::new(),
        tables: 0,
        in_text: false,
        skipping: 0,
    };
    let mut reader = reader(BufReader::new(part));
    let mut buffer = Vec::new();
    let mut seen = 0;
    loop {
        seen += 1;
        if seen % EVENTS_PER_CHECK == 0 {
            writer.found.check()?;
        }
        buffer.clear();
        match reader
            .read_event_into(&mut buffer)
            .map_err(|error| damaged(&error))?
        {
            Event::Start(element) => writer.open(&element, false)?,
            Event::Empty(element) => writer.open(&element, true)?,
            Event::End(element) => writer.close(element.local_name().as_ref())?,
            Event::Text(text) => writer.text(&text.xml10_content())?,
            Event::CData(text) => writer.text(&text.xml10_content())?,
            Event::GeneralRef(name) => {
                let character = name.resolve_char_ref().ok().flatten().map(String::from);
                let named = quick_xml::escape::resolve_predefined_entity(&name.xml10_content());
                writer.text(character.as_deref().or(named).unwrap_or("\u{FFFD}"))?;
            }
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
    writer.flush()?;
    Ok(Some(()))
}

struct Writer<'a> {
    headings: &'a HashMap<String, u8>,
    found: &'a mut Extraction,
    /// Paragraphs with text so far, table cells included.
    written: &'a mut usize,
    /// The paragraph so far.
    paragraph: String,
    /// What stands before it: `## `, or `- `.
    lead: String,
    /// The finished cells of the row.
    row: Vec<String>,
    /// The paragraphs of the cell so far.
    cell: String,
    /// How many tables this place lies in. Inner tables are text of the outer cell.
    tables: usize,
    /// Whether characters are text and not instructions of fields.
    in_text: bool,
    /// How deep inside an element that is left out.
    skipping: usize,
}

impl Writer<'_> {
    fn open(&mut self, element: &BytesStart<'_>, is_empty: bool) -> Result<(), Stop> {
        let name = element.local_name();
        if self.skipping > 0 {
            self.skipping += usize::from(!is_empty);
            return Ok(());
        }
        match name.as_ref() {
            // The same thing once more, for programs that do not know the first form.
            "Fallback" if !is_empty => self.skipping = 1,
            // What was deleted, moved away or looked otherwise under tracked changes, and the
            // places of tab stops, which are called like tabs.
            "del" | "moveFrom" | "pPrChange" | "tabs" if !is_empty => self.skipping = 1,
            "t" => self.in_text = !is_empty,
            "tab" => self.paragraph.push('\t'),
            "br" | "cr" => self.paragraph.push('\n'),
            "noBreakHyphen" => self.paragraph.push('-'),
            "pStyle" => {
                let level =
                    attribute(element, "val").and_then(|id| self.headings.get(&id).copied());
                if let Some(level) = level {
                    self.lead = format!("{} ", "#".repeat(usize::from(level)));
                }
            }
            "numPr" if self.lead.is_empty() => self.lead.push_str("- "),
            "footnoteReference" | "endnoteReference" => {
                if let Some(id) = attribute(element, "id") {
                    self.paragraph.push_str(&format!("[^{id}]"));
                }
            }
            "p" if is_empty => self.end_paragraph()?,
            "tbl" if !is_empty => {
                self.flush()?;
                self.tables += 1;
            }
            _ => {}
        }
        // A paragraph without end is held in memory, and so it is bounded too.
        if self.paragraph.len() + self.cell.len() > super::extraction::MAX_TEXT {
            return Err(Stop::Full);
        }
        Ok(())
    }

    fn close(&mut self, name: &str) -> Result<(), Stop> {
        if self.skipping > 0 {
            self.skipping -= 1;
            return Ok(());
        }
        match name {
            "t" => self.in_text = false,
            "p" => self.end_paragraph()?,
            "tc" if self.tables == 1 => self.row.push(std::mem::take(&mut self.cell)),
            "tr" if self.tables == 1 => {
                let row = std::mem::take(&mut self.row).join("\t");
                self.found.line(&row)?;
            }
            "tbl" => self.tables = self.tables.saturating_sub(1),
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        if self.in_text && self.skipping == 0 {
            self.paragraph.push_str(text);
        }
        Ok(())
    }

    /// Ends a paragraph that something interrupts.
    fn flush(&mut self) -> Result<(), Stop> {
        if self.paragraph.is_empty() {
            Ok(())
        } else {
            self.end_paragraph()
        }
    }

    fn end_paragraph(&mut self) -> Result<(), Stop> {
        let text = std::mem::take(&mut self.paragraph);
        let lead = std::mem::take(&mut self.lead);
        if self.tables > 0 {
            let text = text.replace(['\n', '\t'], " ");
            let text = text.trim();
            if !text.is_empty() {
                *self.written += 1;
                if !self.cell.is_empty() {
                    self.cell.push(' ');
                }
                self.cell.push_str(text);
            }
            return Ok(());
        }
        if text.is_empty() {
            return self.found.line("");
        }
        *self.written += 1;
        self.found.push(&lead)?;
        self.found.line(&text)
    }
}

/// Hands every XML event of a part to `take`. A part that does not exist has none.
fn each_event(
    package: &mut Package<'_>,
    name: &str,
    found: &Extraction,
    mut take: impl FnMut(&Event<'_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let Some(part) = package::part(package, name)? else {
        return Ok(());
    };
    let mut reader = reader(BufReader::new(part));
    let mut buffer = Vec::new();
    let mut seen = 0;
    loop {
        seen += 1;
        if seen % EVENTS_PER_CHECK == 0 {
            found.check()?;
        }
        buffer.clear();
        let event = reader
            .read_event_into(&mut buffer)
            .map_err(|error| damaged(&error))?;
        if matches!(event, Event::Eof) {
            return Ok(());
        }
        take(&event)?;
    }
}

fn reader<R: BufRead>(part: R) -> Reader<R> {
    let mut reader = Reader::from_reader(part);
    reader.config_mut().check_end_names = false;
    reader
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element
        .attributes()
        .with_checks(false)
        .flatten()
        .find(|attribute| attribute.key.local_name().as_ref() == name)?;
    let value = found.normalized_value(XmlVersion::Implicit1_0).ok()?;
    Some(value.into_owned())
}

/// A part that lies beside `main`.
fn sibling(main: &str, name: &str) -> String {
    match main.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{name}"),
        None => name.to_owned(),
    }
}
