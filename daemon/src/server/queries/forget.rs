//! `recall forget`: what is meant, what would go, and forgetting it.

use recall_protocol::wire::{Filter, ForgetStep, Forgettable};
use rusqlite::Connection;
use serde::Serialize;

use super::session::one_session;
use super::show::{load, parse_id};
use super::{Answer, Refused, blocking, json, projects, read};
use crate::actors::documents::title_and_text;
use crate::actors::house::House;
use crate::memory::ids::Timestamp;
use crate::server::answers::{PublicId, shortened};
use crate::store::{Criteria, ForgottenCounts, Selection, find_doomed, load_document};

/// So many titles are shown of what would go.
const SHOWN: usize = 20;
const TITLE_CHARS: usize = 100;

/// How much is meant or gone.
#[derive(Serialize)]
struct ForgetAnswer {
    #[serde(flatten)]
    counts: ForgottenCounts,
    /// The first of what would go; only where nothing has gone yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<ForgetItem>>,
}

#[derive(Serialize)]
struct ForgetItem {
    id: PublicId,
    kind: &'static str,
    title: String,
}

pub(super) async fn forget(house: &House, what: Forgettable, step: ForgetStep) -> Answer {
    let asked = house.clone();
    match step {
        ForgetStep::Preview => blocking(move || preview(&asked, &what)).await,
        ForgetStep::Forget => {
            let selection = tokio::task::spawn_blocking(move || read(&asked, |db| selection(db, &what)));
            let selection = selection
                .await
                .map_err(|_| Refused::new("The daemon could not answer", "Its log says more."))??;
            let forgotten = house.forgetting.forget(selection).await.map_err(|error| {
                Refused::new(
                    format!("Not done: {error}"),
                    "Run the same command again; the daemon's log says more.",
                )
            })?;
            json(&ForgetAnswer { counts: forgotten.counts, items: None })
        }
    }
}

fn preview(house: &House, what: &Forgettable) -> Answer {
    let answer = read(house, |db| {
        let doomed = find_doomed(db, &selection(db, what)?)?;
        let mut items = Vec::new();
        for key in doomed.documents() {
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
        Ok(ForgetAnswer { counts: doomed.counts(), items: Some(items) })
    })?;
    json(&answer)
}

/// What a user means. Ids stand alone, and so does a session; the rest narrows each other.
fn selection(db: &Connection, what: &Forgettable) -> Result<Selection, Refused> {
    let Forgettable { ids, session, project, since_ms, until_ms, words } = what;
    let criteria = project.is_some() || since_ms.is_some() || until_ms.is_some() || !words.is_empty();
    match (ids.is_empty(), session, criteria) {
        (false, None, false) => {
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
        _ => Err(Refused::new(
            "It is not clear what shall be forgotten",
            "Name ids, or one --session, or any of --project, --since, --until and --query.",
        )),
    }
}
