//! Queries the daemon for the contents of the screen, one request at a time. If several requests of one kind are
//! waiting, only the newest is sent: fast typing causes one search, not one per letter.

use std::sync::mpsc::Receiver;

use recall_protocol::query::{
    self, Entries, EntryFilter, Explain, Filter, Forget, ForgetStep, Forgettable, Glance,
    InjectionVerdict::Wrongly, Mark, Pin, PinUp, Review, ReviewVerdict, Search, Session, Sessions, Show, Sql,
    Timeline, Undo, UndoOf, Unreadable, Unreviewed, Wrong,
};

use super::row::{Row, Target, Validity, validity};
use crate::cli::client::{Client, Start, WORK_WITHIN, this_folder};
use crate::cli::ctl::session;
use crate::cli::{forget, show};
use recall_app::answers::by_hand::ChangeAnswer;
use recall_app::answers::found::ShownItem;
use recall_app::requests::Request;
use recall_domain::document::DocumentKind;

/// The number of rows of a first list and of a page: few enough to arrive at once.
pub(super) const ROWS: u32 = 300;
/// The maximum number of rows of a list without pages. The daemon returns no more.
pub(super) const MOST_ROWS: u32 = 10_000;
/// The number of items that a timeline has on each side of its item.
const AROUND: u32 = 100;
/// The content of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Search(String),
    Sessions,
    /// The items of a session.
    Session(String),
    /// The timeline around an item.
    Around(String),
    /// Subjects with several statements, each shown by its newest.
    Threads,
    /// Observations that nobody has reviewed.
    Review,
    /// All statements on an observation's subject.
    Thread(i64),
}

impl Source {
    /// The newest observations, which a search without words lists.
    pub(super) fn is_newest(&self) -> bool {
        matches!(self, Self::Search(words) if words.trim().is_empty())
    }

    /// Whether its rows are loaded in pages, newest first.
    pub(super) fn is_by_time(&self) -> bool {
        self.is_newest() || *self == Self::Review
    }
}

/// Which rows of a list to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// The first rows, up to this many.
    First(u32),
    /// The next page: the newest rows before this time, without `skip` rows that are already on the screen.
    Next { until_ms: i64, skip: u32 },
}

/// Whether a list continues after the returned rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    More,
    Nothing,
}

/// A manual change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ManualChange {
    Mark {
        id: i64,
        validity: query::Validity,
    },
    /// Pins or unpins an observation.
    Pin {
        id: i64,
    },
    /// Keeps or rejects an observation.
    Judge {
        id: i64,
        verdict: ReviewVerdict,
    },
    /// Marks an item as wrongly injected where it last was.
    Wrong {
        id: String,
    },
    /// Reverts the last change of this machine.
    Undo,
    /// Reverts the last change of an observation, whoever made it.
    UndoOf {
        id: i64,
    },
}

/// A request of the screen. The ticket comes back with the answer, so that outdated answers are recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    List {
        ticket: u64,
        source: Source,
        project: Option<String>,
        page: Page,
    },
    Detail {
        ticket: u64,
        target: Target,
    },
    Change(ManualChange),
    /// Requests a preview of what would be forgotten with an item.
    PreviewForget {
        id: String,
    },
    Forget {
        id: String,
    },
}

/// An answer for the screen.
#[derive(Clone, Debug)]
pub(super) enum WorkerAnswer {
    List {
        ticket: u64,
        rows: Vec<Row>,
        rest: Rest,
    },
    /// A text with ANSI styles.
    Detail {
        ticket: u64,
        text: Vec<u8>,
    },
    /// The items that would be forgotten.
    Preview {
        id: String,
        text: Vec<u8>,
    },
    /// A change was made, to this observation if known.
    Changed {
        notice: String,
        of: Option<(i64, Validity)>,
    },
    /// An item is gone, with everything that depended on it.
    Forgotten {
        id: String,
        counts: String,
    },
    Failed(String),
}

/// Serves until there are no more requests or listeners.
pub(super) fn serve(mut client: Client, asked: &Receiver<Ask>, send: impl Fn(WorkerAnswer) -> bool) {
    while let Ok(first) = asked.recv() {
        let mut waiting = vec![first];
        waiting.extend(asked.try_iter());
        for request in newest(waiting) {
            // The daemon may have restarted since the last request.
            let answer = answer(&mut client, &request).or_else(|error| {
                let reads = matches!(request, Ask::List { .. } | Ask::Detail { .. });
                if !reads {
                    return Err(error);
                }
                client = Client::connect(Start::IfNeeded)?;
                answer(&mut client, &request)
            });
            if !send(answer.unwrap_or_else(|error| WorkerAnswer::Failed(error.to_string()))) {
                return;
            }
        }
    }
}

/// Drops list and detail requests that a later one of the same kind replaces. Changes are kept, in order.
pub(super) fn newest(waiting: Vec<Ask>) -> Vec<Ask> {
    let last = |is: fn(&Ask) -> bool| waiting.iter().rposition(is);
    let list = last(|ask| matches!(ask, Ask::List { .. }));
    let detail = last(|ask| matches!(ask, Ask::Detail { .. }));
    let keeps = |(place, ask): &(usize, Ask)| match ask {
        Ask::List { .. } => Some(*place) == list,
        Ask::Detail { .. } => Some(*place) == detail,
        Ask::Change(_) | Ask::PreviewForget { .. } | Ask::Forget { .. } => true,
    };
    waiting.into_iter().enumerate().filter(keeps).map(|(_, ask)| ask).collect()
}

fn answer(client: &mut Client, request: &Ask) -> anyhow::Result<WorkerAnswer> {
    match request {
        Ask::List { ticket, source, project, page } => {
            let (rows, rest) = rows(client, source, project.clone(), *page)?;
            Ok(WorkerAnswer::List { ticket: *ticket, rows, rest })
        }
        Ask::Detail { ticket, target } => {
            let mut text = Vec::new();
            match target {
                Target::Item(id) => {
                    let shown = ask(client, Show { id: id.clone(), folder: Some(this_folder()) })?;
                    show::print(&mut text, shown.items)?;
                }
                Target::Thread(id) => {
                    let shown = ask(client, Show { id: id.to_string(), folder: Some(this_folder()) })?;
                    show::print(&mut text, shown.items)?;
                }
                Target::Session(id) => session::print(&mut text, &ask(client, Session { id: id.clone() })?)?,
            }
            Ok(WorkerAnswer::Detail { ticket: *ticket, text })
        }
        Ask::Change(change) => changed(client, change),
        Ask::PreviewForget { id } => {
            let mut text = Vec::new();
            let preview = ask(client, forget_request(id, ForgetStep::Preview))?;
            forget::show(&mut text, &preview)?;
            Ok(WorkerAnswer::Preview { id: id.clone(), text })
        }
        Ask::Forget { id } => {
            let done = client.ask_within(forget_request(id, ForgetStep::Forget), WORK_WITHIN)?.read()?;
            Ok(WorkerAnswer::Forgotten { id: id.clone(), counts: forget::counts(&done) })
        }
    }
}

fn changed(client: &mut Client, change: &ManualChange) -> anyhow::Result<WorkerAnswer> {
    let items = match change {
        ManualChange::Mark { id, validity } => {
            ask(client, Mark { ids: vec![id.to_string()], validity: *validity })?.items
        }
        ManualChange::Pin { id } => {
            let shown = ask(client, Show { id: id.to_string(), folder: None })?.items;
            let is_pinned = matches!(shown.first(), Some(ShownItem::Observation(item)) if item.pinned);
            let pin = if is_pinned { Pin::Off } else { Pin::On };
            ask(client, PinUp { ids: vec![id.to_string()], pin })?.items
        }
        ManualChange::Judge { id, verdict } => {
            ask(client, Review { ids: vec![id.to_string()], verdict: *verdict })?.items
        }
        ManualChange::Wrong { id } => {
            let request = Wrong { ids: vec![id.clone()], session: None, told: Wrongly };
            let injection = ask(client, request)?.items.pop().and_then(|item| item.told);
            let moment = injection.map(|injection| injection.moment).unwrap_or_default();
            let notice =
                format!("{id} will not be injected again at {moment}; `recall wrong --undo` reverts this");
            return Ok(WorkerAnswer::Changed { notice, of: None });
        }
        ManualChange::Undo | ManualChange::UndoOf { .. } => {
            let answer = match change {
                ManualChange::UndoOf { id } => ask(client, UndoOf { id: id.to_string() })?,
                _ => ask(client, Undo)?,
            };
            let notice = match answer.undone {
                Some(ChangeAnswer { author: Some(author), change, id, .. }) => {
                    format!("Undone: {change} of {id} by {author}")
                }
                Some(change) => format!("Undone: {} of {}", change.change, change.id),
                None => "There is nothing to undo".to_owned(),
            };
            return Ok(WorkerAnswer::Changed { notice, of: None });
        }
    };
    let Some(item) = items.first() else {
        return Ok(WorkerAnswer::Changed { notice: String::new(), of: None });
    };
    let state = match (change, item.pinned) {
        (ManualChange::Pin { .. }, true) => "pinned",
        (ManualChange::Pin { .. }, false) => "not pinned",
        (ManualChange::Judge { verdict: ReviewVerdict::Kept, .. }, _) => "kept",
        (ManualChange::Judge { verdict: ReviewVerdict::Rejected, .. }, _) => "rejected",
        _ => &item.status,
    };
    let notice = format!("#{} is {state}; u undoes it", item.id);
    Ok(WorkerAnswer::Changed { notice, of: Some((item.id, validity(&item.status))) })
}

fn forget_request(id: &str, step: ForgetStep) -> Forget {
    let what = Forgettable { ids: vec![id.to_owned()], ..Forgettable::default() };
    Forget { what, unreadable: Unreadable::Stays, step }
}

fn ask<R: Request>(client: &mut Client, request: R) -> anyhow::Result<R::Response> {
    client.ask(request)?.read()
}

fn rows(
    client: &mut Client,
    source: &Source,
    project: Option<String>,
    page: Page,
) -> anyhow::Result<(Vec<Row>, Rest)> {
    let (limit, until_ms, skip) = match page {
        Page::First(limit) => (limit, None, 0),
        Page::Next { until_ms, skip } => (ROWS, Some(until_ms), skip),
    };
    let full = |came: usize| if came >= limit as usize { Rest::More } else { Rest::Nothing };
    let filter = Filter { project, since_ms: None, limit: Some(limit) };
    let folder = Some(this_folder());
    let rows: Vec<Row> = match source {
        Source::Search(_) if source.is_newest() => {
            let kinds = vec![DocumentKind::Observation.as_str().to_owned()];
            let of = EntryFilter { project: filter.project, kinds, types: Vec::new() };
            let found = ask(client, Entries { of, since_ms: None, until_ms, skip, limit })?;
            found.entries.into_iter().map(Row::from).collect()
        }
        Source::Review => {
            let found = ask(client, Unreviewed { filter, until_ms, skip })?;
            found.entries.into_iter().map(Row::from).collect()
        }
        Source::Search(words) => {
            let text = words.clone();
            let found = ask(client, Search { text, filter, explain: Explain::No, folder })?;
            found.results.into_iter().map(Row::from).collect()
        }
        Source::Sessions => ask(client, Sessions { filter })?.sessions.into_iter().map(Row::from).collect(),
        Source::Session(id) => {
            let around = Timeline { id: id.clone(), before: 0, after: limit, folder };
            let items = ask(client, around)?.items;
            // Work of other sessions may come in between.
            let rest = full(items.len());
            let of_it = items.into_iter().filter(|item| item.session_id.as_ref() == Some(id));
            return Ok((of_it.map(Row::from).collect(), rest));
        }
        Source::Around(id) => {
            let around = Timeline { id: id.clone(), before: AROUND, after: AROUND, folder };
            let items = ask(client, around)?.items.into_iter();
            return Ok((items.map(Row::from).collect(), Rest::Nothing));
        }
        Source::Threads => {
            let name = match filter.project {
                Some(folder) => ask(client, Glance { folder })?.project,
                None => None,
            };
            let found = ask(client, Sql { text: threads(name.as_deref()), limit })?;
            found.rows.iter().filter_map(|row| Row::of_thread(row, Target::Thread)).collect()
        }
        Source::Thread(id) => {
            let found = ask(client, Sql { text: thread(*id), limit })?;
            found
                .rows
                .iter()
                .filter_map(|row| Row::of_thread(row, |id| Target::Item(id.to_string())))
                .collect()
        }
    };
    let rest = full(rows.len());
    Ok((rows, rest))
}

/// The columns for a row of a thread.
const COLUMNS: &str = "o.id, o.type, o.title, o.project, o.created_at_epoch, o.status";

/// Selects the newest observation of each subject with several statements, and their number.
fn threads(project: Option<&str>) -> String {
    let of_project =
        project.map(|name| format!("AND o.project = '{}'", name.replace('\'', "''"))).unwrap_or_default();
    format!(
        "WITH RECURSIVE said(head, id) AS (
             SELECT DISTINCT newer, newer FROM main.lineage
             WHERE undone = 0 AND newer NOT IN (SELECT older FROM main.lineage WHERE undone = 0 AND newer IS NOT NULL)
             UNION SELECT said.head, l.older FROM said JOIN main.lineage l ON l.newer = said.id AND l.undone = 0)
         SELECT {COLUMNS}, count(*) FROM said JOIN observations o ON o.id = said.head WHERE 1 {of_project}
         GROUP BY said.head ORDER BY o.created_at_epoch DESC"
    )
}

/// Selects the observations of a thread, newest first.
fn thread(id: i64) -> String {
    format!(
        "WITH RECURSIVE said(id) AS (
             SELECT {id}
             UNION SELECT CASE WHEN l.older = said.id THEN l.newer ELSE l.older END
             FROM said JOIN main.lineage l ON (l.older = said.id OR l.newer = said.id)
             WHERE l.undone = 0 AND l.newer IS NOT NULL)
         SELECT {COLUMNS}, NULL FROM said JOIN observations o ON o.id = said.id ORDER BY o.created_at_epoch DESC"
    )
}
