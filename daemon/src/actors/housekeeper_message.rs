//! The housekeeper's messages.

use ractor::RpcReplyPort;

use super::handle::ActorHandle;
use recall_app::maintenance::LastDone;
use recall_app::ports::Drained;

pub enum HousekeeperMessage {
    /// Do all periodic work.
    Round,
    /// The spool may contain files to drain.
    DrainSpool,
    /// The configuration may have changed.
    CheckConfig,
    /// Replies when each file in the spool was tried once.
    Drain(RpcReplyPort<Drained>),
    /// A drain has ended.
    Drained(Drained),
    /// Maintenance has ended.
    Maintained(LastDone),
}

pub type HousekeeperHandle = ActorHandle<HousekeeperMessage>;
