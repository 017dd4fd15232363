//! What every connection is served with.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::{Semaphore, mpsc};

use super::room::Room;
use crate::actors::services::Services;

/// Events at the same time between the gate and their acknowledgement: mailboxes are unbounded, this is their bound.
const PERMITS: usize = 256;
/// Those who follow events at the same time.
pub const FOLLOWERS: usize = 64;

/// What every connection needs.
#[derive(Clone)]
pub struct ConnectionContext {
    pub services: Services,
    pub permits: Arc<Semaphore>,
    /// Memory for frames that are being read or answered.
    pub room: Room,
    /// Those who follow events.
    pub followers: Arc<Semaphore>,
    pub closing: Arc<AtomicBool>,
    /// Asks the daemon to stop.
    pub stop: mpsc::Sender<()>,
    pub started_at: std::time::Instant,
    pub home: Arc<recall_protocol::paths::Paths>,
}

impl ConnectionContext {
    pub fn new(services: Services, home: Arc<recall_protocol::paths::Paths>, stop: mpsc::Sender<()>) -> Self {
        Self {
            services,
            permits: Arc::new(Semaphore::new(PERMITS)),
            room: Room::default(),
            followers: Arc::new(Semaphore::new(FOLLOWERS)),
            closing: Arc::default(),
            stop,
            started_at: std::time::Instant::now(),
            home,
        }
    }
}
