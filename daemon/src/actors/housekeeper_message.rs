//! The housekeeper's messages.

use ractor::RpcReplyPort;

use super::handle::ActorHandle;
use recall_app::maintenance::LastDone;
use recall_app::ports::Drained;

pub enum HousekeeperMessage {
    /// Does all periodic work.
    Round,
    /// The spool may contain files to drain.
    DrainSpool,
    /// The configuration may have changed.
    CheckConfig,
    /// Replies once each file in the spool has been tried once.
    Drain(RpcReplyPort<Drained>),
    /// A drain has ended.
    Drained(Drained),
    /// Maintenance has ended.
    Maintained(LastDone),
}

pub type HousekeeperHandle = ActorHandle<HousekeeperMessage>;
