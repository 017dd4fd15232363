//! Runs a subscribed command that reads lifecycle events as JSON lines.
//!
//! The command starts at its first event. If it ends, it is restarted after a growing pause. It may read slowly: a
//! limited number of events wait, further ones are dropped, and a line says how many.

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use recall_protocol::environment::stays;
use recall_protocol::frame::{self, Waited};
use rustix::event::PollFlags;
use serde_json::json;

use super::lifecycle_json::to_json;
use recall_config::Subscription;
use recall_domain::lifecycle::LifecycleEvent;
use recall_system::process_group::{ProcessGroup, until};

/// The maximum number of events waiting for a command that reads slowly.
const MOST_WAITING: usize = 1_024;
/// The pause before an ended command is restarted. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A command that ran this long did not fail at its start.
const LASTED: Duration = Duration::from_secs(60);
/// The time a command gets for its last line at shutdown.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// How often a write checks whether the daemon is stopping.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The size of a write that never blocks on a writable pipe (POSIX: `PIPE_BUF` is at least 512, on Linux 4,096).
const AT_ONCE: usize = 512;

/// The outcome of writing to a command.
#[derive(Debug)]
pub enum StreamReport {
    Started,
    Failed(String),
}

/// Whether an event was queued for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    Yes,
    /// Too many events are already waiting.
    Dropped,
}

/// The events for one command. Dropping it ends the command.
pub struct EventStream {
    lines: SyncSender<String>,
    missed: u64,
}

impl EventStream {
    /// Starts the stream. `stopping` ends it immediately. `report` is called on its own thread.
    pub fn open(
        subscription: Arc<Subscription>,
        stopping: Arc<AtomicBool>,
        report: impl Fn(StreamReport) + Send + 'static,
    ) -> Self {
        let (lines, waiting) = sync_channel(MOST_WAITING);
        std::thread::spawn(move || serve(&subscription, &waiting, &stopping, &report));
        Self { lines, missed: 0 }
    }

    pub fn send(&mut self, event: &LifecycleEvent) -> Queued {
        let lagged = match self.missed {
            0 => String::new(),
            missed => format!("{}\n", json!({"event": "lagged", "lagged": missed})),
        };
        match self.lines.try_send(format!("{lagged}{}\n", to_json(event))) {
            Ok(()) => {
                self.missed = 0;
                Queued::Yes
            }
            Err(_) => self.miss(1),
        }
    }

    /// Counts events that were never queued.
    pub fn miss(&mut self, events: u64) -> Queued {
        self.missed += events;
        Queued::Dropped
    }
}

/// Builds a subscription's command with the allowed variables, and no secret from the daemon's environment.
pub fn command_of(subscription: &Subscription) -> Command {
    let mut command = Command::new(subscription.program());
    command
        .args(subscription.arguments())
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(stays)))
        .env("RECALL_DISABLE", "1")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Forwards events until there are no more. Blocks.
fn serve(
    subscription: &Subscription,
    lines: &Receiver<String>,
    stopping: &AtomicBool,
    report: &dyn Fn(StreamReport),
) {
    let mut pause = FIRST_PAUSE;
    let mut next = None;
    while let Some(line) = next.take().or_else(|| lines.recv().ok()) {
        report(StreamReport::Started);
        let begun = Instant::now();
        let ended = match feed(subscription, line, lines, stopping) {
            Fed::NoMore => return,
            Fed::Ended { line, why } => {
                next = Some(line);
                why
            }
        };
        report(StreamReport::Failed(format!("{} {ended}", subscription.program())));
        if begun.elapsed() >= LASTED {
            pause = FIRST_PAUSE;
        }
        let rested = until(Instant::now() + pause);
        while rested() {
            if stopping.load(Ordering::Acquire) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

enum Fed {
    NoMore,
    /// The command ended before it read this line.
    Ended {
        line: String,
        why: String,
    },
}

/// Runs the command once.
fn feed(subscription: &Subscription, first: String, lines: &Receiver<String>, stopping: &AtomicBool) -> Fed {
    let mut group = match ProcessGroup::spawn_guarded(&mut command_of(subscription)) {
        Ok(group) => group,
        Err(error) => return Fed::Ended { line: first, why: format!("cannot be started: {error}") },
    };
    let Some(mut stdin) = group.take_stdin() else { return Fed::NoMore };
    let mut line = first;
    loop {
        match write(&mut stdin, line.as_bytes(), stopping) {
            Written::Whole => {}
            Written::Stopping => return Fed::NoMore,
            Written::Refused => {
                drop(stdin);
                let status = group.finish(until(Instant::now() + ENDS_WITHIN)).ok().flatten();
                let why = status.map_or("stopped reading".to_owned(), |status| format!("ended: {status}"));
                return Fed::Ended { line, why };
            }
        }
        let Ok(next) = lines.recv() else {
            drop(stdin);
            let _ = group.finish(until(Instant::now() + ENDS_WITHIN));
            return Fed::NoMore;
        };
        line = next;
    }
}

enum Written {
    Whole,
    Stopping,
    /// The reader closed its end.
    Refused,
}

/// Writes without blocking on a reader that does not read.
fn write(stdin: &mut ChildStdin, bytes: &[u8], stopping: &AtomicBool) -> Written {
    for piece in bytes.chunks(AT_ONCE) {
        loop {
            if stopping.load(Ordering::Acquire) {
                return Written::Stopping;
            }
            match frame::wait(stdin, PollFlags::OUT, LOOK_EVERY) {
                Ok(Waited::NotYet) => {}
                Ok(_) => break,
                Err(_) => return Written::Refused,
            }
        }
        if stdin.write_all(piece).is_err() {
            return Written::Refused;
        }
    }
    Written::Whole
}
