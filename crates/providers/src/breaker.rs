//! Routes that keep failing are left alone for a while.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use fermix_types::{Clock, UnixMillis};

use crate::error::{ErrorKind, ProviderError};
use crate::request::ProviderId;

/// Failures that open the circuit of a route.
const FAILURES: usize = 5;
/// Within how many milliseconds they have to fall.
const WINDOW: i64 = 60_000;
/// For how many milliseconds the route is then skipped.
const PAUSE: i64 = 60_000;
/// Routes remembered. Model names come from calls too, so their number needs a bound.
const MAX_ROUTES: usize = 256;

/// Remembers the failures of each route.
pub(crate) struct Breaker {
    clock: Arc<dyn Clock>,
    routes: Mutex<HashMap<(ProviderId, String), Circuit>>,
}

#[derive(Default)]
struct Circuit {
    failures: VecDeque<UnixMillis>,
    open_until: Option<UnixMillis>,
}

impl Breaker {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            routes: Mutex::new(HashMap::new()),
        }
    }

    /// Whether the route is to be skipped.
    pub(crate) fn is_open(&self, provider: ProviderId, model: &str) -> bool {
        let now = self.clock.now();
        let routes = self
            .routes
            .lock()
            .expect("nothing panics while holding this lock");
        let circuit = routes.get(&(provider, model.to_owned()));
        circuit
            .and_then(|circuit| circuit.open_until)
            .is_some_and(|until| now < until)
    }

    /// Notes how a call ended.
    pub(crate) fn note(&self, provider: ProviderId, model: &str, error: Option<&ProviderError>) {
        let now = self.clock.now();
        let route = (provider, model.to_owned());
        let mut routes = self
            .routes
            .lock()
            .expect("nothing panics while holding this lock");
        match error.map(|error| error.kind) {
            None => {
                routes.remove(&route);
            }
            // Only what speaks of the route's health; a bad key or a long prompt does not.
            Some(
                ErrorKind::Timeout
                | ErrorKind::TransportClosed
                | ErrorKind::Network
                | ErrorKind::ProviderUnavailable
                | ErrorKind::Transport,
            ) => {
                if routes.len() >= MAX_ROUTES {
                    routes.retain(|_, circuit| circuit.is_recent(now));
                }
                if routes.len() < MAX_ROUTES || routes.contains_key(&route) {
                    routes.entry(route).or_default().fail(now);
                }
            }
            Some(_) => {}
        }
    }
}

impl Circuit {
    fn fail(&mut self, now: UnixMillis) {
        self.failures.retain(|at| now.0 - at.0 < WINDOW);
        self.failures.push_back(now);
        if self.failures.len() >= FAILURES {
            self.failures.clear();
            self.open_until = Some(UnixMillis(now.0 + PAUSE));
        }
    }

    fn is_recent(&self, now: UnixMillis) -> bool {
        self.open_until.is_some_and(|until| now < until)
            || self.failures.back().is_some_and(|at| now.0 - at.0 < WINDOW)
    }
}
