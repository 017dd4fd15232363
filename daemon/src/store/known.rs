//! Reading sessions as their actors take them up again.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{ProjectInfo, StoreError};
use crate::memory::event::SubagentTask;
use crate::memory::file_memory::InjectedSet;
use crate::memory::ids::{
    AgentName, CallId, EventId, ObservationId, ProjectKey, ProjectRow, PromptId, SessionId, SessionKey,
    SessionRow, Timestamp,
};
use crate::memory::material::BatchSource;
use crate::memory::order::Order;
use crate::memory::session::{
    Batch, BatchState, EarlyCall, Growth, Load, Response, RunningCall, Seq, Session, SessionStatus,
    TurnResponse, TurnSeen,
};

/// A session as its actor takes it up again.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownSession {
    pub row: SessionRow,
    pub project: ProjectInfo,
    pub session: Session,
    pub transcript_path: Option<String>,
    /// The folder of its project.
    pub root: Option<String>,
    /// When the event was taken that decided where it runs; `None` where that is not known.
    pub home: Option<Order>,
    /// What it was told since its context was last emptied.
    pub injected: InjectedSet,
}

/// # Errors
/// When the database refuses.
pub fn known_session(db: &Connection, key: &SessionKey) -> Result<Option<KnownSession>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT s.id, s.status, s.life, s.last_event_at, p.id, p.key, p.name,
                (SELECT ifnull(max(prompt_number), 0) FROM prompt_batches WHERE session = s.id),
                e.boot_id, e.boot_ns, e.captured_at, s.life_started_at, s.suspended_at,
                (SELECT ifnull(max(message_count), 0) FROM compactions WHERE session = s.id AND ended_at IS NOT NULL),
                s.transcript_path, s.root, h.boot_id, h.boot_ns, h.captured_at
         FROM sessions s JOIN projects p ON p.id = s.project LEFT JOIN deliveries e ON e.event_id = s.end_event
         LEFT JOIN deliveries h ON h.event_id = s.home_event
         WHERE s.agent = ?1 AND s.session_id = ?2",
    )?;
    let found = statement
        .query_row([key.agent.as_str(), key.id.as_str()], |row| {
            let status: String = row.get(1)?;
            Ok(KnownSession {
                row: SessionRow(row.get(0)?),
                project: ProjectInfo {
                    row: ProjectRow(row.get(4)?),
                    key: ProjectKey(row.get(5)?),
                    name: row.get(6)?,
                },
                session: Session {
                    status: SessionStatus::parse(&status).unwrap_or_default(),
                    life: row.get(2)?,
                    prompts: row.get(7)?,
                    batches: Vec::new(),
                    spare: Vec::new(),
                    early: Vec::new(),
                    turns_seen: Vec::new(),
                    last_event: Timestamp(row.get(3)?),
                    latest: None,
                    ended: read_order(row, 8)?,
                    begun: Timestamp(row.get(11)?),
                    suspended: row.get::<_, Option<i64>>(12)?.map(Timestamp),
                    calls: Vec::new(),
                    compacted: row.get(13)?,
                },
                transcript_path: row.get(14)?,
                root: row.get(15)?,
                home: read_order(row, 16)?,
                injected: InjectedSet::default(),
            })
        })
        .optional()?;
    let Some(mut known) = found else { return Ok(None) };
    known.session.batches = session_batches(db, known.row)?;
    known.session.early = early_calls(db, known.row, known.session.batches.first())?;
    known.session.spare = spare_answers(db, known.row)?;
    known.session.turns_seen = turns_seen(db, known.row)?;
    known.session.latest = latest_order(db, known.row)?;
    known.session.calls = running_calls(db, known.row)?;
    known.injected = injected(db, known.row)?;
    Ok(Some(known))
}

fn running_calls(db: &Connection, session: SessionRow) -> Result<Vec<RunningCall>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT call_id, subagent, task_kind, task FROM running_calls WHERE session = ?1 ORDER BY call_id",
    )?;
    let rows = statement.query_map([session.0], |row| {
        let task = row.get::<_, Option<String>>(2)?.zip(row.get::<_, Option<String>>(3)?);
        let task = task.map(|(kind, text)| SubagentTask { kind, text });
        Ok(RunningCall { id: CallId(row.get(0)?), subagent: row.get(1)?, task })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read_load(row: &Row<'_>, at: usize) -> rusqlite::Result<Load> {
    Ok(Load { activities: row.get(at)?, bytes: row.get::<_, i64>(at + 1)?.unsigned_abs() })
}

/// A batch that still waits for its prompt was opened by the first of its calls.
fn session_batches(db: &Connection, session: SessionRow) -> Result<Vec<Batch>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT b.seq, b.prompt_id, b.source, b.status, b.prompt_number, b.response_turn, b.opened_at,
                o.boot_id, o.boot_ns, o.captured_at, r.boot_id, r.boot_ns, r.captured_at, b.response IS NOT NULL,
                iif(b.status = 'closed' AND b.source <> 'recovery', 0, (SELECT count(*) FROM activities a
                    WHERE a.batch = b.id AND a.kind = 'tool' AND a.part_of IS NULL AND a.id > b.flushed_upto)),
                iif(b.status = 'closed' AND b.source <> 'recovery', 0, (SELECT ifnull(sum(length(a.input) + length(a.response)), 0) FROM activities a
                    WHERE a.batch = b.id AND a.kind = 'tool' AND a.part_of IS NULL AND a.id > b.flushed_upto)),
                iif(b.status = 'closed' AND b.source <> 'recovery', 0, (SELECT count(*) FROM activities a
                    WHERE a.batch = b.id AND a.kind = 'tool' AND a.part_of IS NULL AND a.id <= b.flushed_upto)),
                iif(b.status = 'closed' AND b.source <> 'recovery', 0, (SELECT ifnull(sum(length(a.input) + length(a.response)), 0) FROM activities a
                    WHERE a.batch = b.id AND a.kind = 'tool' AND a.part_of IS NULL AND a.id <= b.flushed_upto)),
                b.asked_in, b.response_event
         FROM prompt_batches b
         LEFT JOIN deliveries o ON o.event_id = ifnull(b.prompt_event,
            (SELECT e.event_id FROM activities a JOIN deliveries e ON e.event_id = ifnull(a.part_of, a.event_id)
             WHERE a.batch = b.id AND a.kind <> 'other' AND a.part_of IS NULL ORDER BY e.boot_ns LIMIT 1))
         LEFT JOIN deliveries r ON r.event_id = b.response_event
         WHERE b.session = ?1 ORDER BY b.seq",
    )?;
    let rows = statement.query_map([session.0], |row| {
        let (source, status): (String, String) = (row.get(2)?, row.get(3)?);
        let opened_at = Timestamp(row.get(6)?);
        let turn = row.get::<_, Option<String>>(5)?.map(PromptId);
        Ok(Batch {
            seq: Seq(row.get(0)?),
            number: row.get(4)?,
            opened: read_order(row, 7)?.unwrap_or(Order { wall: opened_at, ..Order::default() }),
            prompt: row.get::<_, Option<String>>(1)?.map(PromptId),
            asked_in: row.get::<_, Option<String>>(18)?.map(PromptId),
            source: BatchSource::parse(&source).unwrap_or_default(),
            state: match status.as_str() {
                "open" => BatchState::Open,
                "waiting" => BatchState::Waiting,
                _ => BatchState::Closed,
            },
            response: match read_order(row, 10)? {
                Some(at) => Response::Known(TurnResponse { event: EventId(row.get(19)?), at, prompt: turn }),
                None if row.get(13)? => Response::Recovered,
                None => Response::Missing,
            },
            growth: Growth { fresh: read_load(row, 14)?, compressed: read_load(row, 16)? },
        })
    })?;
    // As the live session puts them: each in its place among those that it knows.
    let mut batches: Vec<Batch> = Vec::new();
    for batch in rows {
        let batch = batch?;
        let place = batches.iter().take_while(|known| !batch.opened.is_before(&known.opened)).count();
        batches.insert(place, batch);
    }
    Ok(batches)
}

/// What lies in the first batch though it was done before its prompt, of each turn the first.
fn early_calls(
    db: &Connection,
    session: SessionRow,
    first: Option<&Batch>,
) -> Result<Vec<EarlyCall>, StoreError> {
    let Some(first) = first else { return Ok(Vec::new()) };
    let mut statement = db.prepare_cached(
        "SELECT a.prompt_id, d.boot_id, min(d.boot_ns), d.captured_at
         FROM prompt_batches b JOIN activities a ON a.batch = b.id JOIN deliveries d ON d.event_id = a.event_id
         WHERE b.session = ?1 AND b.seq = ?2 AND a.kind = 'tool' AND a.part_of IS NULL
           AND (b.source = 'recovery' OR iif(d.boot_id = ?3, d.boot_ns < ?4, d.captured_at < ?5))
         GROUP BY a.prompt_id, d.boot_id",
    )?;
    let Order { boot, boot_ns, wall } = first.opened;
    let boot_ns = i64::try_from(boot_ns).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![session.0, first.seq.0, boot, boot_ns, wall.0], |row| {
        let turn = row.get::<_, Option<String>>(0)?.map(PromptId);
        Ok(EarlyCall { turn, at: read_order(row, 1)?.unwrap_or_default() })
    })?;
    let mut early: Vec<EarlyCall> = Vec::new();
    for call in rows {
        let call = call?;
        match early.iter_mut().find(|known| known.turn == call.turn) {
            Some(known) if call.at.is_before(&known.at) => known.at = call.at,
            Some(_) => {}
            None => early.push(call),
        }
    }
    Ok(early)
}

/// Answers that are kept as activities.
fn spare_answers(db: &Connection, session: SessionRow) -> Result<Vec<TurnResponse>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT a.event_id, a.prompt_id, d.boot_id, d.boot_ns, d.captured_at
         FROM activities a JOIN deliveries d ON d.event_id = a.event_id
         WHERE a.session = ?1 AND a.kind = 'other' AND a.tool_name = 'Stop' AND length(a.input) > 0 ORDER BY a.id",
    )?;
    let rows = statement.query_map([session.0], |row| {
        let at = read_order(row, 2)?.unwrap_or_default();
        Ok(TurnResponse {
            event: EventId(row.get(0)?),
            at,
            prompt: row.get::<_, Option<String>>(1)?.map(PromptId),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Turns that something was done in and no prompt was asked in, and when first.
fn turns_seen(db: &Connection, session: SessionRow) -> Result<Vec<TurnSeen>, StoreError> {
    let mut statement = db.prepare_cached(
        "WITH seen (turn, event) AS (
            SELECT prompt_id, ifnull(part_of, event_id) FROM activities WHERE session = ?1
            UNION ALL SELECT a.prompt_id, a.event_id FROM asides a JOIN prompt_batches b ON b.id = a.batch WHERE b.session = ?1
            UNION ALL SELECT response_turn, response_event FROM prompt_batches WHERE session = ?1
            UNION ALL SELECT prompt_id, event_id FROM subagents WHERE session = ?1
            UNION ALL SELECT prompt_id, event_id FROM compactions WHERE session = ?1
            UNION ALL SELECT end_prompt_id, end_event FROM compactions WHERE session = ?1)
         SELECT turn, boot_id, min(boot_ns), captured_at FROM seen JOIN deliveries ON event_id = event
         WHERE turn IS NOT NULL AND (
            turn NOT IN (SELECT asked_in FROM prompt_batches WHERE session = ?1 AND asked_in = prompt_id)
            OR turn IN (SELECT prompt_id FROM prompt_batches WHERE session = ?1 AND asked_in <> prompt_id))
         GROUP BY turn, boot_id",
    )?;
    let rows = statement.query_map([session.0], |row| {
        Ok(TurnSeen { turn: PromptId(row.get(0)?), at: read_order(row, 1)?.unwrap_or_default() })
    })?;
    let mut first: Vec<TurnSeen> = Vec::new();
    for seen in rows {
        let seen = seen?;
        match first.iter_mut().find(|known| known.turn == seen.turn) {
            Some(known) if seen.at.is_before(&known.at) => known.at = seen.at,
            Some(_) => {}
            None => first.push(seen),
        }
    }
    Ok(first)
}

/// When the session's latest event was taken: of the latest boot, the latest.
fn latest_order(db: &Connection, session: SessionRow) -> Result<Option<Order>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT boot_id, boot_ns, captured_at FROM deliveries WHERE session = ?1
         ORDER BY boot_id = (SELECT boot_id FROM deliveries WHERE session = ?1 ORDER BY captured_at DESC LIMIT 1) DESC,
                  boot_ns DESC LIMIT 1",
    )?;
    Ok(statement.query_row([session.0], |row| read_order(row, 0)).optional()?.flatten())
}

/// When an event was taken.
pub(super) fn order_of(db: &Connection, event: EventId) -> Result<Option<Order>, StoreError> {
    let mut find =
        db.prepare_cached("SELECT boot_id, boot_ns, captured_at FROM deliveries WHERE event_id = ?1")?;
    Ok(find.query_row([event.0], |row| read_order(row, 0)).optional()?.flatten())
}

/// When a delivery was taken: three columns from `column` on, all empty where there is none.
fn read_order(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Order>> {
    let Some(boot) = row.get::<_, Option<[u8; 16]>>(column)? else { return Ok(None) };
    let boot_ns = row.get::<_, i64>(column + 1)?.unsigned_abs();
    Ok(Some(Order { boot, boot_ns, wall: Timestamp(row.get(column + 2)?) }))
}

/// What was given to a session since its context was last emptied by a compaction, which itself may have been given
/// nothing.
fn injected(db: &Connection, session: SessionRow) -> Result<InjectedSet, StoreError> {
    // What a subagent was told, its caller has not read.
    const SINCE: &str = "i.session = ?1 AND i.moment <> 'subagent'
        AND i.id >= ifnull((SELECT max(id) FROM injections WHERE session = ?1 AND moment = 'compact'), 0)
        AND i.at >= ifnull((SELECT max(started_at) FROM compactions WHERE session = ?1 AND ended_at IS NOT NULL), 0)";
    let mut observations = db.prepare_cached(&format!(
        "SELECT DISTINCT json_extract(item.value, '$.id') FROM injections i, json_each(i.items) item
         WHERE json_extract(item.value, '$.kind') = 'observation' AND {SINCE}"
    ))?;
    let ids = observations.query_map([session.0], |row| row.get::<_, Option<i64>>(0))?;
    let ids: Vec<_> = ids.collect::<Result<_, _>>()?;
    let mut files = db.prepare_cached(&format!(
        "SELECT DISTINCT i.file FROM injections i WHERE i.file IS NOT NULL AND {SINCE}"
    ))?;
    let files = files.query_map([session.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(InjectedSet { observations: ids.into_iter().flatten().map(ObservationId).collect(), files })
}

/// Sessions that were silent since `before` and have something left open; suspended ones only if somebody has been
/// listening since `heard_since`, which is before that.
///
/// # Errors
/// When the database refuses.
pub fn quiet_sessions(
    db: &Connection,
    before: Timestamp,
    heard_since: Timestamp,
) -> Result<Vec<SessionKey>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT agent, session_id FROM sessions
         WHERE last_event_at <= ?1 AND (status <> 'suspended' OR ?2 <= ?1)
           AND (status <> 'completed' OR EXISTS (SELECT 1 FROM prompt_batches b
                                                 WHERE b.session = sessions.id AND b.status <> 'closed'))
         LIMIT 200",
    )?;
    let rows = statement.query_map([before.0, heard_since.0], |row| {
        Ok(SessionKey { agent: AgentName(row.get(0)?), id: SessionId(row.get(1)?) })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
