//! The rows of a list.

use crate::app::answers::found::{SearchResult, TimelineItem};
use crate::app::answers::session::SessionLine;
use crate::app::answers::{Moment, PublicId};
use crate::cli::terminal;
use crate::memory::document::DocumentKind;

/// What a row stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The id as `show` takes it.
    Item(String),
    Session(String),
}

/// Whether what a row says still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validity {
    Holds,
    Past,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    /// `None`: there is nothing more to show.
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

impl From<SearchResult> for Row {
    fn from(found: SearchResult) -> Self {
        let past = found.status.as_deref().is_some_and(|status| status != "active");
        Self {
            target: Some(Target::Item(found.id.0.to_string())),
            id: terminal::id(found.id),
            at: found.created_at,
            kind: found.observation_type.unwrap_or(found.kind).into_owned(),
            title: found.title,
            project: found.project,
            validity: if past { Validity::Past } else { Validity::Holds },
            observation: number(found.id),
        }
    }
}

impl From<TimelineItem> for Row {
    fn from(item: TimelineItem) -> Self {
        Self {
            target: item.id.map(|id| Target::Item(id.0.to_string())),
            id: item.id.map(terminal::id).unwrap_or_default(),
            at: item.created_at,
            kind: item.observation_type.unwrap_or(item.kind),
            title: item.title,
            project: String::new(),
            validity: Validity::Holds,
            observation: item.id.and_then(number),
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
