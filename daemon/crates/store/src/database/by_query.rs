//! `recall sql`: runs a user's query on its own read-only connection.
//!
//! The file is opened for reading, an authorizer allows only reads, and a query that runs too long is interrupted.
//! Temporary tables stay in memory. A single step of a query can take arbitrarily long and, depending on its columns
//! and tables, arbitrary memory, so [`bound_memory`] limits the memory of a process that does nothing else. The views
//! of `views.sql` exist only on this connection, so they need no migration.

use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};
use serde::{Deserialize, Serialize};

use crate::database::text;
use crate::{Readers, SqliteError, StoreError};

/// The number of virtual machine steps between two checks of the clock: well below a millisecond.
const STEPS: i32 = 10_000;
/// The maximum size of a value, in bytes.
const LONGEST: i32 = 16 * 1024 * 1024;
/// Pragmas that only describe the tables.
const TELLING: [&str; 12] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "database_list",
    "function_list",
    "user_version",
    "page_count",
    "page_size",
];

/// The limits of a query.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct QueryLimits {
    pub rows: usize,
    /// The total size of all values in bytes. Each counts a few bytes more than its text.
    pub bytes: usize,
    pub time: Duration,
}

/// The result of a query.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<serde_json::Value>>,
    /// Whether there are more rows than the limits allow.
    pub more: bool,
}

/// Why a query failed.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum QueryError {
    /// The database cannot be read.
    #[error("{0}")]
    Unreadable(String),
    #[error("{0}")]
    Damaged(String),
    /// SQLite's message about the user's SQL.
    #[error("{0}")]
    Wrong(String),
    #[error("only reading is allowed")]
    NotReading,
    #[error("it ran longer than {0} seconds")]
    TooLong(u64),
    #[error("it needs too much memory")]
    TooMuchMemory,
    #[error("its first row has more than {0} bytes")]
    RowTooLong(usize),
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        if error.is_damage() { Self::Damaged(error.to_string()) } else { Self::Unreadable(error.to_string()) }
    }
}

/// Limits the memory that SQLite may use in this process, across all connections.
///
/// # Errors
/// Fails when the database cannot be opened.
pub fn bound_memory(bytes: u32) -> Result<(), StoreError> {
    let bound = |db: Connection| db.execute_batch(&format!("PRAGMA hard_heap_limit = {bytes}"));
    Ok(Connection::open_in_memory().and_then(bound).map_err(SqliteError)?)
}

/// Runs one statement. Checks the clock between its steps, although a step can take long.
///
/// # Errors
/// Fails when the text is not a single read-only statement, or exceeds `limits`.
pub fn query(readers: &Readers, sql: &str, limits: QueryLimits) -> Result<Found, QueryError> {
    let db = prepared(readers, limits.time).map_err(|error| StoreError::from(SqliteError(error)))?;
    let wrong = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => QueryError::TooLong(limits.time.as_secs()),
        Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => QueryError::NotReading,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => QueryError::Damaged(error.to_string()),
        Some(ErrorCode::OutOfMemory) => QueryError::TooMuchMemory,
        _ => QueryError::Wrong(error.to_string()),
    };
    let mut statement = db.prepare(sql).map_err(wrong)?;
    let mut left = Budget(limits.bytes);
    let columns: Option<Vec<String>> =
        statement.column_names().map(|name| left.take(name.len()).then(|| name.to_owned())).collect();
    let columns = columns.ok_or(QueryError::RowTooLong(limits.bytes))?;
    if columns.is_empty() {
        return Err(QueryError::Wrong("there is no statement that returns rows".to_owned()));
    }
    let mut found = Found { columns, rows: Vec::new(), more: false };
    let mut rows = statement.query([]).map_err(wrong)?;
    while let Some(row) = rows.next().map_err(wrong)? {
        let values = values(row, found.columns.len(), &mut left).map_err(wrong)?;
        let Some(values) = values.filter(|_| found.rows.len() < limits.rows) else {
            found.more = true;
            break;
        };
        found.rows.push(values);
    }
    if found.more && found.rows.is_empty() && limits.rows > 0 {
        return Err(QueryError::RowTooLong(limits.bytes));
    }
    Ok(found)
}

/// The number of bytes that the answer may still take.
struct Budget(usize);

impl Budget {
    /// The size of a value in addition to its text.
    const VALUE: usize = 8;

    fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes.saturating_add(Self::VALUE));
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// Returns the values of a row; `None` if they exceed the budget. Values beyond it are not copied.
fn values(
    row: &rusqlite::Row<'_>,
    columns: usize,
    left: &mut Budget,
) -> rusqlite::Result<Option<Vec<serde_json::Value>>> {
    let mut values = Vec::with_capacity(columns);
    for column in 0..columns {
        let value = row.get_ref(column)?;
        let bytes = match value {
            ValueRef::Text(text) => text.len(),
            ValueRef::Blob(bytes) => bytes.len().saturating_mul(2),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 0,
        };
        if !left.take(bytes) {
            return Ok(None);
        }
        values.push(json(value));
    }
    Ok(Some(values))
}

/// Opens a connection with the views, for one query that may take this long.
fn prepared(readers: &Readers, time: Duration) -> rusqlite::Result<Connection> {
    let mut db = readers.open()?;
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST)?;
    text::add_function(&db)?;
    db.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA query_only = OFF")?;
    db.execute_batch(include_str!("views.sql"))?;
    db.execute_batch("PRAGMA query_only = ON")?;
    let deadline = Instant::now().checked_add(time);
    let is_late = move || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    db.progress_handler(STEPS, Some(is_late))?;
    db.authorizer(Some(allowed))?;
    Ok(db)
}

fn allowed(context: AuthContext<'_>) -> Authorization {
    let may = match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !function_name.eq_ignore_ascii_case("load_extension"),
        AuthAction::Pragma { pragma_name, .. } => {
            TELLING.iter().any(|telling| pragma_name.eq_ignore_ascii_case(telling))
                && !(pragma_name.eq_ignore_ascii_case("user_version") && has_value(&context.action))
        }
        _ => false,
    };
    if may { Authorization::Allow } else { Authorization::Deny }
}

fn has_value(action: &AuthAction<'_>) -> bool {
    matches!(action, AuthAction::Pragma { pragma_value: Some(_), .. })
}

/// Converts the value to JSON. Blobs are written as in SQL.
fn json(value: ValueRef<'_>) -> serde_json::Value {
    match value {
        ValueRef::Null => serde_json::Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
        ValueRef::Blob(bytes) => {
            let mut text = String::with_capacity(2 * bytes.len() + 3);
            text.push_str("x'");
            for byte in bytes {
                let digits = [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
                text.extend(digits.into_iter().flatten());
            }
            text.push('\'');
            text.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, open_writer};

    const LIMITS: QueryLimits = QueryLimits { rows: 3, bytes: 1_000_000, time: Duration::from_secs(10) };

    fn database() -> (tempfile::TempDir, Connection, Readers) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        let db = open_writer(&path, home.path(), Durability::Normal).unwrap();
        db.execute_batch(
            "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0);
             INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
             VALUES (1, 'claude-code', 's', 1, 'completed', 1, 1795262400123, 0)",
        )
        .unwrap();
        db.execute(
            "INSERT INTO prompt_batches (session, seq, prompt_number, source, status, prompt, prompt_event, opened_at)
             VALUES (1, 1, 1, 'user', 'closed', ?1, x'01', 1795262400123)",
            [text::Packed(&"long ".repeat(2_000))],
        )
        .unwrap();
        let readers = Readers::new(&path);
        (home, db, readers)
    }

    #[test]
    fn the_classic_table_names_work_and_long_texts_are_uncompressed() {
        let (_home, _db, readers) = database();
        let one = |sql: &str| query(&readers, sql, LIMITS).unwrap().rows.remove(0).remove(0);
        assert_eq!(
            one("SELECT content_session_id || ' ' || started_at FROM sdk_sessions"),
            "s 2026-11-21T12:00:00.123Z"
        );
        assert_eq!(one("SELECT length(prompt_text) FROM user_prompts"), 10_000);
        assert_eq!(one("SELECT length(prompt) FROM prompts"), 10_000);
        assert_eq!(one("SELECT length(plain(prompt)) FROM main.prompt_batches"), 10_000);
        for view in ["observations", "session_summaries", "calls", "plans"] {
            assert_eq!(one(&format!("SELECT count(*) FROM {view}")), 0, "{view}");
            query(&readers, &format!("SELECT * FROM {view}"), LIMITS).unwrap();
        }
        assert_eq!(one("SELECT count(*) FROM pragma_table_info('sessions') WHERE name = 'agent'"), 1);
        assert_eq!(one("SELECT x'0aff'"), "x'0aff'");
    }

    #[test]
    fn a_query_may_only_read() {
        let (home, db, readers) = database();
        let other = home.path().join("other.db");
        for sql in [
            "DELETE FROM sessions",
            "UPDATE sessions SET agent = 'x'",
            "INSERT INTO projects VALUES (2, 'a', 'b', 0)",
            "CREATE TEMP TABLE t (x)",
            "DROP VIEW observations",
            "PRAGMA query_only = OFF",
            "PRAGMA user_version = 7",
            "PRAGMA writable_schema = ON",
            "PRAGMA journal_mode = DELETE",
            "BEGIN",
            "VACUUM",
            &format!("ATTACH '{}' AS other", other.display()),
            &format!("VACUUM INTO '{}'", other.display()),
            "SELECT load_extension('x')",
        ] {
            let refused = query(&readers, sql, LIMITS).unwrap_err();
            assert!(matches!(refused, QueryError::NotReading | QueryError::Wrong(_)), "{sql}: {refused:?}");
        }
        assert!(!other.exists());
        let left: i64 = db.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 1);
        for wrong in ["", "SELEC 1", "SELECT nothing", "SELECT 1; SELECT 2", "-- just a comment"] {
            assert!(matches!(query(&readers, wrong, LIMITS), Err(QueryError::Wrong(_))), "{wrong}");
        }
    }

    #[test]
    fn rows_bytes_and_time_of_a_query_are_limited() {
        let (_home, _db, readers) = database();
        let count = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n";
        let found = query(&readers, &format!("{count}) SELECT x FROM n"), LIMITS).unwrap();
        assert_eq!((found.rows.len(), found.more), (3, true));
        let found = query(&readers, &format!("{count} LIMIT 3) SELECT x FROM n"), LIMITS).unwrap();
        assert_eq!((found.rows.len(), found.more), (3, false));
        let few_bytes = QueryLimits { bytes: 120, ..LIMITS };
        let two = "SELECT hex(zeroblob(40)) AS x UNION ALL SELECT hex(zeroblob(41))";
        let found = query(&readers, two, few_bytes).unwrap();
        assert_eq!((found.rows.len(), found.more), (1, true));
        for long in
            ["SELECT hex(zeroblob(60))", "SELECT zeroblob(60)", "SELECT '', '', '', '', '', '', '', ''"]
        {
            let refused = query(&readers, long, few_bytes);
            assert!(matches!(refused, Err(QueryError::RowTooLong(120))), "{long}: {refused:?}");
        }
        let no_time = QueryLimits { time: Duration::ZERO, ..LIMITS };
        let endless = query(&readers, &format!("{count}) SELECT sum(x) FROM n"), no_time).unwrap_err();
        assert!(matches!(endless, QueryError::TooLong(0)), "{endless:?}");
        assert!(matches!(query(&readers, "SELECT zeroblob(20000000)", LIMITS), Err(QueryError::Wrong(_))));
    }
}
