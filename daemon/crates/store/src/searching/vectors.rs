//! Vectors of documents, one row per document. They are computed from texts and removed with them: writing or removing
//! a document adds an entry to the index log, which removes its vectors ([`crate::operation::log`]).
//!
//! Searches read a project's vectors from a file. The database names the file, and records the vectors added and
//! removed since it was made, so the file and the rows together are always complete.

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::operation::{Operation, WriteContext, remove_vectors};
use crate::searching::documents::DocumentRow;
use crate::{ProjectInfo, Reader, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{ActivityId, ObservationId, ProjectRow, SessionRow, Timestamp, VectorId};

/// The kinds of documents that get vectors first: texts of people and models, beginning with those that may be
/// injected soonest. Tool calls follow, because there are far more ([`Reader::calls_without_vectors`]).
const EMBEDDED: [DocumentKind; 7] = [
    DocumentKind::Observation,
    DocumentKind::Response,
    DocumentKind::Summary,
    DocumentKind::Prompt,
    DocumentKind::Plan,
    DocumentKind::Compaction,
    DocumentKind::ReceivedText,
];
/// How many of these kinds may be injected soonest.
const SOONEST: usize = 4;

/// The number of vectors removed per transaction, so that no event waits long.
const STEP: u32 = 500;

record! {
/// The vectors of a document's passages, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorRow from "vectors" {
    /// Increases with each row ever written.
    pub id: VectorId = "id",
    pub key: DocumentKey = "kind, row",
    pub dimensions: u32 = "dimensions",
    pub packed: Vec<u8> = "packed",
}
}

record! {
/// The file of a project's vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorFileRow from "vector_files" {
    pub project: ProjectRow = "project",
    /// Part of the file's name, together with the project.
    pub made: String = "made",
    /// The highest row id in the file; 0 if there is no file.
    pub newest: VectorId = "newest",
}
}

/// The state of a project's vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorState {
    pub file: Option<VectorFileRow>,
    /// The ids of removed vectors that the file may contain, or that were read before, ascending.
    pub gone: Vec<VectorId>,
    /// The highest id; 0 without vectors.
    pub newest: VectorId,
}

impl Reader<'_> {
    /// The number of documents with vectors of this model.
    pub fn count_vectors(self, model: &[u8; 32]) -> Result<i64, StoreError> {
        self.0.one("SELECT count(*) FROM vectors WHERE model = ?1", [model])
    }

    /// Returns the state of a project's vectors. Must be read in the same transaction as the vectors themselves.
    pub fn vector_state(self, model: &[u8; 32], project: ProjectRow) -> Result<VectorState, StoreError> {
        let db = self.0;
        let file = format!("{} WHERE project = ?1 AND model = ?2", VectorFileRow::SELECT);
        let gone = "SELECT id FROM gone_vectors WHERE project = ?1 ORDER BY id";
        let newest = "SELECT ifnull(max(id), 0) FROM vectors WHERE project = ?1 AND model = ?2";
        Ok(VectorState {
            file: db.first(&file, params![project.0, model])?,
            gone: db.all(gone, [project.0])?,
            newest: db.one(newest, params![project.0, model])?,
        })
    }

    /// Returns the newest rows after the id `after`, at most `limit`, in order.
    pub fn newest_vectors(
        self,
        model: &[u8; 32],
        project: ProjectRow,
        after: VectorId,
        limit: u32,
    ) -> Result<Vec<VectorRow>, StoreError> {
        let select = VectorRow::SELECT;
        let sql = format!("{select} WHERE project = ?1 AND model = ?2 AND id > ?3 ORDER BY id DESC LIMIT ?4");
        let mut rows: Vec<VectorRow> = self.0.all(&sql, params![project.0, model, after, limit])?;
        rows.reverse();
        Ok(rows)
    }

    /// Returns the first rows after the id `after` and up to `newest`, at most `limit`.
    pub fn vectors_after(
        self,
        model: &[u8; 32],
        project: ProjectRow,
        after: VectorId,
        newest: VectorId,
        limit: u32,
    ) -> Result<Vec<VectorRow>, StoreError> {
        let select = VectorRow::SELECT;
        let sql = format!(
            "{select} WHERE project = ?1 AND model = ?2 AND id > ?3 AND id <= ?4 ORDER BY id LIMIT ?5"
        );
        self.0.all(&sql, params![project.0, model, after, newest, limit])
    }

    /// Returns the vectors of these observations. Observations without vectors of this model are absent.
    pub fn vectors_of_observations(
        self,
        model: &[u8; 32],
        ids: &[ObservationId],
    ) -> Result<Vec<VectorRow>, StoreError> {
        let select = VectorRow::SELECT;
        let sql = format!(
            "{select} WHERE kind = 'observation' AND row IN (SELECT value FROM json_each(?1)) AND model = ?2"
        );
        self.0.all(&sql, params![serde_json::to_string(ids)?, model])
    }

    /// The projects that have vectors of this model.
    pub fn projects_with_vectors(self, model: &[u8; 32]) -> Result<Vec<ProjectRow>, StoreError> {
        self.0.all(
        "SELECT id FROM projects WHERE EXISTS (SELECT 1 FROM vectors WHERE project = projects.id AND model = ?1)",
        [model],
    )
    }

    /// Returns all vector files that should exist.
    pub fn vector_files(self) -> Result<Vec<VectorFileRow>, StoreError> {
        self.0.all(&format!("{} WHERE newest > 0", VectorFileRow::SELECT), [])
    }

    /// Returns the projects whose files lack so many vectors, or contain so many removed ones, that they must be
    /// rewritten.
    pub fn outdated_vector_files(self, model: &[u8; 32]) -> Result<Vec<ProjectRow>, StoreError> {
        self.0.all(
            "SELECT p.id FROM projects p LEFT JOIN vector_files f ON f.project = p.id AND f.model = ?1
         WHERE (SELECT count(*) FROM (SELECT 1 FROM vectors v
                WHERE v.project = p.id AND v.model = ?1 AND v.id > ifnull(f.newest, 0) LIMIT 5000))
             + (SELECT count(*) FROM gone_vectors g WHERE g.project = p.id)
             >= min(64 + ifnull(f.rows, 0) / 8, 4096)",
            [model],
        )
    }

    /// The id of the last removal.
    pub fn last_gone_vector(self) -> Result<i64, StoreError> {
        self.0.one("SELECT ifnull(max(seq), 0) FROM gone_vectors", [])
    }

    /// Up to `limit` documents without vectors of this model, newest first.
    pub fn documents_without_vectors(
        self,
        model: &[u8; 32],
        limit: u32,
    ) -> Result<Vec<DocumentKey>, StoreError> {
        let mut found = Vec::new();
        for kind in EMBEDDED {
            let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
            if left == 0 {
                break;
            }
            let sql = format!("SELECT d.id {} ORDER BY d.id DESC LIMIT ?2", without_vectors(kind));
            let rows: Vec<i64> = self.0.all(&sql, params![model, left])?;
            found.extend(rows.into_iter().map(|row| DocumentKey { kind, row }));
        }
        Ok(found)
    }

    /// Returns observations, answers, summaries and prompts without vectors of this model, session by session, the
    /// last active session first. Considers the sessions after this position, and returns the position of the last
    /// one, if any.
    pub fn newest_without_vectors(
        self,
        model: &[u8; 32],
        before: Option<SessionPlace>,
        sessions: u32,
    ) -> Result<(Vec<DocumentKey>, Option<SessionPlace>), StoreError> {
        let db = self.0;
        let before = before
            .unwrap_or(SessionPlace { last_event_at: Timestamp(i64::MAX), session: SessionRow(i64::MAX) });
        let window: Vec<(Timestamp, SessionRow)> = db.all(
            "SELECT last_event_at, id FROM sessions WHERE (last_event_at, id) < (?1, ?2)
         ORDER BY last_event_at DESC, id DESC LIMIT ?3",
            params![before.last_event_at, before.session, sessions],
        )?;
        let mut found = Vec::new();
        for (_, session) in &window {
            for kind in EMBEDDED.into_iter().take(SOONEST) {
                let sql =
                    format!("SELECT d.id {} AND d.session = ?2 ORDER BY d.id DESC", without_vectors(kind));
                let rows: Vec<i64> = db.all(&sql, params![model, session])?;
                found.extend(rows.into_iter().map(|row| DocumentKey { kind, row }));
            }
        }
        let last = window.last().map(|(last_event_at, session)| SessionPlace {
            last_event_at: *last_event_at,
            session: *session,
        });
        Ok((found, last))
    }

    /// Returns up to `limit` unchecked calls without vectors of this model: first the new ones, then older ones. An
    /// empty result means that none are left. Also returns which calls are then checked.
    pub fn calls_without_vectors(
        self,
        model: &[u8; 32],
        seen: CallsSeen,
        limit: u32,
    ) -> Result<(Vec<DocumentKey>, CallsSeen), StoreError> {
        let without = without_vectors(DocumentKind::Activity);
        let find = |which: &str, id: ActivityId| -> Result<Vec<ActivityId>, StoreError> {
            self.0.all(&format!("SELECT d.id {without} AND {which} LIMIT ?3"), params![model, id, limit])
        };
        let newer = find("d.id > ?2 ORDER BY d.id", seen.newest)?;
        let (rows, seen) = match newer.last() {
            Some(newest) => (newer.clone(), CallsSeen { newest: *newest, ..seen }),
            None => {
                let older = find("d.id < ?2 ORDER BY d.id DESC", seen.oldest)?;
                let oldest = older.last().copied().unwrap_or(ActivityId(0));
                (older, CallsSeen { newest: CallsSeen::none(self)?.newest.max(seen.newest), oldest })
            }
        };
        Ok((rows.into_iter().map(DocumentKey::from).collect(), seen))
    }

    /// The number of documents without vectors of this model, not counting calls.
    pub fn count_without_vectors(self, model: &[u8; 32]) -> Result<i64, StoreError> {
        let mut count = 0;
        for kind in EMBEDDED {
            count += self.0.one::<i64>(&format!("SELECT count(*) {}", without_vectors(kind)), [model])?;
        }
        Ok(count)
    }

    /// Whether there are vectors of another model.
    pub fn has_other_vectors(self, model: Option<&[u8; 32]>) -> Result<bool, StoreError> {
        self.0.one("SELECT EXISTS (SELECT 1 FROM vectors WHERE ?1 IS NULL OR model <> ?1)", [model])
    }
}

/// Starts using a new file of a project's vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseVectorFile {
    pub file: VectorFileRow,
    pub model: [u8; 32],
    pub rows: i64,
    /// The last removal that the file already reflects.
    pub gone_until: i64,
}

impl Operation for UseVectorFile {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self { file, model, rows, gone_until } = self;
        db.run(
            "INSERT OR REPLACE INTO vector_files (project, model, made, newest, rows)
             SELECT id, ?2, ?3, ?4, ?5 FROM projects WHERE id = ?1",
            params![file.project.0, model, file.made, file.newest, rows],
        )?;
        let forget = "DELETE FROM gone_vectors WHERE project = ?1 AND seq <= ?2";
        db.run(forget, params![file.project.0, gone_until])
    }
}

/// Which vector files to stop using.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DropVectorFiles {
    /// All files that may contain a removed vector.
    WithGone,
    /// A missing or damaged file.
    Of(VectorFileRow),
}

impl Operation for DropVectorFiles {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let unused = "SELECT id, zeroblob(32), lower(hex(randomblob(8))), 0, 0 FROM projects";
        let into = "INSERT OR REPLACE INTO vector_files (project, model, made, newest, rows)";
        match self {
            Self::WithGone => {
                db.run(&format!("{into} {unused} WHERE id IN (SELECT project FROM gone_vectors)"), [])?;
                db.run("DELETE FROM gone_vectors", [])
            }
            Self::Of(file) => {
                let is_used = "(SELECT project FROM vector_files WHERE project = ?1 AND made = ?2)";
                db.run(&format!("{into} {unused} WHERE id IN {is_used}"), params![file.project.0, file.made])
            }
        }
    }
}

/// The position of a session in the order of last events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPlace {
    last_event_at: Timestamp,
    session: SessionRow,
}

/// The calls that were checked for vectors: those with an id from `oldest` to `newest`. There are so many calls that
/// each run checks only new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallsSeen {
    pub newest: ActivityId,
    pub oldest: ActivityId,
}

impl CallsSeen {
    /// Returns the initial state: no calls were checked. Existing ones count as older.
    pub fn none(db: Reader<'_>) -> Result<Self, StoreError> {
        let newest: ActivityId = db.0.one("SELECT ifnull(max(id), 0) FROM activities", [])?;
        Ok(Self { newest, oldest: ActivityId(newest.0.saturating_add(1)) })
    }

    /// The approximate number of unchecked calls.
    pub fn count_left(self, db: Reader<'_>) -> Result<i64, StoreError> {
        // The table's rows are large, while those of the index are small.
        db.0.one(
            "SELECT count(*) FROM activities INDEXED BY activities_by_session WHERE id > ?1 OR id < ?2",
            params![self.newest, self.oldest],
        )
    }
}

fn without_vectors(kind: DocumentKind) -> String {
    let rows = match kind {
        DocumentKind::Observation => "observations d WHERE true",
        DocumentKind::Summary => "session_summaries d WHERE true",
        DocumentKind::Plan => "plans d WHERE true",
        DocumentKind::Response => "prompt_batches d WHERE d.response IS NOT NULL",
        DocumentKind::Prompt => "prompt_batches d WHERE d.prompt IS NOT NULL",
        DocumentKind::Compaction => "compactions d WHERE d.summary IS NOT NULL",
        DocumentKind::Activity => "activities d WHERE d.kind = 'tool'",
        DocumentKind::ReceivedText => "said_elsewhere d WHERE true",
    };
    let kind = kind.as_str();
    format!(
        "FROM {rows} AND NOT EXISTS
         (SELECT 1 FROM vectors v WHERE v.kind = '{kind}' AND v.row = d.id AND v.model = ?1)"
    )
}

/// Stores the vectors of a document, unless its text has changed since they were computed.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreVectors {
    pub key: DocumentKey,
    /// The document from which the vectors were computed.
    pub seen: DocumentRow,
    pub model: [u8; 32],
    pub dimensions: u32,
    /// Empty for a text without words.
    pub packed: Vec<u8>,
}

/// Whether vectors were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorsStored {
    Yes,
    /// The document is gone or has changed.
    Changed,
}

impl Operation for StoreVectors {
    type Output = VectorsStored;

    fn execute(self, db: &WriteContext<'_>) -> Result<VectorsStored, StoreError> {
        let Some(now) = Reader(db).load_document(self.key)? else { return Ok(VectorsStored::Changed) };
        if !has_same_text(&now, &self.seen) {
            return Ok(VectorsStored::Changed);
        }
        remove_vectors(db, self.key)?;
        let Self { key, model, dimensions, packed, .. } = self;
        db.run(
            "INSERT INTO vectors (kind, row, project, model, dimensions, packed) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![key.kind.as_str(), key.row, now.project().row.0, model, dimensions, packed],
        )?;
        Ok(VectorsStored::Yes)
    }
}

/// Compares only texts. A document's session facts change with each event, and vectors do not reflect them.
fn has_same_text(a: &DocumentRow, b: &DocumentRow) -> bool {
    use DocumentRow::{Activity, Compaction, Observation, Plan, Prompt, ReceivedText, Response, Summary};
    a.project().row == b.project().row
        && match (a, b) {
            (Observation { row: a, .. }, Observation { row: b, .. }) => a == b,
            (Summary { row: a, .. }, Summary { row: b, .. }) => a == b,
            (Plan { row: a, .. }, Plan { row: b, .. }) => (&a.title, &a.text) == (&b.title, &b.text),
            (Compaction { row: a, .. }, Compaction { row: b, .. }) => a.summary == b.summary,
            (Prompt { text: a, .. }, Prompt { text: b, .. })
            | (Response { text: a, .. }, Response { text: b, .. }) => a == b,
            (Activity { row: a, .. }, Activity { row: b, .. }) => a == b,
            (ReceivedText { row: a, .. }, ReceivedText { row: b, .. }) => a.text == b.text,
            _ => false,
        }
}

impl DocumentRow {
    pub fn project(&self) -> &ProjectInfo {
        match self {
            Self::Observation { project, .. }
            | Self::Summary { project, .. }
            | Self::Plan { project, .. }
            | Self::ReceivedText { project, .. } => project,
            Self::Prompt { session, .. }
            | Self::Response { session, .. }
            | Self::Compaction { session, .. }
            | Self::Activity { session, .. } => &session.project,
        }
    }
}

/// Removes some vectors of other models and the records of their files; `None` means of all models. Returns their
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveOtherVectors {
    pub model: Option<[u8; 32]>,
}

impl Operation for RemoveOtherVectors {
    type Output = usize;

    fn execute(self, db: &WriteContext<'_>) -> Result<usize, StoreError> {
        db.run("DELETE FROM vector_files WHERE ?1 IS NULL OR model <> ?1", [self.model])?;
        db.update(
            "DELETE FROM vectors WHERE id IN
             (SELECT id FROM vectors WHERE ?1 IS NULL OR model <> ?1 LIMIT ?2)",
            params![self.model, STEP],
        )
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::operation::{Changes, log};
    use crate::{empty_database, execute};
    use recall_domain::ids::BatchId;

    /// A database with a prompt and its answer, in project 1.
    fn database() -> (tempfile::TempDir, Connection) {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        db.execute_batch(
            "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0);
             INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
             VALUES (1, 'a', 's', 1, 'active', 1, 0, 0);
             INSERT INTO prompt_batches (id, session, seq, prompt_number, source, status, prompt,
             response, opened_at) VALUES (1, 1, 1, 1, 'user', 'closed', 'why', 'because', 0)",
        )
        .unwrap();
        (home, db)
    }

    const KEY: DocumentKey = DocumentKey { kind: DocumentKind::Response, row: 1 };
    const MODEL: [u8; 32] = [7; 32];

    fn store(db: &Connection, seen: DocumentRow) -> VectorsStored {
        let store = StoreVectors { key: KEY, seen, model: MODEL, dimensions: 1, packed: vec![1, 2, 3, 4, 5] };
        execute(db, store, &mut Changes::default()).unwrap()
    }

    fn seen(db: &Connection) -> DocumentRow {
        Reader(db).load_document(KEY).unwrap().unwrap()
    }

    #[test]
    fn vectors_are_stored_once_and_found_by_project() {
        let (_home, db) = database();
        let waiting = || Reader(&db).documents_without_vectors(&MODEL, 9).unwrap();
        let prompt = DocumentKey { kind: DocumentKind::Prompt, row: 1 };
        assert_eq!((waiting(), Reader(&db).count_without_vectors(&MODEL).unwrap()), (vec![KEY, prompt], 2));
        // Vectors contain no session facts.
        let before = seen(&db);
        db.execute("UPDATE sessions SET last_event_at = 9", []).unwrap();
        assert_eq!(store(&db, before), VectorsStored::Yes);
        assert_eq!((waiting(), Reader(&db).count_without_vectors(&[8; 32]).unwrap()), (vec![prompt], 2));
        let rows = |project| Reader(&db).newest_vectors(&MODEL, ProjectRow(project), VectorId(0), 9).unwrap();
        assert_eq!((rows(1)[0].key, rows(1).len(), rows(2).len()), (KEY, 1, 0));
        assert_eq!(Reader(&db).projects_with_vectors(&MODEL).unwrap(), [ProjectRow(1)]);
        let first = state(&db);
        assert_eq!(store(&db, seen(&db)), VectorsStored::Yes);
        let second = state(&db);
        assert_eq!(
            (Reader(&db).count_vectors(&MODEL).unwrap(), first.gone, second.gone),
            (1, vec![], vec![first.newest])
        );
        assert!(second.newest > first.newest);
    }

    #[test]
    fn each_call_without_a_vector_is_listed_once_and_new_calls_first() {
        let (_home, db) = database();
        let add = |ids: std::ops::RangeInclusive<i64>| {
            for id in ids {
                let sql = "INSERT INTO activities (id, session, event_id, kind, tool_name, failed, at)
                           VALUES (?1, 1, ?1, iif(?1 = 2, 'other', 'tool'), 'T', 0, 0)";
                db.execute(sql, [id]).unwrap();
            }
        };
        add(1..=5);
        let mut seen = CallsSeen::none(Reader(&db)).unwrap();
        let mut next = |limit| {
            let (keys, now) = Reader(&db).calls_without_vectors(&MODEL, seen, limit).unwrap();
            seen = now;
            (keys.iter().map(|key| key.row).collect::<Vec<_>>(), now.count_left(Reader(&db)).unwrap())
        };
        assert_eq!(next(2), (vec![5, 4], 3));
        add(6..=8);
        assert_eq!(next(2), (vec![6, 7], 4));
        assert_eq!(next(2), (vec![8], 3));
        assert_eq!(next(9), (vec![3, 1], 0));
        assert_eq!(next(9), (vec![], 0));
        // A new run finds those without vectors.
        let call = DocumentKey { kind: DocumentKind::Activity, row: 5 };
        let seen = Reader(&db).load_document(call).unwrap().unwrap();
        let stored = StoreVectors { key: call, seen, model: MODEL, dimensions: 0, packed: Vec::new() };
        execute(&db, stored, &mut Changes::default()).unwrap();
        let (keys, _) =
            Reader(&db).calls_without_vectors(&MODEL, CallsSeen::none(Reader(&db)).unwrap(), 2).unwrap();
        assert_eq!(keys.iter().map(|key| key.row).collect::<Vec<_>>(), [8, 7]);
    }

    fn state(db: &Connection) -> VectorState {
        Reader(db).vector_state(&MODEL, ProjectRow(1)).unwrap()
    }

    #[test]
    fn a_vector_file_is_used_until_it_is_dropped_for_removed_vectors() {
        let (_home, db) = database();
        let mut changes = Changes::default();
        assert_eq!(store(&db, seen(&db)), VectorsStored::Yes);
        let file = VectorFileRow { project: ProjectRow(1), made: "a".to_owned(), newest: state(&db).newest };
        let gone_until = Reader(&db).last_gone_vector().unwrap();
        // While the file is written, a vector is replaced.
        assert_eq!(store(&db, seen(&db)), VectorsStored::Yes);
        let using = UseVectorFile { file: file.clone(), model: MODEL, rows: 1, gone_until };
        execute(&db, using.clone(), &mut changes).unwrap();
        assert_eq!(state(&db).file.as_ref(), Some(&file));
        assert_eq!(
            (state(&db).gone, Reader(&db).vector_files().unwrap()),
            (vec![file.newest], vec![file.clone()])
        );
        assert_eq!(
            Reader(&db).vector_state(&[8; 32], ProjectRow(1)).unwrap().file,
            None,
            "it is of another model"
        );

        execute(&db, DropVectorFiles::WithGone, &mut changes).unwrap();
        assert_eq!(
            (state(&db).file, state(&db).gone, Reader(&db).vector_files().unwrap()),
            (None, vec![], vec![])
        );
        execute(&db, UseVectorFile { gone_until: 9, ..using }, &mut changes).unwrap();
        let other = VectorFileRow { made: "b".to_owned(), ..file.clone() };
        execute(&db, DropVectorFiles::Of(other), &mut changes).unwrap();
        assert_eq!(Reader(&db).vector_files().unwrap(), std::slice::from_ref(&file));
        execute(&db, DropVectorFiles::Of(file), &mut changes).unwrap();
        assert_eq!(Reader(&db).vector_files().unwrap(), []);
    }

    #[test]
    fn a_vector_file_is_outdated_when_enough_has_changed() {
        let (_home, db) = database();
        let add = |first: i64, count: i64| {
            for row in first..first + count {
                db.execute(
                    "INSERT INTO vectors (kind, row, project, model, dimensions, packed) VALUES ('plan', ?1, 1, ?2, 0, '')",
                    params![row, MODEL],
                )
                .unwrap();
            }
        };
        let outdated = || Reader(&db).outdated_vector_files(&MODEL).unwrap();
        add(0, 63);
        assert_eq!(outdated(), []);
        add(63, 1);
        assert_eq!(outdated(), [ProjectRow(1)]);
        let file = VectorFileRow { project: ProjectRow(1), made: "a".to_owned(), newest: state(&db).newest };
        let using = UseVectorFile { file, model: MODEL, rows: 64, gone_until: 0 };
        execute(&db, using, &mut Changes::default()).unwrap();
        add(64, 71);
        assert_eq!(outdated(), []);
        db.execute("INSERT INTO gone_vectors (project, id) VALUES (1, 1)", []).unwrap();
        assert_eq!(
            (outdated(), Reader(&db).outdated_vector_files(&[8; 32]).unwrap()),
            (vec![ProjectRow(1)], vec![])
        );
    }

    #[test]
    fn vectors_of_an_older_text_are_not_stored() {
        let (_home, db) = database();
        let before = seen(&db);
        db.execute("UPDATE prompt_batches SET response = 'of a bug'", []).unwrap();
        assert_eq!(store(&db, before.clone()), VectorsStored::Changed);
        db.execute("UPDATE prompt_batches SET response = NULL", []).unwrap();
        assert_eq!(store(&db, before), VectorsStored::Changed);
        assert_eq!(Reader(&db).count_vectors(&MODEL).unwrap(), 0);
    }

    /// Writes or removes the answer, in the view of the index.
    struct Rewrite;

    impl Operation for Rewrite {
        type Output = ();

        fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
            log(db, DocumentKey::response(BatchId(1)))
        }
    }

    #[test]
    fn vectors_are_removed_when_their_document_or_the_model_changes() {
        let (_home, db) = database();
        assert_eq!(store(&db, seen(&db)), VectorsStored::Yes);
        execute(&db, Rewrite, &mut Changes::default()).unwrap();
        assert_eq!(Reader(&db).count_vectors(&MODEL).unwrap(), 0);

        assert_eq!(store(&db, seen(&db)), VectorsStored::Yes);
        let remove = |model| execute(&db, RemoveOtherVectors { model }, &mut Changes::default()).unwrap();
        assert!(!Reader(&db).has_other_vectors(Some(&MODEL)).unwrap());
        assert_eq!(remove(Some(MODEL)), 0);
        assert!(
            Reader(&db).has_other_vectors(Some(&[8; 32])).unwrap()
                && Reader(&db).has_other_vectors(None).unwrap()
        );
        assert_eq!((remove(Some([8; 32])), remove(None)), (1, 0));
    }
}
