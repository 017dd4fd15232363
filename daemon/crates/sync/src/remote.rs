//! The operations that every kind of remote supports: each machine appends to its own log, and reads those of the
//! others.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use ring::digest::{SHA256, digest};

use super::address::Address;
use super::device::Device;
use super::folder::{PartFile, Put, RemoteFolder, RemoteFolderError};
use super::hex::hex;
use super::postgres::{Append, Database, DatabaseError, Head, Page};
use super::progress::{self, ReadProgress};
use super::segment::{Seal, Segment, SegmentHeader, UnusableSegment, decode, encode, unsealed};
use super::team::{TeamStatement, team_space};
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::Record;
use recall_system::secret::KeySource;

/// A remote during one round.
pub enum Remote {
    Folder(RemoteFolder),
    Postgres(Box<Database>),
}

/// Why a remote cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error(transparent)]
    Folder(#[from] RemoteFolderError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("this machine's own file {} {why}", path.display())]
    OwnFile { path: PathBuf, why: UnusableSegment },
    #[error("cannot write an entry: {0}")]
    Json(#[from] serde_json::Error),
    #[error("a thread panicked")]
    Panicked,
}

/// A machine's log as stored in the remote.
#[derive(Clone, Debug, Default)]
pub struct RemoteLog {
    pub device: DeviceId,
    /// The number of the last entry; 0 if there is none.
    pub last: u64,
    /// The hash of the last entry, if the remote stores it.
    pub end: Option<String>,
    pub progress: ProgressReport,
    /// The log's files, if the remote is a folder.
    parts: Vec<PartFile>,
}

/// A machine's report of how far it has read the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProgressReport {
    #[default]
    Nothing,
    /// Unchanged since the mark that was passed.
    AsBefore,
    Now {
        progress: Box<ReadProgress>,
        mark: Option<String>,
    },
}

/// Consecutive entries to append.
pub struct NewEntries {
    pub header: SegmentHeader,
    pub records: Vec<Record>,
    /// The hash of the entry before the first one; `end` is the hash of the last one.
    pub before: String,
    pub end: String,
}

impl RemoteLog {
    /// The ranges of entries up to `head` that the remote lacks.
    pub fn lacks(&self, head: u64) -> Vec<(u64, u64)> {
        match (self.parts.is_empty(), self.last) {
            (true, 0) => missing(&[], head),
            (true, last) => missing(&[(1, last)], head),
            (false, _) => {
                let ranges: Vec<(u64, u64)> = self.parts.iter().map(|part| (part.first, part.last)).collect();
                missing(&ranges, head)
            }
        }
    }
}

impl Remote {
    pub fn at(address: Address, password: KeySource) -> Self {
        match address {
            Address::Folder(folder) => Self::Folder(folder),
            Address::Postgres(address) => Self::Postgres(Box::new(Database::at(address, password))),
        }
    }

    /// Whether others see a write at once. A folder's synchroniser takes time.
    pub fn is_immediate(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Checks the remote's id. The first machine to use a folder gives it one.
    pub async fn enter(&self, known: Option<String>) -> Result<String, RemoteError> {
        match self {
            Self::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || Ok(folder.enter(known.as_deref())?)).await
            }
            Self::Postgres(database) => Ok(database.enter(known.as_deref()).await?),
        }
    }

    /// Lists the logs in a space. A progress report with a known mark is not read again.
    pub async fn logs(
        &self,
        space: &str,
        marks: &BTreeMap<DeviceId, String>,
    ) -> Result<Vec<RemoteLog>, RemoteError> {
        match self {
            Self::Folder(folder) => {
                let (folder, space) = (folder.clone(), space.to_owned());
                blocking(move || logs_in(&folder, &space)).await
            }
            Self::Postgres(database) => logs_at(database, space, marks).await,
        }
    }

    /// Returns the last entry of this machine's own log in the remote, with its hash.
    pub async fn own_end(&self, space: &str, log: &RemoteLog) -> Result<Option<(u64, String)>, RemoteError> {
        match self {
            Self::Folder(folder) => {
                let Some(part) = log.parts.iter().max_by_key(|part| part.last).cloned() else {
                    return Ok(None);
                };
                let (folder, space, device) = (folder.clone(), space.to_owned(), log.device.clone());
                blocking(move || {
                    let segment = own_segment(&folder, &part, &space, &device)?;
                    Ok(Some((part.last, segment.end)))
                })
                .await
            }
            Self::Postgres(_) => Ok(log.end.clone().filter(|_| log.last > 0).map(|end| (log.last, end))),
        }
    }

    /// Reads the entries after a given one, part by part.
    pub fn unread<'r>(&'r self, space: &'r str, log: &'r RemoteLog, after: u64) -> Unread<'r> {
        let parts = log.parts.iter().filter(|part| part.last > after).cloned().collect();
        Unread {
            remote: self,
            space,
            device: &log.device,
            after,
            last: log.last,
            parts,
            pages: VecDeque::new(),
        }
    }

    /// Appends to this machine's own log.
    pub async fn append(&self, entries: NewEntries, device: &Arc<Device>) -> Result<Put, RemoteError> {
        let NewEntries { header, records, before, end } = entries;
        match self {
            Self::Folder(folder) => {
                let (folder, device) = (folder.clone(), Arc::clone(device));
                blocking(move || {
                    let (Some(first), Some(last)) = (records.first(), records.last()) else {
                        return Ok(Put::Written);
                    };
                    let text = encode(&header, &records, &end, &device)?;
                    Ok(folder.put(&header.space, &device.id, first.seq, last.seq, &text)?)
                })
                .await
            }
            Self::Postgres(database) => {
                let seal = Seal::of(&header, &end, device)?;
                let (space, id) = (header.space.as_str(), &device.id);
                let append = Append { space, device: id, seal: &seal, before: &before, records: &records };
                let refused = database.append(&append).await?;
                Ok(refused.map_or(Put::Written, |_| Put::Taken))
            }
        }
    }

    /// Empties the bodies of these entries in this machine's own log.
    pub async fn empty(&self, space: &str, device: &Arc<Device>, seqs: &[u64]) -> Result<(), RemoteError> {
        match self {
            Self::Folder(folder) => {
                let (folder, space) = (folder.clone(), space.to_owned());
                let (device, seqs) = (Arc::clone(device), seqs.to_vec());
                blocking(move || emptied(&folder, &space, &device, &seqs)).await
            }
            Self::Postgres(database) => Ok(database.blank(space, &device.id, seqs).await?),
        }
    }

    /// Writes how far this machine has read the others.
    pub async fn write_progress(&self, now: &ReadProgress, device: &Device) -> Result<(), RemoteError> {
        let text = progress::encode(now, device)?;
        self.write_text(&now.header.space, &device.id, text).await
    }

    /// Reads the team statements of all machines. `id` is the remote's own. Unchanged ones come from `cache`.
    pub async fn statements(
        &self,
        id: &str,
        cache: &mut StatementCache,
    ) -> Result<Vec<TeamStatement>, RemoteError> {
        self.statements_in(team_space(), id, cache).await
    }

    /// Reads the statements of all machines in a space. `id` names their subject.
    pub async fn statements_in(
        &self,
        space: String,
        id: &str,
        cache: &mut StatementCache,
    ) -> Result<Vec<TeamStatement>, RemoteError> {
        let texts: Vec<(DeviceId, String)> = match self {
            Self::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || {
                    let devices = folder.devices(&space)?.into_iter();
                    let texts = devices.map(|device| Ok((folder.progress(&space, &device)?, device)));
                    let texts: Vec<_> = texts.collect::<Result<_, RemoteFolderError>>()?;
                    Ok(texts.into_iter().filter_map(|(text, device)| Some((device, text?))).collect())
                })
                .await?
            }
            Self::Postgres(database) => return cache.refresh(database, &space, id).await,
        };
        Ok(texts.iter().filter_map(|(device, text)| TeamStatement::decode(text, id, device)).collect())
    }

    /// Writes this machine's team statement.
    pub async fn state(&self, statement: &TeamStatement, device: &Device) -> Result<(), RemoteError> {
        self.state_in(&team_space(), statement, device).await
    }

    /// Writes this machine's statement in a space.
    pub async fn state_in(
        &self,
        space: &str,
        statement: &TeamStatement,
        device: &Device,
    ) -> Result<(), RemoteError> {
        self.write_text(space, &device.id, statement.encode(device)?).await
    }

    /// Replaces this machine's only text in a space.
    async fn write_text(&self, space: &str, device: &DeviceId, text: String) -> Result<(), RemoteError> {
        match self {
            Self::Folder(folder) => {
                let (folder, space, device) = (folder.clone(), space.to_owned(), device.clone());
                blocking(move || Ok(folder.keep_progress(&space, &device, &text)?)).await
            }
            Self::Postgres(database) => Ok(database.write_progress(space, device, &text).await?),
        }
    }
}

/// Team statements of earlier rounds, each with the mark that changes when its text does.
#[derive(Clone, Debug, Default)]
pub struct StatementCache(BTreeMap<DeviceId, (String, Option<TeamStatement>)>);

impl StatementCache {
    async fn refresh(
        &mut self,
        database: &Database,
        space: &str,
        id: &str,
    ) -> Result<Vec<TeamStatement>, RemoteError> {
        let heads = database.heads(space).await?;
        let marks: BTreeMap<DeviceId, String> =
            heads.into_iter().filter_map(|head| Some((head.device, head.progress_mark?))).collect();
        self.0.retain(|device, (mark, _)| marks.get(device) == Some(mark));
        let asked: Vec<&str> = marks
            .keys()
            .filter(|device| !self.0.contains_key(device))
            .map(|device| device.0.as_str())
            .collect();
        for (device, text) in database.progress(space, &asked).await? {
            let Some(device) = DeviceId::parse(&device) else { continue };
            let statement = TeamStatement::decode(&text, id, &device);
            self.0.insert(device, (mark_of(&text), statement));
        }
        Ok(self.0.values().filter_map(|(_, statement)| statement.clone()).collect())
    }
}

/// The unread rest of a log.
pub struct Unread<'r> {
    remote: &'r Remote,
    space: &'r str,
    device: &'r DeviceId,
    after: u64,
    last: u64,
    parts: VecDeque<PartFile>,
    pages: VecDeque<Page>,
}

impl Unread<'_> {
    /// Returns the next part, or why it cannot be used; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Result<Segment, String>>, RemoteError> {
        match self.remote {
            Remote::Folder(folder) => {
                let Some(part) = self.parts.pop_front() else { return Ok(None) };
                let (folder, space, device) = (folder.clone(), self.space.to_owned(), self.device.clone());
                let name = part.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let read = blocking(move || Ok(decode(&folder.read(&part)?, &space, &device))).await?;
                Ok(Some(read.map_err(|why| format!("its file {name} {why}"))))
            }
            Remote::Postgres(database) => {
                if self.pages.is_empty() && self.after < self.last {
                    self.pages = database.pull(self.space, self.device, self.after).await?.into();
                }
                let Some(Page { seal, records }) = self.pages.pop_front() else { return Ok(None) };
                let numbers = records.first().zip(records.last());
                let Some((first, last)) = numbers.map(|(first, last)| (first.seq, last.seq)) else {
                    return Ok(Some(Err("a part of it is empty".to_owned())));
                };
                if last <= self.after {
                    return Ok(Some(Err(format!("its entries {first} to {last} came twice"))));
                }
                self.after = last;
                let read = unsealed(seal, records, self.space, self.device);
                Ok(Some(read.map_err(|why| format!("its part of the entries {first} to {last} {why}"))))
            }
        }
    }
}

fn logs_in(folder: &RemoteFolder, space: &str) -> Result<Vec<RemoteLog>, RemoteError> {
    let mut logs = Vec::new();
    for device in folder.devices(space)? {
        let parts = folder.parts(space, &device)?;
        let text = folder.progress(space, &device)?;
        let progress = text.and_then(|text| progress::decode(&text, space, &device));
        logs.push(RemoteLog {
            last: parts.iter().map(|part| part.last).max().unwrap_or_default(),
            end: None,
            progress: progress.map_or(ProgressReport::Nothing, |progress| ProgressReport::Now {
                progress: Box::new(progress),
                mark: None,
            }),
            device,
            parts,
        });
    }
    Ok(logs)
}

async fn logs_at(
    database: &Database,
    space: &str,
    marks: &BTreeMap<DeviceId, String>,
) -> Result<Vec<RemoteLog>, RemoteError> {
    let heads = database.heads(space).await?;
    let is_known = |head: &Head| head.progress_mark.as_ref() == marks.get(&head.device);
    let asked: Vec<&str> = heads
        .iter()
        .filter(|head| head.progress_mark.is_some() && !is_known(head))
        .map(|head| head.device.0.as_str())
        .collect();
    let texts: BTreeMap<String, String> = database.progress(space, &asked).await?.into_iter().collect();
    let log = |head: Head| {
        let progress = match texts.get(&head.device.0) {
            Some(text) => {
                progress::decode(text, space, &head.device).map_or(ProgressReport::Nothing, |progress| {
                    ProgressReport::Now { progress: Box::new(progress), mark: Some(mark_of(text)) }
                })
            }
            None if head.progress_mark.is_some() => ProgressReport::AsBefore,
            None => ProgressReport::Nothing,
        };
        RemoteLog { device: head.device, last: head.seq, end: Some(head.hash), progress, parts: Vec::new() }
    };
    Ok(heads.into_iter().map(log).collect())
}

fn own_segment(
    folder: &RemoteFolder,
    part: &PartFile,
    space: &str,
    device: &DeviceId,
) -> Result<Segment, RemoteError> {
    let text = folder.read(part)?;
    decode(&text, space, device).map_err(|why| RemoteError::OwnFile { path: part.path.clone(), why })
}

/// Rewrites the files of this machine that contain one of these entries.
fn emptied(folder: &RemoteFolder, space: &str, device: &Device, seqs: &[u64]) -> Result<(), RemoteError> {
    folder.tidy(space, &device.id)?;
    for part in folder.parts(space, &device.id)? {
        if !seqs.iter().any(|seq| (part.first..=part.last).contains(seq)) {
            continue;
        }
        let Segment { header, mut records, end } = own_segment(folder, &part, space, &device.id)?;
        for record in records.iter_mut().filter(|record| seqs.contains(&record.seq)) {
            record.body = None;
        }
        folder.replace(&part, &encode(&header, &records, &end, device)?)?;
    }
    Ok(())
}

/// Computes the mark that the server computes for a text.
fn mark_of(text: &str) -> String {
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

/// The ranges from 1 to `head` that nothing covers.
fn missing(covered: &[(u64, u64)], head: u64) -> Vec<(u64, u64)> {
    let mut missing = Vec::new();
    let mut next = 1;
    for (first, last) in covered {
        if *first > next {
            missing.push((next, first - 1));
        }
        next = next.max(last + 1);
    }
    if next <= head {
        missing.push((next, head));
    }
    missing
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RemoteError> + Send + 'static,
) -> Result<T, RemoteError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(RemoteError::Panicked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_ranges_not_covered_by_any_part_are_missing() {
        assert_eq!(missing(&[], 0), []);
        assert_eq!(missing(&[], 7), [(1, 7)]);
        assert_eq!(missing(&[(1, 7)], 7), []);
        assert_eq!(missing(&[(3, 4), (6, 6)], 9), [(1, 2), (5, 5), (7, 9)]);
        assert_eq!(missing(&[(1, 4), (2, 3), (4, 6)], 7), [(7, 7)]);
        let log = RemoteLog { last: 5, ..RemoteLog::default() };
        assert_eq!((log.lacks(5), log.lacks(7)), (Vec::new(), vec![(6, 7)]));
    }
}
