//! Repairs activities without a batch, and closed batches without a job.
//!
//! A restored backup may contain some. If a session has no batch at all, a recovery batch is opened for its
//! activities.

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::Sql;
use crate::jobs::job_kind::JobKind;
use crate::jobs::queue;
use crate::operation::{Operation, WriteContext};
use crate::{Reader, StoreError};
use recall_domain::ids::{BatchId, SessionRow, Timestamp};

impl Reader<'_> {
    /// Whether there is anything to repair.
    pub fn has_orphans(self) -> Result<bool, StoreError> {
        self.0.one(
            "SELECT EXISTS (
            SELECT 1 FROM activities a WHERE a.batch IS NULL AND (
                EXISTS (SELECT 1 FROM prompt_batches b WHERE b.session = a.session AND b.source <> 'private')
                OR (a.kind = 'tool' AND NOT EXISTS (SELECT 1 FROM prompt_batches b WHERE b.session =
                a.session))))
         OR EXISTS (
            SELECT 1 FROM prompt_batches b
            WHERE b.status = 'closed' AND b.compressed_at IS NULL AND b.source <> 'private'
              AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.session = b.session AND j.batch = b.id
                              AND j.kind = 'batch' AND j.status <> 'done'))",
            [],
        )
    }

    /// The number of rows that refer to missing rows.
    pub fn loose_rows(self) -> Result<u64, StoreError> {
        self.0.one("SELECT count(*) FROM pragma_foreign_key_check", [])
    }
}

/// Assigns activities to batches, and gives batches a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairOrphans {
    pub at: Timestamp,
}

/// The number of repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairedOrphans {
    /// Calls that were assigned to a prompt.
    pub calls: usize,
    /// Prompts that received a job.
    pub prompts: usize,
}

impl Operation for RepairOrphans {
    type Output = RepairedOrphans;

    fn execute(self, db: &WriteContext<'_>) -> Result<RepairedOrphans, StoreError> {
        open_recovery_batches(db)?;
        let calls = attach_to_nearest(db)?;
        Ok(RepairedOrphans { calls, prompts: queue_forgotten(db, self.at)? })
    }
}

/// Opens a recovery batch for the calls of a session without batches. It is already closed, because nobody works in
/// it.
fn open_recovery_batches(db: &Connection) -> Result<(), StoreError> {
    db.run(
        "INSERT INTO prompt_batches (session, seq, prompt_number, source, status, close_reason,
                 opened_at, closed_at)
         SELECT a.session, 1, 0, 'recovery', 'closed', 'recovery', min(a.at), max(a.at) FROM activities a
         WHERE a.batch IS NULL AND a.kind = 'tool'
           AND NOT EXISTS (SELECT 1 FROM prompt_batches b WHERE b.session = a.session)
         GROUP BY a.session",
        [],
    )
}

/// Assigns activities to the batch that was open at their time, or otherwise to the first.
fn attach_to_nearest(db: &Connection) -> Result<usize, StoreError> {
    let touched = db.all::<BatchId>(
        "UPDATE activities SET batch = (
            SELECT b.id FROM prompt_batches b WHERE b.session = activities.session AND b.source <> 'private'
            ORDER BY b.opened_at <= activities.at DESC, abs(activities.at - b.opened_at), b.seq LIMIT 1)
         WHERE batch IS NULL AND EXISTS (SELECT 1 FROM prompt_batches b
            WHERE b.session = activities.session AND b.source <> 'private')
         RETURNING batch",
        [],
    )?;
    let calls = touched.len();
    for batch in touched {
        // The batch now contains more than when it was compressed.
        db.run(
            "UPDATE prompt_batches SET compressed_at = NULL
             WHERE id = ?1 AND status = 'closed' AND source <> 'private'",
            params![batch],
        )?;
    }
    Ok(calls)
}

fn queue_forgotten(db: &WriteContext<'_>, at: Timestamp) -> Result<usize, StoreError> {
    let forgotten: Vec<(BatchId, SessionRow)> = db.all(
        "SELECT b.id, b.session FROM prompt_batches b
         WHERE b.status = 'closed' AND b.compressed_at IS NULL AND b.source <> 'private'
           AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.session = b.session AND j.batch = b.id
                           AND j.kind = 'batch' AND j.status <> 'done')
         ORDER BY b.id LIMIT 500",
        [],
    )?;
    let prompts = forgotten.len();
    for (batch, session) in forgotten {
        queue::enqueue(db, JobKind::Batch, session, Some(batch), at)?;
    }
    Ok(prompts)
}
