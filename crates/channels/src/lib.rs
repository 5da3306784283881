//! Where messages enter Fermix. The sender's trust is stamped in [`ingress`] and nowhere else.

pub mod ingress;

pub use ingress::{Admission, ChannelRules, LocalPeer, Refused, admit_local, admit_remote};
