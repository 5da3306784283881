//! The only crate that builds an HTTP client or opens an outbound socket.
//!
//! [`Net`] sends requests to addresses their owner configured, such as a model server, and gives
//! every one of them the same manners: no redirects, no proxy taken from the environment, all
//! four timeouts named by the caller, bodies with a cap, and errors that say whether a byte of
//! the response had arrived.

mod client;
mod error;
mod response;

pub use client::{Net, Request, Timeouts};
pub use error::{NetError, NetErrorKind, Stage};
pub use response::Response;
