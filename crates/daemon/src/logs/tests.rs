//! A secret in a message, a field, the chain of an error or the words of a panic is in no sink.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

use fermix_secrets::SecretString;
use fermix_types::clock::FixedClock;
use fermix_types::{TraceIds, TraceKind, TraceRow, TraceSink as _, UnixMillis};
use proptest::prelude::*;
use proptest::string::string_regex;
use serde_json::json;

use super::*;
use crate::traces::{ContentCapture, TraceFiles};

const ALONE: &str = "FERMIX_DAEMON_TEST_ALONE";
const NAME: &str = "logs::tests::a_secret_of_any_shape_is_in_no_sink";

/// A secret of each shape.
const SHAPES: &[&str] = &[
    "sk-(ant-|proj-)?[A-Za-z0-9_-]{20,60}",
    "gh[pousr]_[A-Za-z0-9]{20,40}",
    "github_pat_[A-Za-z0-9_]{20,80}",
    "xox[baprs]-[A-Za-z0-9-]{14,50}",
    "(AKIA|ASIA)[A-Z0-9]{16}",
    "xai-[A-Za-z0-9]{20,80}",
    "AIza[A-Za-z0-9_-]{30,40}",
    "[0-9]{6,10}:[A-Za-z0-9_-]{30,40}",
    "Bearer [A-Za-z0-9._~+/-]{20,60}",
    r"eyJ[A-Za-z0-9_-]{6,40}\.eyJ[A-Za-z0-9_-]{6,80}\.[A-Za-z0-9_-]{6,43}",
    "glpat-[A-Za-z0-9_-]{20}",
    "npm_[A-Za-z0-9]{36}",
    "hf_[A-Za-z0-9]{30,40}",
    "sk_live_[A-Za-z0-9]{24,40}",
    r"[MN][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}",
    "postgres://[a-z]{1,8}:[A-Za-z0-9.]{10,20}@",
    "https://example.org/a\\?b=c&(key|sig)=[A-Za-z0-9_-]{10,40}",
    "-----BEGIN PRIVATE KEY-----\n([A-Za-z0-9+/]{64}\n){1,4}-----END PRIVATE KEY-----",
];

/// No shape at all: only because the process has read it is it known.
const RESOLVED: &str = "[a-z]{4}[0-9]{4}[a-z]{8}";

/// What must not be found: the part of a secret that is one.
fn core(secret: &str) -> String {
    let body = secret
        .lines()
        .find(|line| !line.starts_with("-----"))
        .unwrap_or(secret);
    let body = body.strip_suffix('@').unwrap_or(body);
    body[body.len() - 10..].to_owned()
}

#[derive(Debug)]
struct Failed(String, Option<Box<Failed>>);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref().map(|cause| cause as _)
    }
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl io::Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Under `cargo test` others share this process, and the hook for panics is the whole process's.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts its own binary, and tells it so by its environment"
)]
fn a_secret_of_any_shape_is_in_no_sink() {
    if std::env::var_os(ALONE).is_some() {
        return in_a_process_of_its_own();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn in_a_process_of_its_own() {
    let redactor = Arc::new(Redactor::new());
    let (reports, panics) = mpsc::channel();
    report_panics_to(Arc::clone(&redactor), move |report| {
        reports.send(report.to_owned()).unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let log = Memory::default();
    let subscriber = subscriber(false, &redactor, {
        let log = log.clone();
        move || log.clone()
    });
    let traces = TraceFiles::new(
        folder.path().to_owned(),
        Arc::new(FixedClock::at(UnixMillis(1_800_000_000_000))),
        Arc::clone(&redactor),
        ContentCapture::On,
    );
    let config = ProptestConfig {
        failure_persistence: None,
        cases: 200,
        ..ProptestConfig::default()
    };
    let shape = (0..=SHAPES.len()).prop_flat_map(|index| {
        let pattern = SHAPES.get(index).copied().unwrap_or(RESOLVED);
        let is_resolved = index == SHAPES.len();
        (string_regex(pattern).unwrap(), Just(is_resolved))
    });
    let runner = &mut proptest::test_runner::TestRunner::new(config);
    let outcome = tracing::subscriber::with_default(subscriber, || {
        runner.run(&shape, |(secret, is_resolved)| {
            if is_resolved {
                let value = SecretString::from(secret.as_str());
                redactor.add_values([&value]).unwrap();
            }
            let chain = Failed(
                "outside".to_owned(),
                Some(Box::new(Failed(format!("inside: {secret}"), None))),
            );
            tracing::warn!("the words hold {secret} in the middle");
            tracing::warn!(answer = %secret, other = ?secret, "a field");
            tracing::warn!(error = &chain as &dyn Error, "a chain");
            traces.record(TraceRow::new(
                TraceKind::ToolExec,
                &TraceIds::default(),
                json!({ "error": format!("it said {secret}"), "arguments": { "deep": [secret] } }),
            ));
            let panicked = std::panic::catch_unwind(|| panic!("while it had {secret} in hand"));
            prop_assert!(panicked.is_err());
            let report = panics.recv().unwrap();
            prop_assert!(report.contains("panicked at"), "{report}");

            let written = std::mem::take(&mut *log.0.lock().unwrap());
            let written = String::from_utf8(written).unwrap();
            prop_assert!(written.lines().count() >= 3, "{written}");
            let rows = rows(folder.path());
            let core = core(&secret);
            for sink in [&report, &written, &rows] {
                prop_assert!(!sink.contains(&core), "{secret:?} ({core}) in {sink}");
                prop_assert!(sink.contains("[REDACTED:"), "{sink}");
            }
            Ok(())
        })
    });
    // What went wrong is told the usual way.
    drop(std::panic::take_hook());
    outcome.unwrap();
}

/// What the traces hold, which is taken away.
fn rows(folder: &Path) -> String {
    let file = folder.join("2027-01-15/tool_exec.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    // The open file goes on from its end, wherever that is.
    std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(&file)
        .unwrap();
    text
}
