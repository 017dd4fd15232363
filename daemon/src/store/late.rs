//! What a prompt that arrived late takes over from the batch before it, and what is kept for one that may still come.

use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::StoreError;
use super::text::{Packed, Unpacked};
use super::writes::log;
use crate::memory::ids::{BatchId, PromptId, Timestamp};
use crate::memory::order::Order;
use crate::memory::session::{Content, NewPrompt};

/// Moves what was done since, and the answer that was given, unless the agent itself says that it belongs to `from`.
pub(super) fn take_over(
    db: &Connection,
    (from, to): (BatchId, BatchId),
    period: (&Order, Option<&Order>),
    content: Content,
) -> Result<(), StoreError> {
    for table in ["activities", "asides"] {
        // Asides carry no turn's id: their batch was found by it.
        let (own, event) = if table == "activities" {
            (
                "AND (prompt_id IS NULL OR prompt_id IS NOT (SELECT prompt_id FROM prompt_batches WHERE id = ?1))",
                "ifnull(activities.part_of, activities.event_id)",
            )
        } else {
            ("", "asides.event_id")
        };
        let sql = format!(
            "UPDATE {table} SET batch = ?2 WHERE batch = ?1 {own} AND EXISTS (SELECT 1 FROM deliveries d
             WHERE d.event_id = {event} AND {IN_PERIOD})"
        );
        let mut statement = db.prepare_cached(&sql)?;
        bind_period(&mut statement, period)?;
        statement.raw_bind_parameter(1, from.0)?;
        statement.raw_bind_parameter(2, to.0)?;
        statement.raw_execute()?;
    }
    move_answer(db, from, to, period)?;
    if content == Content::Hidden {
        hide(db, to)?;
    }
    Ok(())
}

/// Whether the delivery `d` fell into the period of [`bind_period`].
const IN_PERIOD: &str = "iif(d.boot_id = ?3, d.boot_ns >= ?4, d.captured_at >= ?5)
    AND (?6 IS NULL OR iif(d.boot_id = ?6, d.boot_ns < ?7, d.captured_at < ?8))";

fn bind_period(
    statement: &mut Statement<'_>,
    (since, until): (&Order, Option<&Order>),
) -> rusqlite::Result<()> {
    for (first, moment) in [(3, Some(since)), (6, until)] {
        let boot_ns = moment.map(|moment| i64::try_from(moment.boot_ns).unwrap_or(i64::MAX));
        statement.raw_bind_parameter(first, moment.map(|moment| moment.boot))?;
        statement.raw_bind_parameter(first + 1, boot_ns)?;
        statement.raw_bind_parameter(first + 2, moment.map(|moment| moment.wall.0))?;
    }
    Ok(())
}

fn move_answer(
    db: &Connection,
    from: BatchId,
    to: BatchId,
    period: (&Order, Option<&Order>),
) -> Result<(), StoreError> {
    let mut find = db.prepare_cached(&format!(
        "SELECT b.response, b.response_event, b.response_turn FROM prompt_batches b
         JOIN deliveries d ON d.event_id = b.response_event
         WHERE b.id = ?1 AND (b.response_turn IS NULL OR b.response_turn IS NOT b.prompt_id)
           AND {IN_PERIOD}"
    ))?;
    bind_period(&mut find, period)?;
    find.raw_bind_parameter(1, from.0)?;
    type Given = (rusqlite::types::Value, Vec<u8>, Option<String>);
    let given: Option<Given> = {
        let mut rows = find.raw_query();
        rows.next()?
            .map(|row| Ok::<_, rusqlite::Error>((row.get(0)?, row.get(1)?, row.get(2)?)))
            .transpose()?
    };
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
    // What is left of the batch before may have had an answer of its own.
    answer_kept_aside(db, from)?;
    answer_kept_aside(db, to)
}

/// Keeps the answer that another turn's is about to replace: its prompt may still be on its way.
pub(super) fn keep_replaced_answer(
    db: &Connection,
    batch: BatchId,
    by: Option<&PromptId>,
) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT INTO activities (session, batch, event_id, kind, tool_name, prompt_id, failed, input, at)
         SELECT b.session, b.id, b.response_event, 'other', 'Stop', b.response_turn, 0, b.response, d.captured_at
         FROM prompt_batches b JOIN deliveries d ON d.event_id = b.response_event
         WHERE b.id = ?1 AND b.response IS NOT NULL AND (?2 IS NULL OR b.response_turn IS NOT ?2)
         ON CONFLICT (event_id) DO NOTHING",
    )?
    .execute(params![batch.0, by.map(PromptId::as_str)])?;
    Ok(())
}

/// Makes the recovery batch the batch of the prompt that has arrived after what it asked for.
pub(super) fn adopt_recovery(
    db: &Connection,
    session: i64,
    batch: BatchId,
    (number, source, prompt_id, prompt): (u32, &str, Option<&PromptId>, &NewPrompt),
    content: Content,
    at: Timestamp,
) -> Result<(), StoreError> {
    db.prepare_cached(
        "UPDATE prompt_batches SET prompt_number = ?2, source = ?3, prompt_id = ?4, prompt = ?5, prompt_event = ?6,
                opened_at = ?7 WHERE id = ?1",
    )?
    .execute(params![
        batch.0,
        number,
        source,
        prompt_id.map(PromptId::as_str),
        prompt.text.as_deref().map(Packed),
        prompt.event.0,
        at.0
    ])?;
    db.prepare_cached("UPDATE sessions SET prompts = max(prompts, ?2) WHERE id = ?1")?
        .execute(params![session, number])?;
    match content {
        Content::Kept => log(db, "prompt", batch.0),
        Content::Hidden => hide(db, batch),
    }
}

/// An answer whose turn nobody knew was kept as an activity; here is its turn.
fn answer_kept_aside(db: &Connection, to: BatchId) -> Result<(), StoreError> {
    let mut find = db.prepare_cached(
        "SELECT a.input, a.event_id, a.prompt_id FROM activities a JOIN prompt_batches b ON b.id = a.batch
         JOIN deliveries d ON d.event_id = a.event_id
         WHERE a.batch = ?1 AND a.kind = 'other' AND a.tool_name = 'Stop' AND b.response_event IS NULL
           AND (a.prompt_id IS NULL OR a.prompt_id IS b.prompt_id OR NOT EXISTS
                (SELECT 1 FROM prompt_batches o WHERE o.session = b.session AND o.prompt_id = a.prompt_id))
         ORDER BY a.prompt_id IS NOT NULL AND a.prompt_id IS b.prompt_id DESC, a.at DESC, d.boot_ns DESC, a.id DESC
         LIMIT 1",
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
    .execute(params![to.0, Packed(&text), event, turn])?;
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
    super::subagents::hide(db, batch)?;
    super::plans::hide(db, batch)?;
    super::file_notes::hide(db, batch)?;
    db.prepare_cached("UPDATE compactions SET summary = NULL WHERE batch = ?1")?.execute([batch.0])?;
    db.prepare_cached(
        "UPDATE prompt_batches SET response = NULL, branch = NULL, head_commit = NULL, base_commit = NULL WHERE id = ?1",
    )?
    .execute([batch.0])?;
    log(db, "response", batch.0)
}
