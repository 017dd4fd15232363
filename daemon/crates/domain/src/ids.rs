//! Identifiers. Each is a newtype, so that two ids in a signature cannot be swapped.

use std::fmt;

pub use recall_protocol::wire::EventId;
use serde::{Deserialize, Serialize};

/// Defines ids that are row numbers of the store.
macro_rules! row_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

row_id! {
    /// A session's row. The agent's own name for the session is [`SessionId`].
    SessionRow,
    /// A prompt batch: one prompt and everything until the next.
    BatchId,
    /// A tool call, subagent event or other event inside a batch.
    ActivityId,
    /// An observation. People cite this number, as in `#123`.
    ObservationId,
    /// A session's summary.
    SummaryId,
    /// A question of the agent and the user's answer, inside a batch.
    AsideId,
    /// A subagent of a session.
    SubagentId,
    /// A prompt or an answer of another machine.
    ReceivedTextId,
    /// A plan, or a session's task list.
    PlanId,
    /// A unit of compression work.
    JobId,
    /// A project's row. What makes two folders one project is [`ProjectKey`].
    ProjectRow,
    /// A project that is shared through a remote.
    ShareId,
    /// An injection into a session, by the moment at which it happened.
    InjectionId,
    /// A compaction of a session's conversation.
    CompactionId,
    /// A position in the log of documents, which the index follows. Later entries have greater positions.
    LogSeq,
    /// The vectors of a document. Every row ever written has a greater id than those before it.
    VectorId,
}

/// Before the first row.
impl Default for VectorId {
    fn default() -> Self {
        Self(0)
    }
}

/// The position before the first entry.
impl Default for LogSeq {
    fn default() -> Self {
        Self(0)
    }
}

/// Defines ids that others assigned. Their text is never interpreted.
macro_rules! text_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    )+};
}

text_id! {
    /// The agent's own session id, never invented and never a path. Unique together with the [`AgentName`].
    SessionId,
    /// The agent's own id of one prompt and the turn it starts.
    PromptId,
    /// The agent's own id of one tool call.
    CallId,
    /// The agent, by the first word of the shim's command line.
    AgentName,
    /// A branch, without `refs/heads/`. Names from files are parsed with [`BranchName::parse`].
    BranchName,
    /// A commit's full hash. Hashes from files are parsed with [`CommitId::parse`].
    CommitId,
    /// The identity of a project, equal in every clone and worktree, such as `git:github.com/acme/shop`.
    ProjectKey,
}

impl SessionId {
    /// Marks an event that does not name its session.
    pub(crate) const UNKNOWN: Self = Self(String::new());

    pub fn is_known(&self) -> bool {
        *self != Self::UNKNOWN
    }
}

/// The full key of a session, because two agents may use the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    pub agent: AgentName,
    pub id: SessionId,
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.agent, self.id)
    }
}

/// Milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Milliseconds from `earlier` to this, never negative.
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0).max(0)
    }
}
