//! The session that `recall demo` plays, in terms that fit every agent.

use serde_json::Value;

use super::AgentSpec;

/// A recorded session, and hooks of two other sessions in the same project: one started before it, and one after it.
pub struct DemoSession {
    pub spec: &'static AgentSpec,
    /// The agent's id of the recorded session.
    pub session: String,
    pub hooks: Vec<DemoHook>,
    /// The start of the session that stays open.
    pub open: Value,
    /// The start of the next session.
    pub start: Value,
    /// A prompt of the session that stays open.
    pub prompt: Value,
    /// The text of that prompt.
    pub question: String,
    /// The part of a hook's answer that the model reads.
    pub context: fn(stdout: &Value) -> Option<&str>,
    /// The part that the user reads, or "".
    pub notice: fn(stdout: &Value) -> &str,
}

/// One hook of the recorded session.
pub struct DemoHook {
    pub payload: Value,
    /// The event's name, and the tool's if there is one.
    pub label: String,
    /// Whether the event comes after the conversation was shortened.
    pub is_after_compaction: bool,
}
