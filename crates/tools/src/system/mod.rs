//! Tools of category `system`.

pub mod command_preset;
pub mod request_directory_access;
pub mod shell;
pub mod tool_call;
pub mod tool_describe;
pub mod tool_help;
pub mod tool_search;
