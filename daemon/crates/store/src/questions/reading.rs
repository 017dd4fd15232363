//! Reads observations and summaries, and the events around them.

use rusqlite::Row;

use crate::database::bind::params;
use crate::database::row::{FromRow, Sql, record};
use crate::{Reader, StoreError};
use recall_domain::checkout::{MadeOn, Touched};
use recall_domain::document::{DocumentKey, DocumentKind, Status};
use recall_domain::ids::{
    BranchName, CommitId, ObservationId, ProjectRow, SessionId, SessionRow, SummaryId, Timestamp,
};
use recall_domain::observation::{Importance, Maker, NoteOrigin, ObservationType};
use recall_domain::review::Injectable;

record! {
/// An observation with everything that can be shown about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservationRow from "observations o LEFT JOIN sessions s ON s.id = o.session
    LEFT JOIN prompt_batches b ON b.id = o.batch" {
    pub id: ObservationId = "o.id",
    pub uuid: String = "o.uuid",
    pub kind: ObservationType = "o.type",
    pub title: String = "o.title",
    pub subtitle: Option<String> = "o.subtitle",
    pub narrative: String = "o.narrative",
    pub facts: Vec<String> = "o.facts",
    pub concepts: Vec<String> = "o.concepts",
    pub files_read: Vec<String> = "o.files_read",
    pub files_modified: Vec<String> = "o.files_modified",
    pub importance: Importance = "o.importance",
    pub status: Status = "o.status",
    pub superseded_by: Option<ObservationId> = "o.superseded_by",
    pub evidence: Vec<String> = "o.evidence",
    pub origin: NoteOrigin = "o.origin",
    pub is_pinned: bool = "o.pinned_at IS NOT NULL",
    /// When a person last reviewed it.
    pub reviewed_at: Option<Timestamp> = "o.reviewed_at",
    pub is_rejected: bool = "o.rejected_at IS NOT NULL",
    /// The person and machine that wrote it, if not this machine.
    pub author: Option<String> = "o.author",
    pub device: Option<String> = "o.device",
    pub session: Option<SessionId> = "s.session_id",
    pub prompt_number: Option<u32> = "b.prompt_number",
    pub project: ProjectRow = "o.project",
    pub created_at: Timestamp = "o.created_at",
    /// The checkout of the observation's own batch, then those of batches that made it again. Empty if a person wrote
    /// it.
    pub made_on: Vec<MadeOn> = "iif(o.batch IS NULL, NULL, json_array(b.branch, b.head_commit, b.base_commit)),
        (SELECT json_group_array(json_array(m.branch, m.head_commit, m.base_commit)) FROM
        observation_batches l
         JOIN prompt_batches m ON m.id = l.batch WHERE l.observation = o.id), o.files_modified <> '[]'",
}
}

impl ObservationRow {
    /// Whether a person wrote, pinned or reviewed it.
    pub fn is_reviewed(&self) -> bool {
        self.reviewed_at.is_some() || self.maker() == Maker::Person
    }

    pub fn maker(&self) -> Maker {
        if self.is_pinned || self.origin.is_user() { Maker::Person } else { Maker::Machine }
    }
}

/// The branch, the commit, and the commit at the beginning.
type CheckoutColumns = (Option<String>, Option<String>, Option<String>);

fn made_on((branch, commit, base): CheckoutColumns, touched: Touched) -> MadeOn {
    let (commit, base) = (commit.map(CommitId), base.map(CommitId));
    MadeOn { branch: branch.map(BranchName), commit, base, touched }
}

/// Reads whether files were changed.
impl FromRow for Touched {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        let changed = bool::from_row(row, first)?;
        Ok(if changed { Self::Files } else { Self::Nothing })
    }
}

/// Reads a JSON array of checkout columns, or NULL, and whether files were changed there.
impl FromRow for MadeOn {
    const WIDTH: usize = 2;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        let (json, touched): (Option<String>, Touched) = FromRow::from_row(row, first)?;
        let columns = json.and_then(|json| serde_json::from_str(&json).ok());
        Ok(columns.map(|columns| made_on(columns, touched)).unwrap_or_default())
    }
}

/// Reads one [`MadeOn`], with an array of further checkouts as the second column.
impl FromRow for Vec<MadeOn> {
    const WIDTH: usize = 3;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        let (own, again, touched): (Option<String>, String, Touched) = FromRow::from_row(row, first)?;
        let own: Option<CheckoutColumns> = own.and_then(|json| serde_json::from_str(&json).ok());
        let again: Vec<CheckoutColumns> = serde_json::from_str(&again).unwrap_or_default();
        Ok(own.into_iter().chain(again).map(|columns| made_on(columns, touched)).collect())
    }
}

impl Reader<'_> {
    /// Returns where a document was made: the checkout of its batch, and for an observation also the checkouts where
    /// it was made again.
    pub fn made_where(self, key: DocumentKey) -> Result<Vec<MadeOn>, StoreError> {
        let db = self.0;
        let batch = match key.kind {
            DocumentKind::Observation => {
                let row = self.observation(ObservationId(key.row))?;
                return Ok(row.map(|row| row.made_on).unwrap_or_default());
            }
            DocumentKind::Summary => {
                let row: Option<SummaryRow> =
                    db.first(&format!("{} WHERE m.id = ?1", SummaryRow::SELECT), [key.row])?;
                return Ok(row.map(|row| row.made_on).into_iter().collect());
            }
            DocumentKind::Prompt | DocumentKind::Response => "?1",
            DocumentKind::Activity => "(SELECT batch FROM activities WHERE id = ?1)",
            DocumentKind::Plan => "(SELECT batch FROM plans WHERE id = ?1)",
            DocumentKind::Compaction => "(SELECT batch FROM compactions WHERE id = ?1)",
            DocumentKind::ReceivedText => return Ok(Vec::new()),
        };
        let sql = format!(
            "SELECT json_array(branch, head_commit, base_commit),
                EXISTS (SELECT 1 FROM observations o WHERE o.batch = b.id AND o.files_modified <> '[]')
         FROM prompt_batches b WHERE id = {batch}"
        );
        db.all(&sql, [key.row])
    }

    pub fn observation(self, id: ObservationId) -> Result<Option<ObservationRow>, StoreError> {
        self.0.first(&format!("{} WHERE o.id = ?1", ObservationRow::SELECT), params![id])
    }

    /// Returns the existing observations with these numbers, in the same order.
    pub fn observations_by_id(self, ids: &[ObservationId]) -> Result<Vec<ObservationRow>, StoreError> {
        ids.iter().filter_map(|id| self.observation(*id).transpose()).collect()
    }

    /// Returns the candidates for a session's start: the newest and the most important active observations of a
    /// project, and the notes by hand, up to `each` of them; and everything that the user pinned.
    pub fn candidates(
        self,
        project: ProjectRow,
        each: u32,
        injectable: Injectable,
    ) -> Result<Vec<ObservationRow>, StoreError> {
        self.0.all(&candidates(injectable), params![project, each])
    }

    /// Returns the most important valid notes of a project that a person wrote or pinned, at most `most`. If only
    /// reviewed notes are injected, includes those that a person kept.
    pub fn kept_by_hand(
        self,
        project: ProjectRow,
        most: u32,
        injectable: Injectable,
    ) -> Result<Vec<ObservationRow>, StoreError> {
        self.0.all(&kept_by_hand(injectable), params![project, most])
    }

    /// Returns the summary of the project's last session with work in it, except `except`. A session counts if
    /// something was observed or a tool was called; one with only a stray prompt does not.
    pub fn latest_summary(
        self,
        project: ProjectRow,
        except: Option<&SessionId>,
    ) -> Result<Option<SummaryRow>, StoreError> {
        let sql = format!(
            "{} WHERE m.project = ?1 AND m.share IS NULL AND s.session_id IS NOT ?2
            AND (EXISTS (SELECT 1 FROM observations o WHERE o.session = m.session)
                 OR EXISTS (SELECT 1 FROM observation_sessions o WHERE o.session = m.session)
                 OR s.activities > 0)
         ORDER BY m.created_at DESC, m.id DESC LIMIT 1",
            SummaryRow::SELECT
        );
        self.0.first(&sql, params![project, except])
    }

    /// Returns the newest summary of another machine's session in a project, made after a time, if its share allows
    /// injecting it.
    pub fn latest_summary_of_others(
        self,
        project: ProjectRow,
        after: Timestamp,
    ) -> Result<Option<SummaryRow>, StoreError> {
        // A machine that shares nothing reads no row here.
        let sql = format!(
            "{} WHERE m.id = (SELECT id FROM session_summaries INDEXED BY session_summaries_of_others
                WHERE share IN (SELECT id FROM shares WHERE project = ?1 AND inject) AND created_at > ?2
                ORDER BY created_at DESC, id DESC LIMIT 1)",
            SummaryRow::SELECT
        );
        self.0.first(&sql, params![project, after])
    }

    /// Returns the events of a project around a time, in order: `before` entries up to it and `after` entries after
    /// it. At equal times a prompt comes first and a summary last.
    pub fn timeline(
        self,
        project: ProjectRow,
        at: Timestamp,
        before: u32,
        after: u32,
    ) -> Result<Vec<TimelineRow>, StoreError> {
        let db = self.0;
        let entries = |comparison: &str, order: &str| {
            let observations = format!(
            "SELECT 'observation' AS kind, o.id AS row, o.created_at AS at, o.title AS label, o.type,
                     s.session_id, o.author FROM observations o
             LEFT JOIN sessions s ON s.id = o.session
             WHERE o.project = ?1 AND o.created_at {comparison} ?2 ORDER BY at {order}, o.id {order} LIMIT ?3"
        );
            let summaries = format!(
            "SELECT 'summary', m.id, m.created_at AS at, m.title, NULL, s.session_id, m.author
             FROM session_summaries m
             LEFT JOIN sessions s ON s.id = m.session
             WHERE m.project = ?1 AND m.created_at {comparison} ?2 ORDER BY at {order}, m.id {order} LIMIT ?3"
        );
            let prompts = format!(
                "SELECT 'prompt', b.id, b.opened_at AS at, b.prompt, NULL, s.session_id, NULL FROM prompt_batches b
             JOIN sessions s ON s.id = b.session
             WHERE s.project = ?1 AND b.prompt IS NOT NULL AND b.opened_at {comparison} ?2
             ORDER BY at {order}, b.id {order} LIMIT ?3"
            );
            format!(
                "WITH entries AS (SELECT * FROM ({observations}) UNION ALL SELECT * FROM ({summaries})
             UNION ALL SELECT * FROM ({prompts})) {}
             ORDER BY at {order}, kind <> 'prompt' {order}, kind {order}, row {order} LIMIT ?3",
                TimelineRow::SELECT
            )
        };
        let mut rows: Vec<TimelineRow> =
            db.all(&entries("<=", "DESC"), params![project, at, before.saturating_add(1)])?;
        rows.reverse();
        rows.extend(db.all::<TimelineRow>(&entries(">", "ASC"), params![project, at, after])?);
        Ok(rows)
    }
}

/// The query of [`Reader::candidates`]. It names its indexes, because otherwise SQLite reads all of a large project.
fn candidates(injectable: Injectable) -> String {
    let (newest, weightiest) =
        (source(injectable, "observations_newest"), source(injectable, "observations_weightiest"));
    format!(
        "{} WHERE o.id IN (
            SELECT id FROM (SELECT id FROM {newest} AND {INJECTABLE}
                            ORDER BY created_at DESC, id DESC LIMIT ?2)
            UNION
            SELECT id FROM (SELECT id FROM {weightiest} AND {INJECTABLE}
                            ORDER BY importance DESC, created_at DESC, id DESC LIMIT ?2)
            UNION
            SELECT id FROM (SELECT id FROM observations INDEXED BY observations_by_hand
                            WHERE project = ?1 AND status = 'active' AND origin = 'user' AND {INJECTABLE}
                            ORDER BY importance DESC, created_at DESC, id DESC LIMIT ?2)
            UNION
            SELECT id FROM observations INDEXED BY observations_pinned
                WHERE project = ?1 AND pinned_at IS NOT NULL AND status <> 'resolved' AND rejected_at IS NULL AND {INJECTABLE})",
        ObservationRow::SELECT
    )
}

/// The query of [`Reader::kept_by_hand`], which names its indexes too.
fn kept_by_hand(injectable: Injectable) -> String {
    let kept = match injectable {
        Injectable::Everything => String::new(),
        Injectable::Reviewed => format!(
            "SELECT id FROM (SELECT id FROM {} AND {INJECTABLE}
                                 ORDER BY importance DESC, created_at DESC, id DESC LIMIT ?2) UNION ",
            source(injectable, "observations_weightiest")
        ),
    };
    format!(
        "{} WHERE o.id IN ({kept}
            SELECT id FROM (SELECT id FROM observations INDEXED BY observations_by_hand
                            WHERE project = ?1 AND status = 'active' AND origin = 'user' AND {INJECTABLE}
                            ORDER BY importance DESC, created_at DESC, id DESC LIMIT ?2)
            UNION
            SELECT id FROM observations INDEXED BY observations_pinned
                WHERE project = ?1 AND pinned_at IS NOT NULL AND status = 'active' AND {INJECTABLE})
         ORDER BY o.pinned_at IS NULL, o.importance DESC, o.created_at DESC, o.id DESC LIMIT ?2",
        ObservationRow::SELECT
    )
}

/// Whether an observation may be injected: it is this machine's, or its share allows it.
const INJECTABLE: &str = "(share IS NULL OR share IN (SELECT id FROM shares WHERE inject))";

/// The active observations of a project that may be injected, whoever made them. `index` provides the required order.
fn source(injectable: Injectable, index: &str) -> String {
    match injectable {
        Injectable::Everything => {
            format!("observations INDEXED BY {index} WHERE project = ?1 AND status = 'active'")
        }
        Injectable::Reviewed => {
            "observations INDEXED BY observations_reviewed WHERE project = ?1 AND status = 'active'
                AND reviewed_at IS NOT NULL"
                .to_owned()
        }
    }
}

record! {
/// A session's summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRow from "session_summaries m LEFT JOIN sessions s ON s.id = m.session" {
    pub id: SummaryId = "m.id",
    /// `None` for a session of another machine.
    pub session_row: Option<SessionRow> = "m.session",
    pub session: Option<SessionId> = "s.session_id",
    pub project: ProjectRow = "m.project",
    /// The person and machine of the session, if not this machine.
    pub author: Option<String> = "m.author",
    pub device: Option<String> = "m.device",
    pub title: String = "m.title",
    pub request: String = "m.request",
    pub investigated: String = "m.investigated",
    pub learned: String = "m.learned",
    pub completed: String = "m.completed",
    pub next_steps: String = "m.next_steps",
    pub notes: String = "m.notes",
    pub created_at: Timestamp = "m.created_at",
    /// The last known checkout of the session.
    pub made_on: MadeOn = "(SELECT json_array(b.branch, b.head_commit, b.base_commit) FROM prompt_batches b
        WHERE b.session = m.session AND ifnull(b.branch, b.head_commit) IS NOT NULL ORDER BY b.seq DESC
        LIMIT 1),
        EXISTS (SELECT 1 FROM observations o WHERE o.session = m.session AND o.files_modified <> '[]')",
}
}

record! {
/// One line of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineRow from "entries" {
    /// Of an observation, a prompt or a summary.
    pub key: DocumentKey = "kind, row",
    pub at: Timestamp = "at",
    pub label: String = "label",
    pub observation_type: Option<ObservationType> = "type",
    pub session: Option<SessionId> = "session_id",
    /// The person who made it, if on another machine.
    pub author: Option<String> = "author",
}
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::empty_database;

    fn summarized(db: &Connection, id: i64, completed: &str) {
        db.execute_batch(&format!(
            "INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
             VALUES ({id}, 'claude-code', 's{id}', 1, 'ended', 1, {id}, {id});
             INSERT INTO session_summaries
                (session, project, title, request, investigated, learned, completed, next_steps, notes, origin, created_at)
             VALUES ({id}, 1, 'title {id}', 'asked', '', '', '{completed}', '', '', 'extractive', {id})"
        ))
        .unwrap();
    }

    fn call(db: &Connection, session: i64) {
        db.execute("UPDATE sessions SET activities = activities + 1 WHERE id = ?1", [session]).unwrap();
    }

    fn last(db: &Connection, except: Option<&str>) -> Option<String> {
        let except = except.map(SessionId::from);
        Reader(db).latest_summary(ProjectRow(1), except.as_ref()).unwrap().map(|row| row.title)
    }

    /// The indexes by which a query finds observations. They do not depend on the size of a memory, because the database
    /// keeps no statistics.
    fn indexes(db: &Connection, sql: &str) -> Vec<String> {
        let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = plan.query_map(params![1, 10], |row| row.get::<_, String>(3)).unwrap();
        let index = |step: rusqlite::Result<String>| {
            let step = step.unwrap();
            let name = step.strip_prefix("SEARCH observations USING INDEX observations_")?;
            Some(name.split(' ').next()?.to_owned())
        };
        steps.filter_map(index).collect()
    }

    #[test]
    fn session_start_notes_and_hand_written_notes_are_found_by_index() {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        for (sql, expected) in [
            (candidates(Injectable::Everything), &["newest", "weightiest", "by_hand", "pinned"][..]),
            (candidates(Injectable::Reviewed), &["reviewed", "reviewed", "by_hand", "pinned"]),
            (kept_by_hand(Injectable::Everything), &["by_hand", "pinned"]),
            (kept_by_hand(Injectable::Reviewed), &["reviewed", "by_hand", "pinned"]),
        ] {
            assert_eq!(indexes(&db, &sql), expected, "{sql}");
        }
    }

    #[test]
    fn the_last_session_is_the_last_one_with_work_in_it() {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        db.execute_batch("INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0)").unwrap();
        summarized(&db, 1, "Rounded the total once.");
        call(&db, 1);
        // A question with an answer, and a greeting.
        summarized(&db, 2, "It is Tuesday.");
        summarized(&db, 3, "");
        assert_eq!(last(&db, None).as_deref(), Some("title 1"));
        assert_eq!(last(&db, Some("s1")), None);
        db.execute_batch(
            "INSERT INTO observations (uuid, session, project, type, title, narrative, facts, concepts, files_read,
                files_modified, importance, evidence, origin, created_at)
             VALUES ('u', 3, 1, 'discovery', 't', 'n', '[]', '[]', '[]', '[]', 5, '[]', 'extractive', 3)",
        )
        .unwrap();
        assert_eq!(last(&db, None).as_deref(), Some("title 3"));
    }
}
