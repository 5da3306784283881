//! Time as a value that is handed in, so that tests own it.

use serde::{Deserialize, Serialize};

/// A moment in UTC, in whole milliseconds since 1970-01-01.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// Whole seconds since 1970-01-01, rounded towards the past.
    pub fn as_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }
}

/// Where the time of day comes from. The daemon hands in the system's clock, tests their own.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> UnixMillis;
}

/// A clock that stands still until it is told otherwise.
#[derive(Debug, Default)]
pub struct FixedClock(std::sync::atomic::AtomicI64);

impl FixedClock {
    /// A clock that shows `now`.
    pub fn at(now: UnixMillis) -> Self {
        Self(std::sync::atomic::AtomicI64::new(now.0))
    }

    /// Moves the clock on by `millis` milliseconds.
    pub fn advance(&self, millis: i64) {
        self.0
            .fetch_add(millis, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}
