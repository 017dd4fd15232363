//! What the use cases ask of the actors. The daemon puts its handles here, a test may put values of its own.

use std::time::Duration;

use recall_protocol::wire::{Deliver, Reply};

use super::injection_receipt::Recipient;
use crate::memory::event::HookEvent;
use crate::memory::ids::SessionKey;
use crate::store::{Operation, StoreError};

/// There was no answer in time. Whether the request was carried out is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer")]
pub struct NoAnswer;

/// Why a write has no result.
#[derive(Debug, thiserror::Error)]
pub enum WriteFailed {
    #[error(transparent)]
    Refused(#[from] StoreError),
    #[error("the writer gave no answer")]
    NoAnswer(#[from] NoAnswer),
}

/// The only way to change the database.
pub trait Writer: Clone + Send + Sync + 'static {
    /// Waits until the operation is committed, and returns its output.
    fn write<O: Operation>(
        &self,
        operation: O,
    ) -> impl Future<Output = Result<O::Output, WriteFailed>> + Send;

    /// Waits until the database is written anew and the log beside it is empty.
    fn rewrite(&self) -> impl Future<Output = Result<(), WriteFailed>> + Send;

    /// Asks for the log beside the database to be emptied; nobody waits for it.
    fn empty_log(&self);
}

/// The writer, and what else runs beside the use cases.
pub trait Ports: Clone + Send + Sync + 'static {
    type Writer: Writer;

    fn writer(&self) -> &Self::Writer;

    /// Hands an event to its session and waits for the answer.
    fn deliver(
        &self,
        session: SessionKey,
        event: AcceptedEvent,
        within: Duration,
    ) -> impl Future<Output = Result<Reply, NoAnswer>> + Send;

    /// Something of these sessions was forgotten: they read anew what there is.
    fn read_again(&self, sessions: Vec<SessionKey>);

    /// Waits until the index holds all that was committed, and no word of a removed document.
    fn purge_index(&self, within: Duration) -> impl Future<Output = Result<(), NoAnswer>> + Send;

    /// Waits until all that lies in the spool has been offered once.
    fn drain_spool(&self, within: Duration) -> impl Future<Output = Result<Drained, NoAnswer>> + Send;
}

/// An event without private text and secrets, on its way to its session.
#[derive(Debug)]
pub struct AcceptedEvent {
    pub event: HookEvent,
    /// Without its payload.
    pub deliver: Deliver,
    /// The second key against double delivery.
    pub key: Option<[u8; 16]>,
    /// The name the project wants to be shown under.
    pub alias: Option<String>,
    pub recipient: Recipient,
}

/// What a drain did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    pub stored: u64,
    /// No frame of ours: moved aside.
    pub bad: u64,
    /// Could not be stored now; they stay.
    pub left: u64,
    /// Of them, those that a newer program has written.
    pub other_version: u64,
}

impl Drained {
    pub fn add(&mut self, other: Self) {
        self.stored += other.stored;
        self.bad += other.bad;
        self.left += other.left;
        self.other_version += other.other_version;
    }
}
