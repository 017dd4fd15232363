//! Vectors of documents, each as one row beside the document. They are made of texts, so they go with them: whatever
//! writes or removes a document says so to the index's log, and that removes its vectors ([`super::operation::log`]).

use rusqlite::{Connection, params};

use super::documents::{DocumentRow, load_document};
use super::operation::{Operation, WriteContext};
use super::row::{Sql, record};
use super::{ProjectInfo, StoreError};
use crate::memory::document::{DocumentKey, DocumentKind};
use crate::memory::ids::ProjectRow;

/// The kinds of documents that have vectors: what people and models say. Tool output is found by its words.
const EMBEDDED: [DocumentKind; 6] = [
    DocumentKind::Observation,
    DocumentKind::Summary,
    DocumentKind::Plan,
    DocumentKind::Response,
    DocumentKind::Prompt,
    DocumentKind::Compaction,
];

/// Vectors that are removed in one transaction, so that no event waits long behind it.
const STEP: u32 = 500;

record! {
/// The vectors of a document's passages, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorRow from "vectors" {
    /// Grows with each row ever written.
    pub id: i64 = "id",
    pub key: DocumentKey = "kind, row",
    pub packed: Vec<u8> = "packed",
}
}

record! {
/// Which vectors there are. Two equal ones are of the same rows, unless some were replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VectorCount from "vectors" {
    pub rows: i64 = "count(*)",
    pub newest: i64 = "ifnull(max(id), 0)",
}
}

/// The model and, if not all, the project. The model's hash comes first.
const OF: &str = "WHERE model = ?1 AND (?2 IS NULL OR project = ?2)";

pub fn vector_count(
    db: &Connection,
    model: &[u8; 32],
    project: Option<ProjectRow>,
) -> Result<VectorCount, StoreError> {
    db.one(&format!("{} {OF}", VectorCount::SELECT), params![model, project.map(|row| row.0)])
}

/// The rows after the number `after`, in order.
pub fn vectors_after(
    db: &Connection,
    model: &[u8; 32],
    project: Option<ProjectRow>,
    after: i64,
) -> Result<Vec<VectorRow>, StoreError> {
    let sql = format!("{} {OF} AND id > ?3 ORDER BY id", VectorRow::SELECT);
    db.all(&sql, params![model, project.map(|row| row.0), after])
}

/// Up to `limit` documents without vectors of this model, the newest first.
pub fn documents_without_vectors(
    db: &Connection,
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
        let rows: Vec<i64> = db.all(&sql, params![model, left])?;
        found.extend(rows.into_iter().map(|row| DocumentKey { kind, row }));
    }
    Ok(found)
}

/// How many documents have no vectors of this model yet.
pub fn count_without_vectors(db: &Connection, model: &[u8; 32]) -> Result<i64, StoreError> {
    let mut count = 0;
    for kind in EMBEDDED {
        count += db.one::<i64>(&format!("SELECT count(*) {}", without_vectors(kind)), [model])?;
    }
    Ok(count)
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
    };
    let kind = kind.as_str();
    format!(
        "FROM {rows} AND NOT EXISTS
         (SELECT 1 FROM vectors v WHERE v.kind = '{kind}' AND v.row = d.id AND v.model = ?1)"
    )
}

/// Stores the vectors of a document, unless its text has changed since they were made.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreVectors {
    pub key: DocumentKey,
    /// What they were made of.
    pub seen: DocumentRow,
    pub model: [u8; 32],
    /// Empty for a text that says nothing.
    pub packed: Vec<u8>,
}

/// Whether vectors were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorsStored {
    Yes,
    /// The document is gone or is another one now.
    Changed,
}

impl Operation for StoreVectors {
    type Output = VectorsStored;

    fn execute(self, db: &WriteContext<'_>) -> Result<VectorsStored, StoreError> {
        let Some(now) = load_document(db, self.key)? else { return Ok(VectorsStored::Changed) };
        if !has_same_text(&now, &self.seen) {
            return Ok(VectorsStored::Changed);
        }
        db.run(
            "INSERT OR REPLACE INTO vectors (kind, row, project, model, packed) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![self.key.kind.as_str(), self.key.row, now.project().row.0, self.model, self.packed],
        )?;
        Ok(VectorsStored::Yes)
    }
}

/// What is said of the session changes with each of its events and is in no vector.
fn has_same_text(a: &DocumentRow, b: &DocumentRow) -> bool {
    use DocumentRow::{Activity, Compaction, Observation, Plan, Prompt, Response, Summary};
    a.project().row == b.project().row
        && match (a, b) {
            (Observation { row: a, .. }, Observation { row: b, .. }) => a == b,
            (Summary { row: a, .. }, Summary { row: b, .. }) => a == b,
            (Plan { row: a, .. }, Plan { row: b, .. }) => (&a.title, &a.text) == (&b.title, &b.text),
            (Compaction { row: a, .. }, Compaction { row: b, .. }) => a.summary == b.summary,
            (Prompt { text: a, .. }, Prompt { text: b, .. })
            | (Response { text: a, .. }, Response { text: b, .. }) => a == b,
            (Activity { row: a, .. }, Activity { row: b, .. }) => a == b,
            _ => false,
        }
}

impl DocumentRow {
    pub fn project(&self) -> &ProjectInfo {
        match self {
            Self::Observation { project, .. } => project,
            Self::Summary { session, .. }
            | Self::Plan { session, .. }
            | Self::Prompt { session, .. }
            | Self::Response { session, .. }
            | Self::Compaction { session, .. }
            | Self::Activity { session, .. } => &session.project,
        }
    }
}

/// Whether there are vectors of another model.
pub fn has_other_vectors(db: &Connection, model: Option<&[u8; 32]>) -> Result<bool, StoreError> {
    db.one("SELECT EXISTS (SELECT 1 FROM vectors WHERE ?1 IS NULL OR model <> ?1)", [model])
}

/// Removes some vectors of other models; `None`: of all. The output says how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveOtherVectors {
    pub model: Option<[u8; 32]>,
}

impl Operation for RemoveOtherVectors {
    type Output = usize;

    fn execute(self, db: &WriteContext<'_>) -> Result<usize, StoreError> {
        db.update(
            "DELETE FROM vectors WHERE id IN
             (SELECT id FROM vectors WHERE ?1 IS NULL OR model <> ?1 LIMIT ?2)",
            params![self.model, STEP],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::operation::{Changes, execute, log};
    use crate::store::{Durability, open_writer};

    /// A database with a prompt and its answer, in project 1.
    fn database() -> (tempfile::TempDir, Connection) {
        let home = tempfile::tempdir().unwrap();
        let db = open_writer(&home.path().join("recall.db"), home.path(), Durability::Normal).unwrap();
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
        let store = StoreVectors { key: KEY, seen, model: MODEL, packed: vec![1, 2, 3, 4, 5] };
        execute(db, store, &mut Changes::default()).unwrap()
    }

    fn seen(db: &Connection) -> DocumentRow {
        load_document(db, KEY).unwrap().unwrap()
    }

    #[test]
    fn vectors_are_stored_once_and_found_by_project() {
        let (_home, db) = database();
        let waiting = || documents_without_vectors(&db, &MODEL, 9).unwrap();
        let prompt = DocumentKey { kind: DocumentKind::Prompt, row: 1 };
        assert_eq!((waiting(), count_without_vectors(&db, &MODEL).unwrap()), (vec![KEY, prompt], 2));
        // What is known of the session is in no vector.
        let before = seen(&db);
        db.execute("UPDATE sessions SET last_event_at = 9", []).unwrap();
        assert_eq!(store(&db, before), VectorsStored::Yes);
        assert_eq!((waiting(), count_without_vectors(&db, &[8; 32]).unwrap()), (vec![prompt], 2));
        let rows = |project| vectors_after(&db, &MODEL, project, 0).unwrap();
        assert_eq!(rows(None), rows(Some(ProjectRow(1))));
        assert_eq!((rows(None)[0].key, rows(Some(ProjectRow(2))).len()), (KEY, 0));
        let count = vector_count(&db, &MODEL, None).unwrap();
        assert_eq!(store(&db, seen(&db)), VectorsStored::Yes);
        let replaced = vector_count(&db, &MODEL, None).unwrap();
        assert_eq!((count.rows, replaced.rows), (1, 1));
        assert!(replaced.newest > count.newest);
    }

    #[test]
    fn vectors_of_an_older_text_are_not_stored() {
        let (_home, db) = database();
        let before = seen(&db);
        db.execute("UPDATE prompt_batches SET response = 'of a bug'", []).unwrap();
        assert_eq!(store(&db, before.clone()), VectorsStored::Changed);
        db.execute("UPDATE prompt_batches SET response = NULL", []).unwrap();
        assert_eq!(store(&db, before), VectorsStored::Changed);
        assert_eq!(vector_count(&db, &MODEL, None).unwrap(), VectorCount::default());
    }

    /// Writes or removes the answer, as far as the index knows.
    struct Rewrite;

    impl Operation for Rewrite {
        type Output = ();

        fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
            log(db, "response", 1)
        }
    }

    #[test]
    fn vectors_go_with_what_they_were_made_of_and_with_their_model() {
        let (_home, db) = database();
        assert_eq!(store(&db, seen(&db)), VectorsStored::Yes);
        execute(&db, Rewrite, &mut Changes::default()).unwrap();
        assert_eq!(vector_count(&db, &MODEL, None).unwrap().rows, 0);

        assert_eq!(store(&db, seen(&db)), VectorsStored::Yes);
        let remove = |model| execute(&db, RemoveOtherVectors { model }, &mut Changes::default()).unwrap();
        assert!(!has_other_vectors(&db, Some(&MODEL)).unwrap());
        assert_eq!(remove(Some(MODEL)), 0);
        assert!(has_other_vectors(&db, Some(&[8; 32])).unwrap() && has_other_vectors(&db, None).unwrap());
        assert_eq!((remove(Some([8; 32])), remove(None)), (1, 0));
    }
}
