//! The evidence of observations. An observation made by several batches has a share of evidence from each. A share is
//! deleted when its batch is recompressed without making the observation again.

use std::collections::HashSet;

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::Sql;
use crate::operation::{WriteContext, log};
use crate::{Reader, StoreError};
use recall_domain::document::DocumentKey;
use recall_domain::ids::{BatchId, EventId, ObservationId, SessionRow};
use recall_domain::observation::ObservationDraft;

pub(crate) fn evidence_json(evidence: &[EventId]) -> Result<String, StoreError> {
    Ok(serde_json::to_string(&evidence.iter().map(EventId::to_string).collect::<Vec<_>>())?)
}

pub(crate) fn keep_files(
    db: &Connection,
    id: ObservationId,
    draft: &ObservationDraft,
) -> Result<(), StoreError> {
    let insert = "INSERT OR IGNORE INTO observation_files (observation, path, use) VALUES (?1, ?2, ?3)";
    for (paths, purpose) in [(&draft.files_read, "read"), (&draft.files_modified, "modified")] {
        for path in paths {
            db.run(insert, params![id, path, purpose])?;
        }
    }
    Ok(())
}

impl Reader<'_> {
    /// Returns the stored prompts, answers and calls that an observation rests on, in its own order.
    pub fn evidence(self, id: ObservationId, events: &[String]) -> Result<Vec<DocumentKey>, StoreError> {
        const BATCHES: &str = "SELECT batch FROM observations WHERE id = ?1
        UNION SELECT batch FROM observation_batches WHERE observation = ?1";
        let sql = format!(
            "SELECT 'prompt', id FROM prompt_batches WHERE id IN ({BATCHES}) AND prompt_event = ?2
         UNION ALL SELECT 'response', id FROM prompt_batches WHERE id IN ({BATCHES}) AND response_event = ?2
         UNION ALL SELECT 'activity', id FROM activities WHERE event_id = ?2"
        );
        let mut found = Vec::new();
        for event in events.iter().filter_map(|event| event.parse::<EventId>().ok()) {
            found.extend(self.0.all::<DocumentKey>(&sql, params![id.0, event.0])?);
        }
        Ok(found)
    }
}

/// Adds a batch's share to an observation of another batch.
pub(crate) fn merge(
    db: &Connection,
    id: ObservationId,
    session: SessionRow,
    batch: BatchId,
    draft: &ObservationDraft,
) -> Result<ObservationId, StoreError> {
    // Older rows do not record which batch the evidence came from.
    db.run(
        "UPDATE observations SET own_evidence = evidence, own_importance = importance
         WHERE id = ?1 AND own_evidence IS NULL",
        params![id],
    )?;
    db.run(
        "INSERT OR IGNORE INTO observation_sessions (observation, session) VALUES (?1, ?2)",
        params![id, session],
    )?;
    db.run(
        "INSERT OR REPLACE INTO observation_batches (observation, batch, evidence, importance)
             VALUES (?1, ?2, ?3, ?4)",
        params![id, batch, evidence_json(&draft.evidence)?, draft.importance.get()],
    )?;
    keep_files(db, id, draft)?;
    recompute_evidence(db, id)?;
    Ok(id)
}

/// Recomputes an observation's evidence from its own batch and the shares of other batches, in order.
pub(crate) fn recompute_evidence(db: &Connection, id: ObservationId) -> Result<(), StoreError> {
    let own: Option<Option<Vec<String>>> =
        db.first("SELECT own_evidence FROM observations WHERE id = ?1", params![id])?;
    let Some(mut evidence) = own.flatten() else { return Ok(()) };
    let mut known: HashSet<String> = evidence.iter().cloned().collect();
    let shares: Vec<Vec<String>> = db.all(
        "SELECT m.evidence FROM observation_batches m JOIN prompt_batches b ON b.id = m.batch
         WHERE m.observation = ?1 AND m.evidence IS NOT NULL ORDER BY b.session, b.prompt_number, b.seq",
        params![id],
    )?;
    evidence.extend(shares.into_iter().flatten().filter(|event| known.insert(event.clone())));
    db.run("UPDATE observations SET evidence = ?2, importance = max(own_importance,
            (SELECT ifnull(max(importance), 0) FROM observation_batches WHERE observation = ?1)) WHERE id = ?1", params![id, serde_json::to_string(&evidence)?])
}

/// Releases a batch's earlier observations that it no longer makes: all except `kept`. Returns those that another
/// batch took over.
pub(crate) fn retract_missing(
    db: &WriteContext<'_>,
    batch: BatchId,
    kept: &[ObservationId],
) -> Result<Vec<ObservationId>, StoreError> {
    let session: SessionRow = db.one("SELECT session FROM prompt_batches WHERE id = ?1", params![batch])?;
    let mut taken_over = Vec::new();
    let others: Vec<ObservationId> =
        db.all("SELECT id FROM observations WHERE batch = ?1 AND origin <> 'user'", params![batch])?;
    for gone in others.into_iter().filter(|id| !kept.contains(id)) {
        taken_over.extend(leave(db, gone, session, batch)?);
        log(db, gone)?;
    }
    let repeated: Vec<ObservationId> =
        db.all("SELECT observation FROM observation_batches WHERE batch = ?1", params![batch])?;
    for gone in repeated.into_iter().filter(|id| !kept.contains(id)) {
        db.run(
            "DELETE FROM observation_batches WHERE observation = ?1 AND batch = ?2",
            params![gone, batch],
        )?;
        db.run(
            "DELETE FROM observation_sessions WHERE observation = ?1 AND session = ?2 AND NOT EXISTS (
                SELECT 1 FROM observation_batches m JOIN prompt_batches b ON b.id = m.batch
                WHERE m.observation = ?1 AND b.session = ?2)",
            params![gone, session],
        )?;
        recompute_evidence(db, gone)?;
        log(db, gone)?;
    }
    Ok(taken_over)
}

/// Releases an observation that its batch no longer makes. The next batch that also made it takes it over; without
/// one, it is removed. Returns it if it was taken over.
fn leave(
    db: &Connection,
    id: ObservationId,
    session: SessionRow,
    batch: BatchId,
) -> Result<Option<ObservationId>, StoreError> {
    let heir: Option<(BatchId, SessionRow)> = db.first(
        "SELECT m.batch, b.session FROM observation_batches m JOIN prompt_batches b ON b.id = m.batch
         WHERE m.observation = ?1 AND m.batch <> ?2 ORDER BY m.batch LIMIT 1",
        params![id, batch],
    )?;
    if let Some((heir, its_session)) = heir {
        db.run(
            "UPDATE observations SET batch = ?2, session = ?3,
                    (own_evidence, own_importance) = (SELECT ifnull(m.evidence, own_evidence),
                    ifnull(m.importance, own_importance)
                        FROM observation_batches m WHERE m.observation = ?1 AND m.batch = ?2) WHERE id = ?1",
            params![id, heir, its_session],
        )?;
        db.run("DELETE FROM observation_batches WHERE observation = ?1 AND batch = ?2", params![id, heir])?;
        recompute_evidence(db, id)?;
        return Ok(Some(id));
    }
    // Older rows only record whether another session said it too.
    db.run(
        "DELETE FROM observations WHERE id = ?1 AND NOT EXISTS (
            SELECT 1 FROM observation_sessions s WHERE s.observation = ?1 AND s.session <> ?2)",
        params![id, session],
    )?;
    Ok(None)
}
