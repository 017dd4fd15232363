//! Checks whether the daemon still owns its data folder and whether its socket can be reached.
//!
//! Both are checked every few seconds. A daemon that has lost its folder exits, see [`Holding`]. If its socket is
//! gone, it creates another: at the old path or, if that fails, where a hook would look for it now. The lock file says
//! where. A socket on which another process listens is left alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use recall_protocol::paths::Paths;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::gate::Gate;
use super::instance::Instance;
use super::listener::{self, Door, DoorState, ListenError, SocketListener};
use recall_system::holding::Holding;

/// How often the daemon checks.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long one check may take. A file system that does not respond is checked again later.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

pub struct Presence {
    pub holding: Holding,
    pub instance: Instance,
    pub door: Door,
    pub gate: Gate,
    /// The last problem with the socket, so that it is logged only once.
    trouble: Option<String>,
}

impl Presence {
    pub fn new(holding: Holding, instance: Instance, door: Door, gate: Gate) -> Self {
        Self { holding, instance, door, gate, trouble: None }
    }

    /// Performs one check.
    pub async fn look(&mut self) {
        let (holding, door) = (self.holding.clone(), self.door.clone());
        let seen = spawn_blocking(move || match holding.renew() {
            Ok(()) => Some(door.look()),
            // The loss of the folder is reported elsewhere.
            Err(_) => None,
        });
        match timeout(SEEN_WITHIN, seen).await {
            Ok(Ok(Some(DoorState::Open))) => self.trouble = None,
            Ok(Ok(Some(DoorState::Gone))) => self.reopen(),
            Ok(Ok(Some(DoorState::Taken))) => {
                let path = self.door.path.display();
                self.report(format!("another process is listening on {path}, so that socket is left alone"));
            }
            Ok(Ok(None) | Err(_)) | Err(_) => {}
        }
    }

    fn reopen(&mut self) {
        let opened = reopen(&self.door.path).or_else(|error| match usual_socket() {
            Some(other) if other != self.door.path => reopen(&other),
            _ => Err(error),
        });
        match opened {
            Ok(SocketListener { listener, door }) => {
                tracing::warn!(socket = %door.path.display(), "the socket was gone; created another");
                self.gate.move_to(listener);
                if let Err(error) = self.instance.announce(&door.path) {
                    tracing::warn!(%error, "cannot write the daemon's socket path to the lock file");
                }
                self.door = door;
                self.trouble = None;
            }
            Err(error) => self.report(format!("the socket is gone: {error}")),
        }
    }

    fn report(&mut self, trouble: String) {
        if self.trouble.as_ref() != Some(&trouble) {
            tracing::error!("{trouble}");
            self.trouble = Some(trouble);
        }
    }
}

fn reopen(path: &Path) -> Result<SocketListener, ListenError> {
    listener::reopen(path)
}

/// Where a hook with our environment would now look for a daemon. The runtime folder may have vanished since the
/// start.
fn usual_socket() -> Option<PathBuf> {
    Some(Paths::from_env().ok()?.socket().ok()?.to_owned())
}
