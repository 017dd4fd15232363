//! What is known of a file, and when it was written as a whole.

use rusqlite::{Connection, params};

use super::StoreError;
use super::subjects::SubjectHash;
use crate::memory::earlier::{Earlier, IMPORTANT, MOST_SHOWN, SETTLED};
use crate::memory::ids::{BatchId, ObservationId, ProjectRow, SessionId, Timestamp};
use crate::memory::material::beneath;
use crate::memory::observation::ObservationType;
use crate::memory::subject;

/// An observation about a file, as far as it takes to decide whether it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNoteRow {
    pub id: ObservationId,
    pub session: Option<SessionId>,
    pub created_at: Timestamp,
    /// When another batch than the observation's own last wrote the whole file. A batch's observations bear its end
    /// or, while it is open, its beginning, which says nothing about what came first within it.
    pub rewritten: Option<Timestamp>,
}

/// The newest `most` active observations of a project about a file, of these sorts and of at least this importance.
/// `path` is relative to the project's folder. Reads along the index of paths, so a file of which nothing is known
/// costs one look into it.
///
/// # Errors
/// When the database refuses.
pub fn notes_about(
    db: &Connection,
    (project, path): (ProjectRow, &str),
    (kinds, least): (&[ObservationType], u8),
    most: u32,
) -> Result<Vec<FileNoteRow>, StoreError> {
    let kinds: Vec<_> = kinds.iter().map(|kind| format!("'{}'", kind.as_str())).collect();
    let sql = format!(
        "SELECT o.id, s.session_id, o.created_at,
                (SELECT max(a.at) FROM file_rewrites r CROSS JOIN activities a ON a.id = r.activity
                    CROSS JOIN sessions w ON w.id = a.session
                    WHERE r.path = ?2 AND w.project = ?1 AND a.batch IS NOT o.batch)
         FROM observation_files f CROSS JOIN observations o ON o.id = f.observation
         LEFT JOIN sessions s ON s.id = o.session
         WHERE f.path = ?2 AND o.project = ?1 AND o.status = 'active' AND o.importance >= ?3 AND o.type IN ({})
         GROUP BY f.observation ORDER BY f.observation DESC LIMIT ?4",
        kinds.join(", ")
    );
    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement.query_map(params![project.0, path, least, most], |row| {
        Ok(FileNoteRow {
            id: ObservationId(row.get(0)?),
            session: row.get::<_, Option<String>>(1)?.map(SessionId),
            created_at: Timestamp(row.get(2)?),
            rewritten: row.get::<_, Option<i64>>(3)?.map(Timestamp),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Statements from before a batch about files that it touches, the newest first: those that hold, and those whose place
/// the batch itself has taken. `paths` are relative to the project's folder.
///
/// # Errors
/// When the database refuses.
pub fn earlier_statements(
    db: &Connection,
    batch: BatchId,
    paths: &[String],
) -> Result<Vec<Earlier>, StoreError> {
    /// Most of them are no values.
    const LATEST: u32 = 40;
    /// A key is kept as a hash; one of the statements about the same says it in the form from which it was read.
    const WORDINGS: u32 = 8;
    let settled: Vec<_> = SETTLED.iter().map(|kind| format!("'{}'", kind.as_str())).collect();
    let mut find = db.prepare_cached(&format!(
        "SELECT o.title, (SELECT json_group_array(DISTINCT path) FROM observation_files WHERE observation = o.id), o.subject,
                (SELECT json_group_array(json_array(type, title)) FROM (SELECT n.type, n.title FROM observations n
                    WHERE n.project = o.project AND n.subject = o.subject ORDER BY n.id DESC LIMIT {WORDINGS}))
         FROM json_each(?2) p CROSS JOIN observation_files f ON f.path = p.value
         CROSS JOIN observations o ON o.id = f.observation
         CROSS JOIN prompt_batches b ON b.id = ?1 CROSS JOIN sessions s ON s.id = b.session
         WHERE o.project = s.project AND o.subject IS NOT NULL AND o.origin <> 'user' AND o.importance < ?3
           AND o.type NOT IN ({}) AND o.batch IS NOT b.id AND o.created_at < b.opened_at
           AND (o.status = 'active' OR o.superseded_by IN (SELECT id FROM observations WHERE batch = b.id))
         GROUP BY o.id ORDER BY o.created_at DESC, o.id DESC LIMIT ?4",
        settled.join(", ")
    ))?;
    let rows = find.query_map(params![batch.0, serde_json::to_string(paths)?, IMPORTANT, LATEST], |row| {
        let texts: [String; 3] = [row.get(0)?, row.get(1)?, row.get(3)?];
        Ok((texts, SubjectHash(row.get(2)?)))
    })?;
    let mut found = Vec::new();
    for row in rows {
        let ([title, files, wordings], hash) = row?;
        let wordings: Vec<(String, String)> = serde_json::from_str(&wordings)?;
        let subject = wordings.iter().find_map(|(kind, title)| {
            let subject = subject::of_title(ObservationType::parse(kind)?, title)?;
            (SubjectHash::of(&subject) == hash).then_some(subject)
        });
        if let Some(subject) = subject {
            found.push(Earlier { subject, title, files: serde_json::from_str(&files)? });
        }
    }
    found.retain(Earlier::is_a_value);
    found.truncate(MOST_SHOWN);
    Ok(found)
}

/// Keeps that an activity wrote a whole file of its project; others are nobody's memory.
pub(super) fn keep_rewrite(
    db: &Connection,
    session: i64,
    activity: i64,
    path: &str,
) -> Result<(), StoreError> {
    let root: Option<String> = db
        .prepare_cached("SELECT root FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))?;
    if let Some(path) = beneath(path, root.as_deref()) {
        db.prepare_cached("INSERT INTO file_rewrites (activity, path) VALUES (?1, ?2)")?
            .execute(params![activity, path])?;
    }
    Ok(())
}

/// A batch has turned private, and its own activities with it.
pub(super) fn hide(db: &Connection, batch: BatchId) -> Result<(), StoreError> {
    db.prepare_cached(
        "DELETE FROM file_rewrites WHERE activity IN (SELECT id FROM activities WHERE batch = ?1 AND kind = 'private')",
    )?
    .execute([batch.0])?;
    Ok(())
}
