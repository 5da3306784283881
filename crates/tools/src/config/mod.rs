//! Tools of category `config`.

pub mod model_routing_config;
