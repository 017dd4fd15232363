//! What happened, for whoever listens: the indexer and the compressors wake by it, `flush` and tests wait on it.
//!
//! Listeners that are too slow miss events and learn that they did; nobody waits for them. The bus is live and keeps
//! nothing: what is said of a session's life is written down by the transaction it follows from, and a daemon that is
//! killed after that commit has not said it.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::broadcast;

use super::handle::ActorHandle;
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

pub enum BusMessage {
    Publish(BusEvent),
}

/// The end that everybody holds.
#[derive(Clone)]
pub struct BusHandle {
    handle: ActorHandle<BusMessage>,
    listeners: broadcast::Sender<BusEvent>,
}

impl Default for BusHandle {
    fn default() -> Self {
        Self { handle: ActorHandle::default(), listeners: broadcast::channel(CAPACITY).0 }
    }
}

impl BusHandle {
    pub fn publish(&self, bus_event: BusEvent) {
        // Without a bus there is nobody to hear it either.
        let _ = self.handle.tell(BusMessage::Publish(bus_event));
    }

    pub fn listen(&self) -> broadcast::Receiver<BusEvent> {
        self.listeners.subscribe()
    }

    pub(super) fn handle(&self) -> &ActorHandle<BusMessage> {
        &self.handle
    }
}

pub(super) struct Bus;

impl Actor for Bus {
    type Msg = BusMessage;
    type State = broadcast::Sender<BusEvent>;
    type Arguments = BusHandle;

    async fn pre_start(
        &self,
        _me: ActorRef<BusMessage>,
        handle: BusHandle,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(handle.listeners)
    }

    async fn handle(
        &self,
        _me: ActorRef<BusMessage>,
        message: BusMessage,
        listeners: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            BusMessage::Publish(bus_event) => {
                // An error means that nobody listens.
                let _ = listeners.send(bus_event);
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _me: ActorRef<BusMessage>,
        listeners: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let _ = listeners.send(BusEvent::Stopped);
        Ok(())
    }
}
