//! The identity of a folder: which project it belongs to, and which of its claims are proven.

use std::path::Path;

use rusqlite::Connection;

use crate::memory::ids::{ProjectKey, ProjectRow};
use crate::memory::project::{Known, RepositoryFacts, display_name, identities, may_join, normalise_remote};
use crate::repository;
use crate::repository::git_folder::GitFolder;
use crate::repository::refs::Refs;
use crate::store::{self, ProjectInfo, StoreError};

/// How many of a project's latest commits are looked for.
const COMMITS: u32 = 50;
/// How many folders of a project are examined. Each is a clone.
const MOST_CLONES: usize = 8;

/// The project of a folder, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Strongest first; at least one.
    pub keys: Vec<ProjectKey>,
    pub name: String,
    /// A claim that is not proven; `None` if all are.
    pub doubted: Option<UnprovenClaim>,
}

/// A project that a folder names as its own without having a commit of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprovenClaim {
    pub project: ProjectInfo,
    /// The remote that its `.git/config` names, without credentials.
    pub remote: String,
}

/// The identity of a folder. A folder may name another project's remote or a local repository. Without a commit of that
/// project it is a project of its own, with a name that tells the two apart. Reads files: for threads that may block.
pub fn identify(db: &Connection, facts: &RepositoryFacts) -> Result<Identity, StoreError> {
    if let Some(project) = project_of_gone(db, facts)? {
        return Ok(Identity { keys: vec![project.key], name: project.name, doubted: None });
    }
    let (mut keys, mut name, mut doubted) = (identities(facts), display_name(facts), None);
    let doubt = |project: ProjectRow| -> Result<Option<UnprovenClaim>, StoreError> {
        let remote = facts.remote.as_deref().and_then(normalise_remote).unwrap_or_default();
        Ok(Some(UnprovenClaim { project: store::project(db, project)?, remote }))
    };
    if let Some(origin) = &facts.origin {
        if let Some(identity) = as_clone(db, facts, origin)? {
            return Ok(identity);
        }
        name = distinct(&name, facts);
        let known = store::find_project(db, &identify(db, origin)?.keys)?;
        doubted = known.map(|project| doubt(project.row)).transpose()?.flatten();
    }
    if let Some(remote) = keys.first().filter(|key| key.as_str().starts_with("git:"))
        && let Some(project) = store::known_project(db, remote)?
        && !may_join(&keys, &project, || has_a_commit(db, facts, &project))?
    {
        keys.remove(0);
        name = distinct(&display_name(facts), facts);
        doubted = doubt(project.project)?;
    }
    Ok(Identity { keys, name, doubted })
}

/// The project of a folder that no longer exists. A worktree is removed when its work is merged, and its events in the
/// spool still belong to the repository. The folder does not become an identity of the project, because another folder
/// may replace it.
fn project_of_gone(db: &Connection, facts: &RepositoryFacts) -> Result<Option<ProjectInfo>, StoreError> {
    if facts.common_dir.is_some() {
        return Ok(None);
    }
    for folder in Path::new(&facts.folder).ancestors().take_while(|folder| !folder.exists()) {
        let found = store::project_worked_in(db, &folder.to_string_lossy())?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// A clone of a local repository belongs to that repository's project, and keeps it by its own folder, even if the
/// origin moves on and the clone is never updated.
fn as_clone(
    db: &Connection,
    facts: &RepositoryFacts,
    origin: &RepositoryFacts,
) -> Result<Option<Identity>, StoreError> {
    let Identity { mut keys, name, .. } = identify(db, origin)?;
    let own = identities(facts).pop();
    let known = keys.first().map(|key| store::known_project(db, key)).transpose()?.flatten();
    let was_known = known.zip(own.as_ref()).is_some_and(|(project, own)| project.aliases.contains(own));
    let has_a_commit = || {
        git_folder(facts).zip(git_folder(origin)).is_some_and(|(own, origin)| share_a_commit(&own, &origin))
    };
    if !was_known && !has_a_commit() {
        return Ok(None);
    }
    keys.extend(own);
    Ok(Some(Identity { keys, name, doubted: None }))
}

/// A name that distinguishes folders of the same name.
fn distinct(name: &str, facts: &RepositoryFacts) -> String {
    let parent = Path::new(&facts.folder).parent().map(Path::to_string_lossy).unwrap_or_default();
    format!("{name} in {parent}")
}

/// The project of a folder, if it is known.
pub fn project_of(db: &Connection, folder: &Path) -> Result<Option<ProjectInfo>, StoreError> {
    store::find_project(db, &identify(db, &repository::facts(folder))?.keys)
}

/// Whether the folder has a commit that was worked on in the project, or that one of the project's folders has.
fn has_a_commit(db: &Connection, facts: &RepositoryFacts, project: &Known) -> Result<bool, StoreError> {
    let Some(own) = git_folder(facts) else { return Ok(false) };
    let known = store::commits_of_project(db, project.project, COMMITS)?;
    if own.held(&known, &[]).next().is_some() {
        return Ok(true);
    }
    let folders = project.aliases.iter().filter_map(|alias| alias.as_str().strip_prefix("dir:"));
    let folders = folders.take(MOST_CLONES).filter_map(|folder| GitFolder::known(Path::new(folder)));
    Ok(folders.into_iter().any(|other| share_a_commit(&own, &other)))
}

fn git_folder(facts: &RepositoryFacts) -> Option<GitFolder> {
    GitFolder::known(Path::new(facts.common_dir.as_deref()?))
}

/// Whether two repositories share a commit that the other one has a name for. Either repository may make a false claim.
/// A repository that has only names shares nothing, whichever was known first.
fn share_a_commit(own: &GitFolder, other: &GitFolder) -> bool {
    let names = |folder: &GitFolder| Refs::of_git_dir(folder).named_commits();
    own.held(&names(other), &names(own)).any(|commit| other.holds(&commit))
}
