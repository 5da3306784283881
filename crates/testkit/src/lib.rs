//! Fake model server and temporary homes for tests.
//!
//! [`FakeModel`] answers the three wires of the providers from one script that knows none of
//! them, and checks on every request what must always hold: each result has its call, schemas
//! are valid, the prefix is stable. A broken rule fails the test that owns the server, so every
//! test guards the protocol. [`TestHome`] is a throw-away Fermix home with its workspace.
//!
//! Nothing here is part of the shipped binary.

mod checks;
mod home;
mod request;
mod script;
mod server;
mod wire;

pub use checks::{Checks, Rule, Violation};
pub use home::TestHome;
pub use request::{Role, Seen, SeenMessage, SeenTool, Wire};
pub use script::{Script, Step, TokenCounts};
pub use server::FakeModel;
