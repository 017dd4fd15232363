//! Sessions whose notes the built-in compressor wrote, and which a model may rewrite.
//!
//! Their jobs are ordinary jobs for notes. They count as having a stand-in result, because the built-in notes exist:
//! they come after all other work, and wait when the day's budget is spent.

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::operation::{Operation, WriteContext};
use crate::{Reader, StoreError};
use recall_domain::ids::{JobId, ProjectRow, SessionId, SessionRow, Timestamp};

record! {
/// An ended session without notes from a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImprovableSession from "sessions s JOIN projects p ON p.id = s.project" {
    pub row: SessionRow = "s.id",
    pub id: SessionId = "s.session_id",
    pub agent: String = "s.agent",
    pub project: String = "p.name",
    pub title: Option<String> = "s.title",
    pub at: Timestamp = "s.last_event_at",
}
}

/// Notes that a model wrote leave no built-in result. Sessions with an open job are excluded, because they are already
/// being improved.
const IMPROVABLE: &str = "s.status = 'completed'
    AND EXISTS (SELECT 1 FROM prompt_batches b WHERE b.session = s.id AND b.chosen_among IS NOT NULL)
    AND (EXISTS (SELECT 1 FROM observations o WHERE o.session = s.id AND o.origin = 'extractive')
        OR EXISTS (SELECT 1 FROM session_summaries u WHERE u.session = s.id AND u.origin = 'extractive'))
    AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.session = s.id AND j.kind = 'notes'
        AND j.status IN ('pending', 'running', 'retrying'))";

const ASKED_FOR: &str =
    "(?1 IS NULL OR s.project IN (SELECT value FROM json_each(?1))) AND s.last_event_at >= ?2";

impl Reader<'_> {
    /// Latest first.
    pub fn improvable(
        self,
        project: Option<&[ProjectRow]>,
        since: Option<Timestamp>,
        limit: u32,
    ) -> Result<Vec<ImprovableSession>, StoreError> {
        let sql = format!(
            "{} WHERE {IMPROVABLE} AND {ASKED_FOR} ORDER BY s.last_event_at DESC, s.id DESC LIMIT ?3",
            ImprovableSession::SELECT
        );
        let project = project.map(serde_json::to_string).transpose()?;
        self.0.all(&sql, params![project, since.map_or(i64::MIN, |since| since.0), limit])
    }

    /// The number of such sessions.
    pub fn count_improvable(
        self,
        project: Option<&[ProjectRow]>,
        since: Option<Timestamp>,
    ) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM sessions s WHERE {IMPROVABLE} AND {ASKED_FOR}");
        let project = project.map(serde_json::to_string).transpose()?;
        self.0.one(&sql, params![project, since.map_or(i64::MIN, |since| since.0)])
    }

    /// The jobs for notes that wait for a model or are running, and whose built-in notes exist.
    pub fn improving_jobs(self) -> Result<Vec<JobId>, StoreError> {
        self.0.all(
        "SELECT id FROM jobs WHERE kind = 'notes' AND stood_in AND status IN ('pending', 'running', 'retrying') ORDER BY id",
        [],
    )
    }

    pub fn job_progress(self, jobs: &[JobId]) -> Result<JobProgress, StoreError> {
        self.0.one(JobProgress::SELECT, [serde_json::to_string(jobs)?])
    }
}

/// Queues jobs in which a model rewrites the notes of these sessions. Sessions that are not improvable (any more) are
/// skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImproveSessions {
    pub sessions: Vec<SessionRow>,
    pub now: Timestamp,
}

impl Operation for ImproveSessions {
    /// In the order of the sessions, which is the order of the work.
    type Output = Vec<JobId>;

    fn execute(self, db: &WriteContext<'_>) -> Result<Vec<JobId>, StoreError> {
        let sql = format!(
            "INSERT INTO jobs (kind, session, status, created_at, stood_in)
             SELECT 'notes', s.id, 'pending', ?2, 1 FROM sessions s WHERE s.id = ?1 AND {IMPROVABLE}
             ON CONFLICT DO NOTHING RETURNING id"
        );
        let mut jobs = Vec::new();
        for session in self.sessions {
            jobs.extend(db.first::<JobId>(&sql, params![session, self.now])?);
        }
        if !jobs.is_empty() {
            db.queue_work();
        }
        Ok(jobs)
    }
}

record! {
/// The state of some jobs. Jobs that finished long ago are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobProgress from "jobs WHERE id IN (SELECT value FROM json_each(?1)) AND status <> 'done'" {
    pub waiting: u64 = "count(*) FILTER (WHERE status IN ('pending', 'retrying'))",
    pub running: u64 = "count(*) FILTER (WHERE status = 'running')",
    pub dead: u64 = "count(*) FILTER (WHERE status = 'dead')",
    /// When the first waiting job is tried.
    pub next_try: Option<Timestamp> = "min(not_before) FILTER (WHERE status IN ('pending', 'retrying'))",
    /// Why the last attempt failed.
    pub error: Option<String> = "(SELECT error FROM jobs WHERE id IN (SELECT value FROM json_each(?1))
        AND status IN ('retrying', 'dead') AND error IS NOT NULL ORDER BY status = 'dead' DESC, id DESC LIMIT 1)",
}
}
