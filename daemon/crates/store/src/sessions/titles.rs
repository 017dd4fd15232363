//! Titles of sessions: from the agent or else from the summary.

use rusqlite::Connection;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::operation::log;
use crate::sessions::effect_context::EffectContext;
use crate::sessions::known::order_of;
use recall_domain::ids::{EventId, SessionRow, SummaryId};

/// Sets the title given by the agent, or by the user in the agent. A title that was given later stays.
pub(crate) fn set(scene: &EffectContext<'_>, title: &str) -> Result<(), StoreError> {
    let (db, session) = (scene.db, scene.session());
    let Some(event) = scene.event else { return Ok(()) };
    let named_by: Option<[u8; 16]> =
        db.one("SELECT named_by FROM sessions WHERE id = ?1", params![session])?;
    if let Some(before) = named_by
        && let (Some(before), Some(now)) = (order_of(db, EventId(before))?, order_of(db, event)?)
        && now.is_before(&before)
    {
        return Ok(());
    }
    db.run("UPDATE sessions SET title = ?2, named_by = ?3 WHERE id = ?1", params![session, title, event.0])?;
    let changed = db.first::<SummaryId>(
        "UPDATE session_summaries SET title = ?2 WHERE session = ?1 AND title <> ?2 RETURNING id",
        params![session, title],
    )?;
    changed.map_or(Ok(()), |summary| log(db, summary))
}

/// Returns the session's own title, or else `made` from its summary.
pub(crate) fn of_summary(db: &Connection, session: SessionRow, made: &str) -> Result<String, StoreError> {
    let given: Option<String> = db
        .first("SELECT title FROM sessions WHERE id = ?1 AND named_by IS NOT NULL", params![session])?
        .flatten();
    Ok(given.unwrap_or_else(|| made.to_owned()))
}
