//! What a person reads when the log of conversations fails.

use fermix_store::{LogError, StoreError};
use fermix_types::Trust;

use super::TurnFailure;

#[test]
fn a_held_database_is_named_and_other_failures_point_to_the_traces() {
    for (error, kind, words) in [
        (
            StoreError::Busy,
            "store_locked",
            "another program holds memory.db; close it and try again",
        ),
        (
            StoreError::Deadline,
            "store_locked",
            "another program holds memory.db; close it and try again",
        ),
        (
            StoreError::DiskFull,
            "store",
            "`fermix traces` has the details.",
        ),
    ] {
        let failure = TurnFailure::of_log(LogError::Store(error));
        assert_eq!(failure.kind(), kind);
        let owners = failure.sentence(Trust::Operator, false).unwrap();
        assert!(owners.contains(words), "{owners}");
        let guests = failure.sentence(Trust::Guest, false).unwrap();
        assert!(
            !guests.contains("memory.db") && !guests.contains("traces"),
            "{guests}"
        );
    }
}
