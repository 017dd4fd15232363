//! Serves a single connection.
//!
//! The peer's user is checked before a byte is read, and a frame's length before memory is allocated. Each wait has a
//! deadline, so a silent or slow client loses only its own place.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use interprocess::local_socket::tokio::Stream;
use interprocess::local_socket::traits::StreamCommon as _;
use recall_protocol::frame::{self, FrameError, HEADER_LEN, Header, HeaderError, MAX_VERSION, MIN_VERSION};
use recall_protocol::query::{Follow, Query};
use recall_protocol::wire::{Deliver, Flags, Reply, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tracing::Instrument;

use super::connection_context::ConnectionContext;
use super::follow;
use super::queries;
use super::room::{Room, RoomError, Share};
use recall_app::event_feed::EventFilter;
use recall_app::event_trace::{EventTrace, kind, micros};
use recall_app::injection_receipt::{InjectionReceipt, ReceiptSender, Recipient};
use recall_system::faults::{self, Fault, Point, planted};

/// The time from accept, or from the last answer, to the next frame's header.
const HEADER_WITHIN: Duration = Duration::from_secs(10);
/// The time for a whole body. 16 MiB over a local socket take far less.
const BODY_WITHIN: Duration = Duration::from_secs(5);
const WRITE_WITHIN: Duration = Duration::from_secs(5);
/// A shim gives up after 60 ms, so a permit later than this is useless to it.
const PERMIT_WITHIN: Duration = Duration::from_millis(40);

/// Serves requests until the client disconnects or misbehaves.
pub async fn serve(mut stream: Stream, connection: ConnectionContext) {
    if !is_ours(&stream) {
        return;
    }
    // The receipt for the last answer; dropped if the answer is not delivered.
    let mut receipt: Option<ReceiptSender> = None;
    loop {
        let next = read_header(&mut stream).await;
        if let Some(receipt) = receipt.take().filter(|_| !matches!(next, Next::Unread)) {
            receipt.received();
        }
        let header = match next {
            Next::Frame(header) => header,
            Next::Nothing | Next::Unread => return,
            Next::Refused(refusal) => {
                let _ = write(&mut stream, &refusal).await;
                return;
            }
        };
        let accepted = Instant::now();
        // Holds the share until there is an answer, because the request is in memory that long.
        let (request, _share) = match read_request(&mut stream, header, &connection.room).await {
            Ok(read) => read,
            Err(refusal) => {
                let _ = write(&mut stream, &refusal).await;
                return;
            }
        };
        let written = match request {
            Request::Deliver(deliver) => {
                let (given, injection_receipt) = InjectionReceipt::new();
                receipt = Some(given);
                let trace = EventTrace::begin(deliver.event_id, accepted);
                let reply = take(deliver, &connection, injection_receipt, trace).await;
                connection.services.latencies.hook_answers.record(accepted.elapsed());
                write(&mut stream, &reply).await
            }
            Request::Query(Query::Follow(Follow { session, kinds })) => {
                return follow::serve(&mut stream, EventFilter { session, kinds }, &connection.event_feed)
                    .await;
            }
            Request::Query(query) => {
                let reply = answer(query, &connection, accepted).await;
                write(&mut stream, &reply).await
            }
        };
        if written.is_err() {
            return;
        }
    }
}

/// Whether the peer runs as our user. Others get no answer, even if they can reach the socket.
fn is_ours(stream: &Stream) -> bool {
    let peer = stream.peer_creds().ok().and_then(|credentials| credentials.euid());
    let ours = rustix::process::geteuid().as_raw();
    if peer != Some(ours) && !planted(Fault::AnyPeer) {
        tracing::warn!(?peer, "refused a connection from another user");
        return false;
    }
    true
}

/// What the client does after its last answer.
enum Next {
    Frame(Header),
    /// A refused frame, and the reply to it.
    Refused(Reply),
    /// The client has disconnected, or has been silent for too long.
    Nothing,
    /// The client has disconnected without reading the answer.
    Unread,
}

async fn read_header(stream: &mut Stream) -> Next {
    let mut bytes = [0; HEADER_LEN];
    match timeout(HEADER_WITHIN, stream.read_exact(&mut bytes)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionReset => return Next::Unread,
        Ok(Err(_)) | Err(_) => return Next::Nothing,
    }
    match frame::parse_header(bytes) {
        Ok(header) => Next::Frame(header),
        Err(HeaderError::UnknownVersion { .. }) => {
            Next::Refused(Reply::Version { min: MIN_VERSION, max: MAX_VERSION })
        }
        Err(HeaderError::TooBig { .. }) => Next::Refused(Reply::TooBig),
    }
}

/// Reads and decodes a request, and returns it with its share of the memory for all frames. `Err` is the refusal to
/// send.
async fn read_request(stream: &mut Stream, header: Header, room: &Room) -> Result<(Request, Share), Reply> {
    let invalid = || Reply::Invalid("the frame does not contain a request".to_owned());
    let body = match timeout(BODY_WITHIN, room.read(stream, header.len)).await {
        Ok(Ok(body)) => body,
        Ok(Err(RoomError::Full)) => {
            tracing::warn!(length = header.len, "refused a frame because other frames use all memory");
            return Err(Reply::Busy);
        }
        Ok(Err(RoomError::Io(_))) | Err(_) => return Err(invalid()),
    };
    match frame::decode_body(header, &body.bytes) {
        Ok(request) => Ok((request, body.into_share())),
        Err(error) => {
            tracing::warn!(length = header.len, error = %problem(&error), "a frame does not contain a request");
            Err(invalid())
        }
    }
}

/// Describes the problem without any content.
fn problem(error: &FrameError) -> &'static str {
    match error {
        FrameError::Torn => "torn",
        FrameError::Deadline => "deadline",
        _ => "undecodable",
    }
}

/// Answers a query inside its own span.
async fn answer(query: Query, connection: &ConnectionContext, accepted: Instant) -> Reply {
    let id = || connection.queries.fetch_add(1, Ordering::Relaxed) + 1;
    let span = tracing::debug_span!(parent: None, "query", id = id(), name = query.name());
    let answered = async {
        let reply = queries::answer(query, connection).await;
        tracing::debug!(reply = kind(&reply), total_us = micros(accepted.elapsed()), "answered a query");
        reply
    };
    answered.instrument(span).await
}

/// Passes an event on once a permit is available.
pub(super) async fn take(
    deliver: Deliver,
    connection: &ConnectionContext,
    injection_receipt: InjectionReceipt,
    trace: EventTrace,
) -> Reply {
    if connection.closing.load(Ordering::Acquire) {
        return Reply::ShuttingDown;
    }
    match timeout(PERMIT_WITHIN, connection.permits.acquire()).await {
        Ok(Ok(_permit)) => {
            let recipient = match deliver.flags.contains(Flags::IMPORTED) {
                true => Recipient::Nobody,
                false => Recipient::Agent(injection_receipt),
            };
            let reply = connection.services.ingest.take_traced(deliver, recipient, trace).await;
            faults::reach(Point::Ack);
            reply
        }
        Ok(Err(_)) | Err(_) => Reply::Busy,
    }
}

async fn write(stream: &mut Stream, reply: &Reply) -> Result<(), FrameError> {
    let bytes = frame::encode_frame(reply)?;
    match timeout(WRITE_WITHIN, stream.write_all(&bytes)).await {
        Ok(written) => written.map_err(FrameError::Io),
        Err(_) => Err(FrameError::Deadline),
    }
}
