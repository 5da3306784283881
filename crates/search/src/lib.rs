//! Ranking: tokens, stems and BM25F.
//!
//! An [`Index`] answers "which of these tools does that sentence mean?" from words alone: no
//! IO, no clock, no randomness, and the same answer every time. [`Entry`] is the part of the
//! work that depends on one tool only, so it can be done once, when the tool is registered;
//! an index over any subset of entries is then cheap to put together.
//!
//! [`tokens`] and [`near_name`] are the two pieces that are useful on their own.

mod entry;
mod exact;
mod index;
mod near;
mod terms;
mod tokens;

pub use entry::{Document, Entry};
pub use index::{Hit, Index, strong_single};
pub use near::{edit_distance_within, near_name};
pub use tokens::tokens;
