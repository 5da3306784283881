//! Model adapters, one module a wire, with streaming, retries, failover and the offline provider.
//!
//! [`Providers`] knows what is configured and makes calls: [`Providers::first_call`] may move a
//! turn to another route, [`Providers::continue_on`] may not. A [`Route`] is one model of one
//! provider behind an [`Adapter`].

mod adapter;
mod advice;
mod breaker;
pub mod catalog;
pub mod effort;
mod error;
mod failover;
pub mod offline;
mod patience;
mod providers;
mod request;
mod retry;
pub mod routing;
pub mod rows;
mod sign_in;
mod trace;
mod wire;

pub use catalog::{Catalog, ModelFacts, Thinking};
pub use error::{Details as ErrorDetails, ErrorKind, MAX_SERVER_WORDS, ProviderError};
pub use fermix_net::Stage;
pub use fermix_types::ToolDefinition;
pub use providers::{ConfigProblem, Providers, Route};
pub use request::{
    Adapter, Calls, ChatRequest, ChatResponse, EventSink, ModelEvent, ProviderId, SystemPart,
    UnknownProvider, Unseen, Usage,
};
pub use retry::{Backoff, MAX_RETRY_AFTER};
pub use routing::{Choice, RoutingError};
