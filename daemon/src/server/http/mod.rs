//! The gateway serves the memory over HTTP to browsers and editor extensions, on this machine alone.
//!
//! The gateway is closed until somebody requests it. [`guard`] checks every call, which then becomes a typed request
//! or a hook event. So the gateway can do nothing that the socket cannot. It serves no files from disk.

mod answer;
mod connections;
mod guard;
mod call;
mod hooks;
pub mod keys;
mod live;
mod openapi;
mod page;
mod reading;
mod route;
mod routes;

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;

use super::connection_context::ConnectionContext;
use super::gateway::{GatewayError, OpenGateway, files_of_an_open_one};
use keys::Keys;
use live::LiveEvents;
use recall_app::answers::status::GatewayAnswer;

/// Boxed, because the gateway answers queries, and one of the queries opens the gateway.
pub type Opening<'a> = Pin<Box<dyn Future<Output = Result<GatewayAnswer, GatewayError>> + Send + 'a>>;

/// State that every call needs.
struct GatewayContext {
    context: ConnectionContext,
    keys: Arc<Keys>,
    port: u16,
    live: LiveEvents,
}

/// Opens the gateway if it is closed, and creates a one-time link for a browser. Fails if the port is taken, or if the
/// file that tells other programs the port cannot be written.
pub fn open(context: &ConnectionContext) -> Opening<'_> {
    Box::pin(context.gateway.open_by(start(context)))
}

async fn start(context: &ConnectionContext) -> Result<OpenGateway, GatewayError> {
    let wanted = context.services.config.get().gateway.port;
    let failed = |error| GatewayError::Listen(wanted, error);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let (keys, token) = Keys::new();
    let keys = Arc::new(keys);
    let url = format!("http://127.0.0.1:{port}");
    let note = context.home.gateway_note();
    let text = json!({"url": url, "token": token, "pid": std::process::id(), "started": started()});
    write_note(&note, &text.to_string()).map_err(|error| GatewayError::Note(note.clone(), error))?;
    let (events, live) =
        LiveEvents::of(&context.services.bus, context.services.context_lookup.readers.clone());
    let gateway = GatewayContext { context: context.clone(), keys: Arc::clone(&keys), port, live: events };
    tracing::info!(url, "the gateway is open");
    Ok(OpenGateway {
        live,
        url,
        keys,
        files: files_of_an_open_one(&context.home),
        accepting: tokio::spawn(connections::accept(listener, Arc::new(gateway))),
    })
}

/// Returns the start time of this process, as in `/proc/PID/stat`. It distinguishes processes that had the same id.
/// `None` if there is no such file.
fn started() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses, and may contain any characters.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// Replaces the whole note. Only the user may read it, because it contains the token.
fn write_note(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
