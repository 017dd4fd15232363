//! Rows as the indexer reads them: by the number under which they were written, or all of them for a rebuild.

use rusqlite::{Connection, OptionalExtension, params};

use super::sessions::{ACTIVITY_COLUMNS, ActivityRow, SessionInfo, batch_row, read_activity, session_info};
use super::{
    CompactionRow, ObservationRow, PlanRow, StoreError, SummaryRow, compactions, observation, plan, reading,
};
use crate::memory::document::{DocumentKey, DocumentKind};
use crate::memory::ids::{BatchId, ObservationId, PlanId, SessionId, SessionRow, Timestamp};

/// "This row was written or is gone."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub seq: i64,
    pub key: DocumentKey,
}

/// What the log says after `seq`, in order.
///
/// # Errors
/// When the database refuses.
pub fn documents_after(db: &Connection, seq: i64, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
    let mut statement =
        db.prepare_cached("SELECT seq, kind, row FROM index_log WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
    let rows = statement.query_map(params![seq, limit], |row| {
        let kind: String = row.get(1)?;
        let kind = DocumentKind::parse(&kind).unwrap_or(DocumentKind::Observation);
        Ok(LogEntry { seq: row.get(0)?, key: DocumentKey { kind, row: row.get(2)? } })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The highest number ever given, also when its entry was forgotten since.
///
/// # Errors
/// When the database refuses.
pub fn highest_log_entry(db: &Connection) -> Result<i64, StoreError> {
    let mut statement =
        db.prepare_cached("SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'index_log'")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// Whether whoever holds everything up to `seq` can go on with the log: nothing after it was forgotten.
///
/// # Errors
/// When the database refuses.
pub fn log_goes_on_after(db: &Connection, seq: i64) -> Result<bool, StoreError> {
    let mut statement = db.prepare_cached("SELECT min(seq) FROM index_log")?;
    let first: Option<i64> = statement.query_row([], |row| row.get(0))?;
    // Numbers are given without gaps.
    Ok(match first {
        Some(first) => first <= seq.saturating_add(1),
        None => highest_log_entry(db)? == seq,
    })
}

/// A row with what its document needs.
#[derive(Clone, Debug, PartialEq)]
pub enum DocumentRow {
    Observation { row: Box<ObservationRow>, session: Option<Box<SessionInfo>>, project: super::ProjectInfo },
    Summary { row: Box<SummaryRow>, session: Box<SessionInfo> },
    Prompt { text: String, number: u32, at: Timestamp, session: Box<SessionInfo> },
    Response { text: String, number: u32, at: Timestamp, session: Box<SessionInfo> },
    Plan { row: Box<PlanRow>, session: Box<SessionInfo> },
    Activity { row: Box<ActivityRow>, session: Box<SessionInfo> },
    Compaction { row: Box<CompactionRow>, session: Box<SessionInfo> },
}

/// `None`: the row is gone.
///
/// # Errors
/// When the database refuses.
pub fn load_document(db: &Connection, key: DocumentKey) -> Result<Option<DocumentRow>, StoreError> {
    match key.kind {
        DocumentKind::Observation => load_observation(db, ObservationId(key.row)),
        DocumentKind::Summary => load_summary(db, key.row),
        DocumentKind::Prompt | DocumentKind::Response => {
            let found = match batch_row(db, BatchId(key.row)) {
                Ok(found) => found,
                Err(StoreError::Sqlite(rusqlite::Error::QueryReturnedNoRows)) => return Ok(None),
                Err(error) => return Err(error),
            };
            let (at, number) = (found.batch.opened_at, found.batch.prompt_number);
            let session = Box::new(found.session);
            Ok(match key.kind {
                DocumentKind::Prompt => {
                    found.batch.prompt.map(|text| DocumentRow::Prompt { text, number, at, session })
                }
                _ => found.batch.response.map(|text| DocumentRow::Response { text, number, at, session }),
            })
        }
        DocumentKind::Activity => {
            let sql =
                format!("SELECT {ACTIVITY_COLUMNS}, session FROM activities WHERE id = ?1 AND kind = 'tool'");
            let found = db
                .prepare_cached(&sql)?
                .query_row([key.row], |row| Ok((read_activity(row)?, SessionRow(row.get(12)?))))
                .optional()?;
            let Some((row, session)) = found else { return Ok(None) };
            let session = Box::new(session_info(db, session)?);
            Ok(Some(DocumentRow::Activity { row: Box::new(row), session }))
        }
        DocumentKind::Plan => {
            let Some(row) = plan(db, PlanId(key.row))? else { return Ok(None) };
            let session = Box::new(session_info(db, row.session)?);
            Ok(Some(DocumentRow::Plan { row: Box::new(row), session }))
        }
        DocumentKind::Compaction => {
            let Some((row, session)) = compactions::told(db, key.row)? else { return Ok(None) };
            let session = Box::new(session_info(db, session)?);
            Ok(Some(DocumentRow::Compaction { row: Box::new(row), session }))
        }
    }
}

fn load_observation(db: &Connection, id: ObservationId) -> Result<Option<DocumentRow>, StoreError> {
    let Some(row) = observation(db, id)? else { return Ok(None) };
    let session = session_of_observation(db, id)?.map(|session| session_info(db, session)).transpose()?;
    let project = super::project(db, row.project)?;
    Ok(Some(DocumentRow::Observation { row: Box::new(row), session: session.map(Box::new), project }))
}

fn session_of_observation(db: &Connection, id: ObservationId) -> Result<Option<SessionRow>, StoreError> {
    let mut statement = db.prepare_cached("SELECT session FROM observations WHERE id = ?1")?;
    Ok(statement.query_row([id.0], |row| row.get::<_, Option<i64>>(0)).optional()?.flatten().map(SessionRow))
}

fn load_summary(db: &Connection, id: i64) -> Result<Option<DocumentRow>, StoreError> {
    let sql = format!("SELECT {} WHERE m.id = ?1", reading::summary_columns());
    let Some(row) = db.prepare_cached(&sql)?.query_row([id], reading::read_summary).optional()? else {
        return Ok(None);
    };
    let session = Box::new(session_info(db, row.session_row)?);
    Ok(Some(DocumentRow::Summary { row: Box::new(row), session }))
}

/// The number of the prompt that opened a batch.
///
/// # Errors
/// When there is no such batch or the database refuses.
pub fn prompt_number(db: &Connection, batch: BatchId) -> Result<u32, StoreError> {
    let mut statement = db.prepare_cached("SELECT prompt_number FROM prompt_batches WHERE id = ?1")?;
    Ok(statement.query_row([batch.0], |row| row.get(0))?)
}

/// The keys of everything that can be found, `limit` at a time after `after` within one kind, for a rebuild.
///
/// # Errors
/// When the database refuses.
pub fn scan_documents(
    db: &Connection,
    kind: DocumentKind,
    after: i64,
    limit: u32,
) -> Result<Vec<DocumentKey>, StoreError> {
    let sql = match kind {
        DocumentKind::Observation => "SELECT id FROM observations WHERE id > ?1 ORDER BY id LIMIT ?2",
        DocumentKind::Summary => "SELECT id FROM session_summaries WHERE id > ?1 ORDER BY id LIMIT ?2",
        DocumentKind::Prompt => {
            "SELECT id FROM prompt_batches WHERE id > ?1 AND prompt IS NOT NULL ORDER BY id LIMIT ?2"
        }
        DocumentKind::Response => {
            "SELECT id FROM prompt_batches WHERE id > ?1 AND response IS NOT NULL ORDER BY id LIMIT ?2"
        }
        DocumentKind::Activity => {
            "SELECT id FROM activities WHERE id > ?1 AND kind = 'tool' ORDER BY id LIMIT ?2"
        }
        DocumentKind::Plan => "SELECT id FROM plans WHERE id > ?1 ORDER BY id LIMIT ?2",
        DocumentKind::Compaction => {
            "SELECT id FROM compactions WHERE id > ?1 AND summary IS NOT NULL ORDER BY id LIMIT ?2"
        }
    };
    let mut statement = db.prepare_cached(sql)?;
    let rows =
        statement.query_map(params![after, limit], |row| Ok(DocumentKey { kind, row: row.get(0)? }))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl DocumentRow {
    /// The session it belongs to; an observation made by hand has none.
    pub fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::Observation { session, .. } => session.as_ref().map(|session| &session.id),
            Self::Summary { session, .. }
            | Self::Plan { session, .. }
            | Self::Prompt { session, .. }
            | Self::Response { session, .. }
            | Self::Compaction { session, .. }
            | Self::Activity { session, .. } => Some(&session.id),
        }
    }
}
