//! Reading what is remembered: observations, summaries, and what lay around them in time.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::StoreError;
use crate::memory::checkout::{MadeOn, Touched};
use crate::memory::document::{DocumentKey, DocumentKind, Status};
use crate::memory::ids::{
    BranchName, CommitId, ObservationId, ProjectRow, SessionId, SessionRow, SummaryId, Timestamp,
};
use crate::memory::observation::{Importance, ObservationType};

/// An observation with everything there is to show of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservationRow {
    pub id: ObservationId,
    pub uuid: String,
    pub kind: ObservationType,
    pub title: String,
    pub subtitle: Option<String>,
    pub narrative: String,
    pub facts: Vec<String>,
    pub concepts: Vec<String>,
    pub files_read: Vec<String>,
    pub files_modified: Vec<String>,
    pub importance: Importance,
    pub status: Status,
    pub superseded_by: Option<ObservationId>,
    pub evidence: Vec<String>,
    pub origin: String,
    pub session: Option<SessionId>,
    pub prompt_number: Option<u32>,
    pub project: ProjectRow,
    pub created_at: Timestamp,
    /// Where it was made, and made again; the first is its own batch. Empty for one written by hand.
    pub made_on: Vec<MadeOn>,
}

pub(super) fn observation_columns() -> &'static str {
    "o.id, o.uuid, o.type, o.title, o.subtitle, o.narrative, o.facts, o.concepts, o.files_read, o.files_modified,
     o.importance, o.status, o.superseded_by, o.evidence, o.origin, s.session_id, b.prompt_number, o.project,
     o.created_at, o.batch, b.branch, b.head_commit, b.base_commit,
     (SELECT json_group_array(json_array(m.branch, m.head_commit, m.base_commit)) FROM observation_batches l
      JOIN prompt_batches m ON m.id = l.batch WHERE l.observation = o.id)
     FROM observations o LEFT JOIN sessions s ON s.id = o.session LEFT JOIN prompt_batches b ON b.id = o.batch"
}

pub(super) fn read_observation(row: &Row<'_>) -> rusqlite::Result<ObservationRow> {
    let list = |column: usize| -> rusqlite::Result<Vec<String>> {
        let text: String = row.get(column)?;
        serde_json::from_str(&text).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
        })
    };
    let (kind, status): (String, String) = (row.get(2)?, row.get(11)?);
    let files_modified = list(9)?;
    let touched = if files_modified.is_empty() { Touched::Nothing } else { Touched::Files };
    Ok(ObservationRow {
        id: ObservationId(row.get(0)?),
        uuid: row.get(1)?,
        kind: ObservationType::parse(&kind).unwrap_or(ObservationType::Change),
        title: row.get(3)?,
        subtitle: row.get(4)?,
        narrative: row.get(5)?,
        facts: list(6)?,
        concepts: list(7)?,
        files_read: list(8)?,
        files_modified,
        importance: Importance::clamped(row.get(10)?),
        status: Status::parse(&status).unwrap_or_default(),
        superseded_by: row.get::<_, Option<i64>>(12)?.map(ObservationId),
        evidence: list(13)?,
        origin: row.get(14)?,
        session: row.get::<_, Option<String>>(15)?.map(SessionId),
        prompt_number: row.get(16)?,
        project: ProjectRow(row.get(17)?),
        created_at: Timestamp(row.get(18)?),
        made_on: made_on(row, touched)?,
    })
}

/// The batch's own place in the columns from 19 on, and those where it was made again.
fn made_on(row: &Row<'_>, touched: Touched) -> rusqlite::Result<Vec<MadeOn>> {
    let mut places = Vec::new();
    if row.get::<_, Option<i64>>(19)?.is_some() {
        places.push(place((row.get(20)?, row.get(21)?, row.get(22)?), touched));
    }
    let again: String = row.get(23)?;
    let again: Vec<PlaceColumns> = serde_json::from_str(&again).unwrap_or_default();
    places.extend(again.into_iter().map(|columns| place(columns, touched)));
    Ok(places)
}

/// Branch, commit, and the commit at the beginning.
type PlaceColumns = (Option<String>, Option<String>, Option<String>);

fn place((branch, commit, base): PlaceColumns, touched: Touched) -> MadeOn {
    let (commit, base) = (commit.map(CommitId), base.map(CommitId));
    MadeOn { branch: branch.map(BranchName), commit, base, touched }
}

/// Where a document was made: what was checked out where its batch worked, and for an observation where it was made
/// again.
///
/// # Errors
/// When the database refuses.
pub fn made_where(db: &Connection, key: DocumentKey) -> Result<Vec<MadeOn>, StoreError> {
    let batch = match key.kind {
        DocumentKind::Observation => {
            let row = observation(db, ObservationId(key.row))?;
            return Ok(row.map(|row| row.made_on).unwrap_or_default());
        }
        DocumentKind::Summary => {
            let sql = format!("SELECT {} WHERE m.id = ?1", summary_columns());
            let row = db.prepare_cached(&sql)?.query_row([key.row], read_summary).optional()?;
            return Ok(row.map(|row| row.made_on).into_iter().collect());
        }
        DocumentKind::Prompt | DocumentKind::Response => "?1",
        DocumentKind::Activity => "(SELECT batch FROM activities WHERE id = ?1)",
        DocumentKind::Plan => "(SELECT batch FROM plans WHERE id = ?1)",
        DocumentKind::Compaction => "(SELECT batch FROM compactions WHERE id = ?1)",
    };
    let mut find = db.prepare_cached(&format!(
        "SELECT branch, head_commit, base_commit,
                EXISTS (SELECT 1 FROM observations o WHERE o.batch = b.id AND o.files_modified <> '[]')
         FROM prompt_batches b WHERE id = {batch}"
    ))?;
    let found = find.query_row([key.row], |row| {
        let touched = if row.get(3)? { Touched::Files } else { Touched::Nothing };
        Ok(place((row.get(0)?, row.get(1)?, row.get(2)?), touched))
    });
    Ok(found.optional()?.into_iter().collect())
}

/// # Errors
/// When the database refuses.
pub fn observation(db: &Connection, id: ObservationId) -> Result<Option<ObservationRow>, StoreError> {
    let sql = format!("SELECT {} WHERE o.id = ?1", observation_columns());
    Ok(db.prepare_cached(&sql)?.query_row([id.0], read_observation).optional()?)
}

/// The observations of these numbers that exist, in the same order.
///
/// # Errors
/// When the database refuses.
pub fn observations_by_id(db: &Connection, ids: &[ObservationId]) -> Result<Vec<ObservationRow>, StoreError> {
    ids.iter().filter_map(|id| observation(db, *id).transpose()).collect()
}

/// What a session that starts may be told: the newest and the weightiest active observations of a project, up to
/// `each` of both.
///
/// # Errors
/// When the database refuses.
pub fn candidates(
    db: &Connection,
    project: ProjectRow,
    each: u32,
) -> Result<Vec<ObservationRow>, StoreError> {
    let sql = format!(
        "SELECT {} WHERE o.id IN (
            SELECT id FROM (SELECT id FROM observations WHERE project = ?1 AND status = 'active'
                            ORDER BY created_at DESC LIMIT ?2)
            UNION
            SELECT id FROM (SELECT id FROM observations WHERE project = ?1 AND status = 'active'
                            ORDER BY importance DESC, created_at DESC LIMIT ?2))",
        observation_columns()
    );
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_map(params![project.0, each], read_observation)?.collect::<Result<_, _>>()?)
}

/// A session's summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRow {
    pub id: SummaryId,
    pub session_row: SessionRow,
    pub session: SessionId,
    pub title: String,
    pub request: String,
    pub investigated: String,
    pub learned: String,
    pub completed: String,
    pub next_steps: String,
    pub notes: String,
    pub created_at: Timestamp,
    /// Where the session was last seen at work.
    pub made_on: MadeOn,
}

pub(super) fn summary_columns() -> &'static str {
    "m.id, m.session, s.session_id, m.title, m.request, m.investigated, m.learned, m.completed, m.next_steps,
     m.notes, m.created_at,
     (SELECT json_array(b.branch, b.head_commit, b.base_commit) FROM prompt_batches b
      WHERE b.session = m.session AND ifnull(b.branch, b.head_commit) IS NOT NULL ORDER BY b.seq DESC LIMIT 1),
     EXISTS (SELECT 1 FROM observations o WHERE o.session = m.session AND o.files_modified <> '[]') FROM session_summaries m JOIN sessions s ON s.id = m.session"
}

pub(super) fn read_summary(row: &Row<'_>) -> rusqlite::Result<SummaryRow> {
    let touched = if row.get(12)? { Touched::Files } else { Touched::Nothing };
    let columns = row.get::<_, Option<String>>(11)?.and_then(|json| serde_json::from_str(&json).ok());
    Ok(SummaryRow {
        made_on: columns.map(|columns| place(columns, touched)).unwrap_or_default(),
        id: SummaryId(row.get(0)?),
        session_row: SessionRow(row.get(1)?),
        session: SessionId(row.get(2)?),
        title: row.get(3)?,
        request: row.get(4)?,
        investigated: row.get(5)?,
        learned: row.get(6)?,
        completed: row.get(7)?,
        next_steps: row.get(8)?,
        notes: row.get(9)?,
        created_at: Timestamp(row.get(10)?),
    })
}

/// The summary of the project's last session but `except`.
///
/// # Errors
/// When the database refuses.
pub fn latest_summary(
    db: &Connection,
    project: ProjectRow,
    except: Option<&SessionId>,
) -> Result<Option<SummaryRow>, StoreError> {
    let sql = format!(
        "SELECT {} WHERE m.project = ?1 AND s.session_id IS NOT ?2 ORDER BY m.created_at DESC, m.id DESC LIMIT 1",
        summary_columns()
    );
    let except = except.map(SessionId::as_str);
    Ok(db.prepare_cached(&sql)?.query_row(params![project.0, except], read_summary).optional()?)
}

/// One line of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineRow {
    /// `observation`, `prompt`, `summary`.
    pub kind: String,
    pub row: i64,
    pub at: Timestamp,
    pub label: String,
    pub observation_type: Option<String>,
    pub session: Option<SessionId>,
}

impl TimelineRow {
    /// `None`: a kind that nobody knows.
    pub fn key(&self) -> Option<DocumentKey> {
        DocumentKind::parse(&self.kind).map(|kind| DocumentKey { kind, row: self.row })
    }
}

/// What happened in a project around a moment: `before` entries up to it and `after` entries following, in order.
///
/// # Errors
/// When the database refuses.
pub fn timeline(
    db: &Connection,
    project: ProjectRow,
    at: Timestamp,
    (before, after): (u32, u32),
) -> Result<Vec<TimelineRow>, StoreError> {
    let entries = |comparison: &str, order: &str| {
        let observations = format!(
            "SELECT 'observation', o.id, o.created_at AS at, o.title, o.type, s.session_id FROM observations o
             LEFT JOIN sessions s ON s.id = o.session
             WHERE o.project = ?1 AND o.created_at {comparison} ?2 ORDER BY at {order}, o.id {order} LIMIT ?3"
        );
        let summaries = format!(
            "SELECT 'summary', m.id, m.created_at AS at, m.title, NULL, s.session_id FROM session_summaries m
             JOIN sessions s ON s.id = m.session
             WHERE m.project = ?1 AND m.created_at {comparison} ?2 ORDER BY at {order} LIMIT ?3"
        );
        let prompts = format!(
            "SELECT 'prompt', b.id, b.opened_at AS at, b.prompt, NULL, s.session_id FROM prompt_batches b
             JOIN sessions s ON s.id = b.session
             WHERE s.project = ?1 AND b.prompt IS NOT NULL AND b.opened_at {comparison} ?2 ORDER BY at {order} LIMIT ?3"
        );
        format!(
            "SELECT * FROM (SELECT * FROM ({observations}) UNION ALL SELECT * FROM ({summaries})
             UNION ALL SELECT * FROM ({prompts})) ORDER BY at {order} LIMIT ?3"
        )
    };
    let read = |row: &Row<'_>| {
        Ok(TimelineRow {
            kind: row.get(0)?,
            row: row.get(1)?,
            at: Timestamp(row.get(2)?),
            label: row.get::<_, super::text::Unpacked>(3)?.0,
            observation_type: row.get(4)?,
            session: row.get::<_, Option<String>>(5)?.map(SessionId),
        })
    };
    let mut earlier = db.prepare_cached(&entries("<=", "DESC"))?;
    let mut rows = earlier
        .query_map(params![project.0, at.0, before.saturating_add(1)], read)?
        .collect::<Result<Vec<_>, _>>()?;
    rows.reverse();
    let mut later = db.prepare_cached(&entries(">", "ASC"))?;
    for row in later.query_map(params![project.0, at.0, after], read)? {
        rows.push(row?);
    }
    Ok(rows)
}
