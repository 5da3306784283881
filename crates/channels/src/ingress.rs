//! Stamps trust on a message from facts that the transport authenticated.
//!
//! Nothing in a message's text, metadata, tool arguments or tool output takes part. Who is not
//! known is not answered at all, since an answer would confirm that somebody listens.

use std::collections::BTreeSet;

use fermix_capability::{Caller, Ports, Presence};

/// Who speaks to a local door (the command line, the daemon's socket).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalPeer {
    /// The owner, at their own terminal or in their own script.
    InPerson,
    /// A process that Fermix started, at any depth, or one whose ancestry could not be read. It
    /// speaks as a delegated, unattended run: the owner's rights less writing and the desktop, so
    /// that no run regains through a command what was taken from it (spec/06 §3.4).
    StartedByFermix,
}

/// Who may write on one remote channel (`[fermix_channels.<name>]`). Ids are compared as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelRules {
    /// The one owner. Unset means that nobody is the owner, not that everybody is.
    pub owner_user_id: Option<String>,
    /// Senders who may write as guests.
    pub allowed_user_ids: BTreeSet<String>,
    /// Guests who may also give the slash commands that are not the owner's alone. Being on this
    /// list lets nobody in.
    pub command_allowlist: BTreeSet<String>,
}

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It starts a turn on this caller's behalf.
    Admitted(Box<Caller>),
    /// It is dropped without any reply; the reason goes to the log.
    Refused(Refused),
}

/// Why a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The transport named no sender.
    #[error("the message has no sender id")]
    NoSender,
    /// The sender is neither the owner nor on the channel's list.
    #[error("the sender is neither this channel's owner_user_id nor in its allowed_user_ids")]
    UnknownSender,
    /// The channel has no block in the configuration.
    #[error("the channel is not configured")]
    NoSuchChannel,
}

/// Admits a message from a local door. This test comes first and needs no sender id.
pub fn admit_local(peer: LocalPeer, ports: Ports) -> Caller {
    match peer {
        LocalPeer::InPerson => Caller::owner(Presence::vouched_by_ingress(), ports),
        LocalPeer::StartedByFermix => Caller::detached().worker(),
    }
}

/// Admits a message from a remote channel. `sender` is what the platform authenticated, `rules`
/// is the channel's block. A sole entry of the allow-list is not promoted to owner.
pub fn admit_remote(sender: Option<&str>, rules: Option<&ChannelRules>, ports: Ports) -> Admission {
    let Some(rules) = rules else {
        return Admission::Refused(Refused::NoSuchChannel);
    };
    let Some(sender) = sender.filter(|id| !id.is_empty()) else {
        return Admission::Refused(Refused::NoSender);
    };
    if rules.owner_user_id.as_deref() == Some(sender) {
        Admission::Admitted(Box::new(Caller::owner(
            Presence::vouched_by_ingress(),
            ports,
        )))
    } else if rules.allowed_user_ids.contains(sender) {
        // Approvals are the owner's; a guest never carries that port.
        Admission::Admitted(Box::new(Caller::guest(Ports {
            approval: false,
            ..ports
        })))
    } else {
        Admission::Refused(Refused::UnknownSender)
    }
}

#[cfg(test)]
mod tests {
    use fermix_types::Trust;

    use super::*;

    fn rules(owner: Option<&str>, allowed: &[&str]) -> ChannelRules {
        ChannelRules {
            owner_user_id: owner.map(str::to_owned),
            allowed_user_ids: allowed.iter().map(|id| (*id).to_owned()).collect(),
            ..ChannelRules::default()
        }
    }

    fn trust(sender: Option<&str>, rules: Option<&ChannelRules>) -> Result<Trust, Refused> {
        match admit_remote(
            sender,
            rules,
            Ports {
                reply: true,
                approval: true,
                ..Ports::default()
            },
        ) {
            Admission::Admitted(caller) => {
                assert_eq!(caller.ports().approval, caller.trust() == Trust::Operator);
                Ok(caller.trust())
            }
            Admission::Refused(reason) => Err(reason),
        }
    }

    #[test]
    fn only_the_configured_owner_is_the_owner() {
        let both = rules(Some("7"), &["8"]);
        assert_eq!(trust(Some("7"), Some(&both)), Ok(Trust::Operator));
        assert_eq!(trust(Some("8"), Some(&both)), Ok(Trust::Guest));
        assert_eq!(trust(Some("9"), Some(&both)), Err(Refused::UnknownSender));
        assert_eq!(trust(None, Some(&both)), Err(Refused::NoSender));
        assert_eq!(trust(Some(""), Some(&both)), Err(Refused::NoSender));
        assert_eq!(trust(Some("7"), None), Err(Refused::NoSuchChannel));
    }

    #[test]
    fn an_unset_owner_is_nobody() {
        let ownerless = rules(None, &["8"]);
        assert_eq!(trust(Some("8"), Some(&ownerless)), Ok(Trust::Guest));
        assert_eq!(trust(Some(""), Some(&ownerless)), Err(Refused::NoSender));
        let blank = rules(Some(""), &[]);
        assert_eq!(trust(Some(""), Some(&blank)), Err(Refused::NoSender));
    }

    #[test]
    fn a_process_fermix_started_is_never_attended() {
        let ports = Ports {
            reply: true,
            approval: true,
            ..Ports::default()
        };
        assert!(admit_local(LocalPeer::InPerson, ports.clone()).is_attended_owner());
        let started = admit_local(LocalPeer::StartedByFermix, ports);
        assert!(!started.is_attended_owner() && !started.is_top_level());
        assert!(!started.ports().approval && !started.ports().reply);
        assert!(
            !started
                .classes()
                .contains(fermix_types::PolicyClass::ReadWrite)
        );
        assert!(
            !started
                .classes()
                .contains(fermix_types::PolicyClass::GuiControl)
        );
    }

    proptest::proptest! {
        /// Whatever the ids, nobody but an exact match of a non-empty owner id is the owner.
        #[test]
        fn no_other_id_is_the_owner(sender in ".{0,8}", owner in proptest::option::of(".{0,8}"), allowed in proptest::collection::btree_set(".{0,8}", 0..3)) {
            let rules = ChannelRules { owner_user_id: owner.clone(), allowed_user_ids: allowed, ..ChannelRules::default() };
            let is_owner = trust(Some(&sender), Some(&rules)) == Ok(Trust::Operator);
            proptest::prop_assert_eq!(is_owner, !sender.is_empty() && owner.as_deref() == Some(sender.as_str()));
        }
    }
}
