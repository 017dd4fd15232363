//! What happened, for whoever listens: the indexer and the compressors wake by it, `flush` and tests wait on it.
//!
//! Listeners that are too slow miss events and learn that they did; nobody waits for them. The bus is live and keeps
//! nothing: what is said of a session's life is written down by the transaction it follows from, and a daemon that is
//! killed after that commit has not said it.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::memory::ids::JobId;
use crate::memory::lifecycle::LifecycleEvent;

/// A listener that falls further behind has missed something.
const CAPACITY: usize = 1024;

/// What can be heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// Rows were committed that the index has to follow.
    RowsWritten,
    /// There is compression work.
    WorkQueued,
    /// What others are told of a session, in the order of the commits and only after them.
    LifecycleEvent(Arc<LifecycleEvent>),
    JobDone {
        job: JobId,
    },
    JobFailed {
        job: Option<JobId>,
    },
    /// The index holds everything the log said up to here.
    Indexed {
        upto: i64,
    },
    /// The daemon stops, and this is the last that is heard.
    Stopped,
}

/// A broadcast to all listeners. Cheap to clone.
#[derive(Clone)]
pub struct Bus(broadcast::Sender<BusEvent>);

impl Default for Bus {
    fn default() -> Self {
        Self(broadcast::channel(CAPACITY).0)
    }
}

impl Bus {
    pub fn publish(&self, bus_event: BusEvent) {
        // An error means that nobody listens.
        let _ = self.0.send(bus_event);
    }

    pub fn listen(&self) -> broadcast::Receiver<BusEvent> {
        self.0.subscribe()
    }
}
