//! Finds the rows that match a selection.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};
use rusqlite::{Connection, Params, Row};

use crate::database::row::{Cells, Sql};
use crate::forgetting::{Criteria, ForgottenCounts, Selection};
use crate::{Reader, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{SessionKey, Timestamp};

/// The ids of the rows to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowsToForget {
    /// Whole sessions. Their rows are in the other sets too.
    pub(super) sessions: BTreeSet<i64>,
    /// Batches that lose the text of their prompt.
    pub(super) prompts: BTreeSet<i64>,
    /// Batches that lose their answer.
    pub(super) responses: BTreeSet<i64>,
    pub(super) activities: BTreeSet<i64>,
    pub(super) asides: BTreeSet<i64>,
    pub(super) observations: BTreeSet<i64>,
    pub(super) summaries: BTreeSet<i64>,
    /// Plans and task lists.
    pub(super) plans: BTreeSet<i64>,
    /// Prompts and answers of other machines.
    pub(super) said: BTreeSet<i64>,
    /// Subagents that lose their final message.
    pub(super) subagents: BTreeSet<i64>,
    /// Compactions that lose their summary.
    pub(super) compactions: BTreeSet<i64>,
    /// Sessions that lose their title.
    pub(super) titles: BTreeSet<i64>,
    /// Observations that stay but lose the text from before a person rewrote them.
    pub(super) former_texts: BTreeSet<i64>,
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
            Selection::Session(session) => to_forget.add_session(db, session.0)?,
            Selection::SilentSince(before) => {
                for session in numbers(db, OLD, [before.0])? {
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
        let db = self.0;
        let mut find = db.prepare_cached(
            "SELECT event_id, d.captured_at FROM unparsed JOIN deliveries d USING (event_id)",
        )?;
        let mut rows = find.query([])?;
        let mut found = BTreeSet::new();
        while let Some(row) = rows.next()? {
            let event: Vec<u8> = row.cell(0)?;
            if selection.spans(Timestamp(row.cell(1)?)) && !to_forget.unparsed.contains(&event) {
                found.insert(event);
            }
        }
        Ok(found)
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
                + self.said.len()
                + self.subagents.len()
                + self.compactions.len()
                + self.former_texts.len(),
        }
    }

    /// Returns the selected items that can be shown, most important kinds first.
    pub fn documents(&self) -> impl Iterator<Item = DocumentKey> + '_ {
        let kinds = [
            (DocumentKind::Observation, &self.observations),
            (DocumentKind::Summary, &self.summaries),
            (DocumentKind::Prompt, &self.prompts),
            (DocumentKind::Response, &self.responses),
            (DocumentKind::Plan, &self.plans),
            (DocumentKind::Activity, &self.activities),
            (DocumentKind::Compaction, &self.compactions),
            (DocumentKind::Said, &self.said),
        ];
        kinds.into_iter().flat_map(|(kind, rows)| rows.iter().map(move |row| DocumentKey { kind, row: *row }))
    }

    fn add_document(&mut self, db: &Connection, key: DocumentKey) -> Result<(), StoreError> {
        match key.kind {
            DocumentKind::Observation => drop(self.observations.insert(key.row)),
            DocumentKind::Summary => {
                self.summaries.insert(key.row);
                let of = "SELECT session FROM session_summaries WHERE id = ?1 AND session IS NOT NULL";
                self.titles.extend(numbers(db, of, [key.row])?);
            }
            DocumentKind::Prompt => self.add_batch(db, key.row)?,
            DocumentKind::Response => drop(self.responses.insert(key.row)),
            DocumentKind::Activity => drop(self.activities.insert(key.row)),
            DocumentKind::Plan => drop(self.plans.insert(key.row)),
            DocumentKind::Compaction => drop(self.compactions.insert(key.row)),
            DocumentKind::Said => drop(self.said.insert(key.row)),
        }
        Ok(())
    }

    /// Adds a prompt with everything up to the next prompt.
    fn add_batch(&mut self, db: &Connection, batch: i64) -> Result<(), StoreError> {
        self.prompts.insert(batch);
        let has_response = "SELECT id FROM prompt_batches WHERE id = ?1 AND response IS NOT NULL";
        self.responses.extend(numbers(db, has_response, [batch])?);
        self.activities.extend(numbers(db, "SELECT id FROM activities WHERE batch = ?1", [batch])?);
        self.asides.extend(numbers(db, "SELECT id FROM asides WHERE batch = ?1", [batch])?);
        self.observations.extend(numbers(db, "SELECT id FROM observations WHERE batch = ?1", [batch])?);
        let made_here =
            "SELECT plan FROM plan_batches WHERE batch = ?1 UNION SELECT id FROM plans WHERE batch = ?1";
        self.plans.extend(numbers(db, made_here, [batch])?);
        let spoke = "SELECT id FROM subagents WHERE batch = ?1 AND message IS NOT NULL";
        self.subagents.extend(numbers(db, spoke, [batch])?);
        let summed_up = "SELECT id FROM compactions WHERE batch = ?1 AND summary IS NOT NULL";
        self.compactions.extend(numbers(db, summed_up, [batch])?);
        Ok(())
    }

    pub(super) fn add_session(&mut self, db: &Connection, session: i64) -> Result<(), StoreError> {
        if numbers(db, "SELECT id FROM sessions WHERE id = ?1", [session])?.is_empty() {
            return Ok(());
        }
        self.sessions.insert(session);
        let of_session = |sql: &str| numbers(db, sql, [session]);
        self.prompts
            .extend(of_session("SELECT id FROM prompt_batches WHERE session = ?1 AND prompt IS NOT NULL")?);
        self.responses
            .extend(of_session("SELECT id FROM prompt_batches WHERE session = ?1 AND response IS NOT NULL")?);
        self.activities.extend(of_session("SELECT id FROM activities WHERE session = ?1")?);
        self.asides.extend(of_session(
            "SELECT a.id FROM asides a JOIN prompt_batches b ON b.id = a.batch WHERE b.session = ?1",
        )?);
        self.observations.extend(of_session("SELECT id FROM observations WHERE session = ?1")?);
        self.summaries.extend(of_session("SELECT id FROM session_summaries WHERE session = ?1")?);
        self.plans.extend(of_session("SELECT id FROM plans WHERE session = ?1")?);
        self.subagents
            .extend(of_session("SELECT id FROM subagents WHERE session = ?1 AND message IS NOT NULL")?);
        self.compactions
            .extend(of_session("SELECT id FROM compactions WHERE session = ?1 AND summary IS NOT NULL")?);
        self.add_unparsed_of(db, session)
    }

    /// Adds unreadable events that still name the session.
    fn add_unparsed_of(&mut self, db: &Connection, session: i64) -> Result<(), StoreError> {
        let id: String =
            db.query_row("SELECT session_id FROM sessions WHERE id = ?1", [session], |row| row.cell(0))?;
        let quoted = serde_json::to_string(&id)?;
        let sql = "SELECT event_id FROM unparsed WHERE instr(payload, CAST(?1 AS BLOB)) > 0";
        let mut statement = db.prepare_cached(sql)?;
        for event in statement.query_map([quoted], |row| row.cell::<Vec<u8>>(0))? {
            self.unparsed.insert(event?);
        }
        Ok(())
    }

    fn add_projects(&mut self, db: &Connection, criteria: &Criteria) -> Result<(), StoreError> {
        for project in criteria.projects.iter().flatten() {
            for session in numbers(db, "SELECT id FROM sessions WHERE project = ?1", [project.0])? {
                self.add_session(db, session)?;
            }
            self.observations.extend(numbers(
                db,
                "SELECT id FROM observations WHERE project = ?1",
                [project.0],
            )?);
            let of_others = "SELECT id FROM session_summaries WHERE project = ?1 AND share IS NOT NULL";
            self.summaries.extend(numbers(db, of_others, [project.0])?);
            let of_others = "SELECT id FROM plans WHERE share IN (SELECT id FROM shares WHERE project = ?1)";
            self.plans.extend(numbers(db, of_others, [project.0])?);
            let of_others =
                "SELECT id FROM said_elsewhere WHERE share IN (SELECT id FROM shares WHERE project = ?1)";
            self.said.extend(numbers(db, of_others, [project.0])?);
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
        self.prompts.extend(matcher.rows(db, PROMPTS)?);
        self.responses.extend(matcher.rows(db, RESPONSES)?);
        self.activities.extend(matcher.rows(db, ACTIVITIES)?);
        self.asides.extend(matcher.rows(db, ASIDES)?);
        self.observations.extend(matcher.rows(db, OBSERVATIONS)?);
        self.summaries.extend(matcher.rows(db, SUMMARIES)?);
        self.plans.extend(matcher.rows(db, PLANS)?);
        self.said.extend(matcher.rows(db, SAID)?);
        self.subagents.extend(matcher.rows(db, SUBAGENTS)?);
        self.compactions.extend(matcher.rows(db, COMPACTIONS)?);
        self.add_matching_unparsed(db, &matcher)?;
        if criteria.words.is_empty() {
            self.add_derived(db)
        } else {
            self.titles.extend(matcher.rows(db, TITLES)?);
            self.former_texts.extend(matcher.rows(db, FORMER_TEXTS)?);
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
        let mut statement = db.prepare_cached(
            "SELECT u.event_id, d.captured_at, u.payload FROM unparsed u JOIN deliveries d USING (event_id)",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let payload: Vec<u8> = row.cell(2)?;
            if matcher.fits_time(Timestamp(row.cell(1)?))
                && matcher.fits_text(&String::from_utf8_lossy(&payload))
            {
                self.unparsed.insert(row.cell(0)?);
            }
        }
        Ok(())
    }

    /// Adds what was derived from the selected prompts, answers and activities: observations that rest on one of them,
    /// and their sessions' summaries. recall's own summaries are recomputed from the rest.
    fn add_derived(&mut self, db: &Connection) -> Result<(), StoreError> {
        let events: BTreeSet<String> = self.events(db)?.into_iter().collect();
        if events.is_empty() {
            return Ok(());
        }
        for session in self.sessions_of_rows(db)? {
            let mut statement = db.prepare_cached(
                "SELECT id, evidence FROM observations WHERE session = ?1
                    OR id IN (SELECT observation FROM observation_sessions WHERE session = ?1)",
            )?;
            let mut rows = statement.query([session])?;
            while let Some(row) = rows.next()? {
                let evidence: Vec<String> = row.cell(1)?;
                if evidence.iter().any(|event| events.contains(event)) {
                    self.observations.insert(row.cell(0)?);
                }
            }
            let summary = "SELECT id FROM session_summaries WHERE session = ?1";
            self.summaries.extend(numbers(db, summary, [session])?);
            // A compaction's summary covers everything before it.
            let compaction = "SELECT id FROM compactions WHERE session = ?1 AND summary IS NOT NULL";
            self.compactions.extend(numbers(db, compaction, [session])?);
            self.titles.insert(session);
        }
        Ok(())
    }

    /// Returns the events of the selected rows, as evidence names them.
    pub(super) fn events(&self, db: &Connection) -> Result<Vec<String>, StoreError> {
        let mut events = Vec::new();
        for (rows, sql) in [
            (
                &self.prompts,
                "SELECT lower(hex(prompt_event)) FROM prompt_batches WHERE prompt_event IS NOT NULL AND id",
            ),
            (
                &self.responses,
                "SELECT lower(hex(response_event)) FROM prompt_batches WHERE response_event IS NOT NULL AND id",
            ),
            (&self.activities, "SELECT lower(hex(event_id)) FROM activities WHERE id"),
            (&self.asides, "SELECT lower(hex(event_id)) FROM asides WHERE id"),
        ] {
            let mut statement = db.prepare_cached(&format!("{sql} IN (SELECT value FROM json_each(?1))"))?;
            for event in statement.query_map([serde_json::to_string(rows)?], |row| row.cell(0))? {
                events.push(event?);
            }
        }
        Ok(events)
    }

    /// Returns the sessions of the selected prompts, answers, activities and asides.
    pub(super) fn sessions_of_rows(&self, db: &Connection) -> Result<BTreeSet<i64>, StoreError> {
        let mut sessions = BTreeSet::new();
        for (rows, sql) in [
            (&self.prompts, "SELECT session FROM prompt_batches WHERE id"),
            (&self.responses, "SELECT session FROM prompt_batches WHERE id"),
            (&self.activities, "SELECT session FROM activities WHERE id"),
            (&self.plans, "SELECT session FROM plans WHERE session IS NOT NULL AND id"),
            (
                &self.asides,
                "SELECT b.session FROM asides a JOIN prompt_batches b ON b.id = a.batch WHERE a.id",
            ),
        ] {
            let sql = format!("{sql} IN (SELECT value FROM json_each(?1))");
            sessions.extend(numbers(db, &sql, [serde_json::to_string(rows)?])?);
        }
        Ok(sessions)
    }
}

impl Criteria {
    fn means_whole_projects(&self) -> bool {
        self.since.is_none() && self.until.is_none() && self.words.is_empty()
    }
}

/// Returns the first column of every row.
pub(super) fn numbers(db: &Connection, sql: &str, given: impl Params) -> Result<Vec<i64>, StoreError> {
    let mut statement = db.prepare_cached(sql)?;
    Ok(statement.query_map(given, |row| row.cell(0))?.collect::<Result<_, _>>()?)
}

/// Returns session keys in the order of their ids.
pub(super) fn keys(db: &Connection, sessions: &BTreeSet<i64>) -> Result<Vec<SessionKey>, StoreError> {
    db.all(
        "SELECT agent, session_id FROM sessions WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY id",
        [set(sessions)?],
    )
}

pub(super) fn set(rows: &BTreeSet<i64>) -> Result<String, StoreError> {
    Ok(serde_json::to_string(rows)?)
}

/// Finds sessions that are completely within the time range.
fn sessions_within(db: &Connection, matcher: &Matcher) -> Result<Vec<i64>, StoreError> {
    let mut statement = db.prepare_cached("SELECT id, started_at, project, last_event_at FROM sessions")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if matcher.fits_place(row)? && matcher.fits_time(Timestamp(row.cell(3)?)) {
            found.push(row.cell(0)?);
        }
    }
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
const SAID: &str =
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

    fn rows(&self, db: &Connection, sql: &str) -> Result<Vec<i64>, StoreError> {
        let mut statement = db.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            if self.fits_place(row)? && (self.words.is_empty() || self.fits_text(&texts(row, columns)?)) {
                found.push(row.cell(0)?);
            }
        }
        Ok(found)
    }

    /// Whether the time and the project, the second and third columns, match.
    fn fits_place(&self, row: &Row<'_>) -> Result<bool, StoreError> {
        let (at, project): (i64, i64) = (row.cell(1)?, row.cell(2)?);
        let fits_project = self
            .criteria
            .projects
            .as_ref()
            .is_none_or(|projects| projects.iter().any(|asked| asked.0 == project));
        Ok(fits_project && self.fits_time(Timestamp(at)))
    }

    fn fits_time(&self, at: Timestamp) -> bool {
        self.criteria.since.is_none_or(|since| at >= since)
            && self.criteria.until.is_none_or(|until| at < until)
    }

    fn fits_text(&self, text: &str) -> bool {
        self.words.len() == self.criteria.words.len() && self.words.iter().all(|word| word.occurs_in(text))
    }
}

fn texts(row: &Row<'_>, columns: usize) -> Result<String, StoreError> {
    let mut all = String::new();
    for column in 3..columns {
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
