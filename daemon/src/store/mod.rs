//! What is kept: SQLite, one writer, any number of readers.
//!
//! The schema and its migrations, one function per query, and nothing that decides: what shall be stored is said by
//! the effects of `memory/`, when it is stored by the writer actor. Times are milliseconds since 1970 (UTC), event
//! ids are blobs of 16 bytes, lists are JSON arrays, long texts are compressed (see `text`).
//!
//! **Invariant:** no policy; no `DELETE` that a caller did not ask for.

mod documents;
mod effects;
mod jobs;
mod late;
mod projects;
mod reading;
mod schema;
mod sessions;
mod statistics;
mod text;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

pub use documents::{
    DocumentRow, LogEntry, documents_after, highest_log_entry, load_document, log_is_complete, prompt_number,
    scan_documents,
};
pub use jobs::{FinishedJob, JobFailure, JobKind, JobResult, JobRow, LeasedJob, jobs, unfinished_jobs};
pub use projects::{ProjectInfo, find_project, project, projects_named};
pub use reading::{
    ObservationRow, SummaryRow, TimelineRow, candidates, latest_summary, observation, observations_by_id,
    timeline,
};
pub use sessions::{
    ActivityRow, BatchRow, InjectionRow, KnownSession, SessionInfo, StoredBatch, asides_of_batch, batch_row,
    batches, find_sessions, injections, known_session, observations_of_session, quiet_sessions,
    session_activities, session_info, session_list, summary_of_session,
};
pub use statistics::{Statistics, statistics};
pub use writes::{
    Delivery, Injection, SessionOrigin, StoredEvent, Transaction, Unparsed, Write, Written, execute,
};

/// How sure a commit must be before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power failure: every commit is synced to the disk.
    #[default]
    Full,
    /// Survives the death of the process; a power failure may cost the last milliseconds.
    Normal,
}

/// Why a query or a write failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the database refused: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("a stored list is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("a stored text cannot be decompressed: {0}")]
    Text(#[from] std::io::Error),
    #[error("the database cannot be written: {0}")]
    Unavailable(String),
    #[error("batch {0} of the session is not stored")]
    NoSuchBatch(u32),
}

/// Why the database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    #[error("database {} was written by a newer recall (schema {found}, this one knows {known})", path.display())]
    TooNew { path: PathBuf, found: u32, known: u32 },
    #[error("cannot open database {}", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    #[error("cannot bring database {} to schema {to}", path.display())]
    Migrate {
        path: PathBuf,
        to: u32,
        #[source]
        source: rusqlite::Error,
    },
    #[error("cannot back database {} up before bringing it to a newer schema", path.display())]
    Backup {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
}

/// Opens the write connection; creates and migrates the database. There must be only one in all processes: the
/// daemon's lock sees to that.
///
/// # Errors
/// When the file cannot be opened or migrated, or was written by a newer version; nothing is changed then.
pub fn open_writer(
    path: &Path,
    backups: &Path,
    durability: Durability,
) -> Result<Connection, OpenStoreError> {
    let failed = |source| OpenStoreError::Open { path: path.to_owned(), source };
    let mut connection = Connection::open(path).map_err(failed)?;
    private_file(path);
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA secure_delete = ON;
             PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000;
             PRAGMA cache_size = -8000;"
        ))
        .map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    schema::migrate(&mut connection, path, backups)?;
    Ok(connection)
}

/// SQLite gives its side files the mode of the database.
fn private_file(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if let Err(error) = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)) {
        tracing::warn!(path = %path.display(), %error, "cannot make the database private");
    }
}

/// Read-only connections, opened when needed and kept for the next reader.
#[derive(Clone)]
pub struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
}

/// More idle readers than this are closed: each holds its page cache.
const IDLE_READERS: usize = 3;

impl Readers {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), idle: Arc::default() }
    }

    /// Runs `query` on a read-only connection. Blocks: call it outside the async threads.
    ///
    /// # Errors
    /// What `query` returns, or the failure to open a connection.
    pub fn read<T>(&self, query: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.open()?,
        };
        let answer = query(&connection);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_READERS {
            idle.push(connection);
        }
        answer
    }

    fn open(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(Duration::from_secs(2))?;
        connection.execute_batch(
            "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cache_size = -2000;",
        )?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(connection)
    }
}
