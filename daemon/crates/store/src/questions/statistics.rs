//! Counts for `recall status` and `recall statusline`.

use crate::database::row::{Sql, record};
use crate::{Reader, StoreError};
use recall_domain::ids::{ProjectRow, Timestamp};

record! {
/// Counts of everything stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics from "(SELECT 1)" {
    pub sessions_live: i64 = "(SELECT count(*) FROM sessions WHERE status IN ('initialized', 'active'))",
    pub sessions: i64 = "(SELECT count(*) FROM sessions)",
    pub events: i64 = "(SELECT count(*) FROM deliveries)",
    pub unparsed: i64 = "(SELECT count(*) FROM unparsed)",
    pub jobs_pending: i64 = "(SELECT count(*) FROM jobs WHERE status = 'pending')",
    pub jobs_running: i64 = "(SELECT count(*) FROM jobs WHERE status = 'running')",
    pub jobs_retrying: i64 = "(SELECT count(*) FROM jobs WHERE status = 'retrying')",
    pub jobs_done: i64 = "(SELECT count(*) FROM jobs WHERE status = 'done')",
    pub jobs_dead: i64 = "(SELECT count(*) FROM jobs WHERE status = 'dead')",
    pub observations: i64 = "(SELECT count(*) FROM observations)",
    /// Observations that await review.
    pub unreviewed: i64 = "(SELECT count(*) FROM observations INDEXED BY observations_unreviewed WHERE status = 'active'
        AND reviewed_at IS NULL AND pinned_at IS NULL AND origin <> 'user')",
    pub summaries: i64 = "(SELECT count(*) FROM session_summaries)",
    /// Whether traces of forgotten items remain.
    pub traces_left: bool = "EXISTS (SELECT 1 FROM meta WHERE key = 'traces_left')",
}
}

record! {
/// The numbers of active observations in a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProjectNotes from "observations o WHERE o.project = ?1 AND o.status = 'active'" {
    pub active: i64 = "count(*)",
    /// The next steps among them.
    pub open: i64 = "count(*) FILTER (WHERE o.type = 'next_step')",
}
}

record! {
/// The last event that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRow from "unparsed u JOIN deliveries d USING (event_id) ORDER BY d.captured_at DESC LIMIT 1" {
    pub agent: String = "d.agent",
    pub event: String = "d.event_name",
    pub why: String = "u.parse_error",
    pub at: Timestamp = "d.captured_at",
}
}

impl Reader<'_> {
    pub fn last_unreadable(self) -> Result<Option<UnreadableRow>, StoreError> {
        self.0.first(UnreadableRow::SELECT, [])
    }

    pub fn notes_of_project(self, project: ProjectRow) -> Result<ProjectNotes, StoreError> {
        self.0.one(ProjectNotes::SELECT, [project.0])
    }

    /// Whether there is nothing to find.
    pub fn is_empty(self) -> Result<bool, StoreError> {
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM sessions) AND NOT EXISTS (SELECT 1 FROM observations)";
        self.0.one(sql, [])
    }

    pub fn statistics(self) -> Result<Statistics, StoreError> {
        self.0.one(Statistics::SELECT, [])
    }
}
