//! The only tantivy writer. It follows the store's log from its own high-water mark.
//!
//! A commit costs milliseconds whatever its size, so changes are collected for a moment; `flush` skips that wait. A
//! damaged or outdated index is rebuilt from the store. Until the rebuild is complete, the [`IndexHandle`] says so and
//! users' searches read the store instead.
//!
//! An opened index can be searched immediately. The first run, shortly after the start, verifies the checksums of its
//! files, which takes longer than the rest of the daemon's start. Nothing is written before that. A new index is also
//! created in the first run.

use recall_domain::ids::LogSeq;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::task::JoinHandle;

use super::failure::GaveUp;
use super::handle::ActorHandle;
use super::writer::WriterHandle;
use recall_agents::Agents;
use recall_app::bus::{Bus, BusEvent};
use recall_app::documents::document;
use recall_app::index_handle::{IndexHandle, IndexState};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_search::IndexError;
use recall_search::index::{Index, OpenIndexError, Opened, Unexamined, Writer};
use recall_store::{LogEntry, Readers, StoreError, TrimIndexLog};
use recall_system::faults::{self, Point};
use recall_system::holding::Holding;

/// How long to collect changes. Searches and prompts read unindexed documents from the store, so nobody waits for
/// this, and fewer, larger commits cost less because each creates files that must be merged later.
const COLLECT_FOR: Duration = Duration::from_secs(1);
/// The maximum pause after a run. The indexer pauses three times as long as the run took, so that it takes at most a
/// quarter of a core.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Documents per commit. Larger commits are hardly faster and take more memory.
const STEP: u32 = 500;
/// The number of rows read per transaction. Each transaction takes locks, and drops the database's page cache if
/// something was written since the last one.
const READ_AT_ONCE: usize = 16;

pub enum IndexerMessage {
    /// The log has grown.
    Follow,
    /// The collection time is over.
    Collected,
    /// Replies once the index contains everything committed before.
    Flush(RpcReplyPort<()>),
    /// Like [`Self::Flush`], and also ensures that no text of removed documents is left on disk.
    Purge(RpcReplyPort<()>),
    /// The run has ended and the writer is back.
    Followed(Box<RunResult>),
    /// A search failed, which indicates damaged files. The next run verifies their checksums.
    Suspect,
    Observe(RpcReplyPort<IndexCounters>),
}

/// The result of a run over the log.
pub struct RunResult {
    /// `None` after an error.
    opened: Option<Opened>,
    origin: Origin,
    took: Duration,
    error: Option<String>,
}

/// The index between two runs.
enum Held {
    Unexamined(Box<Unexamined>),
    Examined(Box<Opened>),
}

/// What `recall ctl status` shows of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCounters {
    pub high_water: LogSeq,
    pub rebuilds: u64,
}

pub type IndexerHandle = ActorHandle<IndexerMessage>;

#[derive(Clone)]
pub struct IndexerArguments {
    pub agents: Agents,
    pub folder: PathBuf,
    pub readers: Readers,
    pub writer: WriterHandle,
    pub handle: IndexHandle,
    pub bus: Bus,
    pub first: FirstIndex,
    pub holding: Holding,
}

/// The index that is opened at the daemon's start, in parallel with the database. The first indexer takes it. Cheap to
/// clone.
#[derive(Clone, Default)]
pub struct FirstIndex(Arc<Mutex<Option<JoinHandle<OpenedFiles>>>>);

type OpenedFiles = Result<(Held, Origin), OpenIndexError>;

impl FirstIndex {
    /// Opens the index in a folder if there is one. Must be called inside the runtime.
    pub fn open(folder: &Path) -> Self {
        if !Index::exists(folder) {
            return Self::default();
        }
        Self(Arc::new(Mutex::new(Some(opening(folder)))))
    }

    fn take(&self) -> Option<JoinHandle<OpenedFiles>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn opening(folder: &Path) -> JoinHandle<OpenedFiles> {
    let folder = folder.to_owned();
    tokio::task::spawn_blocking(move || open(&folder))
}

pub(super) struct Indexer;

pub struct IndexerState {
    arguments: IndexerArguments,
    files: Files,
    /// `None` while a run uses it, and before it is opened.
    held: Option<Held>,
    trust: Trust,
    next_run: NextRun,
    /// Callers waiting for a run that starts after their request.
    waiting: Vec<RpcReplyPort<()>>,
    served_by_run: Vec<RpcReplyPort<()>>,
    extent: RunScope,
    counters: IndexCounters,
    /// How long to collect changes before the next run.
    pause: Duration,
}

/// Whether the index was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    Untouched,
    Opened,
}

/// The amount of work for the next run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RunScope {
    #[default]
    Follow,
    /// Also rewrites files that contain removed documents.
    Purge,
}

/// Whether to trust the files of an examined index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trust {
    #[default]
    Kept,
    Lost,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NextRun {
    None,
    /// A timer is running; more changes may be collected.
    Soon,
    Now,
}

impl Actor for Indexer {
    type Msg = IndexerMessage;
    type State = IndexerState;
    type Arguments = IndexerArguments;

    async fn pre_start(
        &self,
        me: ActorRef<IndexerMessage>,
        arguments: IndexerArguments,
    ) -> Result<IndexerState, ActorProcessingErr> {
        let mut state = IndexerState {
            arguments,
            files: Files::Untouched,
            held: None,
            trust: Trust::Kept,
            pause: COLLECT_FOR,
            next_run: NextRun::Soon,
            waiting: Vec::new(),
            served_by_run: Vec::new(),
            extent: RunScope::Follow,
            counters: IndexCounters::default(),
        };
        follow_the_log(&me, &state.arguments);
        // A session may be waiting for the daemon. Creating files or verifying checksums would take CPU and disk from
        // it, so the first run comes later.
        if Index::exists(&state.arguments.folder) {
            state.open().await?;
        }
        me.send_after(state.pause, || IndexerMessage::Collected);
        Ok(state)
    }

    async fn handle(
        &self,
        me: ActorRef<IndexerMessage>,
        message: IndexerMessage,
        state: &mut IndexerState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            IndexerMessage::Follow => {
                if state.next_run == NextRun::None {
                    state.next_run = NextRun::Soon;
                    me.send_after(state.pause, || IndexerMessage::Collected);
                }
            }
            IndexerMessage::Collected => {
                state.next_run = NextRun::Now;
                state.open().await?;
                state.run(&me);
            }
            IndexerMessage::Flush(done) => {
                state.waiting.push(done);
                state.next_run = NextRun::Now;
                state.open().await?;
                state.run(&me);
            }
            IndexerMessage::Purge(done) => {
                state.waiting.push(done);
                state.next_run = NextRun::Now;
                state.extent = RunScope::Purge;
                state.open().await?;
                state.run(&me);
            }
            IndexerMessage::Followed(progress) => state.followed(&me, *progress)?,
            IndexerMessage::Suspect => {
                state.arguments.handle.set(IndexState::Absent);
                state.trust = Trust::Lost;
                state.next_run = NextRun::Now;
                state.run(&me);
            }
            IndexerMessage::Observe(counters) => {
                let _ = counters.send(state.counters);
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Kept,
    Recreated,
}

/// Opens the index. Creates an empty one if it is missing or cannot be opened.
fn open(folder: &Path) -> Result<(Held, Origin), OpenIndexError> {
    match Index::open_unexamined(folder) {
        Ok(unexamined) => Ok((Held::Unexamined(Box::new(unexamined)), Origin::Kept)),
        Err(OpenIndexError::Unusable { path, why }) => {
            tracing::warn!(index = %path.display(), %why, "rebuilding the index");
            Ok((Held::Examined(Box::new(Index::recreate(folder)?)), Origin::Recreated))
        }
        Err(error) => Err(error),
    }
}

/// Returns an index whose files match their checksums: this one, or an empty one in its place.
fn examined(
    held: Held,
    folder: &Path,
    handle: &IndexHandle,
) -> Result<(Box<Opened>, Origin), OpenIndexError> {
    let unexamined = match held {
        Held::Examined(opened) => return Ok((opened, Origin::Kept)),
        Held::Unexamined(unexamined) => unexamined,
    };
    let begun = Instant::now();
    match unexamined.examine() {
        Ok(opened) => {
            tracing::debug!(took = ?begun.elapsed(), "the index files match their checksums");
            handle.set(state_of(&opened.index));
            Ok((Box::new(opened), Origin::Kept))
        }
        Err(OpenIndexError::Unusable { path, why }) => {
            tracing::warn!(index = %path.display(), %why, "rebuilding the index");
            handle.set(IndexState::Absent);
            let opened = Index::recreate(folder)?;
            handle.set(state_of(&opened.index));
            Ok((Box::new(opened), Origin::Recreated))
        }
        Err(error) => Err(error),
    }
}

/// The state after examination. Only the first run over the log shows whether an empty index is complete.
fn state_of(examined: &Index) -> IndexState {
    match examined.high_water() {
        LogSeq(0) => IndexState::Filling(examined.clone()),
        _ => IndexState::Complete(examined.clone()),
    }
}

/// Like [`examined`], on a low-priority thread.
fn examined_aside(
    held: Held,
    folder: &Path,
    handle: &IndexHandle,
) -> Result<(Box<Opened>, Origin), CatchUpError> {
    // Examining an empty index takes no time.
    if !matches!(&held, Held::Unexamined(unexamined) if unexamined.high_water() > LogSeq(0)) {
        return Ok(examined(held, folder, handle)?);
    }
    thread::scope(|scope| {
        let work = move || {
            // On Linux this affects only the calling thread. Not the lowest priority, because a flush may be waiting
            // for it.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::setpriority_process(None, 10);
            examined(held, folder, handle)
        };
        let named = thread::Builder::new().name("index-check".to_owned());
        let examined = named.spawn_scoped(scope, work).map_err(CatchUpError::Thread)?.join();
        Ok(examined.map_err(|_| CatchUpError::Panicked)??)
    })
}

fn follow_the_log(me: &ActorRef<IndexerMessage>, arguments: &IndexerArguments) {
    let (me, mut rows) = (me.clone(), arguments.bus.follow_rows());
    tokio::spawn(async move {
        while rows.changed().await.is_ok() {
            if me.send_message(IndexerMessage::Follow).is_err() {
                return;
            }
        }
    });
}

impl IndexerState {
    /// Opens or creates the index, unless already done.
    async fn open(&mut self) -> Result<(), ActorProcessingErr> {
        if self.files == Files::Opened {
            return Ok(());
        }
        self.arguments.holding.check()?;
        let opened = self.arguments.first.take().unwrap_or_else(|| opening(&self.arguments.folder));
        let (held, origin) = opened.await??;
        self.files = Files::Opened;
        let (state, high_water) = match &held {
            Held::Examined(opened) => (state_of(&opened.index), opened.writer.high_water()),
            Held::Unexamined(unexamined) => match unexamined.high_water() {
                LogSeq(0) => (IndexState::Filling(unexamined.index.clone()), LogSeq(0)),
                upto => (IndexState::Unexamined(unexamined.index.clone()), upto),
            },
        };
        self.arguments.handle.set(state);
        self.counters = IndexCounters { high_water, rebuilds: u64::from(origin == Origin::Recreated) };
        self.held = Some(held);
        Ok(())
    }

    fn run(&mut self, me: &ActorRef<IndexerMessage>) {
        let Some(held) = self.held.take() else { return };
        let held = match (held, std::mem::take(&mut self.trust)) {
            (Held::Examined(opened), Trust::Lost) => {
                Held::Unexamined(Box::new(opened.doubted(&self.arguments.folder)))
            }
            (held, _) => held,
        };
        self.next_run = NextRun::None;
        self.served_by_run.append(&mut self.waiting);
        let extent = std::mem::take(&mut self.extent);
        let (me, arguments) = (me.clone(), self.arguments.clone());
        tokio::spawn(async move {
            let work = tokio::task::spawn_blocking(move || follow(held, &arguments, extent));
            let progress = work.await.unwrap_or_else(|_| RunResult {
                opened: None,
                origin: Origin::Kept,
                took: Duration::ZERO,
                error: Some("the indexer's thread panicked".to_owned()),
            });
            let _ = me.send_message(IndexerMessage::Followed(Box::new(progress)));
        });
    }

    /// Updates the index from the log. Fails if the index is damaged. The supervisor then starts another
    /// indexer, which rebuilds the index.
    fn followed(
        &mut self,
        me: &ActorRef<IndexerMessage>,
        progress: RunResult,
    ) -> Result<(), ActorProcessingErr> {
        let RunResult { opened, origin, took, error } = progress;
        self.counters.rebuilds += u64::from(origin == Origin::Recreated);
        let opened = match (opened, error) {
            (Some(opened), None) => opened,
            (_, error) => {
                self.arguments.handle.set(IndexState::Absent);
                return Err(GaveUp(error.unwrap_or_default()).into());
            }
        };
        let upto = opened.writer.high_water();
        self.held = Some(Held::Examined(Box::new(opened)));
        self.pause = (took * 3).clamp(COLLECT_FOR, LONGEST_PAUSE);
        if upto > self.counters.high_water {
            self.counters.high_water = upto;
            let trimmed = self.arguments.writer.queue(TrimIndexLog { upto });
            tokio::spawn(async move {
                if let Err(error) = trimmed.await {
                    tracing::warn!(%error, "cannot trim the index log");
                }
            });
        }
        self.arguments.bus.publish(BusEvent::Indexed { upto });
        for done in self.served_by_run.drain(..) {
            let _ = done.send(());
        }
        if self.next_run == NextRun::Now || !self.waiting.is_empty() {
            self.run(me);
        }
        Ok(())
    }
}

/// Performs one run: examines the index if necessary, and adds the new log entries.
fn follow(held: Held, arguments: &IndexerArguments, extent: RunScope) -> RunResult {
    let IndexerArguments { agents, folder, readers, handle, holding, .. } = arguments;
    if let Err(lost) = holding.check() {
        let error = Some(lost.to_string());
        return RunResult { opened: None, origin: Origin::Kept, took: Duration::ZERO, error };
    }
    let (mut opened, origin) = match examined_aside(held, folder, handle) {
        Ok(examined) => examined,
        Err(error) => {
            let error = Some(error.to_string());
            return RunResult { opened: None, origin: Origin::Kept, took: Duration::ZERO, error };
        }
    };
    let begun = Instant::now();
    let outcome = catch_up(&mut opened.writer, *agents, readers, handle).and_then(|()| match extent {
        RunScope::Follow => Ok(()),
        RunScope::Purge => Ok(opened.writer.purge()?),
    });
    let error = outcome.err().map(|error| error.to_string());
    RunResult { opened: Some(*opened), origin, took: begun.elapsed(), error }
}

/// Why the index could not follow the log.
#[derive(Debug, thiserror::Error)]
enum CatchUpError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Open(#[from] OpenIndexError),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    #[error("examining the index panicked")]
    Panicked,
}

fn catch_up(
    writer: &mut Writer,
    agents: Agents,
    readers: &Readers,
    handle: &IndexHandle,
) -> Result<(), CatchUpError> {
    let newest = readers.read(|db| db.highest_log_entry())?;
    let indexed = writer.high_water();
    // An index that is ahead of the store followed another store. If log entries after its high-water mark are gone,
    // it cannot follow this store either.
    if indexed > newest || !readers.read(|db| db.log_goes_on_after(indexed))? {
        handle.filling();
        writer.clear()?;
        rebuild(writer, agents, readers, newest)?;
    }
    // Stops at the log's end as of the beginning. Later changes are left to the next run, so that those of a busy
    // agent are collected.
    while writer.high_water() < newest {
        let after = writer.high_water();
        let entries = readers.read(|db| db.documents_after(after, STEP))?;
        let Some(last) = entries.last() else { break };
        if has_started_over(after, &entries) {
            return catch_up(writer, agents, readers, handle);
        }
        let mut keys: Vec<DocumentKey> = entries.iter().map(|entry| entry.key).collect();
        keys.sort_unstable();
        keys.dedup();
        put(writer, agents, readers, &keys)?;
        commit(writer, last.seq)?;
    }
    handle.complete();
    Ok(writer.settle()?)
}

/// Whether the log restarted while the index followed it. Its entries then lack earlier documents.
fn has_started_over(LogSeq(after): LogSeq, entries: &[LogEntry]) -> bool {
    entries.first().is_some_and(|first| first.seq.0 > after.saturating_add(1))
}

/// Adds all documents. `newest` was read beforehand, so later writes are picked up by following the log.
fn rebuild(
    writer: &mut Writer,
    agents: Agents,
    readers: &Readers,
    newest: LogSeq,
) -> Result<(), CatchUpError> {
    tracing::info!("building the index from the database");
    for (kind, ..) in DocumentKind::ALL {
        let mut after = 0;
        loop {
            let keys = readers.read(|db| db.scan_documents(kind, after, STEP))?;
            let Some(last) = keys.last() else { break };
            after = last.row;
            put(writer, agents, readers, &keys)?;
            // These documents become searchable already. After a crash the rebuild starts over.
            commit(writer, LogSeq(0))?;
        }
    }
    commit(writer, newest)
}

fn commit(writer: &mut Writer, upto: LogSeq) -> Result<(), CatchUpError> {
    faults::reach(Point::IndexCommit);
    writer.commit(upto)?;
    faults::reach(Point::IndexCommitted);
    Ok(())
}

fn put(
    writer: &mut Writer,
    agents: Agents,
    readers: &Readers,
    keys: &[DocumentKey],
) -> Result<(), CatchUpError> {
    for keys in keys.chunks(READ_AT_ONCE) {
        let rows = readers.read_one_state(|db| {
            keys.iter().map(|key| db.load_document(*key)).collect::<Result<Vec<_>, StoreError>>()
        })?;
        for (key, row) in keys.iter().zip(rows) {
            match row {
                Some(row) => writer.put(&document(*key, &row, agents))?,
                None => writer.delete(*key),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::document::DocumentKind;

    #[test]
    fn a_log_that_has_started_over_is_detected() {
        let entry =
            |seq| LogEntry { seq: LogSeq(seq), key: DocumentKey { kind: DocumentKind::Observation, row: 1 } };
        assert!(!has_started_over(LogSeq(3), &[]));
        assert!(!has_started_over(LogSeq(3), &[entry(4), entry(5)]));
        assert!(has_started_over(LogSeq(3), &[entry(1_795_000_000_000)]), "as a reindex leaves it");
    }
}
