//! A remote that is a folder, such as `file:///media/stick/recall`.
//!
//! `SPACE/DEVICE/FIRST-LAST.jsonl` contains the entries FIRST to LAST of a device's log. A file is written under
//! another name in the same folder, synced, and then linked to its name, which fails if the name is taken.
//! `progress.json` beside them is replaced. Other names are ignored: temporary files, and the conflict copies of a
//! synchroniser.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use recall_domain::sync::DeviceId;
use recall_system::faults::{self, Point};

/// Marks a folder as a remote, and contains the remote's id.
const MARKER: &str = "recall-sync.json";
const TEMPORARY: &str = ".tmp-";
/// Contains how far a machine has read.
const PROGRESS: &str = "progress.json";
const MOST_PROGRESS: u64 = 1024 * 1024;
/// A larger file was not written by recall, in bytes.
const MOST_BYTES: u64 = 80 * 1024 * 1024;
const MOST_MARKER: u64 = 4096;
/// Digits of a number in a file name, so that names sort like numbers.
const DIGITS: usize = 12;

/// A folder that several machines can access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFolder {
    root: PathBuf,
}

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteFolderError {
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    #[error("{} is a different folder than before", .0.display())]
    Other(PathBuf),
    #[error("{} has lost its file {MARKER}; it may not be mounted", .0.display())]
    Unmarked(PathBuf),
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// A file of a log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartFile {
    pub first: u64,
    pub last: u64,
    pub path: PathBuf,
}

/// The result of writing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Written,
    /// The name is taken, although only this machine writes under it.
    Taken,
}

#[derive(Serialize, Deserialize)]
struct Marker {
    format: String,
    id: String,
}

impl RemoteFolder {
    /// Parses a `file:///` address.
    pub fn at(url: &str) -> Option<Self> {
        let path = percent_decode_str(url.strip_prefix("file://")?).decode_utf8().ok()?;
        let root = PathBuf::from(path.as_ref());
        root.is_absolute().then_some(Self { root })
    }

    /// Checks the folder's id. The first machine to use a folder gives it one.
    pub fn enter(&self, known: Option<&str>) -> Result<String, RemoteFolderError> {
        if !self.root.is_dir() {
            return Err(RemoteFolderError::Missing(self.root.clone()));
        }
        let path = self.root.join(MARKER);
        let found = match read_bounded(&path, MOST_MARKER) {
            Ok(text) => {
                let marker: Result<Marker, _> = serde_json::from_str(&text);
                Some(marker.map_err(|error| io_error("understand", &path)(error.into()))?.id)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        match (found, known) {
            (Some(found), Some(known)) if found != known => Err(RemoteFolderError::Other(self.root.clone())),
            (Some(found), _) => Ok(found),
            (None, Some(_)) => Err(RemoteFolderError::Unmarked(self.root.clone())),
            (None, None) => {
                let id = Uuid::new_v4().simple().to_string();
                let marker = Marker { format: "recall-sync".to_owned(), id };
                let text =
                    serde_json::to_string(&marker).map_err(|error| io_error("write", &path)(error.into()))?;
                match put(&self.root, MARKER, &text)? {
                    Put::Written => Ok(marker.id),
                    // Another machine created it first.
                    Put::Taken => self.enter(known),
                }
            }
        }
    }

    /// Lists the devices that have a log in a space.
    pub fn devices(&self, space: &str) -> Result<Vec<DeviceId>, RemoteFolderError> {
        let mut devices: Vec<DeviceId> =
            names(&self.root.join(space))?.into_iter().filter_map(|name| DeviceId::parse(&name)).collect();
        devices.sort();
        Ok(devices)
    }

    /// Lists the files of a device's log, in order.
    pub fn parts(&self, space: &str, device: &DeviceId) -> Result<Vec<PartFile>, RemoteFolderError> {
        let folder = self.root.join(space).join(&device.0);
        let part = |name: String| {
            let (first, last) = numbers_of(&name)?;
            Some(PartFile { first, last, path: folder.join(name) })
        };
        let mut parts: Vec<PartFile> = names(&folder)?.into_iter().filter_map(part).collect();
        parts.sort();
        Ok(parts)
    }

    /// Reads a file of a log. Returns an empty text while the file is not valid text yet.
    pub fn read(&self, part: &PartFile) -> Result<String, RemoteFolderError> {
        match read_bounded(&part.path, MOST_BYTES) {
            Err(error) if error.kind() == ErrorKind::InvalidData => Ok(String::new()),
            read => read.map_err(io_error("read", &part.path)),
        }
    }

    /// Reads a device's progress file. Returns `None` if there is none.
    pub fn progress(&self, space: &str, device: &DeviceId) -> Result<Option<String>, RemoteFolderError> {
        let path = self.root.join(space).join(&device.0).join(PROGRESS);
        match read_bounded(&path, MOST_PROGRESS) {
            Ok(text) => Ok(Some(text)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(None),
            Err(error) => Err(io_error("read", &path)(error)),
        }
    }

    /// Writes this machine's progress file.
    pub fn keep_progress(&self, space: &str, device: &DeviceId, text: &str) -> Result<(), RemoteFolderError> {
        let folder = self.root.join(space).join(&device.0);
        fs::create_dir_all(&folder).map_err(io_error("make", &folder))?;
        let temporary = write_temporary(&folder, text)?;
        let path = folder.join(PROGRESS);
        fs::rename(&temporary, &path).map_err(io_error("replace", &path))?;
        sync_folder(&folder)
    }

    /// Writes a new file.
    pub fn put(
        &self,
        space: &str,
        device: &DeviceId,
        first: u64,
        last: u64,
        text: &str,
    ) -> Result<Put, RemoteFolderError> {
        let folder = self.root.join(space).join(&device.0);
        fs::create_dir_all(&folder).map_err(io_error("make", &folder))?;
        put(&folder, &format!("{first:0DIGITS$}-{last:0DIGITS$}.jsonl"), text)
    }

    /// Replaces a file of this machine's own log.
    pub fn replace(&self, part: &PartFile, text: &str) -> Result<(), RemoteFolderError> {
        let folder = part.path.parent().unwrap_or(&self.root);
        let temporary = write_temporary(folder, text)?;
        faults::reach(Point::FolderReplace);
        fs::rename(&temporary, &part.path).map_err(io_error("replace", &part.path))?;
        sync_folder(folder)
    }

    /// Removes temporary files of a killed daemon from this machine's own folder.
    pub fn tidy(&self, space: &str, device: &DeviceId) -> Result<(), RemoteFolderError> {
        let folder = self.root.join(space).join(&device.0);
        for name in names(&folder)?.into_iter().filter(|name| name.starts_with(TEMPORARY)) {
            let path = folder.join(name);
            fs::remove_file(&path).map_err(io_error("remove", &path))?;
        }
        Ok(())
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RemoteFolderError + use<> {
    let path = path.to_owned();
    move |source| RemoteFolderError::Io { action, path, source }
}

/// Lists the names in a folder; none if it does not exist.
fn names(folder: &Path) -> Result<Vec<String>, RemoteFolderError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error("list", folder)(error)),
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let names: Vec<_> = names.collect::<Result<_, _>>().map_err(io_error("list", folder))?;
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

fn numbers_of(name: &str) -> Option<(u64, u64)> {
    let (first, last) = name.strip_suffix(".jsonl")?.split_once('-')?;
    let number = |digits: &str| {
        let is_number = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().ok()).flatten()
    };
    number(first).zip(number(last)).filter(|(first, last)| *first > 0 && first <= last)
}

/// Reads a regular file, which anybody may have written. Never blocks, and follows no link.
fn read_bounded(path: &Path, most: u64) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let known = file.metadata()?;
    if !known.is_file() || known.len() > most {
        return Err(io::Error::other("it is not a regular file, or it is too large"));
    }
    let mut text = String::new();
    file.take(most).read_to_string(&mut text)?;
    Ok(text)
}

fn put(folder: &Path, name: &str, text: &str) -> Result<Put, RemoteFolderError> {
    let path = folder.join(name);
    let temporary = write_temporary(folder, text)?;
    faults::reach(Point::FolderWritten);
    let linked = fs::hard_link(&temporary, &path);
    faults::reach(Point::FolderLinked);
    let put = match linked {
        Ok(()) => Ok(Put::Written),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Put::Taken),
        // USB sticks and some network shares do not support links.
        Err(_) if path.symlink_metadata().is_ok() => Ok(Put::Taken),
        Err(_) => fs::rename(&temporary, &path).map(|()| Put::Written).map_err(io_error("write", &path)),
    };
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(io_error("remove", &temporary)(error));
        }
        _ => {}
    }
    sync_folder(folder)?;
    put
}

fn write_temporary(folder: &Path, text: &str) -> Result<PathBuf, RemoteFolderError> {
    let path = folder.join(format!("{TEMPORARY}{}", Uuid::new_v4().simple()));
    let written = OpenOptions::new().write(true).create_new(true).open(&path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    if let Err(error) = written {
        // Leftovers are removed in the next round.
        let _ = fs::remove_file(&path);
        return Err(io_error("write into", folder)(error));
    }
    Ok(path)
}

/// Syncs the folder, if possible. Some network shares cannot do that; the file itself is already synced.
fn sync_folder(folder: &Path) -> Result<(), RemoteFolderError> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(io_error("sync", folder)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(digit: char) -> DeviceId {
        DeviceId(digit.to_string().repeat(32))
    }

    fn at(path: &Path) -> RemoteFolder {
        RemoteFolder::at(&format!("file://{}", path.display())).unwrap()
    }

    #[test]
    fn a_log_file_is_written_once_and_other_file_names_are_ignored() {
        let home = tempfile::tempdir().unwrap();
        let (folder, own) = (at(home.path()), device('a'));
        assert_eq!(folder.put("space", &own, 1, 3, "one").unwrap(), Put::Written);
        assert_eq!(folder.put("space", &own, 1, 3, "two").unwrap(), Put::Taken);
        folder.put("space", &own, 4, 4, "three").unwrap();
        let inside = home.path().join("space").join(&own.0);
        for name in [
            "000000000001-000000000003 (conflicted copy).jsonl",
            "000000000001-000000000003.sync-conflict-20261126-120000.jsonl",
            "000000000009-000000000008.jsonl",
            "1-2.jsonl",
            ".tmp-left",
            "notes.txt",
        ] {
            std::fs::write(inside.join(name), "x").unwrap();
        }
        std::fs::create_dir(home.path().join("space/not-a-device")).unwrap();
        let parts = folder.parts("space", &own).unwrap();
        assert_eq!(parts.iter().map(|part| (part.first, part.last)).collect::<Vec<_>>(), [(1, 3), (4, 4)]);
        assert_eq!(folder.read(&parts[0]).unwrap(), "one");
        assert_eq!(folder.devices("space").unwrap(), std::slice::from_ref(&own));
        folder.tidy("space", &own).unwrap();
        assert!(!inside.join(".tmp-left").exists());
        folder.replace(&parts[0], "emptied").unwrap();
        assert_eq!(folder.read(&parts[0]).unwrap(), "emptied");
        assert_eq!(folder.devices("another").unwrap(), []);
        assert_eq!(folder.progress("space", &own).unwrap(), None);
        for text in ["far", "farther"] {
            folder.keep_progress("space", &own, text).unwrap();
            assert_eq!(folder.progress("space", &own).unwrap().as_deref(), Some(text));
        }
        assert_eq!(folder.parts("space", &own).unwrap().len(), 2);
    }

    #[test]
    fn another_folder_at_the_same_path_is_noticed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("stick");
        let folder = at(&path);
        assert!(matches!(folder.enter(None), Err(RemoteFolderError::Missing(_))));
        std::fs::create_dir(&path).unwrap();
        let id = folder.enter(None).unwrap();
        assert_eq!(folder.enter(None).unwrap(), id);
        assert_eq!(folder.enter(Some(&id)).unwrap(), id);
        // The mount point without the stick, then with another stick.
        std::fs::remove_file(path.join(MARKER)).unwrap();
        assert!(matches!(folder.enter(Some(&id)), Err(RemoteFolderError::Unmarked(_))));
        folder.enter(None).unwrap();
        assert!(matches!(folder.enter(Some(&id)), Err(RemoteFolderError::Other(_))));
    }

    #[test]
    fn a_symbolic_link_in_a_remote_folder_is_not_read() {
        let home = tempfile::tempdir().unwrap();
        let (folder, own) = (at(home.path()), device('a'));
        let inside = home.path().join("space").join(&own.0);
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(home.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(
            home.path().join("secret"),
            inside.join("000000000001-000000000001.jsonl"),
        )
        .unwrap();
        let parts = folder.parts("space", &own).unwrap();
        assert!(folder.read(&parts[0]).is_err());
    }

    #[test]
    fn a_folder_address_must_be_an_absolute_file_url() {
        assert_eq!(RemoteFolder::at("file:///a%20b/c").unwrap().root, PathBuf::from("/a b/c"));
        for wrong in ["file://", "file://relative", "/a/b", "https://host/a"] {
            assert_eq!(RemoteFolder::at(wrong), None, "{wrong}");
        }
    }
}
