//! Asks the daemon for what the screen shows, one request at a time. Of requests that have been overtaken by a newer one
//! of the same kind only the newest is asked: a fast typist waits for one search, not for one per letter.

use std::sync::mpsc::Receiver;

use recall_protocol::query::{
    self, Explain, Filter, Forget, ForgetStep, Forgettable, Mark, Search, Session, Sessions, Show, Timeline,
    Unreadable,
};

use super::row::{Row, Target};
use crate::app::requests::Request;
use crate::cli::client::{Client, FLUSH_WITHIN, Start, this_folder};
use crate::cli::ctl::session;
use crate::cli::{forget, show};

/// The number of rows of a list: more than anybody scrolls through, few enough to come at once.
const ROWS: u32 = 300;
/// The number of items around one in its timeline, on each side.
const AROUND: u32 = 100;
/// What a search without words lists: the newest observations.
const NEWEST: &str = "kind:observation";

/// What a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Search(String),
    Sessions,
    /// The items of a session.
    Session(String),
    /// The timeline around an item.
    Around(String),
}

/// A request of the screen. The ticket comes back with the answer, so that one that came too late is recognized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    List {
        ticket: u64,
        source: Source,
        project: Option<String>,
    },
    Detail {
        ticket: u64,
        target: Target,
    },
    Mark {
        id: i64,
        validity: query::Validity,
    },
    /// Says what would be forgotten with an item.
    PreviewForget {
        id: String,
    },
    Forget {
        id: String,
    },
}

/// An answer for the screen.
#[derive(Clone, Debug)]
pub(super) enum Told {
    List {
        ticket: u64,
        rows: Vec<Row>,
    },
    /// A text with ANSI styles.
    Detail {
        ticket: u64,
        text: Vec<u8>,
    },
    /// What would be forgotten.
    Preview {
        id: String,
        text: Vec<u8>,
    },
    /// An observation has this status now.
    Marked {
        id: i64,
        status: String,
    },
    /// An item is gone, with all that hung on it.
    Forgotten {
        id: String,
        counts: String,
    },
    Failed(String),
}

/// Answers until nobody asks or listens any more.
pub(super) fn serve(mut client: Client, asked: &Receiver<Ask>, tell: impl Fn(Told) -> bool) {
    while let Ok(first) = asked.recv() {
        let mut waiting = vec![first];
        waiting.extend(asked.try_iter());
        for request in newest(waiting) {
            // The daemon may have been restarted since the last request.
            let answer = answer(&mut client, &request).or_else(|error| {
                let reads = matches!(request, Ask::List { .. } | Ask::Detail { .. });
                if !reads {
                    return Err(error);
                }
                client = Client::connect(Start::IfNeeded)?;
                answer(&mut client, &request)
            });
            if !tell(answer.unwrap_or_else(|error| Told::Failed(error.to_string()))) {
                return;
            }
        }
    }
}

/// Drops lists and details that a later request of the same kind replaces. Changes stay, in order.
pub(super) fn newest(waiting: Vec<Ask>) -> Vec<Ask> {
    let last = |is: fn(&Ask) -> bool| waiting.iter().rposition(is);
    let list = last(|ask| matches!(ask, Ask::List { .. }));
    let detail = last(|ask| matches!(ask, Ask::Detail { .. }));
    let keeps = |(place, ask): &(usize, Ask)| match ask {
        Ask::List { .. } => Some(*place) == list,
        Ask::Detail { .. } => Some(*place) == detail,
        Ask::Mark { .. } | Ask::PreviewForget { .. } | Ask::Forget { .. } => true,
    };
    waiting.into_iter().enumerate().filter(keeps).map(|(_, ask)| ask).collect()
}

fn answer(client: &mut Client, request: &Ask) -> anyhow::Result<Told> {
    match request {
        Ask::List { ticket, source, project } => {
            Ok(Told::List { ticket: *ticket, rows: rows(client, source, project.clone())? })
        }
        Ask::Detail { ticket, target } => {
            let mut text = Vec::new();
            match target {
                Target::Item(id) => {
                    let shown = ask(client, Show { id: id.clone(), folder: Some(this_folder()) })?;
                    show::tell(&mut text, shown.items)?;
                }
                Target::Session(id) => session::tell(&mut text, &ask(client, Session { id: id.clone() })?)?,
            }
            Ok(Told::Detail { ticket: *ticket, text })
        }
        Ask::Mark { id, validity } => {
            let marked = ask(client, Mark { ids: vec![id.to_string()], validity: *validity })?;
            let status = marked.items.first().map(|item| item.status.to_string()).unwrap_or_default();
            Ok(Told::Marked { id: *id, status })
        }
        Ask::PreviewForget { id } => {
            let mut text = Vec::new();
            let preview = ask(client, forget_request(id, ForgetStep::Preview))?;
            forget::show(&mut text, &preview)?;
            Ok(Told::Preview { id: id.clone(), text })
        }
        Ask::Forget { id } => {
            let done = client.ask_within(forget_request(id, ForgetStep::Forget), FLUSH_WITHIN)?.read()?;
            Ok(Told::Forgotten { id: id.clone(), counts: forget::counts(&done) })
        }
    }
}

fn forget_request(id: &str, step: ForgetStep) -> Forget {
    let what = Forgettable { ids: vec![id.to_owned()], ..Forgettable::default() };
    Forget { what, unreadable: Unreadable::Stays, step }
}

fn ask<R: Request>(client: &mut Client, request: R) -> anyhow::Result<R::Response> {
    client.ask(request)?.read()
}

fn rows(client: &mut Client, source: &Source, project: Option<String>) -> anyhow::Result<Vec<Row>> {
    let filter = Filter { project, since_ms: None, limit: Some(ROWS) };
    let folder = Some(this_folder());
    Ok(match source {
        Source::Search(words) => {
            let text = if words.trim().is_empty() { NEWEST.to_owned() } else { words.clone() };
            let found = ask(client, Search { text, filter, explain: Explain::No, folder })?;
            found.results.into_iter().map(Row::from).collect()
        }
        Source::Sessions => ask(client, Sessions { filter })?.sessions.into_iter().map(Row::from).collect(),
        Source::Session(id) => {
            let around = Timeline { id: id.clone(), before: 0, after: ROWS, folder };
            let items = ask(client, around)?.items.into_iter();
            items.filter(|item| item.session_id.as_ref() == Some(id)).map(Row::from).collect()
        }
        Source::Around(id) => {
            let around = Timeline { id: id.clone(), before: AROUND, after: AROUND, folder };
            ask(client, around)?.items.into_iter().map(Row::from).collect()
        }
    })
}
