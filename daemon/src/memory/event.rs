//! What happened, in the same words whatever the agent.
//!
//! `agents/` reads an agent's JSON into these values; `session` decides what they mean.

use super::ids::{CallId, EventId, PromptId, SessionId, Timestamp};
use super::material::BatchSource;
use super::order::Order;
use super::plan::PlanChange;

/// One lifecycle event of one session.
#[derive(Clone, Debug, PartialEq)]
pub struct HookEvent {
    pub session: SessionId,
    /// The turn it belongs to, where the agent says so.
    pub prompt: Option<PromptId>,
    pub cwd: Option<String>,
    pub transcript_path: Option<String>,
    /// The name that the agent, or the user in it, has given to the session.
    pub title: Option<String>,
    /// The subagent it happened in; `None` on the main thread.
    pub subagent: Option<Subagent>,
    /// Of a message that somebody sent: by whom and where, as far as the agent says.
    pub origin: Option<Box<MessageOrigin>>,
    pub what: HookEventKind,
}

/// Where a message comes from that reached the agent through a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageOrigin {
    /// Who sent it, in the channel's own words.
    pub sender: Option<String>,
    pub channel: Option<String>,
    pub account: Option<String>,
    pub conversation: Option<String>,
    /// When it was sent.
    pub sent_at: Option<Timestamp>,
}
/// A longer path is none: no system opens it, and to go up its folders would take as long as its author wants. In bytes.
pub const MOST_PATH: usize = 4096;

impl HookEvent {
    /// The event without paths that are none.
    #[must_use]
    pub fn without_long_paths(mut self) -> Self {
        let drop_long = |path: &mut Option<String>| {
            path.take_if(|path| path.len() > MOST_PATH);
        };
        drop_long(&mut self.cwd);
        drop_long(&mut self.transcript_path);
        let drop_of_call = |call: &mut ToolCall| {
            drop_long(&mut call.rewrote);
            if let Some(PlanChange::File { path, .. } | PlanChange::Approved { path: Some(path), .. }) =
                &call.plan
                && path.len() > MOST_PATH
            {
                call.plan = None;
            }
        };
        match &mut self.what {
            HookEventKind::ToolStart(call) => drop_long(&mut call.file),
            HookEventKind::Tool(call) => drop_of_call(call),
            HookEventKind::ToolBatch(calls) => calls.iter_mut().for_each(drop_of_call),
            _ => {}
        }
        self
    }

    /// The event's name in the words of the agents that recall answers.
    pub fn name(&self) -> &str {
        match &self.what {
            HookEventKind::SessionStart { .. } => "SessionStart",
            HookEventKind::Prompt { .. } => "UserPromptSubmit",
            HookEventKind::ToolStart(_) => "PreToolUse",
            HookEventKind::Tool(call) if call.is_failed() => "PostToolUseFailure",
            HookEventKind::Tool(_) => "PostToolUse",
            HookEventKind::ToolBatch(_) => "PostToolBatch",
            HookEventKind::SubagentStart => "SubagentStart",
            HookEventKind::SubagentStop { .. } => "SubagentStop",
            HookEventKind::PreCompact { .. } => "PreCompact",
            HookEventKind::PostCompact { .. } => "PostCompact",
            HookEventKind::Stop { .. } => "Stop",
            HookEventKind::StopFailure { .. } => "StopFailure",
            HookEventKind::SessionEnd { .. } => "SessionEnd",
            HookEventKind::SessionSuspend { .. } => "SessionSuspend",
            HookEventKind::SessionResume => "SessionResume",
            HookEventKind::MessageReceived { .. } => "MessageReceived",
            HookEventKind::Internal { name } | HookEventKind::Other { name, .. } => name,
        }
    }
}

/// A helper that the main agent started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subagent {
    pub id: String,
    pub kind: Option<String>,
}

/// The happening itself.
#[derive(Clone, Debug, PartialEq)]
pub enum HookEventKind {
    SessionStart {
        source: StartSource,
        audience: Audience,
    },
    Prompt {
        text: PromptText,
        source: BatchSource,
    },
    /// A tool call begins.
    ToolStart(ToolStart),
    /// A tool call that has ended, well or not.
    Tool(ToolCall),
    /// All calls that the model made at once are settled, those too that never ran.
    ToolBatch(Vec<ToolCall>),
    SubagentStart,
    /// A subagent ended, with its last words.
    SubagentStop {
        message: Option<String>,
    },
    /// The agent is about to shorten its conversation.
    PreCompact {
        trigger: String,
    },
    /// It has, and this is what it made of it.
    PostCompact {
        trigger: String,
        summary: Option<String>,
    },
    /// The main agent ended its turn.
    Stop {
        message: Option<String>,
    },
    /// The turn ended because the model could not be reached or refused.
    StopFailure {
        error: String,
        detail: String,
    },
    SessionEnd {
        reason: String,
    },
    /// The agent's program goes away, and the session with it until it is back.
    SessionSuspend {
        reason: String,
    },
    SessionResume,
    /// A message has reached the agent's program. It is no prompt: that follows, or not.
    MessageReceived {
        content: Option<String>,
        /// The agent's own JSON.
        detail: String,
    },
    /// The agent program's own business, told again elsewhere: accepted, and nothing follows.
    Internal {
        name: String,
    },
    /// Valid, and without a rule of its own; kept as it came.
    Other {
        name: String,
        detail: String,
    },
}

/// Whether a person reads what is said to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    Person,
    /// A script started the agent.
    Nobody,
}

/// Why a session starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartSource {
    Startup,
    Resume,
    Clear,
    Compact,
    Fork,
}

impl StartSource {
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Startup, "startup"),
        (Self::Resume, "resume"),
        (Self::Clear, "clear"),
        (Self::Compact, "compact"),
        (Self::Fork, "fork"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(source, _)| *source == self).map_or("startup", |(_, name)| name)
    }

    /// Reads the agent's word; an unknown or missing one is a plain start.
    pub fn parse(name: &str) -> Self {
        Self::ALL.iter().find(|(_, known)| *known == name).map_or(Self::Startup, |(source, _)| *source)
    }
}

/// A prompt's text, or the fact that all of it was private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptText {
    Text(String),
    WhollyPrivate,
}

/// A tool call that was asked for and may be waiting for its permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolStart {
    pub name: String,
    pub use_id: Option<CallId>,
    /// The call's input, the agent's own JSON.
    pub input: String,
    /// The file that it is about to read or to change, as the agent names it.
    pub file: Option<String>,
    /// What it gives to a subagent to do.
    pub task: Option<SubagentTask>,
}

/// What a subagent is to do, from the call that starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentTask {
    /// The kind of subagent that is asked for.
    pub kind: String,
    /// In the caller's words, at most a few thousand bytes of them.
    pub text: String,
}

/// A tool call as the agent reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub name: String,
    /// The agent's id of the call; the second key against double delivery.
    pub use_id: Option<CallId>,
    /// The call's input, the agent's own JSON.
    pub input: String,
    pub result: ToolResult,
    pub duration_ms: Option<i64>,
    /// What it does to a plan or to the task list.
    pub plan: Option<PlanChange>,
    /// The subagent that it started.
    pub launched: Option<String>,
    /// The file whose whole content it replaced, as the agent names it.
    pub rewrote: Option<String>,
}

/// How the call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolResult {
    /// The agent's own JSON.
    Done(String),
    /// The agent's text of what went wrong.
    Failed(String),
}

/// When and where an event was taken, as the shim saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    pub event: EventId,
    pub at: Timestamp,
    pub order: Order,
}
