//! The program's own words on standard error: its log and the report of a panic, with secrets
//! removed.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::panic::PanicHookInfo;
use std::sync::{Arc, Mutex, PoisonError};

use fermix_config::Environment;
use fermix_secrets::{RecordRedactor, Redactor};

/// Starts the log of this process. A second call changes nothing.
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
    let records = Arc::new(Mutex::new(RecordRedactor::new(Arc::clone(redactor))));
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(colours)
        .with_target(false)
        .with_writer(move || Redacted {
            records: Arc::clone(&records),
            sink: sink(),
        })
        .finish()
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
