//! The rows.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use fermix_api::HealthRow;
use fermix_config::{Config, ConfigError, Overrides};
use fermix_store::rusqlite;
use rustix::fs::{Access, statvfs};
use serde_json::json;

use super::denials;
use super::{Patient, fail, ok, warn, with_facts};
use crate::assemble::Parts;
use crate::engine::Engine;

/// Less free space than this is told, in bytes.
const LITTLE_SPACE: u64 = 500 * 1024 * 1024;

/// The configuration, and what is built from it when it can be.
pub(super) struct Configured {
    pub(super) config: Result<Config, ConfigError>,
    pub(super) engine: Result<Engine, String>,
}

impl Configured {
    pub(super) fn new(patient: &Patient) -> Self {
        let config = Config::load(&patient.home, &patient.environment, &Overrides::default());
        let engine = match &config {
            Ok(config) => Engine::build(Parts {
                home: patient.home.clone(),
                environment: patient.environment.clone(),
                config: config.clone(),
                executable: patient.executable.clone(),
                launch_dir: patient.launch_dir.clone(),
                extra_roots: Vec::new(),
                redactor: Arc::default(),
            })
            .map_err(|error| error.to_string()),
            Err(_) => Err("config.toml cannot be used; see the row config".to_owned()),
        };
        Self { config, engine }
    }
}

/// Whether the home is a folder of this user alone, on a disk with room.
pub(super) fn home(patient: &Patient) -> HealthRow {
    let root = patient.home.root();
    let shown = root.display();
    let found = match fs::metadata(root) {
        Ok(found) => found,
        Err(error) => return fail("home", format!("`{shown}` cannot be read: {error}")),
    };
    let mode = found.permissions().mode() & 0o777;
    let facts = json!({ "path": root, "mode": format!("{mode:03o}") });
    let row = if found.uid() != rustix::process::geteuid().as_raw() {
        fail(
            "home",
            format!("`{shown}` belongs to another user; set FERMIX_HOME to a folder of your own"),
        )
    } else if mode & 0o077 != 0 {
        fail(
            "home",
            format!("`{shown}` is open to other users (mode {mode:03o}); run `chmod 700 {shown}`"),
        )
    } else if rustix::fs::access(root, Access::WRITE_OK).is_err() {
        fail(
            "home",
            format!("`{shown}` cannot be written; check the disk and the folder's owner"),
        )
    } else {
        match free_space(root) {
            Some(free) if free < LITTLE_SPACE => warn(
                "home",
                format!("`{shown}` has only {} MiB of disk left", free >> 20),
            ),
            Some(_) => ok("home", format!("`{shown}`, yours alone")),
            None => warn(
                "home",
                format!("`{shown}` is yours alone; its free space is unknown"),
            ),
        }
    };
    with_facts(row, facts)
}

fn free_space(path: &Path) -> Option<u64> {
    let found = statvfs(path).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

/// Whether the file can be used, with its warnings.
pub(super) fn config(configured: &Configured) -> HealthRow {
    match (&configured.config, &configured.engine) {
        (Err(error), _) => fail("config", error.to_string()),
        (Ok(_), Err(error)) => fail("config", error.clone()),
        (Ok(config), Ok(_)) if config.warnings.is_empty() => ok("config", "no problems"),
        (Ok(config), Ok(_)) => warn("config", config.warnings.join("; ")),
    }
}

/// Whether the database can be opened, is whole, and which version it has.
pub(super) fn store(path: &Path) -> HealthRow {
    let shown = path.display();
    if !path.exists() {
        return ok("store", "no database yet; the first message makes it");
    }
    let look = || -> rusqlite::Result<(String, i64, i64)> {
        let connection = rusqlite::Connection::open_with_flags(
            path,
            rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
        let verdict: String =
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        let pages: i64 = pragma("page_count")?;
        let size: i64 = pragma("page_size")?;
        let version: i64 = pragma("user_version")?;
        Ok((verdict, version, pages.saturating_mul(size)))
    };
    match look() {
        Ok((verdict, version, bytes)) if verdict == "ok" => with_facts(
            ok("store", format!("`{shown}` is whole")),
            json!({ "version": version, "bytes": bytes }),
        ),
        Ok((verdict, ..)) => fail(
            "store",
            format!("`{shown}` is damaged: {verdict}; a backup may lie beside it"),
        ),
        Err(error) => fail("store", format!("`{shown}` cannot be read: {error}")),
    }
}

/// What the sandbox enforces, and what it refused lately.
pub(super) fn sandbox(patient: &Patient, configured: &Configured) -> HealthRow {
    let Ok(engine) = &configured.engine else {
        return fail("sandbox", "unknown, because config.toml cannot be used");
    };
    let sandbox = engine.sandbox();
    let settings = sandbox.settings();
    let refused = match denials::of_last_days(patient.home.traces(), sandbox) {
        Ok(refused) => refused,
        Err(error) => return warn("sandbox", format!("the traces cannot be read: {error}")),
    };
    let confinement = sandbox.confinement();
    let mut detail = format!(
        "mode {}; commands confined by {}",
        settings.mode.as_str(),
        confinement.confined
    );
    for missing in &confinement.missing {
        detail.push_str(&format!("; no {}: {}", missing.layer, missing.reason));
    }
    let linked = sandbox.linked_grants();
    for (named, target) in &linked {
        detail.push_str(&format!(
            "; the grant of `{}` opens nothing, because that is a link to `{}`: revoke it, and grant the folder itself if you mean it",
            named.display(),
            target.display()
        ));
    }
    if !refused.is_empty() {
        let listed: Vec<String> = refused
            .iter()
            .map(|refusal| {
                let path = refusal.path.display();
                match &refusal.grant {
                    Some(grant) => format!("`{path}` ({}×): `{grant}`", refusal.times),
                    None => format!(
                        "`{path}` ({}×): {}, not grantable",
                        refusal.times, refusal.reason
                    ),
                }
            })
            .collect();
        detail.push_str(&format!(
            "; refused in {} days: {}",
            denials::DAYS,
            listed.join(", ")
        ));
    }
    let row = if confinement.refuses_commands {
        fail("sandbox", detail)
    } else if confinement.missing.is_empty() && confinement.confined == "full" && linked.is_empty()
    {
        ok("sandbox", detail)
    } else {
        warn("sandbox", detail)
    };
    with_facts(
        row,
        json!({
            "mode": settings.mode.as_str(),
            "confinement": confinement,
            "refused": refused,
        }),
    )
}

/// Who answers, and who would when that one cannot.
pub(super) fn providers(configured: &Configured) -> HealthRow {
    let Ok(engine) = &configured.engine else {
        return fail("providers", "unknown, because config.toml cannot be used");
    };
    let providers = match engine.providers() {
        Ok(providers) => providers,
        Err(problem) => return fail("providers", problem.to_string()),
    };
    let routes = providers.routes();
    let names: Vec<String> = routes
        .iter()
        .map(|route| format!("{} {}", route.provider, route.model))
        .collect();
    let is_embedded = |name: &str| name == fermix_providers::ProviderId::Offline.as_str();
    let facts = json!({ "routes": routes.iter().map(|route| json!({
        "provider": route.provider.as_str(),
        "model": route.model,
        "context_window": route.context_window,
    })).collect::<Vec<_>>() });
    let row = match routes.first() {
        None => fail("providers", "no provider can answer"),
        Some(lead) if is_embedded(lead.provider.as_str()) => warn(
            "providers",
            "no model is connected, so the embedded assistant answers; give a key, for example with \
             `fermix secrets set anthropic`",
        ),
        Some(_) => ok("providers", names.join(", then ")),
    };
    with_facts(row, facts)
}

/// What can be called, and how much of it is found by search.
pub(super) fn discovery(configured: &Configured) -> HealthRow {
    let Ok(engine) = &configured.engine else {
        return fail("discovery", "unknown, because config.toml cannot be used");
    };
    let registry = engine.registry();
    let all = registry.all_for_inspection();
    let deferred = all.iter().filter(|entry| entry.is_deferrable()).count();
    let is_on = registry.deferral() == fermix_capability::Deferral::On;
    let detail = if is_on {
        format!(
            "{} capabilities, {deferred} of them found through tool_search",
            all.len()
        )
    } else {
        format!(
            "{} capabilities; tool_search is off, so every schema is sent with every message",
            all.len()
        )
    };
    with_facts(
        ok("discovery", detail),
        json!({ "capabilities": all.len(), "deferred": if is_on { deferred } else { 0 }, "tool_search": is_on }),
    )
}
