//! The system's clock.

use fermix_types::{Clock, UnixMillis};

/// The time of day as the operating system has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(jiff::Timestamp::now().as_millisecond())
    }
}
