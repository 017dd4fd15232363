//! Observations and summaries: the memories themselves.

use serde::{Deserialize, Serialize};

use super::ids::EventId;
use super::names::named;
use super::subject::SubjectKey;

/// The type of an observation. The list is closed.
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
    /// What the user wants from now on.
    Preference,
    /// What the user said is wrong, and what is right.
    Correction,
    /// Something still open.
    NextStep,
    /// Who owns, knows or decides something.
    Contact,
}

/// Who said a standing note, which is injected until somebody withdraws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// The user, in a prompt or by hand.
    User,
    /// An agent's model, by a tool.
    Agent,
    /// A file that was imported. Anybody may have written it.
    Import,
    /// Another person, whose machine shares the project.
    Member,
}

/// Who made an observation what it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Maker {
    #[default]
    Machine,
    /// A person wrote, rewrote or pinned it.
    Person,
}

/// Who made a note: `user`, `agent`, or a compressor, such as `extractive` or `openai:gpt-5`. The prefix `import:` or
/// `shared:` says how it reached this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NoteOrigin(pub String);

impl NoteOrigin {
    /// A person wrote the note.
    pub const USER: &str = "user";
    /// An agent's model remembered it.
    pub const AGENT: &str = "agent";
    /// The built-in compressor made it.
    pub const BUILT_IN: &str = "extractive";
    /// The prefix of an imported note's origin.
    pub const IMPORTED: &str = "import:";
    /// The prefix of the origin of a note from another person's machine.
    pub const SHARED: &str = "shared:";

    pub fn built_in() -> Self {
        Self::BUILT_IN.into()
    }

    /// The origin of a note that was imported from this source.
    pub fn imported(source: &str) -> Self {
        Self(format!("{}{source}", Self::IMPORTED))
    }

    /// The origin of a note that another person's machine shares under this one.
    pub fn shared(&self) -> Self {
        Self(format!("{}{}", Self::SHARED, self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the user wrote the note, on this machine or another one of theirs.
    pub fn is_user(&self) -> bool {
        self.0 == Self::USER
    }

    pub fn is_built_in(&self) -> bool {
        self.0 == Self::BUILT_IN
    }

    pub fn is_imported(&self) -> bool {
        self.0.starts_with(Self::IMPORTED)
    }

    /// Whether another person's machine sent the note.
    pub fn is_shared(&self) -> bool {
        self.0.starts_with(Self::SHARED)
    }
}

impl From<&str> for NoteOrigin {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl std::fmt::Display for NoteOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Voice {
    /// The voice of an observation. `None` if it does not hold merely because somebody said it.
    pub fn of(kind: ObservationType, origin: &NoteOrigin) -> Option<Self> {
        let voice = match origin {
            origin if origin.as_str() == NoteOrigin::AGENT => Self::Agent,
            origin if origin.is_imported() => Self::Import,
            origin if origin.is_shared() => Self::Member,
            _ => Self::User,
        };
        kind.is_standing().then_some(voice)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "you",
            Self::Agent => "agent",
            Self::Import => "import",
            Self::Member => "member",
        }
    }
}

named! { ObservationType {
    // New types go to the end, because the index stores the position.
    Bugfix = "bugfix",
    Feature = "feature",
    Refactor = "refactor",
    Change = "change",
    Discovery = "discovery",
    Decision = "decision",
    Gotcha = "gotcha",
    TradeOff = "trade_off",
    Security = "security",
    Preference = "preference",
    Correction = "correction",
    NextStep = "next_step",
    Contact = "contact",
} }

impl ObservationType {
    /// Whether it holds until somebody says otherwise, at any age.
    pub fn is_standing(self) -> bool {
        matches!(self, Self::Preference | Self::Correction | Self::Contact)
    }

    /// Whether the user settled it: a choice, a wish or a correction.
    pub(crate) fn is_settled_by_user(self) -> bool {
        matches!(self, Self::Decision | Self::Preference | Self::Correction)
    }
}

/// How much an observation matters, from 1 (trivia) to 10 (everyone working here must know it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Importance(u8);

impl Importance {
    /// Clamps any number into the range.
    pub fn clamped(value: i64) -> Self {
        Self(u8::try_from(value.clamp(1, 10)).unwrap_or(5))
    }

    pub fn get(self) -> u8 {
        self.0
    }
}

/// An observation as a compressor makes it. The store adds an id and a time.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservationDraft {
    pub kind: ObservationType,
    /// One line that is understandable on its own in an index.
    pub title: String,
    pub subtitle: Option<String>,
    pub narrative: String,
    pub facts: Vec<String>,
    pub concepts: Vec<String>,
    /// Only from tool evidence. Relative to the project's folder if beneath it.
    pub files_read: Vec<String>,
    pub files_modified: Vec<String>,
    pub importance: Importance,
    /// The events it is based on: activities, the prompt, the response.
    pub evidence: Vec<EventId>,
    /// The subject of the statement, if it can be parsed reliably. Only then can the observation supersede another.
    pub subject: Option<SubjectKey>,
}

/// The prefix of a line in [`SummaryDraft::next_steps`] that names an unanswered last prompt.
pub const UNANSWERED: &str = "Unanswered: ";

/// A session in a few lines. Fields without content are empty.
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
