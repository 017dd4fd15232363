//! Determines whether a file of a work tree was written after a given moment: by an agent, by a person, or by git when
//! it checked out another commit. Content is read only where the caller looks for known lines.

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::find;
use super::git_folder::GitFolder;
use super::refs::WorkLocation;
use recall_domain::ids::Timestamp;

/// A file written within this time after the work tree was created was written by the checkout.
const CHECKING_OUT: Duration = Duration::from_secs(600);
/// The time of a statement may be slightly before the end of the work that it describes.
const GRACE_MS: u128 = 60_000;
/// A larger file is not read.
const LONGEST: u64 = 256 * 1024;

/// The files that an agent works on.
#[derive(Clone, Debug)]
pub struct WorkTree {
    folder: PathBuf,
    /// When git created it, if known.
    made: Option<SystemTime>,
}

impl WorkTree {
    /// The work tree of the current folder if it belongs to the project, else the project's. `None` if it is unknown.
    pub fn of(place: &WorkLocation) -> Option<Self> {
        let found = |folder: &Option<String>| {
            let folder = std::fs::canonicalize(folder.as_deref()?).ok()?;
            find(&folder, &mut |_| {})
        };
        let (cwd, root) = (found(&place.cwd), found(&place.root));
        let is_same =
            |a: &(PathBuf, GitFolder), b: &(PathBuf, GitFolder)| a.1.common().path() == b.1.common().path();
        match (cwd, root) {
            (Some(here), Some(home)) if is_same(&here, &home) => Some(Self::in_repository(here)),
            (_, Some(home)) => Some(Self::in_repository(home)),
            (Some(here), None) if place.root.is_none() => Some(Self::in_repository(here)),
            _ => {
                let folder = std::fs::canonicalize(place.root.as_deref()?).ok()?;
                Some(Self { folder, made: None })
            }
        }
    }

    fn in_repository((folder, git_dir): (PathBuf, GitFolder)) -> Self {
        // `gitdir` exists in a linked work tree. Git never rewrites either file.
        let files = ["gitdir", "description"].into_iter();
        let made = files.filter_map(|name| git_dir.open_file(name).ok()).next();
        Self { folder, made: made.and_then(|file| file.metadata().ok()?.modified().ok()) }
    }

    /// The folder, if it belongs to a git repository.
    pub fn of_repository(&self) -> Option<&Path> {
        std::fs::symlink_metadata(self.folder.join(".git")).is_ok().then_some(&*self.folder)
    }

    /// Whether this file exists and was written after `at`. The path is relative to the work tree, or an absolute one
    /// inside it.
    pub fn has_changed_since(&self, path: &str, at: Timestamp) -> bool {
        let Some(metadata) = self.file(path).and_then(|file| std::fs::symlink_metadata(file).ok()) else {
            return false;
        };
        let Some(written) = metadata.is_file().then(|| metadata.modified().ok()).flatten() else {
            return false;
        };
        if self.made.is_some_and(|made| written < made + CHECKING_OUT) {
            return false;
        }
        let written = written.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        written > u128::try_from(at.0).unwrap_or(0) + GRACE_MS
    }

    /// The path relative to the work tree. `None` if it is outside.
    pub fn relative<'p>(&self, path: &'p str) -> Option<&'p str> {
        let path = Path::new(path);
        let path = path.strip_prefix(&self.folder).unwrap_or(path);
        let is_within =
            path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        path.to_str().filter(|path| is_within && !path.is_empty())
    }

    fn file(&self, path: &str) -> Option<PathBuf> {
        Some(self.folder.join(self.relative(path)?))
    }

    /// The text of a regular file of at most 256 KiB.
    pub fn read(&self, path: &str) -> Option<String> {
        let file = self.file(path)?;
        let metadata = std::fs::symlink_metadata(&file).ok()?;
        (metadata.is_file() && metadata.len() <= LONGEST)
            .then(|| std::fs::read_to_string(file).ok())
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn write(path: &Path, seconds: u64) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(path).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn files_written_later_have_changed_and_checked_out_files_have_not() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let place = || WorkLocation { cwd: None, root: Some(root.to_string_lossy().into_owned()) };
        write(&root.join("src/a.rs"), 5_000);
        let at = |seconds: i64| Timestamp(seconds * 1000);
        let tree = WorkTree::of(&place()).unwrap();
        let absolute = root.join("src/a.rs").to_string_lossy().into_owned();
        assert!(
            tree.has_changed_since("src/a.rs", at(4_000)) && tree.has_changed_since(&absolute, at(4_000))
        );
        for (path, then) in [
            ("src/a.rs", 5_000),
            ("src/a.rs", 4_990),
            ("src/b.rs", 1),
            ("src", 1),
            ("", 1),
            ("../src/a.rs", 1),
            ("/etc/hostname", 1),
        ] {
            assert!(!tree.has_changed_since(path, at(then)), "{path} {then}");
        }
        // A clone: all files are new, but none has changed.
        for name in ["HEAD", "objects/x", "refs/x"] {
            write(&root.join(".git").join(name), 4_900);
        }
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/main").unwrap();
        write(&root.join(".git/description"), 4_900);
        write(&root.join("src/later.rs"), 9_000);
        let tree = WorkTree::of(&place()).unwrap();
        assert!(!tree.has_changed_since("src/a.rs", at(4_000)));
        assert!(tree.has_changed_since("src/later.rs", at(4_000)));
        assert!(WorkTree::of(&WorkLocation::default()).is_none());
    }
}
