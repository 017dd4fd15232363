//! What can be asked over the socket, and the answers in JSON. Reading goes to read-only connections on threads
//! that may block; a query changes nothing.

use std::path::Path;

use recall_protocol::wire::{Filter, Query, Reply};
use rusqlite::Connection;
use serde::Serialize;

use super::connection_context::ConnectionContext;
use crate::actors::services::Services;
use crate::app::identity::project_of;
use crate::memory::ids::{JobId, Timestamp};
use crate::store::{self, Jobs, ProjectInfo, StoreError, Unreadable};

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
    what: String,
    hint: String,
    /// Where it was the database.
    cause: Option<StoreError>,
}

impl Refused {
    pub(super) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into(), cause: None }
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let what = format!("The database refused: {error}");
        let hint = "Run `recall doctor`; the daemon's log says more.";
        Self { cause: Some(error), ..Self::new(what, hint) }
    }
}

/// Answers a query. Never fails: a refusal is an answer.
pub async fn answer(query: Query, reception: &ConnectionContext) -> Reply {
    let services = reception.services.clone();
    let answer = match query {
        Query::Ping => {
            json(&serde_json::json!({"version": env!("CARGO_PKG_VERSION"), "pid": std::process::id()}))
        }
        Query::Status => status(reception).await,
        Query::Flush => match flush(&services).await {
            Ok(flushed) => json(&flushed),
            Err(error) => Err(Refused::new(
                format!("Not everything is done: {error}"),
                "See `recall ctl status` and `recall ctl jobs`.",
            )),
        },
        Query::Stop => {
            // Somebody has asked already if it is full.
            let _ = reception.stop.try_send(());
            json(&serde_json::json!({"stopping": true}))
        }
        Query::Sessions(filter) => blocking(move || sessions(&services, &filter)).await,
        Query::Session { id } => blocking(move || session(&services, &id)).await,
        Query::Jobs(filter) => blocking(move || jobs(&services, Jobs::All, &filter)).await,
        Query::DeadJobs(filter) => blocking(move || jobs(&services, Jobs::Dead, &filter)).await,
        Query::Retry { job } => retry(&services, job.map(JobId)).await,
        Query::Stats { days } => blocking(move || stats(&services, days)).await,
        Query::Search { text, filter, explain } => {
            blocking(move || search(&services, &text, (&filter, explain), None)).await
        }
        Query::SearchFrom { folder, text, filter, explain } => {
            blocking(move || search(&services, &text, (&filter, explain), Some(&folder))).await
        }
        Query::Show { id } => blocking(move || show(&services, &id, None)).await,
        Query::ShowFrom { folder, id } => blocking(move || show(&services, &id, Some(&folder))).await,
        Query::Timeline { id, before, after } => {
            blocking(move || timeline(&services, &id, (before, after), None)).await
        }
        Query::TimelineFrom { folder, id, before, after } => {
            blocking(move || timeline(&services, &id, (before, after), Some(&folder))).await
        }
        Query::Identity { folder } => blocking(move || identity(&services, &folder)).await,
        Query::Context { cwd, prompt } => context(&services, cwd, prompt).await,
        Query::Why { id } => blocking(move || why(&services, &id)).await,
        Query::Forget { what, step } => forget(&services, what, Unreadable::Stays, step).await,
        Query::ForgetUnreadable { what, step } => forget(&services, what, Unreadable::Goes, step).await,
        Query::Remember(remark) => remember(&services, remark).await,
        Query::Mark { ids, validity } => mark(&services, ids, validity).await,
        Query::Pause { until_ms } => {
            switch_capture(&services, Switch::Pause { until: until_ms.map(Timestamp) }).await
        }
        Query::Resume => switch_capture(&services, Switch::Resume).await,
        // It has many answers; a connection sees to it by itself.
        Query::Follow { .. } => Err(Refused::new("Events are followed on a connection of their own", "")),
    };
    match answer {
        Ok(bytes) => Reply::Json(bytes),
        Err(Refused { what, hint, .. }) => Reply::Failed { what, hint },
    }
}

pub(super) type QueryResult = Result<Vec<u8>, Refused>;

pub(super) async fn blocking(work: impl FnOnce() -> QueryResult + Send + 'static) -> QueryResult {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        tracing::error!("a query panicked");
        Err(Refused::new("The daemon could not answer", "This is a bug; its log says more."))
    })
}

pub(super) fn json(value: &impl Serialize) -> QueryResult {
    serde_json::to_vec(value).map_err(|error| Refused::new(format!("Cannot write the answer: {error}"), ""))
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
        return Err(Refused::new(what, "`recall ctl sessions` shows the projects there are."));
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
