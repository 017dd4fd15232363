//! A project of three sessions, for tests of what becomes of their observations.

use std::path::Path;

use rusqlite::Connection;

use crate::{BatchResult, Changes, FinishJob, FinishedJob, JobResult, empty_database, execute};
use recall_domain::fixes::Traces;
use recall_domain::ids::{EventId, JobId, Timestamp};
use recall_domain::observation::{Importance, ObservationDraft, ObservationType};

pub(crate) const PER_CUSTOMER: &str = "Invoices are numbered per customer, starting anew each January";
pub(crate) const PER_SHOP: &str =
    "Invoices are numbered per shop now, not per customer, starting anew each January";
pub(crate) const EXPORTS: &str = "The nightly export of orders skips an empty basket instead of failing";

/// Three sessions of one project, each with a closed batch and a job of the same number.
pub(crate) fn database(home: &Path) -> Connection {
    let db = empty_database(home);
    db.execute_batch("INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0)").unwrap();
    for id in 1..=3 {
        db.execute_batch(&format!(
            "INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
             VALUES ({id}, 'claude-code', 's{id}', 1, 'active', 1, 0, 0);
             INSERT INTO prompt_batches (id, session, seq, prompt_number, source, status, opened_at, closed_at)
             VALUES ({id}, {id}, 1, 1, 'user', 'closed', {id}0, {id}5);
             INSERT INTO jobs (id, kind, session, batch, status, created_at)
             VALUES ({id}, 'batch', {id}, {id}, 'done', 0)"
        ))
        .unwrap();
    }
    db
}

/// A discovery of a batch, by its title alone.
pub(crate) fn discovery(batch: i64, title: &str) -> ObservationDraft {
    ObservationDraft {
        kind: ObservationType::Discovery,
        title: title.to_owned(),
        subtitle: None,
        narrative: String::new(),
        facts: Vec::new(),
        concepts: Vec::new(),
        files_read: Vec::new(),
        files_modified: Vec::new(),
        importance: Importance::clamped(5),
        evidence: vec![EventId([batch.to_le_bytes()[0]; 16])],
        subject: None,
    }
}

/// A model's observations of a batch.
pub(crate) fn finish(db: &Connection, batch: i64, drafts: Vec<ObservationDraft>) {
    commit(
        db,
        batch,
        BatchResult { drafts, settled: Vec::new(), traces: Traces::default(), source_tokens: 100 },
    );
}

pub(crate) fn commit(db: &Connection, batch: i64, made: BatchResult) {
    db.execute("UPDATE jobs SET status = 'running' WHERE id = ?1", [batch]).unwrap();
    let result = JobResult::Observations(made);
    let origin = "openai:m".into();
    let finished = FinishedJob { job: JobId(batch), result, origin, cuts: None, now: Timestamp(99) };
    execute(db, FinishJob(finished), &mut Changes::default()).unwrap();
}
