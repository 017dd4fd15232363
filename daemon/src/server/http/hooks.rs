//! Calls that report what an agent does. Each is converted to the equivalent hook event and treated like one: private
//! text is removed, and the answer comes after the commit.

use std::time::Instant;

use hyper::body::Bytes;
use hyper::{Response, StatusCode};
use recall_protocol::boot::{self, BootStamp};
use recall_protocol::json_field::is_wholly_private;
use recall_protocol::json_scan::{self, Cleaned};
use recall_protocol::wire::{Deliver, EventId, Flags, Reply, ShimContext};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::GatewayContext;
use super::answer::{Content, JSON, Refusal, typed, unanswered, whole};
use super::call::Call;
use crate::server::connection;
use recall_app::event_trace::EventTrace;
use recall_app::injection_receipt::InjectionReceipt;
use recall_app::queries::session::{session_number, session_of_number};
use recall_app::queries::{Refused, blocking};

/// The kind of report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookCall {
    Start,
    Prompt,
    ToolUse,
    Answer,
    End,
    /// The agent's own payload.
    Raw,
}

/// Declares the body of a call for the OpenAPI document: with the session in the body, and without it where the path
/// names the session. [`HookCall::fields`] reads the calls, because other tools use several names for the same field.
macro_rules! bodies {
    ($($name:ident $known:ident { $($(#[$meta:meta])* $field:ident: $type:ty,)* })+) => {$(
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is needed")]
        pub(super) struct $name {
            /// Also `claudeSessionId`, `contentSessionId`, `sessionId`.
            session_id: String,
            $($(#[$meta])* $field: $type,)*
        }

        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is needed")]
        pub(super) struct $known {
            $($(#[$meta])* $field: $type,)*
        }
    )+};
}

bodies! {
    PromptBody PromptBodyOfKnown {
        /// The session's folder, which determines the project. Required with a session's first call.
        cwd: Option<String>,
        /// Also `userPrompt`.
        prompt: String,
        /// The turn's id, if the agent has one.
        prompt_id: Option<String>,
        /// The author, if not the user: `system`, `notification`, `agent`, `channel`. Also `promptSource`.
        source: Option<String>,
        /// Not required: determined by the folder.
        project: Option<String>,
        /// Not required: counted by recall.
        #[schemars(rename = "promptNumber")]
        prompt_number: Option<u32>,
    }
    ToolBody ToolBodyOfKnown {
        cwd: Option<String>,
        tool_name: String,
        tool_input: Option<Value>,
        tool_response: Option<Value>,
        tool_use_id: Option<String>,
        prompt_id: Option<String>,
    }
    AnswerBody AnswerBodyOfKnown {
        cwd: Option<String>,
        last_assistant_message: Option<String>,
        /// Not required: already known.
        last_user_message: Option<String>,
        prompt_id: Option<String>,
    }
    EndBody EndBodyOfKnown {
        cwd: Option<String>,
        /// `exit`, `clear`, `logout`, `prompt_input_exit`, `other` or the agent's own word.
        reason: Option<String>,
    }
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
pub(super) struct StartBody {
    /// Also `claudeSessionId`, `contentSessionId`, `sessionId`.
    session_id: String,
    /// The session's folder, which determines the project.
    cwd: String,
    /// `startup`, `resume`, `clear` or `compact`.
    source: Option<String>,
    model: Option<String>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
#[serde(rename_all = "camelCase")]
pub(super) struct ProcessingBody {
    is_processing: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Accepted {
    pub(super) status: &'static str,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct StartAnswer {
    status: &'static str,
    /// The context for the session, or empty.
    context: String,
    /// A line for the user, or empty.
    notice: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptAnswer {
    /// The session's number in `/sessions/N/...`; null if the session is skipped.
    session_db_id: Option<i64>,
    prompt_number: u32,
    /// Nothing of the prompt is stored: it is entirely private, its project is excluded, or recall is paused.
    skipped: bool,
    /// `private` if that is why it is skipped.
    reason: Option<&'static str>,
    /// The context for the prompt, or empty.
    context: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProcessingAnswer {
    pub(super) is_processing: bool,
    pub(super) queue_depth: i64,
}

/// The agent for which these calls report. Editor extensions were written for a worker of this agent.
const AGENT: &str = "claude-code";
const SESSION: &[&str] = &["session_id", "claudeSessionId", "contentSessionId", "sessionId"];

impl HookCall {
    fn event(self) -> &'static str {
        match self {
            Self::Start => "SessionStart",
            Self::Prompt => "UserPromptSubmit",
            Self::ToolUse => "PostToolUse",
            Self::Answer => "Stop",
            Self::End => "SessionEnd",
            Self::Raw => "",
        }
    }

    /// The hook's own fields, with the names that a call may use for each.
    fn fields(self) -> &'static [(&'static str, &'static [&'static str])] {
        match self {
            Self::Start => &[("source", &["source"]), ("model", &["model"])],
            Self::Prompt => &[
                ("prompt", &["prompt", "userPrompt"]),
                ("prompt_id", &["prompt_id"]),
                ("source", &["source", "promptSource"]),
                ("origin", &["origin"]),
            ],
            Self::ToolUse => &[
                ("tool_name", &["tool_name"]),
                ("tool_input", &["tool_input"]),
                ("tool_response", &["tool_response"]),
                ("tool_use_id", &["tool_use_id"]),
                ("prompt_id", &["prompt_id"]),
            ],
            Self::Answer => {
                &[("last_assistant_message", &["last_assistant_message"]), ("prompt_id", &["prompt_id"])]
            }
            Self::End => &[("reason", &["reason"])],
            Self::Raw => &[],
        }
    }
}

/// Answers immediately, without waiting for compression.
pub(super) async fn taken(
    hook: HookCall,
    call: &Call,
    gateway: &GatewayContext,
) -> Result<Response<Content>, Refusal> {
    let session = session(call, gateway).await?;
    let cwd = call.text(&["cwd"]);
    // The session's first call names its folder; later ones need not.
    if cwd.is_none() {
        let (lookup, asked) = (gateway.context.services.context_lookup.clone(), session.clone());
        let is_known = blocking(move || session_number(&lookup, &asked)).await.is_ok();
        let hint = "`cwd` is the session's folder, which determines the project.";
        match hook {
            HookCall::Start => return Err(Refusal::invalid("cwd is missing").hint(hint)),
            HookCall::Prompt if !is_known => return Err(Refusal::invalid("cwd is missing").hint(hint)),
            _ if !is_known => {
                let what = format!("Session {session:?} is unknown, and cwd is missing");
                return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", what).hint(hint));
            }
            _ => {}
        }
    }
    let mut payload = Map::new();
    payload.insert("session_id".to_owned(), session.as_str().into());
    payload.insert("hook_event_name".to_owned(), hook.event().into());
    if let Some(cwd) = &cwd {
        payload.insert("cwd".to_owned(), cwd.as_str().into());
    }
    for (name, given) in hook.fields() {
        if let Some(value) = given.iter().find_map(|name| call.body.get(*name)) {
            payload.insert((*name).to_owned(), value.clone());
        }
    }
    let required = match hook {
        HookCall::Prompt => Some("prompt"),
        HookCall::ToolUse => Some("tool_name"),
        _ => None,
    };
    if let Some(name) = required.filter(|name| !payload.get(*name).is_some_and(Value::is_string)) {
        return Err(Refusal::invalid(format!("{name} is missing")));
    }
    let payload = Value::Object(payload).to_string();
    let is_private = is_wholly_private(&json_scan::clean(payload.as_bytes()), "prompt");
    let stdout = deliver(AGENT, "", payload.as_bytes(), cwd.unwrap_or_default(), gateway).await?;
    let answer: Value = serde_json::from_slice(&stdout).unwrap_or_default();
    let context = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned();
    let notice = answer["systemMessage"].as_str().unwrap_or_default().to_owned();
    match hook {
        HookCall::Start => typed(&StartAnswer { status: "ok", context, notice }),
        HookCall::Prompt => {
            let lookup = gateway.context.services.context_lookup.clone();
            let asked = session.clone();
            let (session_db_id, prompt_number) = match blocking(move || session_number(&lookup, &asked)).await
            {
                Ok((number, prompts)) => (Some(number), prompts),
                // The project is excluded or recall is paused, so nothing is stored.
                Err(_) => (None, 0),
            };
            let reason = is_private.then_some("private");
            let skipped = session_db_id.is_none() || is_private;
            typed(&PromptAnswer { session_db_id, prompt_number, skipped, reason, context })
        }
        _ => typed(&Accepted { status: "queued" }),
    }
}

/// Handles a hook's unchanged payload. The answer is what the agent would read from the hook.
pub(super) async fn raw(
    call: &Call,
    body: &Bytes,
    gateway: &GatewayContext,
) -> Result<Response<Content>, Refusal> {
    let agent = call.id.as_deref().unwrap_or_default();
    if gateway.context.services.agents.named(agent).is_none() {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", format!("There is no agent {agent:?}")));
    }
    let event = call.text(&["event"]).unwrap_or_default();
    let stdout = deliver(agent, &event, body, call.text(&["cwd"]).unwrap_or_default(), gateway).await?;
    Ok(whole(StatusCode::OK, JSON, stdout))
}

/// Returns the session that a call names, by its own id or by the number that `init` returned.
async fn session(call: &Call, gateway: &GatewayContext) -> Result<String, Refusal> {
    let Some(number) = call.id.as_deref().and_then(|id| id.parse().ok()) else {
        return call.id.clone().map_or_else(|| call.needed(SESSION), Ok);
    };
    if let Some(id) = call.text(SESSION) {
        return Ok(id);
    }
    let lookup = gateway.context.services.context_lookup.clone();
    let found = blocking(move || session_of_number(&lookup, number)).await;
    found.map_err(|Refused { .. }| {
        Refusal::new(StatusCode::NOT_FOUND, "not_found", format!("There is no session {number}"))
    })
}

async fn deliver(
    agent: &str,
    event: &str,
    payload: &[u8],
    cwd: String,
    gateway: &GatewayContext,
) -> Result<Vec<u8>, Refusal> {
    let accepted = Instant::now();
    let services = &gateway.context.services;
    let cleaned = json_scan::clean(payload);
    let prompt_field = services.agents.named(agent).map_or("prompt", |spec| spec.format.prompt_field);
    let is_private = is_wholly_private(&cleaned, prompt_field);
    let Cleaned { payload, mut flags } = cleaned;
    if is_private {
        flags = flags.with(Flags::WHOLLY_PRIVATE);
    }
    let (captured_at_ms, stamp) = (boot::wall_ms(), BootStamp::now());
    let deliver = Deliver {
        event_id: EventId::new(captured_at_ms),
        agent: agent.to_owned(),
        event_name: event.to_owned(),
        captured_at_ms,
        boot_id: stamp.boot_id,
        boot_ns: stamp.boot_ns,
        context: ShimContext { pid: std::process::id(), cwd, ..ShimContext::default() },
        payload,
        flags,
    };
    let trace = EventTrace::begin(deliver.event_id, accepted);
    let (given, receipt) = InjectionReceipt::new();
    let reply = connection::take(deliver, &gateway.context, receipt, trace).await;
    services.latencies.hook_answers.record(accepted.elapsed());
    match reply {
        Reply::Ack { stdout } | Reply::Duplicate { stdout } => {
            // The HTTP caller waits for the answer, so it counts as received.
            given.received();
            Ok(stdout)
        }
        other => Err(unanswered(&other)),
    }
}
