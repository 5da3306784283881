//! The program's own log, with secrets removed: on standard error, and of a daemon in a file.

mod file;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fermix_config::Environment;
use fermix_secrets::Redactor;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use file::LogFile;
pub use file::parts;

/// Starts the log of this process: warnings and errors on standard error. A second call changes
/// nothing.
pub fn to_stderr(environment: &Environment) {
    let redactor = Arc::new(Redactor::new());
    let started = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(!environment.no_color() && io::stderr().is_terminal())
        .with_target(false)
        .with_writer(move || Redacted(Arc::clone(&redactor), io::stderr()))
        .try_init();
    drop(started);
}

/// Starts the log of a daemon: what it does in the file at `path`, warnings and errors on standard
/// error as well. A panic anywhere becomes a line of it. The error says why there is no file.
pub fn to_file(path: &Path, environment: &Environment) -> Result<(), String> {
    let cannot = |error: &dyn std::fmt::Display| {
        format!("cannot write the log `{}`: {error}", path.display())
    };
    let file = Arc::new(LogFile::open(path).map_err(|error| cannot(&error))?);
    let redactor = Arc::new(Redactor::new());
    let file_redactor = Arc::clone(&redactor);
    let in_file = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(move || Redacted(Arc::clone(&file_redactor), file::Writer(Arc::clone(&file))))
        .with_filter(LevelFilter::INFO);
    let on_stderr = tracing_subscriber::fmt::layer()
        .with_ansi(!environment.no_color() && io::stderr().is_terminal())
        .with_target(false)
        .with_writer(move || Redacted(Arc::clone(&redactor), io::stderr()))
        .with_filter(LevelFilter::WARN);
    tracing_subscriber::registry()
        .with(in_file)
        .with(on_stderr)
        .try_init()
        .map_err(|error| cannot(&error))?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let words = panic.payload_as_str().unwrap_or("no words");
        tracing::error!(
            place = place.unwrap_or_default(),
            "a task panicked: {words}"
        );
    }));
    Ok(())
}

/// The log and its older parts that exist, newest first.
pub fn existing(path: &Path) -> Vec<PathBuf> {
    parts(path)
        .into_iter()
        .filter(|part| part.exists())
        .collect()
}

/// One whole record at a time.
struct Redacted<W>(Arc<Redactor>, W);

impl<W: io::Write> io::Write for Redacted<W> {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        self.1.write_all(self.0.redact(&text).as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}
