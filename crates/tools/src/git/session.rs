//! Git itself: its environment, its view of the machine, and its own word on the repository.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fermix_sandbox::{
    CommandOutcome, CommandSpec, Ending, Jail, Network, Sandbox, Scope, Stderr, WorkingDir,
};
use fermix_types::ToolError;
use fermix_types::text::to_valid_utf8;

use super::configuration::{self, Screening, Setting, Use};
use super::repository::{Purpose, Repository, broken};
use super::submodules;
use crate::blocking::blocking;

/// How long the command of a call may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(120);
/// How long a question to Git that belongs to a call may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);
/// The most an answer to such a question may have, in bytes.
pub(super) const QUERY_CAP: usize = 8 * 1024 * 1024;
/// The longest path the system takes, in bytes, its end included.
const PATH_MAX: usize = if cfg!(target_os = "linux") {
    4096
} else {
    1024
};

/// A repository that was looked at, and how Git is run in it.
pub(super) struct Session {
    pub(super) sandbox: Sandbox,
    pub(super) scope: Scope,
    pub(super) repository: Repository,
    pub(super) used_for: Use,
    /// What was done about the repository's settings; nothing where the owner trusts it.
    pub(super) screening: Screening,
    /// Whether the owner lets the repository's own programs run.
    pub(super) is_trusted: bool,
    git: PathBuf,
    base_env: Vec<(OsString, OsString)>,
    /// Files of the owner's configuration.
    owner_files: Vec<PathBuf>,
    cancel: tokio_util::sync::CancellationToken,
}

/// What Git answered to a question.
pub(super) struct Answer {
    pub(super) exit: i32,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

impl Answer {
    /// The answer's text without its last line end.
    pub(super) fn line(self) -> String {
        let text = to_valid_utf8(self.stdout);
        text.strip_suffix('\n').map_or(text.clone(), str::to_owned)
    }
}

impl Session {
    /// Looks at the repository that `requested` names, and refuses what must not be used.
    pub(super) async fn open(
        sandbox: &Sandbox,
        scope: Scope,
        requested: Option<String>,
        used_for: Use,
    ) -> Result<Self, ToolError> {
        let git = sandbox.executable("git").ok_or_else(|| {
            ToolError::new(
                "executable_not_found",
                "git executable not found; install git",
            )
        })?;
        let purpose = match used_for {
            Use::Read => Purpose::Read,
            Use::Write | Use::Fetch => Purpose::Write,
        };
        let repository = {
            let (sandbox, scope) = (sandbox.clone(), scope.clone());
            blocking(move || Repository::find(&sandbox, &scope, requested.as_deref(), purpose))
                .await?
        };
        let base_env = base_env(sandbox, used_for);
        let owner_files = owner_files(&base_env);
        let cancel = scope.cancel.clone();
        let mut session = Self {
            is_trusted: used_for != Use::Read && is_trusted(sandbox, &repository.work_tree),
            sandbox: sandbox.clone(),
            scope,
            repository,
            used_for,
            screening: Screening::default(),
            git,
            base_env,
            owner_files,
            cancel,
        };
        let (is_own_work_tree, settings) = tokio::join!(
            session.compare(&session.repository),
            session.settings(&session.repository)
        );
        session.screen(is_own_work_tree?, settings?).await?;
        Ok(session)
    }

    async fn screen(
        &mut self,
        is_own_work_tree: bool,
        mut settings: Vec<Setting>,
    ) -> Result<(), ToolError> {
        if configuration::names_files(&settings) {
            let named = self.files_named_by_owner().await?;
            self.owner_files.extend(named);
        }
        if self.is_trusted {
            return Ok(());
        }
        if self.used_for == Use::Read && configuration::includes_files(&settings) {
            settings = self.listed(&self.repository, "--includes").await?;
        }
        self.screening = configuration::screen(&settings, self.used_for, is_own_work_tree)?;
        if self.used_for != Use::Read {
            let more = submodules::screened(self).await?;
            self.screening.has_filters |= more.has_filters;
            for word in more.overrides {
                if !self.screening.overrides.contains(&word) {
                    self.screening.overrides.push(word);
                }
            }
        }
        Ok(())
    }

    /// Asks Git which folders it would use in `repository`, and compares. Whether its work tree is
    /// the folder that holds `.git`.
    pub(super) async fn compare(&self, repository: &Repository) -> Result<bool, ToolError> {
        let words = [
            "rev-parse",
            "--show-toplevel",
            "--absolute-git-dir",
            "--git-common-dir",
        ];
        let answer = self
            .ask(repository, Point::Discover, &words, QUERY_CAP)
            .await?;
        if answer.exit != 0 {
            return Err(not_usable(repository, &answer.stderr));
        }
        let text = String::from_utf8(answer.stdout).unwrap_or_default();
        let lines: Vec<&str> = text.split_terminator('\n').collect();
        let &[work_tree, git_dir, common_dir] = lines.as_slice() else {
            return Err(broken(
                &repository.work_tree,
                "has folders that git does not name clearly",
            ));
        };
        let folder = repository.folder.path().to_owned();
        let canonical = move |path: &str| folder.join(path).canonicalize().ok();
        let (git_dir, common_dir) = (canonical(git_dir), canonical(common_dir));
        if git_dir.as_ref() != Some(&repository.git_dir)
            || common_dir.as_ref() != Some(&repository.common_dir)
        {
            return Err(broken(
                &repository.work_tree.join(".git"),
                "leads git to another folder than it says",
            ));
        }
        if canonical(work_tree).as_ref() == Some(&repository.work_tree) {
            return Ok(true);
        }
        // The repository names another work tree. It is never used; where it lies decides whether
        // this is somebody's odd set-up or a way out.
        self.sandbox
            .readable(work_tree, &self.scope)
            .map_err(|denied| {
                let error = ToolError::from(denied);
                ToolError {
                    message: format!(
                        "`core.worktree` of the repository points to a place outside. {}",
                        error.message
                    ),
                    ..error
                }
            })?;
        Ok(false)
    }

    /// The names of all settings in force in `repository`, without those of included files.
    pub(super) async fn settings(
        &self,
        repository: &Repository,
    ) -> Result<Vec<Setting>, ToolError> {
        self.listed(repository, "--no-includes").await
    }

    async fn listed(
        &self,
        repository: &Repository,
        includes: &str,
    ) -> Result<Vec<Setting>, ToolError> {
        let words = [
            "config",
            "--null",
            "--show-scope",
            "--name-only",
            includes,
            "--list",
        ];
        let answer = self
            .ask(repository, Point::Explicit, &words, QUERY_CAP)
            .await?;
        let text = String::from_utf8(answer.stdout).ok();
        match text.as_deref().and_then(configuration::settings) {
            Some(settings) if answer.exit == 0 => Ok(settings),
            _ => Err(not_usable(repository, &answer.stderr)),
        }
    }

    /// The files that the owner's own settings name, as far as they exist.
    async fn files_named_by_owner(&self) -> Result<Vec<PathBuf>, ToolError> {
        const NAMES: &str =
            r"^(include(if\..*)?\.path|core\.(excludesfile|attributesfile)|mailmap\.file)$";
        let words = [
            "config",
            "--no-includes",
            "--global",
            "--null",
            "--type=path",
            "--get-regexp",
            NAMES,
        ];
        let answer = self
            .ask(&self.repository, Point::Explicit, &words, QUERY_CAP)
            .await?;
        let text = String::from_utf8(answer.stdout).unwrap_or_default();
        let folders = &self.owner_files;
        let mut files = Vec::new();
        for (_, path) in text
            .split_terminator('\0')
            .filter_map(|entry| entry.split_once('\n'))
        {
            // A relative name starts beside the file it stands in.
            for file in folders {
                let folder = match file.is_dir() {
                    true => file,
                    false => file.parent().unwrap_or(file),
                };
                let named = folder.join(path).canonicalize().ok();
                files.extend(named.filter(|named| !files.contains(named)));
            }
        }
        Ok(files)
    }

    /// A question to Git in this session's repository.
    pub(super) async fn query(&self, words: &[&str]) -> Result<Answer, ToolError> {
        self.ask(&self.repository, Point::Explicit, words, QUERY_CAP)
            .await
    }

    /// A question to Git in `repository`. An answer that is not whole is none.
    pub(super) async fn ask(
        &self,
        repository: &Repository,
        point: Point,
        words: &[&str],
        cap: usize,
    ) -> Result<Answer, ToolError> {
        let mut jail = self.jail(repository, false);
        jail.network = Network::Denied;
        jail.ssh = false;
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let spec = CommandSpec {
            timeout: QUERY_TIMEOUT,
            output_cap: cap,
            stderr: Stderr::Separate,
            ..self.spec(repository, point, words, jail)
        };
        let outcome = self.run_spec(spec).await?;
        match outcome.ending {
            Ending::Exited if !outcome.truncated => Ok(Answer {
                exit: outcome.exit,
                stdout: outcome.stdout,
                stderr: to_valid_utf8(outcome.stderr),
            }),
            Ending::Cancelled => Err(ToolError::new("cancelled", "git was stopped")),
            Ending::TimedOut => Err(ToolError::new(
                "timeout",
                format!("git did not answer within {}s", QUERY_TIMEOUT.as_secs()),
            )),
            Ending::Exited | Ending::OutputLimit => Err(ToolError::new(
                "output_limit",
                "the repository is larger than this tool looks through; use `shell`",
            )),
        }
    }

    /// The command of the call itself.
    pub(super) async fn run(
        &self,
        words: Vec<String>,
        output_cap: usize,
    ) -> Result<CommandOutcome, ToolError> {
        let jail = self.jail(&self.repository, self.used_for != Use::Read);
        let spec = CommandSpec {
            timeout: TIMEOUT,
            output_cap,
            ..self.spec(&self.repository, Point::Explicit, words, jail)
        };
        self.run_spec(spec).await
    }

    async fn run_spec(&self, spec: CommandSpec) -> Result<CommandOutcome, ToolError> {
        self.sandbox
            .runner()
            .run(spec, &self.cancel)
            .await
            .map_err(|error| ToolError::new(error.tag(), error.to_string()))
    }

    fn spec(
        &self,
        repository: &Repository,
        point: Point,
        words: Vec<String>,
        jail: Jail,
    ) -> CommandSpec {
        let fixed = match self.is_trusted {
            true => configuration::TRUSTED,
            false => configuration::ALWAYS,
        };
        let settings = fixed
            .iter()
            .map(|word| (*word).to_owned())
            .chain(self.screening.overrides.iter().cloned());
        let args: Vec<String> = std::iter::once("--no-pager".to_owned())
            .chain(settings.flat_map(|word| ["-c".to_owned(), word]))
            .chain(words)
            .collect();
        let folder: WorkingDir = repository.folder.clone();
        CommandSpec {
            jail,
            conversation: self.scope.conversation.clone(),
            ..CommandSpec::new("git", &self.git, args, folder, self.env(repository, point))
        }
    }

    /// Only the repository's own folders; the network and the owner's keys only to fetch.
    fn jail(&self, repository: &Repository, is_writing: bool) -> Jail {
        let own = [
            &repository.work_tree,
            &repository.git_dir,
            &repository.common_dir,
        ];
        let own = own.into_iter().chain(&repository.elsewhere.links).cloned();
        let readable = repository
            .elsewhere
            .alternates
            .iter()
            .chain(&self.owner_files)
            .cloned();
        let is_fetching = self.used_for == Use::Fetch;
        let mut jail = Jail {
            readable: readable.collect(),
            toolchains: self.is_trusted,
            network: match is_fetching {
                true => Network::Allowed,
                false => Network::Denied,
            },
            ssh: is_fetching,
            ..Jail::closed()
        };
        match is_writing {
            true => jail.writable.extend(own),
            false => jail.readable.extend(own),
        }
        jail
    }

    /// Everything Git finds in its environment. Nothing of ours that begins with `GIT_` is among it.
    fn env(&self, repository: &Repository, point: Point) -> Vec<(OsString, OsString)> {
        let mut env = self.base_env.clone();
        let mut set = |name: &str, value: &dyn AsRef<std::ffi::OsStr>| {
            env.push((name.into(), value.as_ref().to_owned()));
        };
        for (name, value) in [
            ("LC_ALL", "C.UTF-8"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "/bin/false"),
            ("SSH_ASKPASS", "/bin/false"),
            ("SSH_ASKPASS_REQUIRE", "never"),
            ("GIT_EDITOR", "false"),
            ("GIT_SEQUENCE_EDITOR", "false"),
            ("GIT_PAGER", "cat"),
            ("GIT_MERGE_AUTOEDIT", "no"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            // A partial clone would fetch what is missing in the middle of a read.
            ("GIT_NO_LAZY_FETCH", "1"),
            // For `core.gitProxy` the first value wins, which is the repository's; an empty variable
            // wins over all.
            ("GIT_PROXY_COMMAND", ""),
            (
                "GIT_SSH_COMMAND",
                "ssh -oBatchMode=yes -oPermitLocalCommand=no",
            ),
            (
                "GIT_ALLOW_PROTOCOL",
                match self.used_for {
                    Use::Fetch => "https:ssh:git",
                    // The name of no protocol.
                    Use::Read | Use::Write => "none",
                },
            ),
        ] {
            set(name, &value);
        }
        let above = repository.root.parent().unwrap_or(Path::new("/"));
        set("GIT_CEILING_DIRECTORIES", &above);
        if point == Point::Explicit {
            set("GIT_DIR", &repository.git_dir);
            set("GIT_WORK_TREE", &repository.work_tree);
            if repository.common_dir != repository.git_dir {
                set("GIT_COMMON_DIR", &repository.common_dir);
            }
            if self.used_for == Use::Read
                && let Some(index) = unlockable(&repository.git_dir.join("index"))
            {
                set("GIT_INDEX_FILE", &index);
            }
        }
        env
    }
}

/// Whether Git finds the repository by itself or is told where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// As it would for the owner, with all its checks of who owns the folders.
    Discover,
    /// Told, so that nothing the repository says leads it elsewhere.
    Explicit,
}

/// The same file under a name so long that the name of its lock is too long for the system. `git
/// diff` writes the index anew when only times have changed, also when told to take no optional
/// locks; without a lock it leaves it alone.
fn unlockable(index: &Path) -> Option<PathBuf> {
    let (folder, name) = (index.parent()?, index.file_name()?);
    let bytes = folder.as_os_str().as_bytes().len() + 1 + name.as_bytes().len();
    let padding = (PATH_MAX - 2).checked_sub(bytes)? / 2;
    let mut long = folder.as_os_str().to_owned();
    long.push("/.".repeat(padding));
    long.push("/");
    long.push(name);
    Some(long.into())
}

/// The variables that are not ours to set.
fn base_env(sandbox: &Sandbox, used_for: Use) -> Vec<(OsString, OsString)> {
    let mut names = vec![
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "TMPDIR",
        "TZ",
        "XDG_CONFIG_HOME",
    ];
    if used_for == Use::Fetch {
        names.extend(["SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"]);
    }
    sandbox.variables(&names)
}

/// Where Git looks for the owner's settings, as far as it exists.
fn owner_files(env: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let value = |name: &str| {
        let mut all = env.iter().filter(|(key, _)| key == name);
        all.next().map(|(_, value)| PathBuf::from(value))
    };
    let Some(home) = value("HOME") else {
        return Vec::new();
    };
    let config = value("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    [home.join(".gitconfig"), config.join("git")]
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect()
}

fn is_trusted(sandbox: &Sandbox, work_tree: &Path) -> bool {
    let settings = sandbox.settings();
    let mut trusted = settings.trusted_repos.iter();
    trusted.any(|path| path.canonicalize().is_ok_and(|path| path == work_tree))
}

fn not_usable(repository: &Repository, words: &str) -> ToolError {
    let words = words.trim();
    if words.contains("safe.bareRepository") {
        return ToolError::new(
            "not_a_repository",
            format!(
                "`{}` is a bare repository, which is not used unless it is named as one; pass a folder of a work tree",
                repository.folder.path().display()
            ),
        );
    }
    ToolError::new(
        "not_a_repository",
        format!(
            "git cannot use the repository at `{}`:\n{words}",
            repository.work_tree.display()
        ),
    )
}
