//! Exchanges one project's entries with its remote: reads what other machines have logged (`pull.rs`), then sends
//! what is new here. It works the same for every kind of remote.

mod pull;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::access::Access;
use super::held_for;
use super::syncing::{SyncError, Syncing};
use crate::clock;
use crate::ports::{Ports, Writer};
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::Record;
use recall_store::{
    AcceptMarker, ApplyParked, EmptiedSent, HoldBack, Left, LogExisting, Logged, ReadHead, Share,
};
use recall_sync::device::Device;
use recall_sync::folder::Put;
use recall_sync::progress::ReadProgress;
use recall_sync::remote::{NewEntries, ProgressReport, Remote, RemoteLog};
use recall_sync::sealed::SpaceKeys;
use recall_sync::segment::{MOST_RECORDS, SegmentHeader};
use recall_sync::team::TeamError;
use recall_system::faults::{self, Point};

/// How many older notes are logged in one commit. Few, so that events do not wait long.
const AT_ONCE: u32 = 100;
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
        let previous_request_at = before.asked_at.filter(|_| self.remote.is_immediate());
        self.syncing.note(share.id, |outcome| outcome.asked_at = Some(asked_at));
        let pulled = self.pull(&logs, previous_request_at).await;
        self.compare_arrived().await?;
        pulled?;
        let more = LogExisting { share: share.id, most: AT_ONCE };
        while writer.write(more).await? == Left::Some {}
        self.push(own.as_ref()).await?;
        self.empty().await?;
        if let Err(error) = self.write_progress(own.as_ref()).await {
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

    fn keys(&self) -> Option<&SpaceKeys> {
        self.access.map(|access| &access.keys)
    }

    async fn heads(&self) -> Result<Vec<ReadHead>, SyncError> {
        let id = self.share.id;
        self.syncing.read(move |db| db.heads(id)).await
    }

    /// Sends the entries that the remote lacks.
    async fn push(&self, own: Option<&RemoteLog>) -> Result<(), SyncError> {
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
                let (header, records) = match self.keys() {
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
    async fn write_progress(&self, own: Option<&RemoteLog>) -> Result<(), SyncError> {
        let share = self.share;
        let heads = self.heads().await?;
        let read: BTreeMap<DeviceId, u64> = heads.into_iter().map(|head| (head.device, head.seq)).collect();
        if read.is_empty() && own.is_none() {
            return Ok(());
        }
        let header = SegmentHeader::of(self.device, &share.space, &share.author, &share.device_name);
        let reported = own.map(|log| &log.progress);
        if let Some(ProgressReport::Now { progress, .. }) = reported
            && progress.read == read
        {
            let reported_header = match self.keys() {
                Some(keys) => keys.open_header(progress.header.clone()).ok(),
                None => Some(progress.header.clone()),
            };
            if reported_header.as_ref() == Some(&header) {
                return Ok(());
            }
        }
        let header = match self.keys() {
            Some(keys) => keys.seal_header(header).map_err(TeamError::from)?,
            None => header,
        };
        let now = ReadProgress { header, read, at: clock::now() };
        self.remote.write_progress(&now, self.device).await?;
        faults::reach(Point::SyncProgress);
        Ok(())
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
