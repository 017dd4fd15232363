//! The queue of compression work, and the rows that its results become.
//!
//! A job is leased, not taken: its row stays until the result is committed in the same transaction that marks it
//! done, so a worker that dies costs an attempt and nothing else.

use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::writes::log;
use super::{StoreError, forgetting};
use crate::faults::{self, Fault, Point, planted};
use crate::memory::ids::{AgentName, BatchId, EventId, JobId, SessionId, SessionKey, SessionRow, Timestamp};
use crate::memory::observation::{ObservationDraft, SummaryDraft};

/// What is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// The observations of one batch.
    Batch,
    /// The summary of one session.
    Summary,
}

impl JobKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Summary => "summary",
        }
    }
}

/// A job in a worker's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedJob {
    pub id: JobId,
    pub kind: JobKind,
    pub session: SessionKey,
    pub session_row: SessionRow,
    /// Set for a batch's job.
    pub batch: Option<BatchId>,
    /// This one included.
    pub attempts: u32,
}

/// A job's result on its way into the store.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedJob {
    pub job: JobId,
    pub result: JobResult,
    /// Who made it, e.g. `extractive`.
    pub origin: String,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub enum JobResult {
    /// They replace what the same batch had before. `source_tokens`: what reading the batch itself would cost.
    Observations {
        drafts: Vec<ObservationDraft>,
        source_tokens: i64,
    },
    Summary(Option<SummaryDraft>),
}

/// A job that did not succeed this time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFailure {
    pub job: JobId,
    pub error: String,
    /// When to try again; `None`: never, it is parked as dead.
    pub retry_at: Option<Timestamp>,
    pub now: Timestamp,
}

/// A job as `recall ctl jobs` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    pub id: JobId,
    pub kind: String,
    pub session: SessionId,
    pub status: String,
    pub attempts: u32,
    pub error: Option<String>,
}

/// Asks for work. Asked for while it waits it is the same work; while it runs it will be done once more.
pub(super) fn enqueue(
    db: &Connection,
    kind: JobKind,
    session: i64,
    batch: Option<BatchId>,
    at: Timestamp,
) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT INTO jobs (kind, session, batch, status, created_at) VALUES (?1, ?2, ?3, 'pending', ?4)
         ON CONFLICT DO UPDATE SET again = (status = 'running')",
    )?
    .execute(params![kind.as_str(), session, batch.map(|batch| batch.0), at.0])?;
    Ok(())
}

pub(super) fn lease(
    db: &Connection,
    worker: &str,
    now: Timestamp,
    until: Timestamp,
) -> Result<Option<LeasedJob>, StoreError> {
    if planted(Fault::NoLease) {
        release(db)?;
    }
    // A summary waits for the observations of its session's batches, so that it is made once and not for each.
    let mut oldest = db.prepare_cached(
        "SELECT j.id, j.kind, j.session, j.batch, j.attempts + 1, s.agent, s.session_id
         FROM jobs j JOIN sessions s ON s.id = j.session
         WHERE j.status IN ('pending', 'retrying') AND j.not_before <= ?1
           AND NOT (j.kind = 'summary' AND EXISTS (
                SELECT 1 FROM jobs b WHERE b.session = j.session AND b.kind = 'batch' AND b.status IN ('pending', 'running')))
         ORDER BY j.id LIMIT 1",
    )?;
    let job = oldest
        .query_row([now.0], |row| {
            let kind: String = row.get(1)?;
            Ok(LeasedJob {
                id: JobId(row.get(0)?),
                kind: if kind == "summary" { JobKind::Summary } else { JobKind::Batch },
                session: SessionKey { agent: AgentName(row.get(5)?), id: SessionId(row.get(6)?) },
                session_row: SessionRow(row.get(2)?),
                batch: row.get::<_, Option<i64>>(3)?.map(BatchId),
                attempts: row.get(4)?,
            })
        })
        .optional()?;
    if let Some(job) = &job {
        db.prepare_cached(
            "UPDATE jobs SET status = 'running', worker = ?2, lease_until = ?3, attempts = ?4, again = 0 WHERE id = ?1",
        )?
        .execute(params![job.id.0, worker, until.0, job.attempts])?;
    }
    Ok(job)
}

/// Stores a result and marks its job done. A job that is no longer running was given to somebody else meanwhile:
/// this result comes too late and is dropped.
pub(super) fn finish(db: &Connection, finished: &FinishedJob) -> Result<(), StoreError> {
    let mut find =
        db.prepare_cached("SELECT session, batch, again FROM jobs WHERE id = ?1 AND status = 'running'")?;
    let job = find
        .query_row([finished.job.0], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, bool>(2)?))
        })
        .optional()?;
    let Some((session, batch, again)) = job else { return Ok(()) };
    match (&finished.result, batch) {
        (JobResult::Observations { drafts, source_tokens }, Some(batch)) => {
            replace_observations(db, finished, (session, batch), drafts, *source_tokens)?;
        }
        (JobResult::Summary(Some(summary)), _) => keep_summary(db, finished, session, summary)?,
        (JobResult::Summary(None) | JobResult::Observations { .. }, _) => {}
    }
    faults::reach_disk(Point::Result)?;
    let status = if again { "pending" } else { "done" };
    db.prepare_cached(
        "UPDATE jobs SET status = ?2, finished_at = ?3, worker = NULL, lease_until = NULL, error = NULL, again = 0,
                attempts = iif(?2 = 'pending', 0, attempts) WHERE id = ?1",
    )?
    .execute(params![finished.job.0, status, finished.now.0])?;
    Ok(())
}

pub(super) fn fail(db: &Connection, failure: &JobFailure) -> Result<(), StoreError> {
    let status = if failure.retry_at.is_some() { "retrying" } else { "dead" };
    db.prepare_cached(
        "UPDATE jobs SET status = ?2, error = ?3, not_before = ?4, finished_at = iif(?2 = 'dead', ?5, NULL),
                worker = NULL, lease_until = NULL WHERE id = ?1 AND status = 'running'",
    )?
    .execute(params![
        failure.job.0,
        status,
        failure.error,
        failure.retry_at.map_or(0, |at| at.0),
        failure.now.0
    ])?;
    Ok(())
}

pub(super) fn give_back(
    db: &Connection,
    worker: &str,
    error: &str,
    (retry_at, max_attempts, now): (Timestamp, u32, Timestamp),
) -> Result<(), StoreError> {
    db.prepare_cached(
        "UPDATE jobs SET status = iif(attempts >= ?4, 'dead', 'retrying'), error = ?2, not_before = ?3,
                finished_at = iif(attempts >= ?4, ?5, NULL), worker = NULL, lease_until = NULL
         WHERE worker = ?1 AND status = 'running'",
    )?
    .execute(params![worker, error, retry_at.0, max_attempts, now.0])?;
    Ok(())
}

pub(super) fn expire(db: &Connection, now: Timestamp) -> Result<(), StoreError> {
    db.prepare_cached(
        "UPDATE jobs SET status = 'pending', worker = NULL, lease_until = NULL
         WHERE status = 'running' AND lease_until < ?1",
    )?
    .execute([now.0])?;
    Ok(())
}

pub(super) fn release(db: &Connection) -> Result<(), StoreError> {
    db.execute(
        "UPDATE jobs SET status = 'pending', worker = NULL, lease_until = NULL WHERE status = 'running'",
        [],
    )?;
    Ok(())
}

/// Forgets jobs that were done before a moment. Dead ones stay: somebody may want to see or retry them.
pub(super) fn forget_done(db: &Connection, before: Timestamp) -> Result<(), StoreError> {
    db.prepare_cached("DELETE FROM jobs WHERE status = 'done' AND finished_at < ?1")?.execute([before.0])?;
    Ok(())
}

/// Makes the batch's observations be just these. One that was there under the same title keeps its number, for
/// somebody may have cited it; one that another session of the project already made gets this evidence too.
fn replace_observations(
    db: &Connection,
    finished: &FinishedJob,
    (session, batch): (i64, i64),
    drafts: &[ObservationDraft],
    source_tokens: i64,
) -> Result<(), StoreError> {
    let (project, at): (i64, i64) = db
        .prepare_cached(
            "SELECT s.project, ifnull(b.closed_at, b.opened_at)
             FROM prompt_batches b JOIN sessions s ON s.id = b.session WHERE b.id = ?1",
        )?
        .query_row([batch], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let place = Place { session: Some(session), batch: Some(batch), project, at };
    let share = source_tokens / i64::try_from(drafts.len().max(1)).unwrap_or(1);
    let mut kept = Vec::new();
    for draft in drafts {
        let mut same = db.prepare_cached(
            "SELECT id, batch IS ?3 FROM observations WHERE project = ?1 AND title = ?2
               AND (status = 'active' OR (status = 'resolved' AND batch IS ?3))
             ORDER BY batch IS ?3 DESC, id LIMIT 1",
        )?;
        let known = same
            .query_row(params![project, draft.title, batch], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?))
            })
            .optional()?;
        if known.is_none() && forgetting::was_forgotten(db, (session, batch), draft)? {
            continue;
        }
        let saved = (share - tokens_of(draft)).max(0);
        let id = match known {
            Some((id, true)) => rewrite(db, id, draft, &finished.origin, saved)?,
            Some((id, false)) => merge(db, id, session, draft)?,
            None => insert(db, &place, draft, &finished.origin, saved)?,
        };
        kept.push(id);
        log(db, "observation", id)?;
    }
    let mut others =
        db.prepare_cached("SELECT id FROM observations WHERE batch = ?1 AND origin <> 'user'")?;
    let others = others.query_map([batch], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>, _>>()?;
    for gone in others.into_iter().filter(|id| !kept.contains(id)) {
        db.prepare_cached("DELETE FROM observations WHERE id = ?1")?.execute([gone])?;
        log(db, "observation", gone)?;
    }
    Ok(())
}

/// Where an observation belongs.
pub(super) struct Place {
    pub(super) session: Option<i64>,
    pub(super) batch: Option<i64>,
    pub(super) project: i64,
    pub(super) at: i64,
}

/// What a reader pays for the observation, by the usual four characters to a token.
fn tokens_of(draft: &ObservationDraft) -> i64 {
    let length =
        draft.title.len() + draft.narrative.len() + draft.facts.iter().map(String::len).sum::<usize>();
    i64::try_from(length / 4).unwrap_or(i64::MAX)
}

pub(super) fn insert(
    db: &Connection,
    place: &Place,
    draft: &ObservationDraft,
    origin: &str,
    saved: i64,
) -> Result<i64, StoreError> {
    db.prepare_cached(
        "INSERT INTO observations (uuid, session, batch, project, type, title, subtitle, narrative, facts, concepts,
                files_read, files_modified, importance, evidence, origin, tokens_saved, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )?
    .execute(params![
        Uuid::now_v7().to_string(),
        place.session,
        place.batch,
        place.project,
        draft.kind.as_str(),
        draft.title,
        draft.subtitle,
        draft.narrative,
        serde_json::to_string(&draft.facts)?,
        serde_json::to_string(&draft.concepts)?,
        serde_json::to_string(&draft.files_read)?,
        serde_json::to_string(&draft.files_modified)?,
        draft.importance.get(),
        evidence_json(&draft.evidence)?,
        origin,
        saved,
        place.at,
    ])?;
    let id = db.last_insert_rowid();
    keep_files(db, id, draft)?;
    Ok(id)
}

fn rewrite(
    db: &Connection,
    id: i64,
    draft: &ObservationDraft,
    origin: &str,
    saved: i64,
) -> Result<i64, StoreError> {
    db.prepare_cached(
        "UPDATE observations SET type = ?2, subtitle = ?3, narrative = ?4, facts = ?5, concepts = ?6, files_read = ?7,
                files_modified = ?8, importance = ?9, evidence = ?10, origin = ?11, tokens_saved = ?12 WHERE id = ?1",
    )?
    .execute(params![
        id,
        draft.kind.as_str(),
        draft.subtitle,
        draft.narrative,
        serde_json::to_string(&draft.facts)?,
        serde_json::to_string(&draft.concepts)?,
        serde_json::to_string(&draft.files_read)?,
        serde_json::to_string(&draft.files_modified)?,
        draft.importance.get(),
        evidence_json(&draft.evidence)?,
        origin,
        saved,
    ])?;
    db.prepare_cached("DELETE FROM observation_files WHERE observation = ?1")?.execute([id])?;
    keep_files(db, id, draft)?;
    Ok(id)
}

fn merge(db: &Connection, id: i64, session: i64, draft: &ObservationDraft) -> Result<i64, StoreError> {
    let known: String = db
        .prepare_cached("SELECT evidence FROM observations WHERE id = ?1")?
        .query_row([id], |row| row.get(0))?;
    let mut evidence: Vec<String> = serde_json::from_str(&known)?;
    for event in draft.evidence.iter().map(EventId::to_string) {
        if !evidence.contains(&event) {
            evidence.push(event);
        }
    }
    db.prepare_cached(
        "UPDATE observations SET evidence = ?2, importance = max(importance, ?3) WHERE id = ?1",
    )?
    .execute(params![id, serde_json::to_string(&evidence)?, draft.importance.get()])?;
    db.prepare_cached("INSERT OR IGNORE INTO observation_sessions (observation, session) VALUES (?1, ?2)")?
        .execute(params![id, session])?;
    keep_files(db, id, draft)?;
    Ok(id)
}

fn keep_files(db: &Connection, id: i64, draft: &ObservationDraft) -> Result<(), StoreError> {
    let mut insert = db.prepare_cached(
        "INSERT OR IGNORE INTO observation_files (observation, path, use) VALUES (?1, ?2, ?3)",
    )?;
    for (paths, purpose) in [(&draft.files_read, "read"), (&draft.files_modified, "modified")] {
        for path in paths {
            insert.execute(params![id, path, purpose])?;
        }
    }
    Ok(())
}

fn evidence_json(evidence: &[EventId]) -> Result<String, StoreError> {
    Ok(serde_json::to_string(&evidence.iter().map(EventId::to_string).collect::<Vec<_>>())?)
}

fn keep_summary(
    db: &Connection,
    finished: &FinishedJob,
    session: i64,
    summary: &SummaryDraft,
) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT INTO session_summaries (session, project, title, request, investigated, learned, completed, next_steps,
                notes, origin, created_at)
         SELECT id, project, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, last_event_at FROM sessions WHERE id = ?1
         ON CONFLICT (session) DO UPDATE SET title = excluded.title, request = excluded.request,
                investigated = excluded.investigated, learned = excluded.learned, completed = excluded.completed,
                next_steps = excluded.next_steps, notes = excluded.notes, origin = excluded.origin,
                created_at = excluded.created_at",
    )?
    .execute(params![
        session,
        summary.title,
        summary.request,
        summary.investigated,
        summary.learned,
        summary.completed,
        summary.next_steps,
        summary.notes,
        finished.origin,
    ])?;
    let row: i64 = db
        .prepare_cached("SELECT id FROM session_summaries WHERE session = ?1")?
        .query_row([session], |row| row.get(0))?;
    log(db, "summary", row)?;
    db.prepare_cached("UPDATE sessions SET title = ?2 WHERE id = ?1")?
        .execute(params![session, summary.title])?;
    Ok(())
}

/// The newest jobs first.
///
/// # Errors
/// When the database refuses.
pub fn jobs(db: &Connection, since: Option<Timestamp>, limit: u32) -> Result<Vec<JobRow>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT j.id, j.kind, s.session_id, j.status, j.attempts, j.error
         FROM jobs j JOIN sessions s ON s.id = j.session WHERE j.created_at >= ?1 ORDER BY j.id DESC LIMIT ?2",
    )?;
    let rows = statement.query_map(params![since.map_or(i64::MIN, |since| since.0), limit], |row| {
        Ok(JobRow {
            id: JobId(row.get(0)?),
            kind: row.get(1)?,
            session: SessionId(row.get(2)?),
            status: row.get(3)?,
            attempts: row.get(4)?,
            error: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// How many jobs still owe their first result.
///
/// # Errors
/// When the database refuses.
pub fn unfinished_jobs(db: &Connection) -> Result<i64, StoreError> {
    let mut statement =
        db.prepare_cached("SELECT count(*) FROM jobs WHERE status IN ('pending', 'running')")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Durability, Write, execute, open_writer};

    #[test]
    fn only_old_done_jobs_are_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let db = open_writer(&home.path().join("recall.db"), home.path(), Durability::Full).unwrap();
        db.execute_batch(
            "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0);
             INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
             VALUES (1, 'claude-code', 's1', 1, 'active', 1, 0, 0);
             INSERT INTO jobs (id, kind, session, status, created_at, finished_at)
             VALUES (1, 'summary', 1, 'done', 0, 99), (2, 'summary', 1, 'done', 0, 100), (3, 'summary', 1, 'dead', 0, 1),
                    (4, 'summary', 1, 'pending', 0, NULL)",
        )
        .unwrap();
        execute(&db, &Write::ForgetDoneJobs { before: Timestamp(100) }).unwrap();
        let mut left: Vec<i64> = jobs(&db, None, 10).unwrap().iter().map(|job| job.id.0).collect();
        left.sort_unstable();
        assert_eq!(left, [2, 3, 4]);
    }
}
