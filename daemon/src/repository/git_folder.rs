//! A git folder, and what lies beneath it. Whoever packed it may have put anything there, so everything is opened step
//! by step from the folder itself, and a symlink leads nowhere: git makes none there. What other users may have
//! written is not read either.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Ignored, MOST_BYTES, objects};
use crate::memory::ids::CommitId;
use crate::trusted_file::{Folder, Refused};

/// Each is looked up in every pack.
const MOST_LOOKED_FOR: usize = 100;

/// Two are equal where they are the same folder.
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
    /// When there is none that counts.
    pub(super) fn open(path: PathBuf) -> Result<Self, Refused> {
        Ok(Self { folder: Folder::open(&path)?, path })
    }

    /// A git folder that was known before, if it is still there.
    pub fn known(path: &Path) -> Option<Self> {
        Self::open(path.to_owned()).ok().filter(Self::is_one)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_one(&self) -> bool {
        self.open_file("HEAD").is_ok()
    }

    /// Whether it is one without a `.git` around it: a repository without a work tree looks so, and so does what
    /// anybody has committed into a work tree.
    pub(super) fn is_bare(&self) -> bool {
        self.is_one() && self.open_file("config").is_ok() && self.is_folder("objects")
    }

    pub(super) fn is_folder(&self, name: &str) -> bool {
        self.folder.folder(Path::new(name)).is_ok()
    }

    /// # Errors
    /// When there is no file of this name that counts.
    pub(super) fn open_file(&self, name: &str) -> Result<File, Refused> {
        self.folder.file(Path::new(name))
    }

    /// The text of a small file, the beginning of a larger one.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        let mut bytes = Vec::new();
        self.open_file(name).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn names(&self, folder: &str) -> Vec<OsString> {
        let found = self.folder.folder(Path::new(folder)).ok();
        found.into_iter().flat_map(|folder| folder.names().collect::<Vec<_>>()).collect()
    }

    /// Those of some files and folders that are there and do not count.
    pub(super) fn refused(&self, files: &[&str], folders: &[&str]) -> Vec<Ignored> {
        let files = files.iter().map(|name| (name, self.open_file(name).err()));
        let folders = folders.iter().map(|name| (name, self.folder.folder(Path::new(name)).err()));
        let refused = files.chain(folders).filter_map(|(name, why)| Some((name, why?)));
        let there = refused.filter(|(_, why)| !why.is_absence());
        there.map(|(name, why)| Ignored { path: self.path.join(name), why }).collect()
    }

    /// Whether a commit lies among its own objects. Names prove nothing, and what it borrows from elsewhere is not its
    /// own: it may say that it borrows from anywhere.
    pub fn holds(&self, commit: &CommitId) -> bool {
        let found = self.folder.folder(Path::new("objects"));
        found.is_ok_and(|objects| objects::holds(&objects, commit))
    }

    /// Those of some commits that it holds; of many only so many are looked for, those first that it has a name for.
    pub fn held(&self, known: &[CommitId], names: &[CommitId]) -> impl Iterator<Item = CommitId> {
        let names: HashSet<&CommitId> = names.iter().collect();
        let (named, others): (Vec<_>, Vec<_>) = known.iter().partition(|commit| names.contains(commit));
        let looked_for = named.into_iter().chain(others).take(MOST_LOOKED_FOR).cloned();
        let looked_for: Vec<CommitId> = looked_for.collect();
        looked_for.into_iter().filter(|commit| self.holds(commit))
    }

    /// The folder that all worktrees of a repository share. Only what lies among its worktrees can be one.
    pub(super) fn common(&self) -> Self {
        let shared = self.read("commondir").map(|relative| self.path.join(relative.trim()));
        let shared = shared.and_then(|path| fs::canonicalize(path).ok());
        shared
            .filter(|shared| self.path.parent() == Some(&shared.join("worktrees")))
            .and_then(|shared| Self::open(shared).ok())
            .unwrap_or_else(|| self.clone())
    }
}
