//! The program's own log: warnings and errors on standard error, with secrets removed.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use fermix_config::Environment;
use fermix_secrets::Redactor;

/// Starts the log of this process. A second call changes nothing.
pub fn to_stderr(environment: &Environment) {
    let redactor = Arc::new(Redactor::new());
    let started = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(!environment.no_color() && io::stderr().is_terminal())
        .with_target(false)
        .with_writer(move || RedactedStderr(Arc::clone(&redactor)))
        .try_init();
    drop(started);
}

/// One whole record at a time.
struct RedactedStderr(Arc<Redactor>);

impl io::Write for RedactedStderr {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        io::stderr()
            .lock()
            .write_all(self.0.redact(&text).as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
