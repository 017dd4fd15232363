//! `recall forget`: what is meant, what would go, and forgetting it.

use recall_protocol::wire::{Filter, ForgetStep, Forgettable};
use rusqlite::Connection;
use serde::Serialize;

use super::session::one_session;
use super::show::{load, parse_id};
use super::{QueryResult, Refused, blocking, json, projects, read};
use crate::actors::services::Services;
use crate::app::clock;
use crate::app::documents::title_and_text;
use crate::app::forgetting::{ForgetError, Request, SpoolFiles};
use crate::memory::ids::{SessionKey, Timestamp};
use crate::server::answers::{PublicId, shortened};
use crate::store::{
    Criteria, ForgottenCounts, Selection, Unreadable, find_rows_to_forget, load_document, unreadable_events,
};

/// So many titles are shown of what would go.
const SHOWN: usize = 20;
const TITLE_CHARS: usize = 100;

/// How much is meant or gone.
#[derive(Serialize)]
struct ForgetAnswer {
    #[serde(flatten)]
    counts: ForgottenCounts,
    /// Files in the spool that hold no event that could be stored.
    spool_files: u64,
    /// What stays because nobody can say whose it is.
    unreadable: UnreadableAnswer,
    /// The first of what would go; only where nothing has gone yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<ForgetItem>>,
}

#[derive(Serialize)]
struct UnreadableAnswer {
    /// Events that are kept as they came.
    events: usize,
    damaged_files: u64,
    other_version_files: u64,
    /// Events in the spool that cannot be stored at this moment.
    waiting_files: u64,
}

#[derive(Serialize)]
struct ForgetItem {
    id: PublicId,
    kind: &'static str,
    title: String,
}

pub(super) async fn forget(
    services: &Services,
    what: Forgettable,
    unreadable: Unreadable,
    step: ForgetStep,
) -> QueryResult {
    let now = clock::now();
    let asked = services.clone();
    // Before anything is looked up: a session or a project may be known by what waits alone.
    services.forgetting.store_what_waits().await.map_err(|error| not_done(&error))?;
    let request = blocking_on(move || {
        let what = read(&asked, |db| selection(db, &what, unreadable))?;
        Ok(Request { what, unreadable })
    })
    .await?;
    let asked = services.clone();
    match step {
        ForgetStep::Preview => blocking(move || preview(&asked, &request, now)).await,
        ForgetStep::Forget => {
            let before = spool_files(services, &request, now).await?;
            let forgotten =
                services.forgetting.forget(request.clone()).await.map_err(|error| not_done(&error))?;
            let left = spool_files(services, &request, now).await?;
            let stays = Request { unreadable: Unreadable::Stays, ..request };
            let events = blocking_on(move || {
                read(&asked, |db| {
                    Ok(unreadable_events(db, &stays.what, &find_rows_to_forget(db, &stays.what)?)?.len())
                })
            });
            let all = |files: SpoolFiles| files.meant + files.damaged + files.other_version;
            json(&ForgetAnswer {
                counts: forgotten.counts,
                spool_files: all(before).saturating_sub(all(left)),
                unreadable: UnreadableAnswer::new(events.await?, left),
                items: None,
            })
        }
    }
}

async fn blocking_on<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Refused::new("The daemon could not answer", "Its log says more."))?
}

fn not_done(error: &ForgetError) -> Refused {
    Refused::new(format!("Not done: {error}"), "Run the same command again; the daemon's log says more.")
}

/// What the spool holds; where whole sessions go, before they do.
async fn spool_files(services: &Services, request: &Request, now: Timestamp) -> Result<SpoolFiles, Refused> {
    let (services, request) = (services.clone(), request.clone());
    blocking_on(move || {
        let sessions = read(&services, |db| Ok(find_rows_to_forget(db, &request.what)?.session_keys(db)?))?;
        looked_through(&services, &request, &sessions, now)
    })
    .await
}

fn looked_through(
    services: &Services,
    request: &Request,
    sessions: &[SessionKey],
    now: Timestamp,
) -> Result<SpoolFiles, Refused> {
    services.forgetting.spool_files(request, sessions, now).map_err(|error| not_done(&error.into()))
}

impl UnreadableAnswer {
    fn new(events: usize, files: SpoolFiles) -> Self {
        Self {
            events,
            damaged_files: files.damaged,
            other_version_files: files.other_version,
            waiting_files: files.waiting,
        }
    }
}

fn preview(services: &Services, request: &Request, now: Timestamp) -> QueryResult {
    let (counts, items, stays, sessions) = read(services, |db| {
        let mut to_forget = find_rows_to_forget(db, &request.what)?;
        let mut stays = unreadable_events(db, &request.what, &to_forget)?;
        if request.unreadable == Unreadable::Goes {
            to_forget.add_unreadable(std::mem::take(&mut stays));
        }
        let mut items = Vec::new();
        for key in to_forget.documents() {
            if items.len() == SHOWN {
                break;
            }
            // Some activities are kept without being shown anywhere.
            let Some(row) = load_document(db, key)? else { continue };
            let (title, _) = title_and_text(&row);
            let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
            items.push(ForgetItem {
                id: PublicId(key),
                kind: key.kind.as_str(),
                title: shortened(&title, TITLE_CHARS),
            });
        }
        Ok((to_forget.counts(), items, stays.len(), to_forget.session_keys(db)?))
    })?;
    let files = looked_through(services, request, &sessions, now)?;
    let (spool_files, unreadable) = (files.meant, UnreadableAnswer::new(stays, files));
    json(&ForgetAnswer { counts, spool_files, unreadable, items: Some(items) })
}

/// What a user means. Ids stand alone, and so does a session; the rest narrows each other.
fn selection(db: &Connection, what: &Forgettable, unreadable: Unreadable) -> Result<Selection, Refused> {
    let Forgettable { ids, session, project, since_ms, until_ms, words } = what;
    let criteria = project.is_some() || since_ms.is_some() || until_ms.is_some() || !words.is_empty();
    let alone = unreadable == Unreadable::Goes;
    match (ids.is_empty(), session, criteria) {
        (false, None, false) if !alone => {
            let keys = ids.iter().map(|id| parse_id(id)).collect::<Result<Vec<_>, _>>()?;
            for key in &keys {
                load(db, *key)?;
            }
            Ok(Selection::Documents(keys))
        }
        (true, Some(id), false) => Ok(Selection::Session(one_session(db, id)?.row)),
        (true, None, true) => {
            let filter = Filter { project: project.clone(), ..Filter::default() };
            let projects =
                projects(db, &filter)?.map(|found| found.iter().map(|project| project.row).collect());
            let (since, until) = (since_ms.map(Timestamp), until_ms.map(Timestamp));
            Ok(Selection::Matching(Criteria { projects, since, until, words: words.clone() }))
        }
        (true, None, false) if alone => Ok(Selection::Matching(Criteria::default())),
        _ => Err(Refused::new(
            "It is not clear what shall be forgotten",
            "Name ids, or one --session, or any of --project, --since, --until and --query.",
        )),
    }
}
