//! Safe access to a git folder. The folder's author controls its content. So everything is opened step by step from
//! the folder itself, without following symlinks, because git creates none there. Files that other users can write are
//! not read either.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Ignored, MOST_BYTES, mark, objects};
use recall_domain::ids::CommitId;
use recall_domain::project::FolderMark;
use recall_system::trusted_file::{Folder, Refused};

/// The maximum number of commits to look up. Each is searched for in every pack.
const MOST_LOOKED_FOR: usize = 100;

/// A git folder. Two are equal if they are the same folder on disk.
#[derive(Clone, Debug)]
pub struct GitFolder {
    path: PathBuf,
    folder: Folder,
}

impl PartialEq for GitFolder {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for GitFolder {}

impl GitFolder {
    /// # Errors
    /// There is no such folder, or it is not trusted.
    pub(super) fn open(path: PathBuf) -> Result<Self, Refused> {
        Ok(Self { folder: Folder::open(&path)?, path })
    }

    /// Opens a previously known git folder, if it still exists.
    pub fn known(path: &Path) -> Option<Self> {
        Self::open(path.to_owned()).ok().filter(Self::is_one)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A mark that distinguishes it from any other git folder at its path. If the file system does not record when a
    /// folder was created, git's `description` file is used, because git never rewrites it.
    pub fn mark(&self) -> Option<FolderMark> {
        let found = self.folder.metadata().ok()?;
        let described = || self.open_file("description").ok()?.metadata().ok()?.modified().ok();
        mark(&found, found.created().ok().or_else(described)?)
    }

    pub(super) fn is_one(&self) -> bool {
        self.open_file("HEAD").is_ok()
    }

    /// Whether it is a bare repository, without a surrounding work tree. Anybody can commit such a folder into a work
    /// tree.
    pub(super) fn is_bare(&self) -> bool {
        self.is_one() && self.open_file("config").is_ok() && self.is_folder("objects")
    }

    pub(super) fn is_folder(&self, name: &str) -> bool {
        self.folder.folder(Path::new(name)).is_ok()
    }

    /// # Errors
    /// There is no such file, or it is not trusted.
    pub(super) fn open_file(&self, name: &str) -> Result<File, Refused> {
        self.folder.file(Path::new(name))
    }

    /// The text of a file, at most its first [`MOST_BYTES`].
    pub(super) fn read(&self, name: &str) -> Option<String> {
        let mut bytes = Vec::new();
        self.open_file(name).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn names(&self, folder: &str) -> Vec<OsString> {
        let found = self.folder.folder(Path::new(folder)).ok();
        found.into_iter().flat_map(|folder| folder.names().collect::<Vec<_>>()).collect()
    }

    /// Returns those of these files and folders that exist but are not trusted.
    pub(super) fn refused(&self, files: &[&str], folders: &[&str]) -> Vec<Ignored> {
        let files = files.iter().map(|name| (name, self.open_file(name).err()));
        let folders = folders.iter().map(|name| (name, self.folder.folder(Path::new(name)).err()));
        let refused = files.chain(folders).filter_map(|(name, why)| Some((name, why?)));
        let there = refused.filter(|(_, why)| !why.is_absence());
        there.map(|(name, why)| Ignored { path: self.path.join(name), why }).collect()
    }

    /// Whether the repository's own objects contain the commit, and it has a parent. A commit without a parent proves
    /// less, because many repositories may begin with the same one.
    pub fn holds_later(&self, commit: &CommitId) -> bool {
        let found = self.folder.folder(Path::new("objects"));
        found.is_ok_and(|objects| objects::holds_later(&objects, commit))
    }

    /// Whether the repository's own objects contain the commit. Refs prove nothing, and borrowed objects do not count,
    /// because a repository can claim to borrow from anywhere.
    pub fn holds(&self, commit: &CommitId) -> bool {
        let found = self.folder.folder(Path::new("objects"));
        found.is_ok_and(|objects| objects::holds(&objects, commit))
    }

    /// Returns those of the commits that it contains. Only the first [`MOST_LOOKED_FOR`] are looked up, beginning with
    /// those in `names`.
    pub fn held(&self, known: &[CommitId], names: &[CommitId]) -> impl Iterator<Item = CommitId> {
        let names: HashSet<&CommitId> = names.iter().collect();
        let (named, others): (Vec<_>, Vec<_>) = known.iter().partition(|commit| names.contains(commit));
        let looked_for = named.into_iter().chain(others).take(MOST_LOOKED_FOR).cloned();
        let looked_for: Vec<CommitId> = looked_for.collect();
        looked_for.into_iter().filter(|commit| self.holds(commit))
    }

    /// The folder that all worktrees of a repository share. It must list this folder among its worktrees.
    pub(super) fn common(&self) -> Self {
        let shared = self.read("commondir").map(|relative| self.path.join(relative.trim()));
        let shared = shared.and_then(|path| fs::canonicalize(path).ok());
        shared
            .filter(|shared| self.path.parent() == Some(&shared.join("worktrees")))
            .and_then(|shared| Self::open(shared).ok())
            .unwrap_or_else(|| self.clone())
    }
}
