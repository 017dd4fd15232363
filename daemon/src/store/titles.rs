//! What a session is called: as the agent says, else as its summary does.

use rusqlite::{Connection, OptionalExtension, params};

use super::StoreError;
use super::effects::EffectContext;
use super::known::order_of;
use super::operation::log;
use crate::memory::ids::EventId;

/// The agent, or the user in it, names the session. A name that was given later stays.
pub(super) fn set(scene: &EffectContext<'_>, title: &str) -> Result<(), StoreError> {
    let (db, session) = (scene.db, scene.session());
    let Some(event) = scene.event else { return Ok(()) };
    let named_by: Option<[u8; 16]> = db
        .prepare_cached("SELECT named_by FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))?;
    if let Some(before) = named_by
        && let (Some(before), Some(now)) = (order_of(db, EventId(before))?, order_of(db, event)?)
        && now.is_before(&before)
    {
        return Ok(());
    }
    db.prepare_cached("UPDATE sessions SET title = ?2, named_by = ?3 WHERE id = ?1")?
        .execute(params![session, title, event.0])?;
    let changed = db
        .prepare_cached(
            "UPDATE session_summaries SET title = ?2 WHERE session = ?1 AND title <> ?2 RETURNING id",
        )?
        .query_row(params![session, title], |row| row.get::<_, i64>(0))
        .optional()?;
    changed.map_or(Ok(()), |summary| log(db, "summary", summary))
}

/// The title that counts for a session whose summary would call it `made`.
pub(super) fn of_summary(db: &Connection, session: i64, made: &str) -> Result<String, StoreError> {
    let given: Option<String> = db
        .prepare_cached("SELECT title FROM sessions WHERE id = ?1 AND named_by IS NOT NULL")?
        .query_row([session], |row| row.get(0))
        .optional()?
        .flatten();
    Ok(given.unwrap_or_else(|| made.to_owned()))
}
