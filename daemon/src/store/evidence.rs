//! What observations rest on. One that several batches have made rests on all of them: each has its share, which goes
//! when the batch is made anew and does not make it again.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, params};

use super::StoreError;
use super::operation::{WriteContext, log};
use super::results::keep_files;
use crate::memory::ids::EventId;
use crate::memory::observation::ObservationDraft;

pub(super) fn evidence_json(evidence: &[EventId]) -> Result<String, StoreError> {
    Ok(serde_json::to_string(&evidence.iter().map(EventId::to_string).collect::<Vec<_>>())?)
}

/// The batch has made an observation that is another one's.
pub(super) fn merge(
    db: &Connection,
    id: i64,
    (session, batch): (i64, i64),
    draft: &ObservationDraft,
) -> Result<i64, StoreError> {
    // Of older rows nobody knows what came from whom.
    db.prepare_cached(
        "UPDATE observations SET own_evidence = evidence, own_importance = importance
         WHERE id = ?1 AND own_evidence IS NULL",
    )?
    .execute([id])?;
    db.prepare_cached("INSERT OR IGNORE INTO observation_sessions (observation, session) VALUES (?1, ?2)")?
        .execute(params![id, session])?;
    db.prepare_cached(
        "INSERT OR REPLACE INTO observation_batches (observation, batch, evidence, importance) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![id, batch, evidence_json(&draft.evidence)?, draft.importance.get()])?;
    keep_files(db, id, draft)?;
    rest_anew(db, id)?;
    Ok(id)
}

/// Lets an observation rest on its own batch and on those that share it, in their order.
pub(super) fn rest_anew(db: &Connection, id: i64) -> Result<(), StoreError> {
    let mut own = db.prepare_cached("SELECT own_evidence FROM observations WHERE id = ?1")?;
    let own: Option<String> = own.query_row([id], |row| row.get(0)).optional()?.flatten();
    let Some(own) = own else { return Ok(()) };
    let mut evidence: Vec<String> = serde_json::from_str(&own)?;
    let mut known: HashSet<String> = evidence.iter().cloned().collect();
    let mut shares = db.prepare_cached(
        "SELECT m.evidence FROM observation_batches m JOIN prompt_batches b ON b.id = m.batch
         WHERE m.observation = ?1 AND m.evidence IS NOT NULL ORDER BY b.session, b.prompt_number, b.seq",
    )?;
    for share in shares.query_map([id], |row| row.get::<_, String>(0))? {
        let share: Vec<String> = serde_json::from_str(&share?)?;
        evidence.extend(share.into_iter().filter(|event| known.insert(event.clone())));
    }
    db.prepare_cached(
        "UPDATE observations SET evidence = ?2, importance = max(own_importance,
            (SELECT ifnull(max(importance), 0) FROM observation_batches WHERE observation = ?1)) WHERE id = ?1",
    )?
    .execute(params![id, serde_json::to_string(&evidence)?])?;
    Ok(())
}

/// Lets go of the observations that a batch has made before and makes no longer: all but `kept`.
pub(super) fn retract_missing(
    db: &WriteContext<'_>,
    (session, batch): (i64, i64),
    kept: &[i64],
) -> Result<(), StoreError> {
    let mut others =
        db.prepare_cached("SELECT id FROM observations WHERE batch = ?1 AND origin <> 'user'")?;
    let others = others.query_map([batch], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>, _>>()?;
    for gone in others.into_iter().filter(|id| !kept.contains(id)) {
        leave(db, gone, (session, batch))?;
        log(db, "observation", gone)?;
    }
    let mut said_again = db.prepare_cached("SELECT observation FROM observation_batches WHERE batch = ?1")?;
    let said_again =
        said_again.query_map([batch], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>, _>>()?;
    for unsaid in said_again.into_iter().filter(|id| !kept.contains(id)) {
        db.prepare_cached("DELETE FROM observation_batches WHERE observation = ?1 AND batch = ?2")?
            .execute([unsaid, batch])?;
        db.prepare_cached(
            "DELETE FROM observation_sessions WHERE observation = ?1 AND session = ?2 AND NOT EXISTS (
                SELECT 1 FROM observation_batches m JOIN prompt_batches b ON b.id = m.batch
                WHERE m.observation = ?1 AND b.session = ?2)",
        )?
        .execute([unsaid, session])?;
        rest_anew(db, unsaid)?;
        log(db, "observation", unsaid)?;
    }
    Ok(())
}

/// An observation that its batch makes no longer: the next batch that has made it too takes it over. It goes where
/// nobody else has said it.
fn leave(db: &Connection, id: i64, (session, batch): (i64, i64)) -> Result<(), StoreError> {
    let mut heir = db.prepare_cached(
        "SELECT m.batch, b.session FROM observation_batches m JOIN prompt_batches b ON b.id = m.batch
         WHERE m.observation = ?1 AND m.batch <> ?2 ORDER BY m.batch LIMIT 1",
    )?;
    let heir: Option<(i64, i64)> =
        heir.query_row([id, batch], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((heir, its_session)) = heir {
        db.prepare_cached(
            "UPDATE observations SET batch = ?2, session = ?3,
                    (own_evidence, own_importance) = (SELECT ifnull(m.evidence, own_evidence), ifnull(m.importance, own_importance)
                        FROM observation_batches m WHERE m.observation = ?1 AND m.batch = ?2) WHERE id = ?1",
        )?
        .execute([id, heir, its_session])?;
        db.prepare_cached("DELETE FROM observation_batches WHERE observation = ?1 AND batch = ?2")?
            .execute([id, heir])?;
        return rest_anew(db, id);
    }
    // Whether another session said it, too, is all that older rows tell.
    db.prepare_cached(
        "DELETE FROM observations WHERE id = ?1 AND NOT EXISTS (
            SELECT 1 FROM observation_sessions s WHERE s.observation = ?1 AND s.session <> ?2)",
    )?
    .execute([id, session])?;
    Ok(())
}
