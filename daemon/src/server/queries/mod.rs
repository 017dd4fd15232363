//! Answers to what is asked over the socket. Reading goes to read-only connections on threads that may block.
//! `requests` says what each request is answered with.

use std::path::Path;

use recall_protocol::query::{
    Context, Filter, Flush, Forget, Mark, Pause, Ping, Query, Remember, Resume, Retry, Status, Stop,
};
use recall_protocol::wire::{ErrorKind, Reply};
use rusqlite::Connection;

use super::answers::status::{PingAnswer, StopAnswer};
use super::connection_context::ConnectionContext;
use super::requests::{Command, ReadRequest, Request};
use crate::actors::services::Services;
use crate::app::identity::project_of;
use crate::memory::ids::{JobId, Timestamp};
use crate::store::{self, ProjectInfo, StoreError};

mod by_hand;
mod context;
pub mod flush;
mod forget;
mod given;
mod identity;
mod jobs;
mod marks;
mod search;
mod session;
mod show;
mod status;
mod timeline;
mod why;

use by_hand::{Switch, mark, remember, switch_capture};
use context::context;
use flush::flush;
use forget::forget;
use identity::identity;
use jobs::{jobs, retry, stats};
use search::search;
use session::{session, sessions};
use show::show;
use status::status;
use timeline::timeline;
use why::why;

/// Rows of a listing unless the user says otherwise.
const LIMIT: u32 = 20;
const MOST_ROWS: u32 = 10_000;

/// Why a query has no answer, in words for the user.
pub(super) struct Refused {
    kind: ErrorKind,
    what: String,
    hint: String,
    /// Where it was the database.
    cause: Option<StoreError>,
}

impl Refused {
    pub(super) fn new(kind: ErrorKind, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, what: what.into(), hint: hint.into(), cause: None }
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let what = format!("The database refused: {error}");
        let hint = "Run `recall doctor`; the daemon's log says more.";
        Self { cause: Some(error), ..Self::new(ErrorKind::Internal, what, hint) }
    }
}

/// What a handler answers.
pub(super) type Answer<T> = Result<T, Refused>;

/// Answers a query. Never fails: a refusal is an answer.
pub async fn answer(query: Query, reception: &ConnectionContext) -> Reply {
    let services = &reception.services;
    match query {
        Query::Ping(Ping) => read_reply::<Ping>(Ok(PingAnswer {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
        })),
        Query::Status(Status) => read_reply::<Status>(status(reception).await),
        Query::Context(request) => read_reply::<Context>(context(services, request).await),
        Query::Sessions(request) => read_with(services, request, sessions).await,
        Query::Session(request) => read_with(services, request, session).await,
        Query::Jobs(request) => read_with(services, request, jobs).await,
        Query::Stats(request) => read_with(services, request, stats).await,
        Query::Search(request) => read_with(services, request, search).await,
        Query::Show(request) => read_with(services, request, show).await,
        Query::Timeline(request) => read_with(services, request, timeline).await,
        Query::Why(request) => read_with(services, request, why).await,
        Query::Identity(request) => read_with(services, request, identity).await,
        Query::Flush(Flush) => command_reply::<Flush>(flush(services).await.map_err(Refused::from)),
        Query::Stop(Stop) => {
            // Somebody has asked already if it is full.
            let _ = reception.stop.try_send(());
            command_reply::<Stop>(Ok(StopAnswer { stopping: true }))
        }
        Query::Pause(Pause { until_ms }) => {
            let switch = Switch::Pause { until: until_ms.map(Timestamp) };
            command_reply::<Pause>(switch_capture(services, switch).await)
        }
        Query::Resume(Resume) => command_reply::<Resume>(switch_capture(services, Switch::Resume).await),
        Query::Retry(Retry { job }) => command_reply::<Retry>(retry(services, job.map(JobId)).await),
        Query::Forget(request) => command_reply::<Forget>(forget(services, request).await),
        Query::Remember(request) => command_reply::<Remember>(remember(services, request).await),
        Query::Mark(request) => command_reply::<Mark>(mark(services, request).await),
        // It has many answers; a connection sees to it by itself.
        Query::Follow(_) => {
            let what = "Events are followed on a connection of their own";
            refusal(Refused::new(ErrorKind::Invalid, what, ""))
        }
    }
}

/// Answers a request that changes nothing, on a thread that may block.
async fn read_with<R: ReadRequest + Send + 'static>(
    services: &Services,
    request: R,
    handler: fn(&Services, R) -> Answer<R::Response>,
) -> Reply {
    let services = services.clone();
    read_reply::<R>(blocking(move || handler(&services, request)).await)
}

fn read_reply<R: ReadRequest>(answer: Answer<R::Response>) -> Reply {
    reply::<R>(answer)
}

fn command_reply<R: Command>(answer: Answer<R::Response>) -> Reply {
    reply::<R>(answer)
}

fn reply<R: Request>(answer: Answer<R::Response>) -> Reply {
    match answer.and_then(|response| serde_json::to_vec(&response).map_err(Refused::from)) {
        Ok(json) => Reply::Json(json),
        Err(refused) => refusal(refused),
    }
}

fn refusal(Refused { kind, what, hint, .. }: Refused) -> Reply {
    Reply::Failed { kind, what, hint }
}

impl From<serde_json::Error> for Refused {
    fn from(error: serde_json::Error) -> Self {
        Self::new(ErrorKind::Internal, format!("Cannot write the answer: {error}"), "")
    }
}

/// Runs what may block on a thread for it.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        tracing::error!("a query panicked");
        let what = "The daemon could not answer";
        Err(Refused::new(ErrorKind::Internal, what, "This is a bug; its log says more."))
    })
}

pub(super) fn limit(filter: &Filter) -> u32 {
    filter.limit.unwrap_or(LIMIT).min(MOST_ROWS)
}

/// The projects a filter means; `None`: all of them.
pub(super) fn projects(db: &Connection, filter: &Filter) -> Result<Option<Vec<ProjectInfo>>, Refused> {
    let Some(name) = &filter.project else { return Ok(None) };
    let found = if Path::new(name).is_absolute() {
        project_of(db, Path::new(name))?.into_iter().collect()
    } else {
        store::projects_named(db, name)?
    };
    if found.is_empty() {
        let what = format!("Nothing is remembered of a project {name:?}");
        return Err(Refused::new(
            ErrorKind::NotFound,
            what,
            "`recall ctl sessions` shows the projects there are.",
        ));
    }
    Ok(Some(found))
}

/// Reads with a reader whose refusals are words for the user.
pub(super) fn read<T>(
    services: &Services,
    query: impl FnOnce(&Connection) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let answer = services.readers.read(|db| Ok(query(db)))?;
    if let Err(Refused { cause: Some(error), .. }) = &answer {
        services.readers.suspect(error);
    }
    answer
}
