//! The use cases' ports to the actors. The daemon implements them with its handles, tests with their own values.

use std::time::Duration;

use recall_protocol::wire::{Deliver, Reply};

use super::event_trace::EventTrace;
use super::injection_receipt::Recipient;
use recall_domain::event::HookEvent;
use recall_domain::ids::SessionKey;
use recall_store::{Operation, StoreError};

/// No reply came in time. The request may or may not have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no reply")]
pub struct NoAnswer;

/// Why a write has no result.
#[derive(Debug, thiserror::Error)]
pub enum WriteFailed {
    #[error(transparent)]
    Refused(#[from] StoreError),
    #[error("the writer did not respond")]
    NoAnswer(#[from] NoAnswer),
}

impl WriteFailed {
    /// Whether the same write may succeed later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused(error) => error.may_pass(),
            Self::NoAnswer(_) => true,
        }
    }
}

/// The only way to change the database.
pub trait Writer: Clone + Send + Sync + 'static {
    /// Waits until the operation is committed, and returns its output.
    fn write<O: Operation>(
        &self,
        operation: O,
    ) -> impl Future<Output = Result<O::Output, WriteFailed>> + Send;

    /// Like [`Self::write`], for an operation on thousands of rows, which takes minutes on a busy machine.
    fn write_bulk<O: Operation>(
        &self,
        operation: O,
    ) -> impl Future<Output = Result<O::Output, WriteFailed>> + Send;

    /// Waits until the database is rewritten and its write-ahead log is empty.
    fn rewrite(&self) -> impl Future<Output = Result<(), WriteFailed>> + Send;

    /// Requests that the write-ahead log be moved into the database, without waiting.
    fn restart_log(&self);
}

/// The writer and the other actors, as seen by the use cases.
pub trait Ports: Clone + Send + Sync + 'static {
    type Writer: Writer;

    fn writer(&self) -> &Self::Writer;

    /// Sends an event to its session and waits for the reply.
    fn deliver(
        &self,
        session: SessionKey,
        event: AcceptedEvent,
        within: Duration,
    ) -> impl Future<Output = Result<Reply, NoAnswer>> + Send;

    /// Tells these sessions to reload their state, because part of it was forgotten.
    fn reload(&self, sessions: Vec<SessionKey>);

    /// Waits until the index contains everything that was committed.
    fn flush_index(&self, within: Duration) -> impl Future<Output = Result<(), NoAnswer>> + Send;

    /// Closes the open circuits of providers, so that they are called again.
    fn reconsider_providers(&self);

    /// Waits until the index contains everything that was committed, and no text of removed documents.
    fn purge_index(&self, within: Duration) -> impl Future<Output = Result<(), NoAnswer>> + Send;

    /// Waits until every file in the spool has been offered once.
    fn drain_spool(&self, within: Duration) -> impl Future<Output = Result<Drained, NoAnswer>> + Send;
}

/// An event without private text and secrets, ready for its session.
#[derive(Debug)]
pub struct AcceptedEvent {
    pub event: HookEvent,
    /// The delivery without its payload.
    pub deliver: Deliver,
    /// The second key, which detects duplicates.
    pub key: Option<[u8; 16]>,
    /// The project's configured display name, if any.
    pub alias: Option<String>,
    pub recipient: Recipient,
    pub trace: EventTrace,
}

/// The result of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    pub stored: u64,
    /// Files without a valid frame, which were moved aside.
    pub bad: u64,
    /// Files that cannot be stored now and stay in the spool.
    pub left: u64,
    /// Those of them that a newer version wrote.
    pub(crate) other_version: u64,
}

impl Drained {
    pub fn add(&mut self, other: Self) {
        self.stored += other.stored;
        self.bad += other.bad;
        self.left += other.left;
        self.other_version += other.other_version;
    }
}
