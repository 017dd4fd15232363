//! The write connection. It groups operations into transactions and keeps the write-ahead log small.

use std::path::Path;

use rusqlite::Connection;

use recall_system::faults::{self, Point};
use recall_system::holding::Holding;

use crate::database::connection::{empty_log, restart_log};
use crate::database::opening::open_held;
use crate::database::row::Sql;
use crate::forgetting::rewrite;
use crate::operation::{Changes, Operation};
use crate::{Durability, OpenStoreError, StoreError, execution};

/// The write connection. Only one may exist across all processes, which the daemon's lock ensures.
pub struct StoreWriter(Connection);

impl StoreWriter {
    /// Opens the database; creates or migrates it if necessary.
    ///
    /// # Errors
    /// Fails when the file cannot be opened or migrated, was written by a newer version, or is in a lost folder. Nothing is
    /// then changed.
    pub fn open(
        path: &Path,
        backups: &Path,
        durability: Durability,
        holding: &Holding,
    ) -> Result<Self, OpenStoreError> {
        open_held(path, backups, durability, holding).map(Self)
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// Fails when the database refuses.
    pub fn begin(&self) -> Result<(), StoreError> {
        faults::reach_disk(Point::Begin)?;
        self.0.run("BEGIN IMMEDIATE", [])
    }

    /// Commits the transaction. `changes` are the changes of its operations.
    ///
    /// # Errors
    /// Fails when the database refuses.
    pub fn commit(&self, changes: &Changes) -> Result<(), StoreError> {
        // Other groups, such as leases, lose nothing in a crash.
        let can_be_lost = changes.accepted || changes.documents;
        if can_be_lost {
            faults::reach_disk(Point::Commit)?;
        }
        self.0.run("COMMIT", [])?;
        if can_be_lost {
            faults::reach(Point::Committed);
        }
        Ok(())
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// Fails when there is none, for example because an error already ended it.
    pub fn roll_back(&self) -> Result<(), StoreError> {
        self.0.run("ROLLBACK", [])
    }

    /// Executes an operation in the transaction, and adds its changes to `changes`.
    ///
    /// # Errors
    /// Fails when the database refuses. The operation is then rolled back and has changed nothing.
    pub fn execute<O: Operation>(
        &self,
        operation: O,
        changes: &mut Changes,
    ) -> Result<O::Output, StoreError> {
        execution::execute(&self.0, operation, changes)
    }

    /// Like [`StoreWriter::execute`], for the first operation of a transaction. Cheaper, because no page is copied.
    ///
    /// # Errors
    /// See [`StoreWriter::execute`].
    pub fn execute_first<O: Operation>(
        &self,
        operation: O,
        changes: &mut Changes,
    ) -> Result<O::Output, StoreError> {
        execution::execute_first(&self.0, operation, changes)
    }

    /// Moves the contents of the write-ahead log into the database, unless a reader is in the way. The next commit
    /// overwrites the log from its beginning. Must not be called inside a transaction.
    ///
    /// # Errors
    /// Fails when the database refuses.
    pub fn restart_log(&self) -> Result<(), StoreError> {
        restart_log(&self.0)
    }

    /// Rewrites the whole database and empties the log, so that neither contains a byte of a removed row. Must not be
    /// called inside a transaction. Takes about a second per hundred megabytes.
    ///
    /// # Errors
    /// Fails when the database refuses, or a reader blocks the log for too long.
    pub fn rewrite(&self) -> Result<(), StoreError> {
        rewrite(&self.0)
    }

    /// Prepares the database for its next start: query plans for its current size, and an empty log. Failures are
    /// ignored.
    pub fn settle(&self) {
        let _ = self.0.execute_batch("PRAGMA optimize");
        let _ = empty_log(&self.0);
    }
}
