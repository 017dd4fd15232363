//! The queue of compression work.
//!
//! A job is leased, not taken: its row stays until the result is committed in the same transaction that marks it
//! done, so a worker that dies costs an attempt and nothing else. A job whose model has failed has a result of the
//! built-in compressor (`stood_in`) and waits, retrying, for its better one.

use rusqlite::{Connection, OptionalExtension, params};

use super::operation::{Operation, WriteContext};
use super::results::{BatchResult, DuplicateScope, keep_summary, replace_observations};
use super::{StoreError, ledger};
use crate::faults::{self, Fault, Point, planted};
use crate::memory::ids::{
    AgentName, BatchId, JobId, ProjectRow, SessionId, SessionKey, SessionRow, Timestamp,
};
use crate::memory::lifecycle::{LifecycleEvent, LifecycleKind};
use crate::memory::observation::SummaryDraft;

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

/// Whether a session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lives {
    /// It is summed up again at each of its answers, without a model.
    On,
    NoLonger,
}

/// Which jobs a worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Whatever waits.
    All,
    /// What models are asked for.
    Models,
    /// Summaries of sessions that go on: whoever continues one after a crash must not wait for models that are slow.
    LiveSessions,
}

/// A job in a worker's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedJob {
    pub id: JobId,
    pub kind: JobKind,
    pub session: SessionKey,
    pub session_row: SessionRow,
    pub project: ProjectRow,
    /// Of its session, when it was taken: one that ends later asks for its summary once more.
    pub lives: Lives,
    /// Set for a batch's job.
    pub batch: Option<BatchId>,
    /// This one included.
    pub attempts: u32,
    pub first_result: FirstResult,
}

/// Whether there is something to read of a job's thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstResult {
    Owed,
    /// The built-in compressor's stands in until the model's is there.
    Given,
}

/// A job's result on its way into the store.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedJob {
    pub job: JobId,
    pub result: JobResult,
    /// Who made it, e.g. `extractive`.
    pub origin: String,
    /// What a model was not shown, a JSON object.
    pub cuts: Option<String>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub enum JobResult {
    /// It replaces what the same batch had before.
    Observations(BatchResult),
    Summary(Option<SummaryDraft>),
}

/// A job that did not succeed this time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFailure {
    pub job: JobId,
    pub error: String,
    pub next: NextTry,
    pub now: Timestamp,
}

/// What becomes of a job that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextTry {
    At(Timestamp),
    /// Nothing was tried: this attempt does not count.
    UncountedAt(Timestamp),
    /// It is parked as dead.
    Never,
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
    /// Who made the last result.
    pub origin: Option<String>,
    pub cuts: Option<String>,
}

/// Which jobs a listing shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    All,
    Dead,
}

/// How long and why models have had no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionTrouble {
    /// When the oldest of the jobs was queued that have waited since the last success.
    pub since: Timestamp,
    pub jobs: i64,
    /// The latest reason.
    pub error: String,
}

/// Asks for work. Asked for while it waits it is the same work; while it runs it will be done once more; while a better
/// result is still owed it begins anew, for the one that stands in is of yesterday.
pub(super) fn enqueue(
    db: &WriteContext<'_>,
    kind: JobKind,
    session: i64,
    batch: Option<BatchId>,
    at: Timestamp,
) -> Result<(), StoreError> {
    enqueue_for_later(db, kind, session, batch, at)?;
    db.queue_work();
    Ok(())
}

/// The same for work that nobody is to begin now.
pub(super) fn enqueue_for_later(
    db: &Connection,
    kind: JobKind,
    session: i64,
    batch: Option<BatchId>,
    at: Timestamp,
) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT INTO jobs (kind, session, batch, status, created_at) VALUES (?1, ?2, ?3, 'pending', ?4)
         ON CONFLICT DO UPDATE SET again = (status = 'running'), stood_in = 0,
                attempts = iif(status = 'retrying', 0, attempts), not_before = iif(status = 'retrying', 0, not_before),
                status = iif(status = 'retrying', 'pending', status)",
    )?
    .execute(params![kind.as_str(), session, batch.map(|batch| batch.0), at.0])?;
    Ok(())
}

/// Leases the next piece of compression work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseJob {
    pub worker: String,
    pub duty: Duty,
    pub now: Timestamp,
    pub until: Timestamp,
}

impl Operation for LeaseJob {
    type Output = Option<LeasedJob>;

    fn execute(self, db: &WriteContext<'_>) -> Result<Option<LeasedJob>, StoreError> {
        if planted(Fault::NoLease) {
            release(db)?;
        }
        let job = next_job(db, self.duty, self.now)?;
        if let Some(job) = &job {
            db.prepare_cached(
                "UPDATE jobs SET status = 'running', worker = ?2, lease_until = ?3, attempts = ?4, again = 0
                 WHERE id = ?1",
            )?
            .execute(params![job.id.0, self.worker, self.until.0, job.attempts])?;
        }
        Ok(job)
    }
}

/// The job that a worker with this duty takes next.
fn next_job(db: &Connection, duty: Duty, now: Timestamp) -> Result<Option<LeasedJob>, StoreError> {
    // A summary waits for the first observations of its session's batches, so that it is made once and not for each; a
    // batch waits for those of the batch before it, so that the same things get the same numbers.
    // What has no result at all comes before what has one that stands in.
    let mut oldest = db.prepare_cached(
        "SELECT j.id, j.kind, j.session, j.batch, j.attempts + 1, s.agent, s.session_id, s.project, j.stood_in,
                s.status = 'completed'
         FROM jobs j INDEXED BY jobs_waiting JOIN sessions s ON s.id = j.session
         WHERE j.status IN ('pending', 'retrying') AND j.not_before <= ?1
           AND NOT (j.kind = 'summary' AND EXISTS (
                SELECT 1 FROM jobs b WHERE b.session = j.session AND b.kind = 'batch' AND b.status IN ('pending', 'running')
                  AND NOT b.stood_in))
           AND NOT (j.kind = 'batch' AND NOT j.stood_in AND EXISTS (
                SELECT 1 FROM jobs b JOIN prompt_batches e ON e.id = b.batch JOIN prompt_batches p ON p.id = j.batch
                WHERE b.session = j.session AND b.kind = 'batch' AND b.status IN ('pending', 'running')
                  AND NOT b.stood_in AND (e.prompt_number, e.seq) < (p.prompt_number, p.seq)))
           AND (?2 IS NULL OR ?2 = (j.kind = 'summary' AND s.status <> 'completed'))
         ORDER BY j.stood_in, j.id LIMIT 1",
    )?;
    let of_live_sessions = match duty {
        Duty::All => None,
        Duty::Models => Some(false),
        Duty::LiveSessions => Some(true),
    };
    let job = oldest
        .query_row(params![now.0, of_live_sessions], |row| {
            let kind: String = row.get(1)?;
            Ok(LeasedJob {
                id: JobId(row.get(0)?),
                kind: if kind == "summary" { JobKind::Summary } else { JobKind::Batch },
                session: SessionKey { agent: AgentName(row.get(5)?), id: SessionId(row.get(6)?) },
                session_row: SessionRow(row.get(2)?),
                project: ProjectRow(row.get(7)?),
                first_result: if row.get(8)? { FirstResult::Given } else { FirstResult::Owed },
                lives: if row.get(9)? { Lives::NoLonger } else { Lives::On },
                batch: row.get::<_, Option<i64>>(3)?.map(BatchId),
                attempts: row.get(4)?,
            })
        })
        .optional()?;
    Ok(job)
}

/// Stores a result and marks its job done. A job that is no longer running was given to somebody else meanwhile:
/// this result comes too late and is dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishJob(pub FinishedJob);

impl Operation for FinishJob {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self(finished) = self;
        if !keep(db, &finished, DuplicateScope::Project)? {
            return Ok(());
        }
        // Other jobs may have waited for this one.
        db.queue_work();
        db.prepare_cached(
        "UPDATE jobs SET status = iif(again, 'pending', 'done'), finished_at = ?2, worker = NULL, lease_until = NULL,
                error = NULL, attempts = iif(again, 0, attempts), again = 0, stood_in = 0, origin = ?3, cuts = ?4
         WHERE id = ?1",
    )?
    .execute(params![finished.job.0, finished.now.0, finished.origin, finished.cuts])?;
        Ok(())
    }
}

/// Stores a result that stands in for the one that is owed. The job stays with its worker, whose failure follows.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreStandIn(pub FinishedJob);

impl Operation for StoreStandIn {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self(finished) = self;
        if !keep(db, &finished, DuplicateScope::Batch)? {
            return Ok(());
        }
        // Asked for again meanwhile, it is owed again.
        db.prepare_cached("UPDATE jobs SET stood_in = NOT again, origin = ?2, cuts = NULL WHERE id = ?1")?
            .execute(params![finished.job.0, finished.origin])?;
        Ok(())
    }
}

/// The rows of a result. `false`: the job is not running, and nothing was changed.
fn keep(db: &WriteContext<'_>, finished: &FinishedJob, reach: DuplicateScope) -> Result<bool, StoreError> {
    let mut find =
        db.prepare_cached("SELECT session, batch FROM jobs WHERE id = ?1 AND status = 'running'")?;
    let job = find
        .query_row([finished.job.0], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?)))
        .optional()?;
    let Some((session, batch)) = job else { return Ok(false) };
    match (&finished.result, batch) {
        (JobResult::Observations(made), Some(batch)) => {
            let created = replace_observations(db, &finished.origin, (session, batch), made, reach)?;
            tell(db, session, finished.now, created)?;
            db.prepare_cached("UPDATE prompt_batches SET compressed_at = ?2 WHERE id = ?1")?
                .execute(params![batch, finished.now.0])?;
        }
        (JobResult::Summary(Some(summary)), _) => {
            let created = keep_summary(db, finished, session, summary)?;
            tell(db, session, finished.now, vec![created])?;
        }
        (JobResult::Summary(None) | JobResult::Observations(_), _) => {}
    }
    faults::reach_disk(Point::Result)?;
    Ok(true)
}

impl Operation for JobFailure {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let failure = self;
        let (status, at, uncounted) = match failure.next {
            NextTry::At(at) => ("retrying", at.0, 0),
            NextTry::UncountedAt(at) => ("retrying", at.0, 1),
            NextTry::Never => ("dead", 0, 0),
        };
        // What was asked for again meanwhile is other work than what has failed.
        let left = db
        .prepare_cached(
            "UPDATE jobs SET status = iif(again, 'pending', ?2), error = ?3, not_before = iif(again, 0, ?4),
                    attempts = iif(again, 0, attempts - ?6), finished_at = iif(?2 = 'dead' AND NOT again, ?5, NULL),
                    again = 0, worker = NULL, lease_until = NULL WHERE id = ?1 AND status = 'running'
             RETURNING session, status",
        )?
        .query_row(params![failure.job.0, status, failure.error, at, failure.now.0, uncounted], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })
        .optional()?;
        let Some((session, status)) = left else { return Ok(()) };
        db.queue_work();
        if status == "dead" {
            let dead = LifecycleKind::JobDead { job: failure.job, error: failure.error };
            tell(db, session, failure.now, vec![dead])?;
        }
        Ok(())
    }
}

/// Publishes events of a session.
fn tell(
    db: &WriteContext<'_>,
    session: i64,
    at: Timestamp,
    what: Vec<LifecycleKind>,
) -> Result<(), StoreError> {
    if what.is_empty() {
        return Ok(());
    }
    let key = db
        .prepare_cached("SELECT agent, session_id FROM sessions WHERE id = ?1")?
        .query_row([session], |row| {
            Ok(SessionKey { agent: AgentName(row.get(0)?), id: SessionId(row.get(1)?) })
        })?;
    for what in what {
        db.publish(LifecycleEvent { session: Some(key.clone()), at, what });
    }
    Ok(())
}

/// A worker died: what it held is tried again at `retry_at`, or parked after `max_attempts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveBackJobs {
    pub worker: String,
    pub error: String,
    pub retry_at: Timestamp,
    pub max_attempts: u32,
    pub now: Timestamp,
}

impl Operation for GiveBackJobs {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self { worker, error, retry_at, max_attempts, now } = self;
        let mut update = db.prepare_cached(
        "UPDATE jobs SET status = CASE WHEN again THEN 'pending' WHEN attempts >= ?4 THEN 'dead' ELSE 'retrying' END,
                error = ?2, not_before = iif(again, 0, ?3), attempts = iif(again, 0, attempts),
                finished_at = iif(attempts >= ?4 AND NOT again, ?5, NULL), again = 0, worker = NULL, lease_until = NULL
         WHERE worker = ?1 AND status = 'running' RETURNING id, session, status",
    )?;
        let given = update
            .query_map(params![worker, error, retry_at.0, max_attempts, now.0], |row| {
                Ok((JobId(row.get(0)?), row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
            })?
            .collect::<Result<Vec<_>, _>>()?;
        if !given.is_empty() {
            db.queue_work();
        }
        for (job, session, _) in given.into_iter().filter(|(.., status)| status == "dead") {
            tell(db, session, now, vec![LifecycleKind::JobDead { job, error: error.clone() }])?;
        }
        Ok(())
    }
}

/// Gives back what was leased for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireLeases {
    pub now: Timestamp,
}

impl Operation for ExpireLeases {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let expired = db
            .prepare_cached(
                "UPDATE jobs SET status = iif(stood_in, 'retrying', 'pending'), worker = NULL, lease_until = NULL
                 WHERE status = 'running' AND lease_until < ?1",
            )?
            .execute([self.now.0])?;
        if expired > 0 {
            db.queue_work();
        }
        Ok(())
    }
}

/// Gives back what was leased before this daemon started, and books in full the calls that were under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseLeases;

impl Operation for ReleaseLeases {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        ledger::book_abandoned(db)?;
        if release(db)? > 0 {
            db.queue_work();
        }
        Ok(())
    }
}

/// Returns how many.
fn release(db: &Connection) -> Result<usize, StoreError> {
    Ok(db.execute(
        "UPDATE jobs SET status = iif(stood_in, 'retrying', 'pending'), worker = NULL, lease_until = NULL
         WHERE status = 'running'",
        [],
    )?)
}

/// Lets dead jobs, and those that wait for their next try, be tried at once: this one, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryJobs {
    pub only: Option<JobId>,
}

impl Operation for RetryJobs {
    /// How many jobs are tried again.
    type Output = u64;

    fn execute(self, db: &WriteContext<'_>) -> Result<u64, StoreError> {
        // One whose work was asked for anew meanwhile has a successor that does it.
        let changed = db
        .prepare_cached(
            "UPDATE OR IGNORE jobs SET status = iif(stood_in, 'retrying', 'pending'), attempts = 0, not_before = 0,
                    finished_at = NULL WHERE status IN ('dead', 'retrying') AND (?1 IS NULL OR id = ?1)",
        )?
        .execute([self.only.map(|job| job.0)])?;
        if changed > 0 {
            db.queue_work();
        }
        Ok(changed as u64)
    }
}

/// When the first of the jobs that wait may be tried; a moment that has passed where one may be now. `None`: none waits.
///
/// # Errors
/// When the database refuses.
pub fn next_try(db: &Connection) -> Result<Option<Timestamp>, StoreError> {
    let mut find =
        db.prepare_cached("SELECT min(not_before) FROM jobs WHERE status IN ('pending', 'retrying')")?;
    Ok(find.query_row([], |row| row.get::<_, Option<i64>>(0))?.map(Timestamp))
}

/// Whether a job was leased for too long.
///
/// # Errors
/// When the database refuses.
pub fn has_expired_leases(db: &Connection, now: Timestamp) -> Result<bool, StoreError> {
    let mut find = db
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM jobs WHERE status = 'running' AND lease_until < ?1)")?;
    Ok(find.query_row([now.0], |row| row.get(0))?)
}

/// Whether there are jobs that were done before a moment.
///
/// # Errors
/// When the database refuses.
pub fn has_done_jobs(db: &Connection, before: Timestamp) -> Result<bool, StoreError> {
    let mut find =
        db.prepare_cached("SELECT EXISTS (SELECT 1 FROM jobs WHERE status = 'done' AND finished_at < ?1)")?;
    Ok(find.query_row([before.0], |row| row.get(0))?)
}

/// Deletes jobs that were done before a moment. Dead ones stay: somebody may want to see or retry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteDoneJobs {
    pub before: Timestamp,
}

impl Operation for DeleteDoneJobs {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        db.prepare_cached("DELETE FROM jobs WHERE status = 'done' AND finished_at < ?1")?
            .execute([self.before.0])?;
        Ok(())
    }
}

/// The newest jobs first.
///
/// # Errors
/// When the database refuses.
pub fn jobs(
    db: &Connection,
    which: Jobs,
    since: Option<Timestamp>,
    limit: u32,
) -> Result<Vec<JobRow>, StoreError> {
    let status = match which {
        Jobs::All => None,
        Jobs::Dead => Some("dead"),
    };
    let mut statement = db.prepare_cached(
        "SELECT j.id, j.kind, s.session_id, j.status, j.attempts, j.error, j.origin, j.cuts
         FROM jobs j JOIN sessions s ON s.id = j.session
         WHERE j.created_at >= ?1 AND (?3 IS NULL OR j.status = ?3) ORDER BY j.id DESC LIMIT ?2",
    )?;
    let since = since.map_or(i64::MIN, |since| since.0);
    let rows = statement.query_map(params![since, limit, status], |row| {
        Ok(JobRow {
            id: JobId(row.get(0)?),
            kind: row.get(1)?,
            session: SessionId(row.get(2)?),
            status: row.get(3)?,
            attempts: row.get(4)?,
            error: row.get(5)?,
            origin: row.get(6)?,
            cuts: row.get(7)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// How many jobs still owe their first result.
///
/// # Errors
/// When the database refuses.
pub fn unfinished_jobs(db: &Connection) -> Result<i64, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT count(*) FROM jobs WHERE status IN ('pending', 'running') AND NOT stood_in",
    )?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// What models have failed at since their last success, while the built-in compressor stands in. `None`: nothing.
///
/// # Errors
/// When the database refuses.
pub fn compression_trouble(db: &Connection) -> Result<Option<CompressionTrouble>, StoreError> {
    let mut statement = db.prepare_cached(
        "WITH failing AS (
            SELECT id, created_at, error FROM jobs
            WHERE status IN ('retrying', 'dead') AND stood_in AND error IS NOT NULL AND created_at > (
                SELECT ifnull(max(finished_at), 0) FROM jobs WHERE status = 'done' AND origin <> 'extractive'))
         SELECT min(created_at), count(*), (SELECT error FROM failing ORDER BY id DESC LIMIT 1) FROM failing",
    )?;
    Ok(statement.query_row([], |row| {
        let (since, error): (Option<i64>, Option<String>) = (row.get(0)?, row.get(2)?);
        let jobs = row.get(1)?;
        Ok(since.zip(error).map(|(since, error)| CompressionTrouble { since: Timestamp(since), jobs, error }))
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Changes, Durability, execute, open_writer};

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
        execute(&db, DeleteDoneJobs { before: Timestamp(100) }, &mut Changes::default()).unwrap();
        let mut left: Vec<i64> = jobs(&db, Jobs::All, None, 10).unwrap().iter().map(|job| job.id.0).collect();
        left.sort_unstable();
        assert_eq!(left, [2, 3, 4]);
    }

    #[test]
    fn each_takes_what_is_its_duty() {
        let home = tempfile::tempdir().unwrap();
        let db = open_writer(&home.path().join("recall.db"), home.path(), Durability::Full).unwrap();
        db.execute_batch("INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0)").unwrap();
        for (id, status) in [(1, "active"), (2, "completed")] {
            db.execute_batch(&format!(
                "INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
                 VALUES ({id}, 'claude-code', 's{id}', 1, '{status}', 1, 0, 0);
                 INSERT INTO prompt_batches (id, session, seq, prompt_number, source, status, opened_at)
                 VALUES ({id}, {id}, 1, 1, 'user', 'closed', {id});
                 INSERT INTO jobs (id, kind, session, batch, status, created_at)
                 VALUES ({id}0, 'summary', {id}, NULL, 'pending', 0), ({id}1, 'batch', {id}, {id}, 'pending', 0)"
            ))
            .unwrap();
        }
        let take = |duty: Duty| {
            let lease = LeaseJob { worker: "w".to_owned(), duty, now: Timestamp(0), until: Timestamp(1) };
            let job = execute(&db, lease, &mut Changes::default()).unwrap()?;
            db.execute("UPDATE jobs SET status = 'done' WHERE id = ?1", [job.id.0]).unwrap();
            Some((job.id.0, job.lives))
        };
        assert_eq!(take(Duty::LiveSessions), None, "a summary waits for its batch");
        assert_eq!(take(Duty::Models), Some((11, Lives::On)));
        assert_eq!(take(Duty::LiveSessions), Some((10, Lives::On)));
        assert_eq!(take(Duty::LiveSessions), None);
        assert_eq!(take(Duty::Models), Some((21, Lives::NoLonger)));
        assert_eq!(take(Duty::All), Some((20, Lives::NoLonger)));
    }
}
