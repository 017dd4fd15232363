//! The agents: one file (or folder) each, and the table of them.
//!
//! An agent's reader turns its raw JSON into a [`HookEvent`]; its answer turns context into exactly the bytes
//! that agent wants on a hook's stdout.
//!
//! Where an agent does not tell how a turn ended, its transcript does, and what an approved plan says, its file: these are
//! the only inputs here beside the delivery itself, and go through [`named_file`].
//!
//! **Invariant:** nothing here stores, searches or decides what an event means.

pub mod claude_code;
pub mod failure;
mod host;
pub mod json;
pub mod named_file;

use std::path::PathBuf;

use recall_protocol::wire::Deliver;

use self::named_file::Refused;
use crate::memory::event::HookEvent;
use crate::memory::ids::PromptId;
use crate::memory::material::Action;

/// What recall must know of an agent.
pub struct AgentSpec {
    /// The first word of the shim's command line.
    pub name: &'static str,
    /// How people call it.
    pub display_name: &'static str,
    /// Reads one delivery.
    pub read: fn(&Deliver) -> Result<HookEvent, Unreadable>,
    /// Renders an answer as the hook's stdout. Empty means: print nothing.
    pub answer: fn(&HookOutput) -> Vec<u8>,
    /// Says what a stored call did, from the tool's name and the agent's JSON of input and response.
    pub action: fn(tool_name: &str, input: &str, response: Option<&str>) -> Action,
    /// Whether the agent's words about a call that failed say that the user rejected it.
    pub rejected: fn(error: &str) -> Option<Rejected>,
    /// Looks a turn's answer up in the transcript. Blocks.
    pub reply: fn(&ReplyRequest) -> Result<Option<String>, Refused>,
    /// Reads a plan's file, of which a call has told only the path. Blocks.
    pub plan_file: fn(&PlanRequest) -> Result<Option<String>, Refused>,
}

/// The user did not let a call happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// What they said about it, if anything.
    pub said: Option<String>,
}

/// Which answer is looked for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyRequest {
    /// The transcript's path, as the agent's JSON says.
    pub transcript: String,
    pub prompt: Option<PromptId>,
    /// The user's own folder.
    pub home: PathBuf,
    /// Where the agent keeps its files, if the user moved them.
    pub config_dir: Option<String>,
}

/// Which plan's file is read, and where it may lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// As the agent's JSON says.
    pub path: String,
    /// The user's own folder.
    pub home: PathBuf,
    /// Where the agent keeps its files, if the user moved them.
    pub config_dir: Option<String>,
    /// The folder of the session's project.
    pub root: Option<String>,
    /// Where plans lie, see [`is_plan_file`](crate::memory::plan::is_plan_file).
    pub folders: Vec<String>,
}

/// What shall be said to the agent, and to the user beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookOutput {
    /// The event that is answered, in the agent's own spelling.
    pub event_name: String,
    /// For the model.
    pub context: Option<String>,
    /// One line for the user.
    pub notice: Option<String>,
}

/// Why a payload is no event.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("not UTF-8: {0}")]
    NotUtf8(#[from] std::str::Utf8Error),
    #[error("not a JSON object: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("no session id")]
    NoSession,
    #[error("no event name, neither in the payload nor on the command line")]
    NoEvent,
}

/// Every agent recall speaks with.
pub const AGENTS: &[AgentSpec] = &[claude_code::SPEC];

/// The agent of that name. An unknown one is read in Claude Code's dialect, which many agents copied, with its events
/// in any spelling ([`host`]), and is told nothing, since nobody knows how it wants to hear it.
pub fn spec(name: &str) -> &'static AgentSpec {
    AGENTS.iter().find(|spec| spec.name == name).unwrap_or(&UNKNOWN)
}

const UNKNOWN: AgentSpec = AgentSpec {
    name: "unknown",
    display_name: "an unknown agent",
    read: host::read,
    answer: |_| Vec::new(),
    action: claude_code::SPEC.action,
    rejected: claude_code::SPEC.rejected,
    reply: |_| Ok(None),
    plan_file: |_| Ok(None),
};
