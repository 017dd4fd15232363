//! Finds the rows that match a selection.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};
use rusqlite::{Connection, Params, Row};
use serde::Serialize;

use crate::database::bind::params;
use crate::database::row::{Cells, FromRow, Sql};
use crate::forgetting::{Criteria, ForgottenCounts, Selection};
use crate::{Reader, SqliteError, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{
    ActivityId, AsideId, BatchId, CompactionId, ObservationId, PlanId, ProjectRow, ReceivedTextId,
    SessionKey, SessionRow, SubagentId, SummaryId, Timestamp,
};

/// The ids of the rows to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowsToForget {
    /// Whole sessions. Their rows are in the other sets too.
    pub(super) sessions: BTreeSet<SessionRow>,
    /// Batches that lose the text of their prompt.
    pub(super) prompts: BTreeSet<BatchId>,
    /// Batches that lose their answer.
    pub(super) responses: BTreeSet<BatchId>,
    pub(super) activities: BTreeSet<ActivityId>,
    pub(super) asides: BTreeSet<AsideId>,
    pub(super) observations: BTreeSet<ObservationId>,
    pub(super) summaries: BTreeSet<SummaryId>,
    /// Plans and task lists.
    pub(super) plans: BTreeSet<PlanId>,
    /// Prompts and answers of other machines.
    pub(super) received_texts: BTreeSet<ReceivedTextId>,
    /// Subagents that lose their final message.
    pub(super) subagents: BTreeSet<SubagentId>,
    /// Compactions that lose their summary.
    pub(super) compactions: BTreeSet<CompactionId>,
    /// Sessions that lose their title.
    pub(super) titles: BTreeSet<SessionRow>,
    /// Observations that stay but lose the text from before a person rewrote them.
    pub(super) former_texts: BTreeSet<ObservationId>,
    pub(super) unparsed: BTreeSet<Vec<u8>>,
    /// The removed texts, used to find copies of them.
    pub(super) words: Vec<String>,
}

/// Selects old sessions. A pinned item keeps its session.
const OLD: &str = "SELECT id FROM sessions s WHERE last_event_at < ?1 AND NOT EXISTS (
    SELECT 1 FROM observations o WHERE o.session = s.id AND o.pinned_at IS NOT NULL)";

impl Reader<'_> {
    /// Finds the rows that match a selection now.
    pub fn find_rows_to_forget(self, selection: &Selection) -> Result<RowsToForget, StoreError> {
        let db = self.0;
        let mut to_forget = RowsToForget::default();
        match selection {
            Selection::Documents(keys) => {
                for key in keys {
                    to_forget.add_document(db, *key)?;
                }
                to_forget.add_derived(db)?;
            }
            Selection::Session(session) => to_forget.add_session(db, *session)?,
            Selection::SilentSince(before) => {
                for session in db.all(OLD, params![before])? {
                    to_forget.add_session(db, session)?;
                }
            }
            Selection::Matching(criteria) if criteria.means_whole_projects() => {
                to_forget.add_projects(db, criteria)?;
            }
            Selection::Matching(criteria) => to_forget.add_matching(db, criteria)?,
        }
        Ok(to_forget)
    }

    /// Returns unreadable events that the selection may cover and that cannot be assigned to anything.
    pub fn unreadable_events(
        self,
        selection: &Selection,
        to_forget: &RowsToForget,
    ) -> Result<BTreeSet<Vec<u8>>, StoreError> {
        let all: Vec<(Vec<u8>, Timestamp)> = self
            .0
            .all("SELECT event_id, d.captured_at FROM unparsed JOIN deliveries d USING (event_id)", [])?;
        let covered =
            |(event, at): &(Vec<u8>, Timestamp)| selection.spans(*at) && !to_forget.unparsed.contains(event);
        Ok(all.into_iter().filter(covered).map(|(event, _)| event).collect())
    }
}

impl RowsToForget {
    /// Returns the sessions to remove completely.
    pub fn session_keys(&self, db: Reader<'_>) -> Result<Vec<SessionKey>, StoreError> {
        keys(db.0, &self.sessions)
    }

    /// Adds unreadable events.
    pub fn add_unreadable(&mut self, events: BTreeSet<Vec<u8>>) {
        self.unparsed.extend(events);
    }

    pub fn counts(&self) -> ForgottenCounts {
        ForgottenCounts {
            sessions: self.sessions.len(),
            observations: self.observations.len(),
            summaries: self.summaries.len(),
            prompts: self.prompts.len(),
            responses: self.responses.len(),
            plans: self.plans.len(),
            activities: self.activities.len(),
            unparsed: self.unparsed.len(),
            asides: self.asides.len()
                + self.received_texts.len()
                + self.subagents.len()
                + self.compactions.len()
                + self.former_texts.len(),
        }
    }

    /// Returns the selected items that can be shown, most important kinds first.
    pub fn documents(&self) -> impl Iterator<Item = DocumentKey> + '_ {
        let of_batches = |rows: &'_ BTreeSet<BatchId>, key: fn(BatchId) -> DocumentKey| {
            rows.iter().map(|batch| key(*batch)).collect::<Vec<_>>()
        };
        keys_of(&self.observations)
            .chain(keys_of(&self.summaries))
            .chain(of_batches(&self.prompts, DocumentKey::prompt))
            .chain(of_batches(&self.responses, DocumentKey::response))
            .chain(keys_of(&self.plans))
            .chain(keys_of(&self.activities))
            .chain(keys_of(&self.compactions))
            .chain(keys_of(&self.received_texts))
    }

    fn add_document(&mut self, db: &Connection, key: DocumentKey) -> Result<(), StoreError> {
        match key.kind {
            DocumentKind::Observation => drop(self.observations.insert(ObservationId(key.row))),
            DocumentKind::Summary => {
                self.summaries.insert(SummaryId(key.row));
                let of = "SELECT session FROM session_summaries WHERE id = ?1 AND session IS NOT NULL";
                add(db, &mut self.titles, of, [key.row])?;
            }
            DocumentKind::Prompt => self.add_batch(db, BatchId(key.row))?,
            DocumentKind::Response => drop(self.responses.insert(BatchId(key.row))),
            DocumentKind::Activity => drop(self.activities.insert(ActivityId(key.row))),
            DocumentKind::Plan => drop(self.plans.insert(PlanId(key.row))),
            DocumentKind::Compaction => drop(self.compactions.insert(CompactionId(key.row))),
            DocumentKind::ReceivedText => drop(self.received_texts.insert(ReceivedTextId(key.row))),
        }
        Ok(())
    }

    /// Adds a prompt with everything up to the next prompt.
    fn add_batch(&mut self, db: &Connection, batch: BatchId) -> Result<(), StoreError> {
        let of_batch = params![batch];
        self.prompts.insert(batch);
        let has_response = "SELECT id FROM prompt_batches WHERE id = ?1 AND response IS NOT NULL";
        add(db, &mut self.responses, has_response, of_batch)?;
        add(db, &mut self.activities, "SELECT id FROM activities WHERE batch = ?1", of_batch)?;
        add(db, &mut self.asides, "SELECT id FROM asides WHERE batch = ?1", of_batch)?;
        add(db, &mut self.observations, "SELECT id FROM observations WHERE batch = ?1", of_batch)?;
        let made_here =
            "SELECT plan FROM plan_batches WHERE batch = ?1 UNION SELECT id FROM plans WHERE batch = ?1";
        add(db, &mut self.plans, made_here, of_batch)?;
        let spoke = "SELECT id FROM subagents WHERE batch = ?1 AND message IS NOT NULL";
        add(db, &mut self.subagents, spoke, of_batch)?;
        let summed_up = "SELECT id FROM compactions WHERE batch = ?1 AND summary IS NOT NULL";
        add(db, &mut self.compactions, summed_up, of_batch)
    }

    pub(super) fn add_session(&mut self, db: &Connection, session: SessionRow) -> Result<(), StoreError> {
        let of_session = params![session];
        if db.first::<SessionRow>("SELECT id FROM sessions WHERE id = ?1", of_session)?.is_none() {
            return Ok(());
        }
        self.sessions.insert(session);
        let asked = "SELECT id FROM prompt_batches WHERE session = ?1 AND prompt IS NOT NULL";
        add(db, &mut self.prompts, asked, of_session)?;
        let answered = "SELECT id FROM prompt_batches WHERE session = ?1 AND response IS NOT NULL";
        add(db, &mut self.responses, answered, of_session)?;
        add(db, &mut self.activities, "SELECT id FROM activities WHERE session = ?1", of_session)?;
        let asides = "SELECT a.id FROM asides a JOIN prompt_batches b ON b.id = a.batch WHERE b.session = ?1";
        add(db, &mut self.asides, asides, of_session)?;
        add(db, &mut self.observations, "SELECT id FROM observations WHERE session = ?1", of_session)?;
        add(db, &mut self.summaries, "SELECT id FROM session_summaries WHERE session = ?1", of_session)?;
        add(db, &mut self.plans, "SELECT id FROM plans WHERE session = ?1", of_session)?;
        let spoke = "SELECT id FROM subagents WHERE session = ?1 AND message IS NOT NULL";
        add(db, &mut self.subagents, spoke, of_session)?;
        let summed_up = "SELECT id FROM compactions WHERE session = ?1 AND summary IS NOT NULL";
        add(db, &mut self.compactions, summed_up, of_session)?;
        self.add_unparsed_of(db, session)
    }

    /// Adds unreadable events that still name the session.
    fn add_unparsed_of(&mut self, db: &Connection, session: SessionRow) -> Result<(), StoreError> {
        let id: String = db.one("SELECT session_id FROM sessions WHERE id = ?1", params![session])?;
        let sql = "SELECT event_id FROM unparsed WHERE instr(payload, CAST(?1 AS BLOB)) > 0";
        add(db, &mut self.unparsed, sql, [serde_json::to_string(&id)?])
    }

    fn add_projects(&mut self, db: &Connection, criteria: &Criteria) -> Result<(), StoreError> {
        for project in criteria.projects.iter().flatten() {
            let of_project = params![project];
            for session in db.all("SELECT id FROM sessions WHERE project = ?1", of_project)? {
                self.add_session(db, session)?;
            }
            add(db, &mut self.observations, "SELECT id FROM observations WHERE project = ?1", of_project)?;
            let of_others = "SELECT id FROM session_summaries WHERE project = ?1 AND share IS NOT NULL";
            add(db, &mut self.summaries, of_others, of_project)?;
            let of_others = "SELECT id FROM plans WHERE share IN (SELECT id FROM shares WHERE project = ?1)";
            add(db, &mut self.plans, of_others, of_project)?;
            let of_others =
                "SELECT id FROM said_elsewhere WHERE share IN (SELECT id FROM shares WHERE project = ?1)";
            add(db, &mut self.received_texts, of_others, of_project)?;
        }
        Ok(())
    }

    fn add_matching(&mut self, db: &Connection, criteria: &Criteria) -> Result<(), StoreError> {
        let matcher = Matcher::new(criteria);
        if criteria.words.is_empty() {
            for session in sessions_within(db, &matcher)? {
                self.add_session(db, session)?;
            }
        }
        matcher.add(db, &mut self.prompts, PROMPTS)?;
        matcher.add(db, &mut self.responses, RESPONSES)?;
        matcher.add(db, &mut self.activities, ACTIVITIES)?;
        matcher.add(db, &mut self.asides, ASIDES)?;
        matcher.add(db, &mut self.observations, OBSERVATIONS)?;
        matcher.add(db, &mut self.summaries, SUMMARIES)?;
        matcher.add(db, &mut self.plans, PLANS)?;
        matcher.add(db, &mut self.received_texts, RECEIVED_TEXTS)?;
        matcher.add(db, &mut self.subagents, SUBAGENTS)?;
        matcher.add(db, &mut self.compactions, COMPACTIONS)?;
        self.add_matching_unparsed(db, &matcher)?;
        if criteria.words.is_empty() {
            self.add_derived(db)
        } else {
            matcher.add(db, &mut self.titles, TITLES)?;
            matcher.add(db, &mut self.former_texts, FORMER_TEXTS)?;
            self.former_texts.retain(|row| !self.observations.contains(row));
            self.words.clone_from(&criteria.words);
            Ok(())
        }
    }

    /// Adds unreadable events. Their project is unknown.
    fn add_matching_unparsed(&mut self, db: &Connection, matcher: &Matcher) -> Result<(), StoreError> {
        if matcher.criteria.projects.is_some() {
            return Ok(());
        }
        let sql =
            "SELECT u.event_id, d.captured_at, u.payload FROM unparsed u JOIN deliveries d USING (event_id)";
        db.each(sql, [], |(event, at, payload): (Vec<u8>, Timestamp, Vec<u8>)| {
            if matcher.fits_time(at) && matcher.fits_text(&String::from_utf8_lossy(&payload)) {
                self.unparsed.insert(event);
            }
        })
    }

    /// Adds what was derived from the selected prompts, answers and activities: observations that rest on one of them,
    /// and their sessions' summaries. recall's own summaries are recomputed from the rest.
    fn add_derived(&mut self, db: &Connection) -> Result<(), StoreError> {
        let events: BTreeSet<String> = self.events(db)?.into_iter().collect();
        if events.is_empty() {
            return Ok(());
        }
        for session in self.sessions_of_rows(db)? {
            let of_session = params![session];
            let resting: Vec<(ObservationId, Vec<String>)> = db.all(
                "SELECT id, evidence FROM observations WHERE session = ?1
                    OR id IN (SELECT observation FROM observation_sessions WHERE session = ?1)",
                of_session,
            )?;
            let rests_on_them = |evidence: &[String]| evidence.iter().any(|event| events.contains(event));
            let resting = resting.iter().filter(|(_, evidence)| rests_on_them(evidence));
            self.observations.extend(resting.map(|(id, _)| id));
            let summary = "SELECT id FROM session_summaries WHERE session = ?1";
            add(db, &mut self.summaries, summary, of_session)?;
            // A compaction's summary covers everything before it.
            let compaction = "SELECT id FROM compactions WHERE session = ?1 AND summary IS NOT NULL";
            add(db, &mut self.compactions, compaction, of_session)?;
            self.titles.insert(session);
        }
        Ok(())
    }

    /// Returns the events of the selected rows, as evidence names them.
    pub(super) fn events(&self, db: &Connection) -> Result<Vec<String>, StoreError> {
        let mut events = Vec::new();
        for (rows, sql) in [
            (
                set(&self.prompts)?,
                "SELECT lower(hex(prompt_event)) FROM prompt_batches WHERE prompt_event IS NOT NULL AND id",
            ),
            (
                set(&self.responses)?,
                "SELECT lower(hex(response_event)) FROM prompt_batches WHERE response_event IS NOT NULL AND id",
            ),
            (set(&self.activities)?, "SELECT lower(hex(event_id)) FROM activities WHERE id"),
            (set(&self.asides)?, "SELECT lower(hex(event_id)) FROM asides WHERE id"),
        ] {
            events.extend(db.all::<String>(&format!("{sql} IN (SELECT value FROM json_each(?1))"), [rows])?);
        }
        Ok(events)
    }

    /// Returns the sessions of the selected prompts, answers, activities and asides.
    pub(super) fn sessions_of_rows(&self, db: &Connection) -> Result<BTreeSet<SessionRow>, StoreError> {
        let mut sessions = BTreeSet::new();
        for (rows, sql) in [
            (set(&self.prompts)?, "SELECT session FROM prompt_batches WHERE id"),
            (set(&self.responses)?, "SELECT session FROM prompt_batches WHERE id"),
            (set(&self.activities)?, "SELECT session FROM activities WHERE id"),
            (set(&self.plans)?, "SELECT session FROM plans WHERE session IS NOT NULL AND id"),
            (
                set(&self.asides)?,
                "SELECT b.session FROM asides a JOIN prompt_batches b ON b.id = a.batch WHERE a.id",
            ),
        ] {
            add(db, &mut sessions, &format!("{sql} IN (SELECT value FROM json_each(?1))"), [rows])?;
        }
        Ok(sessions)
    }
}

impl Criteria {
    fn means_whole_projects(&self) -> bool {
        self.since.is_none() && self.until.is_none() && self.words.is_empty()
    }
}

/// Adds the rows that a statement finds.
fn add<T: FromRow + Ord>(
    db: &Connection,
    rows: &mut BTreeSet<T>,
    sql: &str,
    given: impl Params,
) -> Result<(), StoreError> {
    rows.extend(db.all::<T>(sql, given)?);
    Ok(())
}

fn keys_of<T: Copy + Into<DocumentKey>>(rows: &BTreeSet<T>) -> impl Iterator<Item = DocumentKey> + '_ {
    rows.iter().map(|row| (*row).into())
}

/// Returns session keys in the order of their ids.
pub(super) fn keys(db: &Connection, sessions: &BTreeSet<SessionRow>) -> Result<Vec<SessionKey>, StoreError> {
    db.all(
        "SELECT agent, session_id FROM sessions WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY id",
        [set(sessions)?],
    )
}

/// The rows as a JSON array, which statements read with `json_each`.
pub(super) fn set<T: Serialize>(rows: &BTreeSet<T>) -> Result<String, StoreError> {
    Ok(serde_json::to_string(rows)?)
}

/// Finds sessions that are completely within the time range.
fn sessions_within(db: &Connection, matcher: &Matcher) -> Result<Vec<SessionRow>, StoreError> {
    let mut found = Vec::new();
    let sql = "SELECT id, started_at, project, last_event_at FROM sessions";
    db.each(sql, [], |(session, began, project, ended): (SessionRow, Timestamp, ProjectRow, Timestamp)| {
        if matcher.fits_place(began, project) && matcher.fits_time(ended) {
            found.push(session);
        }
    })?;
    Ok(found)
}

// id, time, project, texts
const PROMPTS: &str = "SELECT b.id, b.opened_at, s.project, b.prompt FROM prompt_batches b
    JOIN sessions s ON s.id = b.session WHERE b.prompt IS NOT NULL";
const RESPONSES: &str =
    "SELECT b.id, ifnull(d.captured_at, b.opened_at), s.project, b.response FROM prompt_batches b
    JOIN sessions s ON s.id = b.session LEFT JOIN deliveries d ON d.event_id = b.response_event
    WHERE b.response IS NOT NULL";
const ACTIVITIES: &str =
    "SELECT a.id, a.at, s.project, a.tool_name, a.input, a.response, a.subagent_type FROM activities a
    JOIN sessions s ON s.id = a.session";
const ASIDES: &str = "SELECT a.id, a.at, s.project, a.input, a.response FROM asides a
    JOIN prompt_batches b ON b.id = a.batch JOIN sessions s ON s.id = b.session";
const OBSERVATIONS: &str =
    "SELECT id, created_at, project, title, subtitle, narrative, facts, concepts, files_read,
    files_modified FROM observations";
const FORMER_TEXTS: &str = "SELECT id, created_at, project, nullif(made_as, ''),
    (SELECT group_concat(before, char(10)) FROM hand_changes WHERE observation = o.id) FROM observations o
    WHERE made_as <> '' OR id IN (SELECT observation FROM hand_changes)";
const SUMMARIES: &str =
    "SELECT id, created_at, project, title, request, investigated, learned, completed, next_steps,
    notes FROM session_summaries";
const PLANS: &str =
    "SELECT l.id, l.updated_at, ifnull(s.project, h.project), l.title, l.text, l.path FROM plans l
    LEFT JOIN sessions s ON s.id = l.session LEFT JOIN shares h ON h.id = l.share";
const RECEIVED_TEXTS: &str =
    "SELECT t.id, t.created_at, h.project, t.text FROM said_elsewhere t JOIN shares h ON h.id = t.share";
const SUBAGENTS: &str =
    "SELECT g.id, ifnull(g.ended_at, ifnull(g.started_at, 0)), s.project, g.message, g.agent_type
    FROM subagents g JOIN sessions s ON s.id = g.session WHERE g.message IS NOT NULL";
const COMPACTIONS: &str = "SELECT c.id, ifnull(c.ended_at, ifnull(c.started_at, 0)), s.project, c.summary
    FROM compactions c JOIN sessions s ON s.id = c.session WHERE c.summary IS NOT NULL";
const TITLES: &str = "SELECT id, last_event_at, project, title FROM sessions WHERE title IS NOT NULL";

/// Criteria, prepared for matching.
struct Matcher<'a> {
    criteria: &'a Criteria,
    words: Vec<Word>,
}

/// A word to find in a text, verbatim or as escaped in JSON.
struct Word([Regex; 2]);

impl Word {
    /// `None` if the pattern is too long for the regex engine.
    fn new(word: &str) -> Option<Self> {
        let build = |text: &str| RegexBuilder::new(&regex::escape(text)).case_insensitive(true).build().ok();
        let quoted = serde_json::to_string(word).unwrap_or_default();
        Some(Self([build(word)?, build(quoted.trim_matches('"'))?]))
    }

    fn occurs_in(&self, text: &str) -> bool {
        self.0.iter().any(|spelling| spelling.is_match(text))
    }
}

impl<'a> Matcher<'a> {
    fn new(criteria: &'a Criteria) -> Self {
        Self { criteria, words: criteria.words.iter().filter_map(|word| Word::new(word)).collect() }
    }

    /// Adds the rows that match.
    fn add<T: FromRow + Ord>(
        &self,
        db: &Connection,
        found: &mut BTreeSet<T>,
        sql: &str,
    ) -> Result<(), StoreError> {
        let mut statement = db.prepare_cached(sql).map_err(SqliteError)?;
        for row in statement.query_map([], |row| self.matching(row)).map_err(SqliteError)? {
            found.extend(row.map_err(SqliteError)?);
        }
        Ok(())
    }

    /// Returns the row's id if its time, its project and its texts match.
    fn matching<T: FromRow>(&self, row: &Row<'_>) -> rusqlite::Result<Option<T>> {
        let fits = self.fits_place(row.cell(1)?, row.cell(2)?)
            && (self.words.is_empty() || self.fits_text(&texts(row)?));
        if fits { row.cell(0).map(Some) } else { Ok(None) }
    }

    fn fits_place(&self, at: Timestamp, project: ProjectRow) -> bool {
        let fits_project = self.criteria.projects.as_ref().is_none_or(|projects| projects.contains(&project));
        fits_project && self.fits_time(at)
    }

    fn fits_time(&self, at: Timestamp) -> bool {
        self.criteria.since.is_none_or(|since| at >= since)
            && self.criteria.until.is_none_or(|until| at < until)
    }

    fn fits_text(&self, text: &str) -> bool {
        self.words.len() == self.criteria.words.len() && self.words.iter().all(|word| word.occurs_in(text))
    }
}

fn texts(row: &Row<'_>) -> rusqlite::Result<String> {
    let mut all = String::new();
    for column in 3..row.as_ref().column_count() {
        if let Some(text) = row.cell::<Option<String>>(column)? {
            all.push_str(&text);
            all.push('\n');
        }
    }
    Ok(all)
}

/// Whether every word occurs, ignoring case. False without words.
pub fn has_all_words(text: &str, words: &[String]) -> bool {
    !words.is_empty() && words.iter().all(|word| Word::new(word).is_some_and(|word| word.occurs_in(text)))
}
