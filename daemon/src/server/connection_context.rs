//! State shared by all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::sync::{Semaphore, mpsc};

use super::gateway::Gateway;
use super::room::Room;
use crate::actors::services::Services;
use recall_app::event_feed::EventFeed;

/// The maximum number of events between the gate and their acknowledgement. It bounds the mailboxes, which are
/// unbounded themselves.
const PERMITS: usize = 256;

/// State that every connection needs.
#[derive(Clone)]
pub struct ConnectionContext {
    pub services: Services,
    pub permits: Arc<Semaphore>,
    /// Memory for frames that are being read or answered.
    pub room: Room,
    pub event_feed: EventFeed,
    pub gateway: Gateway,
    pub closing: Arc<AtomicBool>,
    /// The number of queries so far, used to number them in the log.
    pub queries: Arc<AtomicU64>,
    /// Asks the daemon to stop.
    pub stop: mpsc::Sender<()>,
    pub started_at: std::time::Instant,
    pub home: Arc<recall_protocol::paths::Paths>,
}

impl ConnectionContext {
    pub fn new(services: Services, home: Arc<recall_protocol::paths::Paths>, stop: mpsc::Sender<()>) -> Self {
        Self {
            event_feed: EventFeed::new(services.bus.clone()),
            services,
            permits: Arc::new(Semaphore::new(PERMITS)),
            room: Room::default(),
            closing: Arc::default(),
            queries: Arc::default(),
            stop,
            gateway: Gateway::default(),
            started_at: std::time::Instant::now(),
            home,
        }
    }
}
