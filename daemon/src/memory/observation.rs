//! What is remembered: observations and summaries.

use serde::{Deserialize, Serialize};

use super::ids::EventId;
use super::subject::SubjectKey;

/// What sort of knowledge an observation is. The list is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservationType {
    Bugfix,
    Feature,
    Refactor,
    Change,
    Discovery,
    Decision,
    Gotcha,
    TradeOff,
    Security,
}

impl ObservationType {
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Bugfix, "bugfix"),
        (Self::Feature, "feature"),
        (Self::Refactor, "refactor"),
        (Self::Change, "change"),
        (Self::Discovery, "discovery"),
        (Self::Decision, "decision"),
        (Self::Gotcha, "gotcha"),
        (Self::TradeOff, "trade_off"),
        (Self::Security, "security"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("change", |(_, name)| name)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

/// How much an observation matters, 1 (trivia) to 10 (whoever works here must know it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Importance(u8);

impl Importance {
    /// Brings any number into the range.
    pub fn clamped(value: i64) -> Self {
        Self(u8::try_from(value.clamp(1, 10)).unwrap_or(5))
    }

    pub fn get(self) -> u8 {
        self.0
    }
}

/// What a compressor makes of a batch; the store gives it an id and a time.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservationDraft {
    pub kind: ObservationType,
    /// One line that stands alone in an index.
    pub title: String,
    pub subtitle: Option<String>,
    pub narrative: String,
    pub facts: Vec<String>,
    pub concepts: Vec<String>,
    /// From tool evidence only, relative to the project's folder where they lie beneath it.
    pub files_read: Vec<String>,
    pub files_modified: Vec<String>,
    pub importance: Importance,
    /// The events it rests on: activities, the prompt, the response.
    pub evidence: Vec<EventId>,
    /// What it is a statement about, where that can be told for sure: only then may it take another's place.
    pub subject: Option<SubjectKey>,
}

/// A session in a few lines; empty fields were not found in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryDraft {
    pub title: String,
    pub request: String,
    pub investigated: String,
    pub learned: String,
    pub completed: String,
    pub next_steps: String,
    pub notes: String,
}
