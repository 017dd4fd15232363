//! Owns the only write connection and replies after commit.
//!
//! A commit contains the writes that queued up during the previous one; it does not wait for more. The shim removes
//! its event when it is acknowledged, so no reply is sent before `COMMIT` has returned. The connection has its own
//! thread, because an agent waits for each commit and a pool's thread takes longer to wake. Writes go directly to that
//! thread; the actor's mailbox only learns of its end.
//!
//! A damaged database accepts no more writes. The group is rolled back, its callers get an error, and the writer fails
//! with [`DatabaseDamaged`], which the root repairs. [`DatabaseLock`] prevents a repair from replacing the file while
//! it is open.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use ractor::concurrency::oneshot;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::{DatabaseDamaged, GaveUp};
use super::handle::ActorHandle;
use recall_app::bus::{Bus, BusEvent};
use recall_app::latency::{Latencies, LatencyWindow};
use recall_app::ports::{self, NoAnswer, WriteFailed};
use recall_store::{Changes, Durability, Operation, StoreError, StoreWriter};
use recall_system::faults::{Fault, planted};
use recall_system::holding::Holding;

/// The maximum number of writes per commit, so that the first does not wait long for the last.
const MAX_GROUP: usize = 64;
/// A commit that takes longer indicates a failing disk. The caller treats its result as unknown, not as failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The time limit for writing thousands of rows, and for rewriting the database, which takes about a second per hundred
/// megabytes.
const BULK_WITHIN: Duration = Duration::from_secs(300);

pub enum WriterMessage {
    /// The thread panicked, and the connection is lost.
    Broken,
    /// The thread found the database damaged and has closed the connection.
    Damaged(DatabaseDamaged),
}

/// The queue of the current writer's thread. Empty while there is none. Cheap to clone.
#[derive(Clone, Default)]
pub struct WriteQueue(Arc<RwLock<Option<Entrance>>>);

/// The sending end to one thread. The thread ends when it is closed.
struct Entrance {
    thread: ThreadId,
    queue: mpsc::Sender<(Pending, Busy)>,
}

impl WriteQueue {
    fn send(&self, pending: Pending) -> Result<(), NoAnswer> {
        let entrance = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Entrance { queue, .. } = entrance.as_ref().ok_or(NoAnswer)?;
        // A thread that has ended has reported why.
        queue.send((pending, Busy::begin())).map_err(|_| NoAnswer)
    }

    /// Sends `pending` with a port for its reply, and waits up to `within` for it.
    async fn ask<R: Send + 'static>(
        &self,
        pending: impl FnOnce(RpcReplyPort<R>) -> Pending,
        within: Duration,
    ) -> Result<R, NoAnswer> {
        let (done, answer) = oneshot();
        self.send(pending(done.into()))?;
        tokio::time::timeout(within, answer).await.map_err(|_| NoAnswer)?.map_err(|_| NoAnswer)
    }

    fn open(&self, entrance: Entrance) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(entrance);
    }

    /// Closes this thread's queue, unless the next thread's is already open.
    fn close(&self, thread: ThreadId) {
        let mut entrance = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entrance.take_if(|entrance| entrance.thread == thread);
    }
}

/// Held by the owner of the database file: the open write connection, or a repair.
#[derive(Clone)]
pub struct DatabaseLock(Arc<Semaphore>);

impl Default for DatabaseLock {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl DatabaseLock {
    /// Waits until the lock is free; `None` if it is still held after `within`.
    pub async fn claim(&self, within: Duration) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout(within, Arc::clone(&self.0).acquire_owned()).await.ok()?.ok()
    }
}

/// The connection that the start opened to check the database. The first writer continues with it, because reopening
/// costs more than the rest of the start. Cheap to clone.
#[derive(Clone, Default)]
pub struct FirstConnection(Arc<Mutex<Option<StoreWriter>>>);

impl FirstConnection {
    pub fn new(connection: StoreWriter) -> Self {
        Self(Arc::new(Mutex::new(Some(connection))))
    }

    fn take(&self) -> Option<StoreWriter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The connection with its lock. Fields are dropped in this order.
pub struct WriteConnection {
    connection: StoreWriter,
    _only: OwnedSemaphorePermit,
}

#[derive(Clone, Default)]
pub struct WriterHandle {
    handle: ActorHandle<WriterMessage>,
    queue: WriteQueue,
}

impl WriterHandle {
    /// Waits until the operation is committed, and returns its output. After a timeout the result is unknown.
    pub async fn write<O: Operation>(&self, operation: O) -> Result<O::Output, WriteFailed> {
        Ok(self.queue.ask(|done| Pending::Write(queued(operation, done)), ANSWER_WITHIN).await??)
    }

    /// Like [`Self::write`], for an operation on thousands of rows.
    pub async fn write_bulk<O: Operation>(&self, operation: O) -> Result<O::Output, WriteFailed> {
        Ok(self.queue.ask(|done| Pending::Write(queued(operation, done)), BULK_WITHIN).await??)
    }

    /// Queues the operation now and returns its output later. Operations commit in the order of the calls.
    pub fn queue<O: Operation>(
        &self,
        operation: O,
    ) -> impl Future<Output = Result<O::Output, WriteFailed>> + Send + use<O> {
        let (done, answer) = oneshot();
        let sent = self.queue.send(Pending::Write(queued(operation, done.into())));
        async move {
            sent?;
            Ok(tokio::time::timeout(ANSWER_WITHIN, answer)
                .await
                .map_err(|_| NoAnswer)?
                .map_err(|_| NoAnswer)??)
        }
    }

    /// Waits until everything queued before is committed.
    pub async fn settle(&self) -> Result<(), NoAnswer> {
        self.queue.ask(Pending::Settle, ANSWER_WITHIN).await
    }

    /// Requests that the write-ahead log be moved into the database, without waiting.
    pub fn restart_log(&self) {
        // A restarting writer does it later.
        let _ = self.queue.send(Pending::RestartLog);
    }

    /// Waits until the database is rewritten and its write-ahead log is empty.
    pub async fn rewrite(&self) -> Result<(), WriteFailed> {
        Ok(self.queue.ask(Pending::Rewrite, BULK_WITHIN).await??)
    }

    pub(super) fn handle(&self) -> &ActorHandle<WriterMessage> {
        &self.handle
    }

    pub(super) fn entrance(&self) -> WriteQueue {
        self.queue.clone()
    }
}

impl ports::Writer for WriterHandle {
    async fn write<O: Operation>(&self, operation: O) -> Result<O::Output, WriteFailed> {
        Self::write(self, operation).await
    }

    async fn write_bulk<O: Operation>(&self, operation: O) -> Result<O::Output, WriteFailed> {
        Self::write_bulk(self, operation).await
    }

    async fn rewrite(&self) -> Result<(), WriteFailed> {
        Self::rewrite(self).await
    }

    fn restart_log(&self) {
        Self::restart_log(self);
    }
}

pub struct WriterArguments {
    pub database: PathBuf,
    pub backups: PathBuf,
    pub durability: Durability,
    pub bus: Bus,
    pub only: DatabaseLock,
    pub first: FirstConnection,
    pub latencies: Arc<Latencies>,
    pub holding: Holding,
    /// Open while the writer lives.
    pub queue: WriteQueue,
}

pub(super) struct Writer;

pub struct WriterState {
    queue: WriteQueue,
    thread: Option<JoinHandle<()>>,
}

impl Drop for WriterState {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            self.queue.close(thread.thread().id());
        }
    }
}

/// A queued operation of any output type. Called inside a transaction, or with the error of its `BEGIN`.
pub type QueuedWrite =
    Box<dyn FnOnce(Result<&StoreWriter, &StoreError>, &mut Changes, Position) -> Executed + Send>;

/// The position of an operation in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    First,
    Later,
}

/// An operation that was executed but not committed yet.
pub struct Executed {
    damage: Option<DatabaseDamaged>,
    answer: Reply,
}

/// Sends the caller the output, or the error of the commit.
type Reply = Box<dyn FnOnce(&Result<(), StoreError>)>;

fn queued<O: Operation>(operation: O, reply: RpcReplyPort<Result<O::Output, StoreError>>) -> QueuedWrite {
    Box::new(move |begun: Result<&StoreWriter, &StoreError>, changes: &mut Changes, position: Position| {
        let result = match begun {
            Ok(connection) => match position {
                Position::First => connection.execute_first(operation, changes),
                Position::Later => connection.execute(operation, changes),
            },
            Err(error) => Err(StoreError::Unavailable(error.to_string())),
        };
        let damage = result.as_ref().err().and_then(damage_of);
        let answer = move |committed: &Result<(), StoreError>| {
            let answer = match committed {
                Ok(()) => result,
                Err(error) => Err(StoreError::Unavailable(error.to_string())),
            };
            // The caller may have stopped waiting. A retry is safe because of the event id.
            let _ = reply.send(answer);
        };
        Executed { damage, answer: Box::new(answer) }
    })
}

enum Pending {
    Write(QueuedWrite),
    Settle(RpcReplyPort<()>),
    RestartLog,
    Rewrite(RpcReplyPort<Result<(), StoreError>>),
}

impl Actor for Writer {
    type Msg = WriterMessage;
    type State = WriterState;
    type Arguments = WriterArguments;

    async fn pre_start(
        &self,
        me: ActorRef<WriterMessage>,
        arguments: WriterArguments,
    ) -> Result<WriterState, ActorProcessingErr> {
        let WriterArguments { database, backups, durability, bus, only, first, latencies, holding, queue } =
            arguments;
        let only = only.claim(ANSWER_WITHIN).await.ok_or("the previous writer still holds the database")?;
        holding.check()?;
        let held_folder = holding.clone();
        let open = move || match first.take() {
            Some(connection) => Ok(connection),
            None => StoreWriter::open(&database, &backups, durability, &held_folder),
        };
        let connection =
            tokio::task::spawn_blocking(open).await?.map_err(|error| match error.is_damage() {
                true => ActorProcessingErr::from(DatabaseDamaged(error.to_string())),
                false => error.into(),
            })?;
        let held = WriteConnection { connection, _only: only };
        let (sender, waiting) = mpsc::channel();
        let thread = thread::Builder::new().name("writer".to_owned()).spawn(move || {
            let serving = || serve(held, &waiting, &bus, &latencies.commits, &holding);
            let message = match catch_unwind(AssertUnwindSafe(serving)) {
                Ok(Ok(())) => return,
                Ok(Err(damage)) => WriterMessage::Damaged(damage),
                Err(_) => WriterMessage::Broken,
            };
            // A stopped writer needs no thread.
            let _ = me.send_message(message);
        })?;
        queue.open(Entrance { thread: thread.thread().id(), queue: sender });
        Ok(WriterState { queue, thread: Some(thread) })
    }

    async fn handle(
        &self,
        _me: ActorRef<WriterMessage>,
        message: WriterMessage,
        _state: &mut WriterState,
    ) -> Result<(), ActorProcessingErr> {
        Err(match message {
            WriterMessage::Broken => GaveUp("the commit panicked".to_owned()).into(),
            WriterMessage::Damaged(damage) => damage.into(),
        })
    }

    async fn post_stop(
        &self,
        _me: ActorRef<WriterMessage>,
        state: &mut WriterState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(thread) = state.thread.take() {
            state.queue.close(thread.thread().id());
            // A panicking thread has already reported why.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        Ok(())
    }
}

/// Marks queued work. A test's paused clock advances when the runtime is idle, and the runtime does not know the
/// writer's thread. So in tests this is also a task of the runtime.
struct Busy {
    #[cfg(test)]
    _until_dropped: mpsc::Sender<()>,
}

impl Busy {
    #[cfg(not(test))]
    fn begin() -> Self {
        Self {}
    }

    #[cfg(test)]
    fn begin() -> Self {
        let (until_dropped, dropped) = mpsc::channel();
        tokio::task::spawn_blocking(move || dropped.recv());
        Self { _until_dropped: until_dropped }
    }
}

/// Commits what arrives until the writer stops or the database is damaged.
fn serve(
    held: WriteConnection,
    waiting: &mpsc::Receiver<(Pending, Busy)>,
    bus: &Bus,
    commits: &LatencyWindow,
    holding: &Holding,
) -> Result<(), DatabaseDamaged> {
    while let Ok(first) = waiting.recv() {
        let group = std::iter::once(first).chain(waiting.try_iter()).take(MAX_GROUP);
        let (group, _busy): (Vec<Pending>, Vec<Busy>) = group.unzip();
        commit_group(&held.connection, group, bus, commits, holding)?;
    }
    if holding.check().is_err() {
        return Ok(());
    }
    // Leaves everything in one file, unless somebody is reading.
    held.connection.settle();
    Ok(())
}

/// Commits a group and replies to each caller. If the database is damaged, the whole group is rolled back.
fn commit_group(
    connection: &StoreWriter,
    group: Vec<Pending>,
    bus: &Bus,
    commits: &LatencyWindow,
    holding: &Holding,
) -> Result<(), DatabaseDamaged> {
    let started = Instant::now();
    let mut changes = Changes::default();
    let mut log_asked = false;
    let begun = begin(connection, holding);
    let mut damage = begun.as_ref().err().and_then(damage_of);
    let mut answers: Vec<Reply> = Vec::with_capacity(group.len());
    let mut settled = Vec::new();
    let mut rewrites = Vec::new();
    for pending in group {
        match pending {
            Pending::Settle(done) => settled.push(done),
            Pending::RestartLog => log_asked = true,
            Pending::Rewrite(done) => rewrites.push(done),
            Pending::Write(write) => {
                let position = if answers.is_empty() { Position::First } else { Position::Later };
                let executed = write(begun.as_ref().map(|()| connection), &mut changes, position);
                damage = damage.or(executed.damage);
                answers.push(executed.answer);
            }
        }
    }
    if planted(Fault::AckBeforeCommit) {
        answer(std::mem::take(&mut answers), &Ok(()));
    }
    let committed = match (begun, &damage) {
        (Err(error), _) => Err(error),
        // A repair would lose what is committed now.
        (Ok(()), Some(damage)) => Err(StoreError::Unavailable(damage.to_string())),
        (Ok(()), None) => connection.commit(&changes),
    };
    if let Err(error) = &committed {
        damage = damage.or_else(|| damage_of(error));
        // The next group must not continue this transaction.
        let _ = connection.roll_back();
    }
    if committed.is_ok() {
        if changes.accepted || changes.documents || changes.jobs {
            commits.record(started.elapsed());
        }
        // This comes before the replies, because a caller with a reply can rely on the events being published.
        let calls = std::mem::take(&mut changes.calls);
        calls.into_iter().for_each(|call| bus.publish(BusEvent::LooseCall(Arc::new(call))));
        let expired = std::mem::take(&mut changes.expired);
        expired.into_iter().for_each(|life| bus.publish(BusEvent::LifeExpired(Arc::new(life))));
        let events = std::mem::take(&mut changes.events);
        events.into_iter().for_each(|event| bus.publish(BusEvent::LifecycleEvent(Arc::new(event))));
    }
    answer(answers, &committed);
    for done in settled {
        let _ = done.send(());
    }
    match committed {
        Ok(()) => {
            if changes.documents {
                bus.rows_written();
            }
            if changes.jobs {
                bus.publish(BusEvent::WorkQueued);
            }
        }
        Err(error) => tracing::error!(%error, "cannot commit"),
    }
    if damage.is_none()
        && log_asked
        && let Err(error) = connection.restart_log()
    {
        tracing::warn!(%error, "cannot move the write-ahead log into the database");
        damage = damage_of(&error);
    }
    for done in rewrites {
        let rewritten = match &damage {
            None => connection.rewrite(),
            Some(damage) => Err(StoreError::Unavailable(damage.to_string())),
        };
        damage = damage.or_else(|| rewritten.as_ref().err().and_then(damage_of));
        let _ = done.send(rewritten);
    }
    match damage {
        None => Ok(()),
        Some(damage) => Err(damage),
    }
}

fn begin(connection: &StoreWriter, holding: &Holding) -> Result<(), StoreError> {
    holding.check().map_err(|lost| StoreError::Unavailable(lost.to_string()))?;
    connection.begin()
}

fn answer(answers: Vec<Reply>, committed: &Result<(), StoreError>) {
    answers.into_iter().for_each(|answer| answer(committed));
}

fn damage_of(error: &StoreError) -> Option<DatabaseDamaged> {
    error.is_damage().then(|| DatabaseDamaged(error.to_string()))
}

#[cfg(test)]
mod tests {
    use recall_store::WakeRetries;

    use super::*;

    /// Returns how long a request waits for a writer that takes the write and does not answer.
    async fn waited(ask: impl AsyncFn(&WriterHandle) -> Result<(), WriteFailed>) -> Duration {
        let (queue, asked) = mpsc::channel();
        let writer = WriterHandle::default();
        writer.queue.open(Entrance { thread: thread::current().id(), queue });
        let begun = tokio::time::Instant::now();
        let (answer, _unanswered) =
            tokio::join!(ask(&writer), async { asked.recv().map(|(pending, _)| pending) });
        assert!(matches!(answer, Err(WriteFailed::NoAnswer(_))));
        begun.elapsed()
    }

    /// An import of 40 MB failed on a busy machine, because a part of it took more than ten seconds.
    #[tokio::test(start_paused = true)]
    async fn a_bulk_write_waits_longer_for_its_reply_than_a_normal_write() {
        assert!(
            waited(async |writer| writer.write(WakeRetries).await.map(drop)).await < Duration::from_secs(11)
        );
        assert!(waited(async |writer| writer.write_bulk(WakeRetries).await.map(drop)).await >= BULK_WITHIN);
    }
}
