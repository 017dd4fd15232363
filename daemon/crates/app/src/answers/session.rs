//! Sessions and their details: batches, plans, subagents, lives and injections.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::observation::{ObservationAnswer, SummaryAnswer};
use super::{MadeOnAnswer, Moment, PublicId, Text, json_or_text};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::session::BatchState;
use recall_store::{
    ActivityRow, BatchRow, CompactionRow, GivenRow, InjectionRow, LifeEventRow, PlanRow, SessionInfo,
    SubagentRow,
};

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SessionsAnswer {
    pub sessions: Vec<SessionLine>,
    /// How many there are in total.
    pub total: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SessionLine {
    pub session_id: String,
    pub agent: String,
    pub project: String,
    pub status: String,
    pub title: Option<String>,
    pub prompts: u32,
    pub activities: u32,
    pub started_at: Moment,
    pub ended_at: Option<Moment>,
}

impl SessionLine {
    pub fn new(info: SessionInfo, displayed_state: &str) -> Self {
        Self {
            session_id: info.id.0,
            agent: info.agent.0,
            project: info.project.name,
            status: displayed_state.to_owned(),
            title: info.title,
            prompts: info.prompts,
            activities: info.activities,
            started_at: Moment(info.started_at),
            ended_at: info.ended_at.map(Moment),
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SessionAnswer {
    pub session_id: String,
    pub agent: String,
    pub project: String,
    pub project_id: String,
    /// The project's folder.
    #[serde(default)]
    pub workspace: Option<String>,
    pub status: String,
    pub reason: Option<String>,
    pub title: Option<String>,
    pub started_at: Moment,
    pub ended_at: Option<Moment>,
    /// Since when the daemon has been away, until the session's next event.
    pub suspended_at: Option<Moment>,
    /// The session that was cleared to start this one.
    pub resumed_from: Option<String>,
    /// The host's own count of the conversation's messages, if it reports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_message_count: Option<i64>,
    /// The number of messages that the host's last compaction replaced, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_compacted_count: Option<i64>,
    /// The user's first prompt that is not private.
    pub first_user_prompt: Option<String>,
    pub batches: Vec<BatchAnswer>,
    /// Last changed first.
    pub plans: Vec<PlanAnswer>,
    pub subagents: Vec<SubagentAnswer>,
    /// The lifecycle events of the session, in order.
    pub life_events: Vec<LifeEventAnswer>,
    pub observations: Vec<ObservationAnswer>,
    pub summary: Option<SummaryAnswer>,
    /// The agent's own summary at each compaction.
    pub compaction_summaries: Vec<CompactionAnswer>,
    pub injections: Vec<InjectionAnswer>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct BatchAnswer {
    pub prompt_number: u32,
    pub source: Text,
    pub status: Text,
    pub prompt: Option<String>,
    pub prompt_event_id: Option<String>,
    pub response: Option<String>,
    pub response_event_id: Option<String>,
    pub opened_at: Moment,
    /// The branch that was checked out at its end; see [`ObservationAnswer`].
    pub branch: Option<String>,
    pub commit: Option<String>,
    pub activities: Vec<ActivityAnswer>,
}

impl BatchAnswer {
    pub fn new(row: BatchRow, activities: Vec<ActivityRow>) -> Self {
        Self {
            prompt_number: row.prompt_number,
            source: row.source.as_str().into(),
            status: Text::from(if row.status == BatchState::Closed { "closed" } else { "open" }),
            prompt: row.prompt,
            prompt_event_id: row.prompt_event.map(|event| event.to_string()),
            response: row.response,
            response_event_id: row.response_event.map(|event| event.to_string()),
            opened_at: Moment(row.opened_at),
            branch: row.branch.map(|branch| branch.0),
            commit: row.commit.map(|commit| commit.0),
            activities: activities.into_iter().map(ActivityAnswer::from).collect(),
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ActivityAnswer {
    pub event_id: String,
    pub kind: String,
    pub tool_name: String,
    pub tool_use_id: Option<String>,
    pub failed: bool,
    /// The agent's own JSON, or a text if it is invalid.
    #[schemars(with = "Option<serde_json::Value>")]
    pub input: Option<Box<RawValue>>,
    #[schemars(with = "Option<serde_json::Value>")]
    pub response: Option<Box<RawValue>>,
    pub subagent: Option<String>,
    pub duration_ms: Option<i64>,
    pub at: Moment,
    /// The rule of recall's guard that refused the call.
    #[serde(default)]
    pub refused_by: Option<String>,
}

impl From<ActivityRow> for ActivityAnswer {
    fn from(row: ActivityRow) -> Self {
        Self {
            event_id: row.event.to_string(),
            kind: row.kind.as_str().to_owned(),
            tool_name: row.tool_name,
            tool_use_id: row.tool_use_id,
            failed: row.failed,
            input: row.input.and_then(json_or_text),
            response: row.response.and_then(json_or_text),
            subagent: row.subagent,
            duration_ms: row.duration_ms,
            at: Moment(row.at),
            refused_by: row.refused_by,
        }
    }
}

/// A plan or the task list; also the answer of `recall show` for one.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct PlanAnswer {
    pub id: PublicId,
    /// `plan` or `tasks`.
    pub kind: String,
    /// The person and machine that made it. Absent if it was this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    pub path: Option<String>,
    pub title: String,
    /// `draft` or `approved`.
    pub state: String,
    pub text: String,
    /// The prompts whose batches wrote it or carry it out.
    pub prompt_numbers: Vec<u32>,
    pub created_at: Moment,
    pub updated_at: Moment,
    /// The checkout where it was last worked on.
    #[serde(flatten)]
    pub made_on: MadeOnAnswer,
}

impl PlanAnswer {
    pub fn new(row: PlanRow, made_on: MadeOnAnswer) -> Self {
        Self {
            made_on,
            id: PublicId(DocumentKey { kind: DocumentKind::Plan, row: row.id.0 }),
            kind: row.kind.as_str().to_owned(),
            author: row.author,
            device: row.device,
            path: row.path,
            title: row.title,
            state: row.stage.as_str().to_owned(),
            text: row.text,
            prompt_numbers: row.prompt_numbers,
            created_at: Moment(row.created_at),
            updated_at: Moment(row.updated_at),
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SubagentAnswer {
    pub agent_id: String,
    pub agent_type: Option<String>,
    /// The number of the prompt in whose batch it was started.
    pub prompt_number: Option<u32>,
    /// The `tool_use_id` of the call that started it.
    pub parent_tool_use_id: Option<String>,
    pub response: Option<String>,
    pub response_event_id: Option<String>,
    pub started_at: Option<Moment>,
    pub ended_at: Option<Moment>,
}

impl SubagentAnswer {
    pub fn new(row: SubagentRow, prompt_number: Option<u32>) -> Self {
        Self {
            agent_id: row.id,
            agent_type: row.kind,
            prompt_number,
            parent_tool_use_id: row.parent_call,
            response: row.message,
            response_event_id: row.message_event.map(|event| event.to_string()),
            started_at: row.started_at.map(Moment),
            ended_at: row.ended_at.map(Moment),
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct LifeEventAnswer {
    pub life: u32,
    pub event: String,
    pub at: Moment,
    /// The event's own fields.
    #[schemars(with = "Option<serde_json::Value>")]
    pub detail: Option<Box<RawValue>>,
}

impl From<LifeEventRow> for LifeEventAnswer {
    fn from(row: LifeEventRow) -> Self {
        Self {
            life: row.life,
            event: row.name,
            at: Moment(row.at),
            detail: RawValue::from_string(row.detail).ok(),
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct CompactionAnswer {
    pub id: PublicId,
    /// `auto` or `manual`.
    pub trigger: String,
    pub prompt_number: Option<u32>,
    pub summary: String,
    pub created_at: Moment,
}

impl From<CompactionRow> for CompactionAnswer {
    fn from(row: CompactionRow) -> Self {
        Self {
            id: PublicId(DocumentKey { kind: DocumentKind::Compaction, row: row.id.0 }),
            trigger: row.trigger,
            prompt_number: row.prompt_number,
            summary: row.summary,
            created_at: Moment(row.at),
        }
    }
}

/// An injected item, with the reason why it was injected.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct InjectedItem {
    /// `observation`, `summary`, `passage` (of any other document) `session` (its current state) or
    /// `handoff` (a session that was handed over).
    pub kind: String,
    /// The id for `show`; null if the item no longer exists.
    pub id: Option<PublicId>,
    pub title: String,
    pub reason: String,
    /// How the session used it: `opened`, `followed`, `repeated`, `contradicted`, `wrong`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<Text>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct InjectionAnswer {
    pub at: Moment,
    pub moment: String,
    pub tokens: u32,
    /// The items, each with its id for `show`.
    pub items: Vec<InjectedItem>,
    /// For the moment `file`: the path of that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl InjectionAnswer {
    pub fn new(row: InjectionRow, items: Vec<InjectedItem>) -> Self {
        Self { at: Moment(row.at), moment: row.moment, tokens: row.tokens, items, file: row.file }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct WhyAnswer {
    pub session_id: String,
    pub injections: Vec<InjectionAnswer>,
}

/// The sessions that received an item.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct WhyGivenAnswer {
    pub id: PublicId,
    pub kind: Text,
    pub title: String,
    /// Latest first.
    pub given: Vec<GivenAnswer>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct GivenAnswer {
    pub session_id: String,
    pub agent: String,
    pub at: Moment,
    pub moment: String,
    pub reason: String,
    /// See [`InjectedItem::uses`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
}

impl From<GivenRow> for GivenAnswer {
    fn from(row: GivenRow) -> Self {
        Self {
            session_id: row.session.id.0,
            agent: row.session.agent.0,
            at: Moment(row.at),
            moment: row.moment,
            reason: row.reason,
            uses: row.uses.iter().flat_map(|uses| uses.split(',')).map(str::to_owned).collect(),
        }
    }
}

/// The answer of `why`, for a session or an injected item. Untagged, because its fields distinguish the variants.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Why {
    Session(WhyAnswer),
    Given(WhyGivenAnswer),
}

/// What is stored about some sessions, in the order of the request.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct CapturedAnswer {
    pub sessions: Vec<CapturedSession>,
    /// When recording was off.
    #[serde(default)]
    pub pauses: Vec<CapturedPause>,
}

/// A pause, in milliseconds since 1970. `until_ms` is `None` while it lasts.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct CapturedPause {
    pub since_ms: i64,
    pub until_ms: Option<i64>,
}

impl CapturedPause {
    pub fn covers(&self, at_ms: i64) -> bool {
        at_ms >= self.since_ms && self.until_ms.is_none_or(|until| at_ms < until)
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct CapturedSession {
    /// The number of its imported events.
    pub imported: u64,
    /// When its first hook fired, in milliseconds since 1970; `None` if none did.
    pub since_ms: Option<i64>,
    /// When its last hook fired.
    #[serde(default)]
    pub until_ms: Option<i64>,
    /// Its prompts, if hooks captured it.
    #[serde(default)]
    pub prompts: Vec<CapturedPrompt>,
}

/// A stored prompt.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct CapturedPrompt {
    /// The agent's id of the turn.
    pub turn: Option<String>,
    pub at_ms: i64,
    /// `None` if it is private or was forgotten.
    pub prompt: Option<String>,
    /// Whether its answer is missing and may be added.
    pub is_unanswered: bool,
}
