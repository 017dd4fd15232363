//! Parts of `recall ctl session --json`: plans, subagents, and what was said of the session's lives.

use serde::Serialize;
use serde_json::value::RawValue;

use super::answers::{MadeOnAnswer, Moment, PublicId};
use crate::memory::document::{DocumentKey, DocumentKind};
use crate::store::{LifeEventRow, PlanRow, SubagentRow};

/// A plan, or the task list; also what `recall show` tells of one.
#[derive(Serialize)]
pub struct PlanAnswer {
    pub id: PublicId,
    /// `plan` or `tasks`.
    pub kind: String,
    pub path: Option<String>,
    pub title: String,
    /// `draft` or `approved`.
    pub state: String,
    pub text: String,
    /// The prompts whose batches made it or carry it out.
    pub prompt_numbers: Vec<u32>,
    pub created_at: Moment,
    pub updated_at: Moment,
    /// Where it was last worked on.
    #[serde(flatten)]
    pub made_on: MadeOnAnswer,
}

impl PlanAnswer {
    pub fn new(row: PlanRow, made_on: MadeOnAnswer) -> Self {
        Self {
            made_on,
            id: PublicId(DocumentKey { kind: DocumentKind::Plan, row: row.id.0 }),
            kind: row.kind,
            path: row.path,
            title: row.title,
            state: row.state,
            text: row.text,
            prompt_numbers: row.prompt_numbers,
            created_at: Moment(row.created_at),
            updated_at: Moment(row.updated_at),
        }
    }
}

#[derive(Serialize)]
pub struct SubagentAnswer {
    pub agent_id: String,
    pub agent_type: Option<String>,
    /// The prompt in whose batch it was started.
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

#[derive(Serialize)]
pub struct LifeEventAnswer {
    pub life: u32,
    pub event: String,
    pub at: Moment,
    /// The event's own fields.
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
