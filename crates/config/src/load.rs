//! Reading: text to findings, findings to a configuration, every problem on the way kept.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use fermix_types::Effort;
use rustix::fs::OFlags;
use toml_edit::{Document, Item, Key, TableLike};

use crate::commands;
use crate::env::Environment;
use crate::error::{ConfigError, Place, Problem};
use crate::home::Home;
use crate::providers::ProviderId;
use crate::schema::{self, Found, KeyDoc, Rejected, SettingValue, Value};
use crate::settings::{Config, EnvSourceKind};
use crate::warnings;

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1024 * 1024;
/// How many problems are listed.
const MAX_PROBLEMS: usize = 50;

/// Values given for this invocation alone. They win over everything.
#[derive(Clone, Debug, Default)]
pub struct Overrides(Vec<(String, String)>);

impl Overrides {
    /// Adds a dotted key with its value as `config set` takes it.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.push((key.into(), value.into()));
        self
    }
}

impl Config {
    /// Reads the file of `home`, then the environment, then the overrides. A missing file is an
    /// empty one. On any problem there is no configuration, and all problems are listed.
    pub fn load(
        home: &Home,
        environment: &Environment,
        overrides: &Overrides,
    ) -> Result<Self, ConfigError> {
        let path = home.config_file();
        let file = read_file(&path)?;
        let text = file.as_ref().map_or("", |file| file.text.as_str());
        let mut reading = Reading::new(home, &path);
        reading.read_file(text)?;
        let has_key_in_file = reading.findings.values().any(Finding::is_plain_secret);
        reading.read_environment(environment);
        reading.read_overrides(overrides);
        let mut config = reading.finish()?;
        warnings::add(&mut config, home);
        if let Some(file) = file.filter(|file| has_key_in_file && file.mode & 0o077 != 0) {
            config.warnings.push(format!(
                "{} holds a key and other users may read it (mode {:03o}); run `chmod 600` on it",
                path.display(),
                file.mode & 0o777
            ));
        }
        Ok(config)
    }

    /// Checks `text` as the whole file of `home`, without environment and overrides.
    pub(crate) fn from_file_text(text: &str, home: &Home) -> Result<Self, ConfigError> {
        let path = home.config_file();
        let mut reading = Reading::new(home, &path);
        reading.read_file(text)?;
        reading.finish()
    }
}

/// The file as it was read.
pub(crate) struct FileText {
    pub(crate) text: String,
    mode: u32,
}

/// Reads the file; `None` when there is none.
pub(crate) fn read_file(path: &Path) -> Result<Option<FileText>, ConfigError> {
    let unreadable = |reason: String| ConfigError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let file = match open_regular(path) {
        Ok(file) => file,
        // A link that leads nowhere also says "not found"; reading it as "no settings" would
        // silently drop the owner's.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let metadata = file
        .metadata()
        .map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(unreadable(format!("it is larger than {MAX_FILE} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        unreadable(format!("line {line} is not UTF-8; save the file as UTF-8"))
    })?;
    Ok(Some(FileText {
        text,
        mode: metadata.mode(),
    }))
}

/// Opens a file for reading that must be an ordinary one. Never waits: a named pipe would have
/// its reader wait for a writer who may never come.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
        .open(path)?;
    // Asked of the open file, so that it is the one that is read.
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Parses the file's text, which must be TOML.
pub(crate) fn parse<'t>(text: &'t str, path: &Path) -> Result<Document<&'t str>, ConfigError> {
    Document::parse(text).map_err(|error| ConfigError::Syntax {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| line_of(text, span.start)),
        message: error.message().to_owned(),
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text
        .as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
}

/// One value that was found and accepted.
struct Finding {
    row: &'static KeyDoc,
    names: Vec<String>,
    /// As written, which differs from the canonical path for an alias.
    path: Vec<String>,
    place: Place,
    value: Value,
}

impl Finding {
    fn is_plain_secret(&self) -> bool {
        matches!(&self.value, Value::Secret(setting) if setting.text().is_some())
    }
}

struct Reading<'h> {
    home: &'h Home,
    path: &'h Path,
    /// By canonical path, so that a later layer replaces an earlier one.
    findings: BTreeMap<String, Finding>,
    problems: Vec<Problem>,
}

impl<'h> Reading<'h> {
    fn new(home: &'h Home, path: &'h Path) -> Self {
        Self {
            home,
            path,
            findings: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    fn read_file(&mut self, text: &str) -> Result<(), ConfigError> {
        let document = parse(text, self.path)?;
        self.walk(document.as_table(), &mut Vec::new(), text);
        Ok(())
    }

    fn walk(&mut self, table: &dyn TableLike, path: &mut Vec<String>, text: &str) {
        for (name, item) in table.iter() {
            path.push(name.to_owned());
            let offset = table
                .key(name)
                .and_then(Key::span)
                .map_or(0, |span| span.start);
            let place = Place::File {
                path: self.path.to_owned(),
                line: line_of(text, offset),
            };
            match schema::look_up(path) {
                Found::Key(row, names) => self.take_item(row, names, path, place, item),
                Found::Section => match item.as_table_like() {
                    Some(section) => self.walk(section, path, text),
                    None => self.problem(
                        place,
                        path,
                        Rejected::new("is a section; write its keys below one header of that name"),
                    ),
                },
                Found::Nothing { suggestion, reason } => {
                    let what = if item.is_value() && !item.is_inline_table() {
                        "unknown key"
                    } else {
                        "unknown section"
                    };
                    let reason = reason
                        .or_else(|| {
                            let name =
                                schema::dotted_name(path).filter(|_| suggestion.is_none())?;
                            let name = schema::dotted(&name);
                            Some(format!("{what}; a name with dots needs quotes: [{name}]"))
                        })
                        .unwrap_or_else(|| what.to_owned());
                    self.problem(place, path, Rejected { reason, suggestion });
                }
            }
            path.pop();
        }
    }

    fn take_item(
        &mut self,
        row: &'static KeyDoc,
        names: Vec<String>,
        path: &[String],
        place: Place,
        item: &Item,
    ) {
        let value = SettingValue::from_item(item).map_err(|found| row.kind().reject_type(found));
        let checked = value.and_then(|value| row.kind().check(&value, self.home));
        match checked {
            Err(rejected) => self.problem(place, path, rejected),
            Ok(value) => {
                let finding = Finding {
                    row,
                    names,
                    path: path.to_vec(),
                    place,
                    value,
                };
                let canonical = row.canonical(&finding.names);
                if let Some(other) = self.findings.get(&canonical) {
                    let reason = format!(
                        "is the same setting as `{}`; keep one of them",
                        schema::dotted(&other.path)
                    );
                    self.problem(finding.place, path, Rejected::new(reason));
                } else {
                    self.findings.insert(canonical, finding);
                }
            }
        }
    }

    fn read_environment(&mut self, environment: &Environment) {
        for row in schema::keys() {
            let Some(name) = row.variable() else { continue };
            let Some(raw) = environment.get_os(name) else {
                continue;
            };
            let place = Place::Variable(name.to_owned());
            let path: Vec<String> = row.path().split('.').map(str::to_owned).collect();
            match raw.to_str() {
                Some(text) => self.take_text(row, Vec::new(), path, place, text),
                None => self.problem(
                    place,
                    &path,
                    Rejected::new("the variable is not UTF-8; set it again"),
                ),
            }
        }
    }

    fn read_overrides(&mut self, overrides: &Overrides) {
        for (key, text) in &overrides.0 {
            let path: Vec<String> = match Key::parse(key) {
                Ok(parts) => parts.iter().map(|part| part.get().to_owned()).collect(),
                Err(_) => vec![key.clone()],
            };
            match schema::look_up(&path) {
                Found::Key(row, names) => self.take_text(row, names, path, Place::Invocation, text),
                Found::Section => self.problem(
                    Place::Invocation,
                    &path,
                    Rejected::new("is a section; name one of its keys"),
                ),
                Found::Nothing { suggestion, .. } => {
                    self.problem(
                        Place::Invocation,
                        &path,
                        Rejected {
                            reason: "unknown key".to_owned(),
                            suggestion,
                        },
                    );
                }
            }
        }
    }

    fn take_text(
        &mut self,
        row: &'static KeyDoc,
        names: Vec<String>,
        path: Vec<String>,
        place: Place,
        text: &str,
    ) {
        let read = row.kind().read_text(text);
        match read.and_then(|value| row.kind().check(&value, self.home)) {
            Ok(value) => {
                let canonical = row.canonical(&names);
                self.findings.insert(
                    canonical,
                    Finding {
                        row,
                        names,
                        path,
                        place,
                        value,
                    },
                );
            }
            Err(rejected) => self.problem(place, &path, rejected),
        }
    }

    fn problem(&mut self, place: Place, path: &[String], rejected: Rejected) {
        let (key, section) = path
            .split_last()
            .map_or(("", &[][..]), |(key, section)| (key.as_str(), section));
        self.problems.push(Problem {
            place,
            section: schema::dotted(section),
            key: schema::quoted(key),
            reason: rejected.reason,
            suggestion: rejected.suggestion,
        });
    }

    fn finish(mut self) -> Result<Config, ConfigError> {
        let mut config = Config::defaults(self.home);
        let findings = std::mem::take(&mut self.findings);
        for finding in findings.values() {
            if let Err(rejected) =
                finding
                    .row
                    .apply(&mut config, &finding.names, finding.value.clone())
            {
                self.problem(finding.place.clone(), &finding.path, rejected);
            }
            if let (true, Place::File { path, line }) = (finding.is_plain_secret(), &finding.place)
            {
                config.warnings.push(format!(
                    "{}:{line}: `{}` is a key in plain text; run `fermix secrets migrate` to move it to a secret store",
                    path.display(),
                    schema::dotted(&finding.path),
                ));
            }
        }
        self.check_primaries(&findings);
        self.check_sources(&config, &findings);
        self.check_commands(&config, &findings);
        self.check_routing(&config, &findings);
        if self.problems.is_empty() {
            return Ok(config);
        }
        self.problems.sort_by_key(|problem| match problem.place {
            Place::File { line, .. } => line,
            Place::Variable(_) => usize::MAX - 1,
            Place::Invocation => usize::MAX,
        });
        self.problems.truncate(MAX_PROBLEMS);
        Err(ConfigError::Invalid(self.problems))
    }

    fn check_primaries(&mut self, findings: &BTreeMap<String, Finding>) {
        let marked: Vec<&Finding> = findings
            .values()
            .filter(|finding| {
                finding.row.path().ends_with(".primary") && finding.value == Value::Flag(true)
            })
            .collect();
        let [first, rest @ ..] = marked.as_slice() else {
            return;
        };
        for second in rest {
            let reason = format!(
                "is true, and so is `{}`; only one provider can be asked first",
                schema::dotted(&first.path)
            );
            self.problem(second.place.clone(), &second.path, Rejected::new(reason));
        }
    }

    fn check_sources(&mut self, config: &Config, findings: &BTreeMap<String, Finding>) {
        for (name, source) in &config.sandbox.env.sources {
            let (key, reason) = match (source.source, &source.command, &source.name) {
                (Some(EnvSourceKind::Command), None, _) => (
                    "source",
                    "is `command`, but no `command` is given; add the helper's program",
                ),
                (Some(EnvSourceKind::Env), Some(_), _) => (
                    "source",
                    "is `env`, but a `command` is given; remove one of them",
                ),
                (_, Some(_), Some(_)) => (
                    "name",
                    "has no meaning beside `command`; remove one of them",
                ),
                _ => continue,
            };
            if let Some(finding) =
                findings.get(&format!("sandbox.env.{}.{key}", schema::quoted(name)))
            {
                self.problem(finding.place.clone(), &finding.path, Rejected::new(reason));
            }
        }
    }

    fn check_commands(&mut self, config: &Config, findings: &BTreeMap<String, Finding>) {
        for (name, entry) in &config.sandbox.commands.explicit {
            let reason = match &entry.command {
                None if !commands::is_of_a_preset(name) => {
                    "names no program; add `command` to this section".to_owned()
                }
                Some(command) if command.contains('/') && !command.starts_with('/') => {
                    "is neither an absolute path nor a name on the search path; write the whole path"
                        .to_owned()
                }
                _ => continue,
            };
            let section = format!("sandbox.commands.{}.", schema::quoted(name));
            if let Some((_, finding)) = findings.iter().find(|(key, _)| match entry.command {
                Some(_) => **key == format!("{section}command"),
                None => key.starts_with(&section),
            }) {
                self.problem(finding.place.clone(), &finding.path, Rejected::new(reason));
            }
        }
    }

    fn check_routing(&mut self, config: &Config, findings: &BTreeMap<String, Finding>) {
        for (route, setting) in [
            ("subagent", &config.routing.subagent),
            ("cron", &config.routing.cron),
        ] {
            let pair = (setting.provider, setting.reasoning_effort);
            let key = format!("fermix_core.routing.{route}_reasoning_effort");
            if let (true, Some(finding)) = (
                pair == (Some(ProviderId::Anthropic), Some(Effort::None)),
                findings.get(&key),
            ) {
                let reason = "\"none\" is not accepted with anthropic; accepted: low, medium, high, xhigh, max";
                self.problem(finding.place.clone(), &finding.path, Rejected::new(reason));
            }
        }
    }
}
