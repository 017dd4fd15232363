//! The table of what can be called. The router and the OpenAPI document are made of it.

use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use percent_encoding::percent_decode_str;
use recall_protocol::query::{
    Changes, Edit, Forget, Jobs, Mark, PinUp, Query, Remember, Search, Session, Sessions, Show, Stats,
    Status, Timeline, Undo, Why,
};
use serde_json::{Value, json};

use super::answer::{Content, JSON, Refusal, json, of_reply, whole};
use super::call::Call;
use super::hooks::{self, HookCall};
use super::openapi::{AnswerSchema, document, of};
use super::{GatewayContext, guard, page, reading};
use crate::app::answers::metrics::exposition;
use crate::app::answers::status::StatusAnswer;
use crate::server::queries;

/// Makes a request of a call.
type Reading = fn(&Call) -> Result<Query, Refusal>;

#[derive(Clone, Copy)]
pub(super) enum Endpoint {
    /// Anybody on this machine may know that the gateway is there.
    Health,
    Ask(Reading, AnswerSchema),
    /// The same, and the answer is the text of the block for an agent.
    AskText(Reading),
    Hook(HookCall),
    Processing,
    Live,
    Metrics,
    OpenApi,
}

pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) what: &'static str,
    /// Of the query, or the fields of the body.
    pub(super) parameters: &'static [&'static str],
    pub(super) endpoint: Endpoint,
}

const fn get(
    path: &'static str,
    what: &'static str,
    parameters: &'static [&'static str],
    endpoint: Endpoint,
) -> Route {
    Route { method: Method::GET, path, what, parameters, endpoint }
}

const fn post(
    path: &'static str,
    what: &'static str,
    parameters: &'static [&'static str],
    endpoint: Endpoint,
) -> Route {
    Route { method: Method::POST, path, what, parameters, endpoint }
}

const FILTER: &[&str] = &["project", "since", "limit"];
const SEARCH: &[&str] = &["query", "project", "since", "limit", "type", "file", "folder"];
const AROUND: &[&str] = &["anchor", "depth_before", "depth_after"];
const INIT: &[&str] = &["session_id", "cwd", "prompt"];
const USED: &[&str] = &["session_id", "cwd", "tool_name", "tool_input", "tool_response", "tool_use_id"];

pub(super) static ROUTES: &[Route] = &[
    get("/api/health", "That the gateway answers.", &[], Endpoint::Health),
    get("/api/readiness", "That the gateway takes calls.", &[], Endpoint::Health),
    get("/api/openapi.json", "This document.", &[], Endpoint::OpenApi),
    get("/api/status", "How the daemon is.", &[], Endpoint::Ask(reading::status, of::<Status>)),
    get("/metrics", "The same for Prometheus.", &[], Endpoint::Metrics),
    get(
        "/api/sessions",
        "Sessions, the latest first.",
        FILTER,
        Endpoint::Ask(reading::sessions, of::<Sessions>),
    ),
    get(
        "/api/sessions/{id}",
        "All that is stored of a session.",
        &[],
        Endpoint::Ask(reading::session, of::<Session>),
    ),
    get(
        "/api/why/{id}",
        "What a session was given, or who was given an item.",
        &[],
        Endpoint::Ask(reading::why, of::<Why>),
    ),
    get(
        "/api/items/{id}",
        "An observation, prompt, answer, call, summary or plan.",
        &["folder"],
        Endpoint::Ask(reading::show, of::<Show>),
    ),
    get("/api/search", "Search everything.", SEARCH, Endpoint::Ask(reading::search, of::<Search>)),
    get(
        "/api/search/observations",
        "Search observations.",
        SEARCH,
        Endpoint::Ask(reading::observations, of::<Search>),
    ),
    get(
        "/api/search/sessions",
        "Search summaries of sessions.",
        SEARCH,
        Endpoint::Ask(reading::summaries, of::<Search>),
    ),
    get("/api/search/prompts", "Search prompts.", SEARCH, Endpoint::Ask(reading::prompts, of::<Search>)),
    get(
        "/api/search/by-file",
        "Observations of a file.",
        &["filePath", "project", "limit"],
        Endpoint::Ask(reading::by_file, of::<Search>),
    ),
    get(
        "/api/search/by-concept",
        "Observations of a concept.",
        &["concept", "project", "limit"],
        Endpoint::Ask(reading::by_concept, of::<Search>),
    ),
    get(
        "/api/search/by-type",
        "Observations of a type.",
        &["type", "project", "limit"],
        Endpoint::Ask(reading::by_type, of::<Search>),
    ),
    get(
        "/api/timeline",
        "What happened around an item or in a session.",
        AROUND,
        Endpoint::Ask(reading::timeline, of::<Timeline>),
    ),
    get("/api/context/timeline", "The same.", AROUND, Endpoint::Ask(reading::timeline, of::<Timeline>)),
    get(
        "/api/context/recent",
        "The newest observations.",
        FILTER,
        Endpoint::Ask(reading::recent, of::<Search>),
    ),
    get(
        "/api/context/inject",
        "What a new session in a folder would be given, as text; nothing is recorded.",
        &["cwd", "prompt"],
        Endpoint::AskText(reading::context),
    ),
    post(
        "/api/context/inject",
        "A session starts: what it is given, recorded.",
        &["session_id", "cwd", "source"],
        Endpoint::Hook(HookCall::Start),
    ),
    get(
        "/api/stats",
        "What models have cost, by day.",
        &["days"],
        Endpoint::Ask(reading::stats, of::<Stats>),
    ),
    get(
        "/api/jobs",
        "Compression jobs.",
        &["which", "project", "limit"],
        Endpoint::Ask(reading::jobs, of::<Jobs>),
    ),
    get("/api/processing", "Whether something is being compressed.", &[], Endpoint::Processing),
    post("/api/processing", "Accepted and ignored: recall knows.", &["isProcessing"], Endpoint::Processing),
    get("/api/stream", "Server-sent events; `Last-Event-ID` resumes.", &[], Endpoint::Live),
    get("/stream", "The same.", &[], Endpoint::Live),
    post("/api/sessions/init", "The user has sent a prompt.", INIT, Endpoint::Hook(HookCall::Prompt)),
    post("/sessions/{id}/init", "The same.", INIT, Endpoint::Hook(HookCall::Prompt)),
    post("/api/sessions/observations", "A tool was used.", USED, Endpoint::Hook(HookCall::ToolUse)),
    post("/sessions/{id}/observations", "The same.", USED, Endpoint::Hook(HookCall::ToolUse)),
    post(
        "/api/sessions/summarize",
        "The agent has answered.",
        &["session_id", "last_assistant_message"],
        Endpoint::Hook(HookCall::Answer),
    ),
    post(
        "/sessions/{id}/summarize",
        "The same.",
        &["last_assistant_message"],
        Endpoint::Hook(HookCall::Answer),
    ),
    post(
        "/api/sessions/complete",
        "The session ends.",
        &["session_id", "reason"],
        Endpoint::Hook(HookCall::End),
    ),
    post("/sessions/{id}/complete", "The same.", &["reason"], Endpoint::Hook(HookCall::End)),
    post(
        "/api/hooks/{id}",
        "A hook's JSON as the agent of this name writes it; the answer is what its stdout would be.",
        &["event"],
        Endpoint::Hook(HookCall::Raw),
    ),
    post(
        "/api/remember",
        "Keeps a note.",
        &["text", "title", "type", "project", "files", "importance"],
        Endpoint::Ask(reading::remember, of::<Remember>),
    ),
    post(
        "/api/mark",
        "Says whether observations still hold: `resolved` or `active`.",
        &["ids", "validity"],
        Endpoint::Ask(reading::mark, of::<Mark>),
    ),
    post(
        "/api/edit",
        "Replaces the text of an observation.",
        &["id", "type", "title", "narrative", "facts", "files"],
        Endpoint::Ask(reading::edit, of::<Edit>),
    ),
    post(
        "/api/pin",
        "Has observations stand first: `on` or `off`.",
        &["ids", "pin"],
        Endpoint::Ask(reading::pin, of::<PinUp>),
    ),
    post("/api/undo", "Takes back the newest change by hand.", &[], Endpoint::Ask(reading::undo, of::<Undo>)),
    get(
        "/api/changes",
        "Changes by hand that can be taken back.",
        &["limit"],
        Endpoint::Ask(reading::changes, of::<Changes>),
    ),
    post(
        "/api/forget",
        "Says what would be removed; with `step: forget` removes it for good.",
        &["ids", "session", "project", "since_ms", "until_ms", "words", "step"],
        Endpoint::Ask(reading::forget, of::<Forget>),
    ),
];

/// A call that is allowed.
pub(super) struct Routed {
    target: Target,
    call: Call,
}

enum Target {
    Endpoint(Endpoint),
    Page(&'static page::File),
    Link(String),
}

impl Routed {
    /// Finds the route, and checks that the caller may use it.
    pub(super) fn of(head: &Parts, gateway: &GatewayContext) -> Result<Self, Refusal> {
        let (target, id) = target(&head.method, head.uri.path())?;
        if let Target::Endpoint(endpoint) = &target
            && !matches!(endpoint, Endpoint::Health)
        {
            guard::admit(head, gateway)?;
        }
        Ok(Self { target, call: Call::new(head, id) })
    }
}

fn target(method: &Method, path: &str) -> Result<(Target, Option<String>), Refusal> {
    let unknown = || Refusal::new(StatusCode::NOT_FOUND, "not_found", "There is nothing at this address");
    if method == Method::GET {
        if let Some(file) = page::file(path) {
            return Ok((Target::Page(file), None));
        }
        if let Some(key) = path.strip_prefix("/open/") {
            return Ok((Target::Link(key.to_owned()), None));
        }
    }
    let mut other_method = false;
    for route in ROUTES {
        let Some(id) = matched(route.path, path) else { continue };
        if route.method == *method {
            return Ok((Target::Endpoint(route.endpoint), id));
        }
        other_method = true;
    }
    Err(match other_method {
        true => Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "invalid", "Not with this method"),
        false => unknown(),
    })
}

/// `Some` if the path is the route's, with its open part, decoded.
fn matched(route: &str, path: &str) -> Option<Option<String>> {
    let Some((before, after)) = route.split_once("{id}") else { return (route == path).then_some(None) };
    let id = path.strip_prefix(before)?.strip_suffix(after)?;
    let id = percent_decode_str(id).decode_utf8().ok().filter(|_| !id.is_empty() && !id.contains('/'))?;
    Some(Some(id.into_owned()))
}

pub(super) async fn answer(
    Routed { target, mut call }: Routed,
    body: &Bytes,
    gateway: &GatewayContext,
) -> Result<Response<Content>, Refusal> {
    let endpoint = match &target {
        Target::Page(file) => return Ok(whole(StatusCode::OK, file.kind, file.text)),
        Target::Link(key) => return opened(key, gateway),
        Target::Endpoint(endpoint) => *endpoint,
    };
    if let Endpoint::Hook(HookCall::Raw) = endpoint {
        return hooks::raw(&call, body, gateway).await;
    }
    if !body.is_empty() {
        call.read_body(body)?;
    }
    match endpoint {
        Endpoint::Health => Ok(json(&json!({"status": "ok"}))),
        Endpoint::OpenApi => Ok(json(&document())),
        Endpoint::Ask(reading, _) => {
            let reply = queries::answer(reading(&call)?, &gateway.context).await;
            Ok(whole(StatusCode::OK, JSON, of_reply(reply)?))
        }
        Endpoint::AskText(reading) => {
            let reply = queries::answer(reading(&call)?, &gateway.context).await;
            let answer: Value = serde_json::from_slice(&of_reply(reply)?).unwrap_or_default();
            let text = answer["text"].as_str().unwrap_or_default().to_owned();
            Ok(whole(StatusCode::OK, "text/markdown; charset=utf-8", text))
        }
        Endpoint::Hook(hook) => hooks::taken(hook, &call, gateway).await,
        Endpoint::Processing => processing(gateway).await,
        Endpoint::Metrics => metrics(gateway).await,
        Endpoint::Live => {
            let events = gateway.live.read(call.last_event_id.as_deref())?;
            let mut response = Response::new(Content::Live(events));
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            Ok(response)
        }
    }
}

fn opened(key: &str, gateway: &GatewayContext) -> Result<Response<Content>, Refusal> {
    let cookie = gateway.keys.open(key).ok_or_else(|| {
        Refusal::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "This link was opened before, or is older than five minutes",
        )
        .hint("Run `recall ui --web` for a new one.")
    })?;
    let name = guard::cookie_name(gateway.port);
    let cookie = format!("{name}={cookie}; HttpOnly; SameSite=Strict; Path=/");
    let mut response = whole(StatusCode::SEE_OTHER, "text/plain", "");
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_static("/"));
    headers.insert(
        header::SET_COOKIE,
        HeaderValue::from_str(&cookie).map_err(|_| Refusal::invalid("No cookie"))?,
    );
    Ok(response)
}

async fn processing(gateway: &GatewayContext) -> Result<Response<Content>, Refusal> {
    let reply = queries::answer(Status.into(), &gateway.context).await;
    let status: Value = serde_json::from_slice(&of_reply(reply)?).unwrap_or_default();
    let count = |name: &str| status["jobs"][name].as_i64().unwrap_or(0);
    let waiting = count("pending") + count("running");
    Ok(json(&json!({"isProcessing": waiting > 0, "queueDepth": waiting})))
}

async fn metrics(gateway: &GatewayContext) -> Result<Response<Content>, Refusal> {
    let reply = queries::answer(Status.into(), &gateway.context).await;
    let status: StatusAnswer = serde_json::from_slice(&of_reply(reply)?)
        .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))?;
    Ok(whole(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", exposition(&status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_matched_whole() {
        let id = |text: &str| Some(Some(text.to_owned()));
        assert_eq!(matched("/api/status", "/api/status"), Some(None));
        assert_eq!(matched("/api/sessions/{id}", "/api/sessions/a%20b"), id("a b"));
        assert_eq!(matched("/sessions/{id}/init", "/sessions/7/init"), id("7"));
        for path in
            ["/api/sessions/", "/api/sessions/a/b", "/api/sessions", "/api//sessions/a", "/api/sessions/%ff"]
        {
            assert_eq!(matched("/api/sessions/{id}", path), None, "{path}");
        }
    }
}
