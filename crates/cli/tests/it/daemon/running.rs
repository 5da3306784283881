//! A daemon of a test, and raw connections to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fermix_testkit::TestHome;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::command;

/// How long anything may take on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running `fermix run`. Killed when it is dropped.
pub struct Running {
    child: Child,
    stderr: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts one and waits until it answers.
    pub fn start(home: &TestHome) -> Self {
        Self::start_with(command(home, &["run"]))
    }

    pub fn start_with(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it was piped"));
        let stderr = Arc::new(Mutex::new(String::new()));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let reader = std::thread::spawn({
            let stderr = Arc::clone(&stderr);
            move || {
                let mut line = String::new();
                while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                    if line.starts_with("fermix: ready") {
                        let _ = ready.send(());
                    }
                    stderr.lock().unwrap().push_str(&line);
                    line.clear();
                }
            }
        });
        let running = Self {
            child,
            stderr,
            reader: Some(reader),
        };
        if is_ready.recv_timeout(PATIENCE).is_err() {
            panic!("the daemon is not ready: {}", running.stderr());
        }
        running
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                if let Some(reader) = self.reader.take() {
                    reader.join().unwrap();
                }
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "it never ends: {}",
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to the daemon of a home.
pub struct Connection(UnixStream);

impl Connection {
    pub fn open(home: &TestHome) -> Self {
        let stream = UnixStream::connect(home.fermix_home().join("daemon.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Opens one and sends a request.
    pub fn asking(home: &TestHome, request: &Value) -> Self {
        let mut connection = Self::open(home);
        let body = request.to_string();
        let length = u32::try_from(body.len()).unwrap();
        connection.send(&length.to_be_bytes());
        connection.send(body.as_bytes());
        connection
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // The daemon may have answered and closed already; the answer says why.
        let _ = self.0.write_all(bytes);
    }

    /// The next frame; `None` when the daemon has closed the connection.
    pub fn receive(&mut self) -> Option<Value> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut body).unwrap();
        Some(serde_json::from_slice(&body).unwrap())
    }
}

/// One request with one reply.
pub fn request(home: &TestHome, request: &Value) -> Value {
    let mut connection = Connection::asking(home, request);
    let reply = connection.receive().expect("a reply");
    assert_eq!(connection.receive(), None, "more than one reply");
    reply
}

/// Waits until `holds`.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} never happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The processes whose command line contains `words`.
pub fn processes(words: &str) -> usize {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.unwrap().path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(words))
        .count()
}
