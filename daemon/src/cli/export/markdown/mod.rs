//! `recall export --markdown`: the memory as a folder of Markdown pages. One way: the pages are never read back.

mod folder;
mod memory;
mod names;
mod pages;

use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use jiff::tz::TimeZone;
use recall_protocol::client::Answers;
use recall_protocol::paths::Paths;
use recall_protocol::query::{Export, Filter, Follow};
use recall_protocol::wire::Reply;

use crate::cli::client::{Client, Start};
use crate::cli::failure::Failure;
use crate::cli::terminal::counted;
use folder::Written;
use memory::Memory;

/// Changes come in bursts, so the pages are written once no change has come for this long.
const SETTLED: Duration = Duration::from_millis(500);
/// The maximum wait for the end of a burst.
const LATEST: Duration = Duration::from_secs(10);
/// How often the database's files are checked, because forgetting and manual changes cause no event.
const LOOK: Duration = Duration::from_secs(5);
/// Reading the memory may take one in this many parts of the time.
const LEISURE: u32 = 10;
/// The maximum number of foreign files that are named.
const MOST_NAMED: usize = 5;

/// Writes the pages once.
///
/// # Errors
/// Fails when the daemon does not respond, the project is unknown, or the folder cannot be written.
pub(super) fn write_once(path: &Path, filter: &Filter, out: &mut dyn Write) -> anyhow::Result<()> {
    let done = sync(path, filter)?;
    print(path, &done, out)
}

/// Writes the pages, and again whenever the memory changes, until the daemon stops.
///
/// # Errors
/// See [`write_once`]; also when the connection to the daemon is lost.
pub(super) fn watch(path: &Path, filter: &Filter, out: &mut dyn Write) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("Cannot find recall's folders")?;
    let follow = Follow { session: None, kinds: Vec::new() };
    let changes = changes_of(Client::connect(Start::IfNeeded)?.follow(follow)?);
    // Changes made while the pages are written are noticed afterwards.
    let mut seen = stamp(&paths);
    let begun = Instant::now();
    write_once(path, filter, out)?;
    writeln!(out, "Following the memory; press Ctrl-C to stop.")?;
    out.flush()?;
    let mut took = begun.elapsed();
    loop {
        let has_event = match changes.recv_timeout(LOOK) {
            Ok(EventSignal::Arrived) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Ok(EventSignal::Over(end)) => return end,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        if has_event {
            settle(&changes, took)?;
        } else if stamp(&paths) == seen {
            continue;
        }
        seen = stamp(&paths);
        let begun = Instant::now();
        let done = sync(path, filter)?;
        took = begun.elapsed();
        if done.written + done.removed > 0 {
            print(path, &done, out)?;
            out.flush()?;
        }
    }
}

/// The effect of the daemon's events.
enum EventSignal {
    Arrived,
    /// No more events will come.
    Over(anyhow::Result<()>),
}

/// Reads events on a thread, because waiting for one has no deadline.
fn changes_of(mut answers: Answers) -> Receiver<EventSignal> {
    let (sender, changes) = mpsc::channel();
    std::thread::spawn(move || {
        loop {
            let change = match answers.wait() {
                Ok(Reply::Json(_)) => EventSignal::Arrived,
                Ok(Reply::ShuttingDown) => EventSignal::Over(Ok(())),
                Ok(Reply::Failed { kind, what, hint }) => {
                    EventSignal::Over(Err(Failure::refused(kind, what).hint(hint).into()))
                }
                Ok(other) => {
                    EventSignal::Over(Err(Failure::failed(format!("Cannot follow events: {other:?}"))
                        .hint("Stop another program that follows them.")
                        .into()))
                }
                Err(error) => {
                    let lost = Failure::unreachable(format!("Lost the connection to the daemon: {error}"));
                    EventSignal::Over(Err(lost.hint("Run the same command again once it runs.").into()))
                }
            };
            let is_over = matches!(change, EventSignal::Over(_));
            if sender.send(change).is_err() || is_over {
                return;
            }
        }
    });
    changes
}

/// Waits until no change has come for a while, longer if reading the memory takes long.
fn settle(changes: &Receiver<EventSignal>, took: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    let (until, latest) = (begun + took * LEISURE, begun + LATEST.max(took * LEISURE));
    loop {
        let now = Instant::now();
        let left = until.saturating_duration_since(now).max(SETTLED);
        if now >= latest {
            return Ok(());
        }
        match changes.recv_timeout(left) {
            Ok(EventSignal::Arrived) => {}
            Ok(EventSignal::Over(end)) => return end,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Returns metadata that shows writes to the database without opening it.
fn stamp(paths: &Paths) -> Vec<Option<(SystemTime, u64)>> {
    let database = paths.database();
    let log = database.with_extension("db-wal");
    let of = |file: &Path| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    vec![of(&database), of(&log)]
}

fn sync(path: &Path, filter: &Filter) -> anyhow::Result<Written> {
    let memory = read(filter)?;
    folder::write(path, &pages::pages(&memory, &TimeZone::system()))
}

fn read(filter: &Filter) -> anyhow::Result<Memory> {
    let mut client = Client::connect(Start::IfNeeded)?;
    let mut memory = Memory::default();
    let mut from = None;
    loop {
        // Bypasses `Answer::read`: pages show control characters as nothing, and everything else as it is.
        let part = client.ask(Export { filter: filter.clone(), from })?.unchanged()?;
        for line in &part.lines {
            memory.add(line)?;
        }
        from = part.next;
        if from.is_none() {
            return Ok(memory.complete());
        }
    }
}

fn print(path: &Path, done: &Written, out: &mut dyn Write) -> anyhow::Result<()> {
    let Written { written, unchanged, removed, foreign } = done;
    writeln!(
        out,
        "Wrote {} to {}, left {unchanged} unchanged, removed {removed}.",
        counted(*written, "page", "pages"),
        path.display()
    )?;
    if !foreign.is_empty() {
        let named = foreign.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = foreign.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        writeln!(
            out,
            "Left alone, because recall did not write what is there: {named}{more}. Move it away, or choose another folder."
        )?;
    }
    Ok(())
}
