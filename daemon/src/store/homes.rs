//! A session that turns out to run elsewhere: an event arrives late that was taken before the one that decided.
//!
//! What stands in the session goes with it. What was made of its batches was made for another project, beside other
//! observations and with paths relative to another folder: it is taken back, and made anew.

use rusqlite::{Connection, params};

use super::jobs::{self, JobKind};
use super::operation::{WriteContext, log};
use super::writes::{StoredEvent, Transaction};
use super::{StoreError, projects, results};
use crate::memory::ids::{BatchId, Timestamp};
use crate::memory::material::beneath;

/// Lets the transaction's event decide where its session runs.
pub(super) fn move_to(
    db: &WriteContext<'_>,
    stored: StoredEvent,
    transaction: &Transaction,
) -> Result<StoredEvent, StoreError> {
    let (origin, delivery) = (&transaction.origin, &transaction.delivery);
    let session = stored.session.0;
    let before: Option<String> = db
        .prepare_cached("SELECT root FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))?;
    let project = projects::resolve(db, &origin.project, &origin.project_name, delivery.captured_at)?;
    if let Some(alias) = &origin.alias {
        projects::rename(db, project, alias)?;
    }
    let moves = project != stored.project || before != origin.root;
    let made = if moves { made_batches(db, session)? } else { Vec::new() };
    for batch in &made {
        results::take_back(db, (session, batch.0))?;
    }
    db.prepare_cached("UPDATE sessions SET project = ?2, root = ?3, home_event = ?4 WHERE id = ?1")?
        .execute(params![session, project.0, origin.root, delivery.event.0])?;
    if moves {
        move_rewrites(db, session, before.as_deref(), origin.root.as_deref())?;
        make_anew(db, session, &made, delivery.captured_at)?;
    }
    if project != stored.project {
        db.prepare_cached("UPDATE session_summaries SET project = ?2 WHERE session = ?1")?
            .execute([session, project.0])?;
        find_anew(db, session)?;
    }
    Ok(StoredEvent { project, ..stored })
}

/// Batches of which something was made, or is to be.
fn made_batches(db: &Connection, session: i64) -> Result<Vec<BatchId>, StoreError> {
    let mut find = db.prepare_cached(
        "SELECT id FROM prompt_batches WHERE session = ?1 AND source <> 'private'
            AND (status = 'closed' OR compressed_at IS NOT NULL) ORDER BY prompt_number, seq",
    )?;
    Ok(find.query_map([session], |row| row.get(0).map(BatchId))?.collect::<Result<_, _>>()?)
}

fn make_anew(db: &WriteContext<'_>, session: i64, made: &[BatchId], at: Timestamp) -> Result<(), StoreError> {
    for batch in made {
        jobs::enqueue(db, JobKind::Batch, session, Some(*batch), at)?;
    }
    if made.is_empty() { Ok(()) } else { jobs::enqueue(db, JobKind::Summary, session, None, at) }
}

/// Files that were written as a whole, relative to another folder now; what lies outside it is nobody's memory.
fn move_rewrites(
    db: &Connection,
    session: i64,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<(), StoreError> {
    let mut find = db.prepare_cached(
        "SELECT r.activity, r.path FROM file_rewrites r JOIN activities a ON a.id = r.activity WHERE a.session = ?1",
    )?;
    let rows = find.query_map([session], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    for (activity, path) in rows.collect::<Result<Vec<_>, _>>()? {
        let whole = from.map_or_else(|| path.clone(), |from| format!("{from}/{path}"));
        let moved = beneath(&whole, to);
        let sql = match moved {
            Some(_) => "UPDATE file_rewrites SET path = ?2 WHERE activity = ?1",
            None => "DELETE FROM file_rewrites WHERE activity = ?1 AND ?2 IS NULL",
        };
        db.prepare_cached(sql)?.execute(params![activity, moved])?;
    }
    Ok(())
}

/// What is found of the session is found under its project.
fn find_anew(db: &WriteContext<'_>, session: i64) -> Result<(), StoreError> {
    for (kind, sql) in [
        ("prompt", "SELECT id FROM prompt_batches WHERE session = ?1 AND prompt IS NOT NULL"),
        ("response", "SELECT id FROM prompt_batches WHERE session = ?1 AND response IS NOT NULL"),
        ("activity", "SELECT id FROM activities WHERE session = ?1 AND kind = 'tool'"),
        ("plan", "SELECT id FROM plans WHERE session = ?1"),
        ("compaction", "SELECT id FROM compactions WHERE session = ?1 AND summary IS NOT NULL"),
        ("summary", "SELECT id FROM session_summaries WHERE session = ?1"),
    ] {
        let mut find = db.prepare_cached(sql)?;
        for row in find.query_map([session], |row| row.get::<_, i64>(0))? {
            log(db, kind, row?)?;
        }
    }
    Ok(())
}
