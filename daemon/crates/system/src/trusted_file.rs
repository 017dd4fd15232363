//! Opens files that other users, or the author of a repository, may have created.
//!
//! - Every path component beneath an opened folder is opened relative to the previous one and never follows a symlink,
//!   so nothing outside is reached, and nobody can exchange a component in between.
//! - A file or folder is trusted if it belongs to us or root and no other user can write to it. A group whose only
//!   member is the owner does not count as another user.
//! - Only regular files are trusted. Opening does not block on a FIFO.
//! - Reads are limited in size, whatever the file's length.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

/// Flags for opening a folder.
pub const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags for opening a file.
pub const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Why a file or folder is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("it is a symlink")]
    Link,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is not a folder")]
    NotAFolder,
    #[error("it belongs to user {0}")]
    Foreign(u32),
    #[error("other users can write to it")]
    Writable,
    #[error("it is larger than {} KiB", .0 / 1024)]
    TooLarge(u64),
    #[error("it cannot be opened: {0}")]
    Io(#[from] io::Error),
}

impl Refused {
    /// Whether the reason is that the file does not exist.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Io(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Io(error) => error,
            other => Self::other(other),
        }
    }
}

/// Opens one entry of an opened folder without following symlinks.
///
/// # Errors
/// The error of `openat`.
pub fn step(at: impl AsFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(at, name, flags | OFlags::NOFOLLOW, Mode::empty())?)
}

/// An opened, trusted folder. Everything opened through it is checked as well. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Folder(Arc<OwnedFd>);

impl Folder {
    /// Opens a folder by its path. Folders above it may be symlinks, but not the folder itself.
    ///
    /// # Errors
    /// The folder is missing or not trusted.
    pub fn open(path: &Path) -> Result<Self, Refused> {
        match rustix::fs::open(path, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(folder) => Self::counted(folder),
            Err(errno) => {
                let found = fs::symlink_metadata(path)?;
                check_owner(found.uid())?;
                Err(match found.is_dir() {
                    true => Refused::Io(errno.into()),
                    false if found.is_symlink() => Refused::Link,
                    false => Refused::NotAFolder,
                })
            }
        }
    }

    /// Opens a folder inside this one.
    ///
    /// # Errors
    /// The folder, or one on the path to it, is missing or not trusted.
    pub fn folder(&self, relative: &Path) -> Result<Self, Refused> {
        let mut at = self.clone();
        for component in relative.components() {
            let Component::Normal(name) = component else { return Err(Refused::NotAFolder) };
            let opened = step(&*at.0, name, FOLDER).map_err(|error| at.explain(name, error))?;
            at = Self::counted(opened)?;
        }
        Ok(at)
    }

    /// Opens a regular file inside this folder.
    ///
    /// # Errors
    /// The file, or a folder on the path to it, is missing or not trusted.
    pub fn file(&self, relative: &Path) -> Result<File, Refused> {
        let Some(name) = relative.file_name() else { return Err(Refused::NotAFile) };
        let folder = self.folder(relative.parent().unwrap_or(Path::new("")))?;
        let opened = step(&*folder.0, name, FILE).map_err(|error| folder.explain(name, error))?;
        regular(File::from(opened))
    }

    /// # Errors
    /// The file system does not respond.
    pub fn metadata(&self) -> io::Result<Metadata> {
        File::from(self.0.try_clone()?).metadata()
    }

    /// The names of the folder's entries.
    pub fn names(&self) -> impl Iterator<Item = OsString> {
        let entries = rustix::fs::Dir::read_from(&*self.0).ok();
        let entries = entries.into_iter().flatten().map_while(Result::ok);
        let names = entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        names.filter(|name| name != "." && name != "..")
    }

    fn counted(opened: OwnedFd) -> Result<Self, Refused> {
        let folder = File::from(opened);
        check(&folder, &folder.metadata()?)?;
        Ok(Self(Arc::new(folder.into())))
    }

    /// Turns an error into a reason. Systems report a symlink in a path with different errors.
    fn explain(&self, name: &OsStr, error: io::Error) -> Refused {
        let found = rustix::fs::statat(&*self.0, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        let is_link = found.is_ok_and(|found| {
            rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Symlink
        });
        if is_link { Refused::Link } else { Refused::Io(error) }
    }
}

/// Checks that a symlink, file or folder belongs to us or root.
///
/// # Errors
/// It belongs to another user, or does not exist.
pub fn check_owner_of(path: &Path) -> Result<(), Refused> {
    check_owner(fs::symlink_metadata(path)?.uid())
}

/// Whether a symlink at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    Refused,
    /// It is followed if the link itself belongs to us or root, because people move their settings files. The target
    /// is checked as usual.
    OfOurs,
}

/// Opens a regular file by its path. Folders above it may be symlinks.
///
/// # Errors
/// The file is missing or not trusted.
pub fn open(path: &Path, links: Links) -> Result<File, Refused> {
    let follow = match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() && links == Links::OfOurs => {
            check_owner_of(path)?;
            OFlags::empty()
        }
        _ => OFlags::NOFOLLOW,
    };
    match rustix::fs::open(path, FILE | follow, Mode::empty()) {
        Ok(file) => regular(File::from(file)),
        Err(errno) => {
            let found = fs::symlink_metadata(path)?;
            check_owner(found.uid())?;
            let was_followed = found.is_symlink() && follow.is_empty();
            Err(match found.is_symlink() {
                _ if found.is_file() || was_followed => Refused::Io(errno.into()),
                true => Refused::Link,
                false => Refused::NotAFile,
            })
        }
    }
}

/// Reads a file by its path.
///
/// # Errors
/// The file is missing, not trusted, unreadable, or larger than `most` bytes.
pub fn read(path: &Path, links: Links, most: u64) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    open(path, links)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(Refused::TooLarge(most)) } else { Ok(bytes) }
}

/// Reads the text of a file by its path.
///
/// # Errors
/// Those of [`read`], and for invalid UTF-8.
pub fn read_text(path: &Path, links: Links, most: u64) -> Result<String, Refused> {
    let text = String::from_utf8(read(path, links, most)?);
    text.map_err(|error| Refused::Io(io::Error::new(ErrorKind::InvalidData, error)))
}

fn regular(file: File) -> Result<File, Refused> {
    let found = file.metadata()?;
    check_owner(found.uid())?;
    if !found.is_file() {
        return Err(Refused::NotAFile);
    }
    check(&file, &found)?;
    Ok(file)
}

/// Checks that an opened file belongs to us or root, and that no other user can write to it.
fn check(opened: &File, found: &Metadata) -> Result<(), Refused> {
    check_owner(found.uid())?;
    let (by_group, by_others) = (found.mode() & 0o020 != 0, found.mode() & 0o002 != 0);
    let is_shared = || !is_private_group(found.uid(), found.gid()) || has_access_list(opened);
    if by_others || (by_group && is_shared()) { Err(Refused::Writable) } else { Ok(()) }
}

fn check_owner(owner: u32) -> Result<(), Refused> {
    let is_trusted = owner == 0 || owner == rustix::process::geteuid().as_raw();
    if is_trusted { Ok(()) } else { Err(Refused::Foreign(owner)) }
}

/// Whether the file has an access control list. In that case the group's bits are the upper bound for all entries of
/// the list.
fn has_access_list(opened: &File) -> bool {
    let mut nothing: [u8; 0] = [];
    rustix::fs::fgetxattr(opened, "system.posix_acl_access", &mut nothing).is_ok_and(|length| length > 0)
}

/// Whether a group has no member but the user. Cached for a minute, because users with such a group have many files
/// that the group can write to.
fn is_private_group(user: u32, group: u32) -> bool {
    const BELIEVED_FOR: Duration = Duration::from_secs(60);
    static KNOWN: Mutex<BTreeMap<(u32, u32), Looked>> = Mutex::new(BTreeMap::new());
    struct Looked {
        at: Instant,
        is_private: bool,
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(looked) = known.get(&(user, group)).filter(|looked| looked.at.elapsed() < BELIEVED_FOR) {
        return looked.is_private;
    }
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let is_private = holds_only(user, group, &text("/etc/passwd"), &text("/etc/group"));
    known.insert((user, group), Looked { at: Instant::now(), is_private });
    is_private
}

/// Evaluates passwd(5) and group(5). If neither lists the ids, as in a container or with a directory service, equal
/// ids count as a private group.
fn holds_only(user: u32, group: u32, passwd: &str, groups: &str) -> bool {
    let number = |field: Option<&str>| field.and_then(|field| field.parse::<u32>().ok());
    let mut name = None;
    for line in passwd.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let (uid, gid) = (number(fields.get(2).copied()), number(fields.get(3).copied()));
        match (uid == Some(user), gid == Some(group)) {
            (true, true) => name = fields.first().copied(),
            (true, false) | (false, true) => return false,
            (false, false) => {}
        }
    }
    let mut is_listed = false;
    for line in groups.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if number(fields.get(2).copied()) != Some(group) {
            continue;
        }
        is_listed = true;
        let mut members = fields.get(3).copied().unwrap_or_default().split(',').filter(|it| !it.is_empty());
        if name.is_none() || fields.first().copied() != name || members.any(|member| Some(member) != name) {
            return false;
        }
    }
    is_listed || user == group
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    use super::*;

    /// Expects this reason for a refusal.
    #[track_caller]
    fn refused(path: &Path, links: Links, why: &str) {
        let message = open(path, links).unwrap_err().to_string();
        assert!(message.contains(why), "{}: {message}", path.display());
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn home() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        fs::write(&file, "text").unwrap();
        mode(&file, 0o644);
        (home, file)
    }

    #[test]
    fn only_small_regular_files_are_read_without_blocking() {
        let (home, file) = home();
        assert_eq!(read(&file, Links::Refused, 4).unwrap(), b"text");
        assert!(matches!(read(&file, Links::Refused, 3), Err(Refused::TooLarge(3))));
        let at = |name: &str| home.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), 0o600.into()).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        symlink("file", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        refused(&at("fifo"), Links::OfOurs, "not a regular file");
        refused(home.path(), Links::OfOurs, "not a regular file");
        refused(&at("socket"), Links::OfOurs, "not a regular file");
        refused(&at("zero"), Links::Refused, "a symlink");
        refused(&at("zero"), Links::OfOurs, "not a regular file");
        refused(&at("link"), Links::Refused, "a symlink");
        assert_eq!(read_text(&at("link"), Links::OfOurs, 100).unwrap(), "text");
        assert!(open(&at("none"), Links::Refused).unwrap_err().is_absence());
        assert!(open(&at("file/none"), Links::Refused).unwrap_err().is_absence());
        assert!(open(&at("dangling"), Links::OfOurs).is_err());
        fs::write(&file, [0xff]).unwrap();
        assert!(read_text(&file, Links::Refused, 100).is_err());
    }

    #[test]
    fn files_and_folders_writable_by_others_are_rejected() {
        let (home, file) = home();
        mode(&file, 0o666);
        refused(&file, Links::Refused, "other users can write to it");
        mode(&file, 0o644);
        let folder = home.path().join("folder");
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/file"), "text").unwrap();
        let read = |name: &str| Folder::open(&folder)?.file(Path::new(name)).map(drop);
        assert!(read("inner/file").is_ok());
        for name in ["inner", ""] {
            mode(&folder.join(name), 0o777);
            assert!(matches!(read("inner/file"), Err(Refused::Writable)), "{name}");
            mode(&folder.join(name), 0o755);
        }
        assert!(matches!(read("../file"), Err(Refused::NotAFolder)));
        symlink("inner", folder.join("link")).unwrap();
        symlink("inner/file", folder.join("linked")).unwrap();
        assert!(matches!(read("link/file"), Err(Refused::Link)));
        assert!(matches!(read("linked"), Err(Refused::Link)));
        assert!(matches!(Folder::open(&folder.join("link")), Err(Refused::Link)));
        assert!(matches!(Folder::open(&file), Err(Refused::NotAFolder)));
    }

    #[test]
    fn files_and_folders_of_another_user_are_rejected() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only the superuser can give files away");
            return;
        }
        let (home, file) = home();
        let give = |path: &Path| std::os::unix::fs::lchown(path, Some(65_534), None).unwrap();
        give(&file);
        refused(&file, Links::Refused, "belongs to user 65534");
        // Only the owner counts, whatever its type.
        let at = |name: &str| home.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), 0o600.into()).unwrap();
        symlink("file", at("link")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for name in ["fifo", "link", "folder"] {
            give(&at(name));
            refused(&at(name), Links::Refused, "belongs to user 65534");
            refused(&at(name), Links::OfOurs, "belongs to user 65534");
            assert!(matches!(Folder::open(&at(name)), Err(Refused::Foreign(65_534))), "{name}");
        }
        // Our link to another user's file.
        symlink("file", at("ours")).unwrap();
        refused(&at("ours"), Links::OfOurs, "belongs to user 65534");
        // A group with several members.
        chown(&file, Some(0), Some(65_534)).unwrap();
        mode(&file, 0o664);
        refused(&file, Links::Refused, "other users can write to it");
    }

    #[test]
    fn a_group_is_private_only_if_the_owner_is_its_sole_member() {
        const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n\
                              bob:x:1001:100::/home/bob:/bin/sh\ncas:x:1002:1002::/:/bin/sh\neve:x:1003:1004::/:/bin/sh\n";
        const GROUP: &str = "root:x:0:\nusers:x:100:\nann:x:1000:ann\ncas:x:1002:ann,cas\nevil:x:1004:\n";
        for (user, group, expected) in [
            (0, 0, true),
            (1000, 1000, true),
            // The group has other members, is not the user's own, or has another name.
            (1002, 1002, false),
            (1001, 100, false),
            (1001, 1001, false),
            (1003, 1004, false),
            (1000, 1002, false),
            // Neither is listed.
            (2000, 2000, true),
            (2000, 2001, false),
            (2000, 1000, false),
            (1000, 2000, false),
        ] {
            assert_eq!(holds_only(user, group, PASSWD, GROUP), expected, "{user} {group}");
        }
        assert!(!holds_only(1000, 1000, &format!("{PASSWD}two:x:1005:1000::/:/bin/sh\n"), GROUP));
        assert!(holds_only(1000, 1000, "", "") && !holds_only(1000, 1000, "", GROUP));
    }
}
