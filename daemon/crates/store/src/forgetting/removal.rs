//! Removes rows, and every copy of their texts in the remaining rows.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde::Serialize;
use serde_json::Value;

use crate::database::bind::params;
use crate::database::row::Sql;
use crate::forgetting::copies::Memory;
use crate::forgetting::finding::{RowsToForget, has_all_words, keys, set};
use crate::forgetting::tombstones::{bury_observations, bury_session};
use crate::forgetting::{Forgotten, Selection, Unreadable, copies};
use crate::jobs::job_kind::JobKind;
use crate::jobs::queue;
use crate::notes::results::{BatchResult, DuplicateScope, replace_observations};
use crate::notes::subjects::SubjectHash;
use crate::notes::threads::rethread;
use crate::operation::{Operation, RemovedCopies, WriteContext, log};
use crate::sessions::lineage::settle;
use crate::sessions::lives;
use crate::sharing::log_again;
use crate::{Reader, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{
    BatchId, InjectionId, ObservationId, PlanId, ProjectRow, ReceivedTextId, SessionKey, SessionRow,
    SummaryId, Timestamp,
};
use recall_domain::observation::NoteOrigin;
use recall_domain::order::Order;

/// The marker of an unfinished cleanup.
const TRACES_LEFT: &str = "traces_left";
/// Replaces a forgotten title in an injection record.
const FORGOTTEN: &str = "(forgotten)";

/// Removes the rows that match a selection now. Events of removed sessions that were captured up to `at` will no
/// longer be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forget {
    pub what: Selection,
    pub unreadable: Unreadable,
    /// When the user requested it.
    pub at: Order,
}

impl Operation for Forget {
    type Output = Forgotten;

    fn execute(self, db: &WriteContext<'_>) -> Result<Forgotten, StoreError> {
        let Self { what: selection, unreadable, at } = self;
        let selection = &selection;
        db.set_removed_copies(match selection {
            Selection::SilentSince(_) => RemovedCopies::Stay,
            _ => RemovedCopies::Forgotten,
        });
        let mut to_forget = Reader(db).find_rows_to_forget(selection)?;
        if unreadable == Unreadable::Goes {
            let events = Reader(db).unreadable_events(selection, &to_forget)?;
            to_forget.add_unreadable(events);
        }
        if let Selection::SilentSince(_) = selection {
            lives::end_expired(db, &to_forget.sessions, at.wall)?;
        }
        remove(db, &to_forget, at)
    }
}

/// Removes what was forgotten in another database from a copy of an older one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ForgetAgain {
    pub memory: Memory,
    pub at: Order,
}

impl Operation for ForgetAgain {
    type Output = Forgotten;

    fn execute(self, db: &WriteContext<'_>) -> Result<Forgotten, StoreError> {
        let to_forget = self.memory.rows_in(db)?;
        let forgotten = match to_forget == RowsToForget::default() {
            true => Forgotten::default(),
            false => remove(db, &to_forget, self.at)?,
        };
        // After the removal, which would record the current time.
        self.memory.keep_in(db)?;
        Ok(forgotten)
    }
}

/// Removes what was forgotten on another machine. Returns the sessions that lost something.
pub(crate) fn forget_document(
    db: &WriteContext<'_>,
    key: DocumentKey,
    at: Timestamp,
) -> Result<Vec<SessionKey>, StoreError> {
    let to_forget = Reader(db).find_rows_to_forget(&Selection::Documents(vec![key]))?;
    let at = Order { boot: [0; 16], boot_ns: 0, wall: at };
    Ok(remove(db, &to_forget, at)?.touched)
}

/// Removes what was forgotten on another machine of what was said here: that text alone, and nothing of the work on it.
pub(crate) fn forget_own_text(
    db: &WriteContext<'_>,
    key: DocumentKey,
    at: Timestamp,
) -> Result<Vec<SessionKey>, StoreError> {
    let rows = BTreeSet::from([BatchId(key.row)]);
    let to_forget = match key.kind {
        DocumentKind::Response => RowsToForget { responses: rows, ..RowsToForget::default() },
        _ => RowsToForget { prompts: rows, ..RowsToForget::default() },
    };
    let at = Order { boot: [0; 16], boot_ns: 0, wall: at };
    Ok(remove(db, &to_forget, at)?.touched)
}

/// Rows that came from other machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub observations: BTreeSet<ObservationId>,
    pub summaries: BTreeSet<SummaryId>,
    pub plans: BTreeSet<PlanId>,
    pub received_texts: BTreeSet<ReceivedTextId>,
}

/// Removes rows that may come back later.
pub(crate) fn leave(db: &WriteContext<'_>, foreign: Foreign, at: Timestamp) -> Result<(), StoreError> {
    if foreign == Foreign::default() {
        return Ok(());
    }
    let Foreign { observations, summaries, plans, received_texts } = foreign;
    let to_leave = RowsToForget { observations, summaries, plans, received_texts, ..RowsToForget::default() };
    log_documents(db, &to_leave)?;
    remove_rows(db, &to_leave)?;
    forget_titles_given(db, &[])?;
    owe_cleaning(db, at)
}

fn remove(db: &WriteContext<'_>, to_forget: &RowsToForget, at: Order) -> Result<Forgotten, StoreError> {
    let mut touched = to_forget.sessions_of_rows(db)?;
    touched.extend(&to_forget.titles);
    touched.extend(&to_forget.sessions);
    let forgotten = Forgotten {
        counts: to_forget.counts(),
        touched: keys(db, &touched)?,
        sessions: keys(db, &to_forget.sessions)?,
    };
    let to_compress = shared_batches(db, to_forget)?;
    let (concerned, since) = (concerned(db, to_forget)?, earliest(db, to_forget)?);
    log_documents(db, to_forget)?;
    bury_observations(db, to_forget)?;
    copies::remember(db, to_forget, at.wall)?;
    strip_evidence(db, to_forget)?;
    stop_work(db, to_forget, at)?;
    remove_rows(db, to_forget)?;
    log_again(db, &to_forget.former_texts)?;
    for session in &touched {
        // A running call loses its task too, because tasks are not searched.
        db.run(
            "UPDATE running_calls SET task_kind = NULL, task = NULL WHERE session = ?1",
            params![session],
        )?;
    }
    for (session, key) in to_forget.sessions.iter().zip(&forgotten.sessions) {
        bury_session(db, *session, key, at)?;
        db.run("DELETE FROM sessions WHERE id = ?1", params![session])?;
    }
    // Observations that a removed row superseded or settled become active again.
    for (project, subjects) in concerned {
        settle(db, project, &subjects, since)?;
    }
    for project in uncovered(db)? {
        rethread(db, project, &BTreeSet::new())?;
    }
    let to_summarise = being_summarised(db, &touched)?.union(&to_forget.titles).copied().collect();
    summarise_again(db, &to_summarise, at.wall)?;
    for (session, batch) in to_compress {
        queue::enqueue(db, JobKind::Batch, session, Some(batch), at.wall)?;
    }
    forget_titles_given(db, &to_forget.words)?;
    db.run(
        "DELETE FROM projects WHERE id NOT IN (SELECT project FROM sessions)
            AND id NOT IN (SELECT project FROM observations) AND id NOT IN (SELECT project FROM shares)",
        [],
    )?;
    // Other jobs may have waited for the removed ones.
    db.queue_work();
    owe_cleaning(db, at.wall)?;
    Ok(forgotten)
}

/// The projects with observations whose newer statement was removed.
fn uncovered(db: &Connection) -> Result<Vec<ProjectRow>, StoreError> {
    db.all(
        "SELECT DISTINCT project FROM observations WHERE status = 'superseded' AND superseded_by IS NULL",
        [],
    )
}

fn owe_cleaning(db: &Connection, at: Timestamp) -> Result<(), StoreError> {
    db.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", params![TRACES_LEFT, at])
}

/// Removes what was derived from a batch before it became private: its observations, running jobs and the session's
/// summary, which is recomputed from the rest. Must be called before the batch's own texts are removed.
pub(crate) fn withdraw(
    db: &WriteContext<'_>,
    session: SessionRow,
    batch: BatchId,
    at: Timestamp,
) -> Result<(), StoreError> {
    db.run("DELETE FROM jobs WHERE kind = 'batch' AND batch = ?1 AND status <> 'done'", params![batch])?;
    let known = db.update(
        "UPDATE prompt_batches SET compressed_at = NULL
         WHERE id = ?1 AND (compressed_at IS NOT NULL OR response IS NOT NULL)",
        params![batch],
    )?;
    if known == 0 {
        return Ok(());
    }
    replace_observations(db, &NoteOrigin::default(), batch, &BatchResult::default(), DuplicateScope::Batch)?;
    let removed = "DELETE FROM session_summaries WHERE session = ?1 RETURNING id";
    for summary in db.all::<SummaryId>(removed, params![session])? {
        log(db, summary)?;
    }
    // A title given by the agent does not come from the batch, so it stays.
    db.run("UPDATE sessions SET title = NULL WHERE id = ?1 AND named_by IS NULL", params![session])?;
    summarise_again(db, &[session].into(), at)?;
    forget_titles_given(db, &[])?;
    owe_cleaning(db, at)
}

impl Reader<'_> {
    /// Whether forgotten words may remain because the cleanup was not finished.
    pub fn traces_left(self) -> Result<bool, StoreError> {
        self.0.one("SELECT EXISTS (SELECT 1 FROM meta WHERE key = ?1)", [TRACES_LEFT])
    }
}

/// Records that the cleanup is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracesRemoved;

impl Operation for TracesRemoved {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        db.run("DELETE FROM meta WHERE key = ?1", [TRACES_LEFT])
    }
}

/// Returns batches of remaining sessions whose observation was stored in a removed session. They get an observation of
/// their own.
fn shared_batches(
    db: &Connection,
    to_forget: &RowsToForget,
) -> Result<Vec<(SessionRow, BatchId)>, StoreError> {
    db.all(
        "SELECT DISTINCT b.session, b.id FROM observations o
         JOIN observation_sessions l ON l.observation = o.id
         JOIN prompt_batches b ON b.session = l.session AND b.status = 'closed'
         LEFT JOIN activities a ON a.batch = b.id
         JOIN json_each(iif(json_valid(o.evidence), o.evidence, '[]')) e ON e.value IN
            (lower(hex(b.prompt_event)), lower(hex(b.response_event)), lower(hex(a.event_id)))
         WHERE o.session IN (SELECT value FROM json_each(?1)) AND l.session NOT IN (SELECT value FROM json_each(?1))",
        [set(&to_forget.sessions)?],
    )
}

/// Returns the subjects of removed observations, of observations that removed work settled, and of observations that
/// rest on such work. Also removes the settlements, except those of removed batches.
fn concerned(
    db: &Connection,
    to_forget: &RowsToForget,
) -> Result<BTreeMap<ProjectRow, BTreeSet<SubjectHash>>, StoreError> {
    const SETTLES: &str =
        "EXISTS (SELECT 1 FROM json_each(t.evidence) e WHERE e.value IN (SELECT value FROM json_each(?1)))";
    const IS_IT: &str = "t.event IN (SELECT value FROM json_each(?1))";
    const OF_SESSIONS: &str = "b.session IN (SELECT value FROM json_each(?3))";
    let events = serde_json::to_string(&to_forget.events(db)?)?;
    let sql = format!(
        "SELECT project, subject FROM observations
         WHERE subject IS NOT NULL AND id IN (SELECT value FROM json_each(?2))
         UNION SELECT s.project, t.subject FROM settlements t JOIN prompt_batches b ON b.id = t.batch
         JOIN sessions s ON s.id = b.session WHERE {OF_SESSIONS} OR {SETTLES}
         UNION SELECT s.project, t.subject FROM failings t JOIN prompt_batches b ON b.id = t.batch
         JOIN sessions s ON s.id = b.session WHERE {OF_SESSIONS} OR {IS_IT}
         UNION SELECT s.project, p.subject FROM settlements p JOIN prompt_batches b ON b.id = p.batch
         JOIN sessions s ON s.id = b.session WHERE p.how = 'passed' AND s.project IN
            (SELECT t.project FROM changes t JOIN prompt_batches b ON b.id = t.batch WHERE {OF_SESSIONS} OR {IS_IT})"
    );
    let given = params![events, set(&to_forget.observations)?, set(&to_forget.sessions)?];
    let mut concerned: BTreeMap<ProjectRow, BTreeSet<SubjectHash>> = BTreeMap::new();
    for (project, subject) in db.all(&sql, given)? {
        concerned.entry(project).or_default().insert(subject);
    }
    for (table, goes) in [("settlements", SETTLES), ("failings", IS_IT), ("changes", IS_IT)] {
        db.run(&format!("DELETE FROM {table} AS t WHERE {goes}"), [&events])?;
    }
    Ok(concerned)
}

/// The earliest time of the removed rows.
fn earliest(db: &Connection, to_forget: &RowsToForget) -> Result<Timestamp, StoreError> {
    let batches: BTreeSet<BatchId> = to_forget.prompts.union(&to_forget.responses).copied().collect();
    db.one(
        "SELECT ifnull(min(at), 0) FROM (
            SELECT min(created_at) AS at FROM observations WHERE id IN (SELECT value FROM json_each(?1))
            UNION ALL SELECT min(opened_at) FROM prompt_batches WHERE id IN (SELECT value FROM json_each(?2))
               OR session IN (SELECT value FROM json_each(?3))
               OR id IN (SELECT batch FROM activities WHERE id IN (SELECT value FROM json_each(?4))))",
        [
            set(&to_forget.observations)?,
            set(&batches)?,
            set(&to_forget.sessions)?,
            set(&to_forget.activities)?,
        ],
    )
}

fn log_documents(db: &WriteContext<'_>, to_forget: &RowsToForget) -> Result<(), StoreError> {
    to_forget.documents().try_for_each(|key| log(db, key))
}

/// Removes the evidence and files of removed rows from the remaining observations.
fn strip_evidence(db: &Connection, to_forget: &RowsToForget) -> Result<(), StoreError> {
    type Remaining = (ObservationId, Vec<String>, Vec<String>, Vec<String>);
    let events: BTreeSet<String> = to_forget.events(db)?.into_iter().collect();
    let remaining = "SELECT id, evidence, files_read, files_modified FROM observations
         WHERE id IN (SELECT observation FROM observation_sessions
                      WHERE session IN (SELECT value FROM json_each(?1)))
           AND id NOT IN (SELECT value FROM json_each(?2))";
    let given = params![set(&to_forget.sessions)?, set(&to_forget.observations)?];
    db.try_each(remaining, given, |(id, mut evidence, read, modified): Remaining| {
        evidence.retain(|event| !events.contains(event));
        db.run(
            "UPDATE observations SET evidence = ?2 WHERE id = ?1",
            params![id, serde_json::to_string(&evidence)?],
        )?;
        db.run("DELETE FROM observation_files WHERE observation = ?1", params![id])?;
        for (paths, purpose) in [(read, "read"), (modified, "modified")] {
            db.run(
                "INSERT OR IGNORE INTO observation_files (observation, path, use)
                 SELECT ?1, value, ?2 FROM json_each(?3)",
                params![id, purpose, serde_json::to_string(&paths)?],
            )?;
        }
        Ok(())
    })
}

/// Cancels jobs that use removed texts: their result finds no job, and the remaining batches get a new one.
fn stop_work(db: &WriteContext<'_>, to_forget: &RowsToForget, at: Order) -> Result<(), StoreError> {
    let mut batches: BTreeSet<BatchId> = to_forget.prompts.union(&to_forget.responses).copied().collect();
    for (rows, table) in [(set(&to_forget.activities)?, "activities"), (set(&to_forget.asides)?, "asides")] {
        let sql = format!(
            "SELECT batch FROM {table} WHERE batch IS NOT NULL AND id IN (SELECT value FROM json_each(?1))"
        );
        batches.extend(db.all::<BatchId>(&sql, [rows])?);
    }
    // An error may quote a text, and finished work needs no error.
    let of_batches = "kind = 'batch' AND batch IN (SELECT value FROM json_each(?1))";
    db.run(&format!("UPDATE jobs SET error = NULL WHERE {of_batches}"), [set(&batches)?])?;
    let running = format!("SELECT batch FROM jobs WHERE status = 'running' AND {of_batches}");
    for batch in db.all::<BatchId>(&running, [set(&batches)?])? {
        let session = db.one("SELECT session FROM prompt_batches WHERE id = ?1", params![batch])?;
        db.run(
            "DELETE FROM jobs WHERE kind = 'batch' AND batch = ?1 AND status = 'running'",
            params![batch],
        )?;
        queue::enqueue(db, JobKind::Batch, session, Some(batch), at.wall)?;
    }
    Ok(())
}

fn remove_rows(db: &Connection, to_forget: &RowsToForget) -> Result<(), StoreError> {
    fn remove<T: Serialize>(db: &Connection, sql: &str, rows: &BTreeSet<T>) -> Result<(), StoreError> {
        db.run(&format!("{sql} IN (SELECT value FROM json_each(?1))"), [set(rows)?])
    }
    db.run(
        "UPDATE sessions SET activities = activities - (SELECT count(*) FROM activities a
            WHERE a.session = sessions.id AND a.kind = 'tool' AND a.id IN (SELECT value FROM json_each(?1)))
         WHERE id IN (SELECT session FROM activities WHERE id IN (SELECT value FROM json_each(?1)))",
        [set(&to_forget.activities)?],
    )?;
    remove(db, "DELETE FROM activities WHERE id", &to_forget.activities)?;
    remove(db, "DELETE FROM asides WHERE id", &to_forget.asides)?;
    remove(db, "DELETE FROM observations WHERE id", &to_forget.observations)?;
    remove(db, "DELETE FROM hand_changes WHERE observation", &to_forget.former_texts)?;
    // An empty title still shows that a person wrote the text.
    remove(db, "UPDATE observations SET made_as = '' WHERE made_as <> '' AND id", &to_forget.former_texts)?;
    remove(db, "DELETE FROM session_summaries WHERE id", &to_forget.summaries)?;
    remove(db, "DELETE FROM plans WHERE id", &to_forget.plans)?;
    remove(db, "DELETE FROM said_elsewhere WHERE id", &to_forget.received_texts)?;
    remove(db, "UPDATE subagents SET message = NULL WHERE id", &to_forget.subagents)?;
    remove(db, "UPDATE compactions SET summary = NULL WHERE id", &to_forget.compactions)?;
    remove(
        db,
        "UPDATE prompt_batches SET prompt = NULL, branch = NULL, head_commit = NULL, base_commit = NULL WHERE id",
        &to_forget.prompts,
    )?;
    remove(db, "UPDATE prompt_batches SET response = NULL WHERE id", &to_forget.responses)?;
    remove(db, "UPDATE sessions SET title = NULL, named_by = NULL WHERE id", &to_forget.titles)?;
    for event in &to_forget.unparsed {
        db.run("DELETE FROM unparsed WHERE event_id = ?1", [event])?;
    }
    Ok(())
}

/// Returns sessions whose summary is currently being made from texts that may be removed.
fn being_summarised(
    db: &Connection,
    sessions: &BTreeSet<SessionRow>,
) -> Result<BTreeSet<SessionRow>, StoreError> {
    let running = "SELECT session FROM jobs WHERE kind = 'summary' AND status = 'running'
        AND session IN (SELECT value FROM json_each(?1))";
    Ok(db.all(running, [set(sessions)?])?.into_iter().collect())
}

/// Requests new summaries for sessions that lost part of the source.
fn summarise_again(
    db: &WriteContext<'_>,
    sessions: &BTreeSet<SessionRow>,
    at: Timestamp,
) -> Result<(), StoreError> {
    db.run(
        "DELETE FROM jobs WHERE kind = 'summary' AND status = 'running'
            AND session IN (SELECT value FROM json_each(?1))",
        [set(sessions)?],
    )?;
    let with_something_left =
        "SELECT id FROM sessions WHERE id IN (SELECT value FROM json_each(?1)) AND EXISTS
        (SELECT 1 FROM prompt_batches b WHERE b.session = sessions.id AND b.prompt IS NOT NULL)";
    for session in db.all(with_something_left, [set(sessions)?])? {
        queue::enqueue(db, JobKind::Summary, session, None, at)?;
    }
    Ok(())
}

/// Removes titles from injection records: those of missing items and those that contain the words.
fn forget_titles_given(db: &Connection, words: &[String]) -> Result<(), StoreError> {
    let given = "SELECT id, items, file FROM injections";
    db.try_each(given, [], |(id, items, file): (InjectionId, String, Option<String>)| {
        if let Some(items) = without_lost_titles(db, &items, words)? {
            // The record loses its file too. The only effect is that notes on the file may be injected again.
            db.run("UPDATE injections SET items = ?2, file = NULL WHERE id = ?1", params![id, items])?;
        }
        if file.is_some_and(|file| has_all_words(&file, words)) {
            db.run("UPDATE injections SET file = NULL WHERE id = ?1", params![id])?;
        }
        Ok(())
    })
}

/// Returns the items without forgotten titles; `None` if nothing changes.
pub(crate) fn without_lost_titles(
    db: &Connection,
    items: &str,
    words: &[String],
) -> Result<Option<String>, StoreError> {
    let Ok(mut items) = serde_json::from_str::<Vec<Value>>(items) else {
        // The record cannot be parsed.
        return Ok(Some("[]".to_owned()));
    };
    let mut changed = false;
    for item in &mut items {
        let title = item.get("title").and_then(Value::as_str).unwrap_or(FORGOTTEN);
        if title == FORGOTTEN || (is_there(db, item)? && !has_all_words(title, words)) {
            continue;
        }
        changed = true;
        item["title"] = Value::from(FORGOTTEN);
    }
    Ok(if changed { Some(serde_json::to_string(&items)?) } else { None })
}

fn is_there(db: &Connection, item: &Value) -> Result<bool, StoreError> {
    let rows = match item.get("kind").and_then(Value::as_str) {
        Some("observation") => "observations WHERE",
        Some("summary") => "session_summaries WHERE",
        Some("prompt") => "prompt_batches WHERE prompt IS NOT NULL AND",
        Some("response") => "prompt_batches WHERE response IS NOT NULL AND",
        Some("plan") => "plans WHERE",
        Some("activity") => "activities WHERE",
        // The kind is unknown, so the title names no row.
        _ => return Ok(true),
    };
    let id = item.get("id").and_then(Value::as_i64).unwrap_or_default();
    db.one(&format!("SELECT EXISTS (SELECT 1 FROM {rows} id = ?1)"), [id])
}
