//! Copies the rows of a database whose tables differ from this program's, such as a backup that somebody modified.
//!
//! Its triggers, views and extra tables would act on each write and keep what is forgotten. So only the rows of known
//! tables are copied, into tables that we create, and each value is checked.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use serde::de::IgnoredAny;

use crate::database::row::Sql;
use crate::database::schema;
use crate::database::schema::STEPS;
use crate::database::text::Unpacked;
use crate::portable::tables::{Form, TABLES};
use crate::portable::value::is_readable;
use crate::{SqliteError, StoreError};

/// Tables that are recomputed from others, or that belong to a single file.
const NOT_TAKEN: [&str; 6] = ["meta", "index_log", "vectors", "vector_files", "gone_vectors", "reservations"];
/// JSON columns that no export contains.
const JSON: [(&str, &str); 11] = [
    ("observations", "own_evidence"),
    ("observation_batches", "evidence"),
    ("injections", "items"),
    ("lineage", "evidence"),
    ("settlements", "files"),
    ("settlements", "evidence"),
    ("hand_changes", "before"),
    ("forgotten_observations", "evidence"),
    ("life_events", "detail"),
    ("jobs", "cuts"),
    ("sessions", "place"),
];
/// No database has more rows. Row numbers near SQLite's maximum would leave none for the next row.
const MOST_ROWS: i64 = 1 << 48;
/// The maximum number of names in a report.
const MOST_NAMES: usize = 20;
const NAME_CHARS: usize = 60;

/// The differences between a database and the schema that this program creates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Misfits {
    things: Vec<String>,
    /// Counts by `TABLE.COLUMN`.
    values: BTreeMap<String, u64>,
    /// Counts by table.
    rows: BTreeMap<String, u64>,
}

impl Misfits {
    pub(crate) fn is_empty(&self) -> bool {
        self.things.is_empty() && self.values.is_empty() && self.rows.is_empty()
    }

    /// Describes the differences for people, with the names in the file.
    pub(crate) fn describe(&self) -> Vec<String> {
        let short = |name: &String| name.chars().take(NAME_CHARS).collect::<String>();
        let mut lines: Vec<String> = self.things.iter().take(MOST_NAMES).map(short).collect();
        if let Some(more) = self.things.len().checked_sub(MOST_NAMES).filter(|more| *more > 0) {
            lines.push(format!("{more} more tables, indexes, triggers or views"));
        }
        lines.extend(
            self.values.iter().map(|(column, count)| format!("unreadable values of {column}: {count}")),
        );
        lines.extend(self.rows.iter().map(|(table, count)| format!("unusable rows of {table}: {count}")));
        lines
    }
}

/// Compares tables, indexes, triggers, views and every value with what this program would create. Reads everything.
pub(crate) fn misfits(db: &Connection) -> Result<Misfits, StoreError> {
    let steps = STEPS.get(..schema::version(db).map_err(SqliteError)? as usize).unwrap_or(STEPS);
    let ours = Connection::open_in_memory().map_err(SqliteError)?;
    for step in steps {
        ours.execute_batch(step).map_err(SqliteError)?;
    }
    let mut misfits = Misfits { things: foreign_things(db, &ours)?, ..Misfits::default() };
    if misfits.is_empty() {
        each_table(db, &ours, &mut misfits, Take::Nothing)?;
    }
    Ok(misfits)
}

/// Copies all rows that this program can read into its own tables, and reports what is left behind.
pub(crate) fn take_rows(
    from: &Connection,
    into: &Connection,
    misfits: &mut Misfits,
) -> Result<(), StoreError> {
    // Each table is examined again.
    (misfits.values, misfits.rows) = (BTreeMap::new(), BTreeMap::new());
    into.execute_batch("PRAGMA foreign_keys = OFF; BEGIN").map_err(SqliteError)?;
    each_table(from, into, misfits, Take::Rows)?;
    remove_loose_rows(into, misfits)?;
    // Numbers of removed rows stay used.
    let used: Vec<(String, i64)> =
        from.all("SELECT name, seq FROM sqlite_sequence WHERE typeof(seq) = 'integer'", [])?;
    for (table, seq) in used.into_iter().filter(|(_, seq)| (0..=MOST_ROWS).contains(seq)) {
        let keep = "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1 AND name <> 'index_log'";
        into.run(keep, crate::database::bind::params![table, seq])?;
    }
    Ok(into.execute_batch("COMMIT; PRAGMA foreign_keys = ON").map_err(SqliteError)?)
}

/// Returns tables, indexes, triggers and views that are extra, missing or different, and unexpected rows in SQLite's
/// own tables and in `meta`.
fn foreign_things(db: &Connection, ours: &Connection) -> Result<Vec<String>, StoreError> {
    let things = |db: &Connection| -> Result<BTreeMap<(String, String), String>, StoreError> {
        // Indexes without SQL text follow from their tables. A restore removes statistics.
        let sql = "SELECT type, name, sql FROM sqlite_schema
                   WHERE sql IS NOT NULL AND name NOT IN ('sqlite_stat1', 'sqlite_stat4')";
        let all: Vec<(String, String, String)> = db.all(sql, [])?;
        Ok(all.into_iter().map(|(kind, name, sql)| ((kind, name), sql)).collect())
    };
    let (there, expected) = (things(db)?, things(ours)?);
    let mut differences = Vec::new();
    for (thing, sql) in &there {
        let (kind, name) = thing;
        match expected.get(thing) {
            Some(made) if made == sql => {}
            Some(_) => differences.push(format!("{kind} {name}, which differs")),
            None => differences.push(format!("{kind} {name}")),
        }
    }
    for thing in expected.keys().filter(|thing| !there.contains_key(*thing)) {
        differences.push(format!("{} {}, which is missing", thing.0, thing.1));
    }
    if differences.is_empty() {
        let tables: BTreeSet<String> = our_tables(ours)?.into_iter().collect();
        let counted: Vec<String> = db.all("SELECT CAST(name AS TEXT) FROM sqlite_sequence", [])?;
        let foreign = counted.iter().filter(|name| !tables.contains(*name)).count();
        let odd: i64 = db.one(
            "SELECT (SELECT count(*) FROM sqlite_sequence WHERE typeof(seq) <> 'integer' OR seq NOT BETWEEN 0 AND ?1)
                + (SELECT count(*) FROM meta WHERE key NOT IN ('schema_fingerprint', 'traces_left')
                   OR (key = 'traces_left' AND typeof(value) <> 'integer'))",
            [i64::MAX / 2],
        )?;
        let encoding: String = db.one("PRAGMA encoding", [])?;
        if foreign > 0 || odd > 0 || encoding != "UTF-8" {
            differences.push("rows that say nothing about any table".to_owned());
        }
    }
    Ok(differences)
}

fn our_tables(ours: &Connection) -> Result<Vec<String>, StoreError> {
    ours.all(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY rowid",
        [],
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Take {
    Nothing,
    Rows,
}

struct Column {
    name: String,
    declared: String,
    may_be_null: bool,
    is_row_number: bool,
    form: Option<Form>,
    is_json: bool,
}

fn columns(ours: &Connection, table: &str) -> Result<Vec<Column>, StoreError> {
    let forms = TABLES.iter().find(|known| known.name == table).map_or(&[][..], |known| known.columns);
    let all: Vec<(String, String, bool, i64)> =
        ours.all("SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1)", [table])?;
    let keys = all.iter().filter(|(.., key)| *key > 0).count();
    let column = |(name, declared, not_null, key): (String, String, bool, i64)| Column {
        is_row_number: keys == 1 && key == 1 && declared == "INTEGER",
        may_be_null: !not_null && key == 0,
        form: forms.iter().find(|(known, _)| *known == name).map(|(_, form)| *form),
        is_json: JSON.contains(&(table, name.as_str())),
        name,
        declared,
    };
    Ok(all.into_iter().map(column).collect())
}

/// The stored columns of a table in the file; none if it has no such table.
fn stored_columns(db: &Connection, table: &str) -> Result<Vec<String>, StoreError> {
    // A virtual table has no page.
    let is_table: bool = db.one(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND rootpage > 0)",
        [table],
    )?;
    if !is_table {
        return Ok(Vec::new());
    }
    db.all("SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0", [table])
}

fn each_table(
    from: &Connection,
    ours: &Connection,
    misfits: &mut Misfits,
    take: Take,
) -> Result<(), StoreError> {
    for table in our_tables(ours)?.iter().filter(|table| !NOT_TAKEN.contains(&table.as_str())) {
        let stored = stored_columns(from, table)?;
        let columns: Vec<Column> =
            columns(ours, table)?.into_iter().filter(|column| stored.contains(&column.name)).collect();
        if columns.is_empty() {
            continue;
        }
        let names: Vec<String> = columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
        let names = names.join(", ");
        // An index in the file may contradict its table.
        let mut find = from
            .prepare(&format!("SELECT {names} FROM main.\"{table}\" NOT INDEXED"))
            .map_err(SqliteError)?;
        let places: Vec<String> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
        let put = format!("INSERT OR IGNORE INTO \"{table}\" ({names}) VALUES ({})", places.join(", "));
        let mut put = match take {
            Take::Rows => Some(ours.prepare(&put).map_err(SqliteError)?),
            Take::Nothing => None,
        };
        let mut rows = find.query([]).map_err(SqliteError)?;
        while let Some(row) = rows.next().map_err(SqliteError)? {
            let mut values = Vec::with_capacity(columns.len());
            for (place, column) in columns.iter().enumerate() {
                let value = row.get_ref(place).map_err(SqliteError)?;
                values.push(if is_fit(column, value) {
                    Some(ToSqlOutput::Borrowed(value))
                } else {
                    *misfits.values.entry(format!("{table}.{}", column.name)).or_default() += 1;
                    instead(column)
                });
            }
            let whole: Option<Vec<ToSqlOutput<'_>>> = values.into_iter().collect();
            let taken = match (whole, &mut put) {
                (Some(values), Some(put)) => put.execute(params_from_iter(values)).map_err(SqliteError)? > 0,
                (whole, _) => whole.is_some(),
            };
            if !taken {
                *misfits.rows.entry(table.clone()).or_default() += 1;
            }
        }
    }
    Ok(())
}

fn is_fit(column: &Column, value: ValueRef<'_>) -> bool {
    match (value, column.form) {
        (ValueRef::Null, _) => column.may_be_null,
        // The store accepts longer names than an import does.
        (_, Some(Form::Name)) => is_readable(Form::Text, value),
        (_, Some(Form::Paths)) => is_readable(Form::Texts, value),
        (_, Some(form)) => is_readable(form, value),
        (ValueRef::Text(text), None) if column.is_json => serde_json::from_slice::<IgnoredAny>(text).is_ok(),
        (ValueRef::Integer(number), None) if column.declared == "INTEGER" => match column.is_row_number {
            true => (1..=MOST_ROWS).contains(&number),
            false => true,
        },
        (ValueRef::Text(text), None) => {
            matches!(column.declared.as_str(), "TEXT" | "") && std::str::from_utf8(text).is_ok()
        }
        (ValueRef::Blob(_), None) if column.declared.is_empty() => {
            <Unpacked as rusqlite::types::FromSql>::column_result(value).is_ok()
        }
        (ValueRef::Blob(_), None) => column.declared == "BLOB",
        _ => false,
    }
}

/// The replacement for an unreadable value; `None` if the row requires it.
fn instead(column: &Column) -> Option<ToSqlOutput<'static>> {
    match column.form {
        Some(Form::Texts | Form::Paths | Form::Events) => {
            Some(ToSqlOutput::Owned(Value::Text("[]".to_owned())))
        }
        _ => column.may_be_null.then_some(ToSqlOutput::Owned(Value::Null)),
    }
}

/// Removes rows that refer to missing rows. Each table comes after those that it refers to.
fn remove_loose_rows(db: &Connection, misfits: &mut Misfits) -> Result<(), StoreError> {
    for table in our_tables(db)? {
        let references: Vec<(String, String, Option<String>, String)> = db.all(
            "SELECT \"table\", \"from\", \"to\", on_delete FROM pragma_foreign_key_list(?1)
             ORDER BY on_delete = 'SET NULL'",
            [&table],
        )?;
        for (parent, column, key, on_delete) in references {
            let key = match key {
                Some(key) => key,
                None => db.one("SELECT name FROM pragma_table_info(?1) WHERE pk = 1", [&parent])?,
            };
            // In SQL, NULL is not missing from an empty list.
            let loose = format!(
                "\"{column}\" IS NOT NULL AND \"{column}\" NOT IN (SELECT \"{key}\" FROM \"{parent}\")"
            );
            if on_delete == "SET NULL" {
                db.run(&format!("UPDATE \"{table}\" SET \"{column}\" = NULL WHERE {loose}"), [])?;
            } else {
                let removed = db.update(&format!("DELETE FROM \"{table}\" WHERE {loose}"), [])?;
                if removed > 0 {
                    *misfits.rows.entry(table.clone()).or_default() += removed as u64;
                }
            }
        }
    }
    Ok(())
}
