//! What the sandbox is told about a turn.

use fermix_capability::{Run, TurnScope};
use fermix_sandbox::Scope;
use fermix_types::Trust;

/// The turn in the sandbox's words.
pub fn sandbox_scope(turn: &TurnScope) -> Scope {
    let caller = turn.view.caller();
    // A folder and an environment come with the owner's own local request. Whatever else carries
    // one by mistake reads as not having it.
    let is_owner_message = caller.trust() == Trust::Operator && *caller.run() == Run::Message;
    Scope {
        ids: turn.ids.clone(),
        agent: Some(agent_name(caller.run())),
        conversation: turn.conversation.clone(),
        cwd: turn.cwd.clone().filter(|_| is_owner_message),
        attended: caller.is_attended_owner(),
        session_env: if is_owner_message {
            turn.session_env.to_vec()
        } else {
            Vec::new()
        },
        cancel: turn.cancel.clone(),
    }
}

fn agent_name(run: &Run) -> String {
    match run {
        Run::Message | Run::Voice | Run::Continuation | Run::Detached => "main".to_owned(),
        Run::Job(grant) => format!("job {}", grant.job_id),
        Run::Worker => "worker".to_owned(),
    }
}
