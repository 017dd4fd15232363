//! The gate accepts connections, up to a limit.
//!
//! At the limit it stops accepting. The kernel's backlog then fills, and a shim that waits there spools after its
//! deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use interprocess::local_socket::tokio::Listener;
use interprocess::local_socket::traits::tokio::Listener as _;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::connection;
use super::connection_context::ConnectionContext;

/// The maximum number of concurrent connections.
const CONNECTIONS: usize = 512;
/// The pause after a failed accept, for example without free descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until it is closed.
pub struct Gate {
    accepting: JoinHandle<()>,
    connection: ConnectionContext,
    places: Arc<Semaphore>,
    closing: Arc<AtomicBool>,
}

impl Gate {
    pub fn open(listener: Listener, connection: ConnectionContext) -> Self {
        let closing = Arc::clone(&connection.closing);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let accepting = tokio::spawn(accept(listener, connection.clone(), Arc::clone(&places)));
        Self { accepting, connection, places, closing }
    }

    /// Accepts on another socket from now on. Accepted connections continue.
    pub fn move_to(&mut self, listener: Listener) {
        let accepting = tokio::spawn(accept(listener, self.connection.clone(), Arc::clone(&self.places)));
        std::mem::replace(&mut self.accepting, accepting).abort();
    }

    /// Stops accepting. Events on open connections are refused because the daemon is stopping.
    pub fn close(self) {
        self.closing.store(true, Ordering::Release);
        self.accepting.abort();
    }
}

async fn accept(listener: Listener, connection: ConnectionContext, places: Arc<Semaphore>) {
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok(stream) => {
                let connection = connection.clone();
                tokio::spawn(async move {
                    connection::serve(stream, connection).await;
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
