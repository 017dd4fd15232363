//! Lines become rows.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ToSql, params_from_iter};
use serde_json::Value;

use super::tables::{Form, TABLES, Table, key_of};
use crate::memory::ids::{ProjectKey, ProjectRow, SessionId, SessionKey, Timestamp};
use crate::store::forgetting::is_forgotten;
use crate::store::operation::{Operation, WriteContext, log};
use crate::store::row::Sql;
use crate::store::text::Packed;
use crate::store::threads::{self, thread_words_of};
use crate::store::{StoreError, projects};

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
            ("observation" | "summary", Form::Text) if !["subtitle", "made_as"].contains(&column) => {
                Given::Text(String::new())
            }
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

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        (pair.len() == 2).then(|| u8::from_str_radix(pair, 16).ok()).flatten()
    });
    pairs.collect()
}
