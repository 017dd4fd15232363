//! The blocking client of the daemon's socket, used by the shim and every command.
//!
//! No call waits past its deadline. The client verifies that the peer runs as the same user before it sends anything,
//! so another user's socket gets no payload.
//!
//! A nonblocking client cannot queue at a Unix socket whose backlog is full. On Linux `connect` then fails with EAGAIN
//! immediately, but the descriptor polls as writable without being connected, and the library reports success. Such a
//! socket has no peer, so the peer check also detects a full backlog, and the client retries until the deadline.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use interprocess::ConnectWaitMode;
use interprocess::local_socket::traits::StreamCommon;
use interprocess::local_socket::{ConnectOptions, GenericFilePath, ToFsName};
use interprocess::os::unix::uds_local_socket::Stream;

use crate::frame::{self, Deadline, FrameError, Frames};
use crate::paths::{Paths, PathsError};
use crate::planted::{Fault, planted};
use crate::wire::{Reply, Request};

/// The pause between two attempts while the backlog is full. Short compared with the shim's 60 ms, long compared with
/// one `accept` of the daemon.
const BACKLOG_PAUSE: Duration = Duration::from_millis(2);
/// Longer waits are split into pieces of this length, because clock arithmetic has a limited range.
const LOOK_UP: Duration = Duration::from_secs(3600);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no socket, or the file is not a listening socket.
    #[error("no daemon is listening")]
    NothingListens,
    /// The daemon does not accept connections fast enough.
    #[error("the daemon did not accept the connection before the deadline")]
    Deadline,
    #[error("the socket belongs to user {uid}")]
    Foreign { uid: u32 },
    /// A sandbox around this process forbids the connection. Agents run commands in such sandboxes.
    #[error("the sandbox around this program forbids the connection")]
    Forbidden,
    #[error(transparent)]
    Paths(#[from] PathsError),
    #[error("cannot connect")]
    Io(#[source] io::Error),
}

/// A connection to a daemon of the same user.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
}

impl Connection {
    /// Connects to the daemon's usual socket or, failing that, to the one that the lock file names.
    pub fn open(paths: &Paths, deadline: Deadline) -> Result<Self, ConnectError> {
        let first = match paths.socket() {
            Ok(socket) => Self::open_socket(socket, deadline),
            Err(error) => Err(error.into()),
        };
        match first {
            Err(error @ (ConnectError::NothingListens | ConnectError::Paths(_))) => {
                match paths.socket_in_lock_file() {
                    Some(socket) => Self::open_socket(&socket, deadline),
                    None => Err(error),
                }
            }
            result => result,
        }
    }

    /// Connects to one socket and checks its peer.
    pub fn open_socket(socket: &Path, deadline: Deadline) -> Result<Self, ConnectError> {
        let name = socket.to_fs_name::<GenericFilePath>().map_err(ConnectError::Io)?;
        let options =
            ConnectOptions::new().name(name).wait_mode(ConnectWaitMode::Deferred).nonblocking_stream(true);
        loop {
            let left = deadline.remaining().ok_or(ConnectError::Deadline)?;
            let stream: Stream = options.connect_sync_as().map_err(|error| match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::NotADirectory => {
                    ConnectError::NothingListens
                }
                ErrorKind::PermissionDenied if is_sandbox(&error, socket) => ConnectError::Forbidden,
                _ => ConnectError::Io(error),
            })?;
            match stream.peer_creds() {
                Ok(peer) => {
                    let uid = peer.euid().ok_or_else(|| ConnectError::Io(ErrorKind::Unsupported.into()))?;
                    if uid != rustix::process::geteuid().as_raw() && !planted(Fault::AnyDaemon) {
                        return Err(ConnectError::Foreign { uid });
                    }
                    return Ok(Self { stream });
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::NotConnected) =>
                {
                    std::thread::sleep(BACKLOG_PAUSE.min(left));
                }
                Err(error) => return Err(ConnectError::Io(error)),
            }
        }
    }

    /// Sends one request and waits for its reply.
    pub fn ask(&mut self, request: &Request, deadline: Deadline) -> Result<Reply, FrameError> {
        self.ask_frame(&frame::encode_frame(request)?, deadline)
    }

    /// Like [`Self::ask`], for a request that is already encoded.
    pub fn ask_frame(&mut self, request: &[u8], deadline: Deadline) -> Result<Reply, FrameError> {
        frame::write_frame(&mut self.stream, request, deadline)?;
        frame::read_frame(&mut self.stream, deadline)
    }

    /// Sends a request that is answered with a stream.
    pub fn follow(mut self, request: &Request, deadline: Deadline) -> Result<Answers, FrameError> {
        frame::write_frame(&mut self.stream, &frame::encode_frame(request)?, deadline)?;
        Ok(Answers { stream: self.stream, frames: Frames::default() })
    }
}

/// Whether a sandbox caused the refusal. A socket's file mode fails with a different error, and never blocks the
/// owner.
fn is_sandbox(error: &io::Error, socket: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let is_own = || socket.metadata().is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw());
    error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) || is_own()
}

/// The stream of answers to a request.
#[derive(Debug)]
pub struct Answers {
    stream: Stream,
    frames: Frames,
}

impl Answers {
    /// Waits for the next answer, without a deadline.
    pub fn wait(&mut self) -> Result<Reply, FrameError> {
        loop {
            match self.frames.next(&mut self.stream, Deadline::after(LOOK_UP)) {
                Err(FrameError::Deadline) => {}
                next => return next,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread;

    use super::*;
    use crate::query::{Ping, Query};

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn a_connection_returns_the_daemons_reply() {
        let dir = tempfile::tempdir().expect("temp dir");
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).expect("bind");
        let daemon = thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("accept");
            let mut request = [0; 13];
            client.read_exact(&mut request).expect("request");
            client.write_all(&frame::encode_frame(&Reply::Busy).expect("fits")).expect("answer");
            frame::decode_frame::<Request>(&request).expect("decodes")
        });
        let mut connection = Connection::open_socket(&socket, Deadline::after(SOON)).expect("connects");
        let reply =
            connection.ask(&Request::Query(Query::Ping(Ping)), Deadline::after(SOON)).expect("answer");
        assert_eq!(reply, Reply::Busy);
        assert_eq!(daemon.join().expect("daemon"), Request::Query(Query::Ping(Ping)));
    }

    #[test]
    fn connecting_without_a_listener_reports_that_nothing_listens() {
        let dir = tempfile::tempdir().expect("temp dir");
        let check = |socket: &Path| {
            let result = Connection::open_socket(socket, Deadline::after(SOON));
            assert!(matches!(result, Err(ConnectError::NothingListens)), "{result:?}");
        };
        check(&dir.path().join("absent"));
        check(&dir.path().join("no/folder"));
        let stale = dir.path().join("stale");
        drop(UnixListener::bind(&stale).expect("bind"));
        check(&stale);
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("write");
        check(&file);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn connecting_waits_for_a_full_backlog_until_the_deadline() {
        let dir = tempfile::tempdir().expect("temp dir");
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).expect("bind");
        // A second listen() shrinks the backlog to one waiting connection.
        rustix::net::listen(&listener, 0).expect("listen");
        let _waiting = UnixStream::connect(&socket).expect("first in line");
        let result = Connection::open_socket(&socket, Deadline::after(Duration::from_millis(10)));
        assert!(matches!(result, Err(ConnectError::Deadline)), "{result:?}");

        let daemon = thread::spawn(move || {
            listener.accept().expect("first");
            listener.accept().expect("second");
        });
        Connection::open_socket(&socket, Deadline::after(SOON)).expect("connects once there is room");
        daemon.join().expect("daemon");
    }

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn the_client_finds_a_moved_socket_through_the_lock_file() {
        use crate::paths::LockNote;

        let dir = tempfile::tempdir().expect("temp dir");
        let home = dir.path().join("home");
        let paths = Paths::from_variables(&|name| (name == "RECALL_HOME").then(|| home.clone().into()))
            .expect("paths");
        paths.create_folders().expect("folders");
        let result = Connection::open(&paths, Deadline::after(SOON));
        assert!(matches!(result, Err(ConnectError::NothingListens)), "{result:?}");
        let socket = dir.path().join("elsewhere");
        let _listener = UnixListener::bind(&socket).expect("bind");
        std::fs::write(paths.lock_file(), LockNote { pid: 1, socket }.to_bytes()).expect("write");
        Connection::open(&paths, Deadline::after(SOON)).expect("connects");
    }
}
