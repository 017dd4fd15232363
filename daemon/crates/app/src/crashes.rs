//! Tracks events on which sessions crash. After its second crash such an event is stored unprocessed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recall_domain::ids::EventId;
use recall_system::faults::{Fault, planted};

/// The number of crashes after which an event is stored unprocessed.
const MAX_CRASHES: u32 = 2;
/// The maximum number of recorded events. If there are more at once, the events are not the cause.
const MAX_RECORDED: usize = 1000;

/// The events on which sessions crashed, and how often. Cheap to clone.
#[derive(Clone, Default)]
pub struct Crashes(Arc<Mutex<HashMap<EventId, u32>>>);

impl Crashes {
    pub fn record(&self, event: EventId) {
        let mut crashes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if crashes.len() >= MAX_RECORDED {
            crashes.clear();
        }
        *crashes.entry(event).or_default() += 1;
    }

    pub(crate) fn is_poison(&self, event: EventId) -> bool {
        let crashes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        crashes.get(&event).is_some_and(|crashes| *crashes >= MAX_CRASHES) && !planted(Fault::NoParking)
    }
}
