//! Compactions of conversations. Two events report the beginning and the end of each, in any order.
//!
//! An end belongs to the last beginning before it, so a beginning that arrives late takes over the end from an earlier
//! one.

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::database::text::Packed;
use crate::operation::log;
use crate::sessions::effect_context::{EffectContext, TurnOf};
use crate::sessions::lives::record_and_publish;
use crate::{Reader, StoreError};
use recall_domain::ids::{CompactionId, SessionRow, Timestamp};
use recall_domain::lifecycle::{Compactions, LifecycleKind};

record! {
/// A compaction with the agent's summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionRow from "compactions c" {
    pub id: CompactionId = "c.id",
    pub session: SessionRow = "c.session",
    /// The trigger, in the agent's word: `auto`, `manual`.
    pub trigger: String = "c.trigger",
    pub summary: String = "c.summary",
    /// The prompt whose batch contained the compaction.
    pub prompt_number: Option<u32> = "(SELECT prompt_number FROM prompt_batches b WHERE b.id = c.batch)",
    pub at: Timestamp = "c.ended_at",
}
}

const HAS_SUMMARY: &str = "c.summary IS NOT NULL AND c.ended_at IS NOT NULL";

impl Reader<'_> {
    /// The agent's own summaries of a session, in order.
    pub fn compaction_summaries(self, session: SessionRow) -> Result<Vec<CompactionRow>, StoreError> {
        let select = CompactionRow::SELECT;
        let sql = format!("{select} WHERE {HAS_SUMMARY} AND c.session = ?1 ORDER BY c.ended_at, c.id");
        self.0.all(&sql, params![session])
    }
}

/// Returns a compaction that has a summary.
pub(crate) fn compaction(db: &Connection, id: CompactionId) -> Result<Option<CompactionRow>, StoreError> {
    db.first(&format!("{} WHERE {HAS_SUMMARY} AND c.id = ?1", CompactionRow::SELECT), params![id])
}

/// How many messages a conversation had when it was compacted.
pub(crate) struct Messages {
    pub(crate) count: u32,
    pub(crate) since_last: u32,
}

pub(crate) fn begins(
    scene: &EffectContext<'_>,
    turn: TurnOf<'_>,
    trigger: &str,
    messages: Messages,
) -> Result<(), StoreError> {
    let batch = scene.batch_row(turn.seq)?;
    let (event, prompt) = (scene.event.map(|event| event.0), turn.prompt);
    let Messages { count: message_count, since_last: messages_since_last } = messages;
    // The end may have arrived first.
    let end: Option<(CompactionId, bool)> = scene.db.first(
        "SELECT id, started_at IS NULL FROM compactions
         WHERE session = ?1 AND ended_at >= ?2 AND (started_at IS NULL OR started_at <= ?2)
         ORDER BY ended_at, id LIMIT 1",
        params![scene.session(), scene.at],
    )?;
    if let Some((row, true)) = end {
        scene.db.run(
            "UPDATE compactions SET batch = ?2, started_at = ?3, event_id = ?4, prompt_id = ?5 WHERE id = ?1",
            params![row, batch, scene.at.0, event, prompt],
        )?;
    } else {
        scene.db.run(
            "INSERT INTO compactions (session, batch, trigger, message_count, started_at,
                     event_id, prompt_id)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![scene.session(), batch, trigger, message_count, scene.at.0, event, prompt],
        )?;
    }
    if let Some((earlier, false)) = end {
        hand_over_end(scene, earlier, CompactionId(scene.db.last_insert_rowid()))?;
    }
    let compacted_count = ended(scene)?;
    record_and_publish(
        scene,
        LifecycleKind::BeforeCompaction(Compactions { message_count, messages_since_last, compacted_count }),
    )
}

/// The number of compactions that have ended.
fn ended(scene: &EffectContext<'_>) -> Result<u32, StoreError> {
    scene.db.one(
        "SELECT count(*) FROM compactions WHERE session = ?1 AND ended_at IS NOT NULL",
        params![scene.session()],
    )
}

/// Moves the end of one compaction to another.
fn hand_over_end(scene: &EffectContext<'_>, from: CompactionId, to: CompactionId) -> Result<(), StoreError> {
    for sql in [
        "UPDATE compactions SET (ended_at, message_count, messages_since_last, summary, end_event,
                 end_prompt_id) =
            (SELECT ended_at, message_count, messages_since_last, summary, end_event, end_prompt_id
             FROM compactions WHERE id = ?1) WHERE id = ?2",
        "UPDATE compactions SET ended_at = NULL, messages_since_last = NULL, summary = NULL, end_event = NULL,
                end_prompt_id = NULL WHERE id = ?1 AND id <> ?2",
    ] {
        scene.db.run(sql, params![from, to])?;
    }
    log(scene.db, from)?;
    log(scene.db, to)?;
    Ok(())
}

pub(crate) fn ends(
    scene: &EffectContext<'_>,
    turn: TurnOf<'_>,
    trigger: &str,
    messages: Messages,
    summary: Option<&str>,
) -> Result<(), StoreError> {
    let (db, session) = (scene.db, scene.session());
    let batch = scene.batch_row(turn.seq)?;
    let (event, prompt) = (scene.event.map(|event| event.0), turn.prompt);
    let Messages { count: message_count, since_last: messages_since_last } = messages;
    let begun: Option<(CompactionId, Option<Timestamp>)> = db.first(
        "SELECT id, ended_at FROM compactions WHERE session = ?1 AND started_at <= ?2
         ORDER BY started_at DESC, id DESC LIMIT 1",
        params![session, scene.at],
    )?;
    let begun = begun.filter(|(_, ended)| ended.is_none_or(|ended| ended > scene.at));
    let row = if let Some((row, ended)) = begun {
        if ended.is_some() {
            db.run("INSERT INTO compactions (session, batch, trigger, message_count, event_id, prompt_id)
                 SELECT session, batch, trigger, message_count, end_event, end_prompt_id FROM compactions WHERE id = ?1", params![row])?;
            hand_over_end(scene, row, CompactionId(db.last_insert_rowid()))?;
        }
        db.run(
            "UPDATE compactions SET ended_at = ?2, message_count = ?3, messages_since_last = ?4,
                 summary = ?5,
                    end_event = ?6, end_prompt_id = ?7 WHERE id = ?1",
            params![row, scene.at.0, message_count, messages_since_last, summary.map(Packed), event, prompt],
        )?;
        row
    } else {
        db.run(
            "INSERT INTO compactions (session, batch, trigger, ended_at, message_count,
                 messages_since_last, summary,
                                      event_id, prompt_id, end_event, end_prompt_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?8, ?9)",
            params![
                session,
                batch,
                trigger,
                scene.at.0,
                message_count,
                messages_since_last,
                summary.map(Packed),
                event,
                prompt
            ],
        )?;
        CompactionId(db.last_insert_rowid())
    };
    if summary.is_some() {
        log(db, row)?;
    }
    let compacted_count = ended(scene)?;
    record_and_publish(
        scene,
        LifecycleKind::AfterCompaction(Compactions { message_count, messages_since_last, compacted_count }),
    )
}

/// Deletes the agent's summaries of compactions that ended after the event.
pub(crate) fn hide(scene: &EffectContext<'_>) -> Result<(), StoreError> {
    let hidden: Vec<CompactionId> = scene.db.all(
        "UPDATE compactions SET summary = NULL
         WHERE session = ?1 AND ended_at >= ?2 AND summary IS NOT NULL RETURNING id",
        params![scene.session(), scene.at],
    )?;
    hidden.into_iter().try_for_each(|row| log(scene.db, row))
}
