//! The gateway: the memory over HTTP, for a browser and for extensions of editors, on this machine alone.
//!
//! Closed until it is asked for. Every call is checked by [`guard`] and becomes a typed request or a hook event, so that
//! the gateway can do nothing that the socket cannot. It serves no files.

mod answer;
mod door;
mod guard;
mod hooks;
mod live;
mod page;
mod reading;
mod routes;

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::connection_context::ConnectionContext;
use crate::app::answers::status::GatewayAnswer;
use guard::Keys;
use live::LiveEvents;

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
pub struct Gateway(Arc<Mutex<Option<Open>>>);

struct Open {
    url: String,
    keys: Arc<Keys>,
    note: PathBuf,
    accepting: JoinHandle<()>,
}

/// Boxed, because the gateway answers queries, and one of them opens it.
type Opening<'a> = Pin<Box<dyn Future<Output = Result<GatewayAnswer, GatewayError>> + Send + 'a>>;

/// What every call is served with.
struct Reception {
    context: ConnectionContext,
    keys: Arc<Keys>,
    port: u16,
    live: LiveEvents,
}

impl Gateway {
    /// Opens it unless it is open, and makes a link for one browser.
    ///
    /// # Errors
    /// If the port is taken, or the note for other programs cannot be written.
    pub fn open<'a>(&'a self, context: &'a ConnectionContext) -> Opening<'a> {
        Box::pin(async move {
            let mut place = self.0.lock().await;
            let open = match place.take() {
                Some(open) => open,
                None => start(context).await?,
            };
            let open = place.insert(open);
            let link = format!("{}/open/{}", open.url, open.keys.new_link());
            Ok(GatewayAnswer { url: open.url.clone(), link })
        })
    }

    /// Accepts nobody any more. Who listens to events is told of the end by the bus.
    pub async fn close(&self) {
        if let Some(open) = self.0.lock().await.take() {
            open.accepting.abort();
            let _ = std::fs::remove_file(&open.note);
        }
    }
}

async fn start(context: &ConnectionContext) -> Result<Open, GatewayError> {
    let wanted = context.services.config.gateway.port;
    let failed = |error| GatewayError::Listen(wanted, error);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let (keys, token) = Keys::new();
    let keys = Arc::new(keys);
    let url = format!("http://127.0.0.1:{port}");
    let note = context.home.gateway_note();
    write_note(&note, &json!({"url": url, "token": token}).to_string())
        .map_err(|error| GatewayError::Note(note.clone(), error))?;
    let live = LiveEvents::of(&context.services.bus);
    let reception = Reception { context: context.clone(), keys: Arc::clone(&keys), port, live };
    tracing::info!(url, "the gateway is open");
    Ok(Open { url, keys, note, accepting: tokio::spawn(door::accept(listener, Arc::new(reception))) })
}

/// Replaces the note as a whole. Only the user may read it, for it holds the token.
fn write_note(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
