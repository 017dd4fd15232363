//! The gate: accepts connections, as many as there are places for.
//!
//! Where all places are taken it stops accepting: the kernel's backlog fills, and a shim that waits in it spools
//! after its deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use interprocess::local_socket::tokio::Listener;
use interprocess::local_socket::traits::tokio::Listener as _;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::connection;
use super::follow::FOLLOWERS;
use super::room::Room;
use crate::actors::services::Services;

/// Connections at the same time.
const CONNECTIONS: usize = 512;
/// Events at the same time between the gate and their acknowledgement: mailboxes are unbounded, this is their bound.
const PERMITS: usize = 256;
/// After an accept that failed (no descriptors left), before the next.
const PAUSE: Duration = Duration::from_millis(50);

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

pub enum GateMessage {
    /// Accept nobody any more; events that still come are told so.
    Close,
}

pub struct Gate;

pub struct GateState {
    accepting: JoinHandle<()>,
    closing: Arc<AtomicBool>,
}

impl Actor for Gate {
    type Msg = GateMessage;
    type State = GateState;
    type Arguments = (Listener, ConnectionContext);

    async fn pre_start(
        &self,
        _me: ActorRef<GateMessage>,
        (listener, reception): Self::Arguments,
    ) -> Result<GateState, ActorProcessingErr> {
        let closing = Arc::clone(&reception.closing);
        Ok(GateState { accepting: tokio::spawn(accept(listener, reception)), closing })
    }

    async fn handle(
        &self,
        _me: ActorRef<GateMessage>,
        message: GateMessage,
        state: &mut GateState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            GateMessage::Close => {
                state.closing.store(true, Ordering::Release);
                state.accepting.abort();
            }
        }
        Ok(())
    }
}

async fn accept(listener: Listener, reception: ConnectionContext) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok(stream) => {
                let reception = reception.clone();
                tokio::spawn(async move {
                    connection::serve(stream, reception).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
