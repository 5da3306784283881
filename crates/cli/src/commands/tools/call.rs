//! `fermix tools call NAME`.

use std::io::Read as _;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::args::As;
use crate::output::{self, Exit};
use crate::start::Start;

/// The largest argument text read from a file or standard input, in bytes.
const MAX_ARGUMENTS: u64 = 16 << 20;

/// Sends one call through the real dispatch. Exit code 1 when the tool says it failed.
pub fn run(name: &str, args: &str, wanted: As, as_json: bool, start: &Start) -> Exit {
    let arguments = match arguments(args) {
        Ok(arguments) => arguments,
        Err(error) => {
            return output::usage(as_json, &error);
        }
    };
    let engine = match start.engine(&[]) {
        Ok(engine) => engine,
        Err(error) => return output::failure(as_json, &error),
    };
    let runtime = match start.runtime() {
        Ok(runtime) => runtime,
        Err(error) => return output::failure(as_json, &error),
    };
    let cancel = CancellationToken::new();
    let outcome = runtime.block_on(async {
        let call = engine.call_tool(
            wanted.into(),
            start.peer(),
            name,
            arguments,
            start.cwd.clone(),
            cancel.clone(),
        );
        tokio::pin!(call);
        tokio::select! {
            outcome = &mut call => outcome,
            _ = crate::interrupt::signalled() => {
                // The call gets its time to put things away, and its answer is still printed.
                cancel.cancel();
                call.await
            }
        }
    });
    if as_json {
        let images: Vec<_> = outcome
            .images
            .iter()
            .map(|image| json!({ "mime_type": image.mime_type, "bytes": image.data.len() }))
            .collect();
        output::json(&json!({
            "tool": outcome.name,
            "success": !outcome.is_error,
            "outcome": outcome.outcome,
            "output": outcome.output,
            "notes": outcome.notes,
            "text": outcome.text,
            "images": images,
        }));
    } else {
        output::line(&outcome.text);
    }
    if outcome.is_error {
        Exit::Failed
    } else {
        Exit::Ok
    }
}

/// The argument text: as given, from `@FILE`, or from standard input for `-`.
fn arguments(given: &str) -> Result<String, String> {
    let read = |source: &mut dyn std::io::Read, what: &str| {
        let mut text = String::new();
        source
            .take(MAX_ARGUMENTS + 1)
            .read_to_string(&mut text)
            .map_err(|error| format!("cannot read the arguments from {what}: {error}"))?;
        if text.len() as u64 > MAX_ARGUMENTS {
            return Err(format!(
                "the arguments from {what} are larger than {} MiB",
                MAX_ARGUMENTS >> 20
            ));
        }
        Ok(text)
    };
    match given.strip_prefix('@') {
        Some(path) => {
            let mut file = std::fs::File::open(path)
                .map_err(|error| format!("cannot read the arguments from `{path}`: {error}"))?;
            read(&mut file, &format!("`{path}`"))
        }
        None if given == "-" => read(&mut std::io::stdin(), "standard input"),
        None => Ok(given.to_owned()),
    }
}
