//! Reads what other machines have logged, and merges it.
//!
//! The parts of a log are opened while the writer merges those before them, because both take much of the processor
//! when a new colleague reads a project for the first time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::Exchange;
use crate::clock;
use crate::ports::{Ports, Writer};
use crate::settings::CurrentRedactor;
use crate::sharing::held_for;
use crate::sharing::syncing::{LogReader, Moved, SyncError};
use recall_domain::ids::Timestamp;
use recall_domain::redaction::Redactor;
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::{BrokenChain, LogChain, Record};
use recall_domain::sync::skew::Skew;
use recall_store::{Applied, ApplyRecords, CompareArrived, Left, ReadHead};
use recall_sync::progress::ReadProgress;
use recall_sync::remote::{ProgressReport, RemoteLog};
use recall_sync::sealed::SpaceKeys;
use recall_sync::segment::{Segment, SegmentHeader};
use recall_sync::team::Reads;
use recall_system::faults::{self, Point};

/// How many entries of one machine's log are merged in one commit. Few, so that events do not wait long.
const MERGED_AT_ONCE: usize = 100;
/// How many arrived notes and subjects are compared in one commit. More than are merged, because each time a project's
/// latest notes are read, and few, so that events do not wait long.
const COMPARED_AT_ONCE: u32 = 500;
/// How many entries of one machine's log are read in a round. The rest waits for the next rounds.
const MOST_READ: usize = 10_000;
const MOST_READ_BYTES: usize = 32 * 1024 * 1024;
/// The time limit for reading one machine's log in a round.
const MOST_READ_TIME: Duration = Duration::from_secs(20);
/// How many parts are opened before they can be merged. Few, because a part may have a megabyte.
const OPENED_AHEAD: usize = 4;

/// How the reading of a log ended.
enum LogEnd {
    /// Nothing is left, or the merge failed.
    Reached,
    /// The rest waits for the next round.
    Deferred,
    /// What follows cannot be used.
    Unusable(String),
}

impl<P: Ports> Exchange<'_, P> {
    /// Reads new entries of all other machines.
    pub(super) async fn pull(
        &self,
        logs: &[RemoteLog],
        previous_request_at: Option<Timestamp>,
    ) -> Result<(), SyncError> {
        let heads = self.heads().await?;
        let is_there = |device: &DeviceId| logs.iter().any(|log| log.device == *device);
        self.syncing.note(self.share.id, |outcome| {
            outcome.stopped.clear();
            outcome.moved = Moved::default();
            outcome.deferred.clear();
            outcome.available = logs.iter().map(|log| (log.device.clone(), log.last)).collect();
            outcome.readers.retain(|device, _| is_there(device));
            outcome.marks.retain(|device, _| is_there(device));
            outcome.skews.retain(|device, _| is_there(device));
        });
        for log in logs {
            self.note_progress(log, previous_request_at);
            let read = heads.iter().find(|head| head.device == log.device);
            if let Some(why) = self.pull_from(log, read).await? {
                let (share, device) = (self.share.id, log.device.clone());
                tracing::warn!(
                    share = share.0,
                    device = device.short(),
                    why,
                    "stopped reading a machine's log"
                );
                self.syncing.note(share, |outcome| drop(outcome.stopped.insert(device, why)));
            }
        }
        Ok(())
    }

    /// Compares the notes that arrived in this round, or in one that was killed.
    pub(super) async fn compare_arrived(&self) -> Result<(), SyncError> {
        let next = CompareArrived { share: self.share.id, most: COMPARED_AT_ONCE };
        while self.syncing.ports.writer().write(next).await? == Left::Some {}
        Ok(())
    }

    /// Records how far another machine has read this one's log, and how far its clock is off. `previous_request_at`
    /// is the time of the previous request.
    fn note_progress(&self, log: &RemoteLog, previous_request_at: Option<Timestamp>) {
        let (device, now) = (log.device.clone(), clock::now());
        self.syncing.note(self.share.id, |outcome| match &log.progress {
            ProgressReport::AsBefore => {}
            ProgressReport::Nothing => {
                outcome.readers.remove(&device);
                outcome.marks.remove(&device);
            }
            ProgressReport::Now { progress, mark } => {
                let ReadProgress { header, read, at } = progress.as_ref();
                let seq = read.get(&self.share.device).copied().unwrap_or_default();
                let opened = self.keys().and_then(|keys| keys.open_header(header.clone()).ok());
                let SegmentHeader { author, name, .. } = opened.unwrap_or_else(|| header.clone());
                let reader = LogReader { author, name, seq };
                let before = outcome.readers.insert(device.clone(), reader);
                let skew = Skew::of(*at, previous_request_at.filter(|_| before.is_some()), now);
                match skew {
                    Some(skew) => drop(outcome.skews.insert(device.clone(), skew)),
                    None => drop(outcome.skews.remove(&device)),
                }
                outcome.marks.extend(mark.clone().map(|mark| (device, mark)));
            }
        });
    }

    /// Reads new entries of a machine. Returns the reason if no more can be read.
    async fn pull_from(&self, log: &RemoteLog, read: Option<&ReadHead>) -> Result<Option<String>, SyncError> {
        let (upto, hash) = read.map_or((0, ""), |head| (head.seq, head.hash.as_str()));
        // The remote has a different entry under a number that was read before.
        if upto > 0 && log.last == upto && log.end.as_ref().is_some_and(|end| end != hash) {
            return Ok(Some(format!("its entry {upto} differs from the one that was read before")));
        }
        let reads = self.access.map_or(Reads::All, |access| access.reads(&log.device, &self.share.space));
        if reads == Reads::Nothing {
            return Ok(self
                .access
                .map(|access| access.why_nothing(&log.device, &self.share.space).to_owned()));
        }
        let (opened, to_merge) = mpsc::channel(OPENED_AHEAD);
        let (merged, end) = tokio::join!(
            self.merge_parts(log, to_merge, Unmerged::after(upto, hash)),
            self.open_parts(log, reads, upto, opened),
        );
        // A merge that fails ends the reading, too.
        if let Some(why) = merged? {
            return Ok(Some(why));
        }
        match end? {
            LogEnd::Reached => Ok(None),
            LogEnd::Unusable(why) => Ok(Some(why)),
            LogEnd::Deferred => {
                self.syncing.note(self.share.id, |outcome| outcome.deferred.extend([log.device.clone()]));
                Ok(None)
            }
        }
    }

    /// Reads and opens the parts of a log after an entry.
    async fn open_parts(
        &self,
        log: &RemoteLog,
        reads: Reads,
        after: u64,
        opened: mpsc::Sender<Segment>,
    ) -> Result<LogEnd, SyncError> {
        let begun = Instant::now();
        let (mut upto, mut entries, mut bytes) = (after, 0, 0);
        let mut unread = self.remote.unread(&self.share.space, log, after);
        while entries < MOST_READ && bytes < MOST_READ_BYTES && begun.elapsed() < MOST_READ_TIME {
            let segment = match unread.next().await? {
                None => return Ok(LogEnd::Reached),
                Some(Ok(segment)) => segment,
                Some(Err(why)) => return Ok(LogEnd::Unusable(why)),
            };
            let last = segment.records.last().map_or(upto, |record| record.seq);
            if let (Reads::Upto(most), Some(access)) = (reads, self.access)
                && last > most
            {
                let why = access.why_no_more(&log.device, &self.share.space);
                return Ok(LogEnd::Unusable(format!("{why}; nothing after its entry {most} is read")));
            }
            let segment = match open(segment, self.keys()) {
                Ok(segment) => segment,
                Err(why) => return Ok(LogEnd::Unusable(why)),
            };
            upto = last;
            entries += segment.records.len();
            let bodies = segment.records.iter().filter_map(|record| record.body.as_ref());
            bytes += bodies.map(String::len).sum::<usize>();
            if opened.send(segment).await.is_err() {
                return Ok(LogEnd::Reached);
            }
        }
        Ok(if upto < log.last { LogEnd::Deferred } else { LogEnd::Reached })
    }

    /// Merges the parts of a log in their order. Returns the reason if that fails.
    async fn merge_parts(
        &self,
        log: &RemoteLog,
        mut opened: mpsc::Receiver<Segment>,
        mut unmerged: Unmerged,
    ) -> Result<Option<String>, SyncError> {
        let chain = LogChain { space: &self.share.space, device: &log.device };
        let mut unusable = None;
        while let Some(segment) = opened.recv().await {
            // The entries of one commit have the same author.
            if !unmerged.is_by(&segment.header)
                && let Some(why) = self.merge_all(log, &mut unmerged).await?
            {
                return Ok(Some(why));
            }
            if let Err(broken) = unmerged.add(segment, &chain, &self.syncing.redactor) {
                unusable = Some(reason(broken));
                break;
            }
            while unmerged.entries.len() >= MERGED_AT_ONCE {
                if let Some(why) = self.merge(log, &mut unmerged).await? {
                    return Ok(Some(why));
                }
            }
        }
        // Entries before an unusable one, or before a network failure, are valid.
        Ok(self.merge_all(log, &mut unmerged).await?.or(unusable))
    }

    /// Merges all entries that were read. Returns the reason if that fails.
    async fn merge_all(&self, log: &RemoteLog, unmerged: &mut Unmerged) -> Result<Option<String>, SyncError> {
        while !unmerged.entries.is_empty() {
            if let Some(why) = self.merge(log, unmerged).await? {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    /// Merges the first of the entries that were read. Returns the reason if that fails.
    async fn merge(&self, log: &RemoteLog, unmerged: &mut Unmerged) -> Result<Option<String>, SyncError> {
        let count = unmerged.entries.len().min(MERGED_AT_ONCE);
        let (records, hashes): (Vec<Record>, Vec<String>) = unmerged.entries.drain(..count).unzip();
        let Some(end) = hashes.last().cloned() else { return Ok(None) };
        let share = self.share.id;
        let apply = ApplyRecords {
            share,
            device: log.device.clone(),
            author: unmerged.author.clone(),
            name: unmerged.name.clone(),
            records,
            end,
            now: clock::now(),
        };
        faults::reach(Point::SyncRead);
        let applied = self.syncing.ports.writer().write(apply).await?;
        faults::reach(Point::SyncMerged);
        match applied {
            Applied::All { new, touched } => {
                tracing::info!(share = share.0, device = log.device.short(), new, "read a machine's log");
                self.syncing.note(share, |outcome| outcome.moved.read += new as u64);
                self.syncing.ports.reload(touched);
                Ok(None)
            }
            Applied::TooManyParked => Ok(Some(
                "it has logged too many entries that only a newer recall can read: update recall".to_owned(),
            )),
            // They were checked just now, so the share ended meanwhile, or was replaced.
            Applied::Gap { .. } | Applied::WrongHash { .. } | Applied::NotShared => Err(SyncError::NotShared),
        }
    }
}

/// Consecutive entries of a machine's log that were read and not merged yet.
#[derive(Default)]
struct Unmerged {
    author: String,
    name: String,
    /// Entries with their hashes.
    entries: VecDeque<(Record, String)>,
    /// The number of the last entry that was read.
    upto: u64,
    hash: String,
}

impl Unmerged {
    fn after(upto: u64, hash: &str) -> Self {
        Self { upto, hash: hash.to_owned(), ..Self::default() }
    }

    /// Whether a part has the same author and device names.
    fn is_by(&self, header: &SegmentHeader) -> bool {
        (&self.author, &self.name) == (&header.author, &header.name)
    }

    /// Adds a part of the log. Entries that were read before are skipped.
    fn add(
        &mut self,
        segment: Segment,
        chain: &LogChain<'_>,
        redactor: &CurrentRedactor,
    ) -> Result<(), BrokenChain> {
        let Segment { header, mut records, end } = segment;
        records.retain(|record| record.seq > self.upto);
        let hashes = chain.follow(self.upto, &self.hash, &records, &end)?;
        let (Some(last), Some(hash)) = (records.last(), hashes.last()) else { return Ok(()) };
        (self.upto, self.hash) = (last.seq, hash.clone());
        (self.author, self.name) = (header.author, header.name);
        let redactor = redactor.get();
        let clean = records.into_iter().map(|record| without_secrets(record, &redactor));
        self.entries.extend(clean.zip(hashes));
        Ok(())
    }
}

/// Explains why entries cannot be merged.
fn reason(broken: BrokenChain) -> String {
    match broken {
        BrokenChain::Gap { known, first } => {
            format!("its entries {} to {} are missing", known + 1, first.saturating_sub(1))
        }
        BrokenChain::WrongHash { at } => format!("its entries up to {at} do not follow from those before"),
    }
}

/// Opens sealed entries, or explains why they cannot be read.
fn open(segment: Segment, keys: Option<&SpaceKeys>) -> Result<Segment, String> {
    match (keys, &segment.header.sealed) {
        (None, None) => Ok(segment),
        (Some(keys), Some(_)) => keys.open(segment).map_err(|why| format!("its part of the log {why}")),
        (Some(_), None) => Err("its entries are not encrypted".to_owned()),
        (None, Some(_)) => Err("its entries are encrypted, and this remote is not here".to_owned()),
    }
}

/// Redacts a received entry by this machine's rules.
fn without_secrets(record: Record, redactor: &Redactor) -> Record {
    match &record.body {
        Some(body) if held_for(&record, redactor).is_some() => {
            let body = redactor.redact_text(body).into_owned();
            Record { body: Some(body), ..record }
        }
        _ => record,
    }
}
