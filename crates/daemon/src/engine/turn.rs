//! One turn of the owner, from the question to the rows about what was said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fermix_agent::{Agent, ReportOnly, Submitted, TurnEvent, TurnReport, TurnRequest, TurnStatus};
use fermix_approvals::Prompts;
use fermix_capability::Ports;
use fermix_channels::{LocalPeer, admit_local};
use fermix_types::{ConversationKey, TraceIds, TraceKind, TraceRow, TraceSink};
use serde_json::json;
use tokio::sync::mpsc;

use super::resume::{Expected, Resumes, Shown};
use super::{Engine, Question};
use crate::assemble::BuildError;

/// A turn that runs or waits for its conversation. Dropping it stops it.
pub struct Turn {
    agent: Agent,
    trace: Arc<dyn TraceSink>,
    conversation: ConversationKey,
    asked: String,
    /// What is asked once more after a grant.
    request: TurnRequest,
    events: Option<mpsc::Sender<TurnEvent>>,
    shown: Shown,
    resumes: Arc<Resumes>,
    prompts: Arc<Prompts>,
    submitted: Submitted,
    expected: Expected,
    /// Of the turn that has ended, while a grant may still let it go on.
    report: Option<Option<TurnReport>>,
    is_stopped: AtomicBool,
    has_ended: bool,
}

impl Engine {
    /// Begins a turn. `events` previews it. Blocks for a few milliseconds the first time; must be
    /// called within a Tokio runtime.
    pub fn begin(
        &self,
        question: Question,
        events: Option<mpsc::Sender<TurnEvent>>,
    ) -> Result<Turn, BuildError> {
        let agent = self.agent()?;
        // Only the owner in person brings the folder along.
        let cwd = question
            .cwd
            .filter(|_| question.peer == LocalPeer::InPerson);
        let ports = Ports {
            reply: true,
            approval: question.approval.is_some(),
            ..Ports::default()
        };
        let caller = Arc::new(admit_local(question.peer, ports));
        let shown = Shown::default();
        let request = TurnRequest {
            images: question.images,
            working_folder: self.working_folder(cwd.as_deref()),
            cwd,
            timeout: question.timeout,
            approval: question.approval.map(|port| shown.watch(port)),
            is_alone: true,
            ..TurnRequest::text(question.conversation.clone(), caller, question.text)
        };
        let asked = request.text.clone();
        let submitted = agent.submit(request.clone(), Arc::new(ReportOnly), events.clone());
        Ok(Turn {
            expected: self.resumes.expect(&submitted.turn_id),
            report: None,
            is_stopped: AtomicBool::new(false),
            submitted,
            request,
            events,
            shown,
            resumes: Arc::clone(&self.resumes),
            prompts: Arc::clone(self.assembled.policy.prompts()),
            agent,
            trace: Arc::clone(&self.assembled.trace),
            conversation: question.conversation,
            asked,
            has_ended: false,
        })
    }
}

impl Turn {
    /// Waits for the end. `None` when a shutdown ended the turn by force. The wait may be dropped and
    /// begun again; after the end it never returns.
    pub async fn end(&mut self) -> Option<TurnReport> {
        loop {
            if self.has_ended {
                return std::future::pending().await;
            }
            if self.report.is_none() {
                let report = (&mut self.submitted.done).await.ok();
                if let Some(report) = &report {
                    self.record_messages(report);
                }
                self.report = Some(report);
            }
            let is_answered = matches!(
                &self.report,
                Some(Some(report)) if report.status == TurnStatus::Completed
            );
            let granted = if is_answered && !self.is_stopped.load(Ordering::SeqCst) {
                self.expected.granted(&self.shown, &self.prompts).await
            } else {
                None
            };
            let report = self.report.take().flatten();
            let Some(resume) = granted else {
                self.has_ended = true;
                return report;
            };
            let again = TurnRequest {
                platform_message_id: Some(format!("{}-{}", resume.id, self.submitted.turn_id)),
                ..self.request.clone()
            };
            self.submitted = self
                .agent
                .submit(again, Arc::new(ReportOnly), self.events.clone());
            self.expected = self.resumes.expect(&self.submitted.turn_id);
        }
    }

    /// Stops it, with everything it runs. It ends within seconds.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.agent
            .stop_turn(&self.conversation, &self.submitted.turn_id);
    }

    /// What went in and out, joined to the turn's other rows.
    fn record_messages(&self, report: &TurnReport) {
        let ids = TraceIds {
            session_id: report.session_id.clone(),
            turn_id: report.turn_id.clone(),
            parent_session: None,
        };
        for (direction, text) in [("in", &self.asked), ("out", &report.response)] {
            let fields = json!({
                "channel": self.conversation.channel,
                "conversation": self.conversation.to_string(),
                "direction": direction,
                "text": text,
            });
            let row = TraceRow::new(TraceKind::ChannelMsg, &ids, fields).with_content(&["text"]);
            self.trace.record(row);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.has_ended {
            self.stop();
        }
    }
}
