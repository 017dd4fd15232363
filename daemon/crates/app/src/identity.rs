//! Identifies a folder: which project it belongs to, and which of its claims are proven.
//!
//! A remote, a first commit or a path only claims a project. A folder belongs to it if the folder was known before, or
//! if it contains a commit of the project that other repositories do not begin with.

use std::path::Path;

use recall_domain::ids::{CommitId, ProjectKey, ProjectRow};
use recall_domain::project::{
    Belonging, Kind, Known, RepositoryFacts, belonging, candidates, claims, display_name, normalise_remote,
};
use recall_repository::git_folder::GitFolder;
use recall_repository::refs::Refs;
use recall_store::{ProjectInfo, Reader, StoreError};

/// The number of a project's latest commits that are searched for.
const COMMITS: u32 = 50;
/// The number of a project's folders that are examined. Each is a clone.
const MOST_CLONES: usize = 8;

/// The identities of a folder's project, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Strongest first; never empty.
    pub keys: Vec<ProjectKey>,
    pub name: String,
    /// An unproven claim; `None` if all are proven.
    pub doubted: Option<UnprovenClaim>,
    /// The project known at this path before, if a new project is there now.
    pub replaced: Option<ProjectInfo>,
}

/// A project that a folder claims without having one of its commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprovenClaim {
    pub project: ProjectInfo,
    /// The remote that its `.git/config` names, without credentials.
    pub remote: String,
}

/// Identifies a folder. A folder may claim another project's remote, first commit or path, or a local repository.
/// Without proof it is a separate project, with a distinguishing name. Reads files, so it must run on a thread that
/// may block.
pub fn identify(db: Reader<'_>, facts: &RepositoryFacts) -> Result<Identity, StoreError> {
    if let Some(ProjectInfo { key, name, .. }) = project_of_gone(db, facts)? {
        return Ok(Identity { keys: vec![key], name, doubted: None, replaced: None });
    }
    let (mut keys, mut name, mut doubted) = (claims(facts), display_name(facts), None);
    let doubt = |project: ProjectRow| -> Result<Option<UnprovenClaim>, StoreError> {
        let remote = facts.remote.as_deref().and_then(normalise_remote).unwrap_or_default();
        Ok(Some(UnprovenClaim { project: db.project(project)?, remote }))
    };
    if let Some(origin) = &facts.origin {
        if let Some(identity) = as_clone(db, facts, origin)? {
            return Ok(identity);
        }
        name = distinct(&name, facts);
        let known = db.find_project(&identify(db, origin)?.keys)?;
        doubted = known.map(|project| doubt(project.row)).transpose()?.flatten();
    }
    let mut before = None;
    for claim in candidates(facts, &keys) {
        let Some(known) = db.known_project(&claim)? else { continue };
        if belongs(db, facts, &keys, &known)? {
            if keys.first().is_none_or(|strongest| !known.aliases.contains(strongest)) {
                keys.insert(0, db.project(known.project)?.key);
            }
            return Ok(Identity { keys, name, doubted, replaced: None });
        }
        match claim.kind() {
            Kind::Remote => {
                keys.retain(|key| *key != claim);
                name = distinct(&display_name(facts), facts);
                doubted = doubt(known.project)?;
            }
            Kind::RootCommit => keys.retain(|key| *key != claim),
            Kind::GitFolder | Kind::Path => before = Some(known.project),
            Kind::Folder | Kind::Source => {}
        }
    }
    let replaced = before.map(|project| db.project(project)).transpose()?;
    if replaced.is_some() {
        name = db.free_project_name(&name)?;
    }
    Ok(Identity { keys, name, doubted, replaced })
}

/// Returns the project of a folder that no longer exists. A worktree is removed once its work is merged, and its
/// events in the spool still belong to the repository. The folder does not become an identity of the project, because
/// another folder may replace it.
fn project_of_gone(db: Reader<'_>, facts: &RepositoryFacts) -> Result<Option<ProjectInfo>, StoreError> {
    if facts.common_dir.is_some() {
        return Ok(None);
    }
    for folder in Path::new(&facts.folder).ancestors().take_while(|folder| !folder.exists()) {
        let found = db.project_worked_in(&folder.to_string_lossy())?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Assigns a clone of a local repository to that repository's project. The clone keeps it through its own folder, even
/// if the origin moves on and the clone is never updated.
fn as_clone(
    db: Reader<'_>,
    facts: &RepositoryFacts,
    origin: &RepositoryFacts,
) -> Result<Option<Identity>, StoreError> {
    let Identity { mut keys, name, .. } = identify(db, origin)?;
    let own: Vec<ProjectKey> = claims(facts)
        .into_iter()
        .filter(|claim| matches!(claim.kind(), Kind::Folder | Kind::GitFolder))
        .collect();
    let known = keys.first().map(|key| db.known_project(key)).transpose()?.flatten();
    let is_known = |own: &ProjectKey| {
        own.kind() == Kind::Folder && known.as_ref().is_some_and(|project| project.aliases.contains(own))
    };
    let was_known = own.iter().any(is_known);
    let shows_a_commit = || -> Result<bool, StoreError> {
        let Some((clone, origin)) = git_folder(facts).zip(git_folder(origin)) else { return Ok(false) };
        shows_a_commit(db, &clone, &[], &[origin])
    };
    if !was_known && !shows_a_commit()? {
        return Ok(None);
    }
    keys.extend(own);
    Ok(Some(Identity { keys, name, doubted: None, replaced: None }))
}

/// Returns a name that distinguishes folders of the same name.
fn distinct(name: &str, facts: &RepositoryFacts) -> String {
    let parent = Path::new(&facts.folder).parent().map(Path::to_string_lossy).unwrap_or_default();
    format!("{name} in {parent}")
}

/// Returns the project of a folder, if known.
pub fn project_of(db: Reader<'_>, folder: &Path) -> Result<Option<ProjectInfo>, StoreError> {
    db.find_project(&identify(db, &recall_repository::facts(folder))?.keys)
}

/// Whether the folder belongs to the project.
fn belongs(
    db: Reader<'_>,
    facts: &RepositoryFacts,
    claims: &[ProjectKey],
    project: &Known,
) -> Result<bool, StoreError> {
    match belonging(facts, claims, project) {
        Belonging::Proven => return Ok(true),
        Belonging::Denied => return Ok(false),
        Belonging::NeedsCommit => {}
    }
    let Some(own) = git_folder(facts) else { return Ok(false) };
    let worked = db.commits_of_project(project.project, COMMITS)?;
    shows_a_commit(db, &own, &worked, &folders_of(project))
}

/// Returns the git folders where the project is known to be, if they are still the same.
fn folders_of(project: &Known) -> Vec<GitFolder> {
    let paths = project.aliases.iter().filter_map(|alias| alias.as_str().strip_prefix("dir:"));
    let folders = paths.take(MOST_CLONES).filter_map(|path| GitFolder::known(Path::new(path)));
    let is_same =
        |folder: &GitFolder| folder.mark().is_some_and(|mark| project.aliases.contains(&mark.identity()));
    folders.filter(is_same).collect()
}

fn git_folder(facts: &RepositoryFacts) -> Option<GitFolder> {
    GitFolder::known(Path::new(facts.common_dir.as_deref()?))
}

/// Whether a repository contains a commit of a project: one of the latest that were checked out during work on it, or
/// one that its folders contain and have a name for. Either repository may make false claims, so a repository that has
/// only names proves nothing.
///
/// Other repositories may have begun with the same commit: the very first one, or the one cloned from a template. Such
/// a commit counts only while the project has nothing later.
fn shows_a_commit(
    db: Reader<'_>,
    own: &GitFolder,
    worked: &[CommitId],
    folders: &[GitFolder],
) -> Result<bool, StoreError> {
    let mut held: Vec<CommitId> = own.held(worked, &[]).collect();
    let mut latest: Vec<CommitId> = worked.first().cloned().into_iter().collect();
    let named = Refs::of_git_dir(own).named_commits();
    for other in folders {
        let refs = Refs::of_git_dir(other);
        held.extend(own.held(&refs.named_commits(), &named).filter(|commit| other.holds(commit)));
        latest.extend(refs.checkout().and_then(|checkout| checkout.commit));
    }
    for commit in held {
        if latest.contains(&commit) || (own.holds_later(&commit) && !db.is_source(&commit)?) {
            return Ok(true);
        }
    }
    Ok(false)
}
