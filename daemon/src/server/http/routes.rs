//! The table of all calls. The router and the OpenAPI document are generated from it.

use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use percent_encoding::percent_decode_str;
use recall_protocol::query::{
    Changes, Days, Edit, Entries, Forget, Friction, Jobs, Mark, PinUp, Projects, Remember, Review, Search,
    Session, Sessions, Show, Stats, Status, SyncState, Threads, Timeline, Undo, Unreviewed, Why, Wrong,
};
use schemars::JsonSchema;
use serde_json::Value;

use super::answer::{Content, JSON, Refusal, json, of_reply, typed, whole};
use super::call::Call;
use super::hooks::{
    self, AnswerBody, AnswerBodyOfKnown, EndBody, EndBodyOfKnown, HookCall, ProcessingAnswer, ProcessingBody,
    PromptBody, PromptBodyOfKnown, StartBody, ToolBody, ToolBodyOfKnown,
};
use super::keys::{Caller, Locked};
use super::openapi::document;
use super::reading::{
    EditBody, ForgetBody, MarkBody, PinBody, RememberBody, ReviewBody, UndoBody, WrongBody,
};
use super::route::{
    Endpoint, HealthAnswer, OpenAnswer, Parameter, Route, get, hook, needed, number, of, post, schema_of,
    text,
};
use super::{GatewayContext, guard, page, reading};
use crate::server::queries;
use recall_app::answers::metrics::exposition;
use recall_app::answers::status::StatusAnswer;

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
struct OpenBody {
    /// The key after `#/open/` in the link.
    key: String,
}

const FILTER: &[Parameter] = &[text("project"), text("since"), number("limit")];
const SEARCH: &[Parameter] = &[
    text("query"),
    text("project"),
    text("since"),
    number("limit"),
    text("type"),
    text("file"),
    text("folder"),
];
const AROUND: &[Parameter] =
    &[needed("anchor"), number("depth_before"), number("depth_after"), text("folder")];
const BROWSED: &[Parameter] = &[text("project"), text("kinds"), text("types")];

pub(super) static ROUTES: &[Route] = &[
    get(
        "/api/health",
        "Checks that the gateway responds. `proof` is the HMAC-SHA256 of the `challenge` text, keyed with the note's token.",
        &[text("challenge")],
        Endpoint::Health,
    ),
    post(
        "/api/open",
        "Exchanges the key of a one-time link for a page's token.",
        Some(schema_of::<OpenBody>),
        Endpoint::Open,
    ),
    get("/api/readiness", "Checks that the gateway accepts calls.", &[], Endpoint::Health),
    get("/api/openapi.json", "This document.", &[], Endpoint::OpenApi),
    get("/api/status", "Returns the daemon's state.", &[], Endpoint::Ask(reading::status, of::<Status>)),
    get(
        "/api/sync",
        "Returns what is shared through which remote, and the progress of each machine.",
        &[],
        Endpoint::Ask(reading::sharing, of::<SyncState>),
    ),
    get("/metrics", "Returns the daemon's state in Prometheus format.", &[], Endpoint::Metrics),
    get(
        "/api/days",
        "Returns the number of entries per day. `kinds` (observation, prompt, summary) and `types` are comma-separated lists.",
        BROWSED,
        Endpoint::Ask(reading::days, of::<Days>),
    ),
    get(
        "/api/entries",
        "Lists what is remembered, newest first.",
        &[
            text("project"),
            text("kinds"),
            text("types"),
            text("since"),
            text("until"),
            number("skip"),
            number("limit"),
        ],
        Endpoint::Ask(reading::entries, of::<Entries>),
    ),
    get(
        "/api/review",
        "Lists observations that nobody has reviewed, newest first.",
        &[text("project"), text("since"), text("until"), number("skip"), number("limit")],
        Endpoint::Ask(reading::unreviewed, of::<Unreviewed>),
    ),
    get(
        "/api/friction",
        "Lists what went wrong repeatedly. Covers the last seven days unless `since` is given.",
        &[text("project"), text("since")],
        Endpoint::Ask(reading::friction, of::<Friction>),
    ),
    get(
        "/api/projects",
        "Lists projects, most recent first.",
        &[],
        Endpoint::Ask(reading::projects, of::<Projects>),
    ),
    get(
        "/api/threads",
        "Lists subjects that have an earlier statement. `of` selects that of an observation, with its texts.",
        &[text("project"), text("of"), number("skip"), number("limit")],
        Endpoint::Ask(reading::threads, of::<Threads>),
    ),
    get(
        "/api/sessions",
        "Lists sessions, most recent first.",
        &[text("project"), text("since"), number("skip"), number("limit")],
        Endpoint::Ask(reading::sessions, of::<Sessions>),
    ),
    get(
        "/api/sessions/{id}",
        "Returns everything stored about a session.",
        &[],
        Endpoint::Ask(reading::session, of::<Session>),
    ),
    get(
        "/api/why/{id}",
        "Lists what was injected into a session, or the sessions that received an item.",
        &[],
        Endpoint::Ask(reading::why, of::<Why>),
    ),
    get(
        "/api/items/{id}",
        "Returns an observation, prompt, answer, call, summary or plan.",
        &[text("folder")],
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
        "Searches session summaries.",
        SEARCH,
        Endpoint::Ask(reading::summaries, of::<Search>),
    ),
    get("/api/search/prompts", "Search prompts.", SEARCH, Endpoint::Ask(reading::prompts, of::<Search>)),
    get(
        "/api/search/by-file",
        "Lists observations about a file.",
        &[needed("filePath"), text("project"), text("since"), number("limit")],
        Endpoint::Ask(reading::by_file, of::<Search>),
    ),
    get(
        "/api/search/by-concept",
        "Lists observations about a concept.",
        &[needed("concept"), text("project"), text("since"), number("limit")],
        Endpoint::Ask(reading::by_concept, of::<Search>),
    ),
    get(
        "/api/search/by-type",
        "Lists observations of a type.",
        &[needed("type"), text("project"), text("since"), number("limit")],
        Endpoint::Ask(reading::by_type, of::<Search>),
    ),
    get(
        "/api/timeline",
        "Returns what happened around an item or in a session.",
        AROUND,
        Endpoint::Ask(reading::timeline, of::<Timeline>),
    ),
    get("/api/context/timeline", "The same.", AROUND, Endpoint::Ask(reading::timeline, of::<Timeline>)),
    get(
        "/api/context/recent",
        "Lists the newest observations.",
        FILTER,
        Endpoint::Ask(reading::recent, of::<Search>),
    ),
    get(
        "/api/context/inject",
        "Returns the context that a new session in a folder or project would receive, as text. Records nothing.",
        &[text("cwd"), text("project"), text("prompt")],
        Endpoint::AskText(reading::context),
    ),
    hook(
        "/api/context/inject",
        "Reports a session start and returns its context, which is recorded.",
        schema_of::<StartBody>,
        HookCall::Start,
    ),
    get(
        "/api/stats",
        "Returns the cost of models per day.",
        &[number("days")],
        Endpoint::Ask(reading::stats, of::<Stats>),
    ),
    get(
        "/api/jobs",
        "Lists compression jobs. `which=dead` lists those that were given up.",
        &[text("which"), text("project"), text("since"), number("limit")],
        Endpoint::Ask(reading::jobs, of::<Jobs>),
    ),
    get("/api/processing", "Returns whether something is being compressed.", &[], Endpoint::Processing),
    post(
        "/api/processing",
        "Accepted and ignored, because recall tracks this itself.",
        Some(schema_of::<ProcessingBody>),
        Endpoint::Processing,
    ),
    get("/api/stream", "Server-sent events; `Last-Event-ID` resumes.", &[], Endpoint::Live),
    get("/stream", "The same.", &[], Endpoint::Live),
    hook("/api/sessions/init", "Reports a prompt of the user.", schema_of::<PromptBody>, HookCall::Prompt),
    hook("/sessions/init", "The same.", schema_of::<PromptBody>, HookCall::Prompt),
    hook("/sessions/{id}/init", "The same.", schema_of::<PromptBodyOfKnown>, HookCall::Prompt),
    hook("/api/sessions/observations", "Reports a tool call.", schema_of::<ToolBody>, HookCall::ToolUse),
    hook("/sessions/{id}/observations", "The same.", schema_of::<ToolBodyOfKnown>, HookCall::ToolUse),
    hook("/api/sessions/summarize", "Reports the agent's answer.", schema_of::<AnswerBody>, HookCall::Answer),
    hook("/sessions/{id}/summarize", "The same.", schema_of::<AnswerBodyOfKnown>, HookCall::Answer),
    hook("/api/sessions/complete", "Reports a session end.", schema_of::<EndBody>, HookCall::End),
    hook("/sessions/{id}/complete", "The same.", schema_of::<EndBodyOfKnown>, HookCall::End),
    Route {
        method: Method::POST,
        path: "/api/hooks/{id}",
        what: "Accepts a hook's JSON in the format of this agent. The answer is what the hook would print on stdout.",
        parameters: &[text("event"), text("cwd")],
        body: Some(schema_of::<serde_json::Map<String, Value>>),
        endpoint: Endpoint::Hook(HookCall::Raw),
    },
    post(
        "/api/remember",
        "Stores a note.",
        Some(schema_of::<RememberBody>),
        Endpoint::Ask(reading::remember, of::<Remember>),
    ),
    post(
        "/api/mark",
        "Marks whether observations still hold: `resolved` or `active`.",
        Some(schema_of::<MarkBody>),
        Endpoint::Ask(reading::mark, of::<Mark>),
    ),
    post(
        "/api/edit",
        "Replaces the text of an observation.",
        Some(schema_of::<EditBody>),
        Endpoint::Ask(reading::edit, of::<Edit>),
    ),
    post(
        "/api/pin",
        "Pins observations or unpins them: `on` or `off`.",
        Some(schema_of::<PinBody>),
        Endpoint::Ask(reading::pin, of::<PinUp>),
    ),
    post(
        "/api/review",
        "Records a person's verdict on observations: `kept` or `rejected`.",
        Some(schema_of::<ReviewBody>),
        Endpoint::Ask(reading::review, of::<Review>),
    ),
    post(
        "/api/wrong",
        "Reports that items should not have been injected where they last were.",
        Some(schema_of::<WrongBody>),
        Endpoint::Ask(reading::wrong, of::<Wrong>),
    ),
    post(
        "/api/undo",
        "Reverts the newest manual change of this machine, or that of one item, whoever made it.",
        Some(schema_of::<UndoBody>),
        Endpoint::Ask(reading::undo, of::<Undo>),
    ),
    get(
        "/api/changes",
        "Lists manual changes that can be reverted.",
        &[number("limit")],
        Endpoint::Ask(reading::changes, of::<Changes>),
    ),
    post(
        "/api/forget",
        "Returns what would be removed. With `step: forget`, removes it permanently.",
        Some(schema_of::<ForgetBody>),
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
}

impl Routed {
    /// Finds the route, and checks that the caller may use it.
    pub(super) fn of(head: &Parts, gateway: &GatewayContext) -> Result<Self, Refusal> {
        let (target, id) = target(&head.method, head.uri.path())?;
        if let Target::Endpoint(endpoint) = &target
            && !matches!(endpoint, Endpoint::Health | Endpoint::Open)
        {
            guard::admit(head, gateway)?;
        }
        Ok(Self { target, call: Call::new(head, id) })
    }

    /// The caller's group. The page itself, and the existence of a gateway, are public.
    pub(super) fn caller(&self) -> Caller {
        match self.target {
            Target::Endpoint(Endpoint::Health | Endpoint::Open) | Target::Page(_) => Caller::Stranger,
            Target::Endpoint(_) => Caller::Known,
        }
    }

    /// Whether the call presents the key of a link.
    pub(super) fn is_of_link(&self) -> bool {
        matches!(self.target, Target::Endpoint(Endpoint::Open))
    }
}

fn target(method: &Method, path: &str) -> Result<(Target, Option<String>), Refusal> {
    let unknown = || Refusal::new(StatusCode::NOT_FOUND, "not_found", "Nothing exists at this address");
    if method == Method::GET
        && let Some(file) = page::file(path)
    {
        return Ok((Target::Page(file), None));
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
        true => Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "invalid", "This method is not allowed here"),
        false => unknown(),
    })
}

/// Returns the decoded variable part if the path matches the route.
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
        Target::Page(file) => return Ok(whole(StatusCode::OK, file.media_type, file.text)),
        Target::Endpoint(endpoint) => *endpoint,
    };
    if let Endpoint::Hook(HookCall::Raw) = endpoint {
        return hooks::raw(&call, body, gateway).await;
    }
    if !body.is_empty() {
        call.read_body(body)?;
    }
    match endpoint {
        Endpoint::Health => {
            let proof = call.text(&["challenge"]).map(|challenge| gateway.keys.proof(&challenge));
            typed(&HealthAnswer { status: "ok", proof })
        }
        Endpoint::Open => opened(&call, gateway),
        Endpoint::OpenApi => Ok(json(&document(ROUTES))),
        Endpoint::Ask(reading, _) => {
            let reply = queries::answer(reading(&call)?, &gateway.context).await;
            Ok(whole(StatusCode::OK, JSON, of_reply(reply)?))
        }
        Endpoint::AskText(reading) => {
            let reply = queries::answer(reading(&call)?, &gateway.context).await;
            let answer: Value = match of_reply(reply) {
                Ok(answer) => serde_json::from_slice(&answer).unwrap_or_default(),
                // Callers inject the answer, so an unknown project yields nothing instead of an error.
                Err(refusal) if refusal.status == StatusCode::NOT_FOUND => Value::Null,
                Err(refusal) => return Err(refusal),
            };
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

fn opened(call: &Call, gateway: &GatewayContext) -> Result<Response<Content>, Refusal> {
    let token = gateway.keys.open(&call.needed(&["key"])?).map_err(|locked| {
        let what = match locked {
            Locked::Used => "This link was already used. It works only once",
            Locked::Unknown => {
                "This link is older than five minutes, or belongs to a daemon that has stopped"
            }
        };
        Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", what)
            .hint("Run `recall ui --web` for a new one.")
    })?;
    typed(&OpenAnswer { token })
}

async fn processing(gateway: &GatewayContext) -> Result<Response<Content>, Refusal> {
    let reply = queries::answer(Status.into(), &gateway.context).await;
    let status: Value = serde_json::from_slice(&of_reply(reply)?).unwrap_or_default();
    let count = |name: &str| status["jobs"][name].as_i64().unwrap_or(0);
    let waiting = count("pending") + count("running");
    typed(&ProcessingAnswer { is_processing: waiting > 0, queue_depth: waiting })
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
    fn a_route_matches_only_a_whole_path() {
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

    #[test]
    fn the_openapi_document_names_every_route() {
        let document = document(ROUTES);
        for route in ROUTES {
            assert!(
                document["paths"][route.path][route.method.as_str().to_lowercase()].is_object(),
                "{}",
                route.path
            );
        }
    }
}
