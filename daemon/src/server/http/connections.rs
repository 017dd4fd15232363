//! Connections, and the bounds of each: how many, how long, how much.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::{Body as _, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::answer::{Content, Refusal, allowing, preflight, sealed};
use super::keys::Caller;
use super::{GatewayContext, guard, routes};

/// Connections at the same time, those that listen to events included.
const CONNECTIONS: usize = 128;
/// After an accept that failed (no descriptors left), before the next.
const PAUSE: Duration = Duration::from_millis(50);
const HEADER_WITHIN: Duration = Duration::from_secs(5);
const BODY_WITHIN: Duration = Duration::from_secs(5);
const MOST_HEADER: usize = 16 << 10;
/// A tool's output can be long; what the socket takes at once is 16 MiB.
const MOST_BODY: usize = 8 << 20;
/// Bodies at the same time: they are in memory.
const BODIES: usize = 16;

static READING: Semaphore = Semaphore::const_new(BODIES);

pub(super) async fn accept(listener: TcpListener, gateway: Arc<GatewayContext>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let gateway = Arc::clone(&gateway);
                tokio::spawn(async move {
                    serve(stream, gateway).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the gateway cannot accept");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// One request a connection: a new connection costs little on one machine, and each has one deadline.
async fn serve(stream: TcpStream, gateway: Arc<GatewayContext>) {
    let service = service_fn(|request| {
        let gateway = Arc::clone(&gateway);
        async move { Ok::<_, Infallible>(sealed(respond(request, &gateway).await)) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WITHIN)
        .max_header_size(MOST_HEADER)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of the gateway ended early");
    }
}

async fn respond(request: Request<Incoming>, gateway: &GatewayContext) -> Response<Content> {
    let (head, body) = request.into_parts();
    let checked = guard::check(&head, gateway);
    let named = checked.as_ref().ok().cloned().flatten();
    let named = named.as_deref();
    if named.is_some() && head.method == Method::OPTIONS {
        let answer = counted(Caller::Stranger, gateway).map_or_else(Refusal::response, |()| preflight());
        return allowing(answer, named);
    }
    let routed = checked.and_then(|_| routes::Routed::of(&head, gateway));
    let caller = routed.as_ref().map_or(Caller::Stranger, routes::Routed::caller);
    let answered = async {
        counted(caller, gateway)?;
        let call = routed?;
        let bytes = read(body).await?;
        routes::answer(call, &bytes, gateway).await
    };
    allowing(answered.await.unwrap_or_else(Refusal::response), named)
}

fn counted(caller: Caller, gateway: &GatewayContext) -> Result<(), Refusal> {
    match gateway.keys.take_place(caller, Instant::now()) {
        true => Ok(()),
        false => Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many", "Too many calls")
            .hint("Try again in a second.")),
    }
}

async fn read(mut body: Incoming) -> Result<Bytes, Refusal> {
    let too_big = || {
        let what = format!("The body is larger than {MOST_BODY} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_big", what)
    };
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if body.size_hint().lower() > MOST_BODY as u64 {
        return Err(too_big());
    }
    let reading = async {
        let _place = READING.acquire().await;
        let mut bytes = Vec::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            let frame = frame.map_err(|_| Refusal::invalid("The body ended early"))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len().saturating_add(data.len()) > MOST_BODY {
                return Err(too_big());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.into())
    };
    let late = || Refusal::new(StatusCode::REQUEST_TIMEOUT, "timeout", "The body did not arrive in time");
    timeout(BODY_WITHIN, reading).await.unwrap_or_else(|_| Err(late()))
}
