//! A home with a workspace, secrets to steal, and a sandbox around them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fermix_sandbox::{
    CommandSpec, ConfineMode, ConfineSettings, EnvPolicy, Sandbox, SandboxSettings, Scope,
    Surroundings, WalkOptions,
};
use fermix_types::SandboxMode;
use fermix_types::trace::MemorySink;

pub const LAUNCHER: &str = env!("CARGO_BIN_EXE_fermix-launcher-under-test");

pub struct TestHome {
    // Held for its drop.
    _folder: tempfile::TempDir,
    pub home: PathBuf,
    pub settings: SandboxSettings,
    pub surroundings: Surroundings,
    pub trace: Arc<MemorySink>,
}

impl TestHome {
    pub fn new(mode: SandboxMode) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let base = folder.path().canonicalize().expect("it exists");
        let home = base.join("home/owner");
        let fermix_home = home.join(".fermix");
        let workspace = fermix_home.join("workspace");
        for folder in [
            &workspace,
            &home.join(".ssh"),
            &home.join("project"),
            &base.join("outside"),
            &fermix_home.join("skills"),
        ] {
            fs::create_dir_all(folder).expect("created");
        }
        for (file, text) in [
            (home.join(".ssh/id"), "SECRET key"),
            (home.join(".netrc"), "SECRET netrc"),
            (fermix_home.join("auth.json"), "SECRET token"),
            (base.join("outside/file"), "SECRET outside"),
            (home.join("project/a.txt"), "project"),
            (workspace.join("note.txt"), "hello"),
        ] {
            fs::write(file, text).expect("written");
        }
        let environment: BTreeMap<OsString, OsString> = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", "/home/owner"),
            ("LC_ALL", "C.UTF-8"),
            ("API_KEY", "key-value"),
            ("OTHER", "other-value"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
        Self {
            _folder: folder,
            settings: SandboxSettings {
                mode,
                workspace_root: workspace,
                allowed_roots: Vec::new(),
                read_roots: Vec::new(),
                blocked_roots: Vec::new(),
                env: EnvPolicy::default(),
                confine: ConfineSettings::default(),
                trusted_repos: Vec::new(),
            },
            surroundings: Surroundings {
                home: home.clone(),
                fermix_home,
                launch_dir: None,
                executable: base.join("bin/fermix"),
                environment,
                launcher: Some(LAUNCHER.into()),
            },
            home,
            trace: Arc::default(),
        }
    }

    pub fn sandbox(&self) -> Sandbox {
        Sandbox::new(
            self.settings.clone(),
            self.surroundings.clone(),
            self.trace.clone(),
        )
        .expect("a valid policy")
    }

    /// A launcher that fails at a step, by its name; see `tests/launcher/program.rs`.
    pub fn launched_by(mut self, name: &str) -> Self {
        let link = self.home.join(name);
        symlink(LAUNCHER, &link).expect("linked");
        self.surroundings.launcher = Some(link);
        self
    }

    /// Commands see this folder as their home.
    pub fn at_home(mut self) -> Self {
        let home = self.home.clone().into_os_string();
        self.surroundings.environment.insert("HOME".into(), home);
        self
    }

    pub fn with_confinement(mut self, mode: ConfineMode) -> Self {
        self.settings.confine.mode = mode;
        self
    }

    pub fn workspace(&self) -> &Path {
        &self.settings.workspace_root
    }

    pub fn outside(&self) -> PathBuf {
        self.home
            .join("../../outside")
            .canonicalize()
            .expect("it exists")
    }

    pub fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.workspace().join(name)).expect("linked");
    }
}

/// A shell command in the workspace.
pub async fn shell(sandbox: &Sandbox, script: &str) -> CommandSpec {
    let scope = Scope::default();
    let cwd = sandbox
        .working_dir(None, &scope)
        .expect("the workspace exists");
    let env = sandbox.child_env(&scope).await.vars;
    CommandSpec {
        jail: sandbox.jail(&scope),
        ..CommandSpec::new("shell", "/bin/sh", ["-c", script], cwd, env)
    }
}

/// What a script prints and its exit code.
pub async fn said(sandbox: &Sandbox, script: &str) -> (String, i32) {
    let outcome = sandbox
        .runner()
        .run(shell(sandbox, script).await, &Scope::default().cancel)
        .await
        .expect("ran");
    let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
    (text, outcome.exit)
}

/// Whether this machine confines commands fully. Where it has to (`FERMIX_REQUIRE_CONFINE`), a
/// missing layer fails the test; elsewhere the test is left out and says so.
#[expect(clippy::print_stdout, reason = "whoever runs the tests is told")]
pub fn is_confined(sandbox: &Sandbox, layers: &str) -> bool {
    let report = sandbox.confinement();
    if report.confined == layers {
        return true;
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the machine that runs the tests says what it must offer"
    )]
    let is_required = std::env::var_os("FERMIX_REQUIRE_CONFINE").is_some();
    assert!(!is_required, "{layers} is required: {report:?}");
    println!(
        "left out: this machine offers {}: {:?}",
        report.confined, report.missing
    );
    false
}

pub fn walk_options() -> WalkOptions {
    WalkOptions {
        respect_gitignore: false,
        include_git: false,
        deadline: Instant::now() + Duration::from_secs(20),
        max_entries: 200_000,
        max_depth: None,
        threads: 4,
    }
}

/// Processes whose environment holds `mark`, zombies left aside.
pub fn marked(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("mounted").flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment
            .windows(mark.len())
            .any(|window| window == mark.as_bytes())
        {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

/// Waits until no process holds `mark`; how long that took.
pub async fn gone(mark: &str, limit: Duration) -> Duration {
    let started = Instant::now();
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return started.elapsed();
        }
        let about = || {
            left.iter()
                .map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")))
                .collect::<Vec<_>>()
        };
        assert!(started.elapsed() < limit, "{:?} still hold {mark}", about());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn spec(sandbox: &Sandbox, mark: &str, script: &str) -> CommandSpec {
    let mut spec = shell(sandbox, script).await;
    spec.env.push(("MARK".into(), mark.into()));
    spec
}

pub fn unique() -> String {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    format!(
        "mark-{}-{}-x",
        std::process::id(),
        NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    )
}
