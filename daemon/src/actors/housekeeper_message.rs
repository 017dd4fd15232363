//! What the housekeeper can be told.

use ractor::RpcReplyPort;

use super::handle::ActorHandle;
use crate::app::maintenance::LastDone;
use crate::app::ports::Drained;

pub enum HousekeeperMessage {
    /// A round of everything.
    Round,
    /// Something has fallen into the spool, or it is time to see whether something has.
    LookAtSpool,
    /// It is time to see whether the configuration has changed.
    LookAtConfig,
    /// Answers when all that lies in the spool has been offered once.
    Drain(RpcReplyPort<Drained>),
    /// A drain is over.
    Over(Drained),
    /// The database was cared for.
    Maintained(LastDone),
}

pub type HousekeeperHandle = ActorHandle<HousekeeperMessage>;
