//! What happens to events in the spool: offered like any other, committed first and removed after.
//!
//! The events of one session are offered one after the other, those of different sessions at the same time, so that
//! they share commits: after a long absence of the daemon thousands may lie there.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use recall_protocol::spool::{Spool, SpoolName, SpoolReadError};
use recall_protocol::wire::{Deliver, Reply};
use tokio::task::{JoinSet, spawn_blocking};

use super::ingest::{Ingest, session_of};
use super::injection_receipt::Recipient;
use super::ports::{Drained, Ports};
use crate::faults::{self, Fault, Point, planted};
use crate::memory::ids::SessionKey;

/// Files that are read at once.
const MOST_FILES: usize = 64;
/// And no more of them than make so many bytes: the largest event is as large as a message may be.
const MOST_BYTES: usize = 4 << 20;
/// Of so many the level is counted anew before they are drained, too: a daemon that never came to the end of a long
/// drain would leave it higher with each start, until the spool seemed full.
const MANY: usize = 1_000;
/// A shim writes for milliseconds: a file that is being written for so long is nobody's any more.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// Offers every file once, oldest first; also those that fall in meanwhile.
pub async fn drain<P: Ports>(spool: &Spool, ingest: &Ingest<P>) -> Drained {
    let mut drained = Drained::default();
    let mut offered: HashSet<SpoolName> = HashSet::new();
    loop {
        let listing = spool.clone();
        let names = match spawn_blocking(move || listing.list(usize::MAX)).await {
            Ok(Ok(names)) => names,
            Ok(Err(error)) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    tracing::warn!(%error, "cannot list the spool");
                }
                return drained;
            }
            Err(_) => return drained,
        };
        let names: Vec<_> = names.into_iter().filter(|name| !offered.contains(name)).collect();
        if names.is_empty() {
            break;
        }
        if names.len() >= MANY {
            tidied(spool).await;
        }
        offered.extend(names.iter().cloned());
        let mut rest = names.into_iter().peekable();
        while rest.peek().is_some() {
            let reading = spool.clone();
            let Ok((files, unread)) = spawn_blocking(move || read(&reading, rest)).await else {
                return drained;
            };
            rest = unread;
            drained.add(offer(spool, ingest, files).await);
        }
    }
    tidied(spool).await;
    drained
}

async fn tidied(spool: &Spool) {
    let spool = spool.clone();
    if spawn_blocking(move || tidy(&spool)).await.is_err() {
        tracing::error!("counting the spool panicked");
    }
}

/// Counts what is left. What killed shims have left half written was never accepted, and nobody else removes it.
fn tidy(spool: &Spool) {
    if let Err(error) = spool.settle() {
        tracing::warn!(%error, "cannot count the spool");
    }
    match spool.sweep(SystemTime::now(), LEFT_BEHIND) {
        Ok(0) => {}
        Ok(swept) => tracing::info!(swept, "removed what killed shims had left in the spool"),
        Err(error) => tracing::warn!(%error, "cannot look for what killed shims have left in the spool"),
    }
}

type Names = std::iter::Peekable<std::vec::IntoIter<SpoolName>>;
type SpooledFile = (SpoolName, Result<Deliver, SpoolReadError>);

/// The next files, and the names of the others.
fn read(spool: &Spool, mut names: Names) -> (Vec<SpooledFile>, Names) {
    let (mut files, mut bytes) = (Vec::new(), 0);
    while files.len() < MOST_FILES && bytes < MOST_BYTES {
        let Some(name) = names.next() else { break };
        let file = spool.read(&name);
        bytes += file.as_ref().map_or(0, |deliver| deliver.payload.len());
        files.push((name, file));
    }
    (files, names)
}

async fn offer<P: Ports>(spool: &Spool, ingest: &Ingest<P>, files: Vec<SpooledFile>) -> Drained {
    let mut drained = Drained::default();
    let mut queues: HashMap<Option<SessionKey>, Vec<(SpoolName, Deliver)>> = HashMap::new();
    for (name, file) in files {
        match file {
            Ok(deliver) => queues.entry(session_of(&deliver)).or_default().push((name, deliver)),
            Err(SpoolReadError::Gone) => {}
            Err(SpoolReadError::Bad { why, .. }) => {
                tracing::warn!(file = name.as_str(), why, "a spool file is no event");
                let _ = spool.move_to_bad(&name);
                drained.bad += 1;
            }
            Err(error) => {
                tracing::warn!(file = name.as_str(), %error, "a spool file stays");
                drained.left += 1;
                let newer = matches!(error, SpoolReadError::UnknownVersion { .. });
                drained.other_version += u64::from(newer);
            }
        }
    }
    let mut offering = JoinSet::new();
    for queue in queues.into_values() {
        offering.spawn(offer_in_turn(spool.clone(), ingest.clone(), queue));
    }
    while let Some(done) = offering.join_next().await {
        // One that panicked leaves its files for the next look.
        drained.add(done.unwrap_or(Drained { left: 1, ..Drained::default() }));
    }
    drained
}

/// The events of one session.
async fn offer_in_turn<P: Ports>(
    spool: Spool,
    ingest: Ingest<P>,
    queue: Vec<(SpoolName, Deliver)>,
) -> Drained {
    let mut drained = Drained::default();
    for (name, deliver) in queue {
        if planted(Fault::UnlinkBeforeCommit) {
            let _ = spool.remove(&name);
        }
        match ingest.take(deliver, Recipient::Nobody).await {
            Reply::Ack { .. } | Reply::Duplicate { .. } => {
                drained.stored += 1;
                faults::reach(Point::Unlink);
                if let Err(error) = spool.remove(&name) {
                    tracing::warn!(file = name.as_str(), %error, "a stored spool file stays");
                }
            }
            _ => drained.left += 1,
        }
    }
    drained
}
