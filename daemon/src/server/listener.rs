//! Opens the socket: inherited from the service manager, or created here.
//!
//! A socket file that refuses connections was left behind by a daemon that died. It is removed only while the instance
//! lock is held, so a live daemon's socket is never removed. An inherited socket belongs to its creator and stays.
//!
//! A socket's file can vanish while its daemon runs: a logout clears the runtime folder, or somebody deletes the file
//! or changes its mode. Then nobody can reach the daemon, so it checks its [`Door`] and reopens it.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use interprocess::local_socket::tokio::Listener;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use interprocess::os::unix::local_socket::ListenerOptionsExt;
use interprocess::os::unix::uds_local_socket::tokio::Listener as UnixListener;

use recall_protocol::client::{ConnectError, Connection};
use recall_protocol::folder::{self, FolderError};
use recall_protocol::frame::Deadline;

use recall_system::holding::FileIdentity;

/// The socket's name in our launch agent.
#[cfg(any(test, target_os = "macos"))]
pub(crate) const LAUNCHD_SOCKET: &str = "recall";

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {}", path.display())]
    Bind {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Folder(FolderError),
    #[error("cannot use the socket given by the service manager")]
    Inherited(#[source] io::Error),
}

/// A socket that accepts connections.
pub struct SocketListener {
    pub listener: Listener,
    pub door: Door,
}

/// The file of a socket.
#[derive(Clone, Debug)]
pub struct Door {
    pub path: PathBuf,
    pub origin: SocketOrigin,
    /// `None` if the file did not exist when the socket was inherited.
    identity: Option<FileIdentity>,
}

/// The state of a socket's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorState {
    Open,
    /// The file is missing or cannot be used.
    Gone,
    /// Another process is listening on the socket.
    Taken,
}

/// How long a process at our path may take to accept.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);

impl Door {
    fn new(path: &Path, origin: SocketOrigin) -> Self {
        let identity = path.symlink_metadata().ok().map(|found| FileIdentity::of(&found));
        Self { path: path.to_owned(), origin, identity }
    }

    /// Checks the socket's file, and restores the modes of the file and its folder. Blocks.
    pub fn look(&self) -> DoorState {
        if let Some(folder) = self.path.parent() {
            make_usable(folder);
        }
        let Ok(found) = self.path.symlink_metadata() else { return DoorState::Gone };
        if self.identity != Some(FileIdentity::of(&found)) {
            return if is_live(&self.path) { DoorState::Taken } else { DoorState::Gone };
        }
        if self.origin == SocketOrigin::Inherited {
            return DoorState::Open;
        }
        let is_ours = found.uid() == rustix::process::geteuid().as_raw();
        let is_usable = found.mode() & 0o600 == 0o600
            || std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(0o600)).is_ok();
        if is_ours && is_usable { DoorState::Open } else { DoorState::Gone }
    }

    /// Removes the file if it is still the one created here.
    pub fn remove(&self) {
        let found = self.path.symlink_metadata().ok().map(|found| FileIdentity::of(&found));
        if self.origin == SocketOrigin::Own && found == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes a folder private, and accessible to us.
fn make_usable(folder: &Path) {
    let _ = folder::secure(folder);
    if let Ok(found) = folder.symlink_metadata()
        && found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & 0o700 != 0o700
    {
        let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    }
}

/// Whether a process listens there. One that does not respond in time counts as listening.
fn is_live(path: &Path) -> bool {
    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    let connected = || Connection::open_socket(path, Deadline::after(ANSWERS_WITHIN));
    is_socket && !matches!(connected(), Err(ConnectError::NothingListens))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOrigin {
    Inherited,
    Own,
}

/// Opens the socket. Must be called inside the runtime, with the instance lock held.
///
/// # Errors
/// Fails when the socket can be neither inherited nor created.
pub fn open(path: &Path) -> Result<SocketListener, ListenError> {
    if let Some(fd) = inherited().map_err(ListenError::Inherited)? {
        let listener = UnixListener::try_from(fd).map_err(ListenError::Inherited)?;
        return Ok(SocketListener {
            listener: listener.into(),
            door: Door::new(path, SocketOrigin::Inherited),
        });
    }
    bind(path)
}

/// Creates the socket again after its file vanished. Must be called inside the runtime, with the instance lock held.
///
/// # Errors
/// Fails when the folder cannot be created or the socket cannot be bound.
pub fn reopen(path: &Path) -> Result<SocketListener, ListenError> {
    if let Some(folder) = path.parent() {
        folder::create_private(folder).map_err(ListenError::Folder)?;
    }
    bind(path)
}

fn bind(path: &Path) -> Result<SocketListener, ListenError> {
    let failed = |source| ListenError::Bind { path: path.to_owned(), source };
    match std::fs::remove_file(path) {
        // We hold the lock, so the daemon that created it is gone.
        Ok(()) => tracing::info!("removed a dead daemon's socket"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let name = path.to_fs_name::<GenericFilePath>().map_err(failed)?;
    let options = ListenerOptions::new().name(name).reclaim_name(false);
    // macOS cannot set the mode before bind. There the folder's mode 0700 and the peer check keep others out.
    let options = if cfg!(target_os = "macos") { options } else { options.mode(0o600) };
    let listener = options.create_tokio().map_err(failed)?;
    Ok(SocketListener { listener, door: Door::new(path, SocketOrigin::Own) })
}

/// Returns the socket that systemd passes on (sd_listen_fds(3)), if any.
#[cfg(not(target_os = "macos"))]
fn inherited() -> io::Result<Option<OwnedFd>> {
    Ok(sd_notify::listen_fds()?.next().map(own))
}

/// Returns the socket of that name in our launch agent (launch_activate_socket(3)). `None` if launchd did not start
/// us.
#[cfg(target_os = "macos")]
fn inherited() -> io::Result<Option<OwnedFd>> {
    use rustix::io::{FdFlags, fcntl_setfd};
    match raunch::activate_socket(LAUNCHD_SOCKET) {
        Ok(sockets) => {
            // Extra sockets are closed, because nobody would respond on them.
            let socket = sockets.into_iter().map(own).next();
            // launchd leaves it inheritable by every program that we start, so it is closed on exec.
            socket.iter().try_for_each(|socket| fcntl_setfd(socket, FdFlags::CLOEXEC))?;
            Ok(socket)
        }
        Err(raunch::Error::NotManaged | raunch::Error::NotInPlist) => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Takes over an inherited descriptor. This is the only unsafe code of the daemon.
#[allow(unsafe_code)]
fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the service manager's protocol says that this descriptor is open and ours alone; `open` is called
    // once, before anything else could have taken it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder of a socket, and the path in it.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("run/recall.sock");
        (home, path)
    }

    #[tokio::test]
    async fn a_deleted_socket_is_reopened() {
        let (_home, path) = place();
        let folder = path.parent().unwrap();
        let opened = reopen(&path).unwrap();
        assert_eq!(opened.door.look(), DoorState::Open);
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(opened.door.look(), DoorState::Gone);
        let again = reopen(&path).unwrap();
        assert_eq!((again.door.look(), opened.door.look()), (DoorState::Open, DoorState::Taken));
        // A daemon that stops removes only what it made.
        opened.door.remove();
        assert!(is_live(&path));
        again.door.remove();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn wrong_socket_modes_are_corrected_and_another_file_is_replaced() {
        let (_home, path) = place();
        let folder = path.parent().unwrap();
        let opened = reopen(&path).unwrap();
        let mode =
            |of: &Path, mode| std::fs::set_permissions(of, std::fs::Permissions::from_mode(mode)).unwrap();
        for (of_file, of_folder) in [(0o000, 0o755), (0o600, 0o000), (0o400, 0o500)] {
            mode(&path, of_file);
            mode(folder, of_folder);
            assert_eq!(opened.door.look(), DoorState::Open);
            let modes = [&*path, folder].map(|of| of.symlink_metadata().unwrap().mode() & 0o777);
            assert_eq!(modes, [0o600, 0o700]);
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        assert_eq!(opened.door.look(), DoorState::Gone);
        assert_eq!(reopen(&path).unwrap().door.look(), DoorState::Open);
    }
}
