//! What the daemon and its clients say to each other over the control socket.
//!
//! One request a connection. Both directions carry [frames](frame): four bytes of length, big-endian,
//! then that many bytes of JSON. A request is answered by one [`Reply`]; a message that asks for a
//! stream is answered by [`Event`]s, the last of which is `done`. A client that closes the connection
//! of a stream stops its turn.

pub mod frame;
mod reply;
mod request;

pub use reply::{Done, Event, Health, HealthRow, Reply, RowStatus, Status, ToolPhase};
pub use request::{ImagePart, Request, RequestError};

/// The version of these types that this build speaks.
pub const VERSION: u32 = 1;
