//! The release binary against the budget of the design, on this machine.
//!
//! The model is the fake server on loopback with no think time, its checks switched off. A
//! further call is what one of forty more calls in the same turn costs, so start and end of the
//! program cancel out.

mod machine;
mod report;
mod resident;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use fermix_testkit::{Checks, FakeModel, Script, Step, TestHome};
use serde_json::json;

use crate::TaskError;
use crate::process::{Cost, cargo, command, measure};
use report::{Row, Unit};

/// What the scripted model says last; a run that does not print it did not do its work.
const FINAL_WORDS: &str = "All notes were read.";

/// Calls of the long turn beyond those of the short one.
const FURTHER_CALLS: u32 = 40;

/// How to measure.
#[derive(Args, Debug)]
pub struct Options {
    /// Runs per measure; the median counts.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u16).range(1..=1001))]
    runs: u16,
    /// The binary to measure, instead of a fresh release build of this workspace.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Measures and prints. True when everything could be measured, within the budget or not: a busy
/// machine is no fault of the code.
///
/// # Errors
/// When the binary cannot be built or run, or a turn does not end as scripted.
pub fn run(root: &Path, options: &Options) -> Result<bool, TaskError> {
    if cfg!(debug_assertions) {
        // An unoptimised fake model would be part of what is measured.
        return again_in_release(root, options).map(|()| true);
    }
    let binary = match &options.binary {
        Some(path) => path.canonicalize().map_err(TaskError::file(path))?,
        None => build(root)?,
    };
    let rows = rows(&binary, options.runs)?;
    let machine = machine::describe();
    if options.json {
        println!("{:#}", report::json(&machine, options.runs, &rows));
    } else {
        print!("{}", report::table(&machine, options.runs, &rows));
    }
    Ok(true)
}

fn again_in_release(root: &Path, options: &Options) -> Result<(), TaskError> {
    let runs = options.runs.to_string();
    let binary = match &options.binary {
        // Cargo starts the program in the workspace, not where the developer stands.
        Some(path) => Some(path.canonicalize().map_err(TaskError::file(path))?),
        None => None,
    };
    let mut arguments = vec![
        "run",
        "--quiet",
        "--release",
        "--package",
        "xtask",
        "--",
        "bench",
    ];
    arguments.extend(["--runs", &runs]);
    let binary = binary.map(|path| path.to_string_lossy().into_owned());
    if let Some(binary) = &binary {
        arguments.extend(["--binary", binary]);
    }
    if options.json {
        arguments.push("--json");
    }
    cargo(root, &arguments)
}

/// Builds the release binary and returns its path.
fn build(root: &Path) -> Result<PathBuf, TaskError> {
    cargo(
        root,
        &["build", "--quiet", "--release", "--package", "fermix-cli"],
    )?;
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(root)
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()?;
    let name = format!("fermix{}", std::env::consts::EXE_SUFFIX);
    Ok(metadata
        .target_directory
        .as_std_path()
        .join("release")
        .join(name))
}

fn rows(binary: &Path, runs: u16) -> Result<Vec<Row>, TaskError> {
    let size = std::fs::metadata(binary)
        .map_err(TaskError::file(binary))?
        .len();
    let home = TestHome::new();
    let version = median(runs, || {
        let mut command = program(binary, &home);
        command.arg("--version");
        checked(command, "fermix").map(|(cost, _)| cost)
    })?;
    let short = Turn::with_calls(1);
    let long = Turn::with_calls(1 + FURTHER_CALLS);
    let short_cost = median(runs, || short.ask(binary))?;
    let long_cost = median(runs, || long.ask(binary))?;
    let further = Cost {
        wall: long_cost.wall.saturating_sub(short_cost.wall) / FURTHER_CALLS,
        cpu: long_cost.cpu.saturating_sub(short_cost.cpu) / FURTHER_CALLS,
    };
    let mut rows = vec![
        Row::new(
            "start: fermix --version",
            millis(version.wall),
            Unit::Millis,
            5.0,
        ),
        Row::new(
            "one-shot ask, one tool call",
            millis(short_cost.wall),
            Unit::Millis,
            25.0,
        ),
        Row::new(
            "each further call, wall",
            millis(further.wall),
            Unit::Millis,
            1.5,
        ),
        Row::new(
            "each further call, CPU",
            millis(further.cpu),
            Unit::Millis,
            1.0,
        ),
        Row::new(
            "first request (bytes / 4)",
            short.first_request_tokens(),
            Unit::Tokens,
            8000.0,
        ),
        Row::new("release binary", size as f64 / 1e6, Unit::Megabytes, 40.0),
    ];
    rows.extend(resident::rows(binary, runs)?);
    Ok(rows)
}

/// A turn that reads a number of files, one after the other, and says so.
struct Turn {
    home: TestHome,
    model: FakeModel,
}

impl Turn {
    fn with_calls(calls: u32) -> Self {
        let home = TestHome::new();
        for call in 0..calls {
            home.file(format!("note-{call}.txt"), format!("Note number {call}.\n"));
        }
        let script = Script::each(move |seen| {
            let done = seen.results().count();
            if done < calls as usize {
                // Each call is another one, or the loop guard would rightly step in.
                Step::call("file_read", json!({"path": format!("note-{done}.txt")}))
            } else {
                Step::say(FINAL_WORDS)
            }
        });
        let model = FakeModel::start_with(script, Checks::none());
        home.use_model(&model, "");
        Self { home, model }
    }

    fn ask(&self, binary: &Path) -> Result<Cost, TaskError> {
        let mut command = program(binary, &self.home);
        command
            .arg("--home")
            .arg(self.home.fermix_home())
            .args(["ask", "Read all my notes."]);
        let (cost, said) = checked(command, "fermix ask")?;
        if said.contains(FINAL_WORDS) {
            return Ok(cost);
        }
        Err(TaskError::Failed {
            program: "fermix ask".to_owned(),
            detail: format!("it did not say {FINAL_WORDS:?} but {said:?}"),
        })
    }

    fn first_request_tokens(&self) -> f64 {
        self.model
            .requests()
            .first()
            .map_or(0.0, |seen| seen.raw.len() as f64 / 4.0)
    }
}

/// The binary with an environment of its own.
fn program(binary: &Path, home: &TestHome) -> Command {
    let mut command = command(binary);
    command
        .env_clear()
        .envs(home.env())
        .current_dir(home.workspace());
    command
}

/// Measures a run that must succeed, and returns what it printed.
fn checked(command: Command, name: &str) -> Result<(Cost, String), TaskError> {
    let (cost, output) = measure(command)?;
    if output.status.success() {
        return Ok((cost, String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(TaskError::Failed {
        program: name.to_owned(),
        detail: format!("{}: {}", output.status, said.trim()),
    })
}

/// The median wall and the median CPU time of `runs` runs, after one to warm the caches.
fn median(runs: u16, mut run: impl FnMut() -> Result<Cost, TaskError>) -> Result<Cost, TaskError> {
    run()?;
    let costs = (0..runs)
        .map(|_| run())
        .collect::<Result<Vec<Cost>, TaskError>>()?;
    let middle = |time: fn(&Cost) -> Duration| {
        let mut times: Vec<Duration> = costs.iter().map(time).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    Ok(Cost {
        wall: middle(|cost| cost.wall),
        cpu: middle(|cost| cost.cpu),
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
