//! The lives of sessions: how they begin, pause and end, and their record.
//!
//! Each change of a life is recorded in the transaction that makes it. Each life has at most one recorded start and end.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::jobs::job_kind::JobKind;
use crate::jobs::queue;
use crate::operation::{Operation, WriteContext};
use crate::sessions::effect_context::EffectContext;
use crate::sessions::spans;
use crate::{Reader, StoreError};
use recall_domain::event::{HostFacts, StartSource};
use recall_domain::ids::{SessionId, SessionKey, SessionRow, Timestamp};
use recall_domain::lifecycle::{LifecycleKind, Tally, Totals};
use recall_domain::session::{CLEAR_WITHIN_MS, SessionStatus};

record! {
/// An entry of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifeEventRow from "life_events" {
    pub life: u32 = "life",
    pub name: String = "name",
    pub at: Timestamp = "at",
    /// The event's public fields, a JSON object.
    pub detail: String = "detail",
}
}

impl Reader<'_> {
    /// The record of a session's lives, in order.
    pub fn life_events(self, session: SessionRow) -> Result<Vec<LifeEventRow>, StoreError> {
        self.0.all(&format!("{} WHERE session = ?1 ORDER BY id", LifeEventRow::SELECT), params![session])
    }
}

/// Records a lifecycle event. Returns `false` if this start or end is already recorded.
fn record(
    db: &Connection,
    session: SessionRow,
    at: Timestamp,
    what: &LifecycleKind,
) -> Result<bool, StoreError> {
    let written = db.update(
        "INSERT INTO life_events (session, life, name, at, detail)
             SELECT id, life, ?2, ?3, ?4 FROM sessions WHERE id = ?1 ON CONFLICT DO NOTHING",
        params![session, what.name(), at.0, what.detail().to_string()],
    )?;
    Ok(written > 0)
}

pub(crate) fn record_and_publish(scene: &EffectContext<'_>, what: LifecycleKind) -> Result<(), StoreError> {
    if record(scene.db, scene.session(), scene.at, &what)? {
        scene.publish(what);
    }
    Ok(())
}

pub(crate) fn begin(scene: &EffectContext<'_>, life: u32, source: StartSource) -> Result<(), StoreError> {
    scene.db.run(
        "UPDATE sessions SET life = ?2, status = 'initialized', reason = NULL, ended_at = NULL,
                    suspended_at = NULL, life_started_at = ?3 WHERE id = ?1",
        params![scene.session(), life, scene.at.0],
    )?;
    let resumed_from = match (life, source) {
        (1, StartSource::Clear) => link_predecessor(scene)?,
        (1, _) => reported_predecessor(scene)?,
        _ => Some(scene.key.id.clone()),
    };
    let totals = totals(scene.db, scene.session())?;
    record_and_publish(scene, LifecycleKind::SessionStart { life, source, resumed_from, totals })
}

/// Handles an event of a life that a later event already began.
pub(crate) fn follow_cleared(scene: &EffectContext<'_>) -> Result<(), StoreError> {
    link_predecessor(scene).map(|_| ())
}

/// Stores the preceding session and the counts that the agent's program reports.
pub(crate) fn keep_host_facts(scene: &EffectContext<'_>, facts: &HostFacts) -> Result<(), StoreError> {
    scene.db.run(
        "UPDATE sessions SET resumed_from = ifnull(?2, resumed_from), host_messages = ifnull(?3, host_messages),
                host_compacted = ifnull(?4, host_compacted) WHERE id = ?1",
        params![
            scene.session(),
            facts.continues.as_ref().map(SessionId::as_str),
            facts.message_count,
            facts.compacted_count
        ],
    )
}

fn reported_predecessor(scene: &EffectContext<'_>) -> Result<Option<SessionId>, StoreError> {
    scene.db.one("SELECT resumed_from FROM sessions WHERE id = ?1", params![scene.session()])
}

/// Records which session this one replaced and when, because the end of that session may arrive later.
fn link_predecessor(scene: &EffectContext<'_>) -> Result<Option<SessionId>, StoreError> {
    let before =
        reported_predecessor(scene)?.map_or_else(|| predecessor(scene), |reported| Ok(Some(reported)))?;
    scene.db.run(
        "UPDATE sessions SET cleared_at = ?2, resumed_from = ifnull(resumed_from, ?3) WHERE id = ?1",
        params![scene.session(), scene.at.0, before.as_ref().map(SessionId::as_str)],
    )?;
    Ok(before)
}

/// Returns the session that was cleared just before this one began; the agent does not name it. A session cleared in
/// the same folder is preferred to others of the project, and none is used twice.
fn predecessor(scene: &EffectContext<'_>) -> Result<Option<SessionId>, StoreError> {
    scene.db.first(
        "SELECT o.session_id FROM sessions o JOIN sessions s ON s.id = ?1
         WHERE o.project = s.project AND o.agent = s.agent AND o.id <> s.id AND o.status = 'completed'
           AND o.reason = 'clear' AND o.ended_at BETWEEN ?2 - ?3 AND ?2 + ?3
           AND NOT EXISTS (SELECT 1 FROM sessions c
                           WHERE c.project = s.project AND c.agent = s.agent AND c.resumed_from =
                           o.session_id)
         ORDER BY o.cwd IS s.cwd DESC, abs(o.ended_at - ?2), o.id DESC LIMIT 1",
        params![scene.session(), scene.at, CLEAR_WITHIN_MS],
    )
}

pub(crate) fn resume(
    scene: &EffectContext<'_>,
    status: SessionStatus,
    suspended_for_ms: i64,
) -> Result<(), StoreError> {
    scene.db.run(
        "UPDATE sessions SET status = ?2, suspended_at = NULL WHERE id = ?1",
        params![scene.session(), status.as_str()],
    )?;
    let totals = totals(scene.db, scene.session())?;
    record_and_publish(scene, LifecycleKind::SessionResume { suspended_for_ms, totals })
}

/// Suspends the session, because the agent's program exits.
pub(crate) fn suspend(scene: &EffectContext<'_>, reason: &str, tally: Tally) -> Result<(), StoreError> {
    scene.db.run(
        "UPDATE sessions SET status = 'suspended', suspended_at = ?2 WHERE id = ?1",
        params![scene.session(), scene.at.0],
    )?;
    let (duration_ms, totals) = (since_first_start(scene)?, totals(scene.db, scene.session())?);
    record_and_publish(
        scene,
        LifecycleKind::SessionSuspend { tally, totals, duration_ms, reason: reason.to_owned() },
    )
}

/// Returns the totals of a session so far. Reads the counters in its row, and an index once.
pub(crate) fn totals(db: &Connection, session: SessionRow) -> Result<Totals, StoreError> {
    let (prompt_count, tool_call_count, observation_count) = db.one(
        "SELECT prompts, activities, (SELECT count(*) FROM observations WHERE session = ?1)
         FROM sessions WHERE id = ?1",
        params![session],
    )?;
    Ok(Totals { prompt_count, tool_call_count, observation_count })
}

/// How long the session has lasted, including all lives and the time between them.
fn since_first_start(scene: &EffectContext<'_>) -> Result<i64, StoreError> {
    Ok(scene.at.since(Timestamp(
        scene.db.one("SELECT started_at FROM sessions WHERE id = ?1", params![scene.session()])?,
    )))
}

pub(crate) fn complete(scene: &EffectContext<'_>, reason: &str, tally: Tally) -> Result<(), StoreError> {
    scene.db.run(
        "UPDATE sessions SET status = 'completed', reason = ?2, ended_at = ?3, suspended_at = NULL,
                    end_event = ifnull(?4, (SELECT event_id FROM deliveries WHERE session = ?1
                        ORDER BY boot_id = (SELECT boot_id FROM deliveries WHERE session = ?1
                                            ORDER BY captured_at DESC LIMIT 1) DESC, boot_ns DESC LIMIT 1))
             WHERE id = ?1",
        params![scene.session(), reason, scene.at.0, scene.event.map(|event| event.0)],
    )?;
    let (duration_ms, totals) = (since_first_start(scene)?, totals(scene.db, scene.session())?);
    record_and_publish(
        scene,
        LifecycleKind::SessionEnd { tally, totals, duration_ms, reason: reason.to_owned() },
    )?;
    if reason == StartSource::Clear.as_str() { claim_successor(scene) } else { Ok(()) }
}

/// Links the session that replaced a cleared one, if its events arrived first.
fn claim_successor(scene: &EffectContext<'_>) -> Result<(), StoreError> {
    scene.db.run(
        "UPDATE sessions SET resumed_from = ?4 WHERE id = (
                SELECT s.id FROM sessions o JOIN sessions s ON s.project = o.project AND s.agent = o.agent
                WHERE o.id = ?1 AND s.id <> o.id AND s.resumed_from IS NULL
                  AND s.cleared_at BETWEEN ?2 - ?3 AND ?2 + ?3
                ORDER BY s.cwd IS o.cwd DESC, abs(s.cleared_at - ?2), s.id LIMIT 1)
             AND NOT EXISTS (SELECT 1 FROM sessions c JOIN sessions o ON o.id = ?1
                             WHERE c.project = o.project AND c.agent = o.agent AND c.resumed_from = ?4)",
        params![scene.session(), scene.at.0, CLEAR_WITHIN_MS, scene.key.id.as_str()],
    )
}

/// Closes the open parts of sessions that are about to be deleted because they were silent for too long.
pub(crate) fn end_expired(
    db: &WriteContext<'_>,
    sessions: &BTreeSet<SessionRow>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!("{} WHERE s.status <> 'completed' AND s.id = ?1", OpenLife::SELECT);
    for &session in sessions {
        let Some(life) = db.first::<OpenLife>(&sql, params![session])? else { continue };
        let (tally, duration_ms) = life.amounts_to(life.heard);
        let totals = totals(db, session)?;
        let reason = "retention".to_owned();
        if let Some(expired) = spans::expire(db, &life.key, tally, life.heard, &reason)? {
            db.publish_expired(expired);
        }
        let what = LifecycleKind::SessionEnd { tally, totals, duration_ms, reason };
        db.run("UPDATE sessions SET status = 'completed' WHERE id = ?1", params![session])?;
        record(db, session, life.heard, &what)?;
        db.publish(life.key, now, what);
    }
    Ok(())
}

record! {
/// A session whose life continues.
struct OpenLife from "sessions s" {
    session: SessionRow = "s.id",
    key: SessionKey = "s.agent, s.session_id",
    started: Timestamp = "s.started_at",
    begun: Timestamp = "s.life_started_at",
    heard: Timestamp = "s.last_event_at",
    /// The number of prompts and answers.
    message_count: u32 = "(SELECT ifnull(sum((b.source <> 'recovery') + (b.response IS NOT NULL OR
             b.response_event IS NOT NULL)), 0)
        FROM prompt_batches b WHERE b.session = s.id)",
    /// Whether the session is in the middle of a turn that is not private.
    in_turn: bool = "EXISTS (SELECT 1 FROM prompt_batches b
        WHERE b.session = s.id AND b.status <> 'closed' AND b.source <> 'private')",
}
}

impl OpenLife {
    /// Returns the counts, and how long the session has lasted including all lives and the time between them.
    fn amounts_to(&self, at: Timestamp) -> (Tally, i64) {
        let tally = Tally { message_count: self.message_count, life_ms: at.since(self.begun) };
        (tally, at.since(self.started))
    }
}

/// Why sessions are suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// The daemon stops normally.
    Stop,
    /// The daemon was killed. Only each session's last event is known.
    Crash,
}

/// Marks every live session as suspended, because the daemon stops or was killed. Those in the middle of a turn get a
/// summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuspendAll {
    pub at: Timestamp,
    pub why: Suspension,
}

impl Operation for SuspendAll {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self { at: now, why } = self;
        let live = format!("{} WHERE s.status IN ('initialized', 'active') ORDER BY s.id", OpenLife::SELECT);
        let stamp = "UPDATE sessions SET status = 'suspended', suspended_at = ?2 WHERE id = ?1";
        for life in db.all::<OpenLife>(&live, [])? {
            let (at, reason) = match why {
                Suspension::Stop => (now, "daemon_stop"),
                Suspension::Crash => (life.heard, "daemon_crash"),
            };
            let (tally, duration_ms) = life.amounts_to(at);
            let OpenLife { session, key, in_turn, .. } = life;
            let totals = totals(db, session)?;
            let what =
                LifecycleKind::SessionSuspend { tally, totals, duration_ms, reason: reason.to_owned() };
            db.run(stamp, params![session, at.0])?;
            if in_turn {
                // The turn may never continue, so the next daemon summarizes what there is.
                queue::enqueue_for_later(db, JobKind::Summary, session, None, now)?;
            }
            record(db, session, at, &what)?;
            db.publish(key, at, what);
        }
        Ok(())
    }
}
