//! The socket: inherited from the service manager, or made here.
//!
//! A socket file that refuses connections was left by a daemon that died; only while the instance lock is held may
//! it be removed, so a live daemon's socket never is. An inherited socket belongs to who made it and stays.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use interprocess::local_socket::tokio::Listener;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use interprocess::os::unix::local_socket::ListenerOptionsExt;
use interprocess::os::unix::uds_local_socket::tokio::Listener as UnixListener;

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
    #[error("cannot use the socket given by the service manager")]
    Inherited(#[source] io::Error),
}

/// Where connections come in.
pub struct SocketListener {
    pub listener: Listener,
    pub origin: SocketOrigin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOrigin {
    Inherited,
    Own,
}

/// Opens the door. Must be called inside the runtime, with the instance lock held.
///
/// # Errors
/// When the socket can be neither inherited nor made.
pub fn open(path: &Path) -> Result<SocketListener, ListenError> {
    if let Some(fd) = inherited().map_err(ListenError::Inherited)? {
        let listener = UnixListener::try_from(fd).map_err(ListenError::Inherited)?;
        return Ok(SocketListener { listener: listener.into(), origin: SocketOrigin::Inherited });
    }
    let failed = |source| ListenError::Bind { path: path.to_owned(), source };
    match std::fs::remove_file(path) {
        // The lock is ours, so whoever made it is gone.
        Ok(()) => tracing::info!("removed the socket of a daemon that died"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let name = path.to_fs_name::<GenericFilePath>().map_err(failed)?;
    let options = ListenerOptions::new().name(name).reclaim_name(false);
    // macOS knows no mode before bind; there the folder's 0700 and the peer check keep others out.
    let options = if cfg!(target_os = "macos") { options } else { options.mode(0o600) };
    let listener = options.create_tokio().map_err(failed)?;
    Ok(SocketListener { listener, origin: SocketOrigin::Own })
}

/// The socket that systemd passes on (sd_listen_fds(3)), if there is one.
#[cfg(not(target_os = "macos"))]
fn inherited() -> io::Result<Option<OwnedFd>> {
    Ok(sd_notify::listen_fds()?.next().map(own))
}

/// The socket of that name in our launch agent (launch_activate_socket(3)); none where launchd did not start us.
#[cfg(target_os = "macos")]
fn inherited() -> io::Result<Option<OwnedFd>> {
    use rustix::io::{FdFlags, fcntl_setfd};
    match raunch::activate_socket(LAUNCHD_SOCKET) {
        Ok(sockets) => {
            // What is more than one is closed, for nobody would answer there.
            let socket = sockets.into_iter().map(own).next();
            // launchd leaves it open for every program that we start.
            socket.iter().try_for_each(|socket| fcntl_setfd(socket, FdFlags::CLOEXEC))?;
            Ok(socket)
        }
        Err(raunch::Error::NotManaged | raunch::Error::NotInPlist) => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Takes an inherited descriptor over. The only unsafe code of the daemon.
#[allow(unsafe_code)]
fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the service manager's protocol says that this descriptor is open and ours alone; `open` is called
    // once, before anything else could have taken it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
