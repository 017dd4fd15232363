//! What the queue contains: waiting, failed and finished jobs.

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::jobs::job_kind::{JobKind, JobStatus};
use crate::{Reader, StoreError};
use recall_domain::ids::{JobId, SessionId, Timestamp};
use recall_domain::observation::NoteOrigin;

record! {
/// A job as `recall ctl jobs` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow from "jobs j JOIN sessions s ON s.id = j.session" {
    pub id: JobId = "j.id",
    pub kind: JobKind = "j.kind",
    pub session: SessionId = "s.session_id",
    pub status: JobStatus = "j.status",
    pub attempts: u32 = "j.attempts",
    pub error: Option<String> = "j.error",
    /// Who produced the last result.
    pub origin: Option<NoteOrigin> = "j.origin",
    pub cuts: Option<String> = "j.cuts",
}
}

/// Which jobs a listing shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    All,
    Dead,
}

/// Since when model calls have been failing, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionTrouble {
    /// When the oldest job that failed since the last success was queued.
    pub since: Timestamp,
    pub jobs: i64,
    /// The latest reason.
    pub error: String,
}

record! {
/// The jobs of one kind that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingJobs from "jobs j WHERE j.status IN ('pending', 'retrying') GROUP BY j.kind ORDER BY j.kind" {
    pub kind: JobKind = "j.kind",
    pub jobs: u64 = "count(*)",
    /// When the first of them is due.
    pub next_try: Timestamp = "min(j.not_before)",
    /// Why the last attempt failed.
    pub error: Option<String> = "(SELECT w.error FROM jobs w WHERE w.kind = j.kind AND w.status = 'retrying'
        AND w.error IS NOT NULL ORDER BY w.id DESC LIMIT 1)",
}
}

record! {
/// Jobs that were given up for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadJobs from "jobs WHERE status = 'dead' GROUP BY error ORDER BY max(id) DESC" {
    pub jobs: u64 = "count(*)",
    pub error: Option<String> = "error",
    pub last: Option<Timestamp> = "max(finished_at)",
}
}

impl Reader<'_> {
    /// Returns when the first waiting job may be tried, possibly in the past. `None` if none is waiting.
    pub fn next_try(self) -> Result<Option<Timestamp>, StoreError> {
        self.0.one("SELECT min(not_before) FROM jobs WHERE status IN ('pending', 'retrying')", [])
    }

    pub fn waiting_jobs(self) -> Result<Vec<WaitingJobs>, StoreError> {
        self.0.all(WaitingJobs::SELECT, [])
    }

    /// Returns the latest reasons first.
    pub fn dead_jobs(self, reasons: u32) -> Result<Vec<DeadJobs>, StoreError> {
        self.0.all(&format!("{} LIMIT ?1", DeadJobs::SELECT), [reasons])
    }

    pub fn open_jobs(self) -> Result<OpenJobs, StoreError> {
        self.0.one(OpenJobs::SELECT, [])
    }

    /// Whether the lease of a job has expired.
    pub fn has_expired_leases(self, now: Timestamp) -> Result<bool, StoreError> {
        self.0
            .one("SELECT EXISTS (SELECT 1 FROM jobs WHERE status = 'running' AND lease_until < ?1)", [now.0])
    }

    /// Whether there are jobs that finished before a time.
    pub fn has_done_jobs(self, before: Timestamp) -> Result<bool, StoreError> {
        self.0
            .one("SELECT EXISTS (SELECT 1 FROM jobs WHERE status = 'done' AND finished_at < ?1)", [before.0])
    }

    /// Lists jobs, newest first.
    pub fn jobs(self, which: Jobs, since: Option<Timestamp>, limit: u32) -> Result<Vec<JobRow>, StoreError> {
        let status = match which {
            Jobs::All => None,
            Jobs::Dead => Some("dead"),
        };
        let sql = format!(
            "{} WHERE j.created_at >= ?1 AND (?3 IS NULL OR j.status = ?3) ORDER BY j.id DESC LIMIT ?2",
            JobRow::SELECT
        );
        self.0.all(&sql, params![since.map_or(i64::MIN, |since| since.0), limit, status])
    }

    /// The number of jobs without a result.
    pub fn unfinished_jobs(self) -> Result<i64, StoreError> {
        self.0.one("SELECT count(*) FROM jobs WHERE status IN ('pending', 'running') AND NOT stood_in", [])
    }

    /// The number of waiting or running jobs, counted up to `most`.
    pub fn jobs_under_way(self, most: u32) -> Result<i64, StoreError> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE status IN ('pending', 'running') LIMIT ?1)";
        self.0.one(sql, [most])
    }

    /// Describes model failures since the last success; `None` if there are none.
    pub fn compression_trouble(self) -> Result<Option<CompressionTrouble>, StoreError> {
        let trouble: (Option<Timestamp>, i64, Option<String>) = self.0.one(
        "WITH failing AS (
            SELECT id, created_at, error FROM jobs
            WHERE status IN ('retrying', 'dead') AND (stood_in OR kind = 'notes') AND error IS NOT NULL AND created_at > (
                SELECT ifnull(max(finished_at), 0) FROM jobs WHERE status = 'done' AND origin <>
                'extractive'))
         SELECT min(created_at), count(*), (SELECT error FROM failing ORDER BY id DESC LIMIT 1) FROM failing",
        [],
    )?;
        let (since, jobs, error) = trouble;
        Ok(since.zip(error).map(|(since, error)| CompressionTrouble { since, jobs, error }))
    }
}

record! {
/// Jobs that are not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenJobs from "jobs WHERE status <> 'done'" {
    pub running: u64 = "count(*) FILTER (WHERE status = 'running')",
    pub waiting: u64 = "count(*) FILTER (WHERE status IN ('pending', 'retrying'))",
    /// Jobs that were given up.
    pub dead: u64 = "count(*) FILTER (WHERE status = 'dead')",
    /// When the first waiting job is due.
    pub next_try: Option<Timestamp> = "min(not_before) FILTER (WHERE status IN ('pending', 'retrying'))",
}
}
