//! Rows as lines of JSON that another memory can take: what `recall export` writes and `recall import` reads.
//!
//! A line names other rows by what they are everywhere: a session by its agent and id, a prompt by its place in the session, a
//! project by its identity, an observation by its uuid. What belongs to this machine's work alone stays here: jobs,
//! injections, vectors, costs.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, ToSql, params_from_iter};
use serde_json::{Map, Value, json};

use super::forgetting::is_forgotten;
use super::operation::{Operation, WriteContext, log};
use super::row::Sql;
use super::text::{Packed, Unpacked};
use super::threads::{self, thread_words_of};
use super::{StoreError, projects};
use crate::memory::document::DocumentKind;
use crate::memory::ids::{ProjectKey, ProjectRow, SessionId, SessionKey, Timestamp};

/// How a column stands in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As it is: a number, a name, a time in milliseconds since 1970.
    Plain,
    /// Words of a person or an agent.
    Text,
    /// The same, compressed where it is long.
    LongText,
    /// Bytes as hexadecimal digits.
    Bytes,
    /// JSON.
    Json,
    /// JSON with words of a person or an agent in it.
    JsonText,
    /// `AGENT:ID`.
    Session,
    /// The place of a prompt in its session.
    Batch,
    /// The identity of a project.
    Project,
}

struct Table {
    /// What a line of it says it is.
    kind: &'static str,
    name: &'static str,
    columns: &'static [(&'static str, Form)],
    /// Pages end where this changes.
    page: &'static str,
    /// SQL: the project and the time by which a filter chooses.
    project: &'static str,
    time: &'static str,
    /// The documents of a row, and the column that each needs.
    documents: &'static [(DocumentKind, &'static str)],
}

const OF_SESSION: &str = "(SELECT s.project FROM sessions s WHERE s.id = t.session)";
const HEARD: &str = "(SELECT s.last_event_at FROM sessions s WHERE s.id = t.session)";

/// In this order, because a row may name rows of the tables before it.
const TABLES: &[Table] = &[
    Table {
        kind: "session",
        name: "sessions",
        columns: &[
            ("agent", Form::Plain),
            ("session_id", Form::Plain),
            ("project", Form::Project),
            ("root", Form::Plain),
            ("cwd", Form::Plain),
            ("status", Form::Plain),
            ("reason", Form::Plain),
            ("title", Form::Text),
            ("life", Form::Plain),
            ("prompts", Form::Plain),
            ("activities", Form::Plain),
            ("started_at", Form::Plain),
            ("last_event_at", Form::Plain),
            ("ended_at", Form::Plain),
            ("life_started_at", Form::Plain),
            ("resumed_from", Form::Plain),
        ],
        page: "t.id",
        project: "t.project",
        time: "t.last_event_at",
        documents: &[],
    },
    Table {
        // The events that made a session, so that none of them is stored again.
        kind: "event",
        name: "deliveries",
        columns: &[
            ("event_id", Form::Bytes),
            ("session", Form::Session),
            ("key", Form::Bytes),
            ("agent", Form::Plain),
            ("event_name", Form::Plain),
            ("captured_at", Form::Plain),
            ("boot_id", Form::Bytes),
            ("boot_ns", Form::Plain),
            ("flags", Form::Plain),
            ("stored_at", Form::Plain),
        ],
        page: "t.session",
        project: OF_SESSION,
        time: HEARD,
        documents: &[],
    },
    Table {
        kind: "prompt",
        name: "prompt_batches",
        columns: &[
            ("session", Form::Session),
            ("seq", Form::Plain),
            ("prompt_number", Form::Plain),
            ("source", Form::Plain),
            ("status", Form::Plain),
            ("close_reason", Form::Plain),
            ("prompt_id", Form::Plain),
            ("prompt", Form::LongText),
            ("prompt_event", Form::Bytes),
            ("response", Form::LongText),
            ("response_event", Form::Bytes),
            ("opened_at", Form::Plain),
            ("closed_at", Form::Plain),
            ("compressed_at", Form::Plain),
            ("branch", Form::Plain),
            ("head_commit", Form::Plain),
            ("base_commit", Form::Plain),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: HEARD,
        documents: &[(DocumentKind::Prompt, "prompt"), (DocumentKind::Response, "response")],
    },
    Table {
        kind: "call",
        name: "activities",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("event_id", Form::Bytes),
            ("kind", Form::Plain),
            ("tool_name", Form::Plain),
            ("tool_use_id", Form::Plain),
            ("subagent", Form::Plain),
            ("subagent_type", Form::Plain),
            ("failed", Form::Plain),
            ("duration_ms", Form::Plain),
            ("input", Form::LongText),
            ("response", Form::LongText),
            ("at", Form::Plain),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: HEARD,
        documents: &[(DocumentKind::Activity, "tool_name")],
    },
    Table {
        kind: "observation",
        name: "observations",
        columns: &[
            ("uuid", Form::Plain),
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("project", Form::Project),
            ("type", Form::Plain),
            ("title", Form::Text),
            ("subtitle", Form::Text),
            ("narrative", Form::Text),
            ("facts", Form::JsonText),
            ("concepts", Form::JsonText),
            ("files_read", Form::Json),
            ("files_modified", Form::Json),
            ("importance", Form::Plain),
            ("status", Form::Plain),
            ("evidence", Form::Json),
            ("origin", Form::Plain),
            ("tokens_saved", Form::Plain),
            ("created_at", Form::Plain),
            ("subject", Form::Bytes),
        ],
        page: "t.id",
        project: "t.project",
        time: "t.created_at",
        documents: &[(DocumentKind::Observation, "title")],
    },
    Table {
        kind: "summary",
        name: "session_summaries",
        columns: &[
            ("session", Form::Session),
            ("project", Form::Project),
            ("title", Form::Text),
            ("request", Form::Text),
            ("investigated", Form::Text),
            ("learned", Form::Text),
            ("completed", Form::Text),
            ("next_steps", Form::Text),
            ("notes", Form::Text),
            ("origin", Form::Plain),
            ("created_at", Form::Plain),
        ],
        page: "t.id",
        project: "t.project",
        time: HEARD,
        documents: &[(DocumentKind::Summary, "title")],
    },
    Table {
        kind: "plan",
        name: "plans",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("kind", Form::Plain),
            ("path", Form::Plain),
            ("title", Form::Text),
            ("text", Form::LongText),
            ("state", Form::Plain),
            ("event_id", Form::Bytes),
            ("created_at", Form::Plain),
            ("updated_at", Form::Plain),
            ("tasks", Form::JsonText),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: HEARD,
        documents: &[(DocumentKind::Plan, "title")],
    },
    Table {
        kind: "compaction",
        name: "compactions",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("trigger", Form::Plain),
            ("message_count", Form::Plain),
            ("messages_since_last", Form::Plain),
            ("summary", Form::LongText),
            ("started_at", Form::Plain),
            ("ended_at", Form::Plain),
            ("event_id", Form::Bytes),
            ("end_event", Form::Bytes),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: HEARD,
        documents: &[(DocumentKind::Compaction, "summary")],
    },
    Table {
        kind: "subagent",
        name: "subagents",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("agent_id", Form::Plain),
            ("agent_type", Form::Plain),
            ("message", Form::LongText),
            ("message_event", Form::Bytes),
            ("started_at", Form::Plain),
            ("ended_at", Form::Plain),
            ("event_id", Form::Bytes),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: HEARD,
        documents: &[],
    },
];

fn key_of(table: &Table, column: &'static str) -> &'static str {
    match (table.kind, column) {
        (_, "batch") => "prompt",
        // `kind` is the line's own.
        ("plan", "kind") => "plan_kind",
        ("call", "kind") => "call_kind",
        _ => column,
    }
}

/// Where a page of an export begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStart {
    pub table: u32,
    pub after: i64,
}

/// What of the memory is exported.
#[derive(Clone, Debug, Default)]
pub struct Portion {
    /// `None`: all.
    pub projects: Option<Vec<ProjectRow>>,
    pub since: Option<Timestamp>,
}

/// The next lines, about so many bytes of them, and where the page after them begins; `None` at the end.
pub fn export_page(
    db: &Connection,
    portion: &Portion,
    cursor: PageStart,
    bytes: usize,
) -> Result<(Vec<String>, Option<PageStart>), StoreError> {
    let mut lines = Vec::new();
    // Projects come first, all at once: there are few.
    if cursor == PageStart::default() {
        project_lines(db, portion, &mut lines)?;
    }
    let mut length = 0;
    let mut at = cursor;
    while let Some(table) = TABLES.get(at.table as usize) {
        let sql = select(table);
        let mut find = db.prepare_cached(&sql)?;
        let projects = portion
            .projects
            .as_ref()
            .map(|rows| json!(rows.iter().map(|row| row.0).collect::<Vec<_>>()).to_string());
        let mut rows =
            find.query(rusqlite::params![at.after, projects, portion.since.map(|since| since.0)])?;
        while let Some(row) = rows.next()? {
            let page: i64 = row.get(table.columns.len())?;
            if length > bytes && page != at.after {
                return Ok((lines, Some(at)));
            }
            at.after = page;
            let line = line(table, row)?.to_string();
            length += line.len();
            lines.push(line);
        }
        at = PageStart { table: at.table + 1, after: 0 };
    }
    superseded_lines(db, portion, &mut lines)?;
    Ok((lines, None))
}

fn select(table: &Table) -> String {
    let columns = table.columns.iter().map(|(column, form)| match form {
        Form::Session => {
            "(SELECT s.agent || ':' || s.session_id FROM sessions s WHERE s.id = t.session)".to_owned()
        }
        Form::Batch => "(SELECT b.seq FROM prompt_batches b WHERE b.id = t.batch)".to_owned(),
        Form::Project => "(SELECT p.key FROM projects p WHERE p.id = t.project)".to_owned(),
        _ => format!("t.{column}"),
    });
    let columns: Vec<_> = columns.collect();
    let Table { name, page, project, time, .. } = table;
    format!(
        "SELECT {}, {page} FROM {name} t WHERE {page} > ?1 AND (?2 IS NULL OR {project} IN (SELECT value FROM json_each(?2)))
         AND (?3 IS NULL OR {time} >= ?3) ORDER BY {page}",
        columns.join(", ")
    )
}

fn line(table: &Table, row: &Row<'_>) -> Result<Value, StoreError> {
    let mut line = Map::new();
    line.insert("kind".to_owned(), json!(table.kind));
    for (number, (column, form)) in table.columns.iter().enumerate() {
        let raw = row.get_ref(number)?;
        if raw == ValueRef::Null {
            continue;
        }
        let value = match form {
            Form::LongText => json!(row.get::<_, Unpacked>(number)?.0),
            Form::Bytes => json!(hex(row.get_ref(number)?.as_blob().unwrap_or_default())),
            Form::Json | Form::JsonText => serde_json::from_str(&row.get::<_, String>(number)?)?,
            _ => match raw {
                ValueRef::Integer(number) => json!(number),
                ValueRef::Real(number) => json!(number),
                ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
                ValueRef::Blob(bytes) => json!(hex(bytes)),
                ValueRef::Null => Value::Null,
            },
        };
        line.insert(key_of(table, column).to_owned(), value);
    }
    Ok(Value::Object(line))
}

fn project_lines(db: &Connection, portion: &Portion, lines: &mut Vec<String>) -> Result<(), StoreError> {
    let mut find = db.prepare("SELECT id, key, name, created_at FROM projects ORDER BY id")?;
    let mut rows = find.query([])?;
    while let Some(row) = rows.next()? {
        let id = ProjectRow(row.get(0)?);
        if portion.projects.as_ref().is_some_and(|wanted| !wanted.contains(&id)) {
            continue;
        }
        let aliases: Vec<ProjectKey> =
            db.all("SELECT alias FROM project_aliases WHERE project = ?1 ORDER BY alias", [id.0])?;
        let aliases: Vec<_> = aliases.iter().map(ProjectKey::as_str).collect();
        let (key, name): (String, String) = (row.get(1)?, row.get(2)?);
        let line = json!({"kind": "project", "key": key, "name": name, "aliases": aliases,
                          "created_at": row.get::<_, i64>(3)?});
        lines.push(line.to_string());
    }
    Ok(())
}

/// Last, because both observations must be there.
fn superseded_lines(db: &Connection, portion: &Portion, lines: &mut Vec<String>) -> Result<(), StoreError> {
    let mut find = db.prepare(
        "SELECT o.uuid, n.uuid, o.project FROM observations o JOIN observations n ON n.id = o.superseded_by ORDER BY o.id",
    )?;
    let mut rows = find.query([])?;
    while let Some(row) = rows.next()? {
        let project = ProjectRow(row.get(2)?);
        if portion.projects.as_ref().is_none_or(|wanted| wanted.contains(&project)) {
            let (old, new): (String, String) = (row.get(0)?, row.get(1)?);
            lines.push(json!({"kind": "superseded", "uuid": old, "by": new}).to_string());
        }
    }
    Ok(())
}

/// The fields of a line with words of a person or an agent.
pub fn text_fields(kind: &str) -> impl Iterator<Item = &'static str> {
    let table = TABLES.iter().find(move |table| table.kind == kind);
    table.into_iter().flat_map(|table| {
        let texts = [Form::Text, Form::LongText, Form::JsonText];
        let columns = table.columns.iter().filter(move |(_, form)| texts.contains(form));
        columns.map(|(column, _)| key_of(table, column))
    })
}

/// Stores lines of an export. What is here already stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreRows {
    pub lines: Vec<Value>,
    pub at: Timestamp,
}

/// What became of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// By the kind of line.
    pub added: BTreeMap<String, u64>,
    /// They were here before.
    pub known: u64,
    /// Of an unknown kind, damaged, or of something that is not here: forgotten, or left out.
    pub skipped: u64,
}

enum Outcome {
    Added,
    Known,
    Skipped,
}

impl Operation for RestoreRows {
    type Output = Restored;

    fn execute(self, db: &WriteContext<'_>) -> Result<Restored, StoreError> {
        let mut restored = Restored::default();
        let mut observations: BTreeMap<ProjectRow, BTreeSet<i64>> = BTreeMap::new();
        for line in &self.lines {
            let kind = line["kind"].as_str().unwrap_or_default();
            let outcome = match kind {
                "project" => restore_project(db, line, self.at)?,
                "superseded" => restore_superseded(db, line)?,
                kind => match TABLES.iter().find(|table| table.kind == kind) {
                    Some(table) => restore(db, table, line, &mut observations)?,
                    None => Outcome::Skipped,
                },
            };
            match outcome {
                Outcome::Added => *restored.added.entry(kind.to_owned()).or_default() += 1,
                Outcome::Known => restored.known += 1,
                Outcome::Skipped => restored.skipped += 1,
            }
        }
        for (project, ids) in observations {
            threads::rethread(db, project, &ids)?;
        }
        Ok(restored)
    }
}

fn restore_project(db: &WriteContext<'_>, line: &Value, at: Timestamp) -> Result<Outcome, StoreError> {
    let (Some(key), Some(name)) = (line["key"].as_str(), line["name"].as_str()) else {
        return Ok(Outcome::Skipped);
    };
    let aliases = line["aliases"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let identities: Vec<ProjectKey> = [key].into_iter().chain(aliases).map(ProjectKey::from).collect();
    // Other tools know a project by its name alone.
    let mut identities = identities;
    if line["by_name"] == true {
        let named: Vec<ProjectKey> = db.all("SELECT key FROM projects WHERE name = ?1", [name])?;
        if let [only] = named.as_slice() {
            identities.insert(0, only.clone());
        }
    }
    let count = |db: &WriteContext<'_>| db.one::<i64>("SELECT count(*) FROM projects", []);
    let before = count(db)?;
    let at = line["created_at"].as_i64().map_or(at, Timestamp);
    projects::resolve(db, &identities, name, at)?;
    Ok(if count(db)? > before { Outcome::Added } else { Outcome::Known })
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

/// A value for a column.
enum Given {
    Null,
    Number(i64),
    Text(String),
    LongText(String),
    Bytes(Vec<u8>),
}

impl ToSql for Given {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Null => Ok(ToSqlOutput::from(rusqlite::types::Null)),
            Self::Number(number) => Ok(ToSqlOutput::from(*number)),
            Self::Text(text) => Ok(ToSqlOutput::from(text.as_str())),
            Self::LongText(text) => match Packed(text).to_sql()? {
                ToSqlOutput::Owned(owned) => Ok(ToSqlOutput::Owned(owned)),
                _ => Ok(ToSqlOutput::from(text.as_str())),
            },
            Self::Bytes(bytes) => Ok(ToSqlOutput::from(bytes.as_slice())),
        }
    }
}

fn restore(
    db: &WriteContext<'_>,
    table: &Table,
    line: &Value,
    observations: &mut BTreeMap<ProjectRow, BTreeSet<i64>>,
) -> Result<Outcome, StoreError> {
    if table.kind == "session"
        && session_key_of(line).is_none_or(|key| is_forgotten(db, &key).unwrap_or(true))
    {
        return Ok(Outcome::Skipped);
    }
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    let mut session = None;
    let mut project = None;
    for (column, form) in table.columns {
        let value = &line[key_of(table, column)];
        let given = match (form, value) {
            (Form::Session, Value::String(name)) => {
                session = session_row(db, name)?;
                // It was forgotten, or nobody wanted it.
                let Some(row) = session else { return Ok(Outcome::Skipped) };
                Given::Number(row)
            }
            (Form::Project, Value::String(key)) => {
                // What belongs to a session belongs to its project, whatever that is called elsewhere.
                let row = match session {
                    Some(session) => db.one("SELECT project FROM sessions WHERE id = ?1", [session])?,
                    None => projects::resolve(db, &[ProjectKey::from(key.as_str())], key, Timestamp(0))?,
                };
                project = Some(row);
                Given::Number(row.0)
            }
            (Form::Batch, Value::Number(seq)) => match batch_row(db, session, seq.as_i64())? {
                Some(row) => Given::Number(row),
                None => Given::Null,
            },
            (_, value) => given(table, column, *form, value, line),
        };
        // What a line does not say has the default of its column.
        if !matches!(given, Given::Null) {
            columns.push(*column);
            values.push(given);
        }
    }
    if matches!(table.kind, "event" | "prompt" | "call" | "summary" | "plan" | "compaction" | "subagent")
        && session.is_none()
    {
        return Ok(Outcome::Skipped);
    }
    let places: Vec<_> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
    let sql = format!(
        "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING",
        table.name,
        columns.join(", "),
        places.join(", ")
    );
    match db.update(&sql, params_from_iter(values)) {
        Ok(0) => return Ok(Outcome::Known),
        Ok(_) => {}
        Err(error) if error.is_constraint() => return Ok(Outcome::Skipped),
        Err(error) => return Err(error),
    }
    let row = db.last_insert_rowid();
    for (document, column) in table.documents {
        if !line[*column].is_null() {
            log(db, document.as_str(), row)?;
        }
    }
    if table.kind == "observation" {
        complete_observation(db, row, line)?;
        observations.entry(project.unwrap_or(ProjectRow(0))).or_default().insert(row);
    }
    Ok(Outcome::Added)
}

fn given(table: &Table, column: &str, form: Form, value: &Value, line: &Value) -> Given {
    match (table.kind, column, value) {
        // A session of another machine does not run here, and its prompts are compressed already or never.
        ("session", "status", _) => Given::Text("completed".to_owned()),
        ("session", "ended_at", Value::Null) => given(table, "", Form::Plain, &line["last_event_at"], line),
        ("prompt", "status", _) => Given::Text("closed".to_owned()),
        ("prompt", "closed_at" | "compressed_at", Value::Null) => {
            given(table, "", Form::Plain, &line["opened_at"], line)
        }
        (_, "life", Value::Null) => Given::Number(1),
        (_, _, Value::Null) => match (table.kind, form) {
            ("observation" | "summary", Form::Text) if column != "subtitle" => Given::Text(String::new()),
            ("observation", Form::Json | Form::JsonText) => Given::Text("[]".to_owned()),
            _ => Given::Null,
        },
        (_, _, value) => match (form, value) {
            (Form::Json | Form::JsonText, value) => Given::Text(value.to_string()),
            (Form::Bytes, Value::String(digits)) => unhex(digits).map_or(Given::Null, Given::Bytes),
            (Form::LongText, Value::String(text)) => Given::LongText(text.clone()),
            (_, Value::String(text)) => Given::Text(text.clone()),
            (_, Value::Number(number)) => number.as_i64().map_or(Given::Null, Given::Number),
            (_, Value::Bool(yes)) => Given::Number(i64::from(*yes)),
            _ => Given::Null,
        },
    }
}

/// What follows from an observation's own columns.
fn complete_observation(db: &WriteContext<'_>, row: i64, line: &Value) -> Result<(), StoreError> {
    let texts = |key: &str| line[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    for (key, usage) in [("files_read", "read"), ("files_modified", "modified")] {
        for path in texts(key) {
            db.run(
                "INSERT OR IGNORE INTO observation_files VALUES (?1, ?2, ?3)",
                rusqlite::params![row, path, usage],
            )?;
        }
    }
    let said = ["title", "narrative"].into_iter().filter_map(|key| line[key].as_str()).chain(texts("facts"));
    db.run(
        "UPDATE observations SET words = ?2, own_evidence = evidence, own_importance = importance WHERE id = ?1",
        rusqlite::params![row, thread_words_of(said)],
    )
}

fn session_key_of(line: &Value) -> Option<SessionKey> {
    let (agent, id) = (line["agent"].as_str()?, line["session_id"].as_str()?);
    Some(SessionKey { agent: agent.into(), id: SessionId(id.to_owned()) })
}

fn session_row(db: &Connection, name: &str) -> Result<Option<i64>, StoreError> {
    let Some((agent, id)) = name.split_once(':') else { return Ok(None) };
    db.first("SELECT id FROM sessions WHERE agent = ?1 AND session_id = ?2", [agent, id])
}

fn batch_row(db: &Connection, session: Option<i64>, seq: Option<i64>) -> Result<Option<i64>, StoreError> {
    db.first("SELECT id FROM prompt_batches WHERE session = ?1 AND seq = ?2", [session, seq])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        (pair.len() == 2).then(|| u8::from_str_radix(pair, 16).ok()).flatten()
    });
    pairs.collect()
}
