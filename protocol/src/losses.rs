//! Counts events that could not be stored anywhere, and reports them to the next client.
//!
//! The file consists of fixed-size records, one per event: the second in which it was lost. Whole records are
//! appended, so many processes can count at once. The file is beside the spool or, if that is not writable, in another
//! of our folders. A second file, `….told`, records what was reported: its length is that of the first file at that
//! time.
//!
//! **A full disk is the usual reason for a loss**, and on a full disk a file without a block cannot take a byte. So
//! blocks past the end of the file are reserved ([`reserve`]) when the spool is created and at each start of the
//! daemon. Where the file system cannot reserve blocks, an empty first record occupies the first block.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use crate::folder::{self, FolderError};
use crate::paths::Paths;

/// The second of a loss since 1970, big endian. Zero marks an empty record, see [`reserve`].
type Record = [u8; 4];
const RECORD: u64 = size_of::<Record>() as u64;
/// The maximum number of empty records. Processes that create the first spool concurrently each leave one.
const MOST_EMPTY: u64 = 8;
/// Room for 16,384 events.
#[cfg(target_os = "linux")]
const RESERVED: u64 = 64 * 1024;

/// The loss counters of one user's spool.
#[derive(Clone, Debug)]
pub struct Losses {
    counters: Vec<Counter>,
}

/// A file that counts losses.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    /// The folders from the outermost to the file's own. Each must belong to this user alone.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) file: String,
}

/// How many events were lost, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub events: u64,
    pub first: Option<SystemTime>,
    pub last: Option<SystemTime>,
}

impl Lost {
    fn and(self, other: Self) -> Self {
        Self {
            events: self.events.saturating_add(other.events),
            first: self.first.into_iter().chain(other.first).min(),
            last: self.last.max(other.last),
        }
    }
}

impl Losses {
    pub fn new(paths: &Paths) -> Self {
        Self { counters: paths.loss_counters() }
    }

    /// Counts one more event. Best effort: the disk may have no space for a byte.
    pub fn count(&self) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let second = u32::try_from(since.as_secs()).unwrap_or(u32::MAX).max(1);
        let _ = self.counters.iter().any(|counter| counter.count(second.to_be_bytes()).is_ok());
    }

    pub fn lost(&self) -> Lost {
        self.all_from(|_| 0)
    }

    /// Returns the losses that have not been reported yet.
    pub fn news(&self) -> Lost {
        self.all_from(|counter| {
            fs::symlink_metadata(counter.reported_path()).map_or(0, |metadata| metadata.len())
        })
    }

    fn all_from(&self, start: impl Fn(&Counter) -> u64) -> Lost {
        let counted = self.counters.iter().filter_map(|counter| counter.lost_from(start(counter)).ok());
        counted.fold(Lost::default(), Lost::and)
    }

    /// Marks all losses as reported. Best effort: on failure they are reported again.
    pub fn mark_reported(&self) {
        for counter in &self.counters {
            let Ok(found) = fs::symlink_metadata(counter.path()) else { continue };
            if found.is_file() && counter.secure().is_ok() {
                // Setting the length takes no block.
                let _ = append(&counter.reported_path()).and_then(|file| file.set_len(found.len()));
            }
        }
    }
}

impl Counter {
    fn path(&self) -> PathBuf {
        self.folders.last().map_or_else(PathBuf::new, |folder| folder.join(&self.file))
    }

    fn reported_path(&self) -> PathBuf {
        self.path().with_extension("told")
    }

    fn count(&self, record: Record) -> io::Result<()> {
        self.secure().map_err(io::Error::other)?;
        append(&self.path())?.write_all(&record)
    }

    /// Returns the events whose records begin at or after this offset.
    fn lost_from(&self, start: u64) -> io::Result<Lost> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(self.path())?;
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            return Ok(Lost::default());
        }
        let end = found.len() / RECORD;
        let mut first = start.div_ceil(RECORD);
        while first < end.min(MOST_EMPTY) && time(&file, first).is_none() {
            first += 1;
        }
        let events = end.saturating_sub(first);
        if events == 0 {
            return Ok(Lost::default());
        }
        Ok(Lost { events, first: time(&file, first), last: time(&file, end.saturating_sub(1)) })
    }

    fn secure(&self) -> Result<(), FolderError> {
        self.folders.iter().try_for_each(|folder| folder::secure(folder))
    }
}

/// The time in a record; `None` if it is empty or unreadable.
fn time(file: &File, record: u64) -> Option<SystemTime> {
    let mut second = Record::default();
    file.read_exact_at(&mut second, record * RECORD).ok()?;
    match u32::from_be_bytes(second) {
        0 => None,
        second => SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(second.into())),
    }
}

/// Reserves disk space for future losses. The folder must be ours. Best effort: the disk may be full already.
pub(crate) fn reserve(folder: &Path) {
    let Ok(mut file) = append(&folder.join(BESIDE_SPOOL)) else { return };
    let Ok(found) = file.metadata() else { return };
    if !found.is_file() {
        return;
    }
    if found.len() == 0 {
        let _ = file.write_all(&Record::default());
    }
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, found.len(), RESERVED);
}

/// The counter's file name in the spool's folder.
pub(crate) const BESIDE_SPOOL: &str = "dropped";

/// Opens a file for appending. Does not block if the path is a pipe.
pub(crate) fn append(path: &Path) -> io::Result<File> {
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
    fn a_loss_is_news_until_it_is_reported() {
        let dir = tempfile::tempdir().expect("temp dir");
        let losses = Losses::new(&places(dir.path()));
        assert_eq!(losses.lost(), Lost::default());
        losses.mark_reported();
        losses.count();
        losses.count();
        let lost = losses.lost();
        assert_eq!((lost.events, lost.first.is_some(), lost.last.is_some()), (2, true, true));
        assert_eq!(losses.news(), lost);
        losses.mark_reported();
        assert_eq!(losses.news(), Lost::default());
        losses.count();
        assert_eq!((losses.lost().events, losses.news().events), (3, 1));
        assert_eq!(fs::metadata(dir.path().join("recall/state/spool/dropped")).expect("there").len(), 12);
    }

    #[test]
    fn reserved_space_is_not_counted_but_every_concurrent_loss_is() {
        let dir = tempfile::tempdir().expect("temp dir");
        let paths = places(dir.path());
        paths.create_state_folder().expect("made");
        let spool = crate::spool::Spool::new(&paths);
        for _ in 0..2 {
            spool.create_folders().expect("made");
        }
        let losses = Losses::new(&paths);
        assert_eq!(losses.lost(), Lost::default());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| losses.count()));
            }
        });
        assert_eq!((losses.lost().events, losses.news().events), (400, 400));
        losses.mark_reported();
        losses.count();
        assert_eq!((losses.lost().events, losses.news().events), (401, 1));
        #[cfg(target_os = "linux")]
        {
            let found = fs::metadata(dir.path().join("recall/state/spool/dropped")).expect("there");
            assert!(found.blocks() * 512 >= RESERVED, "{} blocks", found.blocks());
        }
    }

    #[test]
    fn the_first_and_last_times_of_losses_are_reported() {
        let dir = tempfile::tempdir().expect("temp dir");
        let paths = places(dir.path());
        let file = dir.path().join("recall/state/spool/dropped");
        Losses::new(&paths).count();
        let records = [100_u32, 300, 200].map(u32::to_be_bytes).concat();
        fs::write(&file, records).expect("write");
        let at = |second| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
        let losses = Losses::new(&paths);
        assert_eq!(losses.lost(), Lost { events: 3, first: at(100), last: at(200) });
        fs::write(file.with_extension("told"), [0; 4]).expect("write");
        assert_eq!(losses.news(), Lost { events: 2, first: at(300), last: at(200) });
    }

    #[test]
    fn losses_are_counted_elsewhere_if_the_home_cannot_be_created() {
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
    fn losses_are_not_counted_through_a_symlink_to_an_open_folder() {
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
