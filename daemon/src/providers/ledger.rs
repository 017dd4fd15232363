//! Who keeps the accounts of what models cost.
//!
//! A call is paid for before it is made: the most it can cost is reserved, and the reservation becomes the true cost
//! when the answer is there. Whoever dies in between leaves the reservation, which counts as spent. So the sum of a day
//! never exceeds its cap, whatever is killed when.

use crate::memory::budget::{Charge, Cost, OverCap, ReservationId};

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
    /// Reserves what a call can cost at most.
    ///
    /// # Errors
    /// When a cap would be exceeded, or the accounts cannot be written: then the call is not made.
    fn reserve(&self, charge: &Charge) -> Result<ReservationId, NotReserved>;

    /// Books what the call has cost, before its answer is used. What cannot be booked stays reserved.
    fn settle(&self, reservation: ReservationId, cost: Cost);
}
