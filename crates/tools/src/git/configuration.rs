//! What a repository's own settings may not do.
//!
//! The owner's global and system settings are the owner's. Those in `.git/config` and
//! `config.worktree` come with the folder, from whoever made it, and Git would run programs, read
//! files and reach hosts for them. A value that can be overridden is; one that cannot, or that only
//! makes sense with its program, stops a command that writes, by name.

use fermix_types::ToolError;

/// What every run is given, whatever the repository says. A value on the command line wins over all
/// files.
pub(super) const ALWAYS: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=/bin/false",
    "sequence.editor=false",
    "interactive.diffFilter=cat",
    "diff.external=",
    "diff.submodule=short",
    "status.submoduleSummary=false",
    "log.showSignature=false",
    "log.diffMerges=separate",
    "color.ui=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.x509.program=false",
    "gpg.ssh.program=false",
    "gpg.ssh.defaultKeyCommand=false",
    "protocol.ext.allow=never",
    "safe.bareRepository=explicit",
    "fetch.recurseSubmodules=false",
    "submodule.recurse=false",
    "rebase.autoStash=false",
    "merge.autoStash=false",
    // Git would start a process that outlives the call, and one of its hooks.
    "gc.auto=0",
    "maintenance.auto=false",
    // A name made up from the host would end up in history.
    "user.useConfigOnly=true",
];

/// What a run in a repository the owner trusts is given: nobody is at an editor or a prompt there
/// either, and no helper is left running.
pub(super) const TRUSTED: &[&str] = &[
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=/bin/false",
    "sequence.editor=false",
    "diff.external=",
    "color.ui=false",
    "protocol.ext.allow=never",
    "safe.bareRepository=explicit",
    "gc.auto=0",
    "maintenance.auto=false",
    "user.useConfigOnly=true",
];

/// The most settings that are overridden.
const MAX_OVERRIDES: usize = 400;

/// Where a setting was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The owner's.
    Owner,
    /// The repository's.
    Repository,
}

/// One setting, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) origin: Origin,
    /// Section and name in lower case, the part between them as written.
    pub(super) key: String,
}

/// What is done about a repository's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Screening {
    /// `key=value` for the command line.
    pub(super) overrides: Vec<String>,
    /// Whether a filter of the repository is off, so that its files look changed.
    pub(super) has_filters: bool,
}

/// Which command the settings are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// One that reads.
    Read,
    /// One that writes and stays on this machine.
    Write,
    /// One that also fetches.
    Fetch,
}

/// What becomes of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Harmless,
    Override(&'static str),
    /// Overridden for a read, refused for a write.
    Refuse(&'static str),
    /// Cannot be overridden; harmless for a read.
    RefuseWrite,
    /// Refused where something is fetched, else harmless.
    RefuseFetch,
}

/// Takes apart what `git config --null --show-scope --name-only --list` printed.
pub(super) fn settings(listing: &str) -> Option<Vec<Setting>> {
    let mut words = listing.split_terminator('\0');
    let mut settings = Vec::new();
    while let Some(scope) = words.next() {
        let key = words.next()?.to_owned();
        let origin = match scope {
            "system" | "global" | "command" => Origin::Owner,
            // A scope nobody knows is not the owner's.
            _ => Origin::Repository,
        };
        settings.push(Setting { origin, key });
    }
    Some(settings)
}

/// Whether the repository includes other files, so that its list is not whole yet.
pub(super) fn includes_files(settings: &[Setting]) -> bool {
    settings
        .iter()
        .any(|setting| setting.origin == Origin::Repository && is_include(&setting.key))
}

/// The keys of the owner's settings whose values name files Git opens.
pub(super) fn names_files(settings: &[Setting]) -> bool {
    settings.iter().any(|setting| {
        setting.origin == Origin::Owner
            && (is_include(&setting.key)
                || matches!(
                    setting.key.as_str(),
                    "core.excludesfile" | "core.attributesfile" | "mailmap.file"
                ))
    })
}

fn is_include(key: &str) -> bool {
    key == "include.path" || key.starts_with("includeif.")
}

/// Decides about the settings of a repository. `is_own_work_tree` tells that `core.worktree` leads
/// to the folder that holds `.git`, as it does in every submodule.
pub(super) fn screen(
    settings: &[Setting],
    used_for: Use,
    is_own_work_tree: bool,
) -> Result<Screening, ToolError> {
    let mut screening = Screening::default();
    for setting in settings {
        if setting.origin == Origin::Owner || setting.key == "core.worktree" && is_own_work_tree {
            continue;
        }
        let key = setting.key.as_str();
        let replaced = match (verdict(key), used_for) {
            (Verdict::Harmless, _)
            | (Verdict::RefuseWrite, Use::Read)
            | (Verdict::RefuseFetch, Use::Read | Use::Write) => None,
            (Verdict::Override(value), _) | (Verdict::Refuse(value), Use::Read) => Some(value),
            (Verdict::Refuse(_) | Verdict::RefuseWrite, Use::Write | Use::Fetch)
            | (Verdict::RefuseFetch, Use::Fetch) => return Err(untrusted(key)),
        };
        if let Some(value) = replaced {
            // Git takes the first `=` of `-c` for the end of the key.
            if key.contains('=') {
                return Err(untrusted(key));
            }
            let word = format!("{key}={value}");
            if !screening.overrides.contains(&word) {
                screening.overrides.push(word);
            }
        }
        if let Some(filter) = filter_name(key) {
            screening.has_filters = true;
            let word = format!("filter.{filter}.required=false");
            if !screening.overrides.contains(&word) {
                screening.overrides.push(word);
            }
        }
    }
    if screening.overrides.len() > MAX_OVERRIDES {
        return Err(ToolError::new(
            "untrusted_repo_config",
            "the repository's own configuration has more than 400 settings that name programs or files; have the owner look at it",
        ));
    }
    Ok(screening)
}

/// The refusal of one setting.
pub(super) fn untrusted(key: &str) -> ToolError {
    ToolError::new(
        "untrusted_repo_config",
        format!(
            "the repository's own configuration sets `{}`, which could run a program, read other files or reach another host. The owner can remove it with `git config --unset`, or add the repository to `[sandbox.git] trusted_repos`",
            key.escape_debug()
        ),
    )
}

/// The name of the filter that `key` defines a program of.
fn filter_name(key: &str) -> Option<&str> {
    let (name, what) = key.strip_prefix("filter.")?.rsplit_once('.')?;
    matches!(what, "clean" | "smudge" | "process").then_some(name)
}

fn verdict(key: &str) -> Verdict {
    let (section, rest) = key.split_once('.').unwrap_or((key, ""));
    let (_, name) = rest.rsplit_once('.').unwrap_or(("", rest));
    match section {
        _ if is_always_set(key) => Verdict::Harmless,
        "include" | "includeif" => Verdict::RefuseWrite,
        // Filters, drivers and the like, by name.
        "filter" if matches!(name, "clean" | "smudge" | "process") => Verdict::Override(""),
        "filter" if name == "required" => Verdict::Override("false"),
        "diff" if matches!(name, "command" | "textconv") => Verdict::Override(""),
        "diff" if name == "cachetextconv" => Verdict::Override("false"),
        "diff" if key == "diff.orderfile" => Verdict::Override("/dev/null"),
        "diff" if key == "diff.ignoresubmodules" => Verdict::Override("dirty"),
        "merge" if name == "driver" => Verdict::Override("false"),
        "gpg" if name == "program" || name == "defaultkeycommand" => Verdict::Override("false"),
        "commit" if key == "commit.template" => Verdict::Override("/dev/null"),
        "mailmap" if key == "mailmap.file" => Verdict::Override("/dev/null"),
        "fsck" if name == "skiplist" => Verdict::Override("/dev/null"),
        "fetch" if name == "skiplist" => Verdict::Override("/dev/null"),
        "pull" if matches!(key, "pull.twohead" | "pull.octopus") => Verdict::Refuse("ort"),
        "core" => core(name),
        // What fetching uses and no value on the command line takes back.
        "credential" | "url" => Verdict::RefuseWrite,
        "http" => http(name),
        "remote" => remote(name),
        "branch" if name == "mergeoptions" => Verdict::Override(""),
        "fetch" if matches!(key, "fetch.uriprotocols" | "fetch.bundleuri") => Verdict::RefuseFetch,
        "transfer" if name == "bundleuri" => Verdict::RefuseFetch,
        "hook" => Verdict::RefuseWrite,
        // Their programs belong to commands that are never run here, or to terminals.
        "alias" | "pager" | "difftool" | "mergetool" | "browser" | "man" | "gui" | "guitool"
        | "sendemail" | "trailer" | "uploadpack" | "receive" | "web" | "instaweb" | "help" => {
            Verdict::Harmless
        }
        _ if sounds_like_program(name) => Verdict::Refuse(""),
        _ => Verdict::Harmless,
    }
}

/// Whether [`ALWAYS`] has the last word about `key` already.
fn is_always_set(key: &str) -> bool {
    ALWAYS
        .iter()
        .filter_map(|word| word.split_once('='))
        .any(|(set, _)| set.eq_ignore_ascii_case(key))
}

fn core(name: &str) -> Verdict {
    match name {
        "worktree" | "sshcommand" | "gitproxy" => Verdict::RefuseWrite,
        "excludesfile" | "attributesfile" => Verdict::Override("/dev/null"),
        _ if sounds_like_program(name) => Verdict::Refuse("false"),
        _ => Verdict::Harmless,
    }
}

fn http(name: &str) -> Verdict {
    match name {
        "proxy" | "proxyauthmethod" => Verdict::RefuseWrite,
        "postbuffer" | "lowspeedlimit" | "lowspeedtime" | "version" | "extraheader"
        | "maxrequests" | "minsessions" | "useragent" => Verdict::Harmless,
        _ => Verdict::RefuseFetch,
    }
}

fn remote(name: &str) -> Verdict {
    match name {
        // For the first two Git takes the first value it finds, which is the repository's. Over ssh it
        // is a command on the owner's server.
        "uploadpack" | "receivepack" | "vcs" | "proxy" | "proxyauthmethod" | "serveroption" => {
            Verdict::RefuseFetch
        }
        _ => Verdict::Harmless,
    }
}

/// How Git names settings whose value is run, so that one of a later Git is not missed.
fn sounds_like_program(name: &str) -> bool {
    [
        "command",
        "cmd",
        "program",
        "hook",
        "helper",
        "editor",
        "driver",
        "process",
        "askpass",
        "proxy",
        "textconv",
        "clean",
        "smudge",
        "external",
        "packobjectshook",
    ]
    .iter()
    .any(|end| name.ends_with(end))
}
