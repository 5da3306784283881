//! The composition root: builds everything from a home, an environment and a configuration, and
//! knows no business rule of its own.

mod assemble;
pub mod clock;
pub mod engine;
pub mod helpers;
pub mod inspect;
pub mod locks;
pub mod logs;
pub mod presence;
pub mod secrets;
pub mod traces;

pub use assemble::{BuildError, Parts, problems};
pub use engine::{Answer, Engine, Question};
pub use fermix_agent::{TurnEvent, TurnReport, TurnStatus};
pub use fermix_capability::dispatch::CallOutcome;
pub use fermix_channels::LocalPeer;
