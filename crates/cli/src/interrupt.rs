//! Ctrl-C, a closed terminal and a polite kill all mean: stop, and put things away.

use std::io;

use tokio::signal::unix::{self, SignalKind};

/// What asked this process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// A polite kill.
    Terminate,
    /// The terminal is gone.
    HangUp,
}

impl Signal {
    /// Whether it means this process, and not only what it is doing.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Interrupt => false,
            Self::Terminate | Self::HangUp => true,
        }
    }

    /// What a shell reports of a program that this ended.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::HangUp => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// The signals of this process, from when the value was made.
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
}

impl Signals {
    /// Begins to listen. From here on none of these ends the process by itself.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hang_up: unix::signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.hang_up.recv() => Signal::HangUp,
        }
    }

    /// Forgets a Ctrl-C that came before now: it was meant for what has ended since.
    pub fn forget_interrupts(&mut self) -> io::Result<()> {
        self.interrupt = unix::signal(SignalKind::interrupt())?;
        Ok(())
    }
}

/// Returns when the person or the system wants this process to end.
pub async fn signalled() -> io::Result<()> {
    Signals::listen()?.next().await;
    Ok(())
}
