//! A request that asked for a folder goes on once the owner has granted it.
//!
//! The turn ends with a word that it waits. Whoever waits for the turn keeps waiting while its
//! prompt lives; when the grant comes, the original message is put into the conversation once more,
//! through the usual way in, and its turn's end is the end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fermix_approvals::Prompts;
use fermix_approvals::policy::{Resume, ResumePort};
use fermix_capability::{ApprovalPort, ApprovalPrompt};
use tokio::sync::oneshot;

/// How often a prompt that nobody has answered is looked at. It lives for a minute at most.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The turns that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Resumes {
    waiting: Mutex<HashMap<String, oneshot::Sender<Resume>>>,
}

impl Resumes {
    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<String, oneshot::Sender<Resume>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a grant that the turn asked for is told here.
    pub(super) fn expect(self: &Arc<Self>, turn_id: &str) -> Expected {
        let (granted, receiver) = oneshot::channel();
        self.waiting().insert(turn_id.to_owned(), granted);
        Expected {
            resumes: Arc::clone(self),
            turn_id: turn_id.to_owned(),
            granted: receiver,
        }
    }
}

#[async_trait]
impl ResumePort for Resumes {
    async fn resume(&self, resume: Resume) -> Result<(), String> {
        let waiting = self.waiting().remove(&resume.turn.turn_id);
        match waiting {
            Some(granted) => granted
                .send(resume)
                .map_err(|_| "nobody waits for the request any more".to_owned()),
            None => Err("nobody waits for the request any more".to_owned()),
        }
    }
}

/// A turn that is waited for. Forgotten when dropped.
pub(super) struct Expected {
    resumes: Arc<Resumes>,
    turn_id: String,
    granted: oneshot::Receiver<Resume>,
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.resumes.waiting().remove(&self.turn_id);
    }
}

impl Expected {
    /// The grant of one of the prompts that were `shown`; nothing once none of them lives.
    /// May be dropped and asked again.
    pub(super) async fn granted(&mut self, shown: &Shown, prompts: &Prompts) -> Option<Resume> {
        loop {
            if let Ok(resume) = self.granted.try_recv() {
                return Some(resume);
            }
            if !shown.any_lives(prompts) {
                // It may have been answered between the two looks.
                return self.granted.try_recv().ok();
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// The tokens of the prompts that a turn has shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown(Arc<Mutex<Vec<String>>>);

impl Shown {
    /// `port`, and a note of what goes through it.
    pub(super) fn watch(&self, port: Arc<dyn ApprovalPort>) -> Arc<dyn ApprovalPort> {
        Arc::new(Watched {
            port,
            shown: self.clone(),
        })
    }

    fn any_lives(&self, prompts: &Prompts) -> bool {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        tokens.iter().any(|token| prompts.is_live(token, now))
    }
}

#[derive(Debug)]
struct Watched {
    port: Arc<dyn ApprovalPort>,
    shown: Shown,
}

#[async_trait]
impl ApprovalPort for Watched {
    fn is_private(&self) -> bool {
        self.port.is_private()
    }

    async fn show(&self, prompt: &ApprovalPrompt) -> Result<(), String> {
        self.port.show(prompt).await?;
        let mut tokens = self.shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.push(prompt.token.clone());
        Ok(())
    }
}
