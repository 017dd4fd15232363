//! Records what model calls cost.
//!
//! Before a call its maximum cost is reserved; when the response arrives, the real cost replaces it. If the process
//! dies in between, the reservation stays and counts as spent. So the sum of a day never exceeds its limit.

use recall_domain::budget::{Charge, Cost, OverCap, ReservationId};

/// Why a call may not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReserved {
    #[error("today's budget is spent: {0}")]
    Spent(OverCap),
    #[error("cannot write the ledger: {0}")]
    Unavailable(String),
}

/// Records costs. Called on threads that may block.
pub trait Ledger: Send + Sync {
    /// Reserves the maximum cost of a call.
    ///
    /// # Errors
    /// Fails when a limit would be exceeded, or the ledger cannot be written. Then the call must not be made.
    fn reserve(&self, charge: &Charge) -> Result<ReservationId, NotReserved>;

    /// Records the cost of a call, before its result is used. If that fails, the reservation stays.
    fn settle(&self, reservation: ReservationId, cost: Cost);
}
