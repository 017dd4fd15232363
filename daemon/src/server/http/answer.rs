//! Responses: a status, a body, and the headers that every response has.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use recall_protocol::wire::{ErrorKind, Reply};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Allows only what the gateway itself serves: no inline scripts or styles, and no text interpreted as markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

pub(super) const JSON: &str = "application/json";

/// A body: complete, or a stream of events.
pub(super) enum Content {
    Whole(Option<Bytes>),
    Live(mpsc::Receiver<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Live(events) => events.poll_recv(context).map(|bytes| bytes.map(|it| Ok(Frame::data(it)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Live(_) => SizeHint::default(),
        }
    }
}

/// Why a call was refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub status: StatusCode,
    /// The kind of refusal, for programs.
    pub kind: &'static str,
    pub what: String,
    pub hint: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, kind: &'static str, what: impl Into<String>) -> Self {
        Self { status, kind, what: what.into(), hint: String::new() }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(super) fn invalid(what: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", what)
    }

    pub(super) fn of(kind: ErrorKind, what: String, hint: String) -> Self {
        let (status, name) = match kind {
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid"),
            ErrorKind::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            ErrorKind::Conflict => (StatusCode::CONFLICT, "conflict"),
            ErrorKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Self::new(status, name, what).hint(hint)
    }

    pub(super) fn response(self) -> Response<Content> {
        let body = json!({"error": {"kind": self.kind, "what": self.what, "hint": self.hint}});
        whole(self.status, JSON, body.to_string())
    }
}

/// Returns the answer to a query, or its refusal.
pub(super) fn of_reply(reply: Reply) -> Result<Bytes, Refusal> {
    match reply {
        Reply::Json(bytes) => Ok(bytes.into()),
        Reply::Failed { kind, what, hint } => Err(Refusal::of(kind, what, hint)),
        other => Err(unanswered(&other)),
    }
}

/// Returns the refusal for a reply that did nothing.
pub(super) fn unanswered(reply: &Reply) -> Refusal {
    match reply {
        Reply::TooBig => Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_big", "The request is too large"),
        Reply::Invalid(why) => Refusal::invalid(why.clone()),
        _ => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "The daemon is busy or shutting down")
            .hint("Try again in a moment."),
    }
}

/// Builds a JSON answer from a typed value.
pub(super) fn typed<T: Serialize>(value: &T) -> Result<Response<Content>, Refusal> {
    let body = serde_json::to_vec(value)
        .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))?;
    Ok(whole(StatusCode::OK, JSON, body))
}

pub(super) fn json(value: &Value) -> Response<Content> {
    whole(StatusCode::OK, JSON, value.to_string())
}

pub(super) fn whole(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Content> {
    let mut response = Response::new(Content::Whole(Some(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Answers a browser's preflight request for a page that the user allowed.
pub(super) fn preflight() -> Response<Content> {
    let mut response = Response::new(Content::Whole(None));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    let allowed = HeaderValue::from_static("Authorization, Content-Type, Last-Event-ID");
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Lets a page that the user named read the response. Without cookies, because such a page has the token.
pub(super) fn allowing(mut response: Response<Content>, named: Option<&str>) -> Response<Content> {
    if let Some(origin) = named.and_then(|origin| HeaderValue::from_str(origin).ok()) {
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Origin"));
    }
    response
}

/// Adds the headers that every answer has.
pub(super) fn sealed(mut response: Response<Content>) -> Response<Content> {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
