//! Connections that read: opened when needed, closed when the database is replaced.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::database::connection::plans_do_not_depend_on_values;
use crate::database::damage::{Evidence, Repair, Suspicion};
use crate::{Reader, SqliteError, StoreError};

/// The number of prepared statements that a connection keeps.
const READER_STATEMENTS: usize = 64;

type Alarm = Box<dyn Fn(Suspicion) + Send + Sync>;

/// Read-only connections, opened when needed and reused.
#[derive(Clone)]
pub struct Readers {
    path: Arc<Path>,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Pool {
    idle: Mutex<Vec<Connection>>,
    /// Locked for writing while there may be no database at its path.
    replacing: RwLock<()>,
    generation: AtomicU64,
    alarm: RwLock<Option<Alarm>>,
    /// The result of the last replacement that the user requested, until somebody asks for it.
    replaced: Mutex<Option<Result<Repair, String>>>,
}

/// The maximum number of idle readers. Further ones are closed, because each has a page cache.
const IDLE_READERS: usize = 3;

impl Readers {
    pub fn new(path: &Path) -> Self {
        Self { path: path.into(), pool: Arc::default() }
    }

    /// Runs `query` on a read-only connection. Blocks, so it must be called outside of async threads. Raises the alarm
    /// if the database turns out to be damaged.
    ///
    /// # Errors
    /// What `query` returns, or the failure to open a connection.
    pub fn read<T>(&self, query: impl FnOnce(Reader<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let generation = self.generation();
        let idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.open().map_err(SqliteError)?,
        };
        let answer = query(Reader(&connection));
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Compared under the lock, so that no connection to an earlier database enters the emptied pool.
        let is_current = generation == self.generation();
        if is_current && idle.len() < IDLE_READERS {
            idle.push(connection);
        }
        drop(idle);
        if let Err(error) = &answer
            && is_current
        {
            self.suspect(error);
        }
        answer
    }

    /// Like [`Readers::read`], but all questions in `query` see the same state of the database.
    pub fn read_one_state<T>(
        &self,
        query: impl FnOnce(Reader<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.read(|db| {
            let snapshot = db.0.unchecked_transaction().map_err(SqliteError)?;
            query(Reader(&snapshot))
        })
    }

    /// The generation of the database, counted from the start of the process.
    pub fn generation(&self) -> u64 {
        self.pool.generation.load(Ordering::Acquire)
    }

    /// Closes all connections, because the database is being replaced.
    pub fn renew(&self) {
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        self.pool.generation.fetch_add(1, Ordering::AcqRel);
        idle.clear();
    }

    /// Replaces the database file. Readers wait meanwhile and then read the new one.
    pub(crate) fn replace<T>(&self, put_in_place: impl FnOnce() -> T) -> T {
        let _write_lock = self.pool.replacing.write().unwrap_or_else(PoisonError::into_inner);
        let outcome = put_in_place();
        self.renew();
        outcome
    }

    /// Sets the function that is called when damage is found.
    pub fn on_damage(&self, alarm: impl Fn(Suspicion) + Send + Sync + 'static) {
        *self.pool.alarm.write().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(alarm));
    }

    /// Requests a replacement of the database with this one. Returns without waiting.
    pub fn replace_by(&self, instead: PathBuf) {
        let evidence = Evidence::Unwanted { instead };
        if let Some(alarm) = &*self.pool.alarm.read().unwrap_or_else(PoisonError::into_inner) {
            alarm(Suspicion {
                generation: self.generation(),
                evidence,
                why: "the user restores a backup".to_owned(),
            });
        }
    }

    pub(crate) fn set_replaced(&self, outcome: Result<Repair, String>) {
        *self.pool.replaced.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }

    /// Returns the result of a requested replacement: `None` until it is known, then once. An error says why the
    /// database is unchanged.
    pub fn replaced(&self) -> Option<Result<Repair, String>> {
        self.pool.replaced.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Raises the alarm if the error indicates damage.
    pub fn suspect(&self, error: &StoreError) {
        if !error.is_damage() {
            return;
        }
        let evidence = match error {
            StoreError::Damaged(_) => Evidence::Proven,
            _ => Evidence::Reported,
        };
        if let Some(alarm) = &*self.pool.alarm.read().unwrap_or_else(PoisonError::into_inner) {
            alarm(Suspicion { generation: self.generation(), evidence, why: error.to_string() });
        }
    }

    /// Raises the alarm because another process found the database damaged. It is checked before it is replaced.
    pub fn suspect_reported(&self, why: String) {
        if let Some(alarm) = &*self.pool.alarm.read().unwrap_or_else(PoisonError::into_inner) {
            alarm(Suspicion { generation: self.generation(), evidence: Evidence::Reported, why });
        }
    }

    /// The database's path, for another process that reads it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn open(&self) -> rusqlite::Result<Connection> {
        let _it_is_there = self.pool.replacing.read().unwrap_or_else(PoisonError::into_inner);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(Duration::from_secs(2))?;
        connection.execute_batch(
            "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cache_size = -2000;",
        )?;
        plans_do_not_depend_on_values(&connection)?;
        connection.set_prepared_statement_cache_capacity(READER_STATEMENTS);
        Ok(connection)
    }
}
