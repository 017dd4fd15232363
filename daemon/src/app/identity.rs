//! Which project a folder is of: what it says of itself, as far as it can be believed.

use std::path::Path;

use rusqlite::Connection;

use crate::memory::ids::{ProjectKey, ProjectRow};
use crate::memory::project::{Known, RepositoryFacts, display_name, identities, may_join, normalise_remote};
use crate::repository;
use crate::repository::git_folder::GitFolder;
use crate::repository::refs::Refs;
use crate::store::{self, ProjectInfo, StoreError};

/// Of a project's commits the latest so many are looked for.
const COMMITS: u32 = 50;
/// Folders of a project that are looked into; each is a clone.
const MOST_CLONES: usize = 8;

/// What makes a folder one project with others, and how that is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Strongest first; at least one.
    pub keys: Vec<ProjectKey>,
    pub name: String,
    /// What it says of itself and is not believed in; `None` where all is.
    pub doubted: Option<UnprovenClaim>,
}

/// A project that a folder names as its own without showing a commit of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprovenClaim {
    pub project: ProjectInfo,
    /// What its `.git/config` names, without credentials.
    pub remote: String,
}

/// Who a folder is. One that names another project's remote, or a repository on this disk, and cannot show a commit of
/// it is a project of its own, and is called so that nobody takes it for the other. Reads files: for threads that may
/// block.
///
/// # Errors
/// When the database refuses.
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

/// The project of a folder that was worked in and is no more: a worktree goes when its work is merged, and what waited
/// in the spool is still its repository's. The folder is no identity of that project's: another may come in its place.
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

/// A clone of a repository on this disk is that one's project, and known by its own folder from then on: the origin may
/// go on while nobody fetches.
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

/// A name that tells a folder from others of the same name.
fn distinct(name: &str, facts: &RepositoryFacts) -> String {
    let parent = Path::new(&facts.folder).parent().map(Path::to_string_lossy).unwrap_or_default();
    format!("{name} in {parent}")
}

/// The project of a folder, if it was seen before.
///
/// # Errors
/// When the database refuses.
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

/// Whether two repositories both have a commit that the other one has a name for. Either of them may be the one that
/// lies: who has only names shares nothing, whichever was known first.
fn share_a_commit(own: &GitFolder, other: &GitFolder) -> bool {
    let names = |folder: &GitFolder| Refs::of_git_dir(folder).named_commits();
    own.held(&names(other), &names(own)).any(|commit| other.holds(&commit))
}
