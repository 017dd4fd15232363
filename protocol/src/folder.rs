//! Folders that belong to one user alone.
//!
//! Everything recall writes is private, so its folders have mode 0700 and belong to the user. Paths that somebody else
//! could have prepared (a symlink, another user's folder) are refused, not repaired.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags};

use crate::planted::{Fault, planted};

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{} is a symlink; recall's own folders must be real ones", path.display())]
    Symlink { path: PathBuf },
    #[error("{} is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    #[error("{} belongs to user {owner}", path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error("cannot create folder {}", path.display())]
    Create {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write to folder {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot make folder {} private", path.display())]
    Restrict {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no space is left on the disk of {}", path.display())]
    DiskFull { path: PathBuf },
    #[error("the disk quota is used up for {}", path.display())]
    QuotaUsedUp { path: PathBuf },
}

/// What exists at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderState {
    /// Our folder; nobody else has access.
    Private,
    /// Our folder, but its group or others have access.
    Open,
    /// Another user's folder, or one whose metadata cannot be read.
    Foreign,
    Symlink,
    NotAFolder,
    Absent,
}

/// Checks a path without following a final symlink. Costs one system call.
pub fn look(path: &Path) -> FolderState {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => FolderState::Symlink,
        Ok(found) if !found.is_dir() => FolderState::NotAFolder,
        Ok(found) if found.uid() != rustix::process::geteuid().as_raw() => FolderState::Foreign,
        Ok(found) if found.mode() & 0o077 != 0 => FolderState::Open,
        Ok(_) => FolderState::Private,
        Err(error) if error.kind() == io::ErrorKind::NotFound => FolderState::Absent,
        Err(_) => FolderState::Foreign,
    }
}

/// Ensures that `path` is our folder with mode 0700, creating it and its parents if missing.
///
/// The check and the change use the same open descriptor, so nobody can swap the folder in between.
pub fn create_private(path: &Path) -> Result<(), FolderError> {
    let at = || path.to_path_buf();
    if look(path) == FolderState::Absent {
        // XDG requires missing parents to be private too.
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|source| FolderError::Create { path: at(), source })?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | nofollow() | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(errno) => {
            return Err(match look(path) {
                FolderState::Symlink => FolderError::Symlink { path: at() },
                FolderState::NotAFolder => FolderError::NotAFolder { path: at() },
                FolderState::Private | FolderState::Open | FolderState::Foreign | FolderState::Absent => {
                    FolderError::Create { path: at(), source: errno.into() }
                }
            });
        }
    };
    let restrict = |source: rustix::io::Errno| FolderError::Restrict { path: at(), source: source.into() };
    let found = rustix::fs::fstat(&folder).map_err(restrict)?;
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(FolderError::Foreign { path: at(), owner: found.st_uid });
    }
    if found.st_mode & 0o077 != 0 {
        rustix::fs::fchmod(&folder, Mode::RWXU).map_err(restrict)?;
    }
    Ok(())
}

/// Like [`create_private`], but takes only one system call if the folder is already private.
pub fn secure(path: &Path) -> Result<(), FolderError> {
    if look(path) == FolderState::Private { Ok(()) } else { create_private(path) }
}

/// Checks that `path` is writable or can be created. Changes nothing.
///
/// # Errors
/// The error that [`create_private`] or the first write would report.
pub fn check_writable(path: &Path) -> Result<(), FolderError> {
    let at = || path.to_path_buf();
    let enter_and_write = Access::WRITE_OK | Access::EXEC_OK;
    match look(path) {
        FolderState::Private | FolderState::Open => rustix::fs::access(path, enter_and_write)
            .map_err(|errno| FolderError::Write { path: at(), source: errno.into() }),
        FolderState::Absent => {
            let above = path.ancestors().skip(1).find(|above| look(above) != FolderState::Absent);
            rustix::fs::access(above.unwrap_or(Path::new("/")), enter_and_write)
                .map_err(|errno| FolderError::Create { path: at(), source: errno.into() })
        }
        FolderState::Symlink => Err(FolderError::Symlink { path: at() }),
        FolderState::NotAFolder => Err(FolderError::NotAFolder { path: at() }),
        FolderState::Foreign => Err(match fs::symlink_metadata(path) {
            Ok(found) => FolderError::Foreign { path: at(), owner: found.uid() },
            Err(source) => FolderError::Create { path: at(), source },
        }),
    }
}

/// A disk with less free space than this counts as full: an event and its directory entry need about as much.
const ROOM: usize = 16 * 1024;

/// Checks that the folder's disk has room for another file and that the user's quota allows one.
///
/// # Errors
/// [`FolderError::DiskFull`], [`FolderError::QuotaUsedUp`].
pub fn check_room(path: &Path) -> Result<(), FolderError> {
    let above = path.ancestors().find(|above| look(above) != FolderState::Absent);
    let Ok(disk) = rustix::fs::statvfs(above.unwrap_or(Path::new("/"))) else { return Ok(()) };
    let is_root = rustix::process::geteuid().is_root();
    let (blocks, files) = if is_root { (disk.f_bfree, disk.f_ffree) } else { (disk.f_bavail, disk.f_favail) };
    // File systems that create inodes on demand report 0 free of 0.
    let is_full = blocks.saturating_mul(disk.f_frsize) < ROOM as u64 || (disk.f_files > 0 && files == 0);
    if is_full {
        return Err(FolderError::DiskFull { path: path.to_path_buf() });
    }
    match is_within_quota(path) {
        true => Ok(()),
        false => Err(FolderError::QuotaUsedUp { path: path.to_path_buf() }),
    }
}

/// Quotas only show when writing. The test file has no name and vanishes with its descriptor.
#[cfg(target_os = "linux")]
fn is_within_quota(folder: &Path) -> bool {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let written = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)
        .and_then(|file| rustix::io::write(&file, &[0; ROOM]).map(drop));
    written != Err(rustix::io::Errno::DQUOT)
}

/// This system cannot create unnamed files, so the quota is not checked.
#[cfg(not(target_os = "linux"))]
fn is_within_quota(_: &Path) -> bool {
    true
}

/// The flag that refuses to follow a final symlink.
pub(crate) fn nofollow() -> OFlags {
    if planted(Fault::FollowLinks) { OFlags::empty() } else { OFlags::NOFOLLOW }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("exists").permissions().mode() & 0o777
    }

    #[test]
    fn a_new_folder_and_its_parents_are_private() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("a/b");
        create_private(&path).expect("created");
        assert_eq!((mode(&path), mode(&dir.path().join("a"))), (0o700, 0o700));
        create_private(&path).expect("again");
        assert_eq!(look(&path), FolderState::Private);
    }

    #[test]
    fn an_open_folder_is_made_private() {
        let dir = tempfile::tempdir().expect("temp dir");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        assert_eq!(look(dir.path()), FolderState::Open);
        create_private(dir.path()).expect("closed");
        assert_eq!(mode(dir.path()), 0o700);
    }

    #[test]
    fn symlinks_and_files_are_refused() {
        let dir = tempfile::tempdir().expect("temp dir");
        let link = dir.path().join("link");
        fs::create_dir(dir.path().join("real")).expect("mkdir");
        std::os::unix::fs::symlink("real", &link).expect("symlink");
        assert!(matches!(create_private(&link), Err(FolderError::Symlink { .. })));
        std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).expect("symlink");
        assert!(matches!(create_private(&dir.path().join("dangling")), Err(FolderError::Symlink { .. })));
        fs::write(dir.path().join("file"), "").expect("write");
        assert!(matches!(create_private(&dir.path().join("file")), Err(FolderError::NotAFolder { .. })));
        assert!(matches!(create_private(&dir.path().join("file/below")), Err(FolderError::Create { .. })));
    }

    #[test]
    fn an_unwritable_folder_is_reported_without_creating_anything() {
        let dir = tempfile::tempdir().expect("temp dir");
        check_writable(&dir.path().join("a/b")).expect("can be made");
        assert!(!dir.path().join("a").exists(), "nothing was made");
        check_writable(dir.path()).expect("is there");
        fs::write(dir.path().join("file"), "").expect("write");
        let below = check_writable(&dir.path().join("file/below/more"));
        assert!(
            matches!(&below, Err(FolderError::Create { source, .. })
            if source.kind() == io::ErrorKind::NotADirectory),
            "{below:?}"
        );
        // Even root cannot write here.
        let refused = check_writable(Path::new("/proc/1/recall/state"));
        assert!(
            !cfg!(target_os = "linux") || matches!(refused, Err(FolderError::Create { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        // `/` belongs to root. If the test runs as root, it gives a folder away instead.
        let dir = tempfile::tempdir().expect("temp dir");
        let foreign = if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(dir.path(), Some(65534), None).expect("chown");
            dir.path()
        } else {
            Path::new("/")
        };
        assert_eq!(look(foreign), FolderState::Foreign);
        assert!(matches!(create_private(foreign), Err(FolderError::Foreign { .. })));
    }
}
