//! Staging, and the names that should make somebody look twice.

use fermix_types::{ToolError, ToolResult};

use super::{Change, named, paths, with_note};

pub(super) async fn run(change: Change<'_>) -> ToolResult {
    if change.arguments.has(&["-f", "--force"]) {
        refuse_secrets(&change).await?;
    }
    let output = change.make(change.words(&[])).await?;
    Ok(with_note(output, staged_secrets(&change).await))
}

async fn staged_secrets(change: &Change<'_>) -> Result<Option<String>, ToolError> {
    let staged = change
        .session
        .query(&[
            "diff",
            "--cached",
            "--name-only",
            "-z",
            "--diff-filter=d",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=all",
        ])
        .await?;
    let staged = paths(staged, "what is staged")?;
    let secrets: Vec<&String> = staged.iter().filter(|path| holds_secrets(path)).collect();
    Ok((!secrets.is_empty()).then(|| {
        format!(
            "warning: staged files that usually hold secrets: {}; make sure that they belong into history",
            named(secrets.into_iter())
        )
    }))
}

/// What is ignored is ignored for a reason; a key among it is not overruled by a flag.
async fn refuse_secrets(change: &Change<'_>) -> Result<(), ToolError> {
    let words = change.words(&["--dry-run"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let preview = change.session.query(&words).await?;
    let text = String::from_utf8_lossy(&preview.stdout);
    let secrets: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("add '")?.strip_suffix('\''))
        .filter(|path| holds_secrets(path))
        .collect();
    match secrets.is_empty() {
        true => Ok(()),
        false => Err(ToolError::new(
            "protected_name",
            format!(
                "`add -f` would stage {}, which usually hold secrets; nothing was staged. Name the other files, or have the owner add these",
                named(secrets.into_iter())
            ),
        )),
    }
}

/// Whether a file of this name usually holds a key, a password or a token.
pub(super) fn holds_secrets(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
    let is_sample = [".example", ".sample", ".template", ".dist", ".pub"]
        .iter()
        .any(|end| name.ends_with(end));
    let is_named = matches!(
        name.as_str(),
        ".env"
            | ".netrc"
            | ".npmrc"
            | ".pypirc"
            | ".pgpass"
            | ".git-credentials"
            | ".htpasswd"
            | "credentials.json"
            | "auth.json"
            | "id_rsa"
            | "id_dsa"
            | "id_ecdsa"
            | "id_ed25519"
    );
    let has_ending = [
        ".pem",
        ".key",
        ".p12",
        ".pfx",
        ".jks",
        ".keystore",
        ".kdbx",
        ".ppk",
        ".asc",
        ".env",
    ]
    .iter()
    .any(|end| name.ends_with(end));
    !is_sample && (is_named || has_ending || name.starts_with(".env."))
}
