//! The control socket: one request a connection, answered by one reply or by events.
//!
//! Everything here is bounded: how many connections there are, how long a request may take to
//! arrive, how long a client may take to read, how large a frame is.

mod connection;
mod message;
mod methods;
mod outlet;
mod peer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fermix_api::Reply;
use fermix_capability::PromptOrigin;
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::Engine;
use crate::locks::ConversationLocks;
use peer::{NotOurs, Peer};

/// The most connections of the owner at once.
const MAX_CONNECTIONS: usize = 64;
/// The most connections of processes that Fermix started: they cannot keep the owner out.
const MAX_DELEGATED: usize = 16;
/// How long to wait when the system has no descriptor for another connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Carries out what the owner's programs ask for as data and not as a slash command. The owner is
/// there in person; that was checked.
#[async_trait]
pub trait OwnerRequests: Send + Sync {
    /// Looks at the sandbox or changes it. `confirmed`: the owner has seen what it widens.
    async fn policy(&self, operation: Value, confirmed: bool, origin: &PromptOrigin) -> Reply;

    /// Lists the newest changes of tools, or takes one back: `id`, or the last.
    async fn undo(&self, list: bool, id: Option<i64>) -> Reply;
}

/// What answers on the socket.
pub(crate) struct Server {
    pub(crate) engine: Arc<Engine>,
    pub(crate) executable: PathBuf,
    pub(crate) started: Instant,
    locks: ConversationLocks,
    owners: Arc<Semaphore>,
    delegated: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Cancelled by `shutdown`.
    asked_to_stop: CancellationToken,
}

impl Server {
    pub(crate) fn new(engine: Arc<Engine>, started: Instant) -> Self {
        let parts = engine.parts();
        Self {
            executable: parts.executable.clone(),
            locks: ConversationLocks::new(parts.home.clone()),
            engine,
            started,
            owners: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            delegated: Arc::new(Semaphore::new(MAX_DELEGATED)),
            tasks: TaskTracker::new(),
            asked_to_stop: CancellationToken::new(),
        }
    }

    /// Takes connections until dropped.
    pub(crate) async fn listen(self: &Arc<Self>, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let server = Arc::clone(self);
                    self.tasks.spawn(async move { server.take(stream).await });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    /// Resolves when the owner has asked for the end over the socket.
    pub(crate) async fn stop_asked_for(&self) {
        self.asked_to_stop.cancelled().await;
    }

    /// Lets connections say their last for `grace`. Whether all of them did.
    pub(crate) async fn drain(&self, grace: Duration) -> bool {
        self.tasks.close();
        tokio::time::timeout(grace, self.tasks.wait()).await.is_ok()
    }

    /// How many connections are open.
    fn connections(&self) -> usize {
        (MAX_CONNECTIONS - self.owners.available_permits())
            + (MAX_DELEGATED - self.delegated.available_permits())
    }

    async fn take(&self, stream: UnixStream) {
        match Peer::of(&stream, &self.executable) {
            Ok(peer) => connection::serve(self, stream, peer).await,
            Err(error @ (NotOurs::OtherUser | NotOurs::Unknown(_))) => {
                tracing::warn!(%error, "a connection was refused");
                connection::refuse(stream, "refused: the daemon answers its own user only").await;
            }
        }
    }

    /// A place for one more connection.
    fn place_for(&self, peer: &Peer) -> Option<OwnedSemaphorePermit> {
        let places = match peer.local {
            fermix_channels::LocalPeer::InPerson => &self.owners,
            fermix_channels::LocalPeer::StartedByFermix => &self.delegated,
        };
        Arc::clone(places).try_acquire_owned().ok()
    }
}
