//! Events that sessions crash on: after the second crash such an event is kept as it came.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::faults::{Fault, planted};
use crate::memory::ids::EventId;

/// An event that crashed its session this often is kept as it came.
const MOST_CRASHES: u32 = 2;
/// Crashes that are remembered; more at once mean that it is not the events.
const REMEMBERED_CRASHES: usize = 1000;

/// The events that sessions crashed on, and how often. Cheap to clone.
#[derive(Clone, Default)]
pub struct Crashes(Arc<Mutex<HashMap<EventId, u32>>>);

impl Crashes {
    pub fn remember(&self, event: EventId) {
        let mut crashes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if crashes.len() >= REMEMBERED_CRASHES {
            crashes.clear();
        }
        *crashes.entry(event).or_default() += 1;
    }

    pub fn is_poison(&self, event: EventId) -> bool {
        let crashes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        crashes.get(&event).is_some_and(|crashes| *crashes >= MOST_CRASHES) && !planted(Fault::NoParking)
    }
}
