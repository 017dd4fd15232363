//! Counts events that could be stored nowhere, and reports them to the next client.
//!
//! A count is a file's length, so that many processes can add to it at once, and a nearly full disk still takes a
//! byte. The file lies beside the spool or, if that cannot be written, in another folder of ours. A second file
//! `….told` has the count that was already reported.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;

use crate::folder::{self, FolderError};
use crate::paths::Paths;

/// The counters of one user's spool.
#[derive(Clone, Debug)]
pub struct Losses {
    counters: Vec<Counter>,
}

/// A file that counts losses.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    /// All must be ours alone, from the outermost to the file's own folder.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) file: String,
}

/// How many events were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub events: u64,
    /// Those that were not reported yet.
    pub news: u64,
    pub last: Option<SystemTime>,
}

impl Losses {
    pub fn new(paths: &Paths) -> Self {
        Self { counters: paths.loss_counters() }
    }

    /// Counts one more event. Best effort: there may be no space for a byte.
    pub fn count(&self) {
        let _ = self.counters.iter().any(|counter| counter.count().is_ok());
    }

    pub fn lost(&self) -> Lost {
        let mut lost = Lost::default();
        for counter in &self.counters {
            let Ok(found) = fs::symlink_metadata(counter.path()) else { continue };
            if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
                continue;
            }
            let told = fs::symlink_metadata(counter.told()).map_or(0, |told| told.len());
            lost.events = lost.events.saturating_add(found.len());
            lost.news = lost.news.saturating_add(found.len().saturating_sub(told));
            lost.last = lost.last.max(found.modified().ok().filter(|_| found.len() > 0));
        }
        lost
    }

    /// Marks all losses as reported. Best effort: otherwise they are reported again.
    pub fn told(&self) {
        for counter in &self.counters {
            let Ok(found) = fs::symlink_metadata(counter.path()) else { continue };
            if found.is_file() && counter.secure().is_ok() {
                let _ = append(&counter.told()).and_then(|told| told.set_len(found.len()));
            }
        }
    }
}

impl Counter {
    fn path(&self) -> PathBuf {
        self.folders.last().map_or_else(PathBuf::new, |folder| folder.join(&self.file))
    }

    fn told(&self) -> PathBuf {
        self.path().with_extension("told")
    }

    fn count(&self) -> io::Result<()> {
        self.secure().map_err(io::Error::other)?;
        append(&self.path())?.write_all(b".")
    }

    fn secure(&self) -> Result<(), FolderError> {
        self.folders.iter().try_for_each(|folder| folder::secure(folder))
    }
}

/// Opens a file for appending. A pipe in its place must not block.
pub(crate) fn append(path: &Path) -> io::Result<fs::File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A home, a runtime folder and recall's own home in it.
    fn places(dir: &Path) -> Paths {
        let (home, runtime) = (dir.join("user"), dir.join("run"));
        for folder in [&home, &runtime] {
            folder::create_private(folder).expect("made");
        }
        Paths::from_variables(&|name| match name {
            "HOME" => Some(home.clone().into()),
            "XDG_RUNTIME_DIR" => Some(runtime.clone().into()),
            "RECALL_HOME" => Some(dir.join("recall").into()),
            _ => None,
        })
        .expect("paths")
    }

    #[test]
    fn a_loss_is_news_until_somebody_was_told() {
        let dir = tempfile::tempdir().expect("temp dir");
        let losses = Losses::new(&places(dir.path()));
        assert_eq!(losses.lost(), Lost::default());
        losses.told();
        losses.count();
        losses.count();
        let lost = losses.lost();
        assert_eq!((lost.events, lost.news, lost.last.is_some()), (2, 2, true));
        losses.told();
        losses.count();
        assert_eq!((losses.lost().events, losses.lost().news), (3, 1));
        assert_eq!(fs::metadata(dir.path().join("recall/state/spool/dropped")).expect("there").len(), 3);
    }

    #[test]
    fn where_the_home_cannot_be_made_it_is_counted_in_another_folder_of_ours() {
        let dir = tempfile::tempdir().expect("temp dir");
        let paths = places(dir.path());
        fs::write(dir.path().join("recall"), "in the way").expect("write");
        let losses = Losses::new(&paths);
        losses.count();
        assert_eq!(losses.lost().events, 1);
        let mut kept = fs::read_dir(dir.path().join("run/recall")).expect("lists");
        let name = kept.next().expect("one").expect("reads").file_name();
        assert!(name.to_string_lossy().starts_with("dropped-"), "{name:?}");

        // If that fails too, the usual place of the user's own memory is left.
        fs::remove_dir_all(dir.path().join("run")).expect("remove");
        fs::write(dir.path().join("run"), "in the way").expect("write");
        losses.count();
        assert_eq!(losses.lost().events, 1, "the first is gone with its folder");
        assert!(fs::read_dir(dir.path().join("user/.local/state/recall")).expect("lists").next().is_some());
    }

    #[test]
    fn another_users_folder_is_no_place_to_count_in() {
        let dir = tempfile::tempdir().expect("temp dir");
        let paths = places(dir.path());
        paths.create_state_folder().expect("made");
        let spool = dir.path().join("recall/state/spool");
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("mkdir");
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o777)).expect("chmod");
        std::os::unix::fs::symlink(&elsewhere, &spool).expect("symlink");
        let losses = Losses::new(&paths);
        losses.count();
        assert_eq!(fs::read_dir(&elsewhere).expect("lists").count(), 0);
        assert_eq!(losses.lost().events, 1);
    }
}
