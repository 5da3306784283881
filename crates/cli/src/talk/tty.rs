//! The terminal itself, wherever standard input and output lead: prompts are shown there and
//! answered by a key.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::sync::mpsc;

use crate::output;

/// Keys that wait to be looked at.
const KEY_QUEUE: usize = 8;

/// The controlling terminal of this process.
#[derive(Debug)]
pub struct Tty(File);

impl Tty {
    /// Opens it; `None` when this process has none.
    pub fn open() -> Option<Self> {
        let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
        terminal.ok().map(Self)
    }

    /// Whether this process may read from it now: one in the background would be suspended.
    pub fn is_ours(&self) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|group| group == getpgrp())
    }

    /// Writes text whose control characters are shown, not obeyed.
    pub(super) fn write(&self, text: &str) {
        self.write_raw(&output::visible(text));
    }

    /// Writes what this program itself says to the terminal.
    pub(super) fn write_raw(&self, text: &str) {
        let mut terminal = &self.0;
        let _ = terminal.write_all(text.as_bytes());
        let _ = terminal.flush();
    }

    /// Reads keys as they are pressed, from now on: what was typed before nobody saw the question
    /// is thrown away.
    pub(super) fn keys(&self) -> io::Result<Keys> {
        let terminal = self.0.try_clone()?;
        let before = tcgetattr(&terminal)?;
        let mut by_key = before.clone();
        // Ctrl-C stays Ctrl-C.
        by_key
            .local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &by_key)?;
        let restore = Restore {
            terminal: self.0.try_clone()?,
            before,
        };
        let (stopped, stop) = io::pipe()?;
        let (sender, pressed) = mpsc::channel(KEY_QUEUE);
        let thread = std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || {
                let mut terminal = terminal;
                loop {
                    let mut watched = [
                        PollFd::new(&terminal, PollFlags::IN),
                        PollFd::new(&stopped, PollFlags::IN | PollFlags::HUP),
                    ];
                    if poll(&mut watched, None).is_err() || !watched[1].revents().is_empty() {
                        return;
                    }
                    let mut read = [0_u8; 64];
                    match terminal.read(&mut read) {
                        // More than one byte at once is a paste or an arrow; neither is an answer.
                        Ok(1) => {
                            if sender.blocking_send(read[0]).is_err() {
                                return;
                            }
                        }
                        Ok(0) | Err(_) => return,
                        Ok(_) => {}
                    }
                }
            })?;
        Ok(Keys {
            pressed,
            stop: Some(stop),
            thread: Some(thread),
            _restore: restore,
        })
    }
}

/// Keys as they are pressed, until it is dropped.
pub(super) struct Keys {
    pressed: mpsc::Receiver<u8>,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    _restore: Restore,
}

impl Keys {
    /// The next key. Never returns when the terminal is gone.
    pub(super) async fn next(&mut self) -> u8 {
        match self.pressed.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // In this order: no key may be taken from whoever reads the terminal next, and a thread
        // that waits for room in the queue must not be waited for.
        self.pressed.close();
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Puts the terminal back as it was.
pub struct Restore {
    terminal: File,
    before: Termios,
}

impl Restore {
    /// Remembers the terminal as it is now.
    pub fn remember(tty: &Tty) -> io::Result<Self> {
        let terminal = tty.0.try_clone()?;
        let before = tcgetattr(terminal.as_fd())?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
