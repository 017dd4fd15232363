//! Stores the results of jobs.

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::jobs::job_kind::JobKind;
use crate::jobs::queue;
use crate::jobs::queue::publish;
use crate::notes::choice;
use crate::notes::choice::SessionChoice;
use crate::notes::injection_uses::{InjectionUse, keep_uses};
use crate::notes::results::{BatchResult, DuplicateScope, keep_summary, replace_observations};
use crate::operation::{Operation, WriteContext};
use recall_domain::ids::{BatchId, JobId, SessionRow, Timestamp};
use recall_domain::observation::{NoteOrigin, SummaryDraft};
use recall_system::faults::{self, Point};

/// A job and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedJob {
    pub job: JobId,
    pub result: JobResult,
    /// Who made the result.
    pub origin: NoteOrigin,
    /// The parts that a model was not shown, as a JSON object.
    pub cuts: Option<String>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub enum JobResult {
    /// Replaces the batch's earlier observations.
    Observations(BatchResult),
    Session(SessionResult),
}

/// The result for a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionResult {
    pub summary: Option<SummaryDraft>,
    /// Present if the observations of the session's batches were selected again.
    pub choice: Option<SessionChoice>,
    /// How the session used the injected items.
    pub uses: Vec<InjectionUse>,
    pub next: Next,
}

/// The next step after storing a session's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    #[default]
    Nothing,
    /// Request notes from a model: for the first time, or for the remaining turns.
    Notes,
}

/// Stores a result and marks its job as done. If the job is no longer running, it was given to another worker, and
/// this late result is dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishJob(pub FinishedJob);

impl Operation for FinishJob {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self(finished) = self;
        if !keep(db, &finished, DuplicateScope::Project)? {
            return Ok(());
        }
        // Other jobs may be waiting for this one.
        db.queue_work();
        db.run("UPDATE jobs SET status = iif(again, 'pending', 'done'), finished_at = ?2, worker =
                 NULL, lease_until = NULL,
                error = NULL, attempts = iif(again, 0, attempts), stood_in = (stood_in AND again), again = 0, origin = ?3, cuts = ?4
         WHERE id = ?1", params![finished.job.0, finished.now.0, finished.origin, finished.cuts])
    }
}

/// Stores a stand-in for a model's result. The job stays with its worker, which reports its failure next.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreStandIn(pub FinishedJob);

impl Operation for StoreStandIn {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self(finished) = self;
        if !keep(db, &finished, DuplicateScope::Batch)? {
            return Ok(());
        }
        // If the job was queued again in the meantime, a result is still due.
        db.run(
            "UPDATE jobs SET stood_in = NOT again, origin = ?2, cuts = NULL WHERE id = ?1",
            params![finished.job.0, finished.origin],
        )
    }
}

/// Requests notes: on the rest of a session by the same job, which keeps its low priority, or on all of it by a new
/// job.
fn ask_for_notes(
    db: &WriteContext<'_>,
    finished: &FinishedJob,
    session: SessionRow,
) -> Result<(), StoreError> {
    match db.update("UPDATE jobs SET again = 1 WHERE id = ?1 AND kind = 'notes'", params![finished.job])? {
        0 => queue::enqueue(db, JobKind::Notes, session, None, finished.now),
        _ => Ok(()),
    }
}

/// Stores the rows of a result. Returns `false` and changes nothing if the job is not running.
fn keep(db: &WriteContext<'_>, finished: &FinishedJob, reach: DuplicateScope) -> Result<bool, StoreError> {
    let job: Option<(SessionRow, Option<BatchId>)> = db.first(
        "SELECT session, batch FROM jobs WHERE id = ?1 AND status = 'running'",
        params![finished.job],
    )?;
    let Some((session, batch)) = job else { return Ok(false) };
    match (&finished.result, batch) {
        (JobResult::Observations(made), Some(batch)) => {
            let created = replace_observations(db, &finished.origin, batch, made, reach)?;
            publish(db, session, finished.now, created)?;
            choice::batch_is_made(db, session, batch, &finished.origin, finished.now)?;
        }
        (JobResult::Session(made), _) => {
            let mut created = match &made.choice {
                Some(choice) => choice::keep_choice(db, session, choice, &finished.origin, finished.now)?,
                None => Vec::new(),
            };
            if let Some(summary) = &made.summary {
                created.extend(keep_summary(db, &finished.origin, session, summary)?);
            }
            keep_uses(db, &made.uses)?;
            publish(db, session, finished.now, created)?;
            if made.next == Next::Notes {
                ask_for_notes(db, finished, session)?;
            }
        }
        (JobResult::Observations(_), None) => {}
    }
    faults::reach_disk(Point::Result)?;
    Ok(true)
}
