//! The text of a workbook: each sheet's rows, cells apart by tabs.

use std::io::Cursor;

use calamine::{DataRef, ExcelDateTime, Reader as _, Xlsx};

use super::extraction::{Extraction, Stop, counted};
use super::package::{self, damaged};

/// How many empty rows in a row stay empty lines. More are told in one line.
const MAX_GAP: u32 = 3;
/// How many cells are read between two looks at the clock.
const CELLS_PER_CHECK: usize = 1_000;

pub(super) fn extract(bytes: &[u8], found: &mut Extraction) -> Result<(), Stop> {
    drop(package::open(bytes, found)?);
    let mut book = Xlsx::new(Cursor::new(bytes)).map_err(|error| damaged(&error))?;
    let sheets = book.sheet_names();
    found.describe(format!(
        "text of a workbook with {}",
        counted(sheets.len(), "sheet")
    ));
    for (index, name) in sheets.iter().enumerate() {
        if index > 0 {
            found.line("")?;
        }
        found.line(&format!("--- sheet {} ---", on_one_line(name)))?;
        let ended = sheet(&mut book, name, found);
        match ended {
            Err(Stop::Refused(why)) => {
                // One broken sheet (or a chart, which has no cells) does not hide the others.
                found.note(format!(
                    "sheet {} could not be read: {why}",
                    on_one_line(name)
                ));
            }
            other => other?,
        }
    }
    Ok(())
}

fn sheet(book: &mut Xlsx<Cursor<&[u8]>>, name: &str, found: &mut Extraction) -> Result<(), Stop> {
    let mut cells = book
        .worksheet_cells_reader(name)
        .map_err(|error| damaged(&error))?;
    let mut row = Row::default();
    let mut seen = 0;
    while let Some(cell) = cells.next_cell().map_err(|error| damaged(&error))? {
        seen += 1;
        if seen % CELLS_PER_CHECK == 0 {
            found.check()?;
        }
        let Some(text) = shown(cell.get_value()) else {
            continue;
        };
        let (line, column) = cell.get_position();
        if line != row.number {
            row.end(found)?;
            row.skip_to(line, found)?;
        }
        row.add(column, &text, found)?;
    }
    row.end(found)
}

/// The row that is being written. Rows count from 0 here, as the library has it.
#[derive(Default)]
struct Row {
    number: u32,
    /// Where the next cell goes.
    column: u32,
    is_started: bool,
}

impl Row {
    fn end(&mut self, found: &mut Extraction) -> Result<(), Stop> {
        if std::mem::take(&mut self.is_started) {
            found.push("\n")?;
            self.number += 1;
        }
        self.column = 0;
        Ok(())
    }

    fn skip_to(&mut self, line: u32, found: &mut Extraction) -> Result<(), Stop> {
        let gap = line.saturating_sub(self.number);
        if gap > MAX_GAP {
            found.line(&format!("[rows {}-{line} are empty]", self.number + 1))?;
        } else {
            for _ in 0..gap {
                found.push("\n")?;
            }
        }
        self.number = line;
        Ok(())
    }

    fn add(&mut self, column: u32, text: &str, found: &mut Extraction) -> Result<(), Stop> {
        self.is_started = true;
        while self.column < column {
            found.push("\t")?;
            self.column += 1;
        }
        found.push(text)
    }
}

/// A cell as text; nothing for an empty one.
fn shown(value: &DataRef<'_>) -> Option<String> {
    let text = match value {
        DataRef::Empty => return None,
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => number.to_string(),
        DataRef::String(text) => on_one_line(text),
        DataRef::SharedString(text) => on_one_line(text),
        DataRef::Bool(true) => "TRUE".to_owned(),
        DataRef::Bool(false) => "FALSE".to_owned(),
        DataRef::DateTime(moment) => moment_text(moment),
        DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => on_one_line(text),
        DataRef::Error(error) => error.to_string(),
    };
    (!text.is_empty()).then_some(text)
}

/// A date without a time of day, a date with one, or a length of time in hours.
fn moment_text(moment: &ExcelDateTime) -> String {
    let serial = moment.as_f64();
    if moment.is_duration() {
        let seconds = (serial * 86_400.0).round().max(0.0) as u64;
        return format!(
            "{}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        );
    }
    let (year, month, day, hour, minute, second, _) = moment.to_ymd_hms_milli();
    if (0.0..1.0).contains(&serial) {
        format!("{hour:02}:{minute:02}:{second:02}")
    } else if serial.fract() == 0.0 {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// Tabs and line breaks inside a cell would look like cells and rows.
fn on_one_line(text: &str) -> String {
    text.replace("\r\n", " ").replace(['\n', '\r', '\t'], " ")
}
