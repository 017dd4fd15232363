//! Observations about a file, and when the whole file was last rewritten.

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::notes::subjects::SubjectHash;
use crate::{Reader, StoreError};
use recall_domain::earlier::{Earlier, IMPORTANT, MOST_SHOWN, SETTLED};
use recall_domain::ids::{ActivityId, BatchId, ObservationId, ProjectRow, SessionId, SessionRow, Timestamp};
use recall_domain::material::ProjectFolder;
use recall_domain::observation::ObservationType;
use recall_domain::review::Injectable;
use recall_domain::subject;

record! {
/// The fields that decide whether an observation about a file is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNoteRow from "observation_files f CROSS JOIN observations o ON o.id = f.observation
         LEFT JOIN sessions s ON s.id = o.session" {
    pub id: ObservationId = "o.id",
    pub session: Option<SessionId> = "s.session_id",
    pub created_at: Timestamp = "o.created_at",
    /// When another batch last rewrote the whole file. An observation's time is when its batch ended or, while the
    /// batch is open, began; it says nothing about the order within the batch.
    pub rewritten: Option<Timestamp> = "(SELECT max(a.at) FROM file_rewrites r
        CROSS JOIN activities a ON a.id = r.activity CROSS JOIN sessions w ON w.id = a.session
        WHERE r.path = ?2 AND w.project = ?1 AND a.batch IS NOT o.batch)",
}
}

record! {
/// A call that changed a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangingCallRow from "activities a JOIN sessions s ON s.id = a.session" {
    pub agent: String = "s.agent",
    pub tool_name: String = "a.tool_name",
    pub input: Option<String> = "a.input",
}
}

/// Whose calls to consider.
#[derive(Clone, Copy, Debug)]
pub enum WorkOf<'a> {
    Batch(BatchId),
    /// The evidence of an observation.
    Events(&'a [String]),
    Session(SessionRow),
}

/// The maximum number of changing calls that are read, latest first.
const CHANGING_CALLS: u32 = 32;

/// Which notes about a file to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotesWanted<'a> {
    pub kinds: &'a [ObservationType],
    pub least_importance: u8,
    pub most: u32,
    /// Which of them may be injected.
    pub injectable: Injectable,
}

impl Reader<'_> {
    /// Returns the calls that changed a file, oldest first. `mark` is the hash of the file's path in
    /// `activities.changed_files`.
    pub fn calls_that_changed(
        self,
        work: WorkOf<'_>,
        mark: [u8; 8],
    ) -> Result<Vec<ChangingCallRow>, StoreError> {
        let (which, given) = match work {
            WorkOf::Batch(batch) => ("a.batch = ?1", batch.0.to_string()),
            WorkOf::Session(session) => ("a.session = ?1", session.0.to_string()),
            WorkOf::Events(events) => {
                ("a.event_id IN (SELECT unhex(value) FROM json_each(?1))", serde_json::to_string(events)?)
            }
        };
        let sql = format!(
            "{} WHERE {which} AND a.failed = 0 AND instr(a.changed_files, ?2) > 0 ORDER BY a.at DESC, a.id DESC LIMIT ?3",
            ChangingCallRow::SELECT
        );
        let mut calls: Vec<ChangingCallRow> = self.0.all(&sql, params![given, &mark[..], CHANGING_CALLS])?;
        calls.reverse();
        Ok(calls)
    }

    /// Returns the active observations of a project about a file, newest first. `path` is relative to the project's
    /// folder. Reads the index of paths, so a file without observations costs a single lookup.
    pub fn notes_about(
        self,
        project: ProjectRow,
        path: &str,
        wanted: NotesWanted<'_>,
    ) -> Result<Vec<FileNoteRow>, StoreError> {
        let NotesWanted { kinds, least_importance, most, injectable } = wanted;
        let kinds: Vec<_> = kinds.iter().map(|kind| format!("'{}'", kind.as_str())).collect();
        let reviewed = match injectable {
            Injectable::Everything => "",
            Injectable::Reviewed => {
                "AND (o.reviewed_at IS NOT NULL OR o.pinned_at IS NOT NULL OR o.origin = 'user')"
            }
        };
        let sql = format!(
            "{}
         WHERE f.path = ?2 AND o.project = ?1 AND o.status = 'active' AND o.importance >= ?3 AND o.type
         IN ({}) {reviewed}
         GROUP BY f.observation ORDER BY f.observation DESC LIMIT ?4",
            FileNoteRow::SELECT,
            kinds.join(", ")
        );
        self.0.all(&sql, params![project, path, least_importance, most])
    }

    /// Returns statements from before a batch about files that it touches, newest first: those that are valid, and
    /// those that the batch itself replaced. `paths` are relative to the project's folder.
    pub fn earlier_statements(self, batch: BatchId, paths: &[String]) -> Result<Vec<Earlier>, StoreError> {
        /// The number of statements read. Most of them state no value.
        const LATEST: u32 = 40;
        /// The number of wordings read per subject. Its key is stored as a hash; one of its statements contains the
        /// words that the key came from.
        const WORDINGS: u32 = 8;
        let settled: Vec<_> = SETTLED.iter().map(|kind| format!("'{}'", kind.as_str())).collect();
        let sql = format!(
        "SELECT o.title, (SELECT json_group_array(DISTINCT path) FROM observation_files WHERE
                 observation = o.id), o.subject,
                (SELECT json_group_array(json_array(CAST(type AS TEXT), CAST(title AS TEXT))) FROM (SELECT n.type, n.title FROM
                observations n
                    WHERE n.project = o.project AND n.subject = o.subject ORDER BY n.id DESC LIMIT
                    {WORDINGS}))
         FROM json_each(?2) p CROSS JOIN observation_files f ON f.path = p.value
         CROSS JOIN observations o ON o.id = f.observation
         CROSS JOIN prompt_batches b ON b.id = ?1 CROSS JOIN sessions s ON s.id = b.session
         WHERE o.project = s.project AND o.subject IS NOT NULL AND o.share IS NULL AND o.origin <> 'user' AND o.importance < ?3
           AND o.type NOT IN ({}) AND o.batch IS NOT b.id AND o.created_at < b.opened_at
           AND (o.status = 'active' OR o.superseded_by IN (SELECT id FROM observations WHERE batch = b.id))
         GROUP BY o.id ORDER BY o.created_at DESC, o.id DESC LIMIT ?4",
        settled.join(", ")
    );
        let given = params![batch.0, serde_json::to_string(paths)?, IMPORTANT, LATEST];
        let rows: Vec<(String, Vec<String>, SubjectHash, String)> = self.0.all(&sql, given)?;
        let mut found = Vec::new();
        for (title, files, hash, wordings) in rows {
            let wordings: Vec<(String, String)> = serde_json::from_str(&wordings).unwrap_or_default();
            let subject = wordings.iter().find_map(|(kind, title)| {
                let subject = subject::of_title(ObservationType::parse(kind)?, title)?;
                (SubjectHash::of(&subject) == hash).then_some(subject)
            });
            if let Some(subject) = subject {
                found.push(Earlier { subject, title, files });
            }
        }
        found.retain(Earlier::is_a_value);
        found.truncate(MOST_SHOWN);
        Ok(found)
    }
}

/// Records that an activity wrote a whole file of its project. Files outside the project are skipped.
pub(crate) fn keep_rewrite(
    db: &Connection,
    session: SessionRow,
    activity: ActivityId,
    path: &str,
    work_trees: &'static [&'static str],
) -> Result<(), StoreError> {
    let root: Option<String> = db.one("SELECT root FROM sessions WHERE id = ?1", params![session])?;
    let folder = ProjectFolder { root: root.as_deref(), work_trees };
    if let Some(path) = folder.beneath(path) {
        db.run("INSERT INTO file_rewrites (activity, path) VALUES (?1, ?2)", params![activity, path])?;
    }
    Ok(())
}

/// Deletes the records of a batch that became private.
pub(crate) fn hide(db: &Connection, batch: BatchId) -> Result<(), StoreError> {
    db.run(
        "DELETE FROM file_rewrites WHERE activity IN (SELECT id FROM activities WHERE batch = ?1 AND
             kind = 'private')",
        [batch.0],
    )
}
