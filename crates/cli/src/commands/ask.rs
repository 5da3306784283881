//! `fermix ask`: one turn of the owner.

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use fermix_daemon::engine::random_hex;

use crate::args::AskArgs;
use crate::interrupt::Signals;
use crate::output::{self, Exit};
use crate::start::Start;
use crate::talk::{self, Message, NotAsked, TERMINAL_SESSION, Talker};

/// The longest message read from standard input, in bytes; the agent takes no longer one.
const MAX_STDIN: u64 = 256 * 1024;

/// Asks, and prints the answer.
pub fn run(args: AskArgs, start: &Start) -> Exit {
    let as_json = args.json;
    let text = match message(&args) {
        Ok(text) => text,
        Err(error) => {
            return output::usage(as_json, &error);
        }
    };
    if text.trim().is_empty() && args.attach.is_empty() {
        return output::usage(
            as_json,
            "there is no message; give one, pipe one in with --stdin, or attach an image",
        );
    }
    match ask(text, args, start) {
        Ok(exit) => exit,
        Err(NotAsked::NotRunning) => output::not_running(as_json),
        Err(NotAsked::Failed(words)) => output::failure(as_json, &start.redactor.redact(&words)),
    }
}

fn ask(text: String, args: AskArgs, start: &Start) -> Result<Exit, NotAsked> {
    let images = talk::attach::read_all(&args.attach)?;
    let mut talker = Talker::new(start, args.daemon, args.root)?;
    let session = args.session.unwrap_or_else(|| {
        if talk::is_command(&text) {
            TERMINAL_SESSION.to_owned()
        } else {
            format!("s-{}", random_hex())
        }
    });
    let message = Message {
        text,
        images,
        session: session.clone(),
        timeout: args.timeout.map(Duration::from_millis),
        can_approve: !args.json && talk::can_approve(start),
    };
    let runtime = start.runtime()?;
    let ended = runtime.block_on(async {
        let mut signals =
            Signals::listen().map_err(|error| format!("cannot listen for Ctrl-C: {error}"))?;
        let running = talker.say(message).await?;
        Ok::<_, NotAsked>(talk::follow(running, &mut signals, args.json).await)
    });
    // What a second Ctrl-C did not wait for is not waited for here either.
    runtime.shutdown_background();
    Ok(talk::print::ended(ended?, &session, args.json))
}

/// The words of the command line, then those of standard input.
fn message(args: &AskArgs) -> Result<String, String> {
    let words = args.message.join(" ");
    if !args.stdin {
        return Ok(words);
    }
    if std::io::stdin().is_terminal() {
        output::notice("reading the message from the terminal; end it with Ctrl-D");
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(MAX_STDIN + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    if bytes.len() as u64 > MAX_STDIN {
        return Err(format!(
            "standard input has more than {} KiB; put it into a file and name the file",
            MAX_STDIN / 1024
        ));
    }
    let piped = fermix_types::text::to_valid_utf8(bytes);
    Ok(if words.is_empty() {
        piped
    } else {
        format!("{words}\n\n{piped}")
    })
}
