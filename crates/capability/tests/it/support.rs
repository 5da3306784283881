//! Stand-ins and callers for the tests.

use std::collections::BTreeSet;
use std::sync::Arc;

use fermix_capability::caller::Run;
use fermix_capability::untrusted::OutsideSources;
use fermix_capability::{
    Audience, Builder, CallOutcome, Caller, Capability, Deferral, Depth, Dispatcher, FrameId, Gate,
    JobGrant, Ports, Presence, ReactionSpec, Registry, TurnScope, View,
};
use fermix_types::trace::MemorySink;
use fermix_types::{Category, PolicyClass, ToolCall, ToolOutput, ToolResult, TraceIds, Trust};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

pub use Audience::{Anyone, OwnerOnly};

/// A tool that answers with the arguments it was given.
pub fn echo(builder: Builder) -> Capability {
    with_schema(
        builder,
        json!({ "type": "object", "additionalProperties": true }),
    )
}

/// The same with a schema of its own.
pub fn with_schema(builder: Builder, schema: Value) -> Capability {
    builder
        .raw_handler(schema, |arguments, _| async move {
            Ok(ToolOutput::from(Value::Object(arguments).to_string()))
        })
        .expect("the stand-in is valid")
}

/// A tool that does what `run` does, whatever the arguments.
pub fn doing<F>(builder: Builder, run: F) -> Capability
where
    F: Fn() -> ToolResult + Send + Sync + 'static,
{
    builder
        .raw_handler(json!({ "type": "object" }), move |_, _| {
            let result = run();
            async move { result }
        })
        .expect("the stand-in is valid")
}

pub fn builtin(name: &str, class: PolicyClass, category: Category, audience: Audience) -> Builder {
    Capability::builtin(name, class, category, audience)
        .description(format!("Stands in for {name}."))
}

pub fn read_only(name: &str) -> Builder {
    builtin(name, PolicyClass::ReadOnly, Category::System, Anyone)
}

/// A tool of a plugin's HTTP rail.
pub fn plugin(name: &str, plugin: &str) -> Builder {
    builtin(name, PolicyClass::ExternalApi, Category::Plugin, Anyone)
        .tag("plugin_owned?", true)
        .tag("plugin", plugin)
}

/// One stand-in for each built-in of spec/01 §2, with its class, category, audience and gate.
pub fn builtins() -> Vec<Capability> {
    use Category as C;
    use PolicyClass as P;
    let ungated: &[(&str, P, C, Audience)] = &[
        ("shell", P::Exec, C::System, Anyone),
        ("file_read", P::ReadOnly, C::File, OwnerOnly),
        ("glob_search", P::ReadOnly, C::File, OwnerOnly),
        ("content_search", P::ReadOnly, C::File, OwnerOnly),
        ("file_write", P::ReadWrite, C::File, Anyone),
        ("file_edit", P::ReadWrite, C::File, Anyone),
        ("git_read", P::ReadOnly, C::Git, OwnerOnly),
        ("git_write", P::ReadWrite, C::Git, Anyone),
        ("web_fetch", P::Network, C::Web, Anyone),
        ("web_search", P::Network, C::Web, Anyone),
        ("browser", P::Network, C::Web, Anyone),
        ("place_search", P::Network, C::Web, Anyone),
        ("memory_recall", P::ReadOnly, C::Memory, Anyone),
        ("memory_store", P::ReadWrite, C::Memory, Anyone),
        ("memory_sources_list", P::ReadOnly, C::Memory, OwnerOnly),
        ("skill_create", P::ReadWrite, C::SkillAdmin, Anyone),
        ("skill_reload", P::ReadWrite, C::SkillAdmin, Anyone),
        ("skill_view", P::Exec, C::SkillAdmin, Anyone),
        ("skill_run", P::Exec, C::SkillAdmin, Anyone),
        ("skill_list", P::ReadOnly, C::System, Anyone),
        ("list_jobs", P::ReadOnly, C::Scheduling, OwnerOnly),
        ("list_job_runs", P::ReadOnly, C::Scheduling, OwnerOnly),
        ("get_job_run", P::ReadOnly, C::Scheduling, OwnerOnly),
        ("model_routing_config", P::ReadWrite, C::Config, Anyone),
        ("generate_image", P::ExternalApi, C::Media, Anyone),
        ("tool_help", P::ReadOnly, C::System, Anyone),
        ("tool_search", P::ReadOnly, C::System, Anyone),
        ("tool_describe", P::ReadOnly, C::System, Anyone),
        ("tool_call", P::ReadOnly, C::System, Anyone),
    ];
    let gated: &[(&str, P, C, Gate)] = &[
        ("subagents", P::ExternalApi, C::Delegation, Gate::TopLevel),
        (
            "schedule_job",
            P::ReadWrite,
            C::Scheduling,
            Gate::JobMutation,
        ),
        ("update_job", P::ReadWrite, C::Scheduling, Gate::JobMutation),
        (
            "run_job_now",
            P::ReadWrite,
            C::Scheduling,
            Gate::JobMutation,
        ),
        ("pause_job", P::ReadWrite, C::Scheduling, Gate::JobMutation),
        ("resume_job", P::ReadWrite, C::Scheduling, Gate::JobMutation),
        ("remove_job", P::ReadWrite, C::Scheduling, Gate::JobMutation),
        (
            "event_store",
            P::ReadWrite,
            C::Scheduling,
            Gate::AttendedOwner,
        ),
        (
            "event_update",
            P::ReadWrite,
            C::Scheduling,
            Gate::AttendedOwner,
        ),
        (
            "event_remove",
            P::ReadWrite,
            C::Scheduling,
            Gate::AttendedOwner,
        ),
        (
            "reminder_snooze",
            P::ReadWrite,
            C::Scheduling,
            Gate::AttendedOwner,
        ),
        ("event_list", P::ReadOnly, C::Scheduling, Gate::OwnerRead),
        (
            "request_directory_access",
            P::ExternalApi,
            C::System,
            Gate::DirectoryAccess,
        ),
        ("send_attachment", P::ReadOnly, C::Channel, Gate::LiveReply),
        ("react", P::ReadOnly, C::Channel, Gate::LiveReply),
        ("computer_use", P::GuiControl, C::Computer, Gate::Desktop),
        ("codex_run", P::Exec, C::Harness, Gate::Harness),
        ("claude_code_run", P::Exec, C::Harness, Gate::Harness),
        ("codex_cloud_run", P::Exec, C::Harness, Gate::Harness),
        ("list_coding_runs", P::ReadOnly, C::Harness, Gate::Harness),
        ("get_coding_run", P::ReadOnly, C::Harness, Gate::Harness),
        ("cancel_coding_run", P::ReadWrite, C::Harness, Gate::Harness),
        (
            "stop_tracking_coding_run",
            P::ReadWrite,
            C::Harness,
            Gate::Harness,
        ),
    ];
    let ungated = ungated
        .iter()
        .map(|(name, class, category, audience)| echo(builtin(name, *class, *category, *audience)));
    let gated = gated.iter().map(|(name, class, category, gate)| {
        let builder = builtin(name, *class, *category, Anyone).gate(*gate);
        echo(if *name == "react" {
            builder.advertise_when(|caller: &Caller| caller.ports().reactions.is_some())
        } else {
            builder
        })
    });
    ungated.chain(gated).collect()
}

pub fn registry(
    deferral: Deferral,
    capabilities: impl IntoIterator<Item = Capability>,
) -> Registry {
    let registry = Registry::new(deferral);
    registry
        .register_all(capabilities)
        .expect("the stand-ins have different names");
    registry
}

/// A chat that can do everything.
pub fn chat_ports() -> Ports {
    Ports {
        reply: true,
        approval: true,
        late_outcome: true,
        reactions: Some(ReactionSpec::Any),
    }
}

pub fn owner() -> Caller {
    Caller::owner(Presence::vouched_by_ingress(), chat_ports())
}

pub fn guest() -> Caller {
    Caller::guest(chat_ports())
}

pub fn job(allowed_tools: Option<&[&str]>) -> Caller {
    Caller::job(
        Trust::Operator,
        JobGrant {
            job_id: "job".to_owned(),
            allowed_tools: allowed_tools.map(names),
            policy: None,
        },
    )
}

pub fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Every kind of caller there is, the malformed ones included.
pub fn callers() -> Vec<(&'static str, Caller)> {
    let depths = [json!("0"), json!(-1), json!(1.0), json!(7)];
    let mut all = vec![
        ("owner", owner()),
        ("guest", guest()),
        ("voice", Caller::voice(Presence::vouched_by_ingress(), true)),
        ("job", job(None)),
        (
            "narrow job",
            job(Some(&["file_read", "subagents", "mail_send"])),
        ),
        ("empty job", job(Some(&[]))),
        ("worker", owner().worker()),
        (
            "worker of a job",
            job(Some(&["web_search", "subagents"])).worker(),
        ),
        ("background", Caller::detached()),
        ("plugin skill", owner().skill(Trust::Guest, None, None)),
        (
            "own skill",
            owner().skill(Trust::Operator, None, Some(names(&["file_read"]))),
        ),
        (
            "excluding",
            owner()
                .without_tools(["shell".to_owned()])
                .without_categories([Category::File]),
        ),
    ];
    all.extend(depths.iter().map(|depth| {
        (
            "continuation",
            Caller::continuation(Depth::from_json(Some(depth)), chat_ports()),
        )
    }));
    assert!(matches!(all[3].1.run(), Run::Job(_)));
    all
}

/// One turn with its own trace.
pub struct Turn {
    pub scope: TurnScope,
    pub dispatcher: Dispatcher,
    pub trace: Arc<MemorySink>,
}

pub fn turn(registry: &Registry, caller: Caller) -> Turn {
    let trace = Arc::new(MemorySink::default());
    Turn {
        scope: TurnScope {
            view: Arc::new(registry.view(&Arc::new(caller))),
            ids: TraceIds::default(),
            conversation: None,
            cwd: None,
            session_env: Arc::from([]),
            cancel: CancellationToken::new(),
            outside_sources: OutsideSources::clean(),
            origin: None,
            approval: None,
            frame: FrameId::new("0123456789abcdef"),
        },
        dispatcher: Dispatcher::new(trace.clone()),
        trace,
    }
}

impl Turn {
    pub async fn call(&self, name: &str, arguments: &str) -> CallOutcome {
        self.dispatcher
            .call(&self.scope, tool_call(name, arguments))
            .await
    }

    /// The fields of the only row so far.
    pub fn row(&self) -> Map<String, Value> {
        let rows = self.trace.rows();
        assert_eq!(rows.len(), 1, "one call, one row");
        rows[0].fields.clone()
    }
}

pub fn tool_call(name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        call_id: "call-1".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

pub fn advertised(view: &View) -> Vec<String> {
    view.definitions()
        .iter()
        .map(|definition| definition.name.to_string())
        .collect()
}
