//! The program's own words, with secrets removed: its log on standard error, and of a daemon in a
//! file; and the report of a panic.

mod file;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fermix_config::Environment;
use fermix_secrets::{RecordRedactor, Redactor};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use file::LogFile;
pub use file::parts;

/// Starts the log of this process: warnings and errors on standard error. A second call changes
/// nothing.
pub fn to_stderr(environment: &Environment, redactor: &Arc<Redactor>) {
    let colours = !environment.no_color() && io::stderr().is_terminal();
    let log = subscriber(colours, redactor, io::stderr);
    drop(tracing::subscriber::set_global_default(log));
}

fn subscriber<W: io::Write + 'static>(
    colours: bool,
    redactor: &Arc<Redactor>,
    sink: impl Fn() -> W + Send + Sync + 'static,
) -> impl tracing::Subscriber + Send + Sync {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(colours)
        .with_target(false)
        .with_writer(redacted(redactor, sink))
        .finish()
}

/// A writer for whole records, which a secret that is spread over several does not pass either.
fn redacted<W: io::Write>(
    redactor: &Arc<Redactor>,
    sink: impl Fn() -> W + Send + Sync + 'static,
) -> impl Fn() -> Redacted<W> + Send + Sync + 'static {
    let records = Arc::new(Mutex::new(RecordRedactor::new(Arc::clone(redactor))));
    move || Redacted {
        records: Arc::clone(&records),
        sink: sink(),
    }
}

/// Starts the log of a daemon: what it does in the file at `path`, warnings and errors on standard
/// error as well. A panic anywhere becomes a line of it. The error says why there is no file.
pub fn to_file(
    path: &Path,
    environment: &Environment,
    redactor: &Arc<Redactor>,
) -> Result<(), String> {
    let cannot = |error: &dyn std::fmt::Display| {
        format!("cannot write the log `{}`: {error}", path.display())
    };
    let file = Arc::new(LogFile::open(path).map_err(|error| cannot(&error))?);
    let in_file = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(redacted(redactor, move || file::Writer(Arc::clone(&file))))
        .with_filter(LevelFilter::INFO);
    let on_stderr = tracing_subscriber::fmt::layer()
        .with_ansi(!environment.no_color() && io::stderr().is_terminal())
        .with_target(false)
        .with_writer(redacted(redactor, io::stderr))
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

/// Reports panics through `redactor` from now on, because their words are those of whatever was
/// being worked on.
pub fn report_panics(redactor: Arc<Redactor>) {
    report_panics_to(redactor, |report| {
        // Nothing is left to do about a report that cannot be written.
        let _ = io::Write::write_all(&mut io::stderr().lock(), report.as_bytes());
    });
}

fn report_panics_to(redactor: Arc<Redactor>, sink: impl Fn(&str) + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |panic| {
        sink(&redactor.redact(&panic_report(panic)));
    }));
}

fn panic_report(panic: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let mut report = format!("thread `{}` {panic}\n", thread.name().unwrap_or("unnamed"));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        let _ = write!(report, "{backtrace}");
    }
    report
}

/// One whole record at a time.
struct Redacted<W> {
    records: Arc<Mutex<RecordRedactor>>,
    sink: W,
}

impl<W: io::Write> io::Write for Redacted<W> {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        let clean = self
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .redact(&text);
        self.sink.write_all(clean.as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests;
