//! Settings shared by both kinds of connections, and the write-ahead log.

use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::{SqliteError, StoreError};

const EMPTY: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// Keeps the write-ahead log when the last connection closes, which would otherwise play it into the database and
/// remove it by its path. A daemon that stops empties the log itself, through the open file.
pub(crate) fn leave_log_when_closed(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

/// Keeps SQLite from replanning a statement for other parameter values, which took a seventh of the daemon's work per
/// event.
pub(crate) fn plans_do_not_depend_on_values(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Moves the contents of the write-ahead log into the database, unless a reader is in the way; it does not wait for
/// one. The next commit overwrites the log from its beginning. For the write connection, outside of transactions.
pub(crate) fn restart_log(connection: &Connection) -> Result<(), StoreError> {
    checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)", Duration::ZERO).map(drop)
}

/// Like [`restart_log`], and empties the log.
pub(crate) fn empty_log(connection: &Connection) -> Result<(), StoreError> {
    checkpoint(connection, EMPTY, Duration::ZERO).map(drop)
}

/// Like [`empty_log`], but waits for readers, and fails if one takes too long.
///
/// # Errors
/// Fails when the database refuses, or a reader takes more than ten seconds.
pub(crate) fn empty_log_now(connection: &Connection) -> Result<(), StoreError> {
    match checkpoint(connection, EMPTY, Duration::from_secs(10))? {
        0 => Ok(()),
        _ => Err(StoreError::LogInUse),
    }
}

/// Returns 0 unless a reader blocks it for this long.
fn checkpoint(connection: &Connection, sql: &str, wait: Duration) -> Result<i64, StoreError> {
    connection.busy_timeout(wait).map_err(SqliteError)?;
    let blocked = connection.query_row(sql, [], |row| row.get(0));
    connection.busy_timeout(Duration::from_secs(5)).map_err(SqliteError)?;
    Ok(blocked.map_err(SqliteError)?)
}
