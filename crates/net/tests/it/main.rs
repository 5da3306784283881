//! The client's manners against raw servers on loopback.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fermix_net::{Net, NetError, NetErrorKind, Request, Stage, Timeouts};
use futures_util::StreamExt;
use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does on its n-th connection, counted from nought.
type Behaviour = fn(usize) -> &'static [Act];

enum Act {
    /// Reads one request.
    Read,
    /// Writes bytes.
    Write(&'static str),
    /// Keeps silent until the peer goes away.
    Stall,
}
use Act::{Read, Stall, Write};

struct Server {
    url: url::Url,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(behaviour: Behaviour) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = connections.clone();
    let task = tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let nth = counter.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(act(socket, behaviour(nth)));
        }
    });
    Server {
        url,
        connections,
        task,
    }
}

async fn act(mut socket: TcpStream, acts: &[Act]) {
    for act in acts {
        match act {
            Read => read_request(&mut socket).await,
            Write(text) => socket.write_all(text.as_bytes()).await.unwrap(),
            Stall => {
                let mut ignored = [0; 64];
                while socket.read(&mut ignored).await.is_ok_and(|n| n > 0) {}
            }
        }
    }
}

async fn read_request(socket: &mut TcpStream) {
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\nping") {
        let mut byte = [0];
        if socket.read(&mut byte).await.unwrap_or(0) == 0 {
            return;
        }
        seen.push(byte[0]);
    }
}

fn request(url: url::Url, patience: Duration) -> Request {
    Request {
        method: http::Method::POST,
        url,
        headers: http::HeaderMap::new(),
        body: "ping".into(),
        timeouts: Timeouts {
            connect: patience,
            first_byte: patience,
            between_chunks: patience,
            total: Duration::from_secs(20),
        },
    }
}

async fn ask(
    net: &Net,
    url: &url::Url,
    patience: Duration,
    cap: usize,
) -> Result<(u16, String), NetError> {
    let response = net.send(request(url.clone(), patience)).await?;
    let status = response.status;
    let body = response.bytes(cap).await?;
    Ok((status, String::from_utf8(body.to_vec()).unwrap()))
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong";

#[tokio::test]
async fn every_failure_has_its_kind_and_a_measured_stage() {
    use NetErrorKind::{Closed, Timeout, TooLarge};
    let long = Duration::from_secs(10);
    let short = Duration::from_millis(150);
    type Case = (
        &'static str,
        Behaviour,
        Duration,
        Result<(u16, &'static str), (NetErrorKind, Stage)>,
        usize,
    );
    let cases: Vec<Case> = vec![
        (
            "an answer",
            |_| &[Read, Write(OK)],
            long,
            Ok((200, "pong")),
            1,
        ),
        (
            "a redirect is an answer, not an instruction",
            |_| {
                &[
                    Read,
                    Write("HTTP/1.1 302 Found\r\nlocation: /y\r\ncontent-length: 0\r\n\r\n"),
                ]
            },
            long,
            Ok((302, "")),
            1,
        ),
        (
            "a socket that dies before the first byte is replaced once",
            |nth| {
                if nth == 0 {
                    &[Read]
                } else {
                    &[Read, Write(OK)]
                }
            },
            long,
            Ok((200, "pong")),
            2,
        ),
        (
            "a server that always hangs up",
            |_| &[Read],
            long,
            Err((Closed, Stage::BeforeResponse)),
            2,
        ),
        (
            "a silent server",
            |_| &[Read, Stall],
            short,
            Err((Timeout, Stage::BeforeResponse)),
            1,
        ),
        (
            "a body that never comes",
            |_| {
                &[
                    Read,
                    Write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"),
                    Stall,
                ]
            },
            short,
            Err((Timeout, Stage::MidStream)),
            1,
        ),
        (
            "a body that stalls half-way",
            |_| {
                &[
                    Read,
                    Write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"),
                    Stall,
                ]
            },
            short,
            Err((Timeout, Stage::MidStream)),
            1,
        ),
        (
            "a body cut short is not sent again",
            |_| {
                &[
                    Read,
                    Write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"),
                ]
            },
            long,
            Err((Closed, Stage::MidStream)),
            1,
        ),
        (
            "a chunked body cut short",
            |_| {
                &[
                    Read,
                    Write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
                ]
            },
            long,
            Err((Closed, Stage::MidStream)),
            1,
        ),
        (
            "a body over the cap",
            |_| {
                &[
                    Read,
                    Write("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n01234567890123456789"),
                ]
            },
            long,
            Err((TooLarge, Stage::MidStream)),
            1,
        ),
    ];
    for (name, behaviour, patience, expected, connections) in cases {
        let server = serve(behaviour).await;
        let seen = ask(&Net::new("test"), &server.url, patience, 16).await;
        let expected = expected
            .map(|(status, body)| (status, body.to_owned()))
            .map_err(|(kind, stage)| NetError { kind, stage });
        assert_eq!(seen, expected, "{name}");
        assert_eq!(
            server.connections.load(Ordering::SeqCst),
            connections,
            "{name}"
        );
    }
}

#[tokio::test]
async fn addresses_that_cannot_be_reached_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    // No resolver is asked for a label that is too long for any.
    let nameless = format!("http://{}.test/", "x".repeat(64));
    let cases = [
        (nobody.as_str(), NetErrorKind::Refused),
        (nameless.as_str(), NetErrorKind::Network),
        ("ftp://127.0.0.1/", NetErrorKind::InvalidUrl),
        ("data:text/plain,x", NetErrorKind::InvalidUrl),
    ];
    for (url, kind) in cases {
        let seen = ask(
            &Net::new("test"),
            &url.parse().unwrap(),
            Duration::from_secs(10),
            16,
        )
        .await;
        assert_eq!(
            seen,
            Err(NetError {
                kind,
                stage: Stage::BeforeResponse
            }),
            "{url}"
        );
    }
}

#[tokio::test]
async fn a_trickling_server_ends_with_the_total_and_keep_alive_is_used() {
    let trickle = axum::Router::new()
        .route(
            "/trickle",
            axum::routing::post(|| async {
                let beat = futures_util::stream::unfold((), |()| async {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Some((Ok::<_, std::convert::Infallible>("."), ()))
                });
                axum::body::Body::from_stream(beat)
            }),
        )
        .route(
            "/plain",
            axum::routing::post(|body: String| async move { body }),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move { axum::serve(listener, trickle).await });

    let net = Net::new("test");
    let mut slow = request(
        format!("{base}/trickle").parse().unwrap(),
        Duration::from_secs(10),
    );
    slow.timeouts.total = Duration::from_millis(300);
    let mut pieces = std::pin::pin!(net.send(slow).await.unwrap().into_stream(1 << 20));
    let mut last = None;
    while let Some(piece) = pieces.next().await {
        last = Some(piece);
    }
    assert_eq!(
        last.unwrap().unwrap_err(),
        NetError {
            kind: NetErrorKind::Timeout,
            stage: Stage::MidStream
        }
    );

    let echoed = ask(
        &net,
        &format!("{base}/plain").parse().unwrap(),
        Duration::from_secs(10),
        16,
    )
    .await;
    assert_eq!(echoed, Ok((200, "ping".to_owned())));
    server.abort();
}
