//! The event bus. Its events wake the indexer and the compressors; `flush` and tests wait for them.
//!
//! Slow listeners miss events and learn how many; publishers never wait. The bus stores nothing: the transaction that
//! changes a session also stores its lifecycle events. A daemon that is killed right after that commit does not
//! publish them.

use std::sync::Arc;

use tokio::sync::{broadcast, watch};

use recall_domain::budget::ModelCall;
use recall_domain::ids::{JobId, LogSeq, SessionKey};
use recall_domain::lifecycle::{LifecycleEvent, LifecycleKind};
use recall_domain::session::LooseCall;
use recall_store::ExpiredLife;

/// The number of events after which a slow listener misses some.
const CAPACITY: usize = 1024;

/// An event on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// Compression jobs were queued.
    WorkQueued,
    /// A lifecycle event of a session. Published after its commit, in the order of the commits.
    LifecycleEvent(Arc<LifecycleEvent>),
    /// A tool call that its turn's end does not include.
    LooseCall(Arc<(SessionKey, LooseCall)>),
    /// A session was deleted before it ended.
    LifeExpired(Arc<ExpiredLife>),
    JobDone {
        job: JobId,
    },
    JobFailed {
        job: Option<JobId>,
    },
    /// A model call ended and its cost is recorded.
    ModelCalled(Arc<ModelCall>),
    /// The index contains all log entries up to this one.
    Indexed {
        upto: LogSeq,
    },
    /// The daemon is stopping. This is the last event.
    Stopped,
}

/// A broadcast to all listeners. Cheap to clone.
#[derive(Clone)]
pub struct Bus {
    bus_events: broadcast::Sender<BusEvent>,
    /// Wakes only those who follow rows, once for many commits. Not an event, because nearly every commit writes rows.
    rows: watch::Sender<()>,
}

impl Default for Bus {
    fn default() -> Self {
        Self { bus_events: broadcast::channel(CAPACITY).0, rows: watch::channel(()).0 }
    }
}

impl Bus {
    /// Reports committed rows that the index must follow.
    pub fn rows_written(&self) {
        self.rows.send_replace(());
    }

    /// Returns a receiver that changes whenever rows are committed.
    pub fn follow_rows(&self) -> watch::Receiver<()> {
        self.rows.subscribe()
    }

    pub fn publish(&self, bus_event: BusEvent) {
        if let BusEvent::LifecycleEvent(event) = &bus_event {
            log(event);
        }
        // An error only means that there are no listeners.
        let _ = self.bus_events.send(bus_event);
    }

    pub fn listen(&self) -> broadcast::Receiver<BusEvent> {
        self.bus_events.subscribe()
    }
}

/// Logs one line for each start, end and compaction of a session.
fn log(event: &LifecycleEvent) {
    let Some(key) = &event.session else { return };
    let (agent, session) = (key.agent.as_str(), key.id.as_str());
    match &event.what {
        LifecycleKind::SessionStart { life, source, .. } => {
            tracing::info!(agent, session, life, source = source.as_str(), "session started");
        }
        LifecycleKind::SessionSuspend { reason, .. } => {
            tracing::info!(agent, session, reason, "session suspended");
        }
        LifecycleKind::SessionResume { suspended_for_ms, .. } => {
            tracing::info!(agent, session, suspended_for_ms, "session resumed");
        }
        LifecycleKind::SessionEnd { duration_ms, reason, .. } => {
            tracing::info!(agent, session, reason, duration_ms, "session ended");
        }
        LifecycleKind::AfterCompaction(counts) => {
            tracing::info!(agent, session, compactions = counts.compacted_count, "conversation compacted");
        }
        _ => {}
    }
}
