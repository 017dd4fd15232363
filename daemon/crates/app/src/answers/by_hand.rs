//! Answers about manual changes: what was removed, or would be; what can be reverted.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Moment, PublicId, Text};
use recall_store::{Changed, ForgottenCounts, ForgottenElsewhere, NoteChange};

/// The letter of the numbers of what is kept apart.
pub const QUARANTINED: char = 'q';

/// The number of items that match a selection, or that were removed.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ForgetAnswer {
    #[serde(flatten)]
    pub counts: ForgottenCounts,
    /// Files in the spool that contain no storable event.
    pub spool_files: u64,
    /// Files that stay because their session is unknown.
    pub unreadable: UnreadableAnswer,
    /// The first matching items. Present only before anything is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ForgetItem>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct UnreadableAnswer {
    /// Events that are stored as received.
    pub events: usize,
    pub damaged_files: u64,
    pub other_version_files: u64,
    /// Events in the spool that cannot be stored now.
    pub waiting_files: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ForgetItem {
    pub id: PublicId,
    pub kind: Text,
    /// The name of the item's project.
    pub project: String,
    pub title: String,
}

/// The changes that can be reverted, newest first.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ChangesAnswer {
    pub changes: Vec<ChangeAnswer>,
    /// Who has forgotten things on other machines that were here. Their texts are deleted everywhere, so no undo can
    /// restore them. Absent if nobody has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<ForgottenAnswer>,
}

/// The items that a machine has forgotten for everybody.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ForgottenAnswer {
    pub author: String,
    pub device: String,
    pub items: u64,
    /// The last time.
    pub at: Moment,
}

impl From<ForgottenElsewhere> for ForgottenAnswer {
    fn from(forgotten: ForgottenElsewhere) -> Self {
        let ForgottenElsewhere { author, device, items, at } = forgotten;
        Self { author, device, items, at: Moment(at) }
    }
}

/// The change that was reverted; null if there was none.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct UndoAnswer {
    pub undone: Option<ChangeAnswer>,
}

/// A manual change to an observation, or a verdict on something of another machine that waited for it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ChangeAnswer {
    pub id: ChangedId,
    /// `edit`, `pin`, `unpin`, `resolve`, `reopen`, `keep` or `reject`.
    pub change: String,
    pub title: String,
    pub at: Moment,
    /// Who made it, if it was made on another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// The number of an observation, or `q3`, as `recall review` names what waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ChangedId {
    Observation(i64),
    Quarantined(String),
}

impl fmt::Display for ChangedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Observation(id) => write!(f, "#{id}"),
            Self::Quarantined(id) => f.write_str(id),
        }
    }
}

impl From<NoteChange> for ChangeAnswer {
    fn from(change: NoteChange) -> Self {
        let NoteChange { of, what, title, at, by } = change;
        let (author, device) = by.unzip();
        let id = match of {
            Changed::Observation(id) => ChangedId::Observation(id.0),
            Changed::Quarantined(id) => ChangedId::Quarantined(format!("{QUARANTINED}{id}")),
        };
        Self { id, change: what, title, at: Moment(at), author, device }
    }
}
