//! The sandbox through its public door, each test with a home of its own.

mod alone;
mod breakouts;
mod confined;
mod ends;
mod envs;
mod escapes;
mod fermix_home;
mod grants;
mod idioms;
mod paths;
mod property;
mod remedies;
mod runs;
mod trees;
mod writes;

mod support;
