//! Keeps the accounts of what models cost.
//!
//! A call is paid for before it is made: its highest possible cost is reserved, and replaced by the true cost when the
//! answer arrives. If the process dies in between, the reservation stays and counts as spent. So a day's sum never
//! exceeds its cap.

use recall_domain::budget::{Charge, Cost, OverCap, ReservationId};

/// Why a call may not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReserved {
    #[error("today's budget is spent: {0}")]
    Spent(OverCap),
    #[error("the ledger cannot be written: {0}")]
    Unavailable(String),
}

/// Keeps the accounts. Called on threads that may block.
pub trait Ledger: Send + Sync {
    /// Reserves the highest possible cost of a call.
    ///
    /// # Errors
    /// When a cap would be exceeded, or the accounts cannot be written. Then the call must not be made.
    fn reserve(&self, charge: &Charge) -> Result<ReservationId, NotReserved>;

    /// Records the cost of a call, before its answer is used. If that fails, the reservation stays.
    fn settle(&self, reservation: ReservationId, cost: Cost);
}
