//! Drains the spool: each event is handled like any other, and its file is removed after the commit.
//!
//! Events of one session are taken one by one, those of different sessions concurrently, so that they share commits.
//! After a long absence of the daemon there may be thousands.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use recall_protocol::spool::{Spool, SpoolName, SpoolReadError};
use recall_protocol::wire::{Deliver, Reply};
use tokio::task::{JoinSet, spawn_blocking};

use super::ingest::Ingest;
use super::injection_receipt::Recipient;
use super::ports::{Drained, Ports};
use recall_domain::ids::SessionKey;
use recall_system::faults::{self, Fault, Point, planted};

/// The maximum number of files read at once.
const MOST_FILES: usize = 64;
/// The maximum number of bytes read at once. The largest event is as large as a message may be.
const MOST_BYTES: usize = 4 << 20;
/// With more files than this, the spool's size is also counted before the drain. Otherwise a daemon that never
/// finishes a long drain would leave a higher count after each start, until the spool seems full.
const MANY: usize = 1_000;
/// A shim writes for milliseconds, so a partial file older than this is abandoned.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// Offers every file once, oldest first, including files that appear in the meantime.
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
        tracing::error!("the count of the spool panicked");
    }
}

/// Counts the remaining files. Also removes partial files of killed shims, which were never acknowledged and which
/// nothing else removes.
fn tidy(spool: &Spool) {
    if let Err(error) = spool.settle() {
        tracing::warn!(%error, "cannot count the spool");
    }
    match spool.sweep(SystemTime::now(), LEFT_BEHIND) {
        Ok(0) => {}
        Ok(swept) => tracing::info!(swept, "removed partial spool files of killed shims"),
        Err(error) => tracing::warn!(%error, "cannot look for partial spool files of killed shims"),
    }
}

type Names = std::iter::Peekable<std::vec::IntoIter<SpoolName>>;
type SpooledFile = (SpoolName, Result<Deliver, SpoolReadError>);

/// Reads the next files. Also returns the remaining names.
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
            Ok(deliver) => queues.entry(ingest.session_of(&deliver)).or_default().push((name, deliver)),
            Err(SpoolReadError::Gone) => {}
            Err(SpoolReadError::Bad { why, .. }) => {
                tracing::warn!(file = name.as_str(), why, "a spool file contains no event");
                let _ = spool.move_to_bad(&name);
                drained.bad += 1;
            }
            Err(error) => {
                tracing::warn!(file = name.as_str(), %error, "cannot read a spool file; it stays in the spool");
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
        // A task that panicked leaves its files to the next drain.
        drained.add(done.unwrap_or(Drained { left: 1, ..Drained::default() }));
    }
    drained
}

/// Offers the events of one session in order.
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
                    tracing::warn!(file = name.as_str(), %error, "cannot remove a stored spool file");
                }
            }
            _ => drained.left += 1,
        }
    }
    drained
}
