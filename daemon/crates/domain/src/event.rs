//! Hook events, in one form for every agent.
//!
//! `agents/` parses an agent's JSON into these values; `session` decides what they change.

use serde::{Deserialize, Serialize};

use super::guard::rule::Rule;
use super::ids::{CallId, EventId, PromptId, SessionId, Timestamp};
use super::material::BatchSource;
use super::order::Order;
use super::plan::PlanChange;

/// One event that an agent's hook reported about a session.
#[derive(Clone, Debug, PartialEq)]
pub struct HookEvent {
    pub session: SessionId,
    /// The turn that the event belongs to, if the agent names it.
    pub prompt: Option<PromptId>,
    pub cwd: Option<String>,
    pub transcript_path: Option<String>,
    /// The session's name, given by the agent or by the user.
    pub title: Option<String>,
    /// The subagent that the event belongs to. `None` on the main thread.
    pub subagent: Option<Subagent>,
    /// The sender and channel of a message, if the agent names them.
    pub origin: Option<Box<MessageOrigin>>,
    pub host: Option<Box<HostFacts>>,
    pub what: HookEventKind,
}

/// Facts from the agent's program about the course of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// The session whose conversation this one continues.
    pub continues: Option<SessionId>,
    /// The number of messages in the conversation.
    pub message_count: Option<i64>,
    /// The number of messages that a compaction replaced.
    pub compacted_count: Option<i64>,
}

/// The origin of a message that reached the agent through a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageOrigin {
    /// The sender's name in the channel.
    pub sender: Option<String>,
    pub channel: Option<String>,
    pub account: Option<String>,
    pub conversation: Option<String>,
    /// The host's own name of the conversation, if it differs from the session's id.
    pub session_key: Option<String>,
    /// When the message was sent.
    pub sent_at: Option<Timestamp>,
    pub sender_id: Option<String>,
    pub sender_name: Option<String>,
    pub sender_username: Option<String>,
    pub thread: Option<String>,
    /// The message's own id.
    pub message: Option<String>,
}

/// The host's ids of the place where the conversation takes place, as far as the agent reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationPlace {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// The sender of the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
}

impl From<&MessageOrigin> for ConversationPlace {
    fn from(origin: &MessageOrigin) -> Self {
        Self {
            session_key: origin.session_key.clone(),
            channel_id: origin.channel.clone(),
            account_id: origin.account.clone(),
            conversation_id: origin.conversation.clone(),
            sender: origin.sender.clone(),
        }
    }
}

/// The maximum length of a path in bytes. Longer ones are dropped: no system opens them, and walking up their folders
/// would take time that the sender controls.
pub(crate) const MOST_PATH: usize = 4096;
/// The maximum number of components of a path. Each may cost a disk access.
pub(crate) const MOST_COMPONENTS: usize = 128;

/// Whether a path is too long or has too many components.
pub fn is_too_long(path: &str) -> bool {
    path.len() > MOST_PATH || path.split('/').filter(|part| !part.is_empty()).count() > MOST_COMPONENTS
}

impl HookEvent {
    /// Builds an event with no optional facts.
    pub fn bare(session: SessionId, what: HookEventKind) -> Self {
        Self {
            session,
            prompt: None,
            cwd: None,
            transcript_path: None,
            title: None,
            subagent: None,
            origin: None,
            host: None,
            what,
        }
    }

    /// Drops paths that are too long.
    #[must_use]
    pub fn without_long_paths(mut self) -> Self {
        let drop_long = |path: &mut Option<String>| {
            path.take_if(|path| is_too_long(path));
        };
        drop_long(&mut self.cwd);
        drop_long(&mut self.transcript_path);
        let drop_of_call = |call: &mut ToolCall| {
            drop_long(&mut call.rewrote);
            if let Some(PlanChange::File { path, .. } | PlanChange::Approved { path: Some(path), .. }) =
                &call.plan
                && is_too_long(path)
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

    /// Recall's name of the event, or the agent's own name if recall has none.
    pub fn name(&self) -> &str {
        match &self.what {
            HookEventKind::Internal { name } | HookEventKind::Other { name, .. } => name,
            what => what.name().as_str(),
        }
    }
}

/// The kinds of events, whatever an agent calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventName {
    SessionStart,
    Prompt,
    ToolStart,
    Tool,
    ToolFailure,
    ToolBatch,
    SubagentStart,
    SubagentStop,
    PreCompact,
    PostCompact,
    Stop,
    StopFailure,
    SessionEnd,
    SessionSuspend,
    SessionResume,
    SessionDelete,
    MessageReceived,
    Notification,
    /// An event without a rule.
    Other,
}

impl EventName {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::Prompt => "UserPromptSubmit",
            Self::ToolStart => "PreToolUse",
            Self::Tool => "PostToolUse",
            Self::ToolFailure => "PostToolUseFailure",
            Self::ToolBatch => "PostToolBatch",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::PreCompact => "PreCompact",
            Self::PostCompact => "PostCompact",
            Self::Stop => "Stop",
            Self::StopFailure => "StopFailure",
            Self::SessionEnd => "SessionEnd",
            Self::SessionSuspend => "SessionSuspend",
            Self::SessionResume => "SessionResume",
            Self::SessionDelete => "SessionDelete",
            Self::MessageReceived => "MessageReceived",
            Self::Notification => "Notification",
            Self::Other => "Other",
        }
    }
}

/// A subagent that the main agent started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subagent {
    pub id: String,
    pub kind: Option<String>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum HookEventKind {
    SessionStart {
        source: StartSource,
        audience: Audience,
    },
    Prompt {
        text: PromptText,
        source: BatchSource,
        start: StartContext,
    },
    /// A tool call starts.
    ToolStart(ToolStart),
    /// A tool call has ended, successfully or not.
    Tool(ToolCall),
    /// All calls that the model made at once have finished, including those that never ran.
    ToolBatch(Vec<ToolCall>),
    SubagentStart,
    /// A subagent ended with this last message.
    SubagentStop {
        message: Option<String>,
    },
    /// The agent is about to compact its conversation.
    PreCompact {
        trigger: String,
    },
    /// The agent has compacted its conversation into this summary.
    PostCompact {
        trigger: String,
        summary: Option<String>,
    },
    /// The main agent ended its turn.
    Stop {
        message: Option<String>,
    },
    /// The turn ended because the model was unreachable or refused.
    StopFailure {
        error: String,
        detail: String,
    },
    SessionEnd {
        reason: String,
    },
    /// The agent's program exits. Its session is suspended until the program runs again.
    SessionSuspend {
        reason: String,
    },
    SessionResume,
    /// The user has deleted another session of the agent.
    SessionDelete {
        deleted: SessionId,
    },
    /// A message reached the agent's program. It is not a prompt yet and may never become one.
    MessageReceived {
        content: Option<String>,
        /// The agent's own JSON.
        detail: String,
    },
    /// The agent notified its user that it waits or needs a permission.
    Notification {
        notification: Notification,
        /// The agent's own JSON.
        detail: String,
    },
    /// An event internal to the agent's program that another event also reports. It is accepted and ignored.
    Internal {
        name: String,
    },
    /// An event of a conversation that has not begun and may never begin. Nothing is stored.
    Draft,
    /// A valid event without a rule, stored as received.
    Other {
        name: String,
        detail: String,
    },
}

impl HookEventKind {
    pub fn name(&self) -> EventName {
        match self {
            Self::SessionStart { .. } => EventName::SessionStart,
            Self::Prompt { .. } => EventName::Prompt,
            Self::ToolStart(_) => EventName::ToolStart,
            Self::Tool(call) if call.is_failed() => EventName::ToolFailure,
            Self::Tool(_) => EventName::Tool,
            Self::ToolBatch(_) => EventName::ToolBatch,
            Self::SubagentStart => EventName::SubagentStart,
            Self::SubagentStop { .. } => EventName::SubagentStop,
            Self::PreCompact { .. } => EventName::PreCompact,
            Self::PostCompact { .. } => EventName::PostCompact,
            Self::Stop { .. } => EventName::Stop,
            Self::StopFailure { .. } => EventName::StopFailure,
            Self::SessionEnd { .. } => EventName::SessionEnd,
            Self::SessionSuspend { .. } => EventName::SessionSuspend,
            Self::SessionResume => EventName::SessionResume,
            Self::SessionDelete { .. } => EventName::SessionDelete,
            Self::MessageReceived { .. } => EventName::MessageReceived,
            Self::Notification { .. } => EventName::Notification,
            Self::Internal { .. } | Self::Draft | Self::Other { .. } => EventName::Other,
        }
    }
}

/// A notification from an agent to its user outside of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notification {
    /// The agent's own word for the kind, such as `permission_prompt`.
    pub kind: Option<String>,
    pub title: Option<String>,
    pub message: Option<String>,
}

/// Whether a person reads the messages to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    Person,
    /// A script started the agent.
    Nobody,
}

/// What happens to the context injected at a session start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartContext {
    /// The model sees it.
    Shown,
    /// The agent drops it, so the first prompt must repeat it.
    Dropped,
}

/// Why a session started.
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

    /// Parses the agent's word. An unknown or missing one counts as a plain start.
    pub fn parse(name: &str) -> Self {
        Self::ALL.iter().find(|(_, known)| *known == name).map_or(Self::Startup, |(source, _)| *source)
    }
}

/// A prompt's text, or a marker that all of it was private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptText {
    Text(String),
    WhollyPrivate,
}

/// A requested tool call, which may still wait for permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolStart {
    pub name: String,
    pub use_id: Option<CallId>,
    /// The call's input as the agent's own JSON.
    pub input: String,
    /// The file about to be read or changed, as the agent spells it.
    pub file: Option<String>,
    /// The task given to a subagent.
    pub task: Option<SubagentTask>,
    /// The guard that refused the call, so that it does not run.
    pub refused_by: Option<Rule>,
}

/// A subagent's task, from the call that starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentTask {
    /// The requested type of subagent.
    pub kind: String,
    /// The caller's words, at most a few thousand bytes.
    pub text: String,
}

/// A tool call as the agent reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub name: String,
    /// The agent's id of the call, used as a second key to detect duplicates.
    pub use_id: Option<CallId>,
    /// The call's input as the agent's own JSON.
    pub input: String,
    pub result: ToolResult,
    pub duration_ms: Option<i64>,
    /// The call's effect on a plan or the task list.
    pub plan: Option<PlanChange>,
    /// The subagent that the call started.
    pub launched: Option<String>,
    /// The file whose whole contents the call replaced, as the agent spells it.
    pub rewrote: Option<String>,
}

/// How the call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolResult {
    /// The agent's own JSON.
    Done(String),
    /// The agent's error message.
    Failed(String),
}

/// When and where the shim captured an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    pub event: EventId,
    pub at: Timestamp,
    pub order: Order,
}
