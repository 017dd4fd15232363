//! A round with every remote: reads what other machines have logged, then sends what is new here.
//!
//! The remote is asked what it has, each time. So a remote that was restored from an older copy gets again what it lacks,
//! and a log that continues in another way than this machine's is noticed: then somebody else has this data folder's
//! name, or the database is older than what it once sent. The data folder takes a new name, says again what it has logged,
//! and reads the other log as that of another machine. Nothing is lost by that.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::held_for;
use crate::clock;
use crate::current_config::CurrentConfig;
use crate::ports::{Ports, WriteFailed, Writer};
use crate::settings::{CurrentRedactor, Settings};
use recall_config::sharing::{SharedProject, Sharing};
use recall_domain::ids::{ProjectKey, ShareId, Timestamp};
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::{Record, space_of};
use recall_store::{
    AcceptMarker, Applied, ApplyParked, ApplyRecords, CloseShare, EmptiedSent, HoldBack, Left, LogExisting,
    OpenShare, Reader, Readers, RenewDevice, Share, StoreError, Terms,
};
use recall_sync::device::Device;
use recall_sync::folder::{Folder, FolderError, Part, Put};
use recall_sync::progress::{self, Progress};
use recall_sync::segment::{Header, MOST_RECORDS, Segment, Unusable, decode, encode};

/// How many older notes are logged in one commit, so that no event waits long.
const AT_ONCE: u32 = 100;
/// How many files of one machine are read in a round. A flood waits for the next.
const MOST_FILES: usize = 400;

/// Why a round with a remote failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Write(#[from] WriteFailed),
    #[error(
        "cannot use this data folder's key in {}: {source}. Bring the file back, or delete it: this machine then has a new \
         name, and nothing is lost",
        path.display()
    )]
    Key { path: PathBuf, source: std::io::Error },
    #[error("the own file {} {why}", path.display())]
    OwnFile { path: PathBuf, why: Unusable },
    #[error("cannot write an entry: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{0:?} is not the address of a folder")]
    Address(String),
    #[error("a thread panicked")]
    Panicked,
    /// Another log has this data folder's name.
    #[error("another log has this machine's name")]
    Fork,
}

/// What is known of the last round with a share's remote.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub error: Option<String>,
    pub synced_at: Option<Timestamp>,
    /// The number of the last own entry that the remote has.
    pub sent: u64,
    /// The number of the last entry there is of each other machine.
    pub available: BTreeMap<DeviceId, u64>,
    /// Why no more is read of a machine.
    pub stopped: BTreeMap<DeviceId, String>,
    /// How far each other machine has read this one's log, as it says.
    pub readers: BTreeMap<DeviceId, LogReader>,
}

/// Another machine that reads this one's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReader {
    pub author: String,
    pub name: String,
    /// The number of the last own entry that it has read.
    pub seq: u64,
}

/// What is known of all rounds since the daemon's start.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub outcomes: BTreeMap<ShareId, Outcome>,
    /// Why the last round exchanged nothing with any remote.
    pub trouble: Option<String>,
    pub notices: Vec<String>,
}

/// The services of a round. Cheap to clone.
#[derive(Clone)]
pub struct Syncing<P> {
    pub ports: P,
    pub readers: Readers,
    pub config: CurrentConfig,
    pub settings: Settings,
    pub redactor: CurrentRedactor,
    /// The file with this data folder's key.
    pub device_file: PathBuf,
    pub known: Arc<Mutex<Known>>,
}

impl<P: Ports> Syncing<P> {
    /// Whether there is anything to share, or to stop sharing.
    pub fn has_work(&self) -> bool {
        !self.config.get().sharing.shares.is_empty()
            || self.readers.read(|db| db.shares()).is_ok_and(|shares| !shares.is_empty())
    }

    /// One round with every remote. Failures are kept for `recall sync`.
    pub async fn round(&self) {
        let sharing = self.config.get().sharing.clone();
        let agreed = self.agree(&sharing).await;
        let trouble = agreed.as_ref().err().map(SyncError::to_string);
        if let Some(error) = &trouble {
            tracing::warn!(error, "cannot prepare the sharing of projects");
        }
        self.known.lock().unwrap_or_else(PoisonError::into_inner).trouble = trouble;
        for share in agreed.unwrap_or_default() {
            self.round_with(&share, &sharing).await;
        }
    }

    /// Whether the last round failed with any remote.
    pub fn has_failed(&self) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.trouble.is_some() || known.outcomes.values().any(|outcome| outcome.error.is_some())
    }

    pub fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, share: ShareId, change: impl FnOnce(&mut Outcome)) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        change(known.outcomes.entry(share).or_default());
    }

    /// Brings the store in line with the configuration. Returns the shares to work on.
    async fn agree(&self, sharing: &Sharing) -> Result<Vec<Share>, SyncError> {
        let mut stored = self.read(|db| db.shares()).await?;
        // With mistakes in the file it is not known what was meant to go.
        let is_whole = self.settings.report().problems.is_empty();
        let is_meant = |share: &Share| sharing.shares.iter().any(|meant| is_same(meant, share));
        for share in stored.iter().filter(|share| is_whole && !is_meant(share)) {
            let removed = self.ports.writer().write(CloseShare { share: share.id, at: clock::now() }).await?;
            tracing::info!(share = share.id.0, removed, "a project is not shared any more");
        }
        stored.retain(is_meant);
        if sharing.shares.is_empty() {
            return Ok(Vec::new());
        }
        let device = self.device().await?;
        if stored.iter().any(|share| share.device != device.id) {
            self.ports.writer().write(RenewDevice { device: device.id.clone() }).await?;
        }
        let (author, device_name) = names(sharing);
        for meant in &sharing.shares {
            let terms = Terms { injects: meant.inject, is_personal: meant.personal };
            let is_as_stored = |share: &&Share| {
                is_same(meant, share)
                    && (share.author.as_str(), share.device_name.as_str())
                        == (author.as_str(), device_name.as_str())
                    && (share.injects, share.is_personal) == (terms.injects, terms.is_personal)
            };
            let key = ProjectKey::from(meant.project.as_str());
            let wanted = key.clone();
            let known = self.read(move |db| db.find_project(&[wanted])).await?;
            // A project that is not known here yet waits for its first session, which proves its folder.
            let (None, Some(project)) = (stored.iter().find(is_as_stored), known) else { continue };
            let open = OpenShare {
                project: key,
                project_name: project.name,
                remote: meant.remote.clone(),
                space: space_of(&meant.project),
                device: device.id.clone(),
                author: author.clone(),
                device_name: device_name.clone(),
                terms,
                at: clock::now(),
            };
            self.ports.writer().write(open).await?;
        }
        let mut shares = self.read(|db| db.shares()).await?;
        shares.retain(is_meant);
        Ok(shares)
    }

    async fn round_with(&self, share: &Share, sharing: &Sharing) {
        let mut outcome = self.attempt(share, sharing).await;
        if let Err(SyncError::Fork) = outcome {
            outcome = match self.take_a_new_name(share).await {
                Ok(renamed) => self.attempt(&renamed, sharing).await,
                Err(error) => Err(error),
            };
        }
        let error = outcome.err().map(|error| error.to_string());
        if let Some(error) = &error {
            tracing::warn!(share = share.id.0, error, "cannot sync a project");
        }
        self.note(share.id, |outcome| {
            if error.is_none() {
                outcome.synced_at = Some(clock::now());
            }
            outcome.error = error;
        });
    }

    async fn take_a_new_name(&self, share: &Share) -> Result<Share, SyncError> {
        let file = self.device_file.clone();
        let device =
            blocking(move || Device::renew(&file).map_err(|source| SyncError::Key { path: file, source }))
                .await?;
        self.ports.writer().write(RenewDevice { device: device.id.clone() }).await?;
        let notice = format!(
            "Another copy of this data folder has sent notes as {}, or an older backup was restored here. This one is \
             {} from now on; nothing is lost.",
            share.device.short(),
            device.id.short()
        );
        tracing::warn!(device = device.id.short(), "this data folder took a new name");
        self.known.lock().unwrap_or_else(PoisonError::into_inner).notices.push(notice);
        Ok(Share { device: device.id, ..share.clone() })
    }

    async fn attempt(&self, share: &Share, sharing: &Sharing) -> Result<(), SyncError> {
        let url = sharing.url_of(&share.remote).unwrap_or_default().to_owned();
        let folder = Folder::at(&url).ok_or(SyncError::Address(url))?;
        let (entered, marker) = (folder.clone(), share.marker.clone());
        let marker = blocking(move || Ok(entered.enter(marker.as_deref())?)).await?;
        if share.marker.is_none() {
            self.ports.writer().write(AcceptMarker { share: share.id, marker }).await?;
        }
        let own = self.own_parts(share, &folder).await?;
        self.ports.writer().write(ApplyParked { share: share.id, now: clock::now() }).await?;
        self.pull(share, &folder).await?;
        let more = LogExisting { share: share.id, most: AT_ONCE };
        while self.ports.writer().write(more).await? == Left::Some {}
        self.push(share, &folder, &own).await?;
        self.empty(share, &folder).await?;
        if let Err(error) = self.say_progress(share, &folder).await {
            // Who may only read here loses nothing by it: others do not learn what was read.
            tracing::debug!(share = share.id.0, %error, "cannot say how far other logs were read");
        }
        Ok(())
    }

    /// Says how far other machines' logs were read here, if that has changed.
    async fn say_progress(&self, share: &Share, folder: &Folder) -> Result<(), SyncError> {
        let id = share.id;
        let heads = self.read(move |db| db.heads(id)).await?;
        let read: BTreeMap<DeviceId, u64> = heads.into_iter().map(|head| (head.device, head.seq)).collect();
        if read.is_empty() {
            return Ok(());
        }
        let device = self.device().await?;
        let (folder, share) = (folder.clone(), share.clone());
        blocking(move || {
            let header = Header::of(&device, &share.space, &share.author, &share.device_name);
            let now = Progress { header, read };
            let said = folder.progress(&share.space, &share.device)?;
            if said.and_then(|text| progress::decode(&text, &share.space, &share.device)).as_ref()
                != Some(&now)
            {
                folder.keep_progress(&share.space, &share.device, &progress::encode(&now, &device)?)?;
            }
            Ok(())
        })
        .await
    }

    /// Reads how far another machine has read this one's log.
    async fn note_progress(
        &self,
        share: &Share,
        folder: &Folder,
        device: &DeviceId,
    ) -> Result<(), SyncError> {
        let (from, space, of) = (folder.clone(), share.space.clone(), device.clone());
        let said = blocking(move || {
            Ok(from.progress(&space, &of)?.and_then(|text| progress::decode(&text, &space, &of)))
        });
        let Some(Progress { header, read }) = said.await? else { return Ok(()) };
        let seq = read.get(&share.device).copied().unwrap_or_default();
        let reader = LogReader { author: header.author, name: header.name, seq };
        self.note(share.id, |outcome| drop(outcome.readers.insert(device.clone(), reader)));
        Ok(())
    }

    /// The files of this machine's log. Fails if they are not the beginning of what is logged here.
    async fn own_parts(&self, share: &Share, folder: &Folder) -> Result<Vec<Part>, SyncError> {
        let (folder, readers, share) = (folder.clone(), self.readers.clone(), share.clone());
        blocking(move || {
            let parts = folder.parts(&share.space, &share.device)?;
            let Some(last) = parts.iter().max_by_key(|part| part.last) else { return Ok(parts) };
            let text = folder.read(last)?;
            let segment = decode(&text, &share.space, &share.device)
                .map_err(|why| SyncError::OwnFile { path: last.path.clone(), why })?;
            let here = readers.read(|db| db.logged(share.id, (last.last, last.last), 1))?;
            match here.first() {
                Some(logged) if logged.hash == segment.end => Ok(parts),
                _ => Err(SyncError::Fork),
            }
        })
        .await
    }

    async fn pull(&self, share: &Share, folder: &Folder) -> Result<(), SyncError> {
        let (listed, space) = (folder.clone(), share.space.clone());
        let devices = blocking(move || Ok(listed.devices(&space)?)).await?;
        self.note(share.id, |outcome| {
            outcome.stopped.clear();
            outcome.readers.clear();
        });
        for device in devices.into_iter().filter(|device| *device != share.device) {
            self.note_progress(share, folder, &device).await?;
            if let Some(why) = self.pull_from(share, folder, &device).await? {
                tracing::warn!(
                    share = share.id.0,
                    device = device.short(),
                    why,
                    "stopped reading a machine's log"
                );
                self.note(share.id, |outcome| drop(outcome.stopped.insert(device, why)));
            }
        }
        Ok(())
    }

    /// Reads what is new of a machine. Returns why no more of it can be read.
    async fn pull_from(
        &self,
        share: &Share,
        folder: &Folder,
        device: &DeviceId,
    ) -> Result<Option<String>, SyncError> {
        let (listed, space, asked) = (folder.clone(), share.space.clone(), device.clone());
        let parts = blocking(move || Ok(listed.parts(&space, &asked)?)).await?;
        let available = parts.iter().map(|part| part.last).max().unwrap_or_default();
        self.note(share.id, |outcome| {
            outcome.available.insert(device.clone(), available);
        });
        let (id, asked) = (share.id, device.clone());
        let heads = self.read(move |db| db.heads(id)).await?;
        let read_upto = heads.iter().find(|head| head.device == asked).map_or(0, |head| head.seq);
        for part in parts.into_iter().filter(|part| part.last > read_upto).take(MOST_FILES) {
            let (from, space, of, redactor) =
                (folder.clone(), share.space.clone(), device.clone(), self.redactor.clone());
            let name = part.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let read = blocking(move || {
                let text = from.read(&part)?;
                Ok(decode(&text, &space, &of).map(|segment| without_secrets(segment, &redactor)))
            });
            let Segment { header, records, end } = match read.await? {
                Ok(segment) => segment,
                Err(why) => return Ok(Some(format!("its file {name} {why}"))),
            };
            let apply = ApplyRecords {
                share: share.id,
                device: device.clone(),
                author: header.author,
                name: header.name,
                records,
                end,
                now: clock::now(),
            };
            match self.ports.writer().write(apply).await? {
                Applied::All { new, touched } => {
                    tracing::info!(share = share.id.0, device = device.short(), new, "read a machine's log");
                    self.ports.reload(touched);
                }
                Applied::Gap { known, first } => {
                    return Ok(Some(format!("its entries {} to {} are missing", known + 1, first - 1)));
                }
                Applied::WrongHash { at } => {
                    return Ok(Some(format!("its entries up to {at} do not follow from those before")));
                }
                Applied::NotShared => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Writes what the remote does not have.
    async fn push(&self, share: &Share, folder: &Folder, own: &[Part]) -> Result<(), SyncError> {
        let id = share.id;
        let (head, _) = self.read(move |db| db.log_head(id)).await?;
        let device = self.device().await?;
        for (first, last) in missing(own, head) {
            let mut next = first;
            while next <= last {
                let most = u32::try_from(MOST_RECORDS).unwrap_or(u32::MAX);
                let entries = self.read(move |db| db.logged(id, (next, last), most)).await?;
                let Some(end) = entries.last().cloned() else { break };
                let redactor = self.redactor.get();
                let mut held = Vec::new();
                let records: Vec<Record> = entries
                    .into_iter()
                    .map(|logged| match held_for(&logged.record, &redactor) {
                        None => logged.record,
                        Some(why) => {
                            held.push((logged.record.seq, why.to_owned()));
                            Record { body: None, ..logged.record }
                        }
                    })
                    .collect();
                self.ports.writer().write(HoldBack { share: id, entries: held }).await?;
                let header = Header::of(&device, &share.space, &share.author, &share.device_name);
                let text = encode(&header, &records, &end.hash, &device)?;
                let (into, of) = (folder.clone(), share.clone());
                let upto = end.record.seq;
                let put = blocking(move || Ok(into.put((&of.space, &of.device), (next, upto), &text)?));
                if put.await? == Put::Taken {
                    return Err(SyncError::Fork);
                }
                next = upto + 1;
            }
        }
        self.note(share.id, |outcome| outcome.sent = head);
        Ok(())
    }

    /// Removes the bodies of forgotten notes from the files that were sent.
    async fn empty(&self, share: &Share, folder: &Folder) -> Result<(), SyncError> {
        let id = share.id;
        let emptied = self.read(move |db| db.emptied(id)).await?;
        if emptied.is_empty() {
            return Ok(());
        }
        let device = self.device().await?;
        let (folder, share, seqs) = (folder.clone(), share.clone(), emptied.clone());
        blocking(move || {
            folder.tidy(&share.space, &share.device)?;
            for part in folder.parts(&share.space, &share.device)? {
                let is_in = |seq: &&u64| (part.first..=part.last).contains(*seq);
                if !seqs.iter().any(|seq| is_in(&seq)) {
                    continue;
                }
                let text = folder.read(&part)?;
                let Segment { header, mut records, end } = decode(&text, &share.space, &share.device)
                    .map_err(|why| SyncError::OwnFile { path: part.path.clone(), why })?;
                for record in records.iter_mut().filter(|record| seqs.contains(&record.seq)) {
                    record.body = None;
                }
                folder.replace(&part, &encode(&header, &records, &end, &device)?)?;
            }
            Ok(())
        })
        .await?;
        self.ports.writer().write(EmptiedSent { share: id, entries: emptied }).await?;
        Ok(())
    }

    async fn device(&self) -> Result<Device, SyncError> {
        let file = self.device_file.clone();
        blocking(move || {
            Device::load_or_create(&file).map_err(|source| SyncError::Key { path: file, source })
        })
        .await
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(Reader<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, SyncError> {
        let readers = self.readers.clone();
        blocking(move || Ok(readers.read(query)?)).await
    }
}

fn is_same(meant: &SharedProject, share: &Share) -> bool {
    meant.remote == share.remote && space_of(&meant.project) == share.space
}

/// Who writes here, and the name of this machine.
pub fn names(sharing: &Sharing) -> (String, String) {
    let user = || std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok();
    let host = || {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
    };
    let author = sharing.author.clone().or_else(user).unwrap_or_else(|| "somebody".to_owned());
    let device = sharing.device.clone().or_else(host).unwrap_or_else(|| "a machine".to_owned());
    (author, device)
}

/// The ranges from 1 to `head` that no file covers.
fn missing(parts: &[Part], head: u64) -> Vec<(u64, u64)> {
    let mut missing = Vec::new();
    let mut next = 1;
    for part in parts {
        if part.first > next {
            missing.push((next, part.first - 1));
        }
        next = next.max(part.last + 1);
    }
    if next <= head {
        missing.push((next, head));
    }
    missing
}

/// What comes in is redacted by this machine's rules, too.
fn without_secrets(segment: Segment, redactor: &CurrentRedactor) -> Segment {
    let redactor = redactor.get();
    let clean = |record: Record| match &record.body {
        Some(body) if held_for(&record, &redactor).is_some() => {
            let body = redactor.redact_text(body).into_owned();
            Record { body: Some(body), ..record }
        }
        _ => record,
    };
    Segment { records: segment.records.into_iter().map(clean).collect(), ..segment }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SyncError> + Send + 'static,
) -> Result<T, SyncError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(SyncError::Panicked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_file_covers_is_sent_again() {
        let part = |first, last| Part { first, last, path: PathBuf::new() };
        assert_eq!(missing(&[], 0), []);
        assert_eq!(missing(&[], 7), [(1, 7)]);
        assert_eq!(missing(&[part(1, 7)], 7), []);
        assert_eq!(missing(&[part(3, 4), part(6, 6)], 9), [(1, 2), (5, 5), (7, 9)]);
        assert_eq!(missing(&[part(1, 4), part(2, 3), part(4, 6)], 7), [(7, 7)]);
    }
}
