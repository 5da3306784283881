//! Behaviour of the registry, its views, discovery and dispatch, through the public door.

mod arguments;
mod discovery;
mod dispatch;
mod guarded;
mod matrix;
mod properties;
mod registry;
mod running;
mod schemas;
mod support;
mod untrusted;
