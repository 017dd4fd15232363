//! Lists and counts everything by time.
//!
//! Days depend on the user's time zone, which is not known here. So counts are per quarter of an hour, because days
//! begin at one in every zone.

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::{Reader, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind, Status};
use recall_domain::ids::{AgentName, ProjectKey, ProjectRow, SessionId, Timestamp};
use recall_domain::observation::ObservationType;

/// The length of a [`Quarter`], in milliseconds.
pub const QUARTER_MS: i64 = 15 * 60 * 1_000;

/// The kinds of documents that can be listed.
pub const BROWSED: [DocumentKind; 3] =
    [DocumentKind::Observation, DocumentKind::Prompt, DocumentKind::Summary];

/// Which entries to list.
pub struct Browsed {
    /// `None` for all.
    pub projects: Option<Vec<ProjectRow>>,
    /// Some of [`BROWSED`].
    pub kinds: Vec<DocumentKind>,
    /// Types of observations; empty means all.
    pub types: Vec<ObservationType>,
}

record! {
/// The counts of one quarter of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarter from "quarters GROUP BY at / 900000 ORDER BY at DESC" {
    /// The number of the quarter since 1970.
    pub number: i64 = "at / 900000",
    pub count: u32 = "count(*)",
    /// The calls of sessions.
    pub calls: u32 = "ifnull(sum(calls), 0)",
}
}

record! {
/// An entry of a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryRow from "entry" {
    pub title: String = "title",
    pub observation_type: Option<ObservationType> = "type",
    pub status: Option<Status> = "status",
    pub is_pinned: bool = "pinned",
    pub project: String = "project",
    pub session: Option<SessionId> = "session_id",
    pub agent: Option<AgentName> = "agent",
}
}

record! {
/// A project with its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectLine from "projects p" {
    pub name: String = "p.name",
    pub key: ProjectKey = "p.key",
    pub sessions: u32 = "(SELECT count(*) FROM sessions s WHERE s.project = p.id)",
    pub observations: u32 = "(SELECT count(*) FROM observations o WHERE o.project = p.id)",
    /// The folder of the latest session.
    pub folder: Option<String> = "(SELECT ifnull(s.root, s.cwd) FROM sessions s WHERE s.project = p.id
        AND ifnull(s.root, s.cwd) IS NOT NULL ORDER BY s.last_event_at DESC LIMIT 1)",
    pub last_at: Option<Timestamp> = "nullif(max(
        ifnull((SELECT max(s.last_event_at) FROM sessions s WHERE s.project = p.id), 0),
        ifnull((SELECT max(o.created_at) FROM observations o WHERE o.project = p.id), 0)), 0)",
}
}

impl Browsed {
    /// An SQL condition on the project's column and, for observations, on the type. Contains only our own numbers and
    /// words.
    fn condition(&self, kind: DocumentKind, project: &str) -> String {
        let mut condition = String::new();
        if let Some(projects) = &self.projects {
            let rows: Vec<String> = projects.iter().map(|row| row.0.to_string()).collect();
            condition.push_str(&format!(" AND {project} IN ({})", rows.join(", ")));
        }
        if kind == DocumentKind::Observation && !self.types.is_empty() {
            let types: Vec<String> = self.types.iter().map(|kind| format!("'{}'", kind.as_str())).collect();
            condition.push_str(&format!(" AND o.type IN ({})", types.join(", ")));
        }
        condition
    }

    /// SQL that returns the row and time of each entry of a kind: `row`, `at`.
    fn source(&self, kind: DocumentKind) -> String {
        let (columns, table, project) = match kind {
            DocumentKind::Observation => ("o.id AS row, o.created_at AS at", "observations o", "o.project"),
            DocumentKind::Summary => ("m.id AS row, m.created_at AS at", "session_summaries m", "m.project"),
            _ => {
                let of_project = "(SELECT s.project FROM sessions s WHERE s.id = b.session)";
                ("b.id AS row, b.opened_at AS at", "prompt_batches b", of_project)
            }
        };
        let given = if kind == DocumentKind::Prompt { "b.prompt IS NOT NULL" } else { "TRUE" };
        format!("SELECT {columns} FROM {table} WHERE {given}{}", self.condition(kind, project))
    }
}

impl Reader<'_> {
    /// The number of entries of a kind, by time.
    pub fn quarters(self, browsed: &Browsed, kind: DocumentKind) -> Result<Vec<Quarter>, StoreError> {
        let source = browsed.source(kind);
        self.0
            .all(&format!("WITH quarters AS (SELECT at, 0 AS calls FROM ({source})) {}", Quarter::SELECT), [])
    }

    /// The number of sessions started and of their calls, by time.
    pub fn quarters_of_sessions(self, browsed: &Browsed) -> Result<Vec<Quarter>, StoreError> {
        let condition = browsed.condition(DocumentKind::Prompt, "s.project");
        let source =
            format!("SELECT s.started_at AS at, s.activities AS calls FROM sessions s WHERE TRUE{condition}");
        self.0.all(&format!("WITH quarters AS ({source}) {}", Quarter::SELECT), [])
    }

    /// Returns the entries of a time range, newest first, skipping the first `skip`.
    pub fn entries(
        self,
        browsed: &Browsed,
        from: Timestamp,
        until: Timestamp,
        skip: u32,
        limit: u32,
    ) -> Result<Vec<(DocumentKey, Timestamp)>, StoreError> {
        let most = skip.saturating_add(limit);
        let of_kind = |kind: &DocumentKind| {
            let (name, source) = (kind.as_str(), browsed.source(*kind));
            format!(
                "SELECT * FROM (SELECT '{name}' AS kind, row, at FROM ({source})
             WHERE at >= ?1 AND at < ?2 ORDER BY at DESC, row DESC LIMIT ?3)"
            )
        };
        let kinds: Vec<String> = browsed.kinds.iter().map(of_kind).collect();
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT kind, row, at FROM ({}) ORDER BY at DESC, kind, row DESC LIMIT ?3 - ?4 OFFSET ?4",
            kinds.join(" UNION ALL ")
        );
        self.0.all(&sql, params![from, until, most, skip])
    }

    /// Returns an entry of a listing; `None` if it no longer exists.
    pub fn entry(self, key: DocumentKey) -> Result<Option<EntryRow>, StoreError> {
        let source = match key.kind {
        DocumentKind::Observation => {
            "SELECT o.title, o.type, o.status, o.pinned_at IS NOT NULL AS pinned, p.name AS project,
                    s.session_id, s.agent FROM observations o JOIN projects p ON p.id = o.project
             LEFT JOIN sessions s ON s.id = o.session WHERE o.id = ?1"
        }
        DocumentKind::Summary => {
            "SELECT m.title, NULL AS type, NULL AS status, FALSE AS pinned, p.name AS project, s.session_id, s.agent
             FROM session_summaries m JOIN projects p ON p.id = m.project LEFT JOIN sessions s ON s.id = m.session
             WHERE m.id = ?1"
        }
        _ => {
            "SELECT b.prompt AS title, NULL AS type, NULL AS status, FALSE AS pinned, p.name AS project,
                    s.session_id, s.agent FROM prompt_batches b JOIN sessions s ON s.id = b.session
             JOIN projects p ON p.id = s.project WHERE b.id = ?1 AND b.prompt IS NOT NULL"
        }
    };
        self.0.first(&format!("WITH entry AS ({source}) {}", EntryRow::SELECT), [key.row])
    }

    /// Returns all projects, latest first.
    pub fn project_lines(self) -> Result<Vec<ProjectLine>, StoreError> {
        let mut lines: Vec<ProjectLine> = self.0.all(ProjectLine::SELECT, [])?;
        lines.sort_by_key(|line| std::cmp::Reverse(line.last_at));
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::empty_database;

    #[test]
    fn entries_are_listed_and_counted_by_time_with_an_index() {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        db.execute_batch(
            "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0), (2, 'path:/other', 'other', 0);
             INSERT INTO sessions (id, agent, session_id, project, status, life, activities, started_at, last_event_at)
             VALUES (1, 'claude-code', 's', 1, 'active', 1, 7, 900000, 2000000);
             INSERT INTO prompt_batches (id, session, seq, prompt_number, source, status, prompt, opened_at)
             VALUES (1, 1, 1, 1, 'user', 'open', 'Why?', 1000000), (2, 1, 2, 2, 'private', 'open', NULL, 1000001);
             INSERT INTO session_summaries (session, project, title, request, investigated, learned, completed,
                next_steps, notes, origin, created_at) VALUES (1, 1, 'All', '', '', '', '', '', '', 'x', 1900000)",
        )
        .unwrap();
        for (id, project, kind, at) in
            [(1, 1, "gotcha", 1_000_000), (2, 1, "bugfix", 1_000_000), (3, 2, "gotcha", 1_800_000)]
        {
            db.execute(
                "INSERT INTO observations (id, uuid, project, type, title, narrative, facts, concepts, files_read,
                    files_modified, importance, evidence, origin, created_at)
                 VALUES (?1, ?1, ?2, ?3, 'Title ' || ?1, 'n', '[]', '[]', '[]', '[]', 5, '[]', 'extractive', ?4)",
                params![id, project, kind, at],
            )
            .unwrap();
        }
        let all = |types: &[ObservationType], projects: Option<Vec<ProjectRow>>| Browsed {
            projects,
            kinds: BROWSED.to_vec(),
            types: types.to_vec(),
        };
        let counts = |browsed: &Browsed, kind| -> Vec<(i64, u32)> {
            let found = Reader(&db).quarters(browsed, kind).unwrap();
            found.into_iter().map(|quarter| (quarter.number, quarter.count)).collect()
        };
        let everything = all(&[], None);
        assert_eq!(counts(&everything, DocumentKind::Observation), [(2, 1), (1, 2)]);
        assert_eq!(counts(&everything, DocumentKind::Prompt), [(1, 1)], "a private prompt is no entry");
        assert_eq!(
            counts(&all(&[ObservationType::Gotcha], None), DocumentKind::Observation),
            [(2, 1), (1, 1)]
        );
        let other = all(&[], Some(vec![ProjectRow(2)]));
        assert_eq!(counts(&other, DocumentKind::Observation), [(2, 1)]);
        assert_eq!(counts(&other, DocumentKind::Prompt), []);
        let started = Reader(&db).quarters_of_sessions(&everything).unwrap();
        assert_eq!(started, [Quarter { number: 1, count: 1, calls: 7 }]);

        let named = |skip, limit| -> Vec<String> {
            let (first, last) = (Timestamp(i64::MIN), Timestamp(i64::MAX));
            let found = Reader(&db).entries(&everything, first, last, skip, limit).unwrap();
            found.into_iter().map(|(key, _)| Reader(&db).entry(key).unwrap().unwrap().title).collect()
        };
        assert_eq!(named(0, 10), ["All", "Title 3", "Title 2", "Title 1", "Why?"]);
        assert_eq!(named(1, 2), ["Title 3", "Title 2"], "a part of them");
        let early = Reader(&db).entries(&everything, Timestamp(0), Timestamp(1_000_000), 0, 10).unwrap();
        assert_eq!(early, [], "the end is not part of it");
        let lines = Reader(&db).project_lines().unwrap();
        assert_eq!((lines[0].name.as_str(), lines[0].sessions, lines[0].observations), ("shop", 1, 2));

        for kind in BROWSED {
            let sql = format!(
                "EXPLAIN QUERY PLAN SELECT * FROM ({}) WHERE at >= 1 AND at < 2 ORDER BY at DESC",
                everything.source(kind)
            );
            let how: String = db.query_row(&sql, [], |row| row.get(3)).unwrap();
            assert!(how.starts_with("SEARCH"), "{kind:?}: {how}");
        }
    }
}
