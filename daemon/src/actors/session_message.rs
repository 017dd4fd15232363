//! The messages of a session.

use ractor::RpcReplyPort;
use recall_protocol::wire::Reply;

use recall_app::ports::AcceptedEvent;
use recall_domain::ids::Timestamp;

/// An event that is to be stored.
pub struct IncomingEvent {
    pub accepted: AcceptedEvent,
    pub reply: RpcReplyPort<Reply>,
}

pub enum SessionMessage {
    Deliver(Box<IncomingEvent>),
    /// Checks whether the session has been silent for too long. Replies whether it is at rest and can be retired.
    CheckIdle {
        now: Timestamp,
        at_rest: RpcReplyPort<bool>,
    },
    /// Part of the session was forgotten, so its state must be read again.
    Reload,
    /// The result of a queued write.
    WriteResult(WriteResult),
    /// The session ended a while ago.
    Rest,
    /// Reads the transcript again for answers that it lacked. The number counts such readings since the last event.
    LookAgain(usize),
    /// There are many sessions, and this one was not used lately.
    GiveWay,
}

/// The result of an event's write.
pub struct WriteResult {
    pub(super) outcome: StoreOutcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreOutcome {
    Stored,
    /// The state differs from the store and must be read again.
    NotStored,
}
