//! Effects of an event, as rows.

use rusqlite::{Connection, OptionalExtension, params};

use super::StoreError;
use super::jobs::{self, JobKind};
use super::late;
use super::text::Packed;
use super::writes::{StoredEvent, log};
use crate::memory::event::ToolResult;
use crate::memory::ids::{BatchId, EventId, PromptId, Timestamp};
use crate::memory::session::{ActivityContent, BatchState, Effect, NewActivity, NewPrompt, Seq};

pub(super) fn apply(
    db: &Connection,
    stored: StoredEvent,
    effect: &Effect,
    event: Option<EventId>,
    at: Timestamp,
) -> Result<(), StoreError> {
    let session = stored.session.0;
    match effect {
        Effect::BeginLife { life, .. } => {
            db.prepare_cached(
                "UPDATE sessions SET life = ?2, status = 'initialized', reason = NULL, ended_at = NULL WHERE id = ?1",
            )?
            .execute(params![session, life])?;
        }
        Effect::SetStatus(status) => {
            db.prepare_cached("UPDATE sessions SET status = ?2 WHERE id = ?1")?
                .execute(params![session, status.as_str()])?;
        }
        Effect::OpenBatch { seq, number, source, state, prompt_id, prompt } => {
            let batch =
                open_batch(db, session, *seq, (*number, source.as_str(), *state), prompt.as_ref(), at)?;
            if let Some(id) = prompt_id {
                db.prepare_cached("UPDATE prompt_batches SET prompt_id = ?2 WHERE id = ?1")?
                    .execute(params![batch.0, id.as_str()])?;
            }
        }
        Effect::RunBatch { seq, prompt_id } => {
            let batch = batch(db, session, *seq)?;
            db.prepare_cached("UPDATE prompt_batches SET status = 'open', prompt_id = ?2 WHERE id = ?1")?
                .execute(params![batch.0, prompt_id.as_str()])?;
        }
        Effect::CloseBatch { seq, why } => {
            let batch = batch(db, session, *seq)?;
            db.prepare_cached(
                "UPDATE prompt_batches SET status = 'closed', close_reason = ?2, closed_at = ?3 WHERE id = ?1",
            )?
            .execute(params![batch.0, why.as_str(), at.0])?;
        }
        Effect::Respond { seq, event, text, prompt_id } => {
            let batch = batch(db, session, *seq)?;
            late::keep_replaced_answer(db, batch, prompt_id.as_ref())?;
            db.prepare_cached(
                "UPDATE prompt_batches SET response = ?2, response_event = ?3, response_turn = ?4 WHERE id = ?1",
            )?
            .execute(params![batch.0, Packed(text), event.0, prompt_id.as_ref().map(PromptId::as_str)])?;
            log(db, "response", batch.0)?;
        }
        Effect::AdoptRecovery { seq, number, source, prompt_id, prompt, content } => {
            let batch = batch(db, session, *seq)?;
            let given = (*number, source.as_str(), prompt_id.as_ref(), prompt);
            late::adopt_recovery(db, session, batch, given, *content, at)?;
        }
        Effect::Renumber { seq, number } => {
            let batch = batch(db, session, *seq)?;
            db.prepare_cached("UPDATE prompt_batches SET prompt_number = ?2 WHERE id = ?1")?
                .execute(params![batch.0, number])?;
            db.prepare_cached("UPDATE sessions SET prompts = max(prompts, ?2) WHERE id = ?1")?
                .execute(params![session, number])?;
        }
        Effect::TakeOver { from, to, since, until, content } => {
            let (from, to) = (batch(db, session, *from)?, batch(db, session, *to)?);
            late::take_over(db, (from, to), (since, until.as_ref()), *content)?;
        }
        Effect::AddActivity { seq, activity } => {
            let batch = seq.map(|seq| batch(db, session, seq)).transpose()?;
            add_activity(db, session, batch, activity, at)?;
        }
        Effect::AddAside { seq, event, call } => {
            let batch = batch(db, session, *seq)?;
            let (ToolResult::Done(response) | ToolResult::Failed(response)) = &call.result;
            db.prepare_cached(
                "INSERT INTO asides (batch, event_id, tool_name, input, response, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![batch.0, event.0, call.name, Packed(&call.input), Packed(response), at.0])?;
        }
        Effect::CompressBatch { seq } => {
            let batch = batch(db, session, *seq)?;
            jobs::enqueue(db, JobKind::Batch, session, Some(batch), at)?;
        }
        Effect::Summarize => jobs::enqueue(db, JobKind::Summary, session, None, at)?,
        Effect::Complete { reason } => {
            db.prepare_cached(
                "UPDATE sessions SET status = 'completed', reason = ?2, ended_at = ?3, end_event = ?4 WHERE id = ?1",
            )?
            .execute(params![session, reason, at.0, event.map(|event| event.0)])?;
        }
    }
    Ok(())
}

fn open_batch(
    db: &Connection,
    session: i64,
    seq: Seq,
    (number, source, state): (u32, &str, BatchState),
    prompt: Option<&NewPrompt>,
    at: Timestamp,
) -> Result<BatchId, StoreError> {
    let status = match state {
        BatchState::Waiting => "waiting",
        BatchState::Open | BatchState::Closed => "open",
    };
    let text = prompt.and_then(|prompt| prompt.text.as_deref());
    db.prepare_cached(
        "INSERT INTO prompt_batches (session, seq, prompt_number, source, status, prompt, prompt_event, opened_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        session,
        seq.0,
        number,
        source,
        status,
        text.map(Packed),
        prompt.map(|prompt| prompt.event.0),
        at.0
    ])?;
    let batch = BatchId(db.last_insert_rowid());
    if prompt.is_some() {
        db.prepare_cached("UPDATE sessions SET prompts = max(prompts, ?2) WHERE id = ?1")?
            .execute(params![session, number])?;
    }
    if text.is_some() {
        log(db, "prompt", batch.0)?;
    }
    if seq.0 == 1 {
        db.prepare_cached("UPDATE activities SET batch = ?2 WHERE session = ?1 AND batch IS NULL")?
            .execute(params![session, batch.0])?;
    }
    Ok(batch)
}

fn batch(db: &Connection, session: i64, seq: Seq) -> Result<BatchId, StoreError> {
    let mut statement = db.prepare_cached("SELECT id FROM prompt_batches WHERE session = ?1 AND seq = ?2")?;
    let row = statement.query_row(params![session, seq.0], |row| row.get(0)).optional()?;
    row.map(BatchId).ok_or(StoreError::NoSuchBatch(seq.0))
}

/// An activity's columns that depend on what it is.
struct Columns<'a> {
    kind: &'a str,
    tool: &'a str,
    use_id: Option<&'a str>,
    failed: bool,
    duration_ms: Option<i64>,
    input: Option<&'a str>,
    response: Option<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(content: &'a ActivityContent) -> Self {
        let nothing = Self {
            kind: "other",
            tool: "",
            use_id: None,
            failed: false,
            duration_ms: None,
            input: None,
            response: None,
        };
        match content {
            ActivityContent::Tool(call) => {
                let (ToolResult::Done(response) | ToolResult::Failed(response)) = &call.result;
                Self {
                    kind: "tool",
                    tool: &call.name,
                    use_id: call.use_id.as_deref(),
                    failed: call.is_failed(),
                    duration_ms: call.duration_ms,
                    input: Some(&call.input),
                    response: Some(response),
                }
            }
            ActivityContent::Other { name, detail } => Self { tool: name, input: Some(detail), ..nothing },
            ActivityContent::Hidden { name } => Self { kind: "private", tool: name, ..nothing },
        }
    }
}

fn add_activity(
    db: &Connection,
    session: i64,
    batch: Option<BatchId>,
    activity: &NewActivity,
    at: Timestamp,
) -> Result<(), StoreError> {
    let columns = Columns::of(&activity.content);
    let EventId(event) = activity.event;
    db.prepare_cached(
        "INSERT INTO activities (session, batch, event_id, kind, tool_name, tool_use_id, prompt_id, subagent, subagent_type,
                                 failed, duration_ms, input, response, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?
    .execute(params![
        session,
        batch.map(|batch| batch.0),
        event,
        columns.kind,
        columns.tool,
        columns.use_id,
        activity.prompt.as_ref().map(PromptId::as_str),
        activity.subagent.as_ref().map(|subagent| &subagent.id),
        activity.subagent.as_ref().and_then(|subagent| subagent.kind.as_ref()),
        columns.failed,
        columns.duration_ms,
        columns.input.map(Packed),
        columns.response.map(Packed),
        at.0
    ])?;
    let row = db.last_insert_rowid();
    if columns.kind == "tool" {
        log(db, "activity", row)?;
        db.prepare_cached("UPDATE sessions SET activities = activities + 1 WHERE id = ?1")?
            .execute([session])?;
    }
    Ok(())
}
