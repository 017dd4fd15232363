//! What batches leave for later ones to go on from: the files that they changed, and the checks that they left failing.

use std::collections::BTreeSet;

use rusqlite::{Connection, Row, params};

use super::StoreError;
use super::subjects::{SubjectHash, file_hash, subjects};
use crate::memory::fixes::{Change, Failing, LeftFailing, Span, Traces};
use crate::memory::ids::{BatchId, EventId, ProjectRow, SessionRow, Timestamp};

/// Where a batch belongs and when it began.
#[derive(Clone, Copy)]
pub(super) struct Beginning {
    pub(super) batch: i64,
    pub(super) project: i64,
    pub(super) opened_at: i64,
}

/// What the work of a batch leaves: just this. Returns the subjects that are concerned, before or now.
pub(super) fn keep_traces(
    db: &Connection,
    begun: Beginning,
    traces: &Traces,
) -> Result<BTreeSet<SubjectHash>, StoreError> {
    let mut concerned = keep_failings(db, begun.batch, &traces.failing)?;
    if keep_changes(db, begun, traces)? == RowChange::Differently {
        // Whether a later pass is explained may rest on it.
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
    batch: i64,
    failing: &[LeftFailing],
) -> Result<BTreeSet<SubjectHash>, StoreError> {
    let mut concerned = subjects(db, "SELECT subject FROM failings WHERE batch = ?1", [batch])?;
    db.prepare_cached("DELETE FROM failings WHERE batch = ?1")?.execute([batch])?;
    let mut insert =
        db.prepare_cached("INSERT INTO failings (batch, subject, step, event) VALUES (?1, ?2, ?3, ?4)")?;
    for one in failing {
        let subject = SubjectHash::of(&one.subject);
        insert.execute(params![batch, subject.0, one.step, one.event.to_string()])?;
        concerned.insert(subject);
    }
    Ok(concerned)
}

/// Whether rows are other ones than before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowChange {
    AsBefore,
    Differently,
}

fn keep_changes(db: &Connection, begun: Beginning, traces: &Traces) -> Result<RowChange, StoreError> {
    let Beginning { batch, project, opened_at } = begun;
    let rows = || -> Result<Vec<(String, u32, String, i64)>, StoreError> {
        let mut find = db.prepare_cached(
            "SELECT file, step, event, opened_at FROM changes WHERE batch = ?1 ORDER BY file",
        )?;
        let rows = find.query_map([batch], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    };
    let before = rows()?;
    db.prepare_cached("DELETE FROM changes WHERE batch = ?1")?.execute([batch])?;
    let mut insert = db.prepare_cached(
        "INSERT INTO changes (batch, file, step, event, project, opened_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for one in &traces.changed {
        let event = EventId::to_string(&one.event);
        insert.execute(params![batch, file_hash(&one.path), one.step, event, project, opened_at])?;
    }
    Ok(if rows()? == before { RowChange::AsBefore } else { RowChange::Differently })
}

/// Where a check failed in a project.
pub(super) fn failings(
    db: &Connection,
    project: ProjectRow,
    subject: SubjectHash,
) -> Result<Vec<Failing>, StoreError> {
    let mut find = db.prepare_cached(
        "SELECT b.id, b.session, b.seq, b.opened_at, b.closed_at, f.step
         FROM failings f JOIN prompt_batches b ON b.id = f.batch JOIN sessions s ON s.id = b.session
         WHERE f.subject = ?2 AND s.project = ?1",
    )?;
    let rows = find
        .query_map(params![project.0, subject.0], |row| Ok(Failing { by: span(row)?, step: row.get(5)? }))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The latest changes of a project before a batch, the earliest first.
pub(super) fn changes_before(
    db: &Connection,
    project: ProjectRow,
    pass: &Span,
) -> Result<Vec<Change>, StoreError> {
    /// What was changed further back has hardly to do with it.
    const LATEST: u32 = 200;
    let mut find = db.prepare_cached(
        "SELECT b.id, b.session, b.seq, b.opened_at, b.closed_at, c.step, c.file, c.event
         FROM changes c JOIN prompt_batches b ON b.id = c.batch
         WHERE c.project = ?1 AND c.opened_at <= ?2 AND c.batch <> ?3
         ORDER BY c.opened_at DESC, b.session DESC, b.seq DESC, c.step DESC LIMIT ?4",
    )?;
    let rows = find.query_map(params![project.0, pass.opened.0, pass.batch.0, LATEST], |row| {
        Ok(Change { by: span(row)?, step: row.get(5)?, file: row.get(6)?, event: row.get(7)? })
    })?;
    let mut latest = rows.collect::<Result<Vec<_>, _>>()?;
    latest.reverse();
    Ok(latest)
}

/// The first five columns of a row: a batch's number, session, place, beginning and end.
pub(super) fn span(row: &Row<'_>) -> rusqlite::Result<Span> {
    Ok(Span {
        batch: BatchId(row.get(0)?),
        session: SessionRow(row.get(1)?),
        place: row.get(2)?,
        opened: Timestamp(row.get(3)?),
        closed: row.get::<_, Option<i64>>(4)?.map(Timestamp),
    })
}
