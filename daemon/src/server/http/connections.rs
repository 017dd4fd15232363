//! Accepts connections, and limits their number, duration and size.
//!
//! Every user of this machine can connect. So a connection starts as a stranger, and a new stranger replaces the
//! oldest: a slow or silent one delays nobody. An authorised call then gets its own place.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::{Body as _, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use recall_protocol::wire::Reply;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::answer::{Content, Refusal, allowing, preflight, sealed, unanswered};
use super::keys::{Caller, Keys};
use super::{GatewayContext, guard, routes};

/// The maximum number of concurrent authorised calls, including readers of the event stream.
const CALLERS: usize = 128;
/// How long an authorised call waits for its place.
const PLACE_WITHIN: Duration = Duration::from_secs(2);
/// The maximum number of strangers: connections that have not identified themselves or are not allowed to call.
const STRANGERS: usize = 64;
/// The time limit for a stranger's connection.
const STRANGER_FOR: Duration = Duration::from_secs(5);
/// The pause after a failed accept, for example without free descriptors.
const PAUSE: Duration = Duration::from_millis(50);
const HEADER_WITHIN: Duration = Duration::from_secs(2);
const BODY_WITHIN: Duration = Duration::from_secs(5);
const MOST_HEADER: usize = 16 << 10;
/// The maximum body size of an authorised call in bytes. A tool's output can be long; the socket takes 16 MiB at once.
const MOST_BODY: usize = 8 << 20;
/// The maximum body size for a stranger in bytes, who only needs to send the key of a link.
const MOST_OF_STRANGER: usize = 1 << 10;
/// The maximum number of bodies in memory at the same time.
const BODIES: usize = 16;

static READING: Semaphore = Semaphore::const_new(BODIES);
static READING_OF_STRANGERS: Semaphore = Semaphore::const_new(BODIES);

pub(super) async fn accept(listener: TcpListener, gateway: Arc<GatewayContext>) {
    let callers = Arc::new(Semaphore::new(CALLERS));
    let strangers = Strangers::default();
    for number in 0_u64.. {
        match listener.accept().await {
            Ok((stream, _)) => {
                let gateway = Arc::clone(&gateway);
                let standing = Standing {
                    number,
                    strangers: strangers.clone(),
                    callers: Arc::clone(&callers),
                    place: OnceLock::new(),
                };
                // Starts only after it was added to the strangers, because it removes itself at its end.
                let (begin, begun) = tokio::sync::oneshot::channel();
                let serving = tokio::spawn(async move {
                    if begun.await.is_ok() {
                        serve(stream, &gateway, &standing).await;
                    }
                });
                strangers.add(number, serving.abort_handle());
                let _ = begin.send(());
            }
            Err(error) => {
                tracing::warn!(%error, "the gateway cannot accept");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Connections of strangers, oldest first.
#[derive(Clone, Default)]
struct Strangers(Arc<Mutex<VecDeque<(u64, AbortHandle)>>>);

impl Strangers {
    /// Adds a connection, and ends the oldest if there are too many.
    fn add(&self, number: u64, connection: AbortHandle) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back((number, connection));
        if all.len() > STRANGERS
            && let Some((_, oldest)) = all.pop_front()
        {
            oldest.abort();
        }
    }

    fn remove(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| *other != number);
    }
}

/// Whether a connection counts as a stranger's, until it ends.
struct Standing {
    number: u64,
    strangers: Strangers,
    callers: Arc<Semaphore>,
    /// The place of an authorised call.
    place: OnceLock<OwnedSemaphorePermit>,
}

impl Standing {
    /// Exchanges the stranger's place for an authorised one.
    async fn promote(&self) -> Result<(), Refusal> {
        self.strangers.remove(self.number);
        match timeout(PLACE_WITHIN, Arc::clone(&self.callers).acquire_owned()).await {
            Ok(Ok(place)) => {
                let _ = self.place.set(place);
                Ok(())
            }
            _ => Err(unanswered(&Reply::Busy)),
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.strangers.remove(self.number);
    }
}

/// Serves one request per connection. A new local connection is cheap, and each has one deadline.
async fn serve(stream: TcpStream, gateway: &GatewayContext, standing: &Standing) {
    let service = service_fn(|request| async move {
        Ok::<_, Infallible>(sealed(respond(request, gateway, standing).await))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WITHIN)
        .max_header_size(MOST_HEADER)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    let ended = match timeout(STRANGER_FOR, &mut served).await {
        Ok(ended) => ended,
        Err(_) if standing.place.get().is_some() => served.await,
        Err(_) => return,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of the gateway ended early");
    }
}

async fn respond(
    request: Request<Incoming>,
    gateway: &GatewayContext,
    standing: &Standing,
) -> Response<Content> {
    let (head, body) = request.into_parts();
    let checked = guard::check(&head, gateway);
    let named = checked.as_ref().ok().cloned().flatten();
    let named = named.as_deref();
    if named.is_some() && head.method == Method::OPTIONS {
        let answer = counted(Caller::Stranger, &gateway.keys, Instant::now())
            .map_or_else(Refusal::response, |()| preflight());
        return allowing(answer, named);
    }
    let routed = checked.and_then(|_| routes::Routed::of(&head, gateway));
    let caller = routed.as_ref().map_or(Caller::Stranger, routes::Routed::caller);
    let answered = async {
        counted(caller, &gateway.keys, Instant::now())?;
        let call = routed?;
        let bytes = match caller {
            Caller::Known => {
                standing.promote().await?;
                read(body, MOST_BODY, &READING).await?
            }
            Caller::Stranger if call.is_of_link() => {
                read(body, MOST_OF_STRANGER, &READING_OF_STRANGERS).await?
            }
            // A stranger's body is not read.
            Caller::Stranger => Bytes::new(),
        };
        routes::answer(call, &bytes, gateway).await
    };
    allowing(answered.await.unwrap_or_else(Refusal::response), named)
}

fn counted(caller: Caller, keys: &Keys, now: Instant) -> Result<(), Refusal> {
    match keys.take_place(caller, now) {
        true => Ok(()),
        false => Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many", "Too many requests")
            .hint("Try again in a second.")),
    }
}

async fn read(mut body: Incoming, most: usize, places: &Semaphore) -> Result<Bytes, Refusal> {
    let too_big = || {
        let what = format!("The body is larger than {most} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_big", what)
    };
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if body.size_hint().lower() > most as u64 {
        return Err(too_big());
    }
    let reading = async {
        let _place = places.acquire().await;
        let mut bytes = Vec::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            let frame = frame.map_err(|_| Refusal::invalid("The body ended early"))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len().saturating_add(data.len()) > most {
                return Err(too_big());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.into())
    };
    let late = || Refusal::new(StatusCode::REQUEST_TIMEOUT, "timeout", "The body did not arrive in time");
    timeout(BODY_WITHIN, reading).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_over_the_rate_limit_get_too_many_requests() {
        let (keys, _) = Keys::new();
        let now = Instant::now();
        let refused = (0..1_000).find_map(|_| counted(Caller::Stranger, &keys, now).err());
        assert_eq!(refused.map(|refusal| refusal.response().status()), Some(StatusCode::TOO_MANY_REQUESTS));
        assert!(counted(Caller::Known, &keys, now).is_ok());
    }

    #[tokio::test]
    async fn a_new_stranger_replaces_the_oldest_stranger_but_no_caller() {
        let strangers = Strangers::default();
        let waiting = || tokio::spawn(std::future::pending::<()>());
        let caller = Standing {
            number: 0,
            strangers: strangers.clone(),
            callers: Arc::new(Semaphore::new(1)),
            place: OnceLock::new(),
        };
        let mut connections: Vec<_> = (0..STRANGERS).map(|_| waiting()).collect();
        for (number, connection) in (0..).zip(&connections) {
            strangers.add(number, connection.abort_handle());
        }
        caller.promote().await.unwrap();
        for number in 1..=STRANGERS {
            connections.push(waiting());
            strangers.add((STRANGERS + number) as u64, connections.last().unwrap().abort_handle());
        }
        // The first is a caller now; the newest strangers are left.
        let mut ended = Vec::new();
        for (number, connection) in connections.iter_mut().enumerate() {
            if (1..STRANGERS).contains(&number) {
                assert!(connection.await.unwrap_err().is_cancelled());
                ended.push(number);
            } else {
                assert!(!connection.is_finished(), "{number}");
            }
        }
        assert_eq!(ended.len(), STRANGERS - 1);
    }
}
