//! The compressors' ledger: the cost of a call is reserved in a commit before the call is made.

use tokio::runtime::Handle;

use super::writer::WriterHandle;
use crate::app::clock;
use crate::faults::{self, Point};
use crate::memory::budget::{Caps, Charge, Cost, ReservationId};
use crate::providers::ledger::{Ledger, NotReserved};
use crate::store::{ReserveCost, SettleCost};

/// For threads outside the runtime.
pub(super) struct WriterLedger {
    pub(super) writer: WriterHandle,
    pub(super) caps: Caps,
    pub(super) runtime: Handle,
}

impl Ledger for WriterLedger {
    fn reserve(&self, charge: &Charge) -> Result<ReservationId, NotReserved> {
        let day = clock::day_of(clock::now());
        let reservation = ReserveCost { charge: charge.clone(), caps: self.caps, day };
        match self.runtime.block_on(self.writer.write(reservation)) {
            Ok(reserved) => {
                faults::reach(Point::Reserved);
                reserved.map_err(NotReserved::Spent)
            }
            Err(error) => Err(NotReserved::Unavailable(error.to_string())),
        }
    }

    /// Waits for the commit, so that a daemon that dies while it stores the answer has the true cost in its ledger.
    fn settle(&self, reservation: ReservationId, cost: Cost) {
        faults::reach(Point::Answered);
        match self.runtime.block_on(self.writer.write(SettleCost { reservation, cost })) {
            Ok(()) => faults::reach(Point::Booked),
            Err(error) => {
                tracing::warn!(%error, "cannot record the cost of a call; its maximum cost stays reserved")
            }
        }
    }
}
