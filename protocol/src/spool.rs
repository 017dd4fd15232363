//! The spool, where the shim stores events when no daemon responds.
//!
//! ```text
//! spool/tmp/      files being written; may be truncated, never read
//! spool/new/      complete files: an event is accepted once it is renamed into here
//! spool/bad/      unreadable files; the last 100 are kept for inspection
//! spool/level     its length is the size of the spool in units (see `UNIT`)
//! spool/dropped   counts lost events, see `losses`
//! ```
//!
//! Each event is one file, which contains the frame that would have gone over the socket. The file name begins with
//! the capture time, so a sorted listing is chronological, and contains the event id. A file is removed only after its
//! event is committed, so an event may be read twice but is never lost.
//!
//! **No fsync.** The promise covers processes that are killed, and data that the kernel has accepted survives that.
//! Waiting for the disk would cost each hook between one and some tens of milliseconds while the agent waits, with a
//! budget of twenty. A power cut can therefore truncate the files of the last seconds. A truncated file is recognised
//! by its frame, and moved to `bad/` once nobody has written to it for a second, so a file that somebody copies into
//! the spool or repairs in place is read when it is complete.
//!
//! **Bounded.** Counting 50,000 files takes longer than a hook may run, so each write appends to `level` instead and
//! checks its length: one unit per file, plus one for each further 10,737 bytes of it. The spool is full at 50,000
//! units: 50,000 small files or 512 MiB in large ones, whichever comes first. The daemon corrects the level after
//! draining ([`Spool::settle`]).

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use crate::codec::MAX_BODY;
use crate::folder::{self, FolderError, FolderState};
use crate::frame::{self, FrameError, HEADER_LEN, HeaderError};
use crate::losses::{self, append};
use crate::paths::Paths;
use crate::wire::{Deliver, EventId, Request};

/// The maximum number of units, and therefore of files.
pub const MAX_UNITS: u64 = 50_000;
/// The maximum size of the spool in bytes.
pub const MAX_BYTES: u64 = 512 * 1024 * 1024;
/// The maximum number of files in `bad/`.
pub const MAX_BAD: usize = 100;
/// An incomplete file counts as damaged once this much time has passed since its last write. A flush waits longer.
const BEING_WRITTEN: Duration = Duration::from_secs(1);
/// Bytes per unit: a file takes one unit for each started piece of this size.
const UNIT: u64 = MAX_BYTES / MAX_UNITS;
/// The largest file that is read, in bytes.
const MAX_FILE: u64 = (MAX_BODY + HEADER_LEN) as u64;

/// Why an event was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SpoolWriteError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("the spool is full")]
    Full,
    #[error("cannot write to the spool at {}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Why a spool file was not read.
#[derive(Debug, thiserror::Error)]
pub enum SpoolReadError {
    /// Another process has drained the file. Not an error.
    #[error("the spool file is gone")]
    Gone,
    /// The event is incomplete and was written a moment ago. Somebody may be writing it in place, so the file is kept.
    #[error("the spool file is still incomplete")]
    Unfinished,
    /// A newer shim wrote the file. It stays until a daemon can read it.
    #[error("the spool file has protocol version {version}")]
    UnknownVersion { version: u8 },
    /// The file is not a regular file of this user, is larger than a frame, or is truncated or damaged. It belongs in
    /// `bad/`.
    #[error("the spool file is not an event: {why}")]
    Bad {
        why: &'static str,
        #[source]
        source: Option<FrameError>,
    },
    /// The disk failed, not the file. The caller should retry.
    #[error("cannot read the spool file")]
    Io(#[source] io::Error),
}

/// The name of a file in `new/`. Names sort by capture time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpoolName(String);

impl SpoolName {
    /// Builds the name. Times before 1970 count as 1970.
    pub fn new(captured_at_ms: i64, event_id: EventId) -> Self {
        Self(format!("{:015}-{event_id}", captured_at_ms.max(0)))
    }

    /// Parses a name; `None` if the shim did not create it.
    pub fn parse(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        let (time, id) = name.split_once('-')?;
        let digits = time.len() >= 15 && time.bytes().all(|byte| byte.is_ascii_digit());
        (digits && id.parse::<EventId>().is_ok()).then(|| Self(name.to_owned()))
    }

    pub fn event_id(&self) -> Option<EventId> {
        self.0.split_once('-')?.1.parse().ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The content of `new/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolSize {
    pub files: u64,
    pub bytes: u64,
}

/// A file anywhere in the spool, as a visitor sees it.
#[derive(Clone, Copy, Debug)]
pub struct Remains<'a> {
    pub bytes: &'a [u8],
    /// The capture time of its event, in milliseconds since 1970.
    pub at_ms: i64,
    pub state: RemainsState,
}

/// The state of a file in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemainsState {
    /// An event that has yet to be stored.
    Waiting,
    /// An event of a protocol version that this build cannot read.
    OtherVersion,
    /// Not a readable event.
    Damaged,
    /// A file that is currently being written.
    Unfinished,
}

/// A shim writes for milliseconds, so an older file in `tmp/` was left behind by a killed shim.
const WRITTEN_WITHIN: Duration = Duration::from_secs(60);

/// A user's spool. Cheap to create: files are opened on demand.
#[derive(Clone, Debug)]
pub struct Spool {
    dir: PathBuf,
    /// The enclosing folders, the outermost first.
    above: Vec<PathBuf>,
}

impl Spool {
    pub fn new(paths: &Paths) -> Self {
        Self { dir: paths.spool_dir(), above: paths.state_folders() }
    }

    /// Creates the spool's folders and reserves space for counting losses. The state folder must exist.
    pub fn create_folders(&self) -> Result<(), FolderError> {
        for path in [self.dir.clone(), self.dir.join("tmp"), self.new_dir(), self.dir.join("bad")] {
            folder::create_private(&path)?;
        }
        losses::reserve(&self.dir);
        Ok(())
    }

    /// The folder to watch for arrivals.
    pub fn new_dir(&self) -> PathBuf {
        self.dir.join("new")
    }

    /// Writes a frame. `Ok` means that the event is accepted. Missing folders return [`SpoolWriteError::Io`] with
    /// `NotFound`, so the common case need not check for them.
    pub fn write(&self, name: &SpoolName, frame: &[u8]) -> Result<(), SpoolWriteError> {
        self.check_folders()?;
        self.take_units(frame.len() as u64)?;
        let being_written = self.dir.join("tmp").join(name.as_str());
        let failed = |source| SpoolWriteError::Io { path: being_written.clone(), source };
        let result = create_new(&being_written)
            .and_then(|mut file| file.write_all(frame))
            .and_then(|()| fs::rename(&being_written, self.file(name)));
        if let Err(source) = result {
            // Frees the space, which a full disk needs. If the name already exists, the file belongs to another
            // process.
            if source.kind() != ErrorKind::AlreadyExists {
                let _ = fs::remove_file(&being_written);
            }
            return Err(failed(source));
        }
        Ok(())
    }

    /// Lists waiting files, oldest first, at most `most`. Files with other names are skipped.
    pub fn list(&self, most: usize) -> io::Result<Vec<SpoolName>> {
        let entries = match fs::read_dir(self.new_dir()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(SpoolName::parse(&entry?.file_name()));
        }
        names.sort_unstable();
        names.truncate(most);
        Ok(names)
    }

    /// Reads one event. Refuses symlinks, pipes and other users' files.
    pub fn read(&self, name: &SpoolName) -> Result<Deliver, SpoolReadError> {
        let bad = |why| SpoolReadError::Bad { why, source: None };
        let flags = folder::nofollow() | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(self.file(name));
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(SpoolReadError::Gone),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                return Err(bad("a symlink"));
            }
            Err(error) => return Err(SpoolReadError::Io(error)),
        };
        let metadata = file.metadata().map_err(SpoolReadError::Io)?;
        if !metadata.is_file() {
            return Err(bad("not a regular file"));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(bad("a file of another user"));
        }
        if metadata.len() > MAX_FILE {
            return Err(bad("too large"));
        }
        let mut bytes = Vec::new();
        (&file).take(MAX_FILE).read_to_end(&mut bytes).map_err(SpoolReadError::Io)?;
        match decode(name, &bytes) {
            Err(SpoolReadError::Bad { .. }) if is_being_written(&file, SystemTime::now()) => {
                Err(SpoolReadError::Unfinished)
            }
            decoded => decoded,
        }
    }

    /// Removes a file after its event was committed. A missing file is not an error.
    pub fn remove(&self, name: &SpoolName) -> io::Result<()> {
        match fs::remove_file(self.file(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Moves an unreadable file to `bad/` for inspection. Beyond [`MAX_BAD`] the oldest are removed.
    pub fn move_to_bad(&self, name: &SpoolName) -> io::Result<()> {
        let bad = self.dir.join("bad");
        match fs::rename(self.file(name), bad.join(name.as_str())) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut kept: Vec<_> = fs::read_dir(&bad)?.flatten().map(|entry| entry.file_name()).collect();
        kept.sort_unstable();
        for oldest in kept.iter().take(kept.len().saturating_sub(MAX_BAD)) {
            fs::remove_file(bad.join(oldest))?;
        }
        Ok(())
    }

    /// Counts the waiting files and sets the level. The daemon calls this after draining, because the shim only adds.
    ///
    /// A file that arrives during the call may be missing from the level until the next call.
    pub fn settle(&self) -> io::Result<SpoolSize> {
        let (mut size, mut units) = (SpoolSize::default(), 0_u64);
        for name in self.list(usize::MAX)? {
            let Ok(found) = fs::symlink_metadata(self.file(&name)) else { continue };
            size.files = size.files.saturating_add(1);
            size.bytes = size.bytes.saturating_add(found.len());
            units = units.saturating_add(units_of(found.len()));
        }
        append(&self.level_file())?.set_len(units)?;
        Ok(size)
    }

    /// Removes files in `tmp/` older than `age`. Killed shims left them behind; they were never accepted.
    pub fn sweep(&self, now: SystemTime, age: Duration) -> io::Result<u64> {
        let mut swept = 0;
        let entries = match fs::read_dir(self.dir.join("tmp")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let modified = entry.metadata().and_then(|found| found.modified());
            let old =
                modified.is_ok_and(|modified| now.duration_since(modified).is_ok_and(|since| since > age));
            if old && fs::remove_file(entry.path()).is_ok() {
                swept += 1;
            }
        }
        Ok(swept)
    }

    /// Removes every file that `is_meant` selects, including incomplete and damaged ones. Returns their number.
    pub fn purge(&self, is_meant: impl Fn(&Remains<'_>) -> bool) -> io::Result<u64> {
        let mut purged = 0;
        self.visit(|path, remains| {
            if is_meant(remains) {
                purged += u64::from(fs::remove_file(path).is_ok());
            }
        })?;
        self.settle()?;
        Ok(purged)
    }

    /// Visits every file, including incomplete and damaged ones. Symlinks and pipes are not opened.
    pub fn look_through(&self, mut see: impl FnMut(&Remains<'_>)) -> io::Result<()> {
        self.visit(|_, remains| see(remains))
    }

    fn visit(&self, mut see: impl FnMut(&Path, &Remains<'_>)) -> io::Result<()> {
        for folder in ["new", "tmp", "bad"] {
            let entries = match fs::read_dir(self.dir.join(folder)) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let Some(bytes) = regular_bytes(&entry.path())? else { continue };
                let state = match folder {
                    "new" => waiting_state(&entry.file_name(), &bytes),
                    "tmp" if !is_left_behind(&entry) => RemainsState::Unfinished,
                    _ => RemainsState::Damaged,
                };
                // The event was stored and its file removed after the listing.
                let Ok(at_ms) = event_time(&entry) else { continue };
                see(&entry.path(), &Remains { bytes: &bytes, at_ms, state });
            }
        }
        Ok(())
    }

    /// Checks that all folders are ours alone, because another owner could read or redirect what is written. Costs
    /// five system calls, and only when no daemon acknowledged the event.
    fn check_folders(&self) -> Result<(), SpoolWriteError> {
        let own = [self.dir.clone(), self.dir.join("tmp"), self.new_dir()];
        for path in self.above.iter().chain(&own) {
            if folder::look(path) == FolderState::Absent {
                return Err(SpoolWriteError::Io { path: path.clone(), source: ErrorKind::NotFound.into() });
            }
            folder::secure(path)?;
        }
        Ok(())
    }

    /// Adds a file of `bytes` to the level. If the write fails later, the level is too high, but never too low.
    fn take_units(&self, bytes: u64) -> Result<(), SpoolWriteError> {
        let path = self.level_file();
        let failed = |source| SpoolWriteError::Io { path: path.clone(), source };
        let mut level = append(&path).map_err(failed)?;
        let (held, more) = (level.metadata().map_err(failed)?.len(), units_of(bytes));
        if held.saturating_add(more) > MAX_UNITS {
            return Err(SpoolWriteError::Full);
        }
        let marks = [b'.'; (MAX_FILE / UNIT + 1) as usize];
        let marks = marks.get(..usize::try_from(more).unwrap_or(usize::MAX)).unwrap_or(&marks);
        level.write_all(marks).map_err(failed)
    }

    fn file(&self, name: &SpoolName) -> PathBuf {
        self.new_dir().join(name.as_str())
    }

    fn level_file(&self) -> PathBuf {
        self.dir.join("level")
    }
}

/// Reads a regular file, up to the size of a frame. `None` if it is missing or not a regular file.
fn regular_bytes(path: &Path) -> io::Result<Option<Vec<u8>>> {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        return Ok(None);
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The state of a file in `new/`.
fn waiting_state(name: &OsStr, bytes: &[u8]) -> RemainsState {
    match SpoolName::parse(name).map(|name| decode(&name, bytes)) {
        Some(Ok(_)) => RemainsState::Waiting,
        Some(Err(SpoolReadError::UnknownVersion { .. })) => RemainsState::OtherVersion,
        Some(Err(_)) | None => RemainsState::Damaged,
    }
}

fn is_left_behind(entry: &fs::DirEntry) -> bool {
    let written = entry.metadata().and_then(|found| found.modified());
    written.is_ok_and(|written| written.elapsed().is_ok_and(|since| since > WRITTEN_WITHIN))
}

/// The capture time in the file's name, else the file's modification time.
fn event_time(entry: &fs::DirEntry) -> io::Result<i64> {
    let name = SpoolName::parse(&entry.file_name());
    let named = name.and_then(|name| name.as_str().split_once('-')?.0.parse().ok());
    if let Some(time) = named {
        return Ok(time);
    }
    let written = entry.metadata()?.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(i64::try_from(written.as_millis()).unwrap_or(i64::MAX))
}

/// Decodes the content of a spool file of this name.
///
/// # Errors
/// [`SpoolReadError::Bad`] or [`SpoolReadError::UnknownVersion`].
pub fn decode(name: &SpoolName, content: &[u8]) -> Result<Deliver, SpoolReadError> {
    let bad = |why| Err(SpoolReadError::Bad { why, source: None });
    match frame::decode_frame(content) {
        Ok(Request::Deliver(deliver)) if Some(deliver.event_id) == name.event_id() => Ok(deliver),
        Ok(Request::Deliver(_)) => bad("the event differs from the file name"),
        Ok(Request::Query(_)) => bad("a query"),
        Err(FrameError::Header(HeaderError::UnknownVersion { version })) => {
            Err(SpoolReadError::UnknownVersion { version })
        }
        Err(error) => Err(SpoolReadError::Bad { why: "damaged", source: Some(error) }),
    }
}

/// Whether a file was written a moment ago. Shims never write to a visible file, but people copy or repair files in
/// place.
fn is_being_written(file: &File, now: SystemTime) -> bool {
    let written = file.metadata().and_then(|found| found.modified());
    written.is_ok_and(|written| match now.duration_since(written) {
        Ok(age) => age < BEING_WRITTEN,
        // The file system's clock differs slightly from the system clock.
        Err(ahead) => ahead.duration() < BEING_WRITTEN,
    })
}

fn units_of(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT).max(1)
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed())
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::frame::MAX_VERSION;
    use crate::wire::{Flags, ShimContext};

    struct Home {
        spool: Spool,
        dir: tempfile::TempDir,
    }

    fn home() -> Home {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().to_path_buf();
        let paths = Paths::from_variables(&|name| (name == "RECALL_HOME").then(|| path.clone().into()))
            .expect("paths");
        paths.create_folders().expect("folders");
        let spool = Spool::new(&paths);
        spool.create_folders().expect("folders");
        Home { spool, dir }
    }

    fn event(id: u8, payload: &[u8]) -> Deliver {
        Deliver {
            event_id: EventId([id; 16]),
            agent: "claude-code".to_owned(),
            event_name: "Stop".to_owned(),
            captured_at_ms: 1_700_000_000_000,
            boot_id: [3; 16],
            boot_ns: 5,
            context: ShimContext::default(),
            payload: payload.to_vec(),
            flags: Flags::default(),
        }
    }

    fn write(spool: &Spool, event: &Deliver) -> SpoolName {
        let name = SpoolName::new(event.captured_at_ms, event.event_id);
        let frame = frame::encode_frame(&Request::Deliver(event.clone())).expect("fits");
        spool.write(&name, &frame).expect("accepted");
        name
    }

    #[test]
    fn a_written_event_is_read_back_and_removed() {
        let Home { spool, dir: _dir } = home();
        let event = event(1, b"{}");
        let name = write(&spool, &event);
        assert_eq!(spool.list(10).expect("lists"), std::slice::from_ref(&name));
        assert_eq!(spool.read(&name).expect("reads"), event);
        assert_eq!(fs::metadata(spool.file(&name)).expect("exists").permissions().mode() & 0o777, 0o600);
        spool.remove(&name).expect("removes");
        spool.remove(&name).expect("a second time");
        assert!(matches!(spool.read(&name), Err(SpoolReadError::Gone)));
        assert!(spool.list(10).expect("lists").is_empty());
    }

    #[test]
    fn file_names_sort_by_time_and_contain_the_event_id() {
        let early = SpoolName::new(999, EventId([255; 16]));
        let late = SpoolName::new(1_700_000_000_000, EventId([0; 16]));
        assert!(SpoolName::new(-5, EventId([9; 16])) < early && early < late);
        assert_eq!(early.event_id(), Some(EventId([255; 16])));
        assert_eq!(SpoolName::parse(OsStr::new(late.as_str())), Some(late));
        for foreign in ["", "x", "-", "000000000000001-xyz", ".#lock", "1-00000000000000000000000000000000"] {
            assert_eq!(SpoolName::parse(OsStr::new(foreign)), None, "{foreign}");
        }
    }

    #[test]
    fn events_are_listed_oldest_first() {
        let Home { spool, dir: _dir } = home();
        let names: Vec<_> = [30, 10, 20]
            .into_iter()
            .map(|time| write(&spool, &Deliver { captured_at_ms: time, ..event(time as u8, b"") }))
            .collect();
        fs::write(spool.new_dir().join("stray"), "").expect("write");
        assert_eq!(spool.list(2).expect("lists"), [names[1].clone(), names[2].clone()]);
    }

    /// Writes a file in place, with an old modification time.
    fn write_in_place(spool: &Spool, name: &SpoolName, content: &[u8]) {
        fs::write(spool.file(name), content).expect("write");
        let file = File::options().write(true).open(spool.file(name)).expect("opens");
        file.set_modified(SystemTime::now() - BEING_WRITTEN * 2).expect("aged");
    }

    #[test]
    fn a_file_still_being_written_is_unfinished_not_damaged() {
        let Home { spool, dir: _dir } = home();
        let event = event(1, b"{}");
        let name = write(&spool, &event);
        let whole = fs::read(spool.file(&name)).expect("reads");
        for half in [&whole[..0], &whole[..9]] {
            fs::write(spool.file(&name), half).expect("write");
            assert!(matches!(spool.read(&name), Err(SpoolReadError::Unfinished)));
            write_in_place(&spool, &name, half);
            assert!(matches!(spool.read(&name), Err(SpoolReadError::Bad { .. })));
        }
        fs::write(spool.file(&name), &whole).expect("write");
        assert_eq!(spool.read(&name).expect("whole"), event);
    }

    #[test]
    fn damaged_files_are_recognised_and_moved_to_bad() {
        let Home { spool, dir } = home();
        let name = write(&spool, &event(1, b"{}"));
        let whole = fs::read(spool.file(&name)).expect("reads");
        for damaged in [&whole[..whole.len() - 1], &whole[..3], b"", &[&whole[..], b"x"].concat()] {
            write_in_place(&spool, &name, damaged);
            assert!(matches!(spool.read(&name), Err(SpoolReadError::Bad { .. })));
        }
        let other = frame::encode_frame(&Request::Deliver(event(2, b""))).expect("fits");
        write_in_place(&spool, &name, &other);
        assert!(matches!(spool.read(&name), Err(SpoolReadError::Bad { .. })));
        spool.move_to_bad(&name).expect("moves");
        assert!(dir.path().join("state/spool/bad").join(name.as_str()).exists());
        assert!(spool.list(10).expect("lists").is_empty());
    }

    #[test]
    fn only_the_newest_damaged_files_are_kept() {
        let Home { spool, dir } = home();
        for time in 0..MAX_BAD as i64 + 3 {
            let name = SpoolName::new(time, EventId([1; 16]));
            fs::write(spool.file(&name), "no frame").expect("write");
            spool.move_to_bad(&name).expect("moves");
        }
        let bad = dir.path().join("state/spool/bad");
        assert_eq!(fs::read_dir(&bad).expect("lists").count(), MAX_BAD);
        assert!(!bad.join(SpoolName::new(2, EventId([1; 16])).as_str()).exists());
        assert!(bad.join(SpoolName::new(3, EventId([1; 16])).as_str()).exists());
    }

    #[test]
    fn a_newer_file_version_is_reported_as_unknown() {
        let Home { spool, dir: _dir } = home();
        let name = write(&spool, &event(1, b"{}"));
        let mut frame = fs::read(spool.file(&name)).expect("reads");
        frame[4] = MAX_VERSION + 1;
        fs::write(spool.file(&name), frame).expect("write");
        assert!(
            matches!(spool.read(&name), Err(SpoolReadError::UnknownVersion { version }) if version == MAX_VERSION + 1)
        );
    }

    #[test]
    fn symlinks_and_folders_are_not_read_as_events() {
        let Home { spool, dir: _dir } = home();
        let name = write(&spool, &event(1, b"{}"));
        let real = spool.dir.join("real");
        fs::rename(spool.file(&name), &real).expect("rename");
        std::os::unix::fs::symlink(&real, spool.file(&name)).expect("symlink");
        assert!(matches!(spool.read(&name), Err(SpoolReadError::Bad { why: "a symlink", .. })));
        fs::remove_file(spool.file(&name)).expect("unlink");
        fs::create_dir(spool.file(&name)).expect("mkdir");
        assert!(matches!(spool.read(&name), Err(SpoolReadError::Bad { .. })));
    }

    #[test]
    fn a_full_spool_rejects_events_until_it_is_settled() {
        let Home { spool, dir: _dir } = home();
        append(&spool.level_file()).expect("level").set_len(MAX_UNITS - 1).expect("set");
        let last = write(&spool, &event(1, b"{}"));
        let frame = frame::encode_frame(&Request::Deliver(event(2, b"{}"))).expect("fits");
        let name = SpoolName::new(0, EventId([2; 16]));
        assert!(matches!(spool.write(&name, &frame), Err(SpoolWriteError::Full)));
        assert_eq!(spool.list(10).expect("lists"), [last]);

        assert_eq!(spool.settle().expect("settles").files, 1);
        spool.write(&name, &frame).expect("room again");
        assert_eq!(fs::metadata(spool.level_file()).expect("level").len(), 2);
    }

    #[test]
    fn large_files_take_more_units_of_the_spool() {
        assert_eq!([0, 1, UNIT, UNIT + 1, 4 << 20].map(units_of), [1, 1, 1, 2, 391]);
        let Home { spool, dir: _dir } = home();
        write(&spool, &event(1, &vec![b'x'; 1 << 20]));
        let level = fs::metadata(spool.level_file()).expect("level").len();
        let size = spool.settle().expect("settles");
        assert_eq!(fs::metadata(spool.level_file()).expect("level").len(), level);
        assert!(size.bytes > 1 << 20 && level == units_of(size.bytes));
    }

    #[test]
    fn nothing_is_written_into_symlinked_or_foreign_folders() {
        let Home { spool, dir } = home();
        let (elsewhere, tmp) = (dir.path().join("elsewhere"), spool.dir.join("tmp"));
        fs::create_dir(&elsewhere).expect("mkdir");
        fs::remove_dir(&tmp).expect("rmdir");
        std::os::unix::fs::symlink(&elsewhere, &tmp).expect("symlink");
        let name = SpoolName::new(0, EventId([0; 16]));
        let refused = spool.write(&name, b"frame");
        assert!(matches!(&refused, Err(SpoolWriteError::Folder(FolderError::Symlink { .. }))), "{refused:?}");
        assert!(fs::metadata(spool.level_file()).is_err(), "nothing at all was written");
        fs::remove_file(&tmp).expect("unlink");
        fs::create_dir(&tmp).expect("mkdir");
        fs::set_permissions(&tmp, fs::Permissions::from_mode(0o777)).expect("chmod");
        spool.write(&name, b"frame").expect("ours");
        assert_eq!(folder::look(&tmp), FolderState::Private, "closed first");
        if !rustix::process::geteuid().is_root() {
            println!("the rest is skipped: only the superuser can give folders away");
            return;
        }
        for path in [dir.path().to_path_buf(), dir.path().join("state"), spool.dir.clone(), spool.new_dir()] {
            std::os::unix::fs::chown(&path, Some(65534), None).expect("chown");
            let refused = spool.write(&name, b"frame");
            let because = FolderError::Foreign { path: path.clone(), owner: 65534 };
            assert_eq!(refused.expect_err("foreign").to_string(), because.to_string());
            std::os::unix::fs::chown(&path, Some(0), None).expect("chown");
        }
    }

    #[test]
    fn a_missing_spool_folder_fails_writes_and_lists_nothing() {
        let Home { spool, dir } = home();
        fs::remove_dir_all(dir.path().join("state")).expect("remove");
        let result = spool.write(&SpoolName::new(0, EventId([0; 16])), b"");
        assert!(
            matches!(&result, Err(SpoolWriteError::Io { source, .. }) if source.kind() == ErrorKind::NotFound),
            "{result:?}"
        );
        assert!(spool.list(1).expect("lists").is_empty());
    }

    #[test]
    fn the_state_of_every_spool_file_is_reported() {
        let Home { spool, dir } = home();
        let folder = |name: &str| dir.path().join("state/spool").join(name);
        let waiting = write(&spool, &event(1, b"waiting"));
        let newer = write(&spool, &event(2, b"newer"));
        let mut frame = fs::read(spool.file(&newer)).expect("reads");
        frame[4] = 99;
        fs::write(spool.file(&newer), frame).expect("write");
        fs::write(spool.file(&SpoolName::new(9, EventId([3; 16]))), "cut").expect("write");
        fs::write(folder("bad/odd"), "bad").expect("write");
        fs::write(folder("tmp/young"), "young").expect("write");
        fs::write(folder("tmp/old"), "old").expect("write");
        let old = File::options().write(true).open(folder("tmp/old")).expect("opens");
        old.set_modified(SystemTime::now() - 2 * WRITTEN_WITHIN).expect("sets");
        std::os::unix::fs::symlink("/etc/passwd", folder("new/000000000000001-link")).expect("links");
        let mut seen = Vec::new();
        spool
            .look_through(|remains| seen.push((remains.state, remains.bytes.len(), remains.at_ms == 9)))
            .expect("looks");
        let count = |state| seen.iter().filter(|(found, ..)| *found == state).count();
        use RemainsState::{Damaged, OtherVersion, Unfinished, Waiting};
        let counts = [Waiting, OtherVersion, Damaged, Unfinished].map(count);
        assert_eq!(counts, [1, 1, 3, 1], "{seen:?}");
        assert!(seen.contains(&(Damaged, 3, true)), "{seen:?}");
        let purged = spool.purge(|remains| matches!(remains.state, Damaged | OtherVersion)).expect("purges");
        assert_eq!(purged, 4);
        assert!(spool.read(&waiting).is_ok() && folder("tmp/young").exists());
    }

    #[test]
    fn old_leftovers_of_killed_shims_are_removed() {
        let Home { spool, dir: _dir } = home();
        let left = spool.dir.join("tmp/left");
        fs::write(&left, "half").expect("write");
        let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
        assert_eq!(spool.sweep(now, hour).expect("sweeps"), 0);
        assert_eq!(spool.sweep(now + hour * 2, hour).expect("sweeps"), 1);
        assert!(!left.exists());
    }
}
