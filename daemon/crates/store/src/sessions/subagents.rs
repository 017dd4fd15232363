//! Subagents: which batch started them, and their last message.

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::database::text::Packed;
use crate::sessions::effect_context::EffectContext;
use crate::{Reader, StoreError};
use recall_domain::event::Subagent;
use recall_domain::ids::{BatchId, CallId, EventId, PromptId, SessionRow, Timestamp};
use recall_domain::session::Seq;

record! {
/// A stored subagent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentRow from "subagents" {
    /// The agent's own id of the subagent.
    pub id: String = "agent_id",
    pub kind: Option<String> = "agent_type",
    /// The batch in which it was started.
    pub batch: Option<BatchId> = "batch",
    /// The call that started it.
    pub parent_call: Option<String> = "parent_call",
    pub message: Option<String> = "message",
    pub message_event: Option<EventId> = "message_event",
    pub started_at: Option<Timestamp> = "started_at",
    pub ended_at: Option<Timestamp> = "ended_at",
}
}

/// Orders subagents by the capture time of their first event.
const IN_ORDER: &str = "ORDER BY ifnull(started_at, ended_at), agent_id";

impl Reader<'_> {
    /// A session's subagents, in the order of their first events.
    pub fn subagents_of_session(self, session: SessionRow) -> Result<Vec<SubagentRow>, StoreError> {
        self.0.all(&format!("{} WHERE session = ?1 {IN_ORDER}", SubagentRow::SELECT), params![session])
    }

    pub fn subagents_of_batch(self, batch: BatchId) -> Result<Vec<SubagentRow>, StoreError> {
        self.0.all(&format!("{} WHERE batch = ?1 {IN_ORDER}", SubagentRow::SELECT), params![batch])
    }
}

pub(crate) fn begin(
    scene: &EffectContext<'_>,
    seq: Option<Seq>,
    prompt: Option<&PromptId>,
    subagent: &Subagent,
) -> Result<(), StoreError> {
    /// A subagent belongs to where it was first reported. One that is reported twice has continued its work.
    const FIRST: &str =
        "ifnull(excluded.started_at < min(ifnull(started_at, ended_at), ifnull(ended_at, started_at)), TRUE)";
    let batch = scene.batch_row(seq)?;
    scene.db.run(
        &format!(
            "INSERT INTO subagents (session, batch, agent_id, agent_type, started_at, event_id, prompt_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (session, agent_id) DO UPDATE SET
                    batch = iif({FIRST}, ifnull(excluded.batch, batch), ifnull(batch, excluded.batch)),
                    event_id = iif({FIRST}, excluded.event_id, event_id),
                    prompt_id = iif({FIRST}, excluded.prompt_id, prompt_id),
                    agent_type = ifnull(excluded.agent_type, agent_type),
                    started_at = min(ifnull(started_at, excluded.started_at), excluded.started_at)",
        ),
        params![
            scene.session(),
            batch,
            subagent.id,
            subagent.kind,
            scene.at.0,
            scene.event.map(|event| event.0),
            prompt.map(PromptId::as_str)
        ],
    )
}

/// Ends a subagent. Of two last messages, the later one counts.
pub(crate) fn end(
    scene: &EffectContext<'_>,
    seq: Option<Seq>,
    prompt: Option<&PromptId>,
    subagent: &Subagent,
    message: Option<&str>,
) -> Result<(), StoreError> {
    let batch = scene.batch_row(seq)?;
    let event = scene.event.filter(|_| message.is_some()).map(|event| event.0);
    scene
        .db
        .run("INSERT INTO subagents (session, batch, agent_id, agent_type, message, message_event,
                 ended_at, event_id, prompt_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (session, agent_id) DO UPDATE SET batch = ifnull(batch, excluded.batch),
                    prompt_id = iif(event_id IS NULL, excluded.prompt_id, prompt_id),
                    event_id = ifnull(event_id, excluded.event_id),
                    agent_type = ifnull(agent_type, excluded.agent_type),
                    message = ifnull(excluded.message, message),
                    message_event = ifnull(excluded.message_event, message_event), ended_at = excluded.ended_at
             WHERE ended_at IS NULL OR ended_at <= excluded.ended_at", params![
            scene.session(),
            batch,
            subagent.id,
            subagent.kind,
            message.map(Packed),
            event,
            scene.at.0,
            scene.event.map(|event| event.0),
            prompt.map(PromptId::as_str)
        ])
}

pub(crate) fn link(scene: &EffectContext<'_>, subagent: &str, call: &CallId) -> Result<(), StoreError> {
    scene.db.run(
        "INSERT INTO subagents (session, agent_id, parent_call) VALUES (?1, ?2, ?3)
             ON CONFLICT (session, agent_id) DO UPDATE SET parent_call = excluded.parent_call",
        params![scene.session(), subagent, call.as_str()],
    )
}
