//! The state of the gateway, open or closed. [`super::http`] opens it.

use std::path::PathBuf;
use std::sync::Arc;

use recall_protocol::paths::Paths;
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinHandle};

use super::http::keys::Keys;
use recall_app::answers::status::{GatewayAnswer, GatewayState};

/// Why the gateway could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error("The gateway cannot listen on port {0}")]
    Listen(u16, #[source] std::io::Error),
    #[error("Cannot write {}", .0.display())]
    Note(PathBuf, #[source] std::io::Error),
}

/// The gateway of a daemon, open or closed. Cheap to clone.
#[derive(Clone, Default)]
pub struct Gateway(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    open: Option<OpenGateway>,
    /// Why the last attempt to open the gateway failed.
    failure: Option<String>,
}

/// An open gateway.
pub struct OpenGateway {
    pub url: String,
    pub keys: Arc<Keys>,
    /// Files that are valid only while the gateway is open: the note for programs, and the page that opens the viewer.
    pub files: [PathBuf; 2],
    pub accepting: JoinHandle<()>,
    /// Ends the streams of events.
    pub live: AbortHandle,
}

impl Gateway {
    /// Opens the gateway if it is closed, and creates a one-time link for a browser.
    pub(super) async fn open_by(
        &self,
        start: impl Future<Output = Result<OpenGateway, GatewayError>>,
    ) -> Result<GatewayAnswer, GatewayError> {
        let mut place = self.0.lock().await;
        let open = match place.open.take() {
            Some(open) => open,
            None => start.await.inspect_err(|error| place.failure = Some(whole(error)))?,
        };
        place.failure = None;
        let open = place.open.insert(open);
        // Browsers do not send the fragment after `#`.
        let link = format!("{}/#/open/{}", open.url, open.keys.new_link());
        Ok(GatewayAnswer { url: open.url.clone(), link })
    }

    /// Whether the gateway is open and, if not, why.
    pub async fn state(&self) -> GatewayState {
        let place = self.0.lock().await;
        GatewayState { url: place.open.as_ref().map(|open| open.url.clone()), failure: place.failure.clone() }
    }

    /// Closes the gateway. Readers of the event stream get everything that has happened until now. Afterwards the port
    /// is free.
    pub async fn close(&self) {
        let mut place = self.0.lock().await;
        place.failure = None;
        if let Some(open) = place.open.take() {
            open.live.abort();
            stop_accepting(open).await;
        }
    }

    /// Stops accepting connections because the daemon is stopping. The bus informs readers of the event stream.
    pub async fn stop(&self) {
        if let Some(open) = self.0.lock().await.open.take() {
            stop_accepting(open).await;
        }
    }
}

/// Files that are valid only while a gateway is open. A killed daemon leaves them behind.
pub fn files_of_an_open_one(home: &Paths) -> [PathBuf; 2] {
    [home.gateway_note(), home.viewer_page()]
}

/// Stops accepting, and returns once the listener is closed.
async fn stop_accepting(open: OpenGateway) {
    open.accepting.abort();
    let _ = open.accepting.await;
    for file in &open.files {
        let _ = std::fs::remove_file(file);
    }
}

/// Formats an error with its cause.
fn whole(error: &GatewayError) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}
