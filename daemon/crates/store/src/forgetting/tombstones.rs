//! Tombstones: traces of forgotten data that keep it from coming back.

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::forgetting::finding::RowsToForget;
use crate::sessions::delivery::Delivery;
use recall_domain::ids::{BatchId, EventId, SessionKey, SessionRow};
use recall_domain::observation::ObservationDraft;
use recall_domain::order::Order;

/// A truncated hash; the full one would not be noticeably safer.
pub(super) type Hash = [u8; 16];

pub(super) fn hash(parts: &[&str]) -> Hash {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().first_chunk().copied().unwrap_or_default()
}

pub(super) fn session_hash(key: &SessionKey) -> Hash {
    hash(&[key.agent.as_str(), key.id.as_str()])
}

fn title_hash(title: &str) -> Hash {
    hash(&[title.trim()])
}

/// Detaches the session's events, keeps their ids, and rejects events that are still in transit.
pub(super) fn bury_session(
    db: &Connection,
    session: SessionRow,
    key: &SessionKey,
    at: Order,
) -> Result<(), StoreError> {
    db.run("UPDATE deliveries SET session = NULL, key = NULL WHERE session = ?1", params![session])?;
    db.run(
        "INSERT INTO forgotten_sessions (name, at, boot_id, boot_ns) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET at = excluded.at, boot_id = excluded.boot_id, boot_ns = excluded.boot_ns",
        params![session_hash(key), at.wall, at.boot, at.boot_ns],
    )
}

/// Whether the event was captured before its session was forgotten.
pub(crate) fn belongs_to_forgotten_session(
    db: &Connection,
    key: &SessionKey,
    delivery: &Delivery,
) -> Result<bool, StoreError> {
    let sql = "SELECT boot_id, boot_ns, at FROM forgotten_sessions WHERE name = ?1";
    let forgotten: Option<Order> = db.first(sql, [session_hash(key)])?;
    let taken = Order { wall: delivery.captured_at, boot: delivery.boot_id, boot_ns: delivery.boot_ns };
    Ok(forgotten.is_some_and(|forgotten| !forgotten.is_before(&taken)))
}

/// Whether anything of this session was captured and forgotten.
pub(crate) fn is_forgotten(db: &Connection, key: &SessionKey) -> Result<bool, StoreError> {
    db.one("SELECT EXISTS (SELECT 1 FROM forgotten_sessions WHERE name = ?1)", [session_hash(key)])
}

/// Keeps removed observations from being made again in remaining sessions.
pub(super) fn bury_observations(db: &Connection, to_forget: &RowsToForget) -> Result<(), StoreError> {
    for observation in &to_forget.observations {
        let places: Vec<(String, String, SessionRow, Option<BatchId>)> = db.all(
            "SELECT o.title, o.evidence, p.session, iif(p.session = o.session, o.batch, NULL) FROM observations o
             JOIN (SELECT id AS observation, session FROM observations WHERE session IS NOT NULL
                   UNION SELECT observation, session FROM observation_sessions) p ON p.observation = o.id
             WHERE o.id = ?1",
            params![observation],
        )?;
        for (title, evidence, session, batch) in places {
            db.run(
                "INSERT OR REPLACE INTO forgotten_observations (observation, session, batch, title, evidence)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![observation, session, batch, title_hash(&title), evidence],
            )?;
        }
    }
    Ok(())
}

/// Whether an observation was forgotten before: its session had one with this title, or its batch had one with all of
/// this evidence.
pub(crate) fn was_forgotten(
    db: &Connection,
    session: SessionRow,
    batch: BatchId,
    draft: &ObservationDraft,
) -> Result<bool, StoreError> {
    let forgotten: Vec<(bool, bool, Vec<String>)> = db.all(
        "SELECT title = ?2, batch IS ?3, evidence FROM forgotten_observations WHERE session = ?1",
        params![session, title_hash(&draft.title), batch],
    )?;
    for (same_title, same_batch, evidence) in forgotten {
        if same_title {
            return Ok(true);
        }
        let rests_on_it = |event: &EventId| evidence.contains(&event.to_string());
        if same_batch && !draft.evidence.is_empty() && draft.evidence.iter().all(rests_on_it) {
            return Ok(true);
        }
    }
    Ok(false)
}
