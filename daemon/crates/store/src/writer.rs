//! The connection that writes. It groups operations in transactions, and keeps the write-ahead log small.

use std::path::Path;

use rusqlite::Connection;

use recall_system::faults::{self, Point};
use recall_system::holding::Holding;

use crate::database::connection::{empty_log, restart_log};
use crate::database::opening::open_held;
use crate::forgetting::rewrite;
use crate::operation::{Changes, Operation};
use crate::{Durability, OpenStoreError, StoreError, execution};

/// The connection that writes. Only one may exist in all processes, which the daemon's lock ensures.
pub struct StoreWriter(Connection);

impl StoreWriter {
    /// Opens the database. Creates and migrates it.
    ///
    /// # Errors
    /// When the file cannot be opened or migrated, was written by a newer version, or is in a lost folder; nothing is
    /// changed then.
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
    /// When the database refuses.
    pub fn begin(&self) -> Result<(), StoreError> {
        faults::reach_disk(Point::Begin)?;
        self.run("BEGIN IMMEDIATE")
    }

    /// Commits the transaction. `changes` are those of its operations.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn commit(&self, changes: &Changes) -> Result<(), StoreError> {
        // Other groups, such as leases, lose nothing in a crash.
        let can_be_lost = changes.accepted || changes.documents;
        if can_be_lost {
            faults::reach_disk(Point::Commit)?;
        }
        self.run("COMMIT")?;
        if can_be_lost {
            faults::reach(Point::Committed);
        }
        Ok(())
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// When there is none, for example because an error has already ended it.
    pub fn roll_back(&self) -> Result<(), StoreError> {
        self.run("ROLLBACK")
    }

    fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.0.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Executes an operation in the transaction, and adds its changes to `changes`.
    ///
    /// # Errors
    /// When the database refuses; the operation is rolled back and has changed nothing.
    pub fn execute<O: Operation>(
        &self,
        operation: O,
        changes: &mut Changes,
    ) -> Result<O::Output, StoreError> {
        execution::execute(&self.0, operation, changes)
    }

    /// Like [`StoreWriter::execute`], for the first operation of a transaction. This costs less, because no page is
    /// copied.
    ///
    /// # Errors
    /// As [`StoreWriter::execute`].
    pub fn execute_first<O: Operation>(
        &self,
        operation: O,
        changes: &mut Changes,
    ) -> Result<O::Output, StoreError> {
        execution::execute_first(&self.0, operation, changes)
    }

    /// Moves the content of the write-ahead log into the database, unless a reader is in the way. The next commit
    /// overwrites the log from its beginning. Not in a transaction.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn restart_log(&self) -> Result<(), StoreError> {
        restart_log(&self.0)
    }

    /// Rewrites the whole database and empties the log, so that neither contains a byte of a removed row. Not in a
    /// transaction. Takes about a second per hundred megabytes.
    ///
    /// # Errors
    /// When the database refuses, or a reader stays so long that the log cannot be emptied.
    pub fn rewrite(&self) -> Result<(), StoreError> {
        rewrite(&self.0)
    }

    /// Prepares the database for its next start: plans for its present size, and an empty log. What fails is done later.
    pub fn settle(&self) {
        let _ = self.0.execute_batch("PRAGMA optimize");
        let _ = empty_log(&self.0);
    }
}
