//! `fermix config get [KEY]`.

use fermix_config::{ConfigFile, Shown};
use serde_json::json;

use crate::output::{self, Exit};
use crate::start::Start;

/// Prints one value, or the whole file.
pub fn run(key: Option<&str>, as_json: bool, start: &Start) -> Exit {
    let file = match ConfigFile::open(&start.home) {
        Ok(file) => file,
        Err(error) => return output::failure(as_json, &error.to_string()),
    };
    let Some(key) = key else {
        return whole(&file, as_json);
    };
    match file.section(key) {
        Ok(Some(text)) if as_json => {
            output::json(&json!({ "key": key, "section": text, "source": "file" }));
            return Exit::Ok;
        }
        Ok(Some(text)) => {
            output::raw(&text);
            return Exit::Ok;
        }
        Ok(None) => {}
        Err(error) => return output::failure(as_json, &error.to_string()),
    }
    let shown = match file.get(key) {
        Ok(shown) => shown,
        Err(error) => return output::failure(as_json, &error.to_string()),
    };
    match shown {
        Shown::Value(value) if as_json => {
            output::json(&json!({ "key": key, "value": value, "source": "file" }));
        }
        Shown::Value(value) => output::line(&value.to_string()),
        Shown::Hidden if as_json => {
            output::json(&json!({ "key": key, "secret": true, "source": "file" }));
        }
        Shown::Hidden => output::line("set (a secret, not shown)"),
        Shown::Default(value) if as_json => {
            output::json(&json!({ "key": key, "default": value, "source": "default" }));
        }
        Shown::Default(value) => {
            output::line(value);
            output::notice(&format!("`{key}` is not in the file; this is its default"));
        }
    }
    Exit::Ok
}

/// The whole file, secrets masked.
fn whole(file: &fermix_config::ConfigFile, as_json: bool) -> Exit {
    let masked = match file.masked_text() {
        Ok(masked) => masked,
        Err(error) => return output::failure(as_json, &error.to_string()),
    };
    if as_json {
        output::json(&json!({ "path": file.path(), "text": masked }));
    } else {
        output::raw(&masked);
    }
    Exit::Ok
}
