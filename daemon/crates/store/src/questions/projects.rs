//! Projects, and the identities with which they were seen.

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::{Reader, StoreError};
use recall_domain::ids::{CommitId, ProjectKey, ProjectRow, SessionKey, Timestamp};
use recall_domain::project::{Kind, Known, choose};

record! {
/// A project, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectInfo from "projects p" {
    pub row: ProjectRow = "p.id",
    pub key: ProjectKey = "p.key",
    pub name: String = "p.name",
}
}

/// Finds or creates the project of these identities, and records new identities.
pub(crate) fn resolve(
    db: &Connection,
    identities: &[ProjectKey],
    name: &str,
    at: Timestamp,
) -> Result<ProjectRow, StoreError> {
    let project = match lookup(db, identities)? {
        Some(known) => known,
        None => {
            let key = free_key(db, identities)?;
            db.run(
                "INSERT INTO projects (key, name, created_at) VALUES (?1, ?2, ?3)",
                params![key, name, at.0],
            )?;
            ProjectRow(db.last_insert_rowid())
        }
    };
    for identity in identities {
        db.run(
            "INSERT OR IGNORE INTO project_aliases (alias, project) VALUES (?1, ?2)",
            params![identity.as_str(), project.0],
        )?;
    }
    Ok(project)
}

/// Like [`resolve`], for a folder that was examined. A path belongs to the project that is there now; the project that
/// was there before loses it.
pub(crate) fn resolve_folder(
    db: &Connection,
    identities: &[ProjectKey],
    name: &str,
    at: Timestamp,
) -> Result<ProjectRow, StoreError> {
    let project = resolve(db, identities, name, at)?;
    for identity in identities {
        if !matches!(identity.kind(), Kind::Folder | Kind::GitFolder | Kind::Path) {
            continue;
        }
        let before: Option<ProjectRow> = db.first(
            "SELECT project FROM project_aliases WHERE alias = ?1 AND project <> ?2",
            params![identity, project.0],
        )?;
        let Some(before) = before else { continue };
        db.run("UPDATE project_aliases SET project = ?2 WHERE alias = ?1", params![identity, project.0])?;
        // A project's key is one of its identities.
        let others: Vec<ProjectKey> =
            db.all("SELECT alias FROM project_aliases WHERE project = ?1 ORDER BY alias", params![before])?;
        let key: ProjectKey = db.one("SELECT key FROM projects WHERE id = ?1", params![before])?;
        if key == *identity {
            let key = free_key(db, &others)?;
            db.run("UPDATE projects SET key = ?2 WHERE id = ?1", params![before, key])?;
        }
    }
    Ok(project)
}

/// Returns the strongest of these identities that no other project has as its key. A path is preferred to a folder's
/// mark, because it is more meaningful to people.
fn free_key(db: &Connection, identities: &[ProjectKey]) -> Result<ProjectKey, StoreError> {
    let is_mark = |key: &&ProjectKey| matches!(key.kind(), Kind::Folder);
    let named = identities.iter().filter(|key| !matches!(key.kind(), Kind::Folder | Kind::Source));
    for key in named.chain(identities.iter().filter(is_mark)) {
        if !db.one::<bool>("SELECT EXISTS (SELECT 1 FROM projects WHERE key = ?1)", params![key])? {
            return Ok(key.clone());
        }
    }
    Ok(ProjectKey(format!("unknown-{}", db.one::<i64>("SELECT ifnull(max(id), 0) + 1 FROM projects", [])?)))
}

impl Reader<'_> {
    /// Returns this name, with a number appended if another project has it.
    pub fn free_project_name(self, name: &str) -> Result<String, StoreError> {
        let numbered = (2..).map(|number| format!("{name} ({number})"));
        for name in std::iter::once(name.to_owned()).chain(numbered) {
            let sql = "SELECT EXISTS (SELECT 1 FROM projects WHERE name = ?1 COLLATE NOCASE)";
            if !self.0.one::<bool>(sql, [&name])? {
                return Ok(name);
            }
        }
        Ok(name.to_owned())
    }

    /// Whether a project began as a clone of another repository with this commit.
    pub fn is_source(self, commit: &CommitId) -> Result<bool, StoreError> {
        let alias = format!("from:{commit}");
        self.0.one("SELECT EXISTS (SELECT 1 FROM project_aliases WHERE alias = ?1)", [alias])
    }

    /// Returns the project that was seen with an identity.
    pub fn known_project(self, identity: &ProjectKey) -> Result<Option<Known>, StoreError> {
        let db = self.0;
        let project: Option<ProjectRow> =
            db.first("SELECT project FROM project_aliases WHERE alias = ?1", params![identity])?;
        let aliases =
            |project| db.all("SELECT alias FROM project_aliases WHERE project = ?1", params![project]);
        project.map(|project| Ok(Known { project, aliases: aliases(project)? })).transpose()
    }

    /// Returns commits that were checked out during work on a project: those of its latest batches, at most `most`. An
    /// imported session has no folder here and proves nothing.
    pub fn commits_of_project(self, project: ProjectRow, most: u32) -> Result<Vec<CommitId>, StoreError> {
        self.0.all(
        "SELECT b.head_commit FROM prompt_batches b JOIN sessions s ON s.id = b.session
         WHERE s.project = ?1 AND b.head_commit IS NOT NULL AND s.root IS NOT NULL GROUP BY b.head_commit ORDER BY max(b.id) DESC LIMIT ?2",
        params![project, most],
    )
    }

    /// Returns the project with these identities, if it was seen before. Changes nothing.
    pub fn find_project(self, identities: &[ProjectKey]) -> Result<Option<ProjectInfo>, StoreError> {
        lookup(self.0, identities)?.map(|row| self.project(row)).transpose()
    }

    /// # Errors
    /// Fails when there is no such project or the database refuses.
    pub fn project(self, row: ProjectRow) -> Result<ProjectInfo, StoreError> {
        self.0.one(&format!("{} WHERE p.id = ?1", ProjectInfo::SELECT), params![row])
    }

    /// Returns the project of a session. `None` if the store does not know the session yet.
    pub fn project_of(self, session: &SessionKey) -> Result<Option<ProjectInfo>, StoreError> {
        let sql = format!(
            "{} JOIN sessions s ON s.project = p.id WHERE s.agent = ?1 AND s.session_id = ?2",
            ProjectInfo::SELECT
        );
        self.0.first(&sql, params![session.agent, session.id])
    }

    /// The projects with this identity or display name.
    pub fn projects_named(self, name: &str) -> Result<Vec<ProjectInfo>, StoreError> {
        let sql = format!(
            "{} WHERE p.name = ?1 OR p.id IN (SELECT project FROM project_aliases WHERE alias = ?1) ORDER
                 BY p.id",
            ProjectInfo::SELECT
        );
        self.0.all(&sql, [name])
    }

    /// Returns the folder where a project was last worked on, if a session reported it.
    pub fn latest_root(self, project: ProjectRow) -> Result<Option<String>, StoreError> {
        self.0.first(
            "SELECT root FROM sessions WHERE project = ?1 AND root IS NOT NULL
         ORDER BY last_event_at DESC, id DESC LIMIT 1",
            [project.0],
        )
    }

    /// Returns the project of the latest session in exactly this folder, if a session reported it.
    pub fn project_worked_in(self, folder: &str) -> Result<Option<ProjectInfo>, StoreError> {
        let found = self.0.first::<ProjectRow>(
            "SELECT project FROM sessions WHERE root = ?1 ORDER BY id DESC LIMIT 1",
            [folder],
        )?;
        found.map(|row| self.project(row)).transpose()
    }
}

/// Changes a project's display name, unless another project has that name: a request for that project must not find
/// this one.
pub(crate) fn rename(db: &Connection, project: ProjectRow, name: &str) -> Result<(), StoreError> {
    db.run(
        "UPDATE projects SET name = ?2 WHERE id = ?1
            AND NOT EXISTS (SELECT 1 FROM projects WHERE id <> ?1 AND name = ?2 COLLATE NOCASE)
            AND NOT EXISTS (SELECT 1 FROM project_aliases WHERE project <> ?1 AND alias = ?2)",
        params![project.0, name],
    )
}

fn lookup(db: &Connection, identities: &[ProjectKey]) -> Result<Option<ProjectRow>, StoreError> {
    let mut known = Vec::new();
    for identity in identities {
        known.extend(Reader(db).known_project(identity)?);
    }
    Ok(choose(identities, &known))
}
