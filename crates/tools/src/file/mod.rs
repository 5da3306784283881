//! Tools of category `file`.

mod checkpoint;
pub mod content_search;
pub mod document;
pub mod file_edit;
pub mod file_read;
pub mod file_write;
pub mod glob_search;
mod searching;

/// The most bytes a written or edited file may have (spec/02 §4.3, §4.4).
const MAX_FILE: usize = 10 * 1024 * 1024;
