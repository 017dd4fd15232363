//! `recall forget`: selects what to remove, shows a preview, and removes it.

use recall_protocol::query::{self, Filter, Forget, ForgetStep, Forgettable};
use recall_protocol::wire::ErrorKind;

use super::CommandContext;
use crate::answers::PublicId;
use crate::answers::by_hand::{ForgetAnswer, ForgetItem, UnreadableAnswer};
use crate::clock;
use crate::documents::title_and_text;
use crate::forgetting::{ForgetError, Request, SpoolFiles};
use crate::ports::Ports;
use crate::queries::session::one_session;
use crate::queries::show::{load, parse_id};
use crate::queries::{Answer, Refused, blocking, projects, read};
use recall_domain::ids::{SessionKey, Timestamp};
use recall_domain::text::shortened;
use recall_store::{Criteria, Reader, Selection, Unreadable};

/// The number of titles shown in the preview.
const SHOWN: usize = 20;
const TITLE_CHARS: usize = 100;

pub async fn forget(context: &CommandContext<impl Ports>, request: Forget) -> Answer<ForgetAnswer> {
    let Forget { what, unreadable, step } = request;
    let unreadable = match unreadable {
        query::Unreadable::Stays => Unreadable::Stays,
        query::Unreadable::Goes => Unreadable::Goes,
    };
    let now = clock::now();
    let asked = context.clone();
    // Must come before any lookup, because waiting events may be the only trace of a session or a project.
    context.forgetting.store_spooled_events().await.map_err(|error| not_done(&error))?;
    let request = blocking(move || {
        let what = read(&asked.context_lookup, |db| selection(db, &what, unreadable))?;
        Ok(Request { what, unreadable })
    })
    .await?;
    forget_selection(context, request, step, now).await
}

/// Forgets the selection of a request, or previews it.
pub(super) async fn forget_selection(
    context: &CommandContext<impl Ports>,
    request: Request,
    step: ForgetStep,
    now: Timestamp,
) -> Answer<ForgetAnswer> {
    let asked = context.clone();
    match step {
        ForgetStep::Preview => blocking(move || preview(&asked, &request, now)).await,
        ForgetStep::Forget => {
            let before = spool_files(context, &request, now).await?;
            let forgotten =
                context.forgetting.forget(request.clone()).await.map_err(|error| not_done(&error))?;
            let left = spool_files(context, &request, now).await?;
            let stays = Request { unreadable: Unreadable::Stays, ..request };
            let events = blocking(move || {
                read(&asked.context_lookup, |db| {
                    Ok(db.unreadable_events(&stays.what, &db.find_rows_to_forget(&stays.what)?)?.len())
                })
            });
            let all = |files: SpoolFiles| files.meant + files.damaged + files.other_version;
            Ok(ForgetAnswer {
                counts: forgotten.counts,
                spool_files: all(before).saturating_sub(all(left)),
                unreadable: what_stays(events.await?, left),
                items: None,
            })
        }
    }
}

fn not_done(error: &ForgetError) -> Refused {
    let kind = match error {
        ForgetError::StillDraining => ErrorKind::Busy,
        ForgetError::NotForgotten(_) | ForgetError::Spool(_) | ForgetError::TracesLeft(_) => {
            ErrorKind::Internal
        }
    };
    let hint = match error {
        // The same command would find nothing the second time.
        ForgetError::TracesLeft(_) => {
            "The items are deleted. recall retries the cleanup within seconds, then every minute. `recall ctl check` says whether traces are left."
        }
        _ => "Run the same command again, or see the daemon's log.",
    };
    Refused::new(kind, format!("Not done: {error}"), hint)
}

/// Counts the matching files in the spool. If whole sessions are forgotten, this happens before they are removed.
async fn spool_files(
    context: &CommandContext<impl Ports>,
    request: &Request,
    now: Timestamp,
) -> Result<SpoolFiles, Refused> {
    let (context, request) = (context.clone(), request.clone());
    blocking(move || {
        let sessions = read(&context.context_lookup, |db| {
            Ok(db.find_rows_to_forget(&request.what)?.session_keys(db)?)
        })?;
        looked_through(&context, &request, &sessions, now)
    })
    .await
}

fn looked_through(
    context: &CommandContext<impl Ports>,
    request: &Request,
    sessions: &[SessionKey],
    now: Timestamp,
) -> Result<SpoolFiles, Refused> {
    context.forgetting.spool_files(request, sessions, now).map_err(|error| not_done(&error.into()))
}

fn what_stays(events: usize, files: SpoolFiles) -> UnreadableAnswer {
    UnreadableAnswer {
        events,
        damaged_files: files.damaged,
        other_version_files: files.other_version,
        waiting_files: files.waiting,
    }
}

fn preview(context: &CommandContext<impl Ports>, request: &Request, now: Timestamp) -> Answer<ForgetAnswer> {
    let (counts, items, stays, sessions) = read(&context.context_lookup, |db| {
        let mut to_forget = db.find_rows_to_forget(&request.what)?;
        let mut stays = db.unreadable_events(&request.what, &to_forget)?;
        if request.unreadable == Unreadable::Goes {
            to_forget.add_unreadable(std::mem::take(&mut stays));
        }
        let mut items = Vec::new();
        for key in to_forget.documents() {
            if items.len() == SHOWN {
                break;
            }
            // Some stored activities are never shown.
            let Some(row) = db.load_document(key)? else { continue };
            let (title, _) = title_and_text(&row, context.context_lookup.agents);
            let title = recall_domain::text::one_line(&title);
            items.push(ForgetItem {
                id: PublicId(key),
                kind: key.kind.as_str().into(),
                project: row.project().name.clone(),
                title: shortened(&title, TITLE_CHARS),
            });
        }
        Ok((to_forget.counts(), items, stays.len(), to_forget.session_keys(db)?))
    })?;
    let files = looked_through(context, request, &sessions, now)?;
    let (spool_files, unreadable) = (files.meant, what_stays(stays, files));
    Ok(ForgetAnswer { counts, spool_files, unreadable, items: Some(items) })
}

/// Builds the user's selection. Ids cannot be combined with other filters, nor can a session; all others can.
fn selection(db: Reader<'_>, what: &Forgettable, unreadable: Unreadable) -> Result<Selection, Refused> {
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
            ErrorKind::Invalid,
            "No selection was given",
            "Name ids, or one --session, or any of --project, --since, --until and --query.",
        )),
    }
}
