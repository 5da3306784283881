//! Asking the first provider for one token: the only row that opens a connection.

use std::sync::Arc;
use std::time::Duration;

use fermix_api::HealthRow;
use fermix_providers::{Calls, ChatRequest, ErrorKind, ProviderId, Unseen};
use fermix_types::{Message, TraceIds, UserMessage};
use tokio_util::sync::CancellationToken;

use super::rows::Configured;
use super::{fail, ok, warn};
use crate::engine::random_hex;

/// The row's name.
const NAME: &str = "provider_probe";
/// How long the provider may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A refused key is a failure; a network that is down now may be up later.
pub(super) fn provider(configured: &Configured) -> HealthRow {
    let Ok(engine) = &configured.engine else {
        return fail(NAME, "unknown, because config.toml cannot be used");
    };
    let Ok(providers) = engine.providers() else {
        return fail(NAME, "unknown; see the row providers");
    };
    let routes = providers.routes();
    let Some(lead) = routes
        .first()
        .filter(|lead| lead.provider != ProviderId::Offline)
    else {
        return warn(NAME, "there is no provider to ask");
    };
    let request = ChatRequest {
        model: lead.model.clone(),
        system: Vec::new(),
        messages: vec![Message::User(UserMessage {
            text: "ping".to_owned(),
            images: Vec::new(),
        })],
        tools: Arc::from([]),
        calls: Calls::Forbidden,
        effort: None,
        max_output_tokens: Some(16),
        temperature: None,
        cache_key: "doctor".to_owned(),
    };
    let session_id = format!("doctor-{}", random_hex());
    let ids = TraceIds {
        turn_id: session_id.clone(),
        session_id,
        parent_session: None,
    };
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(NAME, format!("cannot start a thread to ask: {error}")),
    };
    let cancel = CancellationToken::new();
    let asked = runtime.block_on(async {
        let mut unseen = Unseen;
        let call = providers.continue_on(lead, &request, &mut unseen, &ids, &cancel);
        tokio::time::timeout(PATIENCE, call).await
    });
    let shown = format!("{} {}", lead.provider, lead.model);
    match asked {
        Ok(Ok(_)) => ok(NAME, format!("{shown} answers")),
        // It answered, with nothing worth reading: the way there works.
        Ok(Err(error)) if error.kind == ErrorKind::EmptyResponse => {
            ok(NAME, format!("{shown} answers"))
        }
        Ok(Err(error)) if error.kind == ErrorKind::Auth => {
            fail(NAME, format!("{shown} refuses the key: {error}"))
        }
        Ok(Err(error)) => warn(NAME, format!("{shown} did not answer: {error}")),
        Err(_) => warn(
            NAME,
            format!("{shown} did not answer within {} s", PATIENCE.as_secs()),
        ),
    }
}
