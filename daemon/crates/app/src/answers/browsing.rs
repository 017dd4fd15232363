//! Answers for browsing: days, entries, projects, and threads of statements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::by_hand::QUARANTINED;
use super::observation::ObservationAnswer;
use super::{Moment, PublicId, Text};
use recall_domain::document::DocumentKey;
use recall_domain::ids::Timestamp;
use recall_domain::sync::quarantine::ItemTexts;
use recall_domain::text::shortened_line;
use recall_store::{EntryRow, JudgedQuarantine, ProjectLine, Quarantined, StatementRow};

/// The maximum length of a title in a listing, in characters.
const MOST_TITLE: usize = 160;

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct DaysAnswer {
    /// Only days that have something, newest first.
    pub days: Vec<DayLine>,
}

/// A day in the daemon's time zone. Kinds that were not requested count 0.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct DayLine {
    /// For example `2026-11-23`.
    pub day: String,
    pub since: Moment,
    /// The beginning of the next day.
    pub until: Moment,
    pub observations: u32,
    pub prompts: u32,
    pub summaries: u32,
    /// Sessions that started on this day.
    pub sessions: u32,
    /// Calls of these sessions.
    pub calls: u32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct EntriesAnswer {
    pub entries: Vec<Entry>,
}

/// Observations that await review, newest first.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct UnreviewedAnswer {
    pub entries: Vec<Entry>,
    /// How many there are in total for the same project and time.
    pub waiting: u64,
    /// Items from other machines that read like instructions to a model, newest first. They are shown only here until a
    /// person keeps them.
    #[serde(default)]
    pub quarantined: Vec<QuarantinedItem>,
    /// How many of these there are in all, of the same project.
    #[serde(default)]
    pub quarantined_in_all: u64,
}

/// Something of another machine that reads like instructions to a model.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct QuarantinedItem {
    /// `q3`. Other texts of the same item have another one.
    pub id: String,
    /// `observation`, `summary` or `plan`.
    pub kind: Text,
    pub project: String,
    pub author: String,
    pub device: String,
    pub title: String,
    /// All that it says, and the title first.
    pub text: String,
    /// Why it reads like instructions, in a few words of recall's own.
    pub why: String,
    /// When that was noticed.
    pub noticed_at: Moment,
}

impl From<Quarantined> for QuarantinedItem {
    fn from(found: Quarantined) -> Self {
        let Quarantined { id, kind, why, at, project, item } = found;
        let field = |name: &str| item.get(name).as_str().unwrap_or_default().to_owned();
        Self {
            id: format!("{QUARANTINED}{id}"),
            kind: kind.as_str().into(),
            project,
            author: field("author"),
            device: field("device"),
            title: field("title"),
            text: ItemTexts::of(&item).joined(),
            why,
            noticed_at: Moment(at),
        }
    }
}

/// The answer of `review`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ReviewAnswer {
    pub text: String,
    pub tokens: u32,
    pub items: Vec<ObservationAnswer>,
    /// The items that were kept apart and are now judged.
    #[serde(default)]
    pub quarantined: Vec<JudgedItem>,
}

/// An item that was kept apart, with the person's decision.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct JudgedItem {
    /// As it was given.
    pub id: String,
    pub title: String,
    /// Where it is found now; `null` if nowhere.
    pub found_as: Option<PublicId>,
}

impl From<JudgedQuarantine> for JudgedItem {
    fn from(judged: JudgedQuarantine) -> Self {
        let JudgedQuarantine { id, title, document } = judged;
        Self { id: format!("{QUARANTINED}{id}"), title, found_as: document.map(PublicId) }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    pub id: PublicId,
    pub kind: Text,
    #[serde(rename = "type")]
    pub observation_type: Option<Text>,
    /// An observation's status: `active`, `resolved` or `superseded`.
    pub status: Option<Text>,
    pub pinned: bool,
    /// The title, or a prompt's first words.
    pub title: String,
    pub project: String,
    pub session_id: Option<String>,
    pub agent: Option<String>,
    pub created_at: Moment,
}

impl Entry {
    pub fn new(key: DocumentKey, at: Timestamp, row: EntryRow) -> Self {
        Self {
            id: PublicId(key),
            kind: key.kind.as_str().into(),
            observation_type: row.observation_type.map(|kind| kind.as_str().into()),
            status: row.status.map(|status| status.as_str().into()),
            pinned: row.is_pinned,
            title: shortened_line(&row.title, MOST_TITLE),
            project: row.project,
            session_id: row.session.map(|session| session.0),
            agent: row.agent.map(|agent| agent.0),
            created_at: Moment(at),
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ProjectsAnswer {
    /// Most recent first.
    pub projects: Vec<ProjectAnswer>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ProjectAnswer {
    pub name: String,
    pub project_id: String,
    pub sessions: u32,
    pub observations: u32,
    /// The folder of the latest session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    pub last_at: Option<Moment>,
}

impl From<ProjectLine> for ProjectAnswer {
    fn from(line: ProjectLine) -> Self {
        Self {
            name: line.name,
            project_id: line.key.0,
            sessions: line.sessions,
            observations: line.observations,
            folder: line.folder,
            last_at: line.last_at.map(Moment),
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ThreadsAnswer {
    /// Most recent first.
    pub threads: Vec<ThreadAnswer>,
    pub total: usize,
}

/// All statements about one subject, the valid one first.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ThreadAnswer {
    pub statements: Vec<Statement>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    pub id: i64,
    #[serde(rename = "type")]
    pub observation_type: Text,
    pub status: Text,
    pub title: String,
    /// Present only if a single thread was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrative: Option<String>,
    /// Why it no longer holds, in words. Present only if a single thread was requested, and if it does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    pub project: String,
    pub session_id: Option<String>,
    pub prompt_number: Option<u32>,
    pub created_at: Moment,
}

impl From<StatementRow> for Statement {
    fn from(row: StatementRow) -> Self {
        Self {
            id: row.id.0,
            observation_type: row.kind.as_str().into(),
            status: row.status.as_str().into(),
            title: row.title,
            narrative: Some(row.narrative),
            reason: None,
            project: row.project,
            session_id: row.session.map(|session| session.0),
            prompt_number: row.prompt_number,
            created_at: Moment(row.created_at),
        }
    }
}
