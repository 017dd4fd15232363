//! Owns the only write connection and answers after commit.
//!
//! Writes group themselves: one commit takes what has queued up while the last one ran and never waits for company.
//! An acknowledgement is the shim's licence to forget the event, so nothing is answered from a transaction that has
//! not returned from `COMMIT`. The connection works on a blocking thread; between two groups it comes back here.
//!
//! A damaged database takes nothing more: the group is taken back, its callers are told so, and the writer fails with
//! [`DatabaseDamaged`] for the root to repair. [`DatabaseLock`] keeps whoever replaces the file from doing so while it
//! is still open.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::concurrency::oneshot;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::bus::{BusEvent, BusHandle};
use super::failure::GaveUp;
use super::handle::{ActorHandle, NoAnswer};
use crate::faults::{self, Fault, Point, planted};
use crate::store::{self, Changes, Durability, Operation, StoreError};

/// One commit takes at most so many writes, so that the first of them does not wait for the last.
const MOST_IN_A_GROUP: usize = 64;
/// A commit that takes longer is a disk in trouble; the caller treats it as unknown, not as failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Writing anew takes about a second for a hundred megabytes.
const REWRITTEN_WITHIN: Duration = Duration::from_secs(300);

pub enum WriterMessage {
    /// Commits the write and answers once it is durable.
    Write(QueuedWrite),
    /// Answers when everything that came before is committed.
    Settle(RpcReplyPort<()>),
    /// Moves the log beside the database into it, after what came before.
    EmptyLog,
    /// Writes the database anew, after what came before, so that nothing removed is left in it.
    Rewrite(RpcReplyPort<Result<(), StoreError>>),
    /// A group is done and the connection is back.
    Flushed(Box<WriteConnection>),
    /// The group's thread panicked and took the connection along.
    Broken,
    /// The group found the database damaged and has closed the connection.
    Damaged(DatabaseDamaged),
}

/// The writer's end when no later write can succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the database is damaged: {0}")]
pub struct DatabaseDamaged(pub String);

/// Held by whoever may touch the database file: the open write connection, or a repair.
#[derive(Clone)]
pub struct DatabaseLock(Arc<Semaphore>);

impl Default for DatabaseLock {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl DatabaseLock {
    /// Waits until nobody else holds it. `None`: somebody does not let go.
    pub async fn claim(&self, within: Duration) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout(within, Arc::clone(&self.0).acquire_owned()).await.ok()?.ok()
    }
}

/// The connection by which the start has looked at the database. The first writer goes on with it: closing and opening
/// again costs more than all the rest of its start. Cheap to clone.
#[derive(Clone, Default)]
pub struct FirstConnection(Arc<Mutex<Option<Connection>>>);

impl FirstConnection {
    pub fn new(connection: Connection) -> Self {
        Self(Arc::new(Mutex::new(Some(connection))))
    }

    fn take(&self) -> Option<Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The connection with the right to have it open, in the order in which they are dropped.
pub struct WriteConnection {
    connection: Connection,
    _only: OwnedSemaphorePermit,
}

/// Why a write has no result.
#[derive(Debug, thiserror::Error)]
pub enum WriteFailed {
    #[error(transparent)]
    Refused(#[from] StoreError),
    #[error("the writer gave no answer")]
    NoAnswer(#[from] NoAnswer),
}

#[derive(Clone, Default)]
pub struct WriterHandle {
    handle: ActorHandle<WriterMessage>,
}

impl WriterHandle {
    /// Waits until the operation is committed, and returns its output.
    ///
    /// # Errors
    /// When the database refused it, or it is not known what became of it.
    pub async fn write<O: Operation>(&self, operation: O) -> Result<O::Output, WriteFailed> {
        Ok(self.handle.ask(|done| WriterMessage::Write(queued(operation, done)), ANSWER_WITHIN).await??)
    }

    /// Queues the operation now and gives its output later: the order of the calls is the order of the commits.
    pub fn queue<O: Operation>(
        &self,
        operation: O,
    ) -> impl Future<Output = Result<O::Output, WriteFailed>> + Send + use<O> {
        let (done, answer) = oneshot();
        let sent = self.handle.tell(WriterMessage::Write(queued(operation, done.into())));
        async move {
            sent?;
            Ok(tokio::time::timeout(ANSWER_WITHIN, answer)
                .await
                .map_err(|_| NoAnswer)?
                .map_err(|_| NoAnswer)??)
        }
    }

    /// Waits until all that was queued before is committed.
    ///
    /// # Errors
    /// When the writer does not answer.
    pub async fn settle(&self) -> Result<(), NoAnswer> {
        self.handle.ask(WriterMessage::Settle, ANSWER_WITHIN).await
    }

    /// Asks for the log beside the database to be emptied; nobody waits for it.
    pub fn empty_log(&self) {
        // A writer that is just being restarted does it another time.
        let _ = self.handle.tell(WriterMessage::EmptyLog);
    }

    /// Waits until the database is written anew and the log beside it is empty.
    ///
    /// # Errors
    /// When the database refuses, or it is not known what became of it.
    pub async fn rewrite(&self) -> Result<(), WriteFailed> {
        Ok(self.handle.ask(WriterMessage::Rewrite, REWRITTEN_WITHIN).await??)
    }

    pub(super) fn handle(&self) -> &ActorHandle<WriterMessage> {
        &self.handle
    }
}

pub struct WriterArguments {
    pub database: PathBuf,
    pub backups: PathBuf,
    pub durability: Durability,
    pub bus: BusHandle,
    pub only: DatabaseLock,
    pub first: FirstConnection,
}

pub(super) struct Writer;

pub struct WriterState {
    /// `None` while a group is being committed.
    connection: Option<Box<WriteConnection>>,
    waiting: Vec<Pending>,
    bus: BusHandle,
}

/// An operation in the queue, whatever its output is. Called in a transaction, or with the reason why none has begun.
pub type QueuedWrite = Box<dyn FnOnce(Result<&Connection, &StoreError>, &mut Changes) -> Executed + Send>;

/// An operation that is carried out and not committed yet.
pub struct Executed {
    damage: Option<DatabaseDamaged>,
    answer: Answer,
}

/// Sends the output to the caller, or why the commit has failed.
type Answer = Box<dyn FnOnce(&Result<(), StoreError>)>;

fn queued<O: Operation>(operation: O, reply: RpcReplyPort<Result<O::Output, StoreError>>) -> QueuedWrite {
    Box::new(move |begun: Result<&Connection, &StoreError>, changes: &mut Changes| {
        let result = match begun {
            Ok(connection) => store::execute(connection, operation, changes),
            Err(error) => Err(StoreError::Unavailable(error.to_string())),
        };
        let damage = result.as_ref().err().and_then(damage_of);
        let answer = move |committed: &Result<(), StoreError>| {
            let answer = match committed {
                Ok(()) => result,
                Err(error) => Err(StoreError::Unavailable(error.to_string())),
            };
            // The caller may have stopped waiting; the event id makes its next try safe.
            let _ = reply.send(answer);
        };
        Executed { damage, answer: Box::new(answer) }
    })
}

enum Pending {
    Write(QueuedWrite),
    Settle(RpcReplyPort<()>),
    EmptyLog,
    Rewrite(RpcReplyPort<Result<(), StoreError>>),
}

impl Actor for Writer {
    type Msg = WriterMessage;
    type State = WriterState;
    type Arguments = WriterArguments;

    async fn pre_start(
        &self,
        _me: ActorRef<WriterMessage>,
        arguments: WriterArguments,
    ) -> Result<WriterState, ActorProcessingErr> {
        let WriterArguments { database, backups, durability, bus, only, first } = arguments;
        let only = only.claim(ANSWER_WITHIN).await.ok_or("the last writer has not let go")?;
        let open = move || match first.take() {
            Some(connection) => Ok(connection),
            None => store::open_writer(&database, &backups, durability),
        };
        let connection =
            tokio::task::spawn_blocking(open).await?.map_err(|error| match error.is_damage() {
                true => ActorProcessingErr::from(DatabaseDamaged(error.to_string())),
                false => error.into(),
            })?;
        let connection = Box::new(WriteConnection { connection, _only: only });
        Ok(WriterState { connection: Some(connection), waiting: Vec::new(), bus })
    }

    async fn handle(
        &self,
        me: ActorRef<WriterMessage>,
        message: WriterMessage,
        state: &mut WriterState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            WriterMessage::Write(write) => state.waiting.push(Pending::Write(write)),
            WriterMessage::Settle(done) => state.waiting.push(Pending::Settle(done)),
            WriterMessage::EmptyLog => state.waiting.push(Pending::EmptyLog),
            WriterMessage::Rewrite(done) => state.waiting.push(Pending::Rewrite(done)),
            WriterMessage::Flushed(connection) => state.connection = Some(connection),
            WriterMessage::Broken => return Err(GaveUp("the commit panicked".to_owned()).into()),
            WriterMessage::Damaged(damage) => return Err(damage.into()),
        }
        state.flush(&me);
        Ok(())
    }

    async fn post_stop(
        &self,
        _me: ActorRef<WriterMessage>,
        state: &mut WriterState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(held) = state.connection.take() {
            // One file is left behind, as far as nobody reads.
            let close = move || {
                let _ = held.connection.execute_batch("PRAGMA optimize");
                let _ = store::empty_log(&held.connection);
            };
            let _ = tokio::task::spawn_blocking(close).await;
        }
        Ok(())
    }
}

impl WriterState {
    /// Starts the next group, if there is one and the last is done.
    fn flush(&mut self, me: &ActorRef<WriterMessage>) {
        if self.waiting.is_empty() {
            return;
        }
        let Some(connection) = self.connection.take() else { return };
        let rest = self.waiting.split_off(self.waiting.len().min(MOST_IN_A_GROUP));
        let group = std::mem::replace(&mut self.waiting, rest);
        let (me, bus) = (me.clone(), self.bus.clone());
        tokio::spawn(async move {
            let back = tokio::task::spawn_blocking(move || commit_group(connection, group, &bus)).await;
            let message = match back {
                Ok(Ok(connection)) => WriterMessage::Flushed(connection),
                Ok(Err(damage)) => WriterMessage::Damaged(damage),
                Err(_) => WriterMessage::Broken,
            };
            // A writer that is gone needs no connection.
            let _ = me.send_message(message);
        });
    }
}

/// Commits a group and answers each of it. Returns the connection.
///
/// # Errors
/// When the database is damaged: nothing of the group is kept then, and the connection is closed.
fn commit_group(
    held: Box<WriteConnection>,
    group: Vec<Pending>,
    bus: &BusHandle,
) -> Result<Box<WriteConnection>, DatabaseDamaged> {
    let connection = &held.connection;
    let mut changes = Changes::default();
    let mut log_asked = false;
    let begun = begin(connection);
    let mut damage = begun.as_ref().err().and_then(damage_of);
    let mut answers: Vec<Answer> = Vec::with_capacity(group.len());
    let mut settled = Vec::new();
    let mut rewrites = Vec::new();
    for pending in group {
        match pending {
            Pending::Settle(done) => settled.push(done),
            Pending::EmptyLog => log_asked = true,
            Pending::Rewrite(done) => rewrites.push(done),
            Pending::Write(write) => {
                let executed = write(begun.as_ref().map(|()| connection), &mut changes);
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
        // What is committed here would go with the file.
        (Ok(()), Some(damage)) => Err(StoreError::Unavailable(damage.to_string())),
        (Ok(()), None) => commit(connection, &changes),
    };
    if let Err(error) = &committed {
        damage = damage.or_else(|| damage_of(error));
        // Whatever is left of the transaction must not be continued by the next group.
        let _ = run(connection, "ROLLBACK");
    }
    if committed.is_ok() {
        // Before the answers: whoever has one can rely on the events being published.
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
                bus.publish(BusEvent::RowsWritten);
            }
            if changes.jobs {
                bus.publish(BusEvent::WorkQueued);
            }
        }
        Err(error) => tracing::error!(%error, "commit failed"),
    }
    if damage.is_none()
        && log_asked
        && let Err(error) = store::empty_log(connection)
    {
        tracing::warn!(%error, "the log beside the database is not emptied");
        damage = damage_of(&error);
    }
    for done in rewrites {
        let rewritten = match &damage {
            None => store::rewrite(connection),
            Some(damage) => Err(StoreError::Unavailable(damage.to_string())),
        };
        damage = damage.or_else(|| rewritten.as_ref().err().and_then(damage_of));
        let _ = done.send(rewritten);
    }
    match damage {
        None => Ok(held),
        Some(damage) => Err(damage),
    }
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

fn begin(connection: &Connection) -> Result<(), StoreError> {
    faults::reach_disk(Point::Begin)?;
    Ok(run(connection, "BEGIN IMMEDIATE")?)
}

fn commit(connection: &Connection, changes: &Changes) -> Result<(), StoreError> {
    // A crash loses nothing of other groups, such as those that only lease work.
    let can_be_lost = changes.accepted || changes.documents;
    if can_be_lost {
        faults::reach_disk(Point::Commit)?;
    }
    run(connection, "COMMIT")?;
    if can_be_lost {
        faults::reach(Point::Committed);
    }
    Ok(())
}

fn answer(answers: Vec<Answer>, committed: &Result<(), StoreError>) {
    answers.into_iter().for_each(|answer| answer(committed));
}

fn damage_of(error: &StoreError) -> Option<DatabaseDamaged> {
    error.is_damage().then(|| DatabaseDamaged(error.to_string()))
}
