//! Reading sessions: what a compressor reads, what people are shown.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::reading::{
    ObservationRow, SummaryRow, observation_columns, read_observation, read_summary, summary_columns,
};
use super::text::Unpacked;
use super::{ProjectInfo, StoreError};
use crate::memory::document::{DocumentKey, DocumentKind};
use crate::memory::ids::{
    ActivityId, AgentName, BatchId, BranchName, CommitId, EventId, ProjectKey, ProjectRow, SessionId,
    SessionKey, SessionRow, Timestamp,
};
use crate::memory::material::BatchSource;

/// A session as people see it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    pub row: SessionRow,
    pub agent: AgentName,
    pub id: SessionId,
    pub project: ProjectInfo,
    pub root: Option<String>,
    pub status: String,
    pub reason: Option<String>,
    pub title: Option<String>,
    pub prompts: u32,
    pub activities: u32,
    pub started_at: Timestamp,
    pub last_event_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Since when the daemon was away, until the session is heard of again.
    pub suspended_at: Option<Timestamp>,
    /// The session that was cleared away for this one.
    pub resumed_from: Option<SessionId>,
}

const SESSION_COLUMNS: &str =
    "s.id, s.agent, s.session_id, s.status, s.reason, s.title, s.prompts, s.activities,
    s.started_at, s.ended_at, p.id, p.key, p.name, s.root, s.last_event_at, s.resumed_from, s.suspended_at";

fn read_session(row: &Row<'_>) -> rusqlite::Result<SessionInfo> {
    Ok(SessionInfo {
        row: SessionRow(row.get(0)?),
        agent: AgentName(row.get(1)?),
        id: SessionId(row.get(2)?),
        status: row.get(3)?,
        reason: row.get(4)?,
        title: row.get(5)?,
        prompts: row.get(6)?,
        activities: row.get(7)?,
        started_at: Timestamp(row.get(8)?),
        ended_at: row.get::<_, Option<i64>>(9)?.map(Timestamp),
        project: ProjectInfo {
            row: ProjectRow(row.get(10)?),
            key: ProjectKey(row.get(11)?),
            name: row.get(12)?,
        },
        root: row.get(13)?,
        last_event_at: Timestamp(row.get(14)?),
        resumed_from: row.get::<_, Option<String>>(15)?.map(SessionId),
        suspended_at: row.get::<_, Option<i64>>(16)?.map(Timestamp),
    })
}

/// # Errors
/// When there is no such session or the database refuses.
pub fn session_info(db: &Connection, session: SessionRow) -> Result<SessionInfo, StoreError> {
    let sql = format!(
        "SELECT {SESSION_COLUMNS} FROM sessions s JOIN projects p ON p.id = s.project WHERE s.id = ?1"
    );
    Ok(db.prepare_cached(&sql)?.query_row([session.0], read_session)?)
}

/// The sessions whose id is `id`, or begins with it where none is; the latest first, three at most.
///
/// # Errors
/// When the database refuses.
pub fn find_sessions(db: &Connection, id: &str) -> Result<Vec<SessionInfo>, StoreError> {
    let sql = |condition: &str| {
        format!(
            "SELECT {SESSION_COLUMNS} FROM sessions s JOIN projects p ON p.id = s.project
             WHERE {condition} ORDER BY s.last_event_at DESC LIMIT 3"
        )
    };
    let mut exact = db.prepare_cached(&sql("s.session_id = ?1"))?;
    let found = exact.query_map([id], read_session)?.collect::<Result<Vec<_>, _>>()?;
    if !found.is_empty() || id.is_empty() {
        return Ok(found);
    }
    let mut beginning = db.prepare_cached(&sql("substr(s.session_id, 1, length(?1)) = ?1"))?;
    Ok(beginning.query_map([id], read_session)?.collect::<Result<_, _>>()?)
}

/// The latest sessions first, of some projects or of all.
///
/// # Errors
/// When the database refuses.
pub fn session_list(
    db: &Connection,
    project: Option<&[ProjectRow]>,
    since: Option<Timestamp>,
    limit: u32,
) -> Result<Vec<SessionInfo>, StoreError> {
    let sql = format!(
        "SELECT {SESSION_COLUMNS} FROM sessions s JOIN projects p ON p.id = s.project
         WHERE (?1 IS NULL OR s.project IN (SELECT value FROM json_each(?1))) AND s.last_event_at >= ?2 ORDER BY s.last_event_at DESC, s.id DESC LIMIT ?3"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement.query_map(
        params![
            project.map(serde_json::to_string).transpose()?,
            since.map_or(i64::MIN, |since| since.0),
            limit
        ],
        read_session,
    )?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whether a session that is active waits for nothing but the first result of its last turn: the turn has ended with a
/// Stop, and a job of the session has had no result yet.
///
/// # Errors
/// When the database refuses.
pub fn is_summarizing(db: &Connection, session: SessionRow) -> Result<bool, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT s.status = 'active'
            AND (SELECT status = 'closed' AND close_reason = 'stop' FROM prompt_batches
                 WHERE session = s.id ORDER BY prompt_number DESC, seq DESC LIMIT 1)
            AND EXISTS (SELECT 1 FROM jobs
                        WHERE session = s.id AND status IN ('pending', 'running') AND NOT stood_in)
         FROM sessions s WHERE s.id = ?1",
    )?;
    let found: Option<Option<bool>> = statement.query_row([session.0], |row| row.get(0)).optional()?;
    Ok(found.flatten().unwrap_or(false))
}

/// A batch's row with its texts.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchRow {
    pub id: BatchId,
    pub prompt_number: u32,
    pub source: BatchSource,
    pub status: String,
    pub prompt: Option<String>,
    pub prompt_event: Option<EventId>,
    pub response: Option<String>,
    pub response_event: Option<EventId>,
    pub opened_at: Timestamp,
    /// What was checked out, see [`MadeOn`](crate::memory::checkout::MadeOn).
    pub branch: Option<BranchName>,
    pub commit: Option<CommitId>,
}

/// A batch with the session it belongs to and the answer before it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredBatch {
    pub batch: BatchRow,
    pub session: SessionInfo,
    pub previous_response: Option<String>,
}

const BATCH_COLUMNS: &str = "id, prompt_number, source, status, prompt, prompt_event, response, response_event, opened_at, branch, head_commit";

fn read_batch(row: &Row<'_>) -> rusqlite::Result<BatchRow> {
    let source: String = row.get(2)?;
    Ok(BatchRow {
        id: BatchId(row.get(0)?),
        prompt_number: row.get(1)?,
        source: BatchSource::parse(&source).unwrap_or_default(),
        status: row.get(3)?,
        prompt: row.get::<_, Option<Unpacked>>(4)?.map(|text| text.0),
        prompt_event: row.get::<_, Option<[u8; 16]>>(5)?.map(EventId),
        response: row.get::<_, Option<Unpacked>>(6)?.map(|text| text.0),
        response_event: row.get::<_, Option<[u8; 16]>>(7)?.map(EventId),
        opened_at: Timestamp(row.get(8)?),
        branch: row.get::<_, Option<String>>(9)?.map(BranchName),
        commit: row.get::<_, Option<String>>(10)?.map(CommitId),
    })
}

/// # Errors
/// When there is no such batch or the database refuses.
pub fn batch_row(db: &Connection, batch: BatchId) -> Result<StoredBatch, StoreError> {
    let sql = format!("SELECT {BATCH_COLUMNS}, session, prompt_number FROM prompt_batches WHERE id = ?1");
    let (batch, session, number) = db
        .prepare_cached(&sql)?
        .query_row([batch.0], |row| Ok((read_batch(row)?, row.get::<_, i64>(11)?, row.get::<_, i64>(12)?)))?;
    let mut before = db.prepare_cached(
        "SELECT response FROM prompt_batches WHERE session = ?1 AND prompt_number < ?2 AND response IS NOT NULL
         ORDER BY prompt_number DESC LIMIT 1",
    )?;
    let previous = before.query_row([session, number], |row| row.get::<_, Unpacked>(0)).optional()?;
    Ok(StoredBatch {
        batch,
        session: session_info(db, SessionRow(session))?,
        previous_response: previous.map(|text| text.0),
    })
}

/// A session's batches in order.
///
/// # Errors
/// When the database refuses.
pub fn batches(db: &Connection, session: SessionRow) -> Result<Vec<BatchRow>, StoreError> {
    let sql =
        format!("SELECT {BATCH_COLUMNS} FROM prompt_batches WHERE session = ?1 ORDER BY prompt_number, seq");
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_map([session.0], read_batch)?.collect::<Result<_, _>>()?)
}

/// An activity's row with its texts; also the form of an aside.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityRow {
    pub id: ActivityId,
    pub batch: Option<BatchId>,
    pub event: EventId,
    /// `tool`, `other`, `private` or `aside`.
    pub kind: String,
    pub tool_name: String,
    pub tool_use_id: Option<String>,
    pub subagent: Option<String>,
    pub failed: bool,
    pub duration_ms: Option<i64>,
    pub input: Option<String>,
    pub response: Option<String>,
    pub at: Timestamp,
}

pub(super) const ACTIVITY_COLUMNS: &str = "id, batch, event_id, kind, tool_name, tool_use_id,
    ifnull(subagent_type, subagent), failed, duration_ms, input, response, at";

pub(super) fn read_activity(row: &Row<'_>) -> rusqlite::Result<ActivityRow> {
    Ok(ActivityRow {
        id: ActivityId(row.get(0)?),
        batch: row.get::<_, Option<i64>>(1)?.map(BatchId),
        event: EventId(row.get(2)?),
        kind: row.get(3)?,
        tool_name: row.get(4)?,
        tool_use_id: row.get(5)?,
        subagent: row.get(6)?,
        failed: row.get(7)?,
        duration_ms: row.get(8)?,
        input: row.get::<_, Option<Unpacked>>(9)?.map(|text| text.0),
        response: row.get::<_, Option<Unpacked>>(10)?.map(|text| text.0),
        at: Timestamp(row.get(11)?),
    })
}

/// A session's activities in the order in which they happened.
///
/// # Errors
/// When the database refuses.
pub fn session_activities(
    db: &Connection,
    session: SessionRow,
    batch: Option<BatchId>,
) -> Result<Vec<ActivityRow>, StoreError> {
    let (column, id) = batch.map_or(("session", session.0), |batch| ("batch", batch.0));
    // Events of one boot by the time since then, whatever the wall clock did; boots by their earliest wall time.
    let sql = format!(
        "SELECT {ACTIVITY_COLUMNS} FROM activities LEFT JOIN
            (SELECT event_id AS delivered, boot_id, boot_ns, captured_at FROM deliveries)
            ON delivered = ifnull(part_of, event_id)
         WHERE {column} = ?1 ORDER BY min(captured_at) OVER (PARTITION BY boot_id), boot_ns, at, id"
    );
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_map([id], read_activity)?.collect::<Result<_, _>>()?)
}

/// The tools of a session's latest calls with their inputs, the latest first.
///
/// # Errors
/// When the database refuses.
pub fn latest_calls(
    db: &Connection,
    session: SessionRow,
    limit: u32,
) -> Result<Vec<(String, String)>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT tool_name, input FROM activities
         WHERE session = ?1 AND kind = 'tool' AND failed = 0 AND input IS NOT NULL
         ORDER BY at DESC, id DESC LIMIT ?2",
    )?;
    let rows = statement
        .query_map(params![session.0, limit], |row| Ok((row.get(0)?, row.get::<_, Unpacked>(1)?.0)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What the user asked first and last in a session.
///
/// # Errors
/// When the database refuses.
pub fn first_and_last_prompt(
    db: &Connection,
    session: SessionRow,
) -> Result<(Option<String>, Option<String>), StoreError> {
    let ask = |direction: &str| {
        let sql = format!(
            "SELECT prompt FROM prompt_batches
             WHERE session = ?1 AND prompt IS NOT NULL AND source IN ('user', 'plan', 'queued')
             ORDER BY prompt_number {direction} LIMIT 1"
        );
        let mut statement = db.prepare_cached(&sql)?;
        statement.query_row([session.0], |row| row.get::<_, Unpacked>(0)).optional()
    };
    Ok((ask("ASC")?.map(|text| text.0), ask("DESC")?.map(|text| text.0)))
}

/// # Errors
/// When the database refuses.
pub fn asides_of_batch(db: &Connection, batch: BatchId) -> Result<Vec<ActivityRow>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT id, batch, event_id, 'aside', tool_name, NULL, NULL, 0, NULL, input, response, at
         FROM asides WHERE batch = ?1 ORDER BY at, (SELECT boot_ns FROM deliveries d WHERE d.event_id = asides.event_id), id",
    )?;
    Ok(statement.query_map([batch.0], read_activity)?.collect::<Result<_, _>>()?)
}

/// The observations made of a session, and those of others that rest on it too, in order of their number.
///
/// # Errors
/// When the database refuses.
pub fn observations_of_session(
    db: &Connection,
    session: SessionRow,
) -> Result<Vec<ObservationRow>, StoreError> {
    let sql = format!(
        "SELECT {} WHERE o.session = ?1
            OR o.id IN (SELECT observation FROM observation_sessions WHERE session = ?1) ORDER BY o.id",
        observation_columns()
    );
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_map([session.0], read_observation)?.collect::<Result<_, _>>()?)
}

/// # Errors
/// When the database refuses.
pub fn summary_of_session(db: &Connection, session: SessionRow) -> Result<Option<SummaryRow>, StoreError> {
    let sql = format!("SELECT {} WHERE m.session = ?1", summary_columns());
    Ok(db.prepare_cached(&sql)?.query_row([session.0], read_summary).optional()?)
}

/// That something was given to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRow {
    pub session: SessionKey,
    pub at: Timestamp,
    pub moment: String,
    pub reason: String,
}

/// When and to whom an observation or a summary was given, the latest first; the last thousand times.
///
/// # Errors
/// When the database refuses.
pub fn given(db: &Connection, key: DocumentKey) -> Result<Vec<GivenRow>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT s.agent, s.session_id, i.at, i.moment, ifnull(json_extract(e.value, '$.reason'), '')
         FROM injections i JOIN sessions s ON s.id = i.session, json_each(i.items) e
         WHERE json_extract(e.value, '$.kind') = ?1 AND json_extract(e.value, '$.id') = ?2
         ORDER BY i.id DESC LIMIT 1000",
    )?;
    let rows = statement.query_map(params![key.kind.as_str(), key.row], |row| {
        Ok(GivenRow {
            session: SessionKey { agent: AgentName(row.get(0)?), id: SessionId(row.get(1)?) },
            at: Timestamp(row.get(2)?),
            moment: row.get(3)?,
            reason: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The last prompt of a session, as it stood at a moment, that there is something to read of.
///
/// # Errors
/// When the database refuses.
pub fn last_prompt(
    db: &Connection,
    session: SessionRow,
    at: Timestamp,
) -> Result<Option<DocumentKey>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT id FROM prompt_batches WHERE session = ?1 AND opened_at <= ?2 AND prompt IS NOT NULL
         ORDER BY prompt_number DESC LIMIT 1",
    )?;
    let row = statement.query_row(params![session.0, at.0], |row| row.get(0)).optional()?;
    Ok(row.map(|row| DocumentKey { kind: DocumentKind::Prompt, row }))
}

/// What a session was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectionRow {
    pub at: Timestamp,
    pub moment: String,
    pub tokens: u32,
    /// A JSON array.
    pub items: String,
    /// The file it was about.
    pub file: Option<String>,
}

/// # Errors
/// When the database refuses.
pub fn injections(db: &Connection, session: SessionRow) -> Result<Vec<InjectionRow>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT at, moment, tokens, items, file FROM injections WHERE session = ?1 ORDER BY id",
    )?;
    let rows = statement.query_map([session.0], |row| {
        Ok(InjectionRow {
            at: Timestamp(row.get(0)?),
            moment: row.get(1)?,
            tokens: row.get(2)?,
            items: row.get(3)?,
            file: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
