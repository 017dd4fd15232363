//! Exchanges one project's entries with its remote: reads what other machines have logged, then sends what is new
//! here. It works the same for every kind of remote.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::access::Access;
use super::held_for;
use super::syncing::{LogReader, Moved, SyncError, Syncing};
use crate::clock;
use crate::ports::{Ports, Writer};
use crate::settings::CurrentRedactor;
use recall_domain::ids::Timestamp;
use recall_domain::redaction::Redactor;
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::{BrokenChain, LogChain, Record};
use recall_domain::sync::skew::Skew;
use recall_store::{
    AcceptMarker, Applied, ApplyParked, ApplyRecords, CompareArrived, EmptiedSent, HoldBack, Left,
    LogExisting, Logged, ReadHead, Share,
};
use recall_sync::device::Device;
use recall_sync::folder::Put;
use recall_sync::progress::ReadProgress;
use recall_sync::remote::{NewEntries, ProgressReport, Remote, RemoteLog};
use recall_sync::sealed::SpaceKeys;
use recall_sync::segment::{MOST_RECORDS, Segment, SegmentHeader};
use recall_sync::team::{Reads, TeamError};
use recall_system::faults::{self, Point};

/// How many older notes are logged in one commit. Few, so that events do not wait long.
const AT_ONCE: u32 = 100;
/// How many entries of one machine's log are merged in one commit, for the same reason.
const MERGED_AT_ONCE: usize = 100;
/// How many arrived notes and subjects are compared in one commit. More than are merged, because each time a project's
/// latest notes are read, and few, so that events do not wait long.
const COMPARED_AT_ONCE: u32 = 500;
/// How many entries of one machine's log are read in a round. The rest waits for the next rounds.
const MOST_READ: usize = 10_000;
const MOST_READ_BYTES: usize = 32 * 1024 * 1024;
/// The time limit for reading one machine's log in a round.
const MOST_READ_TIME: Duration = Duration::from_secs(20);
/// The maximum size of one batch that is sent, unless a single entry is longer. In bytes.
const MOST_SENT_BYTES: usize = 1024 * 1024;

/// A project, its remote, and this machine's role there.
pub(super) struct Exchange<'r, P> {
    pub syncing: &'r Syncing<P>,
    pub remote: &'r Remote,
    pub share: &'r Share,
    pub device: &'r Arc<Device>,
    /// Who is read, and the keys, if the remote is encrypted.
    pub access: Option<&'r Access>,
}

impl<P: Ports> Exchange<'_, P> {
    pub(super) async fn run(&self) -> Result<(), SyncError> {
        let share = self.share;
        let writer = self.syncing.ports.writer();
        let keys = self.access.map(|access| &access.keys);
        let marker = self.remote.enter(share.marker.clone()).await?;
        if share.marker.is_none() {
            writer.write(AcceptMarker { share: share.id, marker }).await?;
        }
        let before = self.syncing.outcome(share.id);
        let marks = before.marks;
        let asked_at = clock::now();
        let mut logs = self.remote.logs(&share.space, &marks).await?;
        let own = logs.iter().position(|log| log.device == share.device).map(|at| logs.swap_remove(at));
        self.check_own(own.as_ref()).await?;
        writer.write(ApplyParked { share: share.id, now: clock::now() }).await?;
        // A folder's synchroniser may deliver old reports.
        let heard_at = before.asked_at.filter(|_| self.remote.is_immediate());
        self.syncing.note(share.id, |outcome| outcome.asked_at = Some(asked_at));
        let pulled = self.pull(&logs, keys, heard_at).await;
        self.compare_arrived().await?;
        pulled?;
        let more = LogExisting { share: share.id, most: AT_ONCE };
        while writer.write(more).await? == Left::Some {}
        self.push(own.as_ref(), keys).await?;
        self.empty().await?;
        if let Err(error) = self.say_progress(own.as_ref(), keys).await {
            // A read-only member loses nothing: others just do not learn what it has read.
            tracing::debug!(share = share.id.0, %error, "cannot write how far other logs were read");
        }
        Ok(())
    }

    /// Fails if this machine's log in the remote is not the beginning of the local one.
    async fn check_own(&self, own: Option<&RemoteLog>) -> Result<(), SyncError> {
        let Some(own) = own else { return Ok(()) };
        let Some((last, end)) = self.remote.own_end(&self.share.space, own).await? else { return Ok(()) };
        match self.hash_of(last).await? {
            Some(hash) if hash == end => Ok(()),
            _ => Err(SyncError::Fork),
        }
    }

    /// Returns the hash of an entry of this machine's log.
    async fn hash_of(&self, seq: u64) -> Result<Option<String>, SyncError> {
        let id = self.share.id;
        let here = self.syncing.read(move |db| db.logged(id, (seq, seq), 1)).await?;
        Ok(here.into_iter().next().map(|logged| logged.hash))
    }

    async fn heads(&self) -> Result<Vec<ReadHead>, SyncError> {
        let id = self.share.id;
        self.syncing.read(move |db| db.heads(id)).await
    }

    /// Reads new entries of all other machines.
    async fn pull(
        &self,
        logs: &[RemoteLog],
        keys: Option<&SpaceKeys>,
        heard_at: Option<Timestamp>,
    ) -> Result<(), SyncError> {
        let heads = self.heads().await?;
        let is_there = |device: &DeviceId| logs.iter().any(|log| log.device == *device);
        self.syncing.note(self.share.id, |outcome| {
            outcome.stopped.clear();
            outcome.moved = Moved::default();
            outcome.deferred.clear();
            outcome.deferred.clear();
            outcome.available = logs.iter().map(|log| (log.device.clone(), log.last)).collect();
            outcome.readers.retain(|device, _| is_there(device));
            outcome.marks.retain(|device, _| is_there(device));
            outcome.skews.retain(|device, _| is_there(device));
        });
        for log in logs {
            self.note_progress(log, keys, heard_at);
            let read = heads.iter().find(|head| head.device == log.device);
            if let Some(why) = self.pull_from(log, read, keys).await? {
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
    async fn compare_arrived(&self) -> Result<(), SyncError> {
        let next = CompareArrived { share: self.share.id, most: COMPARED_AT_ONCE };
        while self.syncing.ports.writer().write(next).await? == Left::Some {}
        Ok(())
    }

    /// Records how far another machine has read this one's log, and how far its clock is off. `heard_at` is the time
    /// of the previous request.
    fn note_progress(&self, log: &RemoteLog, keys: Option<&SpaceKeys>, heard_at: Option<Timestamp>) {
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
                let opened = keys.and_then(|keys| keys.open_header(header.clone()).ok());
                let SegmentHeader { author, name, .. } = opened.unwrap_or_else(|| header.clone());
                let reader = LogReader { author, name, seq };
                let before = outcome.readers.insert(device.clone(), reader);
                let skew = Skew::of(*at, heard_at.filter(|_| before.is_some()), now);
                match skew {
                    Some(skew) => drop(outcome.skews.insert(device.clone(), skew)),
                    None => drop(outcome.skews.remove(&device)),
                }
                outcome.marks.extend(mark.clone().map(|mark| (device, mark)));
            }
        });
    }

    /// Reads new entries of a machine. Returns the reason if no more can be read.
    async fn pull_from(
        &self,
        log: &RemoteLog,
        read: Option<&ReadHead>,
        keys: Option<&SpaceKeys>,
    ) -> Result<Option<String>, SyncError> {
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
        let mut unmerged = Unmerged::after(upto, hash);
        let outcome = self.read_log(log, reads, keys, &mut unmerged).await;
        // Entries read before an unusable one, or before a network failure, are valid.
        match self.merge_all(log, &mut unmerged).await? {
            Some(why) => Ok(Some(why)),
            None => outcome,
        }
    }

    async fn read_log(
        &self,
        log: &RemoteLog,
        reads: Reads,
        keys: Option<&SpaceKeys>,
        unmerged: &mut Unmerged,
    ) -> Result<Option<String>, SyncError> {
        let chain = LogChain { space: &self.share.space, device: &log.device };
        let begun = Instant::now();
        let mut unread = self.remote.unread(&self.share.space, log, unmerged.upto);
        while unmerged.read < MOST_READ
            && unmerged.read_bytes < MOST_READ_BYTES
            && begun.elapsed() < MOST_READ_TIME
        {
            let segment = match unread.next().await? {
                None => return Ok(None),
                Some(Ok(segment)) => segment,
                Some(Err(why)) => return Ok(Some(why)),
            };
            if let (Reads::Upto(upto), Some(last)) = (reads, segment.records.last())
                && last.seq > upto
            {
                let why = self.access.map(|access| access.why_no_more(&log.device, &self.share.space));
                return Ok(why.map(|why| format!("{why}; nothing after its entry {upto} is read")));
            }
            let segment = match opened(segment, keys) {
                Ok(segment) => segment,
                Err(why) => return Ok(Some(why)),
            };
            if !unmerged.is_by(&segment.header)
                && let Some(why) = self.merge_all(log, unmerged).await?
            {
                return Ok(Some(why));
            }
            if let Err(broken) = unmerged.add(segment, &chain, &self.syncing.redactor) {
                return Ok(Some(reason(broken)));
            }
            while unmerged.entries.len() >= MERGED_AT_ONCE {
                if let Some(why) = self.merge(log, unmerged).await? {
                    return Ok(Some(why));
                }
            }
        }
        if unmerged.upto < log.last {
            self.syncing.note(self.share.id, |outcome| outcome.deferred.extend([log.device.clone()]));
        }
        Ok(None)
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

    /// Merges the first of the entries that were read. Returns the reason if that fails; then no entry is left to
    /// merge.
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
        let applied = match self.syncing.ports.writer().write(apply).await {
            Ok(applied) => applied,
            Err(error) => {
                // What follows would not follow any more, and hide why.
                unmerged.entries.clear();
                return Err(error.into());
            }
        };
        faults::reach(Point::SyncMerged);
        match applied {
            Applied::All { new, touched } => {
                tracing::info!(share = share.0, device = log.device.short(), new, "read a machine's log");
                self.syncing.note(share, |outcome| outcome.moved.read += new as u64);
                self.syncing.ports.reload(touched);
                Ok(None)
            }
            Applied::TooManyParked => {
                unmerged.entries.clear();
                Ok(Some(
                    "it has logged too many entries that only a newer recall can read: update recall"
                        .to_owned(),
                ))
            }
            // They were checked just now, so the share ended meanwhile, or was replaced.
            Applied::Gap { .. } | Applied::WrongHash { .. } | Applied::NotShared => {
                unmerged.entries.clear();
                Err(SyncError::NotShared)
            }
        }
    }

    /// Sends the entries that the remote lacks.
    async fn push(&self, own: Option<&RemoteLog>, keys: Option<&SpaceKeys>) -> Result<(), SyncError> {
        let (share, id) = (self.share, self.share.id);
        let (head, _) = self.syncing.read(move |db| db.log_head(id)).await?;
        let none = RemoteLog::default();
        for (first, last) in own.unwrap_or(&none).lacks(head) {
            let mut next = first;
            let mut before = self.hash_of(first - 1).await?.unwrap_or_default();
            while next <= last {
                let most = u32::try_from(MOST_RECORDS).unwrap_or(u32::MAX);
                let entries = self.syncing.read(move |db| db.logged(id, (next, last), most)).await?;
                let entries = at_once(entries);
                let Some(end) = entries.last().map(|logged| (logged.record.seq, logged.hash.clone())) else {
                    break;
                };
                let (upto, end) = end;
                let count = entries.len() as u64;
                let records = self.without_held(entries).await?;
                let header = SegmentHeader::of(self.device, &share.space, &share.author, &share.device_name);
                let (header, records) = match keys {
                    Some(keys) => keys.seal(header, records).map_err(TeamError::from)?,
                    None => (header, records),
                };
                let new = NewEntries { header, records, before, end: end.clone() };
                faults::reach(Point::SyncSend);
                if self.remote.append(new, self.device).await? == Put::Taken {
                    return Err(SyncError::Fork);
                }
                faults::reach(Point::SyncSent);
                self.syncing.note(id, |outcome| outcome.moved.sent += count);
                (next, before) = (upto + 1, end);
            }
        }
        self.syncing.note(id, |outcome| outcome.sent = head);
        Ok(())
    }

    /// Returns the entries to send. Entries that must not leave are sent without their body, and recorded.
    async fn without_held(&self, entries: Vec<Logged>) -> Result<Vec<Record>, SyncError> {
        let redactor = self.syncing.redactor.get();
        let mut held = Vec::new();
        let mut records = Vec::with_capacity(entries.len());
        for Logged { record, .. } in entries {
            match held_for(&record, &redactor) {
                None => records.push(record),
                Some(why) => {
                    held.push((record.seq, why.to_owned()));
                    records.push(Record { body: None, ..record });
                }
            }
        }
        self.syncing.ports.writer().write(HoldBack { share: self.share.id, entries: held }).await?;
        Ok(records)
    }

    /// Empties the bodies of forgotten notes in the remote.
    async fn empty(&self) -> Result<(), SyncError> {
        let id = self.share.id;
        let emptied = self.syncing.read(move |db| db.emptied(id)).await?;
        if !emptied.is_empty() {
            faults::reach(Point::SyncEmpty);
            self.remote.empty(&self.share.space, self.device, &emptied).await?;
            faults::reach(Point::SyncEmptied);
            self.syncing.ports.writer().write(EmptiedSent { share: id, entries: emptied }).await?;
        }
        Ok(())
    }

    /// Writes how far other machines' logs were read here, if that has changed.
    async fn say_progress(&self, own: Option<&RemoteLog>, keys: Option<&SpaceKeys>) -> Result<(), SyncError> {
        let share = self.share;
        let heads = self.heads().await?;
        let read: BTreeMap<DeviceId, u64> = heads.into_iter().map(|head| (head.device, head.seq)).collect();
        if read.is_empty() && own.is_none() {
            return Ok(());
        }
        let header = SegmentHeader::of(self.device, &share.space, &share.author, &share.device_name);
        let said = own.map(|log| &log.progress);
        if let Some(ProgressReport::Now { progress, .. }) = said
            && progress.read == read
        {
            let said = match keys {
                Some(keys) => keys.open_header(progress.header.clone()).ok(),
                None => Some(progress.header.clone()),
            };
            if said.as_ref() == Some(&header) {
                return Ok(());
            }
        }
        let header = match keys {
            Some(keys) => keys.seal_header(header).map_err(TeamError::from)?,
            None => header,
        };
        let now = ReadProgress { header, read, at: clock::now() };
        self.remote.say_progress(&now, self.device).await?;
        faults::reach(Point::SyncProgress);
        Ok(())
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
    /// How many entries were read in this round.
    read: usize,
    read_bytes: usize,
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
        self.read += records.len();
        let bodies = records.iter().filter_map(|record| record.body.as_ref());
        self.read_bytes += bodies.map(String::len).sum::<usize>();
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
fn opened(segment: Segment, keys: Option<&SpaceKeys>) -> Result<Segment, String> {
    match (keys, &segment.header.sealed) {
        (None, None) => Ok(segment),
        (Some(keys), Some(_)) => keys.open(segment).map_err(|why| format!("its part of the log {why}")),
        (Some(_), None) => Err("its entries are not encrypted".to_owned()),
        (None, Some(_)) => Err("its entries are encrypted, and this remote is not here".to_owned()),
    }
}

/// Takes the first entries that fit into one batch.
fn at_once(mut entries: Vec<Logged>) -> Vec<Logged> {
    let mut bytes = 0_usize;
    let fits = |logged: &Logged| {
        bytes = bytes.saturating_add(logged.record.body.as_ref().map_or(0, String::len));
        bytes <= MOST_SENT_BYTES
    };
    let fitting = entries.iter().map(fits).take_while(|fits| *fits).count();
    entries.truncate(fitting.max(1));
    entries
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
