//! Pulling, from a remote the owner has configured and over a network protocol.

use fermix_types::{ToolError, ToolResult};

use super::Change;
use crate::git::session::Session;

pub(super) async fn run(mut change: Change<'_>) -> ToolResult {
    change.refuse_home()?;
    let mut operands = std::mem::take(&mut change.arguments.operands).into_iter();
    let remote = match operands.next() {
        Some(name) => name,
        None => default_remote(change.session).await?,
    };
    let branches: Vec<String> = operands.collect();
    check_branches(&branches)?;
    check_remote(change.session, &remote).await?;
    change.arguments.operands = std::iter::once(remote).chain(branches).collect();
    change
        .make(change.words(&["--no-recurse-submodules"]))
        .await
}

/// The remote that Git would pull from, named, so that it is the one that is checked.
async fn default_remote(session: &Session) -> Result<String, ToolError> {
    let branch = session
        .query(&["symbolic-ref", "--short", "--quiet", "HEAD"])
        .await?;
    if branch.exit == 0 {
        let key = format!("branch.{}.remote", branch.line());
        let configured = session.query(&["config", "--get", &key]).await?;
        if configured.exit == 0 {
            return Ok(configured.line());
        }
    }
    let all = session.query(&["remote"]).await?.line();
    let mut names = all.lines();
    Ok(match (names.next(), names.next()) {
        (Some(only), None) => only.to_owned(),
        _ => "origin".to_owned(),
    })
}

/// Names only: a refspec with a colon writes local branches.
fn check_branches(branches: &[String]) -> Result<(), ToolError> {
    let odd = branches
        .iter()
        .find(|branch| branch.is_empty() || branch.contains([':', '+', '*', '^']));
    match odd {
        None => Ok(()),
        Some(odd) => Err(ToolError::new(
            "invalid_args",
            format!("`{odd}` is no branch; git pull takes a remote and names of its branches here"),
        )),
    }
}

async fn check_remote(session: &Session, remote: &str) -> Result<(), ToolError> {
    let is_name = !remote.is_empty()
        && remote
            .chars()
            .all(|letter| letter.is_alphanumeric() || "-_./".contains(letter))
        && !remote
            .split('/')
            .any(|part| matches!(part, "" | "." | ".."));
    let key = format!("remote.{remote}.url");
    if !is_name || session.query(&["config", "--get-all", &key]).await?.exit != 0 {
        let names = session.query(&["remote"]).await?.line();
        let known: Vec<&str> = names.lines().collect();
        let known = match known.is_empty() {
            true => "it has none; the owner adds one with `git remote add`".to_owned(),
            false => format!("it has: {}", known.join(", ")),
        };
        return Err(ToolError::new(
            "remote_not_configured",
            format!(
                "`{}` is not a remote of this repository; {known}. Addresses are not accepted",
                shown(remote)
            ),
        ));
    }
    // The address that the owner's rewriting makes of it.
    let urls = session
        .query(&["remote", "get-url", "--all", remote])
        .await?;
    let (exit, text) = (urls.exit, urls.line());
    let refused = text.lines().find_map(|url| check_url(url).err());
    match refused {
        None if exit == 0 && !text.is_empty() => Ok(()),
        refused => Err(ToolError::new(
            "remote_refused",
            format!(
                "the remote `{remote}` cannot be pulled from: {}. git_write pulls over https, ssh and git",
                refused.unwrap_or("it has no address")
            ),
        )),
    }
}

/// What is left of an operand once a password in it is not repeated.
fn shown(remote: &str) -> String {
    let text = match (remote.split_once("://"), remote.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => remote.to_owned(),
    };
    fermix_types::text::shortened(&text, 120)
}

/// Whether Git reaches `url` over one of the three protocols, and what else it is. The address may
/// hold a password, so no message repeats it.
fn check_url(url: &str) -> Result<(), &'static str> {
    let host = |rest: &str| {
        let authority = rest.split('/').next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default().to_owned();
        match host.is_empty() || host.starts_with('-') || authority.starts_with('-') {
            true => Err("its address has no host"),
            false => Ok(()),
        }
    };
    if let Some((scheme, rest)) = url.split_once("://") {
        return match scheme {
            "https" | "ssh" | "git" => host(rest),
            "http" => Err("its address is http, which is not encrypted"),
            "file" => Err("its address is a file of this machine"),
            _ => Err("its address has another protocol"),
        };
    }
    if url.contains("::") {
        return Err("its address names a program to run");
    }
    // `host:path` is ssh when no slash comes before the colon; all else is a folder.
    match url.split_once(':') {
        Some((place, _)) if !place.contains('/') => host(place),
        _ => Err("its address is a folder of this machine"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        for url in [
            "https://example.org/a.git",
            "https://user:pass@example.org/a.git",
            "ssh://git@example.org:22/a.git",
            "git://127.0.0.1:9418/a.git",
            "git@example.org:a/b.git",
            "host:a",
        ] {
            assert_eq!(check_url(url), Ok(()), "{url}");
        }
        for url in [
            "http://example.org/a.git",
            "file:///etc",
            "/etc",
            "../other",
            "./a:b",
            "ext::sh -c true",
            "fd::7",
            "transport::address",
            "ftp://example.org/a",
            "ssh://-oProxyCommand=x/a",
            "-oProxyCommand=x:a",
            "ssh://",
            "HTTPS://example.org/a",
            "",
        ] {
            assert!(check_url(url).is_err(), "{url}");
        }
    }
}
