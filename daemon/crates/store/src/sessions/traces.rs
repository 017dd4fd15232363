//! Traces that batches leave for later ones: the files they changed, and the checks they left failing.

use std::collections::BTreeSet;

use rusqlite::{Connection, Row};

use crate::database::bind::params;
use crate::database::row::{FromRow, Sql, next};
use crate::notes::subjects::{SubjectHash, file_hash, subjects};
use crate::{Reader, StoreError};
use recall_domain::fixes::{BatchSpan, FailingCheck, FileChange, LeftFailing, Traces};
use recall_domain::ids::{BatchId, EventId, ProjectRow, SessionRow, Timestamp};

/// Where a batch belongs and when it began.
#[derive(Clone, Copy)]
pub(crate) struct Beginning {
    pub(crate) batch: BatchId,
    pub(crate) project: ProjectRow,
    pub(crate) opened_at: Timestamp,
}

/// Replaces the traces of a batch. Returns the affected subjects, old and new.
pub(crate) fn keep_traces(
    db: &Connection,
    begun: Beginning,
    traces: &Traces,
) -> Result<BTreeSet<SubjectHash>, StoreError> {
    let mut concerned = keep_failings(db, begun.batch, &traces.failing)?;
    if keep_changes(db, begun, traces)? == RowChange::Differently {
        // This change may explain a later pass.
        concerned.extend(subjects(
            db,
            "SELECT DISTINCT t.subject FROM sessions s JOIN prompt_batches b ON b.session = s.id
             JOIN settlements t ON t.batch = b.id
             WHERE s.project = ?1 AND s.last_event_at >= ?2 AND b.opened_at >= ?2 AND t.how = 'passed'",
            params![begun.project, begun.opened_at],
        )?);
    }
    Ok(concerned)
}

fn keep_failings(
    db: &Connection,
    batch: BatchId,
    failing: &[LeftFailing],
) -> Result<BTreeSet<SubjectHash>, StoreError> {
    let mut concerned = subjects(db, "SELECT subject FROM failings WHERE batch = ?1", params![batch])?;
    db.run("DELETE FROM failings WHERE batch = ?1", params![batch])?;
    let insert = "INSERT INTO failings (batch, subject, step, event) VALUES (?1, ?2, ?3, ?4)";
    for one in failing {
        let subject = SubjectHash::of(&one.subject);
        db.run(insert, params![batch, subject.0, one.step, one.event.to_string()])?;
        concerned.insert(subject);
    }
    Ok(concerned)
}

/// Whether rows have changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowChange {
    AsBefore,
    Differently,
}

fn keep_changes(db: &Connection, begun: Beginning, traces: &Traces) -> Result<RowChange, StoreError> {
    let Beginning { batch, project, opened_at } = begun;
    let rows = || {
        let sql = "SELECT file, step, event, opened_at FROM changes WHERE batch = ?1 ORDER BY file";
        db.all::<(String, u32, String, i64)>(sql, params![batch])
    };
    let before = rows()?;
    db.run("DELETE FROM changes WHERE batch = ?1", params![batch])?;
    let insert =
        "INSERT INTO changes (batch, file, step, event, project, opened_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    for one in &traces.changed {
        let event = EventId::to_string(&one.event);
        db.run(insert, params![batch, file_hash(&one.path), one.step, event, project, opened_at])?;
    }
    Ok(if rows()? == before { RowChange::AsBefore } else { RowChange::Differently })
}

/// Returns where a check failed in a project.
pub(crate) fn failings(
    db: &Connection,
    project: ProjectRow,
    subject: SubjectHash,
) -> Result<Vec<FailingCheck>, StoreError> {
    let found = db.all(
        "SELECT b.id, b.session, b.seq, b.opened_at, b.closed_at, f.step
         FROM failings f JOIN prompt_batches b ON b.id = f.batch JOIN sessions s ON s.id = b.session
         WHERE f.subject = ?2 AND s.project = ?1",
        params![project, subject.0],
    )?;
    Ok(found.into_iter().map(|(by, step)| FailingCheck { by, step }).collect())
}

impl Reader<'_> {
    /// Returns the sessions that changed a file, given by its path inside the project, latest first.
    pub fn sessions_that_changed(
        self,
        project: ProjectRow,
        path: &str,
        limit: u32,
    ) -> Result<Vec<SessionRow>, StoreError> {
        self.0.all(
            "SELECT b.session FROM changes c JOIN prompt_batches b ON b.id = c.batch
         WHERE c.project = ?1 AND c.file = ?2
         GROUP BY b.session ORDER BY max(c.opened_at) DESC LIMIT ?3",
            params![project, file_hash(path), limit],
        )
    }
}

/// Returns the latest changes of a project before a batch, earliest first.
pub(crate) fn changes_before(
    db: &Connection,
    project: ProjectRow,
    pass: &BatchSpan,
) -> Result<Vec<FileChange>, StoreError> {
    /// The number of changes read; older ones hardly matter.
    const LATEST: u32 = 200;
    let latest = db.all(
        "SELECT b.id, b.session, b.seq, b.opened_at, b.closed_at, c.step, c.file, c.event
         FROM changes c JOIN prompt_batches b ON b.id = c.batch
         WHERE c.project = ?1 AND c.opened_at <= ?2 AND c.batch <> ?3
         ORDER BY c.opened_at DESC, b.session DESC, b.seq DESC, c.step DESC LIMIT ?4",
        params![project, pass.opened, pass.batch, LATEST],
    )?;
    let changes = latest.into_iter().rev();
    Ok(changes.map(|(by, step, file, event)| FileChange { by, step, file, event }).collect())
}

/// Reads a batch's id, session, place, beginning and end.
impl FromRow for BatchSpan {
    const WIDTH: usize = 5;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        let mut at = first;
        Ok(Self {
            batch: next(row, &mut at)?,
            session: next(row, &mut at)?,
            place: next(row, &mut at)?,
            opened: next(row, &mut at)?,
            closed: next(row, &mut at)?,
        })
    }
}
