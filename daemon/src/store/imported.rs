//! Sessions that were read from an agent's own record instead of reported by its hooks.

use recall_protocol::wire::Flags;
use rusqlite::{Connection, Row, params};

use super::StoreError;
use super::row::FromRow;
use crate::memory::ids::{SessionKey, Timestamp};

/// How the events of a session came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// At least one was reported by a hook.
    Hooks,
    /// All were imported. No model is asked about them, and nobody is told of them.
    Imported,
}

// Conditions of SQL name it by its number, also that of a leased job.
const _: () = assert!(Flags::IMPORTED.0 == 32);

impl FromRow for Capture {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(if row.get(first)? { Self::Imported } else { Self::Hooks })
    }
}

pub(super) fn capture_of(db: &Connection, session: i64) -> Result<Capture, StoreError> {
    Ok(db.query_row(
        "SELECT NOT EXISTS (SELECT 1 FROM deliveries WHERE session = ?1 AND flags & 32 = 0)
            AND EXISTS (SELECT 1 FROM deliveries WHERE session = ?1)",
        [session],
        |row| Capture::from_row(row, 0),
    )?)
}

/// How many events of a session were imported, and when the first of its hooks fired.
pub fn captured(db: &Connection, key: &SessionKey) -> Result<(u64, Option<Timestamp>), StoreError> {
    let mut find = db.prepare_cached(
        "SELECT count(*) FILTER (WHERE flags & 32 <> 0), min(captured_at) FILTER (WHERE flags & 32 = 0)
         FROM deliveries WHERE session = (SELECT id FROM sessions WHERE agent = ?1 AND session_id = ?2)",
    )?;
    Ok(find.query_row(params![key.agent.as_str(), key.id.as_str()], |row| {
        Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, Option<i64>>(1)?.map(Timestamp)))
    })?)
}
