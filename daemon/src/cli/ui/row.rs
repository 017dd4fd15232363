//! The rows of a list.

use serde_json::Value;

use crate::cli::terminal;
use recall_app::answers::browsing::Entry;
use recall_app::answers::found::{SearchResult, TimelineItem};
use recall_app::answers::session::SessionLine;
use recall_app::answers::{Moment, PublicId};
use recall_domain::document::DocumentKind;
use recall_domain::ids::Timestamp;

/// The item that a row shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The id for `show`.
    Item(String),
    Session(String),
    /// All statements about one subject, identified by the newest.
    Thread(i64),
}

/// Whether the row's statement still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validity {
    Holds,
    Past,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    /// `None` if there is nothing more to show.
    pub(super) target: Option<Target>,
    pub(super) id: String,
    pub(super) at: Moment,
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) project: String,
    pub(super) validity: Validity,
    /// The number of an observation, which can be resolved.
    pub(super) observation: Option<i64>,
}

fn number(id: PublicId) -> Option<i64> {
    (id.0.kind == DocumentKind::Observation).then_some(id.0.row)
}

impl Row {
    /// The columns of a row: id, type, title, project, time, status, and the size of its thread.
    pub(super) fn of_thread(cells: &[Value], target: impl Fn(i64) -> Target) -> Option<Self> {
        let [id, kind, title, project, at, status, count] = cells else { return None };
        let text = |cell: &Value| cell.as_str().unwrap_or_default().to_owned();
        let id = id.as_i64()?;
        let title = match count.as_i64() {
            Some(count) => format!("{} ({count})", text(title)),
            None => text(title),
        };
        Some(Self {
            target: Some(target(id)),
            id: format!("#{id}"),
            at: Moment(Timestamp(at.as_i64()?)),
            kind: text(kind),
            title,
            project: text(project),
            validity: validity(status.as_str().unwrap_or_default()),
            observation: Some(id),
        })
    }
}

/// Returns whether an observation with this status is valid.
pub(super) fn validity(status: &str) -> Validity {
    if status == "active" { Validity::Holds } else { Validity::Past }
}

/// Returns a title, with its author if made on another machine.
fn by(title: String, author: Option<&str>) -> String {
    match author {
        Some(author) => format!("{title} (by {author})"),
        None => title,
    }
}

impl From<SearchResult> for Row {
    fn from(found: SearchResult) -> Self {
        Self {
            target: Some(Target::Item(found.id.0.to_string())),
            id: terminal::id(found.id),
            at: found.created_at,
            kind: terminal::kind(&found.observation_type.unwrap_or(found.kind)).to_owned(),
            title: by(found.title, found.author.as_deref()),
            project: found.project,
            validity: found.status.as_deref().map_or(Validity::Holds, validity),
            observation: number(found.id),
        }
    }
}

impl From<Entry> for Row {
    fn from(entry: Entry) -> Self {
        Self {
            target: Some(Target::Item(entry.id.0.to_string())),
            id: terminal::id(entry.id),
            at: entry.created_at,
            kind: terminal::kind(&entry.observation_type.unwrap_or(entry.kind)).to_owned(),
            title: entry.title,
            project: entry.project,
            validity: entry.status.as_deref().map_or(Validity::Holds, validity),
            observation: number(entry.id),
        }
    }
}

impl From<TimelineItem> for Row {
    fn from(item: TimelineItem) -> Self {
        Self {
            target: Some(Target::Item(item.id.0.to_string())),
            id: terminal::id(item.id),
            at: item.created_at,
            kind: terminal::kind(&item.observation_type.unwrap_or(item.kind)).to_owned(),
            title: by(item.title, item.author.as_deref()),
            project: String::new(),
            validity: Validity::Holds,
            observation: number(item.id),
        }
    }
}

impl From<SessionLine> for Row {
    fn from(line: SessionLine) -> Self {
        let title = line.title.filter(|title| !title.is_empty()).unwrap_or_else(|| "(no title yet)".into());
        Self {
            id: String::new(),
            target: Some(Target::Session(line.session_id)),
            at: line.started_at,
            kind: line.status,
            title,
            project: line.project,
            validity: Validity::Holds,
            observation: None,
        }
    }
}
