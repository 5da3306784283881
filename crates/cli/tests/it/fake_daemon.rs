//! A daemon that says what a test tells it to, on the socket of a home.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fermix_api::{Done, Event, Reply, Request};
use fermix_testkit::TestHome;
use serde_json::{Map, json};

/// One connection after its request.
pub struct Connection(UnixStream);

impl Connection {
    pub fn event(&mut self, event: &Event) {
        self.bytes(&event.to_bytes());
    }

    pub fn reply(&mut self, reply: &Reply) {
        self.bytes(&reply.to_bytes());
    }

    pub fn bytes(&mut self, body: &[u8]) {
        let length = u32::try_from(body.len()).unwrap();
        self.unframed(&length.to_be_bytes());
        self.unframed(body);
    }

    pub fn unframed(&mut self, bytes: &[u8]) {
        // A client that has gone away is what some tests are about.
        let _ = self.0.write_all(bytes);
    }

    /// Waits until the client closes its end.
    pub fn wait_for_close(&mut self) {
        assert_eq!(
            self.0.read(&mut [0]).unwrap_or(0),
            0,
            "the client says more"
        );
    }

    pub fn say(&mut self, text: &str) {
        self.event(&Event::Delta { text: text.into() });
    }

    /// The end of a turn, with a report.
    pub fn done(&mut self, text: &str) {
        let done = Done {
            status: "ok".into(),
            response: Some(text.into()),
            session_id: "s".into(),
            report: report(),
            ..Done::default()
        };
        self.event(&Event::Done(Box::new(done)));
    }

    pub fn approval(&mut self, token: &str, body: &str, expires_in_ms: u64) {
        self.event(&Event::Approval {
            token: token.into(),
            title: "run a command".into(),
            body: body.into(),
            choices: vec!["once".into(), "always".into(), "deny".into()],
            expires_in_ms,
        });
    }
}

fn report() -> Map<String, serde_json::Value> {
    let report = json!({
        "turn_id": "t1",
        "trace_session": "main-1",
        "provider": "fake",
        "model": "fake-model",
        "iterations": 1,
        "tool_calls": 0,
        "tool_failures": 0,
        "tokens": null,
    });
    report.as_object().unwrap().clone()
}

/// Answers until it is dropped.
pub struct FakeDaemon {
    requests: Arc<Mutex<Vec<Request>>>,
    socket: PathBuf,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeDaemon {
    /// Listens in `home`. `answer` is called for each request, in a thread of its own.
    pub fn start(
        home: &TestHome,
        answer: impl Fn(&Request, &mut Connection) + Send + Sync + 'static,
    ) -> Self {
        Self::at(home.fermix_home().join("daemon.sock"), answer)
    }

    pub fn at(
        socket: PathBuf,
        answer: impl Fn(&Request, &mut Connection) + Send + Sync + 'static,
    ) -> Self {
        let listener = UnixListener::bind(&socket).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let ending = Arc::new(AtomicBool::new(false));
        let answer = Arc::new(answer);
        let thread = std::thread::spawn({
            let (requests, ending) = (Arc::clone(&requests), Arc::clone(&ending));
            move || {
                for stream in listener.incoming() {
                    if ending.load(Ordering::SeqCst) {
                        return;
                    }
                    let (requests, answer) = (Arc::clone(&requests), Arc::clone(&answer));
                    std::thread::spawn(move || {
                        let mut connection = Connection(stream.unwrap());
                        if let Some(request) = read_request(&mut connection.0) {
                            requests.lock().unwrap().push(request.clone());
                            answer(&request, &mut connection);
                        }
                    });
                }
            }
        });
        Self {
            requests,
            socket,
            ending,
            thread: Some(thread),
        }
    }

    /// What came so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until `count` requests came.
    #[track_caller]
    pub fn wait_for(&self, count: usize) -> Vec<Request> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.requests().len() < count {
            assert!(Instant::now() < deadline, "only {:?} came", self.requests());
            std::thread::sleep(Duration::from_millis(10));
        }
        self.requests()
    }
}

impl Drop for FakeDaemon {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(&self.socket);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn read_request(stream: &mut UnixStream) -> Option<Request> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).ok()?;
    Some(Request::from_bytes(&body).expect("the client sends what the types allow"))
}
