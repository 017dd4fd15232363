//! The messages of a session actor.

use ractor::RpcReplyPort;
use recall_protocol::wire::Reply;

use recall_app::ports::AcceptedEvent;
use recall_domain::ids::Timestamp;

/// An event to be stored.
pub struct IncomingEvent {
    pub accepted: AcceptedEvent,
    pub reply: RpcReplyPort<Reply>,
}

pub enum SessionMessage {
    Deliver(Box<IncomingEvent>),
    /// Checks whether the session has been silent for too long. Replies with whether it is at rest and can be retired.
    CheckIdle {
        now: Timestamp,
        at_rest: RpcReplyPort<bool>,
    },
    /// Part of the session was forgotten, so its state must be reloaded.
    Reload,
    /// The result of a queued write.
    WriteResult(WriteResult),
    /// The session ended a while ago.
    Rest,
    /// Reads the transcript again for missing answers. The number counts such readings since the last event.
    LookAgain(usize),
    /// Asks the actor to end, because there are many and this session was not used lately.
    GiveWay,
}

/// The result of writing an event.
pub struct WriteResult {
    pub(super) outcome: StoreOutcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreOutcome {
    Stored,
    /// The state differs from the store and must be reloaded.
    NotStored,
}
