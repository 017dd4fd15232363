//! The agents: one file or folder each, and the table of them.
//!
//! An agent's reader turns its raw JSON into a [`HookEvent`]. Its answer function renders context as exactly the bytes
//! that the agent expects on a hook's stdout.
//!
//! If an agent does not report how a turn ended, its transcript is read; if it reports only the path of an approved
//! plan, that file is read. Both go through [`named_file`]. There is no other input beside the delivery itself.
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
    /// The name shown to people.
    pub display_name: &'static str,
    /// Reads one delivery.
    pub read: fn(&Deliver) -> Result<HookEvent, Unreadable>,
    /// Renders an answer as the hook's stdout. Empty output prints nothing.
    pub answer: fn(&HookOutput) -> Vec<u8>,
    /// Parses a stored call, from the tool's name and the agent's JSON of input and response.
    pub action: fn(tool_name: &str, input: &str, response: Option<&str>) -> Action,
    /// Whether the error text of a failed call says that the user rejected it.
    pub rejected: fn(error: &str) -> Option<Rejected>,
    /// Reads a turn's answer from the transcript. Blocks.
    pub reply: fn(&ReplyRequest) -> Result<Option<String>, Refused>,
    /// Reads a plan's file if a call named only its path. Blocks.
    pub plan_file: fn(&PlanRequest) -> Result<Option<String>, Refused>,
}

/// The user denied permission for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The user's reason, if any.
    pub said: Option<String>,
}

/// The answer to look up, and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyRequest {
    /// The transcript's path in the agent's JSON.
    pub transcript: String,
    pub prompt: Option<PromptId>,
    /// The user's home folder.
    pub home: PathBuf,
    /// The agent's folder, if the user moved it.
    pub config_dir: Option<String>,
}

/// The plan file to read, and where it may lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// The path in the agent's JSON.
    pub path: String,
    /// The user's home folder.
    pub home: PathBuf,
    /// The agent's folder, if the user moved it.
    pub config_dir: Option<String>,
    /// The folder of the session's project.
    pub root: Option<String>,
    /// Plan folders, see [`is_plan_file`](crate::memory::plan::is_plan_file).
    pub folders: Vec<String>,
}

/// The output of a hook: context for the agent, and a notice for the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookOutput {
    /// The answered event, in the agent's own spelling.
    pub event_name: String,
    /// For the model.
    pub context: Option<String>,
    /// One line for the user.
    pub notice: Option<String>,
}

/// Why a payload cannot be read.
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

/// All supported agents.
pub const AGENTS: &[AgentSpec] = &[claude_code::SPEC];

/// The agent of that name. An unknown one is read in Claude Code's format, which many agents copied, with its events
/// in any spelling ([`host`]). It gets no answers, since its answer format is unknown.
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
