//! What a session can be told.

use ractor::RpcReplyPort;
use recall_protocol::wire::Reply;

use crate::app::ports::AcceptedEvent;
use crate::memory::ids::Timestamp;

/// An event that waits to be stored.
pub struct IncomingEvent {
    pub accepted: AcceptedEvent,
    pub reply: RpcReplyPort<Reply>,
}

pub enum SessionMessage {
    Deliver(Box<IncomingEvent>),
    /// Looks whether something has been silent for too long. Answers whether the session is at rest and may go.
    LookAtClock {
        now: Timestamp,
        at_rest: RpcReplyPort<bool>,
    },
    /// Something of the session was forgotten: what the state says of it is no longer so.
    ReadAgain,
    /// What became of a write that was queued.
    WriteResult(WriteResult),
}

/// What became of an event.
pub struct WriteResult {
    pub(super) outcome: StoreOutcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreOutcome {
    Stored,
    /// The state went ahead of what the store took: it has to be read again.
    NotStored,
}
