//! Where messages enter Fermix. The sender's trust is stamped in [`ingress`] and nowhere else;
//! [`commands`] are slash commands and who may give them.

pub mod commands;
pub mod ingress;

pub use ingress::{Admission, ChannelRules, LocalPeer, Refused, admit_local, admit_remote};
