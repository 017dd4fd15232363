//! Counts for `recall ctl status`.

use rusqlite::Connection;

use super::StoreError;

/// How much of everything there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub sessions_live: i64,
    pub sessions: i64,
    pub events: i64,
    pub unparsed: i64,
    pub jobs_pending: i64,
    pub jobs_running: i64,
    pub jobs_retrying: i64,
    pub jobs_done: i64,
    pub jobs_dead: i64,
    pub observations: i64,
    pub summaries: i64,
}

/// # Errors
/// When the database refuses.
pub fn statistics(db: &Connection) -> Result<Statistics, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT (SELECT count(*) FROM sessions WHERE status IN ('initialized', 'active')),
                (SELECT count(*) FROM sessions), (SELECT count(*) FROM deliveries), (SELECT count(*) FROM unparsed),
                (SELECT count(*) FROM jobs WHERE status = 'pending'), (SELECT count(*) FROM jobs WHERE status = 'running'),
                (SELECT count(*) FROM jobs WHERE status = 'retrying'), (SELECT count(*) FROM jobs WHERE status = 'done'),
                (SELECT count(*) FROM jobs WHERE status = 'dead'), (SELECT count(*) FROM observations),
                (SELECT count(*) FROM session_summaries)",
    )?;
    Ok(statement.query_row([], |row| {
        Ok(Statistics {
            sessions_live: row.get(0)?,
            sessions: row.get(1)?,
            events: row.get(2)?,
            unparsed: row.get(3)?,
            jobs_pending: row.get(4)?,
            jobs_running: row.get(5)?,
            jobs_retrying: row.get(6)?,
            jobs_done: row.get(7)?,
            jobs_dead: row.get(8)?,
            observations: row.get(9)?,
            summaries: row.get(10)?,
        })
    })?)
}
