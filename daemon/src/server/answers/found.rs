//! What was found: a search, a document, a timeline, what an agent would be told, and whose memory that is.

use serde::{Deserialize, Serialize};

use super::lineage::LineageAnswer;
use super::session::PlanAnswer;
use super::{MadeOnAnswer, Moment, PublicId, Text, TextAnswer, shortened};
use crate::memory::document::{DocumentKey, DocumentKind};
use crate::store::{ObservationRow, SummaryRow, TimelineRow};

#[derive(Serialize, Deserialize)]
pub struct SearchAnswer {
    pub results: Vec<SearchResult>,
    pub total: usize,
    pub took_ms: u64,
    /// The index is damaged or being made anew: the texts themselves were searched, for their plain words.
    pub degraded: bool,
    /// What is wrong with `config.toml`; absent where nothing is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_errors: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub struct SearchResult {
    pub id: PublicId,
    pub kind: Text,
    #[serde(rename = "type")]
    pub observation_type: Option<Text>,
    /// Of an observation: `active`, `resolved` or `superseded`.
    pub status: Option<Text>,
    pub title: String,
    pub snippet: String,
    pub project: String,
    pub agent: String,
    pub session_id: Option<String>,
    pub prompt_number: Option<u32>,
    pub created_at: Moment,
    #[serde(flatten)]
    pub made_on: MadeOnAnswer,
    pub score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Explanation>,
}

/// How a score came about: the product of its factors.
#[derive(Serialize, Deserialize)]
pub struct Explanation {
    pub relevance: f32,
    pub factors: serde_json::Map<String, serde_json::Value>,
    pub matched: Vec<String>,
}

/// `context`.
#[derive(Serialize, Deserialize)]
pub struct ContextAnswer {
    #[serde(flatten)]
    pub block: TextAnswer<InjectedItem>,
    /// Why nothing would be said whatever is known; absent where nothing forbids it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<Silence>,
}

/// What keeps recall silent.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    Paused,
    /// By the user's configuration, or by the project's own file.
    Excluded,
}

#[derive(Serialize, Deserialize)]
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
    pub session_id: Option<String>,
    pub prompt_number: Option<u32>,
    pub evidence: Vec<String>,
    pub created_at: Moment,
    /// What was checked out where it was made; null: a detached HEAD, no repository, or not known.
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// That this is not to be found in what is checked out where the question was asked; null where nobody asked, too.
    pub elsewhere: Option<String>,
    /// What took its place or settled it, and what it took the place of; only where it is shown by itself, and there
    /// is any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<LineageAnswer>,
}

impl From<ObservationRow> for ObservationAnswer {
    fn from(row: ObservationRow) -> Self {
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
            origin: row.origin,
            session_id: row.session.map(|session| session.0),
            prompt_number: row.prompt_number,
            evidence: row.evidence,
            created_at: Moment(row.created_at),
            lineage: Vec::new(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub struct SummaryAnswer {
    pub id: PublicId,
    pub session_id: String,
    pub title: String,
    pub request: String,
    pub investigated: String,
    pub learned: String,
    pub completed: String,
    pub next_steps: String,
    pub notes: String,
    pub created_at: Moment,
    /// As in [`ObservationAnswer`], of the session's last work.
    pub branch: Option<String>,
    pub commit: Option<String>,
    pub elsewhere: Option<String>,
}

impl From<SummaryRow> for SummaryAnswer {
    fn from(row: SummaryRow) -> Self {
        Self {
            id: PublicId(DocumentKey { kind: DocumentKind::Summary, row: row.id.0 }),
            session_id: row.session.0,
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

/// Any other stored text: a prompt, an answer, an activity.
#[derive(Serialize, Deserialize)]
pub struct DocumentAnswer {
    pub id: PublicId,
    pub kind: Text,
    pub title: String,
    pub text: String,
    pub project: String,
    pub session_id: Option<String>,
    pub prompt_number: Option<u32>,
    pub created_at: Moment,
    #[serde(flatten)]
    pub made_on: MadeOnAnswer,
}

#[derive(Serialize, Deserialize)]
pub struct TimelineItem {
    pub id: Option<PublicId>,
    pub kind: String,
    #[serde(rename = "type")]
    pub observation_type: Option<String>,
    pub title: String,
    pub session_id: Option<String>,
    pub created_at: Moment,
    #[serde(flatten)]
    pub made_on: MadeOnAnswer,
}

impl TimelineItem {
    pub fn new(row: TimelineRow, made_on: MadeOnAnswer) -> Self {
        let key = row.key();
        let line = row.label.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            id: key.map(PublicId),
            kind: row.kind,
            observation_type: row.observation_type,
            title: shortened(&line, 160),
            session_id: row.session.map(|session| session.0),
            created_at: Moment(row.at),
            made_on,
        }
    }
}

/// One thing that `show` shows. What is told apart by its fields is not tagged.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub enum ShownItem {
    Observation(Box<ObservationAnswer>),
    Summary(SummaryAnswer),
    Plan(PlanAnswer),
    Document(DocumentAnswer),
}

/// One thing that was given, and why.
#[derive(Serialize, Deserialize)]
pub struct InjectedItem {
    /// `observation`, `summary` or `session` (where it stands).
    pub kind: String,
    /// What `show` opens; null: there is nothing left to open.
    pub id: Option<PublicId>,
    pub title: String,
    pub reason: String,
}

/// Which project a folder is taken for.
#[derive(Serialize, Deserialize)]
pub struct IdentityAnswer {
    /// The folder of its work tree.
    pub folder: String,
    pub project: String,
    pub doubted: Option<UnprovenClaimAnswer>,
}

/// A project that a folder names as its own without showing a commit of it.
#[derive(Serialize, Deserialize)]
pub struct UnprovenClaimAnswer {
    /// What its `.git/config` names, without credentials.
    pub remote: String,
    pub project: String,
    pub project_id: String,
}
