//! Why a store operation failed. SQLite's own errors are not part of the interface.

use std::ffi::c_int;
use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

use recall_system::faults::Refused;
use recall_system::holding::Lost;

/// An error from SQLite.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SqliteError(pub(crate) rusqlite::Error);

impl SqliteError {
    fn is_damage(&self) -> bool {
        matches!(self.0.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
    }
}

/// A fault that a test injected: the disk refuses.
impl From<Refused> for StoreError {
    fn from(_: Refused) -> Self {
        let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR);
        SqliteError(rusqlite::Error::SqliteFailure(error, None)).into()
    }
}

/// Why a query or a write failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("database error: {0}")]
    Sqlite(#[from] SqliteError),
    #[error("a stored list is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("a stored text cannot be decompressed: {0}")]
    Text(#[from] std::io::Error),
    #[error("cannot write the database: {0}")]
    Unavailable(String),
    #[error("batch {0} of the session is not stored")]
    NoSuchBatch(u32),
    /// The session was forgotten between the decision and the write.
    #[error("the session is not stored")]
    NoSuchSession,
    #[error("cannot truncate the write-ahead log while the database is read")]
    LogInUse,
    /// A check found damage. The text is SQLite's.
    #[error("the database is damaged: {0}")]
    Damaged(String),
}

impl StoreError {
    /// Whether a row that must exist is missing.
    pub(crate) fn is_missing_row(&self) -> bool {
        matches!(self, Self::Sqlite(SqliteError(rusqlite::Error::QueryReturnedNoRows)))
    }

    /// SQLite's extended code, if a row violates a constraint of its table.
    pub(crate) fn violated(&self) -> Option<c_int> {
        match self {
            Self::Sqlite(SqliteError(rusqlite::Error::SqliteFailure(error, _))) => {
                (error.code == ErrorCode::ConstraintViolation).then_some(error.extended_code)
            }
            _ => None,
        }
    }

    /// Whether the error depends on the disk or another connection, so that a later attempt may succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::LogInUse => true,
            Self::Sqlite(error) => matches!(
                error.0.sqlite_error_code(),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::SystemIoFailure
                        | ErrorCode::ReadOnly
                        | ErrorCode::CannotOpen
                        | ErrorCode::OutOfMemory
                        | ErrorCode::DatabaseBusy
                        | ErrorCode::DatabaseLocked
                )
            ),
            Self::Json(_) | Self::Text(_) | Self::NoSuchBatch(_) | Self::NoSuchSession | Self::Damaged(_) => {
                false
            }
        }
    }

    /// Whether the database file differs from what SQLite wrote. Then no later attempt can succeed.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged(_) => true,
            Self::Sqlite(error) => error.is_damage(),
            Self::Json(_)
            | Self::Text(_)
            | Self::Unavailable(_)
            | Self::NoSuchBatch(_)
            | Self::NoSuchSession
            | Self::LogInUse => false,
        }
    }
}

/// Why a backup failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The database cannot be read; it may be damaged.
    #[error(transparent)]
    Source(#[from] StoreError),
    #[error("the copy is damaged: {0}")]
    Copy(#[source] StoreError),
    #[error("cannot remove {}", path.display())]
    Remove {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    #[error("database {} was written by a newer recall (schema {found}; this version supports {known})", path.display())]
    TooNew { path: PathBuf, found: u32, known: u32 },
    #[error("database {} was written by an unreleased recall with different tables", path.display())]
    OtherTables { path: PathBuf },
    #[error("cannot open database {}", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: SqliteError,
    },
    #[error("cannot migrate database {} to schema {to}", path.display())]
    Migrate {
        path: PathBuf,
        to: u32,
        #[source]
        source: SqliteError,
    },
    #[error("cannot back up database {} before migrating it", path.display())]
    Backup {
        path: PathBuf,
        #[source]
        source: BackupError,
    },
    #[error("cannot sync the new database {}", path.display())]
    Create {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error("cannot finish the repair of database {}", path.display())]
    Repair {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl OpenStoreError {
    /// See [`StoreError::is_damage`].
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Open { source, .. } | Self::Migrate { source, .. } => source.is_damage(),
            Self::Backup { source: BackupError::Source(source), .. } => source.is_damage(),
            Self::Backup { .. }
            | Self::TooNew { .. }
            | Self::OtherTables { .. }
            | Self::Create { .. }
            | Self::Lost(_)
            | Self::Repair { .. } => false,
        }
    }
}
