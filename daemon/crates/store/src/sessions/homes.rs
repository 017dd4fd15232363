//! Moves a session to another project when a late event was captured before the one that decided the project.
//!
//! The session's rows move along. Observations were made for the other project, with paths relative to its folder, so
//! they are deleted and made again.

use rusqlite::Connection;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::jobs::job_kind::JobKind;
use crate::jobs::queue;
use crate::notes::results;
use crate::operation::{WriteContext, log};
use crate::questions::projects;
use crate::sessions::delivery::{Delivery, SessionOrigin};
use crate::sessions::effect_context::StoredEvent;
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{ActivityId, BatchId, SessionRow, Timestamp};
use recall_domain::material::ProjectFolder;

/// Makes the event decide where its session runs.
pub(crate) fn move_to(
    db: &WriteContext<'_>,
    stored: StoredEvent,
    origin: &SessionOrigin,
    delivery: &Delivery,
    work_trees: &'static [&'static str],
) -> Result<StoredEvent, StoreError> {
    let session = stored.session;
    let before: Option<String> = db.one("SELECT root FROM sessions WHERE id = ?1", params![session])?;
    let project = projects::resolve_folder(db, &origin.project, &origin.project_name, delivery.captured_at)?;
    if let Some(alias) = &origin.alias {
        projects::rename(db, project, alias)?;
    }
    let moves = project != stored.project || before != origin.root;
    let made = if moves { made_batches(db, session)? } else { Vec::new() };
    for batch in &made {
        results::take_back(db, *batch)?;
    }
    db.run(
        "UPDATE sessions SET project = ?2, root = ?3, home_event = ?4 WHERE id = ?1",
        params![session, project.0, origin.root, delivery.event.0],
    )?;
    if moves {
        let to = ProjectFolder { root: origin.root.as_deref(), work_trees };
        move_rewrites(db, session, before.as_deref(), to)?;
        enqueue_again(db, session, &made, delivery.captured_at)?;
    }
    if project != stored.project {
        db.run("UPDATE session_summaries SET project = ?2 WHERE session = ?1", params![session, project])?;
        reindex_documents(db, session)?;
    }
    Ok(StoredEvent { project, ..stored })
}

/// Returns batches that were compressed or are queued.
fn made_batches(db: &Connection, session: SessionRow) -> Result<Vec<BatchId>, StoreError> {
    db.all::<BatchId>(
        "SELECT id FROM prompt_batches WHERE session = ?1 AND source <> 'private'
            AND (status = 'closed' OR compressed_at IS NOT NULL) ORDER BY prompt_number, seq",
        params![session],
    )
}

fn enqueue_again(
    db: &WriteContext<'_>,
    session: SessionRow,
    made: &[BatchId],
    at: Timestamp,
) -> Result<(), StoreError> {
    for batch in made {
        queue::enqueue(db, JobKind::Batch, session, Some(*batch), at)?;
    }
    if made.is_empty() { Ok(()) } else { queue::enqueue(db, JobKind::Summary, session, None, at) }
}

/// Makes the recorded paths relative to the new folder, and deletes those outside it.
fn move_rewrites(
    db: &Connection,
    session: SessionRow,
    from: Option<&str>,
    to: ProjectFolder<'_>,
) -> Result<(), StoreError> {
    let rewrites: Vec<(ActivityId, String)> = db.all(
        "SELECT r.activity, r.path FROM file_rewrites r JOIN activities a ON a.id = r.activity WHERE
                 a.session = ?1",
        params![session],
    )?;
    for (activity, path) in rewrites {
        let whole = from.map_or_else(|| path.clone(), |from| format!("{from}/{path}"));
        let moved = to.beneath(&whole);
        let sql = match moved {
            Some(_) => "UPDATE file_rewrites SET path = ?2 WHERE activity = ?1",
            None => "DELETE FROM file_rewrites WHERE activity = ?1 AND ?2 IS NULL",
        };
        db.run(sql, params![activity, moved])?;
    }
    Ok(())
}

/// Reindexes the session's documents under the new project.
fn reindex_documents(db: &WriteContext<'_>, session: SessionRow) -> Result<(), StoreError> {
    for (kind, sql) in [
        (DocumentKind::Prompt, "SELECT id FROM prompt_batches WHERE session = ?1 AND prompt IS NOT NULL"),
        (DocumentKind::Response, "SELECT id FROM prompt_batches WHERE session = ?1 AND response IS NOT NULL"),
        (DocumentKind::Activity, "SELECT id FROM activities WHERE session = ?1 AND kind = 'tool'"),
        (DocumentKind::Plan, "SELECT id FROM plans WHERE session = ?1"),
        (DocumentKind::Compaction, "SELECT id FROM compactions WHERE session = ?1 AND summary IS NOT NULL"),
        (DocumentKind::Summary, "SELECT id FROM session_summaries WHERE session = ?1"),
    ] {
        for row in db.all(sql, params![session])? {
            log(db, DocumentKey { kind, row })?;
        }
    }
    Ok(())
}
