//! Category `git`: the repository's own history and state, without the programs it names.
//!
//! A repository is a stranger's folder: its configuration can name programs for almost everything
//! Git does, and its links can lead anywhere. So a run has fixed steps, each in a file of its own:
//! what the arguments may be ([`arguments`], [`grammar`]), which folders belong to the repository and
//! whether the turn may touch them ([`repository`], [`links`]), which of its settings are switched
//! off or refused ([`configuration`], [`submodules`]), and only then Git itself ([`session`]).

mod arguments;
mod checkpoint;
mod configuration;
pub mod git_read;
pub mod git_write;
mod grammar;
mod links;
mod on_disk;
mod outcome;
mod repository;
mod request;
mod session;
mod submodules;
pub mod undo;
