//! Owns the only write connection and answers after commit.
//!
//! Writes group themselves: one commit takes what has queued up while the last one ran and never waits for company.
//! An acknowledgement is the shim's licence to forget the event, so nothing is answered from a transaction that has
//! not returned from `COMMIT`. The connection works on a blocking thread; between two groups it comes back here.

use std::path::PathBuf;
use std::time::Duration;

use ractor::concurrency::oneshot;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use rusqlite::Connection;

use super::bus::{BusHandle, Happening};
use super::door::{Door, NoAnswer};
use crate::memory::session::Effect;
use crate::store::{self, Durability, StoreError, Write, Written};

/// One commit takes at most so many writes, so that the first of them does not wait for the last.
const MOST_IN_A_GROUP: usize = 64;
/// A commit that takes longer is a disk in trouble; the caller treats it as unknown, not as failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

pub enum WriterMessage {
    /// Commits the write and answers once it is durable.
    Write { write: Write, done: RpcReplyPort<Result<Written, StoreError>> },
    /// Answers when everything that came before is committed.
    Settle(RpcReplyPort<()>),
    /// A group is done and the connection is back.
    Flushed(Connection),
    /// The group's thread panicked and took the connection along.
    Broken,
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
    door: Door<WriterMessage>,
}

impl WriterHandle {
    /// Waits until the write is committed.
    ///
    /// # Errors
    /// When the database refused it, or it is not known what became of it.
    pub async fn write(&self, write: Write) -> Result<Written, WriteFailed> {
        Ok(self.door.ask(|done| WriterMessage::Write { write, done }, ANSWER_WITHIN).await??)
    }

    /// Queues the write now and gives its result later: the order of the calls is the order of the commits.
    pub fn queue(&self, write: Write) -> impl Future<Output = Result<Written, WriteFailed>> + Send + use<> {
        let (done, answer) = oneshot();
        let sent = self.door.tell(WriterMessage::Write { write, done: done.into() });
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
        self.door.ask(WriterMessage::Settle, ANSWER_WITHIN).await
    }

    pub(super) fn door(&self) -> &Door<WriterMessage> {
        &self.door
    }
}

pub struct WriterArguments {
    pub database: PathBuf,
    pub backups: PathBuf,
    pub durability: Durability,
    pub bus: BusHandle,
}

pub(super) struct Writer;

pub struct WriterState {
    /// `None` while a group is being committed.
    connection: Option<Connection>,
    waiting: Vec<Pending>,
    bus: BusHandle,
}

enum Pending {
    Write(Write, RpcReplyPort<Result<Written, StoreError>>),
    Settle(RpcReplyPort<()>),
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
        let WriterArguments { database, backups, durability, bus } = arguments;
        let open = move || store::open_writer(&database, &backups, durability);
        let connection = tokio::task::spawn_blocking(open).await??;
        Ok(WriterState { connection: Some(connection), waiting: Vec::new(), bus })
    }

    async fn handle(
        &self,
        me: ActorRef<WriterMessage>,
        message: WriterMessage,
        state: &mut WriterState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            WriterMessage::Write { write, done } => state.waiting.push(Pending::Write(write, done)),
            WriterMessage::Settle(done) => state.waiting.push(Pending::Settle(done)),
            WriterMessage::Flushed(connection) => state.connection = Some(connection),
            WriterMessage::Broken => return Err("the commit panicked".into()),
        }
        state.flush(&me);
        Ok(())
    }

    async fn post_stop(
        &self,
        _me: ActorRef<WriterMessage>,
        state: &mut WriterState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(connection) = state.connection.take() {
            let _ = tokio::task::spawn_blocking(move || connection.execute_batch("PRAGMA optimize")).await;
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
            let message = back.map_or(WriterMessage::Broken, WriterMessage::Flushed);
            // A writer that is gone needs no connection.
            let _ = me.send_message(message);
        });
    }
}

/// Commits a group and answers each of it. Returns the connection.
fn commit_group(mut connection: Connection, group: Vec<Pending>, bus: &BusHandle) -> Connection {
    let mut work_queued = false;
    let mut rows_written = false;
    let begun = connection.execute_batch("BEGIN IMMEDIATE");
    let mut answers = Vec::with_capacity(group.len());
    let mut settled = Vec::new();
    for pending in group {
        match pending {
            Pending::Settle(done) => settled.push(done),
            Pending::Write(write, done) => {
                let result = match &begun {
                    Ok(()) => store::execute(&mut connection, &write),
                    Err(error) => Err(StoreError::Unavailable(error.to_string())),
                };
                if result.is_ok() {
                    work_queued |= queues_work(&write);
                    rows_written |= matches!(write, Write::Event(_) | Write::Idle { .. } | Write::Finish(_));
                }
                answers.push((result, done));
            }
        }
    }
    let committed = match begun {
        Ok(()) => connection.execute_batch("COMMIT").inspect_err(|_| {
            // Whatever is left of the transaction must not be continued by the next group.
            let _ = connection.execute_batch("ROLLBACK");
        }),
        Err(error) => Err(error),
    };
    for (result, done) in answers {
        let answer = match &committed {
            Ok(()) => result,
            Err(error) => Err(StoreError::Unavailable(error.to_string())),
        };
        // The caller may have stopped waiting; the event id makes its next try safe.
        let _ = done.send(answer);
    }
    for done in settled {
        let _ = done.send(());
    }
    match committed {
        Ok(()) => {
            if rows_written {
                bus.publish(Happening::RowsWritten);
            }
            if work_queued {
                bus.publish(Happening::WorkQueued);
            }
        }
        Err(error) => tracing::error!(%error, "commit failed"),
    }
    connection
}

fn queues_work(write: &Write) -> bool {
    let queues = |effects: &[Effect]| {
        effects.iter().any(|effect| matches!(effect, Effect::CompressBatch { .. } | Effect::Summarize))
    };
    match write {
        Write::Event(transaction) => queues(&transaction.effects),
        Write::Idle { effects, .. } => queues(effects),
        Write::Finish(_)
        | Write::Fail(_)
        | Write::GiveBack { .. }
        | Write::ExpireLeases { .. }
        | Write::ReleaseLeases => true,
        Write::Unparsed(_)
        | Write::Lease { .. }
        | Write::Injected(_)
        | Write::SuspendAll { .. }
        | Write::ForgetLog { .. } => false,
    }
}
