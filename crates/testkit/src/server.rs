//! The HTTP server of the fake model, on a thread and port of its own.

mod stream;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::checks::{Checks, Guard, Rule, Violation};
use crate::request::{Seen, Wire, parse, text_of};
use crate::script::{Outcome, Refusal, Script, Step};
use crate::wire;

/// The largest request body that is read, in bytes.
const MAX_BODY: usize = 64 << 20;

/// At most this many requests are kept; the oldest go first.
const MAX_RECORDED: usize = 20_000;

/// At most this many bytes of request bodies are kept; the oldest go first.
const MAX_RECORDED_BYTES: usize = 256 << 20;

/// A model server on loopback that answers `/v1/responses`, `/v1/chat/completions` and
/// `/v1/messages` (also without `/v1`, and `/backend-api/codex/responses`) from one script.
///
/// It runs on its own thread, so it serves blocking tests, asynchronous tests and child processes
/// alike. Every request is checked ([`Rule`]). Dropping the server stops it and panics with the
/// broken rules, unless the test is failing already or has taken them with
/// [`FakeModel::take_violations`].
pub struct FakeModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    shutdown: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// How far the conversation with the server has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    received: usize,
    abandoned: usize,
}

struct Shared {
    script: Script,
    guard: Mutex<Guard>,
    recorded: Mutex<Recorded>,
    required_key: Mutex<Option<String>>,
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct Recorded {
    requests: VecDeque<Arc<Seen>>,
    bytes: usize,
}

impl FakeModel {
    /// The key that [`crate::TestHome::env`] hands to child processes.
    pub const KEY: &'static str = "fake-model-key";

    /// Starts a server that answers from `script` and enforces every rule.
    ///
    /// # Panics
    /// When no loopback port can be opened.
    pub fn start(script: impl Into<Script>) -> Self {
        Self::start_with(script, Checks::all())
    }

    /// Starts a server that answers every request with what `answer` returns for it.
    pub fn script_loop(answer: impl FnMut(&Seen) -> Step + Send + 'static) -> Self {
        Self::start(Script::each(answer))
    }

    /// Starts a server that enforces `checks` only.
    ///
    /// # Panics
    /// When no loopback port can be opened.
    pub fn start_with(script: impl Into<Script>, checks: Checks) -> Self {
        let shared = Arc::new(Shared {
            script: script.into(),
            guard: Mutex::new(Guard::new(checks)),
            recorded: Mutex::default(),
            required_key: Mutex::default(),
            progress: watch::Sender::new(Progress::default()),
        });
        let shutdown = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime needs nothing but memory and descriptors");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        listener
            .set_nonblocking(true)
            .expect("a fresh socket takes the option");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        let stop = shutdown.clone();
        let thread = std::thread::Builder::new()
            .name("fake-model".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let listener = TcpListener::from_std(listener)
                        .expect("the socket is non-blocking and the runtime drives sockets")
                        // Without this, timing measures Nagle's algorithm.
                        .tap_io(|stream| drop(stream.set_nodelay(true)));
                    tokio::select! {
                        outcome = axum::serve(listener, router) => drop(outcome),
                        () = stop.cancelled() => {}
                    }
                });
                // Dropping the runtime here ends every open connection.
            })
            .expect("a thread needs nothing but memory");
        Self {
            address,
            shared,
            shutdown,
            thread: Some(thread),
        }
    }

    /// `http://127.0.0.1:PORT/v1`, what `base_url` in a provider block takes.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on every request without exactly this key is answered with 401.
    pub fn require_key(&self, key: impl Into<String>) {
        *locked(&self.shared.required_key) = Some(key.into());
    }

    /// The requests so far, oldest first (at most the last 20,000).
    pub fn requests(&self) -> Vec<Arc<Seen>> {
        locked(&self.shared.recorded)
            .requests
            .iter()
            .cloned()
            .collect()
    }

    /// The last request.
    ///
    /// # Panics
    /// When there was none.
    pub fn last_request(&self) -> Arc<Seen> {
        let recorded = locked(&self.shared.recorded);
        recorded
            .requests
            .back()
            .cloned()
            .expect("the fake model has had a request")
    }

    /// How many requests came in.
    pub fn request_count(&self) -> usize {
        self.shared.progress.borrow().received
    }

    /// How many answers were left by the client before their end.
    pub fn abandoned_count(&self) -> usize {
        self.shared.progress.borrow().abandoned
    }

    /// How many answers the script still holds; 0 for a function.
    pub fn remaining_steps(&self) -> usize {
        self.shared.script.remaining()
    }

    /// Waits until `count` requests have come in. False when `within` has passed first.
    pub async fn wait_for_requests(&self, count: usize, within: Duration) -> bool {
        self.wait(within, |progress| progress.received >= count)
            .await
    }

    /// Waits until the client has left `count` answers before their end, as a cancelled turn
    /// does. False when `within` has passed first.
    pub async fn wait_for_abandoned(&self, count: usize, within: Duration) -> bool {
        self.wait(within, |progress| progress.abandoned >= count)
            .await
    }

    async fn wait(&self, within: Duration, reached: impl FnMut(&Progress) -> bool) -> bool {
        let mut progress = self.shared.progress.subscribe();
        tokio::time::timeout(within, progress.wait_for(reached))
            .await
            .is_ok_and(|seen| seen.is_ok())
    }

    /// The broken rules so far.
    pub fn violations(&self) -> Vec<Violation> {
        locked(&self.shared.guard).violations().to_vec()
    }

    /// The broken rules so far; they no longer fail the test.
    pub fn take_violations(&self) -> Vec<Violation> {
        locked(&self.shared.guard).take_violations()
    }

    /// Fails the test now if a rule was broken.
    ///
    /// # Panics
    /// With the list of broken rules.
    #[track_caller]
    pub fn assert_clean(&self) {
        let violations = self.take_violations();
        assert!(violations.is_empty(), "{}", report(&violations));
    }
}

impl std::fmt::Debug for FakeModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FakeModel({})", self.base_url())
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("the server thread does not panic");
            }
        }
        if !std::thread::panicking() {
            self.assert_clean();
        }
    }
}

fn report(violations: &[Violation]) -> String {
    let lines: Vec<String> = violations
        .iter()
        .map(|violation| format!("  {violation}"))
        .collect();
    format!(
        "the fake model saw {} broken rules:\n{}",
        lines.len(),
        lines.join("\n")
    )
}

/// Locks even after a panic elsewhere: what a failing test recorded is still worth reading.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts an answer as abandoned unless it is declared complete.
struct Delivery {
    shared: Arc<Shared>,
    complete: bool,
}

impl Delivery {
    fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.complete {
            self.shared
                .progress
                .send_modify(|progress| progress.abandoned += 1);
        }
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let number = shared.progress.borrow().received;
    let path = head.uri.path().to_owned();
    let Some(wire) = Wire::at(&path).filter(|_| head.method == Method::POST) else {
        let detail = format!("{} {path} is not served", head.method);
        locked(&shared.guard).report(number, Rule::Body, detail.clone());
        return plain(StatusCode::NOT_FOUND, detail);
    };
    let Ok(raw) = to_bytes(body, MAX_BODY).await else {
        // The client left, or sent more than anything reasonable.
        locked(&shared.guard).report(number, Rule::Body, "the body did not arrive".to_owned());
        return plain(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body did not arrive".to_owned(),
        );
    };
    let seen = Arc::new(read(&shared, wire, path, &head.headers, raw));
    locked(&shared.guard).examine(&seen);
    locked(&shared.recorded).push(Arc::clone(&seen));
    shared
        .progress
        .send_modify(|progress| progress.received += 1);
    let key_is_required = locked(&shared.required_key).is_some();
    if key_is_required && !seen.authorized {
        let Outcome::Refusal(refusal) = Step::status(401).with_message("invalid key").outcome
        else {
            unreachable!("a status step is a refusal")
        };
        return refuse(wire, &refusal);
    }
    match shared.script.next(&seen) {
        Ok(step) => deliver(shared, step, &seen).await,
        Err(detail) => {
            locked(&shared.guard).report(seen.number, Rule::Script, detail.clone());
            // 400 is never retried, so the test ends quickly.
            plain(StatusCode::BAD_REQUEST, detail)
        }
    }
}

async fn deliver(shared: Arc<Shared>, step: Step, seen: &Seen) -> Response {
    let mut delivery = Delivery {
        shared: Arc::clone(&shared),
        complete: false,
    };
    if !step.delay.is_zero() {
        tokio::time::sleep(step.delay).await;
    }
    let reply = match &step.outcome {
        Outcome::Refusal(refusal) => {
            delivery.complete();
            return refuse(seen.wire, refusal);
        }
        Outcome::Reply(reply) => reply,
    };
    let rendered = wire::render(reply, &step, seen);
    locked(&shared.guard).issued(rendered.issued);
    let pieces = stream::pieces(&step, rendered.events);
    Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")
        .header(header::CACHE_CONTROL, "no-cache")
        .body(Body::from_stream(stream::body(pieces, delivery)))
        .expect("the headers are constants")
}

fn refuse(wire: Wire, refusal: &Refusal) -> Response {
    let mut response = Response::builder()
        .status(refusal.status)
        .header(header::CONTENT_TYPE, "application/json");
    for (name, value) in &refusal.headers {
        response = response.header(name, value);
    }
    response
        .body(Body::from(wire::error_body(wire, refusal)))
        .unwrap_or_else(|error| plain(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn plain(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}

fn read(shared: &Shared, wire: Wire, path: String, headers: &HeaderMap, raw: Bytes) -> Seen {
    let body: Value = serde_json::from_slice(&raw).unwrap_or(Value::Null);
    let parsed = parse(wire, &body);
    let key = key_of(headers);
    let authorized = match &*locked(&shared.required_key) {
        Some(required) => key.as_deref() == Some(required),
        None => key.is_some(),
    };
    Seen {
        number: shared.progress.borrow().received,
        wire,
        path,
        model: text_of(&body["model"]),
        system: parsed.system,
        messages: parsed.messages,
        tools: parsed.tools,
        cache_key: body["prompt_cache_key"].as_str().map(str::to_owned),
        headers: open_headers(headers),
        authorized,
        key,
        body,
        raw,
    }
}

fn key_of(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    text("authorization")
        .and_then(|value| value.strip_prefix("Bearer "))
        .or_else(|| text("x-api-key"))
        .filter(|key| !key.is_empty())
        .map(str::to_owned)
}

fn open_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "authorization" | "x-api-key" | "cookie"))
        .map(|(name, value)| {
            (
                name.as_str().to_owned(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect()
}

impl Recorded {
    fn push(&mut self, seen: Arc<Seen>) {
        self.bytes += seen.raw.len();
        self.requests.push_back(seen);
        while self.requests.len() > MAX_RECORDED || self.bytes > MAX_RECORDED_BYTES {
            let Some(oldest) = self.requests.pop_front() else {
                break;
            };
            self.bytes -= oldest.raw.len();
        }
    }
}
