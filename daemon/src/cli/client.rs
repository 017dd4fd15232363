//! Talking to the daemon from the command line.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use recall_protocol::client::{Answers, ConnectError, Connection};
use recall_protocol::environment::DAEMON_SETTINGS;
use recall_protocol::frame::Deadline;
use recall_protocol::paths::Paths;
use recall_protocol::query::Follow;
use recall_protocol::search_path;
use recall_protocol::wire::{Reply, Request as Frame};

use super::failure::Failure;
use super::terminal;
use crate::server::requests::Request;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A flush waits for compressors; the daemon gives up before this.
pub const FLUSH_WITHIN: Duration = Duration::from_secs(330);
const START_WITHIN: Duration = Duration::from_secs(5);
const START_POLL: Duration = Duration::from_millis(25);

/// Whether a command may start a daemon that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    IfNeeded,
    Never,
}

/// An open line to the daemon.
pub struct Client {
    connection: Connection,
}

/// The answer to a request, as it came.
pub struct Answer<R: Request> {
    /// JSON, for programs.
    pub bytes: Vec<u8>,
    request: PhantomData<R>,
}

impl<R: Request> Answer<R> {
    /// The answer as people may read it: stored texts without what would steer a terminal.
    ///
    /// # Errors
    /// When the daemon is of another version and answers in another shape.
    pub fn read(&self) -> anyhow::Result<R::Response> {
        let mut value = serde_json::from_slice(&self.bytes).context("reading the daemon's answer")?;
        terminal::defuse(&mut value);
        serde_json::from_value(value).context("reading the daemon's answer")
    }
}

impl Client {
    /// # Errors
    /// When no daemon answers; a [`Failure`] with exit code 3.
    pub fn connect(start: Start) -> anyhow::Result<Self> {
        let paths = Paths::from_env().context("finding recall's folders")?;
        Self::connect_at(&paths, start)
    }

    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_at(paths: &Paths, start: Start) -> anyhow::Result<Self> {
        match Connection::open(paths, Deadline::after(CONNECT_WITHIN)) {
            Ok(connection) => Ok(Self { connection }),
            Err(ConnectError::NothingListens) if start == Start::IfNeeded => start_daemon(paths),
            Err(error) => Err(unreachable(&error, paths)),
        }
    }

    /// # Errors
    /// When the daemon refuses, or does not answer.
    pub fn ask<R: Request>(&mut self, request: R) -> anyhow::Result<Answer<R>> {
        self.ask_within(request, ANSWER_WITHIN)
    }

    /// Asks what is answered again and again.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    pub fn follow(self, request: Follow) -> anyhow::Result<Answers> {
        let request = Frame::Query(request.into());
        self.connection.follow(&request, Deadline::after(ANSWER_WITHIN)).context("asking the daemon")
    }

    /// # Errors
    /// As [`Client::ask`].
    pub fn ask_within<R: Request>(&mut self, request: R, within: Duration) -> anyhow::Result<Answer<R>> {
        let reply =
            self.connection.ask(&Frame::Query(request.into()), Deadline::after(within)).map_err(|error| {
                Failure::unreachable(format!("The daemon gave no answer: {error}"))
                    .hint("Run `recall doctor` to see what is wrong; the daemon's log says more.")
            })?;
        match reply {
            Reply::Json(bytes) => Ok(Answer { bytes, request: PhantomData }),
            Reply::Failed { kind, what, hint } => Err(Failure::refused(kind, what).hint(hint).into()),
            Reply::Version { min, max } => Err(Failure::unreachable(format!(
                "The daemon speaks protocol {min} to {max}, this program another"
            ))
            .hint(
                "Stop it with the `recall` it belongs to, or restart the service: it is of another version.",
            )
            .into()),
            Reply::ShuttingDown | Reply::Busy => Err(Failure::unreachable("The daemon is busy or stopping")
                .hint("Try again in a moment.")
                .into()),
            other => {
                Err(Failure::failed(format!("The daemon gave an answer nobody asked for: {other:?}")).into())
            }
        }
    }
}

fn unreachable(error: &ConnectError, paths: &Paths) -> anyhow::Error {
    let failure = match error {
        ConnectError::NothingListens => Failure::unreachable("No daemon is running")
            .hint("Agents start it with their next hook; start it by hand with `recall daemon`."),
        ConnectError::Foreign { uid } => {
            Failure::unreachable(format!("The socket belongs to user {uid}, so nothing was sent"))
                .hint(format!("Somebody put a socket in {}; remove it.", paths.runtime_dir().display()))
        }
        ConnectError::Deadline => Failure::unreachable("The daemon does not answer")
            .hint("Run `recall doctor` to see what is wrong; the daemon's log says more."),
        other => Failure::unreachable(format!("Cannot reach the daemon: {other}"))
            .hint("Run `recall doctor` to see what is wrong."),
    };
    failure.into()
}

/// Starts a daemon that outlives this command, and waits until it answers.
fn start_daemon(paths: &Paths) -> anyhow::Result<Client> {
    use std::os::unix::process::CommandExt;
    let program = this_program()?;
    let mut child = Command::new(&program)
        .arg("daemon")
        .envs(DAEMON_SETTINGS)
        // An agent runs commands, too, with folders of the project at hand in its PATH.
        .env("PATH", search_path::of_process())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting {} daemon", program.display()))?;
    let deadline = Instant::now() + START_WITHIN;
    loop {
        match Connection::open(paths, Deadline::after(CONNECT_WITHIN)) {
            Ok(connection) => return Ok(Client { connection }),
            Err(ConnectError::NothingListens) if Instant::now() < deadline => {}
            Err(error) => return Err(unreachable(&error, paths)),
        }
        // 0: another daemon was faster, and will answer.
        if let Some(status) = child.try_wait()?.filter(|status| !status.success()) {
            let failure = Failure::unreachable(format!("The daemon does not start ({status})"));
            return Err(failure.hint("`recall daemon` in a terminal says why.").into());
        }
        std::thread::sleep(START_POLL);
    }
}

/// # Errors
/// When the system does not tell.
pub fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("finding recall's own program")
}

/// Where the command was given; "/" where that folder is gone.
pub fn this_folder() -> String {
    std::env::current_dir().map_or_else(|_| "/".to_owned(), |folder| folder.to_string_lossy().into_owned())
}
