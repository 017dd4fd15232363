//! Exports rows as lines, a page at a time.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde_json::{Map, Value, json};

use crate::database::bind::params;
use crate::database::row::{Cells, Sql};
use crate::portable::tables::{Form, RowKind, TABLES, Table, key_of};
use crate::{Reader, SqliteError, StoreError};
use recall_domain::ids::{ProjectKey, ProjectRow, Timestamp};

/// Where a page of an export begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStart {
    pub table: u32,
    pub after: i64,
}

/// The part of the memory to export.
#[derive(Clone, Debug, Default)]
pub struct Portion {
    /// `None` for all.
    pub projects: Option<Vec<ProjectRow>>,
    pub since: Option<Timestamp>,
}

impl Reader<'_> {
    /// Returns the next lines, about this many bytes, and where the next page begins; `None` at the end.
    pub fn export_page(
        self,
        portion: &Portion,
        cursor: PageStart,
        bytes: usize,
    ) -> Result<(Vec<String>, Option<PageStart>), StoreError> {
        let db = self.0;
        let mut lines = Vec::new();
        // Projects come first, all at once, because there are few.
        if cursor == PageStart::default() {
            project_lines(db, portion, &mut lines)?;
        }
        let mut length = 0;
        let mut at = cursor;
        while let Some(table) = TABLES.get(at.table as usize) {
            let sql = select(table);
            let mut find = db.prepare_cached(&sql).map_err(SqliteError)?;
            let projects = portion
                .projects
                .as_ref()
                .map(|rows| json!(rows.iter().map(|row| row.0).collect::<Vec<_>>()).to_string());
            let given = params![at.after, projects, portion.since];
            let read = |row: &Row<'_>| Ok((row.cell(table.columns.len())?, line(table, row)?));
            for row in find.query_map(given, read).map_err(SqliteError)? {
                let (page, line): (i64, Value) = row.map_err(SqliteError)?;
                if length > bytes && page != at.after {
                    return Ok((lines, Some(at)));
                }
                at.after = page;
                let line = line.to_string();
                length += line.len();
                lines.push(line);
            }
            at = PageStart { table: at.table + 1, after: 0 };
        }
        superseded_lines(db, portion, &mut lines)?;
        Ok((lines, None))
    }
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
    // Data from other machines' sessions has no session here. It returns through its share.
    let own = match table.kind {
        RowKind::Summary | RowKind::Plan => " AND t.share IS NULL",
        _ => "",
    };
    format!(
        "SELECT {}, {page} FROM {name} t WHERE {page} > ?1{own} AND (?2 IS NULL OR {project} IN (SELECT value FROM json_each(?2)))
         AND (?3 IS NULL OR {time} >= ?3) ORDER BY {page}",
        columns.join(", ")
    )
}

fn line(table: &Table, row: &Row<'_>) -> rusqlite::Result<Value> {
    let mut line = Map::new();
    line.insert("kind".to_owned(), json!(table.kind.as_str()));
    for (number, (column, form)) in table.columns.iter().enumerate() {
        let raw = row.get_ref(number)?;
        if raw == ValueRef::Null {
            continue;
        }
        let value = match form {
            Form::LongText => json!(row.cell::<String>(number)?),
            Form::Id => json!(hex(row.get_ref(number)?.as_blob().unwrap_or_default())),
            Form::Texts | Form::Paths | Form::Events | Form::Tasks => {
                serde_json::from_str(&row.cell::<String>(number)?).unwrap_or_default()
            }
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
    let projects: Vec<(ProjectRow, String, String, i64)> =
        db.all("SELECT id, key, name, created_at FROM projects ORDER BY id", [])?;
    for (id, key, name, created_at) in projects {
        if portion.projects.as_ref().is_some_and(|wanted| !wanted.contains(&id)) {
            continue;
        }
        let aliases: Vec<ProjectKey> =
            db.all("SELECT alias FROM project_aliases WHERE project = ?1 ORDER BY alias", [id.0])?;
        let aliases: Vec<_> = aliases.iter().map(ProjectKey::as_str).collect();
        let line = json!({"kind": "project", "key": key, "name": name, "aliases": aliases,
                          "created_at": created_at});
        lines.push(line.to_string());
    }
    Ok(())
}

/// Returns the supersession lines. They come last, because both observations must exist.
fn superseded_lines(db: &Connection, portion: &Portion, lines: &mut Vec<String>) -> Result<(), StoreError> {
    let sql = "SELECT o.uuid, n.uuid, o.project FROM observations o JOIN observations n ON n.id = o.superseded_by ORDER BY o.id";
    db.each(sql, [], |(old, new, project): (String, String, ProjectRow)| {
        if portion.projects.as_ref().is_none_or(|wanted| wanted.contains(&project)) {
            lines.push(json!({"kind": "superseded", "uuid": old, "by": new}).to_string());
        }
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
