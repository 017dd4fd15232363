//! The compressors' ledger. It commits the reservation of a call's cost before the call is made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;

use super::writer::WriterHandle;
use recall_app::bus::{Bus, BusEvent};
use recall_app::clock;
use recall_domain::budget::{Caps, Charge, Cost, ModelCall, ReservationId};
use recall_domain::ids::Timestamp;
use recall_providers::ledger::{Ledger, NotReserved};
use recall_store::{ReserveCost, SettleCost};
use recall_system::faults::{self, Point};

/// A ledger that can be used from threads outside the runtime.
pub(super) struct WriterLedger {
    pub(super) writer: WriterHandle,
    pub(super) caps: Caps,
    pub(super) runtime: Handle,
    /// Receives an event when a call ends.
    pub(super) bus: Bus,
    pub(super) under_way: CallsUnderWay,
}

/// Calls in progress, each with its start time.
#[derive(Default)]
pub(super) struct CallsUnderWay(Mutex<HashMap<i64, (Charge, Timestamp)>>);

impl CallsUnderWay {
    fn begin(&self, reservation: ReservationId, charge: &Charge) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.insert(reservation.0, (charge.clone(), clock::now()));
    }

    fn end(&self, reservation: ReservationId, cost: Cost) -> Option<ModelCall> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (Charge { job, backend, .. }, started) = calls.remove(&reservation.0)?;
        Some(ModelCall { reservation, job, backend, started, ended: clock::now(), cost })
    }
}

impl Ledger for WriterLedger {
    fn reserve(&self, charge: &Charge) -> Result<ReservationId, NotReserved> {
        let day = clock::day_of(clock::now());
        let reservation = ReserveCost { charge: charge.clone(), caps: self.caps, day };
        match self.runtime.block_on(self.writer.write(reservation)) {
            Ok(reserved) => {
                faults::reach(Point::Reserved);
                let reservation = reserved.map_err(NotReserved::Spent)?;
                self.under_way.begin(reservation, charge);
                Ok(reservation)
            }
            Err(error) => Err(NotReserved::Unavailable(error.to_string())),
        }
    }

    /// Waits for the commit, so that the ledger has the actual cost even if the daemon dies while it stores the
    /// answer.
    fn settle(&self, reservation: ReservationId, cost: Cost) {
        faults::reach(Point::Answered);
        if let Some(call) = self.under_way.end(reservation, cost) {
            self.bus.publish(BusEvent::ModelCalled(Arc::new(call)));
        }
        match self.runtime.block_on(self.writer.write(SettleCost { reservation, cost })) {
            Ok(()) => faults::reach(Point::Booked),
            Err(error) => {
                tracing::warn!(%error, "cannot record the cost of a call; its maximum cost stays reserved")
            }
        }
    }
}
