//! What a prompt that arrived late takes over from the batch before it.

use rusqlite::{Connection, OptionalExtension, params};

use super::StoreError;
use super::text::Unpacked;
use super::writes::log;
use crate::memory::ids::BatchId;
use crate::memory::order::Order;
use crate::memory::session::Content;

/// Moves what was done since, and the answer that was given, unless the agent itself says that it belongs to `from`.
pub(super) fn take_over(
    db: &Connection,
    from: BatchId,
    to: BatchId,
    since: &Order,
    content: Content,
) -> Result<(), StoreError> {
    let boot_ns = i64::try_from(since.boot_ns).unwrap_or(i64::MAX);
    let given = params![from.0, to.0, since.boot, boot_ns, since.wall.0];
    for table in ["activities", "asides"] {
        // Asides carry no turn's id: their batch was found by it.
        let own = if table == "activities" {
            "AND (prompt_id IS NULL OR prompt_id IS NOT (SELECT prompt_id FROM prompt_batches WHERE id = ?1))"
        } else {
            ""
        };
        let sql = format!(
            "UPDATE {table} SET batch = ?2 WHERE batch = ?1 {own} AND EXISTS (SELECT 1 FROM deliveries d
             WHERE d.event_id = {table}.event_id AND iif(d.boot_id = ?3, d.boot_ns >= ?4, d.captured_at >= ?5))"
        );
        db.prepare_cached(&sql)?.execute(given)?;
    }
    move_answer(db, from, to, since)?;
    if content == Content::Hidden {
        hide(db, to)?;
    }
    Ok(())
}

fn move_answer(db: &Connection, from: BatchId, to: BatchId, since: &Order) -> Result<(), StoreError> {
    let boot_ns = i64::try_from(since.boot_ns).unwrap_or(i64::MAX);
    let mut find = db.prepare_cached(
        "SELECT b.response, b.response_event, b.response_turn FROM prompt_batches b
         JOIN deliveries d ON d.event_id = b.response_event
         WHERE b.id = ?1 AND (b.response_turn IS NULL OR b.response_turn IS NOT b.prompt_id)
           AND iif(d.boot_id = ?2, d.boot_ns >= ?3, d.captured_at >= ?4)",
    )?;
    type Given = (rusqlite::types::Value, Vec<u8>, Option<String>);
    let given: Option<Given> = find
        .query_row(params![from.0, since.boot, boot_ns, since.wall.0], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    if let Some((response, event, turn)) = given {
        db.prepare_cached(
            "UPDATE prompt_batches SET response = NULL, response_event = NULL, response_turn = NULL WHERE id = ?1",
        )?
        .execute([from.0])?;
        db.prepare_cached(
            "UPDATE prompt_batches SET response = ?2, response_event = ?3, response_turn = ?4 WHERE id = ?1",
        )?
        .execute(params![to.0, response, event, turn])?;
        log(db, "response", from.0)?;
        log(db, "response", to.0)?;
    }
    answer_kept_aside(db, to)
}

/// An answer whose turn nobody knew was kept as an activity; here is its turn.
fn answer_kept_aside(db: &Connection, to: BatchId) -> Result<(), StoreError> {
    let mut find = db.prepare_cached(
        "SELECT a.input, a.event_id, a.prompt_id FROM activities a JOIN prompt_batches b ON b.id = a.batch
         WHERE a.batch = ?1 AND a.kind = 'other' AND a.tool_name = 'Stop' AND b.response IS NULL
         ORDER BY a.at DESC, a.id DESC LIMIT 1",
    )?;
    let kept = find
        .query_row([to.0], |row| {
            Ok((row.get::<_, Unpacked>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, Option<String>>(2)?))
        })
        .optional()?;
    let Some((Unpacked(text), event, turn)) = kept.filter(|(text, ..)| !text.0.trim().is_empty()) else {
        return Ok(());
    };
    db.prepare_cached(
        "UPDATE prompt_batches SET response = ?2, response_event = ?3, response_turn = ?4 WHERE id = ?1",
    )?
    .execute(params![to.0, super::text::Packed(&text), event, turn])?;
    log(db, "response", to.0)
}

/// Leaves of a batch only that something was done.
fn hide(db: &Connection, batch: BatchId) -> Result<(), StoreError> {
    let mut find = db.prepare_cached("SELECT id FROM activities WHERE batch = ?1")?;
    for activity in find.query_map([batch.0], |row| row.get::<_, i64>(0))? {
        log(db, "activity", activity?)?;
    }
    db.prepare_cached(
        "UPDATE activities SET kind = 'private', input = NULL, response = NULL, failed = 0 WHERE batch = ?1",
    )?
    .execute([batch.0])?;
    db.prepare_cached("DELETE FROM asides WHERE batch = ?1")?.execute([batch.0])?;
    db.prepare_cached("UPDATE prompt_batches SET response = NULL WHERE id = ?1")?.execute([batch.0])?;
    log(db, "response", batch.0)
}
