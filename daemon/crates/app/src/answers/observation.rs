//! Observations and summaries, in the same shape everywhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::by_hand::ChangeAnswer;
use super::lineage::LineageAnswer;
use super::{Moment, PublicId, Text};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_store::{ObservationRow, SummaryRow};

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ObservationAnswer {
    pub id: i64,
    pub uuid: String,
    #[serde(rename = "type")]
    pub observation_type: Text,
    pub title: String,
    pub subtitle: Option<String>,
    pub narrative: String,
    pub facts: Vec<String>,
    pub concepts: Vec<String>,
    pub files_read: Vec<String>,
    pub files_modified: Vec<String>,
    pub importance: u8,
    pub status: Text,
    pub superseded_by: Option<i64>,
    pub origin: String,
    /// The person and machine that wrote it. Present only if it came from another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Whether the user pinned it.
    pub pinned: bool,
    /// Whether a person wrote, pinned or reviewed it.
    #[serde(default)]
    pub reviewed: bool,
    /// Whether a person rejected it: it is resolved and supersedes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rejected: bool,
    pub session_id: Option<String>,
    pub prompt_number: Option<u32>,
    /// The ids of the events that prove it.
    pub evidence: Vec<String>,
    /// The stored events on which it rests. Present only in a detailed view, and if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rests_on: Vec<EvidenceAnswer>,
    /// Who stated it; it holds until withdrawn. Present only in a detailed view of a preference, a correction or a
    /// contact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_by: Option<SpeakerAnswer>,
    pub created_at: Moment,
    /// The branch that was checked out where it was made; null for a detached HEAD, without a repository, or if
    /// unknown.
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// The mark that it is not in the current checkout; null also if no folder was given.
    pub elsewhere: Option<String>,
    /// When a person last rewrote it. Present only in a detailed view, and if anybody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<Moment>,
    /// The newest change that `recall undo` can revert, if another machine made it. Present only in a detailed view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_elsewhere: Option<ChangeAnswer>,
    /// The observations that superseded or resolved it, and those it superseded. Present only in a detailed view, and
    /// if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<LineageAnswer>,
}

/// A prompt, an answer or a call that proves an observation.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct EvidenceAnswer {
    pub id: PublicId,
    pub kind: Text,
    pub title: String,
}

/// The author of a statement, and where it was made.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SpeakerAnswer {
    /// `you`; `agent`, whose model noted it; `import`, a file that anybody may have written; or `member`, another
    /// person who shares the project.
    pub who: Text,
    /// The prompt in which it was typed; null if it was noted by hand, or if the prompt is not here.
    pub prompt: Option<PublicId>,
    pub at: Moment,
}

impl From<ObservationRow> for ObservationAnswer {
    fn from(row: ObservationRow) -> Self {
        let reviewed = row.is_reviewed();
        let made_on = row.made_on.into_iter().next().unwrap_or_default();
        Self {
            branch: made_on.branch.map(|branch| branch.0),
            commit: made_on.commit.map(|commit| commit.0),
            elsewhere: None,
            id: row.id.0,
            uuid: row.uuid,
            observation_type: row.kind.as_str().into(),
            title: row.title,
            subtitle: row.subtitle,
            narrative: row.narrative,
            facts: row.facts,
            concepts: row.concepts,
            files_read: row.files_read,
            files_modified: row.files_modified,
            importance: row.importance.get(),
            status: row.status.as_str().into(),
            superseded_by: row.superseded_by.map(|id| id.0),
            origin: row.origin.0,
            author: row.author,
            device: row.device,
            pinned: row.is_pinned,
            reviewed,
            rejected: row.is_rejected,
            session_id: row.session.map(|session| session.0),
            prompt_number: row.prompt_number,
            evidence: row.evidence,
            rests_on: Vec::new(),
            said_by: None,
            created_at: Moment(row.created_at),
            edited_at: None,
            changed_elsewhere: None,
            lineage: Vec::new(),
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SummaryAnswer {
    pub id: PublicId,
    /// `null` for a session of another machine.
    pub session_id: Option<String>,
    /// The person and machine of the session. Absent if it was this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    pub title: String,
    pub request: String,
    pub investigated: String,
    pub learned: String,
    pub completed: String,
    pub next_steps: String,
    pub notes: String,
    pub created_at: Moment,
    /// See [`ObservationAnswer`]; refers to the session's last work.
    pub branch: Option<String>,
    pub commit: Option<String>,
    pub elsewhere: Option<String>,
}

impl From<SummaryRow> for SummaryAnswer {
    fn from(row: SummaryRow) -> Self {
        Self {
            id: PublicId(DocumentKey { kind: DocumentKind::Summary, row: row.id.0 }),
            session_id: row.session.map(|session| session.0),
            author: row.author,
            device: row.device,
            title: row.title,
            request: row.request,
            investigated: row.investigated,
            learned: row.learned,
            completed: row.completed,
            next_steps: row.next_steps,
            notes: row.notes,
            created_at: Moment(row.created_at),
            branch: row.made_on.branch.map(|branch| branch.0),
            commit: row.made_on.commit.map(|commit| commit.0),
            elsewhere: None,
        }
    }
}
