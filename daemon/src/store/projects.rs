//! Projects and the identities they were seen with.

use rusqlite::{Connection, OptionalExtension, params};

use super::StoreError;
use crate::memory::ids::{CommitId, ProjectKey, ProjectRow, SessionKey, Timestamp};
use crate::memory::project::{Known, choose};

/// A project as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectInfo {
    pub row: ProjectRow,
    pub key: ProjectKey,
    pub name: String,
}

/// Finds the project of these identities, or makes it; remembers the identities that are new.
pub(super) fn resolve(
    db: &Connection,
    identities: &[ProjectKey],
    name: &str,
    at: Timestamp,
) -> Result<ProjectRow, StoreError> {
    let project = match lookup(db, identities)? {
        Some(known) => known,
        None => {
            let key = identities.first().map_or("unknown", ProjectKey::as_str);
            db.prepare_cached("INSERT INTO projects (key, name, created_at) VALUES (?1, ?2, ?3)")?
                .execute(params![key, name, at.0])?;
            ProjectRow(db.last_insert_rowid())
        }
    };
    for identity in identities {
        db.prepare_cached("INSERT OR IGNORE INTO project_aliases (alias, project) VALUES (?1, ?2)")?
            .execute(params![identity.as_str(), project.0])?;
    }
    Ok(project)
}

/// Shows a project under another name, unless another one has it: asking for that one must not bring this.
pub(super) fn rename(db: &Connection, project: ProjectRow, name: &str) -> Result<(), StoreError> {
    db.prepare_cached(
        "UPDATE projects SET name = ?2 WHERE id = ?1
            AND NOT EXISTS (SELECT 1 FROM projects WHERE id <> ?1 AND name = ?2 COLLATE NOCASE)
            AND NOT EXISTS (SELECT 1 FROM project_aliases WHERE project <> ?1 AND alias = ?2)",
    )?
    .execute(params![project.0, name])?;
    Ok(())
}

fn lookup(db: &Connection, identities: &[ProjectKey]) -> Result<Option<ProjectRow>, StoreError> {
    let mut known = Vec::new();
    for identity in identities {
        known.extend(known_project(db, identity)?);
    }
    Ok(choose(identities, &known))
}

/// The project that was seen with an identity.
///
/// # Errors
/// When the database refuses.
pub fn known_project(db: &Connection, identity: &ProjectKey) -> Result<Option<Known>, StoreError> {
    let mut by_alias = db.prepare_cached("SELECT project FROM project_aliases WHERE alias = ?1")?;
    let mut aliases_of = db.prepare_cached("SELECT alias FROM project_aliases WHERE project = ?1")?;
    let Some(project) = by_alias.query_row([identity.as_str()], |row| row.get::<_, i64>(0)).optional()?
    else {
        return Ok(None);
    };
    let aliases = aliases_of.query_map([project], |row| row.get::<_, String>(0))?;
    let aliases = aliases.map(|alias| alias.map(ProjectKey)).collect::<Result<_, _>>()?;
    Ok(Some(Known { project: ProjectRow(project), aliases }))
}

/// Commits that were checked out where a project was worked on: those of its latest batches, `most` at most.
///
/// # Errors
/// When the database refuses.
pub fn commits_of_project(
    db: &Connection,
    project: ProjectRow,
    most: u32,
) -> Result<Vec<CommitId>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT b.head_commit FROM prompt_batches b JOIN sessions s ON s.id = b.session
         WHERE s.project = ?1 AND b.head_commit IS NOT NULL GROUP BY b.head_commit ORDER BY max(b.id) DESC LIMIT ?2",
    )?;
    let rows = statement.query_map(params![project.0, most], |row| row.get(0).map(CommitId))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The project of these identities, if it was seen before. Changes nothing.
///
/// # Errors
/// When the database refuses.
pub fn find_project(db: &Connection, identities: &[ProjectKey]) -> Result<Option<ProjectInfo>, StoreError> {
    lookup(db, identities)?.map(|row| project(db, row)).transpose()
}

/// # Errors
/// When there is no such project or the database refuses.
pub fn project(db: &Connection, row: ProjectRow) -> Result<ProjectInfo, StoreError> {
    let mut statement = db.prepare_cached("SELECT key, name FROM projects WHERE id = ?1")?;
    Ok(statement.query_row([row.0], |found| {
        Ok(ProjectInfo { row, key: ProjectKey(found.get(0)?), name: found.get(1)? })
    })?)
}

/// The project of a session. `None` if the store does not know the session yet.
///
/// # Errors
/// When the database refuses.
pub fn project_of(db: &Connection, session: &SessionKey) -> Result<Option<ProjectInfo>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT p.id, p.key, p.name FROM sessions s JOIN projects p ON p.id = s.project
         WHERE s.agent = ?1 AND s.session_id = ?2",
    )?;
    let found = statement.query_row([session.agent.as_str(), session.id.as_str()], |row| {
        Ok(ProjectInfo { row: ProjectRow(row.get(0)?), key: ProjectKey(row.get(1)?), name: row.get(2)? })
    });
    Ok(found.optional()?)
}

/// The projects that people mean by a name: those of that identity or display name.
///
/// # Errors
/// When the database refuses.
pub fn projects_named(db: &Connection, name: &str) -> Result<Vec<ProjectInfo>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT id, key, name FROM projects
         WHERE name = ?1 OR id IN (SELECT project FROM project_aliases WHERE alias = ?1) ORDER BY id",
    )?;
    let rows = statement.query_map([name], |row| {
        Ok(ProjectInfo { row: ProjectRow(row.get(0)?), key: ProjectKey(row.get(1)?), name: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The folder where a project was last worked on, as far as sessions told.
///
/// # Errors
/// When the database refuses.
pub fn latest_root(db: &Connection, project: ProjectRow) -> Result<Option<String>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT root FROM sessions WHERE project = ?1 AND root IS NOT NULL ORDER BY last_event_at DESC LIMIT 1",
    )?;
    Ok(statement.query_row([project.0], |row| row.get(0)).optional()?)
}

/// The project that the latest session in this very folder was of, as far as sessions told.
///
/// # Errors
/// When the database refuses.
pub fn project_worked_in(db: &Connection, folder: &str) -> Result<Option<ProjectInfo>, StoreError> {
    let mut statement =
        db.prepare_cached("SELECT project FROM sessions WHERE root = ?1 ORDER BY id DESC LIMIT 1")?;
    let found = statement.query_row([folder], |row| row.get(0).map(ProjectRow)).optional()?;
    found.map(|row| project(db, row)).transpose()
}
