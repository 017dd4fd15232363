//! Starts a rebuild of the index.

use rusqlite::Connection;

use crate::operation::{Operation, WriteContext, log};
use crate::{SqliteError, StoreError};
use recall_domain::ids::ObservationId;
use recall_domain::ids::Timestamp;

/// Starts a rebuild of the index, which notices that the log does not continue where it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reindex {
    pub at: Timestamp,
}

impl Operation for Reindex {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        make_the_index_start_over(db, self.at).map_err(SqliteError)?;
        // An entry without a document, which wakes the indexer.
        log(db, ObservationId(0))
    }
}

/// Continues the change log far above every used number, without earlier entries. An index that followed the damaged
/// database then finds a gap and rebuilds.
pub(crate) fn make_the_index_start_over(db: &Connection, at: Timestamp) -> rusqlite::Result<()> {
    db.execute("DELETE FROM index_log", [])?;
    let known: Option<i64> =
        db.query_row("SELECT max(seq) FROM sqlite_sequence WHERE name = 'index_log'", [], |row| row.get(0))?;
    // No database has more entries than milliseconds since 1970.
    let next = at.0.max(known.unwrap_or(0).saturating_add(1));
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'index_log'", [])?;
    db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('index_log', ?1)", [next])?;
    Ok(())
}
