//! Searchable documents, each derived from a stored row.
//!
//! The index can be rebuilt from the store. A document contains what is needed to find and rank it; the displayed text
//! comes from the store.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::{
    ActivityId, AgentName, BatchId, CompactionId, ObservationId, PlanId, ProjectKey, ReceivedTextId,
    SessionId, SummaryId, Timestamp,
};
use super::names::named;
use super::observation::{Importance, Maker, ObservationType};

/// The kind of row that a document stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentKind {
    Observation,
    Summary,
    Prompt,
    Response,
    Plan,
    Activity,
    /// The agent's own summary of a conversation that it compacted.
    Compaction,
    /// A prompt or an answer of another machine. It is never injected unasked.
    #[serde(rename = "said")]
    ReceivedText,
}

impl DocumentKind {
    pub const ALL: [(Self, &'static str, char); 8] = [
        (Self::Observation, "observation", 'o'),
        (Self::Summary, "summary", 's'),
        (Self::Prompt, "prompt", 'p'),
        (Self::Response, "response", 'r'),
        (Self::Plan, "plan", 'l'),
        (Self::Activity, "activity", 'a'),
        (Self::Compaction, "compaction", 'c'),
        (Self::ReceivedText, "said", 't'),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("observation", |(_, name, _)| name)
    }

    /// The word shown to people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Response => "answer",
            Self::Activity => "call",
            kind => kind.as_str(),
        }
    }

    pub fn letter(self) -> char {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or('o', |(.., letter)| *letter)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| *kind)
    }
}

/// A document's key: its kind and row number. People write `123` or `#123` for an observation, and a letter with a
/// number for other kinds, such as `p12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentKey {
    pub kind: DocumentKind,
    pub row: i64,
}

impl DocumentKey {
    /// The key of a batch's prompt.
    pub fn prompt(batch: BatchId) -> Self {
        Self { kind: DocumentKind::Prompt, row: batch.0 }
    }

    /// The key of a batch's answer.
    pub fn response(batch: BatchId) -> Self {
        Self { kind: DocumentKind::Response, row: batch.0 }
    }

    /// Parses an id as people write it. `None` if the text is not an id.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('#');
        let mut letters = text.chars();
        let first = letters.next()?;
        if first.is_ascii_digit() {
            return Some(Self { kind: DocumentKind::Observation, row: text.parse().ok()? });
        }
        let kind = DocumentKind::ALL.iter().find(|(.., letter)| *letter == first.to_ascii_lowercase())?.0;
        let digits = letters.as_str();
        digits
            .starts_with(|c: char| c.is_ascii_digit())
            .then(|| digits.parse().ok())?
            .map(|row| Self { kind, row })
    }
}

/// Documents grouped by maker. Those made on this machine are too many to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    These(Arc<HashSet<DocumentKey>>),
    AllBut(Arc<HashSet<DocumentKey>>),
}

impl Whose {
    pub fn has(&self, key: DocumentKey) -> bool {
        match self {
            Self::These(keys) => keys.contains(&key),
            Self::AllBut(keys) => !keys.contains(&key),
        }
    }
}

/// Defines the keys of rows that are one document each.
macro_rules! keys {
    ($($id:ident: $kind:ident),+ $(,)?) => {$(
        impl From<$id> for DocumentKey {
            fn from(id: $id) -> Self {
                Self { kind: DocumentKind::$kind, row: id.0 }
            }
        }
    )+};
}

keys! {
    ObservationId: Observation,
    SummaryId: Summary,
    PlanId: Plan,
    ActivityId: Activity,
    CompactionId: Compaction,
    ReceivedTextId: ReceivedText,
}

impl fmt::Display for DocumentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DocumentKind::Observation => write!(f, "{}", self.row),
            other => write!(f, "{}{}", other.letter(), self.row),
        }
    }
}

/// Whether an observation still holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    #[default]
    Active,
    /// The reported problem is solved.
    Resolved,
    /// A newer observation replaced it.
    Superseded,
}

named! { Status {
    Active = "active",
    Resolved = "resolved",
    Superseded = "superseded",
} }

impl Status {}

/// A part of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// The heading above the passage, without markup, or empty.
    pub heading: String,
    /// The text as it was written.
    pub text: String,
}

impl Passage {
    /// The text below its heading.
    pub fn whole(&self) -> String {
        if self.heading.is_empty() { self.text.clone() } else { format!("{}\n{}", self.heading, self.text) }
    }
}

/// A row in the form in which it is indexed.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub key: DocumentKey,
    /// The project's identity, not its display name.
    pub project: ProjectKey,
    /// The project's display name. `project:` in a query matches either.
    pub project_name: String,
    pub agent: AgentName,
    pub session: SessionId,
    pub observation_type: Option<ObservationType>,
    pub status: Status,
    pub importance: Importance,
    pub maker: Maker,
    pub at: Timestamp,
    /// Relative to the project's folder if beneath it.
    pub files: Vec<String>,
    pub title: String,
    pub body: String,
    /// The parts that may be injected at a prompt.
    pub passages: Vec<Passage>,
}
