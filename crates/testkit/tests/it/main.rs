//! The fake model server from the outside: raw HTTP in, events and broken rules out.

mod checks;
mod client;
mod home;
mod prefix;
mod streams;
