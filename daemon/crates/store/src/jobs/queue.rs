//! The queue of compression work.
//!
//! A job is leased, not removed. Its row stays until the transaction that stores the result (`finished_jobs`) also
//! marks it as done, so a worker that dies costs only an attempt. If a model fails, the job gets a result from the
//! built-in compressor (`stood_in`) and is retried until it gets the model's.

use rusqlite::{Connection, Row};

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::{Cells, FromRow, Sql, record};
use crate::jobs::job_kind::JobKind;
use crate::jobs::ledger;
use crate::operation::{Operation, WriteContext};
use crate::sessions::imported::{Capture, capture_of};
use recall_domain::ids::{BatchId, JobId, ProjectRow, SessionKey, SessionRow, Timestamp};
use recall_domain::lifecycle::LifecycleKind;
use recall_system::faults::{Fault, planted};

/// Whether a session is still live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lives {
    /// The session is live. Its summary is renewed after each answer, without a model.
    On,
    NoLonger,
}

/// Which jobs a worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Any job.
    All,
    /// Jobs for models.
    Models,
    /// Summaries of live sessions. They must not wait for slow models, because a session may continue after a crash.
    LiveSessions,
    /// Only notes, if models are used for nothing else.
    Notes,
    /// All jobs except notes.
    BuiltIn,
}

impl Duty {
    /// The SQL condition for these jobs.
    fn condition(self) -> &'static str {
        match self {
            Self::All => "1",
            Self::Models => "NOT (j.kind = 'summary' AND s.status <> 'completed')",
            Self::LiveSessions => "j.kind = 'summary' AND s.status <> 'completed'",
            Self::Notes => "j.kind = 'notes'",
            Self::BuiltIn => "j.kind <> 'notes'",
        }
    }
}

record! {
/// A job that a worker has leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedJob from "jobs j INDEXED BY jobs_waiting JOIN sessions s ON s.id = j.session" {
    pub id: JobId = "j.id",
    pub kind: JobKind = "j.kind",
    pub session: SessionKey = "s.agent, s.session_id",
    pub session_row: SessionRow = "j.session",
    pub project: ProjectRow = "s.project",
    /// Whether the session was live when the job was leased. A session that ends later queues another summary.
    pub lives: Lives = "s.status = 'completed'",
    /// The batch, if the job is for a batch.
    pub batch: Option<BatchId> = "j.batch",
    /// The number of attempts, including this one.
    pub attempts: u32 = "j.attempts + 1",
    pub first_result: FirstResult = "j.stood_in",
    pub capture: Capture = "NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.session = j.session AND d.flags & 32 = 0)
        AND EXISTS (SELECT 1 FROM deliveries d WHERE d.session = j.session)",
}
}

/// Whether a job already has a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstResult {
    Owed,
    /// The built-in compressor's result is stored until the model's arrives.
    Given,
}

/// Reads whether the session is completed.
impl FromRow for Lives {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(if row.cell(first)? { Self::NoLonger } else { Self::On })
    }
}

impl FromRow for FirstResult {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(if row.cell(first)? { Self::Given } else { Self::Owed })
    }
}

/// A failed attempt at a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFailure {
    pub job: JobId,
    pub error: String,
    pub next: NextTry,
    pub now: Timestamp,
}

/// When to retry a failed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextTry {
    At(Timestamp),
    /// Nothing was attempted, so this attempt does not count.
    UncountedAt(Timestamp),
    /// Never: the job is given up.
    Never,
}

/// Queues a job. A waiting job stays as it is, a running one runs again afterwards, and one with a stand-in result
/// starts over, because that result is outdated.
pub(crate) fn enqueue(
    db: &WriteContext<'_>,
    kind: JobKind,
    session: SessionRow,
    batch: Option<BatchId>,
    at: Timestamp,
) -> Result<(), StoreError> {
    enqueue_for_later(db, kind, session, batch, at)?;
    db.queue_work();
    Ok(())
}

/// Like [`enqueue`], but wakes no compressor.
pub(crate) fn enqueue_for_later(
    db: &Connection,
    kind: JobKind,
    session: SessionRow,
    batch: Option<BatchId>,
    at: Timestamp,
) -> Result<(), StoreError> {
    db.run("INSERT INTO jobs (kind, session, batch, status, created_at) VALUES (?1, ?2, ?3, 'pending', ?4)
         ON CONFLICT DO UPDATE SET again = (status = 'running'), stood_in = 0,
                attempts = iif(status = 'retrying', 0, attempts), not_before = iif(status = 'retrying', 0, not_before),
                status = iif(status = 'retrying', 'pending', status)", params![kind.as_str(), session, batch.map(|batch| batch.0), at.0])
}

/// Leases the next compression job.
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
            db.run(
                "UPDATE jobs SET status = 'running', worker = ?2, lease_until = ?3, attempts = ?4, again = 0
                 WHERE id = ?1",
                params![job.id.0, self.worker, self.until.0, job.attempts],
            )?;
        }
        Ok(job)
    }
}

/// Returns the next job for a worker with this duty.
fn next_job(db: &Connection, duty: Duty, now: Timestamp) -> Result<Option<LeasedJob>, StoreError> {
    // A summary waits for the first observations of its session's batches, so that it is made only once. A batch waits
    // for those of the previous batch, so that the same findings keep their numbers. Notes wait for all of them. Jobs
    // without any result come before jobs with a stand-in.
    let is_duty = duty.condition();
    let sql = format!(
        "{}
         WHERE j.status IN ('pending', 'retrying') AND j.not_before <= ?1
           AND NOT (j.kind = 'summary' AND EXISTS (
                SELECT 1 FROM jobs b WHERE b.session = j.session AND b.kind = 'batch' AND b.status IN
                ('pending', 'running')
                  AND NOT b.stood_in))
           AND NOT (j.kind = 'batch' AND NOT j.stood_in AND EXISTS (
                SELECT 1 FROM jobs b JOIN prompt_batches e ON e.id = b.batch JOIN prompt_batches p ON
                p.id = j.batch
                WHERE b.session = j.session AND b.kind = 'batch' AND b.status IN ('pending', 'running')
                  AND NOT b.stood_in AND (e.prompt_number, e.seq) < (p.prompt_number, p.seq)))
           AND NOT (j.kind = 'notes' AND EXISTS (
                SELECT 1 FROM jobs b WHERE b.session = j.session AND b.kind <> 'notes' AND b.status IN
                ('pending', 'running')))
           AND ({is_duty})
         ORDER BY j.stood_in, j.id LIMIT 1",
        LeasedJob::SELECT
    );
    db.first(&sql, params![now])
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
        // If the job was queued again in the meantime, the failure does not count.
        let left: Option<(SessionRow, String, u32)> = db.first(
            "UPDATE jobs SET status = iif(again, 'pending', ?2), error = ?3, not_before = iif(again, 0, ?4),
                    attempts = iif(again, 0, attempts - ?6), finished_at = iif(?2 = 'dead' AND NOT
                    again, ?5, NULL),
                    again = 0, worker = NULL, lease_until = NULL WHERE id = ?1 AND status = 'running'
             RETURNING session, status, attempts",
            params![failure.job, status, failure.error, at, failure.now, uncounted],
        )?;
        let Some((session, status, attempts)) = left else { return Ok(()) };
        db.queue_work();
        if status == "dead" {
            let dead = LifecycleKind::JobDead { job: failure.job, attempts, error: failure.error };
            publish(db, session, failure.now, vec![dead])?;
        }
        Ok(())
    }
}

/// Publishes events of a session.
pub(crate) fn publish(
    db: &WriteContext<'_>,
    session: SessionRow,
    at: Timestamp,
    what: Vec<LifecycleKind>,
) -> Result<(), StoreError> {
    if what.is_empty() {
        return Ok(());
    }
    if capture_of(db, session)? == Capture::Imported {
        return Ok(());
    }
    let key: SessionKey = db.one("SELECT agent, session_id FROM sessions WHERE id = ?1", params![session])?;
    for what in what {
        db.publish(key.clone(), at, what);
    }
    Ok(())
}

/// Returns a dead worker's jobs to the queue: for `retry_at`, or as given up after `max_attempts`.
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
        let given: Vec<(JobId, SessionRow, String, u32)> = db.all(
            "UPDATE jobs SET status = CASE WHEN again THEN 'pending' WHEN attempts >= ?4 THEN 'dead' ELSE
                 'retrying' END,
                error = ?2, not_before = iif(again, 0, ?3), attempts = iif(again, 0, attempts),
                finished_at = iif(attempts >= ?4 AND NOT again, ?5, NULL), again = 0, worker = NULL,
                lease_until = NULL
         WHERE worker = ?1 AND status = 'running' RETURNING id, session, status, attempts",
            params![worker, error, retry_at, max_attempts, now],
        )?;
        if !given.is_empty() {
            db.queue_work();
        }
        for (job, session, _, attempts) in given.into_iter().filter(|(_, _, status, _)| status == "dead") {
            publish(db, session, now, vec![LifecycleKind::JobDead { job, attempts, error: error.clone() }])?;
        }
        Ok(())
    }
}

/// Returns jobs with expired leases to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireLeases {
    pub now: Timestamp,
}

impl Operation for ExpireLeases {
    /// The number of jobs.
    type Output = usize;

    fn execute(self, db: &WriteContext<'_>) -> Result<usize, StoreError> {
        let expired = db.update(
            "UPDATE jobs SET status = iif(stood_in, 'retrying', 'pending'), worker = NULL, lease_until = NULL
                 WHERE status = 'running' AND lease_until < ?1",
            [self.now.0],
        )?;
        if expired > 0 {
            db.queue_work();
        }
        Ok(expired)
    }
}

/// Returns jobs leased by an earlier daemon to the queue, and books its unfinished calls at their maximum cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseLeases;

/// Work left behind by an earlier daemon, or by stopped compressors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    pub jobs: usize,
    /// Model calls whose cost is unknown.
    pub calls: usize,
}

impl Released {
    /// Logs what was released, if anything.
    pub fn log(self) {
        let Self { jobs, calls } = self;
        if jobs > 0 {
            tracing::info!(jobs, "returned the jobs of stopped compressors to the queue");
        }
        if calls > 0 {
            tracing::info!(calls, "booked unfinished model calls at their maximum cost");
        }
    }
}

impl Operation for ReleaseLeases {
    type Output = Released;

    fn execute(self, db: &WriteContext<'_>) -> Result<Released, StoreError> {
        let calls = ledger::book_abandoned(db)?;
        let jobs = release(db)?;
        if jobs > 0 {
            db.queue_work();
        }
        Ok(Released { jobs, calls })
    }
}

/// Returns how many jobs were released.
fn release(db: &Connection) -> Result<usize, StoreError> {
    db.update(
        "UPDATE jobs SET status = iif(stood_in, 'retrying', 'pending'), worker = NULL, lease_until = NULL
         WHERE status = 'running'",
        [],
    )
}

/// Immediately retries dead and waiting jobs: one, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryJobs {
    pub only: Option<JobId>,
}

impl Operation for RetryJobs {
    /// The number of retried jobs.
    type Output = u64;

    fn execute(self, db: &WriteContext<'_>) -> Result<u64, StoreError> {
        // If the job's work was queued again in the meantime, a later job does it.
        let changed = db.update(
            "UPDATE OR IGNORE jobs SET status = iif(stood_in, 'retrying', 'pending'), attempts = 0,
                 not_before = 0,
                    finished_at = NULL WHERE status IN ('dead', 'retrying') AND (?1 IS NULL OR id = ?1)",
            [self.only.map(|job| job.0)],
        )?;
        if changed > 0 {
            db.queue_work();
        }
        Ok(changed as u64)
    }
}

/// Makes every job due that waits for a model's retry, because the model was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeRetries;

impl Operation for WakeRetries {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        if db.update("UPDATE jobs SET attempts = 0, not_before = 0 WHERE status = 'retrying'", [])? > 0 {
            db.queue_work();
        }
        Ok(())
    }
}

/// Deletes jobs that finished before a time. Dead ones stay, because the user may want to see or retry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteDoneJobs {
    pub before: Timestamp,
}

impl Operation for DeleteDoneJobs {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        db.run("DELETE FROM jobs WHERE status = 'done' AND finished_at < ?1", [self.before.0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Changes, Jobs, Reader, empty_database, execute};

    #[test]
    fn only_old_done_jobs_are_deleted() {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
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
        let mut left: Vec<i64> =
            Reader(&db).jobs(Jobs::All, None, 10).unwrap().iter().map(|job| job.id.0).collect();
        left.sort_unstable();
        assert_eq!(left, [2, 3, 4]);
    }

    #[test]
    fn each_worker_takes_only_the_jobs_of_its_duty() {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        db.execute_batch("INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0)").unwrap();
        for (id, status) in [(1, "active"), (2, "completed")] {
            db.execute_batch(&format!(
                "INSERT INTO sessions (id, agent, session_id, project, status, life, started_at,
                         last_event_at)
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
