//! Reads rows for the indexer: by log number, or all of them for a rebuild.

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::sessions::compactions;
use crate::sessions::turns::{ActivityRow, SessionInfo};
use crate::sharing::received_text;
use crate::{CompactionRow, ObservationRow, PlanRow, Reader, ReceivedTextRow, StoreError, SummaryRow};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{
    BatchId, CompactionId, LogSeq, ObservationId, PlanId, SessionId, SessionRow, SummaryId, Timestamp,
};

record! {
/// An entry of the log: the document was written or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry from "index_log" {
    pub seq: LogSeq = "seq",
    pub key: DocumentKey = "kind, row",
}
}

impl Reader<'_> {
    /// The log's entries after `seq`, in order.
    pub fn documents_after(self, seq: LogSeq, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        self.0.all(&format!("{} WHERE seq > ?1 ORDER BY seq LIMIT ?2", LogEntry::SELECT), params![seq, limit])
    }

    /// The newest log entries after `seq`, newest first.
    pub fn newest_documents_after(self, seq: LogSeq, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        self.0.all(
            &format!("{} WHERE seq > ?1 ORDER BY seq DESC LIMIT ?2", LogEntry::SELECT),
            params![seq, limit],
        )
    }

    /// The highest number ever used, even if its entry was deleted.
    pub fn highest_log_entry(self) -> Result<LogSeq, StoreError> {
        self.0.one("SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'index_log'", [])
    }

    /// Whether the log is complete after `seq`.
    pub fn log_goes_on_after(self, seq: LogSeq) -> Result<bool, StoreError> {
        let first: Option<LogSeq> = self.0.one("SELECT min(seq) FROM index_log", [])?;
        // Log numbers have no gaps.
        Ok(match first {
            Some(first) => first.0 <= seq.0.saturating_add(1),
            None => self.highest_log_entry()? == seq,
        })
    }

    /// Loads a document. `None` if the row or its parent is gone, as in a damaged database.
    pub fn load_document(self, key: DocumentKey) -> Result<Option<DocumentRow>, StoreError> {
        match load(self.0, key) {
            Err(error) if error.is_missing_row() => Ok(None),
            loaded => loaded,
        }
    }

    /// Returns the number of the prompt that opened a batch.
    ///
    /// # Errors
    /// Fails when there is no such batch or the database refuses.
    pub fn prompt_number(self, batch: BatchId) -> Result<u32, StoreError> {
        self.0.one("SELECT prompt_number FROM prompt_batches WHERE id = ?1", [batch.0])
    }

    /// The number of documents that [`Reader::scan_documents`] finds.
    pub fn count_documents(self) -> Result<u64, StoreError> {
        self.0.one(
            "SELECT (SELECT count(*) FROM observations) + (SELECT count(*) FROM session_summaries)
            + (SELECT count(prompt) + count(response) FROM prompt_batches)
            + (SELECT count(*) FROM activities WHERE kind = 'tool') + (SELECT count(*) FROM plans)
            + (SELECT count(summary) FROM compactions) + (SELECT count(*) FROM said_elsewhere)",
            [],
        )
    }

    /// Returns the keys of up to `limit` documents of one kind after the row `after`, for a rebuild.
    pub fn scan_documents(
        self,
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
            DocumentKind::ReceivedText => "SELECT id FROM said_elsewhere WHERE id > ?1 ORDER BY id LIMIT ?2",
        };
        let rows = self.0.all(sql, params![after, limit])?;
        Ok(rows.into_iter().map(|row| DocumentKey { kind, row }).collect())
    }
}

/// A row with the facts that its document needs.
#[derive(Clone, Debug, PartialEq)]
pub enum DocumentRow {
    Observation { row: Box<ObservationRow>, session: Option<Box<SessionInfo>>, project: crate::ProjectInfo },
    Summary { row: Box<SummaryRow>, session: Option<Box<SessionInfo>>, project: crate::ProjectInfo },
    Prompt { text: String, number: u32, at: Timestamp, session: Box<SessionInfo> },
    Response { text: String, number: u32, at: Timestamp, session: Box<SessionInfo> },
    Plan { row: Box<PlanRow>, session: Option<Box<SessionInfo>>, project: crate::ProjectInfo },
    Activity { row: Box<ActivityRow>, session: Box<SessionInfo> },
    Compaction { row: Box<CompactionRow>, session: Box<SessionInfo> },
    ReceivedText { row: Box<ReceivedTextRow>, project: crate::ProjectInfo },
}

fn load(db: &Connection, key: DocumentKey) -> Result<Option<DocumentRow>, StoreError> {
    match key.kind {
        DocumentKind::Observation => load_observation(db, ObservationId(key.row)),
        DocumentKind::Summary => load_summary(db, SummaryId(key.row)),
        DocumentKind::Prompt | DocumentKind::Response => {
            let found = Reader(db).batch_row(BatchId(key.row))?;
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
            let sql = format!("{} WHERE id = ?1 AND kind = 'tool'", ActivityRow::SELECT);
            let Some(row) = db.first::<ActivityRow>(&sql, [key.row])? else { return Ok(None) };
            let session = db.one("SELECT session FROM activities WHERE id = ?1", [key.row])?;
            let session = Box::new(Reader(db).session_info(session)?);
            Ok(Some(DocumentRow::Activity { row: Box::new(row), session }))
        }
        DocumentKind::Plan => {
            let Some(row) = Reader(db).plan(PlanId(key.row))? else { return Ok(None) };
            let session = row.session.map(|session| Reader(db).session_info(session)).transpose()?;
            let project = match (&session, row.shared_project) {
                (Some(session), _) => session.project.clone(),
                (None, Some(project)) => Reader(db).project(project)?,
                (None, None) => return Ok(None),
            };
            Ok(Some(DocumentRow::Plan { row: Box::new(row), session: session.map(Box::new), project }))
        }
        DocumentKind::Compaction => {
            let Some(row) = compactions::compaction(db, CompactionId(key.row))? else { return Ok(None) };
            let session = Box::new(Reader(db).session_info(row.session)?);
            Ok(Some(DocumentRow::Compaction { row: Box::new(row), session }))
        }
        DocumentKind::ReceivedText => {
            let Some(row) = received_text(db, key.row)? else { return Ok(None) };
            let project = Reader(db).project(row.project)?;
            Ok(Some(DocumentRow::ReceivedText { row: Box::new(row), project }))
        }
    }
}

fn load_observation(db: &Connection, id: ObservationId) -> Result<Option<DocumentRow>, StoreError> {
    let Some(row) = Reader(db).observation(id)? else { return Ok(None) };
    let session =
        session_of_observation(db, id)?.map(|session| Reader(db).session_info(session)).transpose()?;
    let project = Reader(db).project(row.project)?;
    Ok(Some(DocumentRow::Observation { row: Box::new(row), session: session.map(Box::new), project }))
}

fn session_of_observation(db: &Connection, id: ObservationId) -> Result<Option<SessionRow>, StoreError> {
    Ok(db.first("SELECT session FROM observations WHERE id = ?1", params![id])?.flatten())
}

fn load_summary(db: &Connection, id: SummaryId) -> Result<Option<DocumentRow>, StoreError> {
    let Some(row) =
        db.first::<SummaryRow>(&format!("{} WHERE m.id = ?1", SummaryRow::SELECT), params![id])?
    else {
        return Ok(None);
    };
    let session = row.session_row.map(|session| Reader(db).session_info(session)).transpose()?;
    let project = match &session {
        Some(session) => session.project.clone(),
        None => Reader(db).project(row.project)?,
    };
    Ok(Some(DocumentRow::Summary { row: Box::new(row), session: session.map(Box::new), project }))
}

impl DocumentRow {
    fn session(&self) -> Option<&SessionInfo> {
        match self {
            Self::Observation { session, .. }
            | Self::Summary { session, .. }
            | Self::Plan { session, .. } => session.as_deref(),
            Self::Prompt { session, .. }
            | Self::Response { session, .. }
            | Self::Compaction { session, .. }
            | Self::Activity { session, .. } => Some(session),
            Self::ReceivedText { .. } => None,
        }
    }

    /// The row number of its session; `None` for notes by hand and for documents from another machine.
    pub fn session_row(&self) -> Option<SessionRow> {
        self.session().map(|session| session.row)
    }

    /// Its session; `None` for notes by hand and for documents from another machine.
    pub fn session_id(&self) -> Option<&SessionId> {
        self.session().map(|session| &session.id)
    }

    /// The person and machine that made it, if not this machine.
    pub fn author_and_device(&self) -> (Option<&String>, Option<&String>) {
        match self {
            Self::Observation { row, .. } => (row.author.as_ref(), row.device.as_ref()),
            Self::Summary { row, .. } => (row.author.as_ref(), row.device.as_ref()),
            Self::Plan { row, .. } => (row.author.as_ref(), row.device.as_ref()),
            Self::ReceivedText { row, .. } => (Some(&row.author), Some(&row.device)),
            Self::Prompt { .. } | Self::Response { .. } | Self::Compaction { .. } | Self::Activity { .. } => {
                (None, None)
            }
        }
    }
}
