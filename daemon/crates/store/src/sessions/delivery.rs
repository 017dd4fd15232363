//! The record of an event besides its effects: that it was accepted, and where its session runs.

use recall_domain::event::ConversationPlace;
use recall_domain::ids::{AgentName, EventId, ProjectKey, Timestamp};

/// Where a session runs, according to its earliest event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOrigin {
    pub precedence: Precedence,
    /// The identities of the project, strongest first; never empty.
    pub project: Vec<ProjectKey>,
    pub project_name: String,
    /// The name of the project that was in this folder before, if the current one is new there.
    pub replaced: Option<String>,
    /// The display name from the project's file. It is not part of its identity.
    pub alias: Option<String>,
    /// The project's folder, to which paths are made relative.
    pub root: Option<String>,
    pub cwd: Option<String>,
    pub transcript_path: Option<String>,
    /// The place of the session's conversation, if this event reports it.
    pub place: Option<Box<ConversationPlace>>,
}

/// Whether an event decides where its already stored session runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precedence {
    /// No.
    #[default]
    Later,
    /// Yes, because it was captured before the event that decided so far.
    Earlier,
}

/// The acceptance of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub event: EventId,
    /// The second key, equal for two deliveries of the same occurrence under different event ids.
    pub key: Option<[u8; 16]>,
    pub agent: AgentName,
    pub event_name: String,
    pub captured_at: Timestamp,
    pub boot_id: [u8; 16],
    pub boot_ns: u64,
    pub flags: u32,
    pub stored_at: Timestamp,
}
