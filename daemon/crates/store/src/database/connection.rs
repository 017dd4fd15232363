//! Settings shared by both kinds of connections, and the write-ahead log.

use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::StoreError;

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
/// Moves the contents of the write-ahead log into the database, unless a reader is in the way. The next commit
/// overwrites the log from its beginning. For the write connection, outside of transactions.
pub(crate) fn restart_log(connection: &Connection) -> Result<(), StoreError> {
    checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)")
}

/// Like [`restart_log`], and empties the log.
pub(crate) fn empty_log(connection: &Connection) -> Result<(), StoreError> {
    checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
}

fn checkpoint(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    // A long reader must not block; the next call retries.
    connection.busy_timeout(Duration::ZERO)?;
    let done = connection.query_row(sql, [], |_| Ok(()));
    connection.busy_timeout(Duration::from_secs(5))?;
    Ok(done?)
}

/// Like [`empty_log`], but waits for readers, and fails if one takes too long.
///
/// # Errors
/// Fails when the database refuses, or a reader takes more than ten seconds.
pub(crate) fn empty_log_now(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(Duration::from_secs(10))?;
    let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    connection.busy_timeout(Duration::from_secs(5))?;
    if emptied? == 0 { Ok(()) } else { Err(StoreError::LogInUse) }
}
