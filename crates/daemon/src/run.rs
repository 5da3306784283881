//! The daemon's life: lock, configuration, storage, tools, socket, ready; and the way back.

mod baseline;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fermix_config::{Config, ConfigError, Environment, Home, Overrides};
use fermix_secrets::Redactor;
use fermix_store::{ConversationLog as _, TurnRecord};
use tokio::net::UnixListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::assemble::{BuildError, Parts};
use crate::engine::Engine;
use crate::locks::{self, Held, LockError};
use crate::notify;
use crate::server::Server;
use crate::socket::{Bound, NotBound};

/// How long running turns may take to end by themselves.
const DRAIN: Duration = Duration::from_secs(20);
/// How long connections may take to say their last.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long the database may take to close.
const CLOSE: Duration = Duration::from_secs(5);
/// The longest that [`Daemon::run`] takes to end once it was told to, and a little.
pub const MAX_STOP: Duration = Duration::from_secs(45);
/// How long the requests that a crash left open may take to be marked.
const MARKING: Duration = Duration::from_secs(2);

/// What a daemon is started from.
pub struct Boot {
    /// Where everything is kept.
    pub home: Home,
    /// The environment of this process.
    pub environment: Environment,
    /// This program's own file.
    pub executable: PathBuf,
    /// Knows the secrets that no record may hold.
    pub redactor: Arc<Redactor>,
}

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// One runs already.
    #[error(
        "another_daemon_running: a daemon{} has this home and answers at `{}`; stop it first with `fermix stop`",
        .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(),
        .socket.display()
    )]
    AnotherRunning {
        /// Its process id, when it is known.
        pid: Option<u32>,
        /// Where it answers.
        socket: PathBuf,
    },
    /// The lock or the home cannot be used.
    #[error(transparent)]
    Lock(LockError),
    /// The configuration is unusable.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Fermix cannot be put together.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The socket cannot be made.
    #[error("cannot listen at `{}`: {source}", socket.display())]
    Socket {
        /// Where.
        socket: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Signals cannot be heard.
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] std::io::Error),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// In order.
    InOrder,
    /// At once, because it was told so twice: the exit code for that.
    AtOnce(u8),
}

/// A daemon that has its place and does not answer yet.
pub struct Daemon {
    engine: Arc<Engine>,
    environment: Environment,
    socket: Bound,
    started: Instant,
    warnings: Vec<String>,
    // Last, so that the place is free only when nothing of this one is left.
    _home: Held,
    _place: Held,
}

impl Daemon {
    /// Takes the daemon's place in the home and builds everything. Comes before there are other
    /// threads; see [`Bound::bind`].
    pub fn prepare(boot: Boot) -> Result<Self, RunError> {
        let started = Instant::now();
        // Keys pass through this process for months.
        if let Err(error) = fermix_secrets::harden_process() {
            tracing::warn!(%error, "this process could not be closed to others of its user");
        }
        let home = boot.home;
        let another = || RunError::AnotherRunning {
            pid: locks::daemon_pid(&home),
            socket: home.daemon_socket(),
        };
        let place = locks::take_daemon(&home).map_err(|error| match error {
            LockError::Busy { .. } => another(),
            error @ LockError::Io { .. } => RunError::Lock(error),
        })?;
        let share = locks::share_home(&home).map_err(RunError::Lock)?;
        let environment = baseline::with_search_path(boot.environment, &boot.executable);
        let config = Config::load(&home, &environment, &Overrides::default())?;
        let warnings = config.warnings.clone();
        let engine = Engine::build(Parts {
            home: home.clone(),
            environment: environment.clone(),
            config,
            executable: boot.executable,
            // Every message brings the folder it was asked in.
            launch_dir: None,
            extra_roots: Vec::new(),
            redactor: boot.redactor,
        })?;
        // Before the database, which has a thread of its own.
        let socket = Bound::bind(&home).map_err(|error| match error {
            NotBound::Taken => RunError::AnotherRunning {
                pid: None,
                socket: home.daemon_socket(),
            },
            NotBound::Io(source) => RunError::Socket {
                socket: home.daemon_socket(),
                source,
            },
        })?;
        engine.open_store(true).map_err(BuildError::from)?;
        Ok(Self {
            engine: Arc::new(engine),
            environment,
            socket,
            started,
            warnings,
            _home: share,
            _place: place,
        })
    }

    /// What the owner should know although the configuration works.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Answers until it is told to end. `ready` is called once it does.
    pub async fn run(mut self, ready: impl FnOnce()) -> Result<Ended, RunError> {
        let mut signals = Signals::listen().map_err(RunError::Signals)?;
        mark_unfinished(&self.engine).await;
        let listener = self
            .socket
            .listener
            .take()
            .map(UnixListener::from_std)
            .expect("a bound socket is listened on once")
            .map_err(|source| RunError::Socket {
                socket: self.engine.parts().home.daemon_socket(),
                source,
            })?;
        let reader = Arc::clone(&self.engine);
        tokio::spawn(async move { reader.read_secrets().await });
        let server = Arc::new(Server::new(Arc::clone(&self.engine), self.started));
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            pid = std::process::id(),
            "ready"
        );
        notify::tell(&self.environment, notify::READY);
        ready();
        // The listener goes with this: nobody new is heard.
        tokio::select! {
            () = server.listen(listener) => {}
            () = server.stop_asked_for() => {}
            _ = signals.next() => {}
        }
        tracing::info!("ending: running turns have {} s", DRAIN.as_secs());
        notify::tell(&self.environment, notify::STOPPING);
        tokio::select! {
            () = self.wind_down(server) => Ok(Ended::InOrder),
            code = signals.next() => {
                tracing::warn!("told twice to end; what runs is killed");
                Ok(Ended::AtOnce(code))
            }
        }
    }

    async fn wind_down(self, server: Arc<Server>) {
        self.engine.wind_down(DRAIN).await;
        if !server.drain(GOODBYE).await {
            tracing::warn!("connections were still open and are dropped");
        }
        drop(server);
        // Closing folds the database's log into its file, and waits for queued writes.
        let engine = self.engine;
        let closing = tokio::task::spawn_blocking(move || drop(engine));
        if tokio::time::timeout(CLOSE, closing).await.is_err() {
            tracing::warn!("the database did not close in time; nothing committed is lost");
        }
        tracing::info!("ended");
    }
}

/// The signals that mean the end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one, as what a shell reports of a program that it ended.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            _ = self.hang_up.recv() => 129,
        }
    }
}

/// Marks the requests whose turn ended with its process. One that another process works on now is
/// left alone.
async fn mark_unfinished(engine: &Engine) {
    let marking = async {
        let conversations = engine.conversations()?;
        let home = engine.parts().home.clone();
        let mut marked = 0;
        for (key, request) in conversations.unanswered().await? {
            let Ok(_held) = locks::take_conversation(&home, &key, Instant::now()) else {
                continue;
            };
            let record = TurnRecord {
                at: engine.assembled.clock.now(),
                ..TurnRecord::default()
            };
            let marker = conversations
                .append_unfinished_marker(&key, request, record)
                .await?;
            marked += usize::from(marker.is_some());
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(marked)
    };
    match tokio::time::timeout(MARKING, marking).await {
        Ok(Ok(0)) => {}
        Ok(Ok(marked)) => tracing::info!(marked, "requests that were left open were marked"),
        // The next turn of such a conversation marks it as well.
        Ok(Err(error)) => tracing::warn!(%error, "requests left open could not be marked"),
        Err(_) => tracing::warn!("not all requests left open were marked in time"),
    }
}

/// The line on standard error that says that the daemon answers, for whoever waits for it.
pub fn say_ready(home: &Home) {
    let _ = writeln!(
        std::io::stderr(),
        "fermix: ready, version {}, process {}, socket {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        home.daemon_socket().display()
    );
}
