//! Sending a request to an address its owner configured.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::time::Instant;
use url::Url;

use crate::error::{NetError, NetErrorKind, Stage};
use crate::response::Response;

/// Servers close idle sockets without telling; one older than this is not worth the gamble.
const MAX_IDLE: Duration = Duration::from_secs(15);
/// Idle sockets kept for one host.
const MAX_IDLE_PER_HOST: usize = 8;
/// Clients kept: two schemes with a few different connect timeouts.
const MAX_CLIENTS: usize = 8;
/// One repetition when a socket turned out to be dead before the server said anything.
const ATTEMPTS: usize = 2;

/// The HTTP clients of this process. Cheap to clone; nothing is built before the first request.
#[derive(Clone)]
pub struct Net {
    shared: Arc<Shared>,
}

struct Shared {
    identity: String,
    clients: Mutex<Vec<(Flavour, reqwest::Client)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Flavour {
    tls: bool,
    connect: Duration,
}

/// One request, to an address its owner configured (perhaps on loopback).
#[derive(Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// An `http` or `https` address.
    pub url: Url,
    /// Headers beside those the client sets.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// When to give up.
    pub timeouts: Timeouts,
}

/// When to give up. There is no default: a wait nobody chose is a wait nobody expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To open the connection.
    pub connect: Duration,
    /// To the response's head, once connected, and from there to the first byte of its body. What
    /// connecting left of its own time is added to the former.
    pub first_byte: Duration,
    /// Between two pieces of the body.
    pub between_chunks: Duration,
    /// For the whole exchange, so that a server trickling bytes ends too.
    pub total: Duration,
}

impl Net {
    /// Clients that introduce themselves as `identity` (the `User-Agent`).
    pub fn new(identity: &str) -> Self {
        let shared = Shared {
            identity: identity.to_owned(),
            clients: Mutex::new(Vec::new()),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Sends `request` and returns when the response's head is there, whatever its status.
    ///
    /// Redirects are answers like any other. When a socket turns out to be closed or refused
    /// before any byte of the response, the request is sent once more.
    pub async fn send(&self, request: Request) -> Result<Response, NetError> {
        let deadline = Instant::now() + request.timeouts.total;
        let client = self.client(&request)?;
        let patience = request.timeouts.connect + request.timeouts.first_byte;
        let mut attempt = 1;
        loop {
            let sent = client
                .request(request.method.clone(), request.url.clone())
                .headers(request.headers.clone())
                .body(request.body.clone())
                .send();
            let until = deadline.min(Instant::now() + patience);
            let kind = match tokio::time::timeout_at(until, sent).await {
                Ok(Ok(response)) => {
                    return Ok(Response::new(response, request.timeouts, deadline));
                }
                Ok(Err(error)) => NetErrorKind::of(&error),
                Err(_elapsed) => NetErrorKind::Timeout,
            };
            let dead_socket = matches!(kind, NetErrorKind::Closed | NetErrorKind::Refused);
            if !dead_socket || attempt == ATTEMPTS {
                return Err(NetError {
                    kind,
                    stage: Stage::BeforeResponse,
                });
            }
            attempt += 1;
        }
    }

    fn client(&self, request: &Request) -> Result<reqwest::Client, NetError> {
        let invalid = NetError {
            kind: NetErrorKind::InvalidUrl,
            stage: Stage::BeforeResponse,
        };
        let tls = match request.url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(invalid),
        };
        if !request.url.has_host() {
            return Err(invalid);
        }
        let flavour = Flavour {
            tls,
            connect: request.timeouts.connect,
        };
        let mut clients = self
            .shared
            .clients
            .lock()
            .expect("nothing panics while holding this lock");
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == flavour) {
            return Ok(client.clone());
        }
        let client = build(&self.shared.identity, flavour)?;
        if clients.len() == MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push((flavour, client.clone()));
        Ok(client)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that builds HTTP clients"
)]
fn build(identity: &str, flavour: Flavour) -> Result<reqwest::Client, NetError> {
    let mut builder = reqwest::Client::builder()
        .user_agent(identity)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(flavour.connect)
        .pool_idle_timeout(MAX_IDLE)
        .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
        .tcp_nodelay(true);
    if !flavour.tls {
        // Reading the system's certificates takes longer than a whole request over loopback, and
        // this client never speaks TLS.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|_| NetError {
        kind: NetErrorKind::Other,
        stage: Stage::BeforeResponse,
    })
}
