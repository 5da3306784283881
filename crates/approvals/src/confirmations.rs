//! Tokens: single use, short-lived, bound to where they were shown.
//!
//! An answer is peeked at, validated and only then taken, so that a wrong origin cannot burn the
//! owner's token. Nothing is written down: a restart forgets, and forgetting is a "no".

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fermix_capability::PromptOrigin;

/// How long a token lives.
pub const TOKEN_TTL: Duration = Duration::from_secs(60);
/// The most tokens that live at once.
pub const MAX_LIVE: usize = 64;
/// How many wrong tokens one origin may send in [`WRONG_WINDOW`] before it is not listened to.
const MAX_WRONG: usize = 5;
const WRONG_WINDOW: Duration = Duration::from_secs(60);
/// Base32 without padding (RFC 4648): what is read aloud and typed without mistakes.
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Why an answer does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfirmError {
    /// No such token, or it was used.
    #[error("unknown_token: there is no such request; it may have been answered already")]
    UnknownToken,
    /// Its time is up.
    #[error("expired: the request is older than 60 seconds; ask again")]
    Expired,
    /// It does not make sense for what is asked.
    #[error("{0}; the request still waits")]
    Unfit(String),
    /// It was shown to somebody else, or somewhere else.
    #[error("origin_mismatch: answer where the request was shown")]
    OriginMismatch,
    /// This origin guessed too often.
    #[error("too many wrong tokens; wait a minute")]
    Ignored,
    /// Too much waits already.
    #[error("too many requests wait for an answer; answer or deny one first")]
    Full,
}

/// A token with whether it is new. A live token for the same thing is given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// The token.
    pub token: String,
    /// Whether the owner has not been shown it yet.
    pub is_new: bool,
    /// How long it still lives.
    pub expires_in: Duration,
}

#[derive(Debug)]
struct Record<T> {
    origin: PromptOrigin,
    /// Two requests with one fingerprint and origin are one.
    fingerprint: String,
    /// Gone once the time is up. The rest stays a while, so that a late answer learns why it does
    /// not count.
    what: Option<T>,
    expires: Instant,
}

/// The live tokens. `T` is what a "yes" releases.
#[derive(Debug)]
pub struct Confirmations<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    live: HashMap<String, Record<T>>,
    /// Taken, and not carried out yet.
    being_answered: HashSet<String>,
    wrong: HashMap<PromptOrigin, VecDeque<Instant>>,
}

impl<T> Default for Confirmations<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                live: HashMap::new(),
                being_answered: HashSet::new(),
                wrong: HashMap::new(),
            }),
        }
    }
}

impl<T> Confirmations<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parks `what` until `origin` answers. `fingerprint` tells requests for the same thing apart
    /// from others; `now` is the monotonic clock.
    pub fn park(
        &self,
        origin: &PromptOrigin,
        fingerprint: &str,
        what: T,
        now: Instant,
    ) -> Result<Parked, ConfirmError> {
        let mut state = self.state();
        state.purge(now);
        let same = state.live.iter().find(|(_, record)| {
            record.is_live(now) && record.origin == *origin && record.fingerprint == fingerprint
        });
        if let Some((token, record)) = same {
            return Ok(Parked {
                token: token.clone(),
                is_new: false,
                expires_in: record.expires - now,
            });
        }
        if state.count(now) >= MAX_LIVE {
            return Err(ConfirmError::Full);
        }
        let token = loop {
            let token = new_token();
            if !state.live.contains_key(&token) {
                break token;
            }
        };
        let record = Record {
            origin: origin.clone(),
            fingerprint: fingerprint.to_owned(),
            what: Some(what),
            expires: now + TOKEN_TTL,
        };
        state.live.insert(token.clone(), record);
        Ok(Parked {
            token,
            is_new: true,
            expires_in: TOKEN_TTL,
        })
    }

    /// Takes what waits under `token`, when `origin` may answer it. Whoever takes it is the only
    /// one; a refusal leaves it where it is.
    pub fn take(
        &self,
        token: &str,
        origin: &PromptOrigin,
        now: Instant,
    ) -> Result<T, ConfirmError> {
        let taken = self.take_if(token, origin, now, |_| Ok(()));
        self.settled(token);
        taken
    }

    /// The same, unless `fits` says in words that the answer does not suit what waits. It then goes
    /// on waiting.
    pub fn take_if(
        &self,
        token: &str,
        origin: &PromptOrigin,
        now: Instant,
        fits: impl FnOnce(&T) -> Result<(), String>,
    ) -> Result<T, ConfirmError> {
        let token = token.trim().to_ascii_uppercase();
        let mut state = self.state();
        if state.is_ignored(origin, now) {
            return Err(ConfirmError::Ignored);
        }
        let outcome = match state.live.get(&token) {
            None => Err(ConfirmError::UnknownToken),
            Some(record) if record.origin != *origin => Err(ConfirmError::OriginMismatch),
            Some(record) if !record.is_live(now) => Err(ConfirmError::Expired),
            Some(record) => match record.what.as_ref().map(fits) {
                Some(Ok(())) => Ok(()),
                Some(Err(why)) => Err(ConfirmError::Unfit(why)),
                None => Err(ConfirmError::Expired),
            },
        };
        match outcome {
            Ok(()) => {
                let what = state.live.remove(&token).and_then(|record| record.what);
                if what.is_some() {
                    state.being_answered.insert(token);
                }
                what.ok_or(ConfirmError::UnknownToken)
            }
            Err(ConfirmError::Expired) => {
                state.live.remove(&token);
                Err(ConfirmError::Expired)
            }
            Err(error @ ConfirmError::Unfit(_)) => Err(error),
            Err(error) => {
                state
                    .wrong
                    .entry(origin.clone())
                    .or_default()
                    .push_back(now);
                Err(error)
            }
        }
    }

    /// Forgets what waits under `token` without an answer: the one who asked is gone.
    pub fn withdraw(&self, token: &str) -> Option<T> {
        self.state().live.remove(token)?.what
    }

    /// What [`Confirmations::take_if`] gave out was carried out.
    pub fn settled(&self, token: &str) {
        let token = token.trim().to_ascii_uppercase();
        self.state().being_answered.remove(&token);
    }

    /// Whether what was parked under `token` still waits, or its answer is being carried out.
    pub fn is_live(&self, token: &str, now: Instant) -> bool {
        let state = self.state();
        state.being_answered.contains(token)
            || state
                .live
                .get(token)
                .is_some_and(|record| record.is_live(now))
    }

    /// How many wait for an answer.
    pub fn live(&self, now: Instant) -> usize {
        self.state().count(now)
    }
}

impl<T> Record<T> {
    fn is_live(&self, now: Instant) -> bool {
        self.expires > now
    }
}

impl<T> State<T> {
    fn count(&self, now: Instant) -> usize {
        let live = self.live.values().filter(|record| record.is_live(now));
        live.count()
    }

    /// Lets go of what nobody can answer any more, and a lifetime later of the memory of it.
    fn purge(&mut self, now: Instant) {
        self.live
            .retain(|_, record| record.expires + TOKEN_TTL > now);
        let dead = self.live.values_mut().filter(|record| !record.is_live(now));
        dead.for_each(|record| record.what = None);
        if self.live.len() > 2 * MAX_LIVE {
            self.live.retain(|_, record| record.is_live(now));
        }
    }

    fn is_ignored(&mut self, origin: &PromptOrigin, now: Instant) -> bool {
        self.wrong.retain(|_, times| {
            times.retain(|time| now.duration_since(*time) < WRONG_WINDOW);
            !times.is_empty()
        });
        self.wrong
            .get(origin)
            .is_some_and(|times| times.len() >= MAX_WRONG)
    }
}

/// Eight characters of base32: five random bytes.
fn new_token() -> String {
    let mut bytes = [0_u8; 5];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    let bits = bytes
        .iter()
        .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    (0..8)
        .rev()
        .map(|group| char::from(ALPHABET[(bits >> (group * 5) & 31) as usize]))
        .collect()
}

#[cfg(test)]
mod tests {
    use fermix_types::ConversationKey;

    use super::*;

    fn origin(chat: &str) -> PromptOrigin {
        PromptOrigin {
            conversation: ConversationKey::root("telegram", chat),
            user: "7".into(),
        }
    }

    #[test]
    fn a_token_is_taken_once_and_only_from_its_origin() {
        let store = Confirmations::default();
        let now = Instant::now();
        let parked = store.park(&origin("a"), "grant /x", 1, now).unwrap();
        assert!(parked.is_new && parked.token.len() == 8);
        let again = store.park(&origin("a"), "grant /x", 2, now).unwrap();
        assert_eq!(
            (again.token.as_str(), again.is_new),
            (parked.token.as_str(), false)
        );

        assert_eq!(
            store.take(&parked.token, &origin("b"), now),
            Err(ConfirmError::OriginMismatch)
        );
        assert_eq!(
            store.take(&parked.token.to_lowercase(), &origin("a"), now),
            Ok(1)
        );
        assert_eq!(
            store.take(&parked.token, &origin("a"), now),
            Err(ConfirmError::UnknownToken)
        );
    }

    #[test]
    fn a_minute_later_the_answer_is_no() {
        let store = Confirmations::default();
        let now = Instant::now();
        let parked = store.park(&origin("a"), "x", (), now).unwrap();
        assert_eq!(
            store.take(&parked.token, &origin("a"), now + TOKEN_TTL),
            Err(ConfirmError::Expired)
        );
        let fresh = store.park(&origin("a"), "x", (), now + TOKEN_TTL).unwrap();
        assert!(fresh.is_new);
    }

    #[test]
    fn an_answer_that_does_not_fit_burns_nothing() {
        let store = Confirmations::default();
        let now = Instant::now();
        let parked = store.park(&origin("a"), "x", 7, now).unwrap();
        let refused = store.take_if(&parked.token, &origin("a"), now, |what| {
            Err(format!("{what} takes no `once`"))
        });
        assert_eq!(
            refused,
            Err(ConfirmError::Unfit("7 takes no `once`".into()))
        );
        assert_eq!(store.take(&parked.token, &origin("a"), now), Ok(7));
    }

    #[test]
    fn a_late_answer_learns_that_it_is_late_even_after_others_were_asked() {
        let store = Confirmations::default();
        let now = Instant::now();
        let parked = store.park(&origin("a"), "x", (), now).unwrap();
        let later = now + TOKEN_TTL + Duration::from_secs(1);
        store.park(&origin("a"), "y", (), later).unwrap();
        assert_eq!(
            store.take(&parked.token, &origin("a"), later),
            Err(ConfirmError::Expired)
        );
        assert_eq!(store.live(later), 1);
    }

    #[test]
    fn guessing_and_flooding_are_bounded() {
        let store = Confirmations::default();
        let now = Instant::now();
        let parked = store.park(&origin("a"), "x", (), now).unwrap();
        for _ in 0..MAX_WRONG {
            assert_eq!(
                store.take("AAAAAAAA", &origin("b"), now),
                Err(ConfirmError::UnknownToken)
            );
        }
        assert_eq!(
            store.take("AAAAAAAA", &origin("b"), now),
            Err(ConfirmError::Ignored)
        );
        for number in 1..MAX_LIVE {
            store
                .park(&origin("a"), &number.to_string(), (), now)
                .unwrap();
        }
        assert_eq!(
            store.park(&origin("a"), "one more", (), now),
            Err(ConfirmError::Full)
        );
        assert_eq!(store.take(&parked.token, &origin("a"), now), Ok(()));
    }
}
