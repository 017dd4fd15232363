//! The helpers that an agent starts: whose they are, and what they said at the end.

use rusqlite::{Connection, Row, params};

use super::StoreError;
use super::effects::EffectContext;
use super::text::{Packed, Unpacked};
use crate::memory::event::Subagent;
use crate::memory::ids::{BatchId, CallId, EventId, PromptId, SessionRow, Timestamp};
use crate::memory::session::Seq;

/// A subagent as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentRow {
    /// The agent's own id of it.
    pub id: String,
    pub kind: Option<String>,
    /// The batch it was started in.
    pub batch: Option<BatchId>,
    /// The call that started it.
    pub parent_call: Option<String>,
    pub message: Option<String>,
    pub message_event: Option<EventId>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

const COLUMNS: &str =
    "agent_id, agent_type, batch, parent_call, message, message_event, started_at, ended_at FROM subagents";

/// By when they were first heard of.
const IN_ORDER: &str = "ORDER BY ifnull(started_at, ended_at), agent_id";

fn read(row: &Row<'_>) -> rusqlite::Result<SubagentRow> {
    Ok(SubagentRow {
        id: row.get(0)?,
        kind: row.get(1)?,
        batch: row.get::<_, Option<i64>>(2)?.map(BatchId),
        parent_call: row.get(3)?,
        message: row.get::<_, Option<Unpacked>>(4)?.map(|text| text.0),
        message_event: row.get::<_, Option<[u8; 16]>>(5)?.map(EventId),
        started_at: row.get::<_, Option<i64>>(6)?.map(Timestamp),
        ended_at: row.get::<_, Option<i64>>(7)?.map(Timestamp),
    })
}

/// A session's subagents in the order in which they were first heard of.
///
/// # Errors
/// When the database refuses.
pub fn subagents_of_session(db: &Connection, session: SessionRow) -> Result<Vec<SubagentRow>, StoreError> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} WHERE session = ?1 {IN_ORDER}"))?;
    Ok(statement.query_map([session.0], read)?.collect::<Result<_, _>>()?)
}

/// # Errors
/// When the database refuses.
pub fn subagents_of_batch(db: &Connection, batch: BatchId) -> Result<Vec<SubagentRow>, StoreError> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} WHERE batch = ?1 {IN_ORDER}"))?;
    Ok(statement.query_map([batch.0], read)?.collect::<Result<_, _>>()?)
}

pub(super) fn begin(
    scene: &EffectContext<'_>,
    (seq, prompt): (Option<Seq>, Option<&PromptId>),
    subagent: &Subagent,
) -> Result<(), StoreError> {
    /// It belongs where it was first heard of; one that is told of twice has worked on.
    const FIRST: &str =
        "ifnull(excluded.started_at < min(ifnull(started_at, ended_at), ifnull(ended_at, started_at)), TRUE)";
    let batch = scene.batch_row(seq)?;
    scene
        .db
        .prepare_cached(&format!(
            "INSERT INTO subagents (session, batch, agent_id, agent_type, started_at, event_id, prompt_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (session, agent_id) DO UPDATE SET
                    batch = iif({FIRST}, ifnull(excluded.batch, batch), ifnull(batch, excluded.batch)),
                    event_id = iif({FIRST}, excluded.event_id, event_id),
                    prompt_id = iif({FIRST}, excluded.prompt_id, prompt_id),
                    agent_type = ifnull(excluded.agent_type, agent_type),
                    started_at = min(ifnull(started_at, excluded.started_at), excluded.started_at)",
        ))?
        .execute(params![
            scene.session(),
            batch,
            subagent.id,
            subagent.kind,
            scene.at.0,
            scene.event.map(|event| event.0),
            prompt.map(PromptId::as_str)
        ])?;
    Ok(())
}

/// Of two last words the later one counts.
pub(super) fn end(
    scene: &EffectContext<'_>,
    (seq, prompt): (Option<Seq>, Option<&PromptId>),
    subagent: &Subagent,
    message: Option<&str>,
) -> Result<(), StoreError> {
    let batch = scene.batch_row(seq)?;
    let event = scene.event.filter(|_| message.is_some()).map(|event| event.0);
    scene
        .db
        .prepare_cached(
            "INSERT INTO subagents (session, batch, agent_id, agent_type, message, message_event, ended_at, event_id, prompt_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (session, agent_id) DO UPDATE SET batch = ifnull(batch, excluded.batch),
                    prompt_id = iif(event_id IS NULL, excluded.prompt_id, prompt_id),
                    event_id = ifnull(event_id, excluded.event_id),
                    agent_type = ifnull(agent_type, excluded.agent_type),
                    message = ifnull(excluded.message, message),
                    message_event = ifnull(excluded.message_event, message_event), ended_at = excluded.ended_at
             WHERE ended_at IS NULL OR ended_at <= excluded.ended_at",
        )?
        .execute(params![
            scene.session(),
            batch,
            subagent.id,
            subagent.kind,
            message.map(Packed),
            event,
            scene.at.0,
            scene.event.map(|event| event.0),
            prompt.map(PromptId::as_str)
        ])?;
    Ok(())
}

pub(super) fn link(scene: &EffectContext<'_>, subagent: &str, call: &CallId) -> Result<(), StoreError> {
    scene
        .db
        .prepare_cached(
            "INSERT INTO subagents (session, agent_id, parent_call) VALUES (?1, ?2, ?3)
             ON CONFLICT (session, agent_id) DO UPDATE SET parent_call = excluded.parent_call",
        )?
        .execute(params![scene.session(), subagent, call.as_str()])?;
    Ok(())
}
