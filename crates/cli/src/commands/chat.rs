//! `fermix chat`: with a message the same as `ask`, without one a conversation at the terminal.

mod editor;
mod history;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::args::AskArgs;
use crate::commands::ask;
use crate::interrupt::Signals;
use crate::output::{self, Exit};
use crate::start::Start;
use crate::talk::{
    self, Ended, Message, NotAsked, Restore, Running, TERMINAL_SESSION, Talker, Tty,
};

use editor::{Editor, Entered};

/// Talks.
pub fn run(args: AskArgs, start: &Start) -> Exit {
    let has_message =
        !args.message.is_empty() || args.stdin || !args.attach.is_empty() || args.json;
    if has_message {
        return ask::run(args, start);
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return output::usage(
            false,
            "there is no message and no terminal to type one at; give a message, or pipe one in with --stdin",
        );
    }
    match converse(args, start) {
        Ok(exit) => exit,
        Err(words) => output::failure(false, &words),
    }
}

fn converse(args: AskArgs, start: &Start) -> Result<Exit, String> {
    let insists = args.daemon;
    let timeout = args.timeout.map(Duration::from_millis);
    let session = args.session.unwrap_or_else(|| TERMINAL_SESSION.to_owned());
    let mut talker = Talker::new(start, args.daemon, args.root)?;
    let runtime = start.runtime()?;
    let signals = runtime
        .block_on(async { Signals::listen() })
        .map_err(|error| format!("cannot listen for Ctrl-C: {error}"))?;
    let signals = Arc::new(Mutex::new(signals));
    if insists && !runtime.block_on(talker.is_daemon_there()) {
        return Ok(output::not_running(false));
    }
    let mut editor = Editor::open(&start.home)?;
    output::line(&format!(
        "Fermix {}, conversation `{session}`. /help lists commands, /new starts afresh, \
         Ctrl-C stops an answer, Ctrl-D leaves.",
        env!("CARGO_PKG_VERSION")
    ));
    let mut warned = false;
    loop {
        let entered = {
            let _guard = LeaveOnSignal::watch(&runtime, &signals);
            editor.read()?
        };
        let text = match entered {
            Entered::Text(text) => text,
            Entered::Discarded => {
                warned = false;
                continue;
            }
            Entered::Interrupted if warned => break,
            Entered::Interrupted => {
                warned = true;
                output::line("(Ctrl-C again or Ctrl-D leaves)");
                continue;
            }
            Entered::Ended => break,
        };
        warned = false;
        match text.trim() {
            "" => continue,
            "/exit" | "/quit" => break,
            _ => {}
        }
        let message = Message {
            text,
            images: Vec::new(),
            session: session.clone(),
            timeout,
            can_approve: talk::can_approve(start),
        };
        let ended = runtime.block_on(async {
            let mut signals = signals.lock().await;
            // One that came while nothing ran was not meant for this turn.
            signals
                .forget_interrupts()
                .map_err(|error| NotAsked::Failed(error.to_string()))?;
            let running: Running = talker.say(message).await?;
            Ok(talk::follow(running, &mut signals, false).await)
        });
        match ended {
            Ok(Ended::Stopped(signal)) if signal.is_final() => {
                runtime.shutdown_background();
                return Ok(Exit::Signalled(signal));
            }
            // Ctrl-C stops the answer, not the conversation.
            Ok(Ended::Stopped(_)) => output::notice("stopped"),
            Ok(ended) => {
                talk::print::ended(ended, &session, false);
            }
            Err(NotAsked::NotRunning) => {
                output::not_running(false);
            }
            Err(NotAsked::Failed(words)) => output::notice(&words),
        }
    }
    runtime.shutdown_background();
    Ok(Exit::Ok)
}

/// While a line is edited nothing else waits for signals, so somebody has to: puts the terminal
/// back and leaves.
struct LeaveOnSignal(tokio::task::JoinHandle<()>);

impl LeaveOnSignal {
    fn watch(runtime: &tokio::runtime::Runtime, signals: &Arc<Mutex<Signals>>) -> Self {
        let signals = Arc::clone(signals);
        let before = Tty::open().and_then(|tty| Restore::remember(&tty).ok());
        Self(runtime.spawn(async move {
            let mut signals = signals.lock().await;
            let mut signal = signals.next().await;
            if !signal.is_final() {
                // Pressed just before the editor took the keys. Where there is no editor, on a
                // terminal that can do nothing, the second one leaves.
                signal = signals.next().await;
            }
            drop(before);
            // The editor had asked the terminal to mark what is pasted.
            output::leave_editing();
            std::process::exit(signal.exit_code().into());
        }))
    }
}

impl Drop for LeaveOnSignal {
    fn drop(&mut self) {
        self.0.abort();
    }
}
