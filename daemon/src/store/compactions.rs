//! Conversations that were shortened: a beginning and an end each, told of by two events in whatever order.
//!
//! An end belongs to the last beginning before it, so one that is told of in between takes its end from another.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::StoreError;
use super::effects::EffectContext;
use super::lives::say;
use super::operation::log;
use super::text::{Packed, Unpacked};
use crate::memory::ids::{PromptId, SessionRow, Timestamp};
use crate::memory::lifecycle::{Compactions, LifecycleKind};
use crate::memory::session::Seq;

/// A conversation that was shortened, with what the agent made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionRow {
    pub id: i64,
    /// What brought it about, in the agent's word: `auto`, `manual`.
    pub trigger: String,
    pub summary: String,
    /// The prompt in whose batch it was.
    pub prompt_number: Option<u32>,
    pub at: Timestamp,
}

const COLUMNS: &str =
    "c.id, c.trigger, c.summary, (SELECT prompt_number FROM prompt_batches b WHERE b.id = c.batch),
    c.ended_at, c.session FROM compactions c WHERE c.summary IS NOT NULL AND c.ended_at IS NOT NULL";

fn read(row: &Row<'_>) -> rusqlite::Result<CompactionRow> {
    Ok(CompactionRow {
        id: row.get(0)?,
        trigger: row.get(1)?,
        summary: row.get::<_, Unpacked>(2)?.0,
        prompt_number: row.get(3)?,
        at: Timestamp(row.get(4)?),
    })
}

/// The agent's own summaries of a session, in their order.
///
/// # Errors
/// When the database refuses.
pub fn compaction_summaries(db: &Connection, session: SessionRow) -> Result<Vec<CompactionRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} AND c.session = ?1 ORDER BY c.ended_at, c.id");
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_map([session.0], read)?.collect::<Result<_, _>>()?)
}

/// One that has a summary, with its session.
pub(super) fn told(db: &Connection, id: i64) -> Result<Option<(CompactionRow, SessionRow)>, StoreError> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} AND c.id = ?1"))?;
    Ok(statement.query_row([id], |row| Ok((read(row)?, SessionRow(row.get(5)?)))).optional()?)
}

pub(super) fn begins(
    scene: &EffectContext<'_>,
    (seq, prompt): (Option<Seq>, Option<&PromptId>),
    trigger: &str,
    (message_count, messages_since_last): (u32, u32),
) -> Result<(), StoreError> {
    let batch = scene.batch_row(seq)?;
    let (event, turn) = (scene.event.map(|event| event.0), prompt.map(PromptId::as_str));
    // Its end may have been told first.
    let end: Option<(i64, bool)> = scene
        .db
        .prepare_cached(
            "SELECT id, started_at IS NULL FROM compactions
             WHERE session = ?1 AND ended_at >= ?2 AND (started_at IS NULL OR started_at <= ?2)
             ORDER BY ended_at LIMIT 1",
        )?
        .query_row(params![scene.session(), scene.at.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((row, true)) = end {
        scene
            .db
            .prepare_cached(
                "UPDATE compactions SET batch = ?2, started_at = ?3, event_id = ?4, prompt_id = ?5 WHERE id = ?1",
            )?
            .execute(params![row, batch, scene.at.0, event, turn])?;
    } else {
        scene
            .db
            .prepare_cached(
                "INSERT INTO compactions (session, batch, trigger, message_count, started_at, event_id, prompt_id)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![scene.session(), batch, trigger, message_count, scene.at.0, event, turn])?;
    }
    if let Some((earlier, false)) = end {
        hand_over_end(scene, earlier, scene.db.last_insert_rowid())?;
    }
    let compacted_count = ended(scene)?;
    say(
        scene,
        LifecycleKind::BeforeCompaction(Compactions { message_count, messages_since_last, compacted_count }),
    )
}

/// How many are over.
fn ended(scene: &EffectContext<'_>) -> Result<u32, StoreError> {
    let mut count = scene
        .db
        .prepare_cached("SELECT count(*) FROM compactions WHERE session = ?1 AND ended_at IS NOT NULL")?;
    Ok(count.query_row([scene.session()], |row| row.get(0))?)
}

/// The end of an earlier one is that of another.
fn hand_over_end(scene: &EffectContext<'_>, from: i64, to: i64) -> Result<(), StoreError> {
    for sql in [
        "UPDATE compactions SET (ended_at, message_count, messages_since_last, summary, end_event, end_prompt_id) =
            (SELECT ended_at, message_count, messages_since_last, summary, end_event, end_prompt_id
             FROM compactions WHERE id = ?1) WHERE id = ?2",
        "UPDATE compactions SET ended_at = NULL, messages_since_last = NULL, summary = NULL, end_event = NULL,
                end_prompt_id = NULL WHERE id = ?1 AND id <> ?2",
    ] {
        scene.db.prepare_cached(sql)?.execute([from, to])?;
    }
    log(scene.db, "compaction", from)?;
    log(scene.db, "compaction", to)?;
    Ok(())
}

pub(super) fn ends(
    scene: &EffectContext<'_>,
    (seq, prompt): (Option<Seq>, Option<&PromptId>),
    trigger: &str,
    (message_count, messages_since_last): (u32, u32),
    summary: Option<&str>,
) -> Result<(), StoreError> {
    let (db, session) = (scene.db, scene.session());
    let batch = scene.batch_row(seq)?;
    let (event, turn) = (scene.event.map(|event| event.0), prompt.map(PromptId::as_str));
    let begun: Option<(i64, Option<i64>)> = db
        .prepare_cached(
            "SELECT id, ended_at FROM compactions WHERE session = ?1 AND started_at <= ?2
             ORDER BY started_at DESC LIMIT 1",
        )?
        .query_row(params![session, scene.at.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let begun = begun.filter(|(_, ended)| ended.is_none_or(|ended| ended > scene.at.0));
    let row = if let Some((row, ended)) = begun {
        if ended.is_some() {
            db.prepare_cached(
                "INSERT INTO compactions (session, batch, trigger, message_count, event_id, prompt_id)
                 SELECT session, batch, trigger, message_count, end_event, end_prompt_id FROM compactions WHERE id = ?1",
            )?
            .execute([row])?;
            hand_over_end(scene, row, db.last_insert_rowid())?;
        }
        db.prepare_cached(
            "UPDATE compactions SET ended_at = ?2, message_count = ?3, messages_since_last = ?4, summary = ?5,
                    end_event = ?6, end_prompt_id = ?7 WHERE id = ?1",
        )?
        .execute(params![
            row,
            scene.at.0,
            message_count,
            messages_since_last,
            summary.map(Packed),
            event,
            turn
        ])?;
        row
    } else {
        db.prepare_cached(
            "INSERT INTO compactions (session, batch, trigger, ended_at, message_count, messages_since_last, summary,
                                      event_id, prompt_id, end_event, end_prompt_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?8, ?9)",
        )?
        .execute(params![
            session,
            batch,
            trigger,
            scene.at.0,
            message_count,
            messages_since_last,
            summary.map(Packed),
            event,
            turn
        ])?;
        db.last_insert_rowid()
    };
    if summary.is_some() {
        log(db, "compaction", row)?;
    }
    let compacted_count = ended(scene)?;
    say(
        scene,
        LifecycleKind::AfterCompaction(Compactions { message_count, messages_since_last, compacted_count }),
    )
}

/// Lets go of the agent's summaries of what came after the event.
pub(super) fn hide(scene: &EffectContext<'_>) -> Result<(), StoreError> {
    let mut hide = scene.db.prepare_cached(
        "UPDATE compactions SET summary = NULL
         WHERE session = ?1 AND ended_at >= ?2 AND summary IS NOT NULL RETURNING id",
    )?;
    let hidden = hide.query_map(params![scene.session(), scene.at.0], |row| row.get::<_, i64>(0))?;
    let hidden = hidden.collect::<Result<Vec<_>, _>>()?;
    hidden.into_iter().try_for_each(|row| log(scene.db, "compaction", row))
}
