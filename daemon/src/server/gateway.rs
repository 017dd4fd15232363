//! Where the gateway is kept while it is open. [`super::http`] opens it.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::http::keys::Keys;
use crate::app::answers::status::GatewayAnswer;

/// Why the gateway does not open.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error("The gateway cannot listen on port {0}")]
    Listen(u16, #[source] std::io::Error),
    #[error("Cannot write {}", .0.display())]
    Note(PathBuf, #[source] std::io::Error),
}

/// The gateway of a daemon, open or not. Cheap to clone.
#[derive(Clone, Default)]
pub struct Gateway(Arc<Mutex<Option<OpenGateway>>>);

/// An open gateway.
pub struct OpenGateway {
    pub url: String,
    pub keys: Arc<Keys>,
    pub note: PathBuf,
    pub accepting: JoinHandle<()>,
}

impl Gateway {
    /// Starts it unless it is open, and makes a link for one browser.
    pub(super) async fn open_by(
        &self,
        start: impl Future<Output = Result<OpenGateway, GatewayError>>,
    ) -> Result<GatewayAnswer, GatewayError> {
        let mut place = self.0.lock().await;
        let open = match place.take() {
            Some(open) => open,
            None => start.await?,
        };
        let open = place.insert(open);
        let link = format!("{}/open/{}", open.url, open.keys.new_link());
        Ok(GatewayAnswer { url: open.url.clone(), link })
    }

    /// Accepts nobody any more. Who listens to events is told of the end by the bus.
    pub async fn close(&self) {
        if let Some(open) = self.0.lock().await.take() {
            open.accepting.abort();
            let _ = std::fs::remove_file(&open.note);
        }
    }
}
