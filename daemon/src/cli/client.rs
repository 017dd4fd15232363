//! The command line's connection to the daemon.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use recall_protocol::client::{Answers, ConnectError, Connection};
use recall_protocol::environment::{DAEMON_SETTINGS, stays};
use recall_protocol::frame::Deadline;
use recall_protocol::paths::Paths;
use recall_protocol::query::Follow;
use recall_protocol::search_path;
use recall_protocol::wire::{Deliver, Reply, Request as Frame};

use super::failure::Failure;
use super::in_the_way::{InTheWay, Who, in_the_way};
use super::{keeping, terminal};
use recall_app::requests::Request;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The timeout of work that takes minutes, such as a backup or forgetting.
pub const WORK_WITHIN: Duration = Duration::from_secs(330);
/// The timeout of a flush, which waits for compressors and the index. The daemon gives up earlier.
pub const FLUSH_WITHIN: Duration = Duration::from_secs(930);
/// The time limit for a round with the remotes: longer than the daemon's own, which explains itself.
pub const ROUND_WITHIN: Duration = Duration::from_secs(630);
/// The time limit for quick answers: a status line, a completion.
const SOON: Duration = Duration::from_millis(100);
const START_WITHIN: Duration = Duration::from_secs(5);
/// A daemon that is starting or ending has responded or is gone after this long.
const GIVES_WAY_WITHIN: Duration = Duration::from_millis(500);
const START_POLL: Duration = Duration::from_millis(25);

/// Whether a command may start the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    IfNeeded,
    Never,
}

/// A connection to the daemon.
pub struct Client {
    connection: Connection,
}

/// The raw answer to a request.
pub struct Answer<R: Request> {
    /// JSON for scripts.
    pub bytes: Vec<u8>,
    request: PhantomData<R>,
}

impl<R: Request> Answer<R> {
    /// Parses the answer unchanged, for files. Fails like [`Self::read`].
    pub fn unchanged(&self) -> anyhow::Result<R::Response> {
        serde_json::from_slice(&self.bytes).context("Cannot read the daemon's answer")
    }

    /// Parses the answer and removes terminal control characters from its texts. Fails if a daemon of another version
    /// answers in another format.
    pub fn read(&self) -> anyhow::Result<R::Response> {
        let mut value = serde_json::from_slice(&self.bytes).context("Cannot read the daemon's answer")?;
        terminal::defuse(&mut value);
        serde_json::from_value(value).context("Cannot read the daemon's answer")
    }
}

impl Client {
    /// Connects to the daemon. Fails with exit code 3 if no daemon responds.
    pub fn connect(start: Start) -> anyhow::Result<Self> {
        let paths = Paths::from_env().context("Cannot find recall's folders")?;
        Self::connect_at(&paths, start)
    }

    pub fn connect_at(paths: &Paths, start: Start) -> anyhow::Result<Self> {
        match Connection::open(paths, Deadline::after(CONNECT_WITHIN)) {
            Ok(connection) => Ok(Self { connection }),
            Err(ConnectError::NothingListens) if start == Start::IfNeeded => start_daemon(paths),
            Err(error) => Err(unreachable(&error, paths)),
        }
    }

    pub fn ask<R: Request>(&mut self, request: R) -> anyhow::Result<Answer<R>> {
        self.ask_within(request, ANSWER_WITHIN)
    }

    /// Sends an event. Every reply is a success.
    pub fn deliver(&mut self, deliver: &Deliver) -> anyhow::Result<Reply> {
        let request = Frame::Deliver(deliver.clone());
        self.connection.ask(&request, Deadline::after(ANSWER_WITHIN)).map_err(|error| {
            Failure::unreachable(format!("The daemon did not respond: {error}"))
                .hint("Run the same command again: it continues where it stopped.")
                .into()
        })
    }

    /// Starts a request that gets a stream of answers.
    pub fn follow(self, request: Follow) -> anyhow::Result<Answers> {
        let request = Frame::Query(request.into());
        self.connection.follow(&request, Deadline::after(ANSWER_WITHIN)).context("Cannot ask the daemon")
    }

    pub fn ask_within<R: Request>(&mut self, request: R, within: Duration) -> anyhow::Result<Answer<R>> {
        let reply =
            self.connection.ask(&Frame::Query(request.into()), Deadline::after(within)).map_err(|error| {
                Failure::unreachable(format!("The daemon did not respond: {error}"))
                    .hint("Run `recall doctor`, or see the daemon's log.")
            })?;
        match reply {
            Reply::Json(bytes) => Ok(Answer { bytes, request: PhantomData }),
            Reply::Failed { kind, what, hint } => Err(Failure::refused(kind, what).hint(hint).into()),
            Reply::Version { min, max } => Err(Failure::unreachable(format!(
                "The daemon is of a different version (protocol {min} to {max})"
            ))
            .hint("Restart the service, or stop the daemon with the `recall` that started it.")
            .into()),
            Reply::ShuttingDown | Reply::Busy => {
                Err(Failure::unreachable("The daemon is busy or shutting down")
                    .hint("Try again in a moment.")
                    .into())
            }
            other => Err(Failure::failed(format!("Unexpected answer from the daemon: {other:?}")).into()),
        }
    }
}

/// A connection for quick questions: it starts nothing, and all its answers together take at most [`soon`].
pub struct Soon {
    connection: Connection,
    deadline: Deadline,
}

/// Returns [`SOON`], or the time in `RECALL_ANSWER_MS`, as for the shim. Slow machines need more time.
fn soon() -> Duration {
    let set = std::env::var("RECALL_ANSWER_MS").ok().and_then(|text| text.parse().ok());
    set.map_or(SOON, Duration::from_millis)
}

impl Soon {
    /// Connects. Fails if nobody accepts the connection in time.
    pub fn connect() -> Result<Self, ConnectError> {
        let paths = Paths::from_env()?;
        let deadline = Deadline::after(soon());
        Ok(Self { connection: Connection::open(&paths, deadline)?, deadline })
    }

    /// Sends a request. `None` if there is no answer in time, or an unexpected one.
    pub fn ask<R: Request>(&mut self, request: R) -> Option<R::Response> {
        let frame = Frame::Query(request.into());
        let Reply::Json(bytes) = self.connection.ask(&frame, self.deadline).ok()? else { return None };
        Answer::<R> { bytes, request: PhantomData }.read().ok()
    }
}

fn unreachable(error: &ConnectError, paths: &Paths) -> anyhow::Error {
    let failure = match error {
        ConnectError::NothingListens => Failure::unreachable("No daemon is running")
            .hint("It starts with an agent's next hook, or run `recall daemon`."),
        ConnectError::Foreign { uid } => {
            Failure::unreachable(format!("The socket belongs to another user (uid {uid})"))
                .hint(format!("Nothing was sent. Remove the socket in {}.", paths.runtime_dir().display()))
        }
        ConnectError::Forbidden => {
            let socket =
                paths.socket().map_or_else(|_| paths.runtime_dir().into(), |socket| socket.to_owned());
            Failure::unreachable("The sandbox around this command forbids the connection to the daemon").hint(
                format!("Run the command outside of it, or allow it to connect to {}.", socket.display()),
            )
        }
        ConnectError::Deadline => Failure::unreachable("The daemon does not answer")
            .hint("Run `recall doctor`, or see the daemon's log."),
        other => Failure::unreachable(format!("Cannot reach the daemon: {other}"))
            .hint("Run `recall doctor` for details."),
    };
    failure.into()
}

/// Starts a daemon that outlives this command, and waits until it responds.
fn start_daemon(paths: &Paths) -> anyhow::Result<Client> {
    let deadline = Instant::now() + START_WITHIN;
    let mut child = spawn_daemon()?;
    let mut left_at = None;
    loop {
        match Connection::open(paths, Deadline::after(CONNECT_WITHIN)) {
            Ok(connection) => return Ok(Client { connection }),
            Err(ConnectError::NothingListens) if Instant::now() < deadline => {}
            Err(ConnectError::NothingListens) => {
                return Err(not_started(paths).unwrap_or_else(|| no_daemon(paths)));
            }
            Err(error) => return Err(unreachable(&error, paths)),
        }
        match child.try_wait()? {
            None => {}
            // Another daemon was faster and will respond, or is about to end.
            Some(status) if status.success() => {
                let left = left_at.get_or_insert_with(Instant::now).elapsed();
                if left >= GIVES_WAY_WITHIN {
                    match in_the_way(paths) {
                        Some(InTheWay { who: Who::Other, .. }) => {
                            return Err(not_started(paths).unwrap_or_else(|| no_daemon(paths)));
                        }
                        _ => child = spawn_daemon()?,
                    }
                    left_at = None;
                }
            }
            Some(status) => return Err(failed_start(status, paths)),
        }
        std::thread::sleep(START_POLL);
    }
}

fn spawn_daemon() -> anyhow::Result<Child> {
    use std::os::unix::process::CommandExt;
    let program = this_program()?;
    Command::new(&program)
        .arg("daemon")
        // A shell may contain keys, and an agent's commands have project folders in their PATH.
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(stays)))
        .envs(DAEMON_SETTINGS)
        .env("PATH", search_path::of_process())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .spawn()
        .with_context(|| format!("Cannot start {} daemon", program.display()))
}

/// Explains why a daemon ended immediately.
fn failed_start(status: ExitStatus, paths: &Paths) -> anyhow::Error {
    if let Some(error) = keeping::obstacle(paths) {
        return Failure::unreachable(format!("The daemon cannot start: {}", keeping::reason(&error)))
            .hint("Make that folder yours and writable, or set RECALL_HOME to another one.")
            .into();
    }
    not_started(paths).unwrap_or_else(|| {
        Failure::unreachable(format!("The daemon failed to start ({status})"))
            .hint("Run `recall daemon` in a terminal to see why.")
            .into()
    })
}

/// Explains that another process holds the data folder.
fn not_started(paths: &Paths) -> Option<anyhow::Error> {
    let InTheWay { what, hint, .. } = in_the_way(paths)?;
    Some(Failure::unreachable(format!("The daemon cannot start: {what}")).hint(hint).into())
}

fn no_daemon(paths: &Paths) -> anyhow::Error {
    unreachable(&ConnectError::NothingListens, paths)
}

pub fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("Cannot find recall's own program")
}

/// Returns the current folder, or "/" if it no longer exists.
pub fn this_folder() -> String {
    std::env::current_dir().map_or_else(|_| "/".to_owned(), |folder| folder.to_string_lossy().into_owned())
}
