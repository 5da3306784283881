//! Follows a turn to its end: shows it, asks the owner, and stops it when somebody wants that.

use std::time::Instant;

use fermix_api::{Done, Event};

use super::Running;
use super::preview::Preview;
use super::prompts::{Answer, Prompt, Prompts};
use crate::interrupt::{Signal, Signals};
use crate::output;

/// How it ended.
pub enum Ended {
    /// With an answer or the reason why there is none; and what of the answer is on the terminal
    /// already, without a line break after it.
    Done(Box<Done>, String),
    /// By a signal.
    Stopped(Signal),
    /// By the client's patience.
    TimedOut,
    /// Without an end of its own.
    Failed(String),
}

/// Follows. `is_quiet` shows nothing of the turn.
pub async fn follow(mut running: Running, signals: &mut Signals, is_quiet: bool) -> Ended {
    let mut preview = Preview::new(is_quiet);
    let mut prompts = Prompts::default();
    loop {
        let event = tokio::select! {
            biased;
            signal = signals.next() => {
                prompts.withdraw();
                preview.break_line();
                // A second signal does not wait for the turn to put its things away.
                tokio::select! {
                    () = running.stop() => {}
                    _ = signals.next() => {}
                }
                return Ended::Stopped(signal);
            }
            () = until(running.deadline) => {
                prompts.withdraw();
                preview.break_line();
                running.stop().await;
                return Ended::TimedOut;
            }
            event = running.events.recv() => event,
            answer = prompts.next() => {
                if let Some(answer) = answer {
                    send(&running, &answer).await;
                }
                continue;
            }
        };
        match event {
            Some(Ok(Event::Done(done))) => {
                prompts.withdraw();
                return Ended::Done(done, preview.into_shown());
            }
            Some(Ok(Event::Approval {
                token,
                title,
                body,
                choices,
                expires_in_ms,
            })) => {
                preview.break_line();
                let prompt = Prompt::new(&token, &title, &body, &choices, expires_in_ms);
                if is_quiet || !prompts.add(prompt) {
                    output::notice(&format!(
                        "cannot show a prompt here, so the answer is no: {title}"
                    ));
                    let choice = "deny".to_owned();
                    send(&running, &Answer { token, choice }).await;
                }
            }
            Some(Ok(event)) => {
                prompts.hide();
                preview.show(&event);
                if prompts.is_open() {
                    // The question has a line of its own.
                    preview.break_line();
                    prompts.draw();
                }
            }
            Some(Err(words)) => {
                prompts.withdraw();
                preview.break_line();
                return Ended::Failed(words);
            }
            None => {
                prompts.withdraw();
                preview.break_line();
                return Ended::Failed("the turn ended without an answer".to_owned());
            }
        }
    }
}

async fn send(running: &Running, answer: &Answer) {
    if let Err(words) = running.answer(&answer.token, &answer.choice).await {
        output::notice(&format!("the answer did not count: {words}"));
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
