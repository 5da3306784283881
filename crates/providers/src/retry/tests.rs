//! The table of this module's documentation, row by row.

use std::time::Duration;

use fermix_net::Stage::{self, BeforeResponse, MidStream, Unknown};

use super::{Backoff, Courtesy, fails_over, is_reissued, is_retried};
use crate::error::{ErrorKind, ProviderError};
use crate::request::ProviderId;

fn error(kind: ErrorKind, stage: Stage) -> ProviderError {
    ProviderError::new(kind, ProviderId::Openai, "m", "words").at(stage)
}

#[test]
fn every_kind_follows_its_row() {
    // kind, stage, retried on a first call, fails over, sent again on a continuation
    let rows = [
        (ErrorKind::Timeout, BeforeResponse, true, true, true),
        (ErrorKind::Timeout, MidStream, true, true, false),
        (ErrorKind::Timeout, Unknown, true, true, false),
        (ErrorKind::TransportClosed, MidStream, true, true, true),
        (ErrorKind::Network, BeforeResponse, true, true, true),
        (
            ErrorKind::ConnectionUnavailable,
            BeforeResponse,
            true,
            false,
            true,
        ),
        (
            ErrorKind::ProviderUnavailable,
            BeforeResponse,
            true,
            true,
            true,
        ),
        (ErrorKind::Transport, MidStream, false, true, false),
        (ErrorKind::RateLimit, BeforeResponse, false, true, false),
        (ErrorKind::Quota, BeforeResponse, false, true, false),
        (ErrorKind::Auth, BeforeResponse, false, false, false),
        (
            ErrorKind::ImageUnsupported,
            BeforeResponse,
            false,
            true,
            false,
        ),
        (
            ErrorKind::ContextLength,
            BeforeResponse,
            false,
            false,
            false,
        ),
        (ErrorKind::EmptyResponse, MidStream, false, false, false),
        (ErrorKind::Provider, BeforeResponse, false, false, false),
        (ErrorKind::Cancelled, Unknown, false, false, false),
    ];
    for (kind, stage, retried, over, reissued) in rows {
        let error = error(kind, stage);
        assert_eq!(
            (is_retried(&error), fails_over(&error), is_reissued(&error)),
            (retried, over, reissued),
            "{kind:?}"
        );
    }
}

#[test]
fn a_refused_sign_in_moves_on_unless_it_is_forbidden() {
    for (status, over) in [(Some(401), true), (None, true), (Some(403), false)] {
        let refused = ProviderError {
            signed_in: true,
            status,
            ..error(ErrorKind::Auth, BeforeResponse)
        };
        assert_eq!(fails_over(&refused), over, "{status:?}");
        assert!(!is_retried(&refused));
    }
}

#[test]
fn delays_grow_and_are_jittered() {
    for (backoff, times) in [(Backoff::FIRST_CALL, 3), (Backoff::CONTINUATION, 2)] {
        let delays: Vec<Duration> = backoff.delays().collect();
        assert_eq!(delays.len(), times);
        for (number, delay) in delays.iter().enumerate() {
            let planned = backoff.delay * (1 << number);
            assert!(
                (planned..=planned * 2).contains(delay),
                "{delay:?} for {planned:?}"
            );
        }
    }
}

#[test]
fn a_server_is_waited_for_as_long_as_nobody_else_could_answer() {
    let planned = Duration::from_millis(250);
    // whether another route is there, what the server asks for each time, what is waited, in ms
    type Case<'a> = (bool, &'a [u64], &'a [Option<u64>]);
    let cases: [Case<'_>; 8] = [
        (true, &[0, 0, 0], &[Some(250), Some(250), Some(250)]),
        (true, &[1], &[Some(250)]),
        (true, &[2000, 1], &[Some(2000), None]),
        (true, &[1500, 1500], &[Some(1500), None]),
        (true, &[2001], &[None]),
        (false, &[30_000, 1], &[Some(30_000), None]),
        (false, &[10_000, 10_000, 10_000], &[Some(10_000); 3]),
        (false, &[30_001], &[None]),
    ];
    for (has_next, asked, waited) in cases {
        let mut courtesy = Courtesy::new(has_next);
        let got: Vec<Option<Duration>> = asked
            .iter()
            .map(|asked| {
                let busy = ProviderError {
                    retry_after: Some(Duration::from_millis(*asked)),
                    ..error(ErrorKind::RateLimit, BeforeResponse)
                };
                courtesy.wait(&busy, planned)
            })
            .collect();
        let waited: Vec<_> = waited
            .iter()
            .map(|waited| waited.map(Duration::from_millis))
            .collect();
        assert_eq!(got, waited, "{has_next} {asked:?}");
    }
}
