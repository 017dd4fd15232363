//! Reports new files in the spool: inotify on Linux, kqueue on macOS.
//!
//! A thousand new files cause a single report; the next one requires [`SpoolWatch::rearm`]. If the system cannot watch
//! the folder (its limit is reached, or the file system does not support it), the caller polls.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// A watch that ends when it is dropped.
pub struct SpoolWatch {
    folder: PathBuf,
    /// The identity of the watched folder, which differs if the folder is removed and created again.
    identity: Option<(u64, u64)>,
    reported: Arc<AtomicBool>,
    _watcher: RecommendedWatcher,
}

impl SpoolWatch {
    /// Calls `on_arrival` on its own thread when a file appears in `folder`, and not again before
    /// [`SpoolWatch::rearm`]. Fails if the system cannot watch this folder.
    pub fn start(folder: &Path, on_arrival: impl Fn() + Send + 'static) -> notify::Result<Self> {
        let reported = Arc::new(AtomicBool::new(false));
        let is_reported = Arc::clone(&reported);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // A lost notification may have been an arrival.
            if event.as_ref().map_or(true, is_arrival) && !is_reported.swap(true, Ordering::AcqRel) {
                on_arrival();
            }
        })?;
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
        Ok(Self { folder: folder.to_owned(), identity: identity(folder), reported, _watcher: watcher })
    }

    /// Enables reporting of the next arrival. Must be called before reading the folder.
    pub fn rearm(&self) {
        self.reported.store(false, Ordering::Release);
    }

    /// Whether the watched folder still exists at its path.
    pub fn is_current(&self) -> bool {
        self.identity.is_some() && self.identity == identity(&self.folder)
    }
}

/// Whether a file was created in the folder or renamed into it. kqueue reports only that the folder changed. Files
/// that we remove are not arrivals.
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

    /// Reports come at once. A test fails after this long without one.
    const SOON: Duration = Duration::from_secs(30);

    fn watched() -> (tempfile::TempDir, SpoolWatch, Receiver<()>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("new")).unwrap();
        let (sender, reports) = channel();
        let watch = SpoolWatch::start(&folder.path().join("new"), move || sender.send(()).unwrap()).unwrap();
        (folder, watch, reports)
    }

    fn add_file(folder: &tempfile::TempDir, name: &str) {
        let made = folder.path().join(name);
        std::fs::write(&made, "event").unwrap();
        std::fs::rename(made, folder.path().join("new").join(name)).unwrap();
    }

    #[test]
    fn a_rearmed_watch_reports_new_files_again() {
        let (folder, watch, reports) = watched();
        add_file(&folder, "a");
        reports.recv_timeout(SOON).unwrap();
        add_file(&folder, "b");
        watch.rearm();
        add_file(&folder, "c");
        reports.recv_timeout(SOON).unwrap();
    }

    #[test]
    fn a_folder_that_was_created_again_is_not_the_watched_one() {
        let (folder, watch, _reports) = watched();
        assert!(watch.is_current());
        std::fs::rename(folder.path().join("new"), folder.path().join("old")).unwrap();
        assert!(!watch.is_current());
        std::fs::create_dir(folder.path().join("new")).unwrap();
        assert!(!watch.is_current());
    }
}
