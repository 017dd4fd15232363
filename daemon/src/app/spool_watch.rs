//! Tells when something falls into the spool: inotify on Linux, kqueue on macOS.
//!
//! A thousand files that fall in at once are one piece of news: the teller stays silent until it was heard. Where the
//! system has no watch to give (its limit is reached, the file system knows none) the caller looks by itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// Watches until it is dropped.
pub struct SpoolWatch {
    folder: PathBuf,
    /// Which folder is watched: one that was removed and made anew is another.
    identity: Option<(u64, u64)>,
    told: Arc<AtomicBool>,
    _watcher: RecommendedWatcher,
}

impl SpoolWatch {
    /// Calls `tell` on a thread of its own when a file has come into `folder`, and not again before
    /// [`SpoolWatch::heard`].
    ///
    /// # Errors
    /// When the system does not watch this folder.
    pub fn start(folder: &Path, tell: impl Fn() + Send + 'static) -> notify::Result<Self> {
        let told = Arc::new(AtomicBool::new(false));
        let silent = Arc::clone(&told);
        let mut watcher = notify::recommended_watcher(move |news: notify::Result<Event>| {
            // News that were lost may have been of an arrival.
            if news.as_ref().map_or(true, is_arrival) && !silent.swap(true, Ordering::AcqRel) {
                tell();
            }
        })?;
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
        Ok(Self { folder: folder.to_owned(), identity: identity(folder), told, _watcher: watcher })
    }

    /// What falls in from now on is news again. Call it before looking.
    pub fn heard(&self) {
        self.told.store(false, Ordering::Release);
    }

    /// Whether the folder that is watched is still the one that files fall into.
    pub fn is_current(&self) -> bool {
        self.identity.is_some() && self.identity == identity(&self.folder)
    }
}

/// A file was made, or renamed into the folder; kqueue only says that the folder has changed. Our own removals are
/// no news.
fn is_arrival(event: &Event) -> bool {
    event.need_rescan() || !matches!(event.kind, EventKind::Remove(_) | EventKind::Access(_))
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(folder).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    /// News come at once; without any this long is a failure.
    const SOON: Duration = Duration::from_secs(30);

    fn watched() -> (tempfile::TempDir, SpoolWatch, Receiver<()>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("new")).unwrap();
        let (tell, news) = channel();
        let watch = SpoolWatch::start(&folder.path().join("new"), move || tell.send(()).unwrap()).unwrap();
        (folder, watch, news)
    }

    fn fall_in(folder: &tempfile::TempDir, name: &str) {
        let made = folder.path().join(name);
        std::fs::write(&made, "event").unwrap();
        std::fs::rename(made, folder.path().join("new").join(name)).unwrap();
    }

    #[test]
    fn a_file_that_falls_in_is_news_once_until_it_was_heard() {
        let (folder, watch, news) = watched();
        fall_in(&folder, "a");
        news.recv_timeout(SOON).unwrap();
        fall_in(&folder, "b");
        watch.heard();
        fall_in(&folder, "c");
        news.recv_timeout(SOON).unwrap();
    }

    #[test]
    fn a_folder_that_was_made_anew_is_not_the_one_that_is_watched() {
        let (folder, watch, _news) = watched();
        assert!(watch.is_current());
        std::fs::rename(folder.path().join("new"), folder.path().join("old")).unwrap();
        assert!(!watch.is_current());
        std::fs::create_dir(folder.path().join("new")).unwrap();
        assert!(!watch.is_current());
    }
}
