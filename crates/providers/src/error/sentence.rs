//! What the owner reads when a provider gave no answer.

use std::fmt::Write as _;

use super::{ErrorKind, ProviderError};
use crate::adapter::KEY_UNAVAILABLE;
use crate::advice;
use crate::request::ProviderId;

impl ProviderError {
    /// One or two sentences for a chat: what happened and what to do. Never a body, a header or a
    /// key.
    pub fn user_sentence(&self) -> String {
        let mut sentence = self.base_sentence();
        if !self.details.tried.is_empty() {
            let _ = write!(
                sentence,
                "\nRoutes tried before: {}.",
                self.details.tried.join("; ")
            );
        }
        sentence
    }

    /// The same for a scheduled run, where nobody can type a command into a chat.
    pub fn job_sentence(&self) -> String {
        match self.kind {
            ErrorKind::ContextLength => format!(
                "The run has outgrown the window of {}. Narrow the job or split it.",
                self.model
            ),
            _ => self.user_sentence(),
        }
    }

    fn base_sentence(&self) -> String {
        let provider = self.provider;
        let words = &self.message;
        match self.kind {
            ErrorKind::Auth if self.provider == ProviderId::Xai && self.status == Some(403) => {
                format!(
                    "xAI refused access: this plan has no API access. Check the plan at xAI, or {}.",
                    advice::use_another(provider)
                )
            }
            ErrorKind::Auth if self.signed_in => format!(
                "The sign-in for {provider} does not work any more ({words}). {}.",
                advice::sign_in()
            ),
            ErrorKind::Auth if self.code.as_deref() == Some(KEY_UNAVAILABLE) => {
                format!("{provider} was not asked, because its key could not be read: {words}.")
            }
            ErrorKind::Auth => format!(
                "{provider} did not accept the API key ({words}). {}.",
                advice::give_key(provider)
            ),
            ErrorKind::RateLimit | ErrorKind::Quota if self.details.resets_in.is_some() => {
                let minutes = self.details.resets_in.unwrap_or_default().as_secs().div_ceil(60).max(1);
                let plan = self.details.plan.as_ref().map(|plan| format!(" of the {plan} plan")).unwrap_or_default();
                format!("The usage limit{plan} at {provider} is reached. It resets in {minutes} min.")
            }
            ErrorKind::RateLimit => {
                format!("{provider} is limiting requests right now. Wait a moment and try again.")
            }
            ErrorKind::Quota => format!(
                "{provider} says the account has nothing left to spend ({words}). Check the account and its billing."
            ),
            ErrorKind::ProviderUnavailable => format!(
                "{provider} has a problem on its side: “{words}”. Try again in a moment or switch to another provider."
            ),
            ErrorKind::Timeout => format!(
                "{provider} took too long to answer. Try again, or ask for less or with a lower reasoning effort."
            ),
            ErrorKind::TransportClosed => format!(
                "The connection to {provider} broke before the answer was complete. Try again, or ask for less or with \
                 a lower reasoning effort."
            ),
            ErrorKind::Network => {
                format!("{provider} could not be reached ({words}). Check the network and the address, then try again.")
            }
            ErrorKind::ConnectionUnavailable => {
                "No connection could be opened from this machine. Check its network, then try again.".to_owned()
            }
            ErrorKind::ContextLength => format!(
                "The conversation has outgrown the window of {}. {}.",
                self.model,
                advice::START_AFRESH
            ),
            ErrorKind::ImageUnsupported => format!(
                "The model {} takes no images. Switch to a model that does, or describe the image in words.",
                self.model
            ),
            ErrorKind::EmptyResponse => {
                format!("{provider} finished without an answer. Try again or rephrase the request.")
            }
            ErrorKind::Provider | ErrorKind::Transport => {
                format!("Sorry, {provider} could not answer: “{words}”. `fermix traces` has the details.")
            }
            ErrorKind::Cancelled => "Stopped.".to_owned(),
        }
    }
}
