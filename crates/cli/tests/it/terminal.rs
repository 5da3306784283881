//! The binary at a terminal of its own: what is typed, and what is seen.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fermix_testkit::TestHome;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

const PATIENCE: Duration = Duration::from_secs(30);

/// A program at a terminal.
pub struct Terminal {
    child: Child,
    keyboard: File,
    terminal: File,
    screen: Arc<Mutex<String>>,
    /// How much of the screen was looked at.
    seen: usize,
}

impl Terminal {
    /// Starts the binary. It is the leader of its session, and the terminal is its own.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts the binary as a person would"
    )]
    pub fn start(home: &TestHome, args: &[&str]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let size = Winsize {
            ws_row: 40,
            ws_col: 160,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let name = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let flags =
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let slave: OwnedFd = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
        let stdio = || slave.try_clone().unwrap();
        let child = Command::new("setsid")
            .arg("--ctty")
            .arg(env!("CARGO_BIN_EXE_fermix"))
            .args(args)
            .env_clear()
            .envs(home.env())
            .env("TERM", "xterm")
            .current_dir(home.workspace())
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .expect("setsid of util-linux starts");
        let screen = Arc::new(Mutex::new(String::new()));
        let master = File::from(master);
        std::thread::spawn({
            let screen = Arc::clone(&screen);
            let mut master = master.try_clone().unwrap();
            move || {
                let mut bytes = [0; 4096];
                while let Ok(count) = master.read(&mut bytes) {
                    let text = String::from_utf8_lossy(&bytes[..count]);
                    screen.lock().unwrap().push_str(&text);
                    if count == 0 {
                        return;
                    }
                }
            }
        });
        Self {
            child,
            keyboard: master,
            terminal: File::from(slave),
            screen,
            seen: 0,
        }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` is written, after what was last waited for.
    #[track_caller]
    pub fn sees(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen.lock().unwrap().clone();
            if let Some(at) = screen[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(
                Instant::now() < deadline,
                "no {text:?} after: {:?}",
                &screen[self.seen..]
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the program begins to edit a line, of which it tells the terminal.
    #[track_caller]
    pub fn edits(&mut self) {
        self.sees("\x1b[?2004h");
        self.sees("> ");
    }

    /// Whether the terminal is as a shell leaves it.
    pub fn gives_lines(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Everything that was written.
    pub fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ends(&mut self, code: i32) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(code), "{}", self.screen());
                return;
            }
            assert!(Instant::now() < deadline, "it goes on: {}", self.screen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
