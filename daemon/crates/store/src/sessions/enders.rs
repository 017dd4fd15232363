//! The end of an observation: the one active row of its lineage, which determines its status.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::operation::{WriteContext, log};
use recall_domain::document::Status;
use recall_domain::ids::{BatchId, ObservationId, ProjectRow};

/// The lineage kind for a note that its file no longer contains.
pub(crate) const FILE: &str = "file";

/// The lineage kind for a newer observation of the same thread.
pub(crate) const THREAD: &str = "thread";

/// The cause of an observation's end, the way it ended, and the events that prove it.
pub(crate) type Ended = (Ender, &'static str, Vec<String>);

/// The cause of an observation's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ender {
    Newer(ObservationId),
    Batch(BatchId),
}

/// Stores this row as the only active lineage of the observation.
pub(crate) fn keep_ender(
    db: &Connection,
    older: ObservationId,
    ended: Option<Ended>,
) -> Result<(), StoreError> {
    let (newer, batch) = match ended {
        Some((Ender::Newer(newer), ..)) => (Some(newer), None),
        Some((Ender::Batch(batch), ..)) => (None, Some(batch)),
        None => (None, None),
    };
    db.run(
        "DELETE FROM lineage WHERE older = ?1 AND reason NOT IN ('user', 'file') AND NOT undone
            AND (newer IS NOT ?2 OR batch IS NOT ?3)",
        params![older, newer, batch],
    )?;
    if let Some((_, reason, evidence)) = ended {
        db.run(
            "INSERT INTO lineage (older, newer, batch, reason, evidence) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET reason = excluded.reason, evidence = excluded.evidence",
            params![older, newer, batch, reason, serde_json::to_string(&evidence)?],
        )?;
    }
    Ok(())
}

/// Returns what does not end an observation, because a person here or elsewhere said so.
pub(crate) fn undone(db: &Connection, older: ObservationId) -> Result<BTreeSet<Ender>, StoreError> {
    let rows: Vec<(Option<ObservationId>, Option<BatchId>)> = db.all(
        "SELECT newer, batch FROM lineage WHERE older = ?1 AND undone
         UNION ALL SELECT n.id, NULL FROM observations o, json_each(o.stands_beside) b JOIN observations n ON n.uuid = b.value
         WHERE o.id = ?1 AND o.stands_beside IS NOT NULL",
        params![older],
    )?;
    let enders =
        rows.into_iter().filter_map(|(newer, batch)| newer.map(Ender::Newer).or(batch.map(Ender::Batch)));
    Ok(enders.collect())
}

/// Returns the observations of a project that a person rejected. They supersede nothing.
pub(crate) fn rejected(db: &Connection, project: ProjectRow) -> Result<BTreeSet<ObservationId>, StoreError> {
    let rows = db.all(
        "SELECT id FROM observations WHERE project = ?1 AND rejected_at IS NOT NULL",
        params![project],
    )?;
    Ok(rows.into_iter().collect())
}

/// Updates an observation's status from its lineage, and notifies the index if the status changes.
pub(crate) fn restate(db: &WriteContext<'_>, id: ObservationId) -> Result<(), StoreError> {
    let ended = db.first::<Option<ObservationId>>(
        "SELECT newer FROM lineage WHERE older = ?1 AND NOT undone ORDER BY newer IS NULL, id DESC LIMIT 1",
        params![id],
    )?;
    let status = match ended {
        Some(Some(_)) => Status::Superseded,
        Some(None) => Status::Resolved,
        None => Status::Active,
    };
    let changed = db.update(
        "UPDATE observations SET status = ?2, superseded_by = ?3
         WHERE id = ?1 AND (status <> ?2 OR superseded_by IS NOT ?3)",
        params![id, status.as_str(), ended.flatten()],
    )?;
    if changed > 0 {
        log(db, id)?;
    }
    Ok(())
}
