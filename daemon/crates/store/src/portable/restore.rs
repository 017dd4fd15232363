//! Imports lines as rows.
//!
//! A file proves nothing about this machine. So its notes have no author here and no pin, it cannot merge projects,
//! and it does not prove where a project is. The exception is a file that the user declares as their own. Each value
//! is checked before it is stored.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params_from_iter};
use serde_json::{Value, json};

use crate::database::bind::params;
use crate::database::row::Sql;
use crate::forgetting::{CopyOf, forgotten_at, is_forgotten};
use crate::notes::threads;
use crate::notes::threads::thread_words_of;
use crate::operation::{Operation, WriteContext, log};
use crate::portable::tables::{Form, RowKind, TABLES, Table, key_of};
use crate::portable::value::{Given, given};
use crate::questions::projects;
use crate::sessions::lineage;
use crate::{Reader, StoreError, sharing};
use recall_domain::document::{DocumentKey, Status};
use recall_domain::ids::{
    BatchId, ObservationId, ProjectKey, ProjectRow, SessionId, SessionKey, SessionRow, Timestamp,
};
use recall_domain::observation::NoteOrigin;
use recall_domain::plan::PlanKind;
use recall_domain::sync::kind::{plan_of, summary_of};

/// Stores lines of an export. Existing rows stay unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreRows {
    pub lines: Vec<Value>,
    pub trust: Trust,
    pub at: Timestamp,
}

/// How much to trust the lines of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Anybody may have written them.
    Nothing,
    /// They name projects, and mean the local project with that name.
    ProjectNames,
    /// They are the user's own: pins, other identities of projects, folders, and authors of notes are accepted.
    All,
}

/// The numbers of lines by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Counts by kind of line.
    pub added: BTreeMap<String, u64>,
    /// Lines that were already stored.
    pub known: u64,
    /// Lines of an unknown kind, or that refer to an omitted row.
    pub skipped: u64,
    /// Lines whose item was forgotten here.
    pub forgotten: u64,
    /// Lines with an invalid value for a field, by `KIND.FIELD`.
    pub unfit: BTreeMap<String, u64>,
    /// Notes whose pin at their source was not taken over.
    pub unpinned: u64,
    /// Other identities of projects that were not taken over.
    pub aliases: u64,
    /// Notes whose author at their source was not taken over.
    pub unsigned: u64,
}

enum Outcome {
    Added,
    Known,
    Skipped,
    Forgotten,
    Unfit(&'static str),
}

impl Operation for RestoreRows {
    type Output = Restored;

    fn execute(self, db: &WriteContext<'_>) -> Result<Restored, StoreError> {
        let mut restored = Restored::default();
        let mut observations: BTreeMap<ProjectRow, BTreeSet<ObservationId>> = BTreeMap::new();
        for line in &self.lines {
            let kind = line["kind"].as_str().unwrap_or_default();
            let outcome = match kind {
                "project" => restore_project(db, line, self.trust, self.at)?,
                "superseded" => restore_superseded(db, line)?,
                kind => match TABLES.iter().find(|table| table.kind.as_str() == kind) {
                    Some(table) => restore(db, table, line, self.trust, &mut observations)?,
                    None => Outcome::Skipped,
                },
            };
            match outcome {
                Outcome::Added => {
                    *restored.added.entry(kind.to_owned()).or_default() += 1;
                    if self.trust != Trust::All && kind == "observation" {
                        restored.unpinned += u64::from(!line["pinned_at"].is_null());
                        restored.unsigned += u64::from(line["origin"] == NoteOrigin::USER);
                    }
                }
                Outcome::Known => restored.known += 1,
                Outcome::Skipped => restored.skipped += 1,
                Outcome::Forgotten => restored.forgotten += 1,
                Outcome::Unfit(field) => {
                    *restored.unfit.entry(format!("{kind}.{field}")).or_default() += 1;
                }
            }
            if kind == "project" {
                let by_name = line["by_name"] == true && self.trust != Trust::ProjectNames;
                restored.aliases += unknown_aliases(db, line)? + u64::from(by_name);
            }
        }
        for (project, ids) in observations {
            threads::rethread(db, project, &ids)?;
        }
        Ok(restored)
    }
}

fn restore_project(
    db: &WriteContext<'_>,
    line: &Value,
    trust: Trust,
    at: Timestamp,
) -> Result<Outcome, StoreError> {
    let (Some(Given::Text(key)), Some(Given::Text(name))) =
        (given(Form::Name, &line["key"]), given(Form::Name, &line["name"]))
    else {
        return Ok(Outcome::Unfit("key"));
    };
    let mut identities = vec![ProjectKey::from(key.as_str())];
    // Other tools know a project only by name: the key is `TOOL:NAME`.
    let is_a_name = key.split_once(':').is_some_and(|(tool, rest)| rest == name && !tool.contains('/'));
    if line["by_name"] == true && is_a_name && trust == Trust::ProjectNames {
        let named: Vec<ProjectKey> = db.all("SELECT key FROM projects WHERE name = ?1", [name.as_str()])?;
        if let [only] = named.as_slice() {
            identities.insert(0, only.clone());
        }
    }
    if trust == Trust::All {
        let aliases = line["aliases"].as_array().into_iter().flatten();
        identities.extend(aliases.filter_map(Value::as_str).map(ProjectKey::from));
    }
    let count = |db: &WriteContext<'_>| db.one::<i64>("SELECT count(*) FROM projects", []);
    let before = count(db)?;
    let at = match given(Form::Time, &line["created_at"]) {
        Some(Given::Number(at)) => Timestamp(at),
        _ => at,
    };
    projects::resolve(db, &identities, &name, at)?;
    Ok(if count(db)? > before { Outcome::Added } else { Outcome::Known })
}

/// Counts identities that a file gives to a project and that the project does not have here. A file can claim
/// anything.
fn unknown_aliases(db: &Connection, line: &Value) -> Result<u64, StoreError> {
    let mut unknown = 0;
    for alias in line["aliases"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let is_known: bool = db.one(
            "SELECT EXISTS (SELECT 1 FROM project_aliases WHERE alias = ?1 AND project IN
                 (SELECT project FROM project_aliases WHERE alias = ?2))",
            [alias, line["key"].as_str().unwrap_or_default()],
        )?;
        unknown += u64::from(!is_known);
    }
    Ok(unknown)
}

fn restore_superseded(db: &WriteContext<'_>, line: &Value) -> Result<Outcome, StoreError> {
    let (Some(old), Some(new)) = (line["uuid"].as_str(), line["by"].as_str()) else {
        return Ok(Outcome::Skipped);
    };
    let changed = db.update(
        "UPDATE observations SET superseded_by = (SELECT id FROM observations WHERE uuid = ?2)
         WHERE uuid = ?1 AND superseded_by IS NULL AND status = 'superseded'",
        [old, new],
    )?;
    Ok(if changed > 0 { Outcome::Added } else { Outcome::Known })
}

fn restore(
    db: &WriteContext<'_>,
    table: &Table,
    line: &Value,
    trust: Trust,
    observations: &mut BTreeMap<ProjectRow, BTreeSet<ObservationId>>,
) -> Result<Outcome, StoreError> {
    if was_forgotten(db, table, line)? {
        return Ok(Outcome::Forgotten);
    }
    let NewRow { columns, values, session, project } = match read_row(db, table, line, trust)? {
        Ok(row) => row,
        Err(outcome) => return Ok(outcome),
    };
    if matches!(
        table.kind,
        RowKind::Event
            | RowKind::Prompt
            | RowKind::Call
            | RowKind::Summary
            | RowKind::Plan
            | RowKind::Compaction
            | RowKind::Subagent
    ) && session.is_none()
    {
        return Ok(Outcome::Skipped);
    }
    // A compaction has no name of its own to compare.
    if table.kind == RowKind::Compaction && is_known_compaction(db, session, line)? {
        return Ok(Outcome::Known);
    }
    if let Some(session) = session {
        match table.kind {
            RowKind::Summary => sharing::claim_summary(db, session)?,
            RowKind::Plan if line["plan_kind"] == PlanKind::Plan.as_str() => {
                sharing::claim_plan(db, session, line["path"].as_str().unwrap_or_default())?;
            }
            _ => {}
        }
    }
    let places: Vec<_> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
    let sql = format!(
        "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING",
        table.name,
        columns.join(", "),
        places.join(", ")
    );
    match db.update(&sql, params_from_iter(values)) {
        Ok(0) if table.kind == RowKind::Observation && trust == Trust::All => return claim(db, line),
        Ok(0) => return Ok(Outcome::Known),
        Ok(_) => {}
        Err(error) if error.violated().is_some() => return Ok(Outcome::Skipped),
        Err(error) => return Err(error),
    }
    let row = db.last_insert_rowid();
    for (document, column) in table.documents {
        if !line[*column].is_null() {
            log(db, DocumentKey { kind: *document, row })?;
        }
    }
    if table.kind == RowKind::Observation {
        let id = ObservationId(row);
        complete_observation(db, id, line)?;
        observations.entry(project.unwrap_or(ProjectRow(0))).or_default().insert(id);
    }
    Ok(Outcome::Added)
}

/// The values of a line, by column, with the rows that it belongs to.
#[derive(Default)]
struct NewRow {
    columns: Vec<&'static str>,
    values: Vec<Given>,
    session: Option<SessionRow>,
    project: Option<ProjectRow>,
}

/// Reads the values of a line, or says why it is not imported.
fn read_row(
    db: &WriteContext<'_>,
    table: &Table,
    line: &Value,
    trust: Trust,
) -> Result<Result<NewRow, Outcome>, StoreError> {
    let mut row = NewRow::default();
    for (column, form) in table.columns {
        let value = &line[key_of(table, column)];
        let given = match (form, value) {
            (Form::Session, Value::String(name)) => {
                row.session = session_row(db, name)?;
                // The session was forgotten or excluded.
                let Some(session) = row.session else { return Ok(Err(Outcome::Skipped)) };
                Given::Number(session.0)
            }
            (Form::Project, Value::String(key)) => {
                // A session's items belong to its project, whichever project the line names.
                let project = match row.session {
                    Some(session) => {
                        db.one("SELECT project FROM sessions WHERE id = ?1", params![session])?
                    }
                    None => projects::resolve(db, &[ProjectKey::from(key.as_str())], key, Timestamp(0))?,
                };
                row.project = Some(project);
                Given::Number(project.0)
            }
            (Form::Batch, Value::Number(seq)) => match batch_row(db, row.session, seq.as_i64())? {
                Some(batch) => Given::Number(batch.0),
                None => Given::Null,
            },
            (Form::Session | Form::Project | Form::Batch, Value::Null) => Given::Null,
            (_, value) => {
                let value = stated(table, column, value, line, trust);
                match given(*form, &value) {
                    Some(given) => given,
                    None => return Ok(Err(Outcome::Unfit(key_of(table, column)))),
                }
            }
        };
        // A missing field gets the column's default.
        if !matches!(given, Given::Null) {
            row.columns.push(*column);
            row.values.push(given);
        }
    }
    Ok(Ok(row))
}

/// Restores the pin, the review and the author of a note, which an earlier import did not trust.
fn claim(db: &WriteContext<'_>, line: &Value) -> Result<Outcome, StoreError> {
    let time = |key: &str| line[key].as_i64();
    db.run(
        "UPDATE observations SET pinned_at = ifnull(pinned_at, ?3), reviewed_at = ifnull(reviewed_at, ?5),
                rejected_at = ifnull(rejected_at, ?6), origin = ?2 WHERE uuid = ?1 AND origin = ?4 || ?2",
        params![
            line["uuid"].as_str(),
            line["origin"].as_str(),
            time("pinned_at"),
            NoteOrigin::IMPORTED,
            time("reviewed_at"),
            time("rejected_at")
        ],
    )?;
    Ok(Outcome::Known)
}

fn is_known_compaction(
    db: &Connection,
    session: Option<SessionRow>,
    line: &Value,
) -> Result<bool, StoreError> {
    let text = |key: &str| line[key].as_str().map(str::to_lowercase);
    db.one(
        "SELECT EXISTS (SELECT 1 FROM compactions WHERE session = ?1 AND started_at IS ?2 AND ended_at IS ?3
            AND lower(nullif(hex(event_id), '')) IS ?4 AND lower(nullif(hex(end_event), '')) IS ?5)",
        params![
            session,
            line["started_at"].as_i64(),
            line["ended_at"].as_i64(),
            text("event_id"),
            text("end_event")
        ],
    )
}

/// Whether the item in a line was forgotten here.
fn was_forgotten(db: &Connection, table: &Table, line: &Value) -> Result<bool, StoreError> {
    let session = match table.kind {
        RowKind::Session => session_key_of(line),
        _ => line["session"]
            .as_str()
            .and_then(|name| name.split_once(':'))
            .map(|(agent, id)| SessionKey { agent: agent.into(), id: id.into() }),
    };
    if let Some(session) = &session
        && is_forgotten(db, session)?
    {
        return Ok(true);
    }
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    let events =
        ["event_id", "prompt_event", "message_event", "end_event"].map(|key| text(key).to_lowercase());
    // Its name on other machines, where it may have been forgotten.
    let shared = match (table.kind, &session) {
        (RowKind::Summary, Some(session)) => summary_of(session),
        (RowKind::Plan, Some(session)) => plan_of(session, text("path")),
        _ => String::new(),
    };
    let mut copies: Vec<CopyOf<'_>> = match (table.kind, &session) {
        (RowKind::Observation, _) => vec![
            CopyOf::Uuid(text("uuid")),
            CopyOf::Statement { title: text("title"), text: text("narrative") },
        ],
        (RowKind::Summary, Some(session)) => vec![CopyOf::Summary(session), CopyOf::Uuid(&shared)],
        (RowKind::Plan, Some(session)) => {
            vec![CopyOf::Plan { session, kind: text("plan_kind"), path: text("path") }, CopyOf::Uuid(&shared)]
        }
        (RowKind::Prompt, Some(session)) => {
            vec![CopyOf::Prompt { session, seq: line["seq"].as_i64().unwrap_or_default() }]
        }
        _ => Vec::new(),
    };
    // An event without text only leaves its id here.
    if table.kind != RowKind::Event {
        copies.extend(events.iter().filter(|event| !event.is_empty()).map(|event| CopyOf::Event(event)));
    }
    // Summaries and plans are made repeatedly, so they may be stored elsewhere later.
    let made = line["updated_at"]
        .as_i64()
        .or(line["created_at"].as_i64())
        .filter(|_| table.kind != RowKind::Observation);
    for copy in copies {
        let at = forgotten_at(db, copy)?;
        if at.is_some_and(|at| made.is_none_or(|made| made <= at.0)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the stored value of a field: the line's value if valid, or else the default.
fn stated<'a>(
    table: &Table,
    column: &str,
    value: &'a Value,
    line: &'a Value,
    trust: Trust,
) -> Cow<'a, Value> {
    let owned = |value: Value| Cow::Owned(value);
    match (table.kind, column, value) {
        // A session of another machine does not run here, and its prompts are already compressed or never will be.
        (RowKind::Session, "status", _) => owned(json!("completed")),
        (RowKind::Session, "root", _)
        | (RowKind::Observation, "pinned_at" | "reviewed_at" | "rejected_at", _)
            if trust != Trust::All =>
        {
            owned(Value::Null)
        }
        (RowKind::Session, "ended_at", Value::Null) => Cow::Borrowed(&line["last_event_at"]),
        (RowKind::Prompt, "status", _) => owned(json!("closed")),
        (RowKind::Prompt, "closed_at" | "compressed_at", Value::Null) => Cow::Borrowed(&line["opened_at"]),
        (RowKind::Observation | RowKind::Summary, "origin", origin) => match origin.as_str() {
            Some(_) if trust == Trust::All => Cow::Borrowed(value),
            Some(origin) if NoteOrigin::from(origin).is_imported() => owned(json!(origin)),
            Some(origin) => owned(json!(NoteOrigin::imported(origin))),
            None => owned(json!(NoteOrigin::imported("recall"))),
        },
        (_, "life", Value::Null) => owned(json!(1)),
        (RowKind::Observation | RowKind::Summary, _, Value::Null) => {
            let form = table.columns.iter().find(|(name, _)| *name == column).map(|(_, form)| *form);
            match form {
                Some(Form::Text) if !["subtitle", "made_as", "author", "device"].contains(&column) => {
                    owned(json!(""))
                }
                Some(Form::Texts | Form::Paths | Form::Events) => owned(json!([])),
                _ => Cow::Borrowed(value),
            }
        }
        _ => Cow::Borrowed(value),
    }
}

/// Derives the values that follow from an observation's own columns.
fn complete_observation(db: &WriteContext<'_>, id: ObservationId, line: &Value) -> Result<(), StoreError> {
    let texts = |key: &str| line[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    for (key, usage) in [("files_read", "read"), ("files_modified", "modified")] {
        for path in texts(key) {
            db.run("INSERT OR IGNORE INTO observation_files VALUES (?1, ?2, ?3)", params![id, path, usage])?;
        }
    }
    let statement_texts =
        ["title", "narrative"].into_iter().filter_map(|key| line[key].as_str()).chain(texts("facts"));
    db.run(
        "UPDATE observations SET words = ?2, own_evidence = evidence, own_importance = importance WHERE id = ?1",
        params![id, thread_words_of(statement_texts)],
    )?;
    // The status follows from rows that a file does not contain.
    if line["status"] == Status::Resolved.as_str() {
        lineage::resolve_by_hand(db, id)?;
    }
    Ok(())
}

fn session_key_of(line: &Value) -> Option<SessionKey> {
    let (agent, id) = (line["agent"].as_str()?, line["session_id"].as_str()?);
    Some(SessionKey { agent: agent.into(), id: SessionId(id.to_owned()) })
}

impl Reader<'_> {
    /// The folder of a session that a line names, if it is known.
    pub fn folder_of(self, session: &str) -> Result<Option<String>, StoreError> {
        let Some((agent, id)) = session.split_once(':') else { return Ok(None) };
        let folder: Option<Option<String>> = self.0.first(
            "SELECT ifnull(root, cwd) FROM sessions WHERE agent = ?1 AND session_id = ?2",
            [agent, id],
        )?;
        Ok(folder.flatten())
    }
}

fn session_row(db: &Connection, name: &str) -> Result<Option<SessionRow>, StoreError> {
    let Some((agent, id)) = name.split_once(':') else { return Ok(None) };
    db.first("SELECT id FROM sessions WHERE agent = ?1 AND session_id = ?2", [agent, id])
}

fn batch_row(
    db: &Connection,
    session: Option<SessionRow>,
    seq: Option<i64>,
) -> Result<Option<BatchId>, StoreError> {
    db.first("SELECT id FROM prompt_batches WHERE session = ?1 AND seq = ?2", params![session, seq])
}
