//! Queries change nothing. They read the store, the index and the checkout. A function that is not `async` blocks, so
//! it must run on a thread that may.

pub mod browsing;
pub mod captured;
pub mod context;
pub mod export;
pub mod friction;
pub mod given;
pub mod glance;
pub mod handoff;
pub mod identity;
pub mod improving;
pub mod jobs;
pub mod marks;
pub mod outline;
pub mod past_work;
pub(crate) mod meant;
pub mod search;
pub mod session;
pub mod show;
pub mod sql;
pub mod sql_reader;
pub mod timeline;
pub mod why;

use std::path::Path;

use recall_protocol::query::Filter;
use recall_protocol::wire::ErrorKind;

use super::context_lookup::ContextLookup;
use super::identity::project_of;
use meant::did_you_mean;
use recall_store::{Named, ProjectInfo, Reader, StoreError};

/// The default number of rows of a listing.
const LIMIT: u32 = 20;
const MOST_ROWS: u32 = 10_000;

/// Why a query was refused, as a message for the user.
pub struct Refused {
    pub kind: ErrorKind,
    pub what: String,
    pub hint: String,
    /// The database's error, if any.
    pub cause: Option<StoreError>,
}

impl Refused {
    pub fn new(kind: ErrorKind, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, what: what.into(), hint: hint.into(), cause: None }
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let what = format!("The database refused: {error}");
        let hint = "Run `recall doctor`, or see the daemon's log.";
        Self { cause: Some(error), ..Self::new(ErrorKind::Internal, what, hint) }
    }
}

/// The result of a query.
pub type Answer<T> = Result<T, Refused>;

impl From<serde_json::Error> for Refused {
    fn from(error: serde_json::Error) -> Self {
        Self::new(ErrorKind::Internal, format!("Cannot write the answer: {error}"), "")
    }
}

pub fn limit(filter: &Filter) -> u32 {
    filter.limit.unwrap_or(LIMIT).min(MOST_ROWS)
}

/// Returns the projects that match a filter; `None` means all of them.
pub fn projects(db: Reader<'_>, filter: &Filter) -> Result<Option<Vec<ProjectInfo>>, Refused> {
    let Some(name) = &filter.project else { return Ok(None) };
    let found = if Path::new(name).is_absolute() {
        project_of(db, Path::new(name))?.into_iter().collect()
    } else {
        db.projects_named(name)?
    };
    if found.is_empty() {
        let what = format!("recall knows no project {name:?}");
        let meant = did_you_mean(meant::meant(db, Named::Project, name)?);
        return Err(Refused::new(
            ErrorKind::NotFound,
            what,
            format!("{meant}`recall sessions --all` shows all projects."),
        ));
    }
    Ok(Some(found))
}

/// Reads with a function whose errors are messages for the user.
pub fn read<T>(
    lookup: &ContextLookup,
    query: impl FnOnce(Reader<'_>) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let answer = lookup.readers.read(|db| Ok(query(db)))?;
    if let Err(Refused { cause: Some(error), .. }) = &answer {
        lookup.readers.suspect(error);
    }
    answer
}

/// Runs a blocking function on a thread for it.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.unwrap_or_else(|_| {
        tracing::error!("a query panicked");
        let what = "The query failed inside the daemon";
        Err(Refused::new(ErrorKind::Internal, what, "This is a bug. See the daemon's log."))
    })
}
