//! Behaviour of the search crate, through its public door.

mod measured;
mod names;
mod ranking;
mod words;
