//! The store: SQLite with one writer and any number of readers.
//!
//! It contains the schema, its migrations, and one method of [`Reader`] for each question. It decides nothing: the effects
//! of the domain say what is stored, and the writer actor says when. Times are milliseconds since 1970 (UTC), event ids are
//! blobs of 16 bytes, lists are JSON arrays, long texts are compressed (see `text`).
//!
//! **Invariant:** there is no policy here, and no `DELETE` that a caller did not ask for.

mod authors;
mod bind;
mod backup;
mod browsing;
mod by_hand;
mod by_query;
mod choice;
mod compactions;
mod delivery;
mod documents;
mod effect_context;
mod effects;
mod evidence;
mod execution;
mod finished_jobs;
mod file_notes;
mod forgetting;
mod hand_changes;
mod handoffs;
mod histories;
mod homes;
mod imported;
mod improving;
mod jobs;
mod kept_memories;
mod known;
mod late;
mod editing;
mod enders;
mod lineage;
mod ledger;
mod lives;
mod migration;
mod names;
mod opening;
mod operation;
mod orphans;
mod plans;
mod portable;
mod subagents;
mod subjects;
mod projects;
mod plain_search;
mod reader;
mod reading;
mod reindex;
mod repair;
mod results;
mod review;
mod row;
mod schema;
mod sessions;
mod sharing;
mod checkout_records;
mod spans;
mod statistics;
mod text;
mod threads;
#[cfg(test)]
mod three_sessions;
mod titles;
mod told_uses;
mod traces;
mod vectors;
mod writer;
mod writes;
#[cfg(test)]
mod arrival;
#[cfg(test)]
mod rehydration;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use recall_system::faults::Refused;
use recall_system::holding::Lost;

pub use authors::Authors;
pub use backup::{
    BackupError, Thoroughness, backup_by_hand, daily_backup_is_due, is_usable, newest_good_backup,
};
pub use browsing::{BROWSED, Browsed, EntryRow, ProjectLine, QUARTER_MS, Quarter};
pub use by_hand::{RemarkAuthor, Remembered, Validity};
pub use by_query::{Found, QueryError, QueryLimits, bound_memory, query};
pub use checkout_records::CheckoutRecord;
pub use choice::{Choice, ChosenBatch, DueBatch, DueChoice};
pub use compactions::CompactionRow;
pub use delivery::{Delivery, Precedence, SessionOrigin};
pub use documents::{DocumentRow, LogEntry};
pub use editing::{EditObservation, EditedText, MarkObservations, Pin, PinObservations, UndoChange};
pub use effect_context::StoredEvent;
#[cfg(test)]
pub(crate) use execution::execute;
pub use file_notes::{ChangingCallRow, FileNoteRow, WorkOf};
pub use finished_jobs::{FinishJob, FinishedJob, JobResult, Next, SessionResult, StoreStandIn};
pub use forgetting::{
    Criteria, Forget, Forgotten, ForgottenCounts, RowsToForget, Selection, TracesRemoved, Unreadable,
    has_all_words, rewrite,
};
pub use hand_changes::HandChange;
pub use handoffs::{HANDED_OVER, HandOver};
pub use histories::StatementRow;
pub use imported::{AnswerState, Capture, StoredPrompt};
pub use improving::{ImprovableSession, ImproveSessions, JobProgress};
pub use jobs::{
    CompressionTrouble, DeadJobs, DeleteDoneJobs, Duty, ExpireLeases, FirstResult, GiveBackJobs, JobFailure,
    JobKind, JobRow, Jobs, LeaseJob, LeasedJob, Lives, NextTry, OpenJobs, ReleaseLeases, Released, RetryJobs,
    WaitingJobs, WakeRetries,
};
pub use kept_memories::{KeepMemories, MemoryChanges, MemoryNote, Write};
pub use known::KnownSession;
pub use ledger::{ReserveCost, SettleCost, SpendingRow};
pub use lineage::{LineageRow, Relation};
pub use lives::{LifeEventRow, SuspendAll, Suspension};
pub use names::Named;
#[cfg(test)]
pub(crate) use opening::open_writer;
pub use operation::{Changes, Operation, WriteContext};
pub use orphans::{RepairOrphans, RepairedOrphans};
pub use plain_search::{PlainHit, PlainHits, PlainSearch};
pub use plans::PlanRow;
pub use portable::{DamagedRow, PageStart, Portion, RestoreRows, Restored, Trust, name_fields, text_fields};
pub use projects::ProjectInfo;
pub use reader::Reader;
pub use reading::{ObservationRow, SummaryRow, TimelineRow};
pub use reindex::Reindex;
pub use repair::{
    Evidence, LeftOut, Repair, RepairError, RepairOutcome, RepairSite, in_full, recent_repairs,
    remove_damaged, repair,
};
pub use results::BatchResult;
pub use review::{ReviewObservations, Unreviewed};
pub use sessions::{ActivityRow, BatchRow, GivenRow, InjectionRow, SessionInfo, StoredBatch, Turns};
pub use sharing::{
    AcceptMarker, Applied, ApplyParked, ApplyRecords, CloseShare, EmptiedSent, Head, Held, HoldBack,
    KnowProject, Left, LogExisting, Logged, OpenShare, Preview, RenewDevice, Share, Terms,
};
pub use spans::{CallTimes, ExpiredLife, JobTimes, SessionTimes, TurnTimes};
pub use statistics::{ProjectNotes, Statistics, UnreadableRow};
pub use subagents::SubagentRow;
pub use told_uses::{ClearWrong, MarkWrong, ToldCounts, ToldRow, ToldUse, ToldWhere};
pub use vectors::{
    CallsSeen, DropVectorFiles, RemoveOtherVectors, SessionPlace, StoreVectors, UseVectorFile, VectorFileRow,
    VectorRow, VectorState, VectorsStored,
};
pub use writer::StoreWriter;
pub use writes::{
    EventOutcome, IdleEffects, Injection, MessageApart, RetractInjection, Transaction, TrimIndexLog,
    Unparsed, UnparsedOutcome,
};

/// How safe a commit must be before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power failure: every commit is synced to disk.
    #[default]
    Full,
    /// Survives the end of the process; a power failure may lose the last milliseconds.
    Normal,
}

/// What SQLite says.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SqliteError(#[from] rusqlite::Error);

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(SqliteError(error))
    }
}

/// A fault that a test asked for: the disk refuses.
impl From<Refused> for StoreError {
    fn from(_: Refused) -> Self {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR), None).into()
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
    /// A check found damage; the text is SQLite's.
    #[error("the database is damaged: {0}")]
    Damaged(String),
}

impl StoreError {
    /// Whether a row that must exist does not.
    pub(crate) fn is_missing_row(&self) -> bool {
        matches!(self, Self::Sqlite(SqliteError(rusqlite::Error::QueryReturnedNoRows)))
    }

    /// Whether a row violates a constraint of its table.
    pub(crate) fn is_constraint(&self) -> bool {
        matches!(self, Self::Sqlite(error) if error.0.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation))
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
            Self::Sqlite(error) => is_damage(&error.0),
            Self::Json(_)
            | Self::Text(_)
            | Self::Unavailable(_)
            | Self::NoSuchBatch(_)
            | Self::NoSuchSession
            | Self::LogInUse => false,
        }
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Why the database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    #[error("database {} was written by a newer recall (schema {found}; this version supports {known})", path.display())]
    TooNew { path: PathBuf, found: u32, known: u32 },
    #[error("database {} was written by an unreleased recall with other tables", path.display())]
    OtherTables { path: PathBuf },
    #[error("cannot open database {}", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    #[error("cannot migrate database {} to schema {to}", path.display())]
    Migrate {
        path: PathBuf,
        to: u32,
        #[source]
        source: rusqlite::Error,
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
    /// As [`StoreError::is_damage`].
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Open { source, .. } | Self::Migrate { source, .. } => is_damage(source),
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

/// Statements that a connection which reads keeps prepared.
const READER_STATEMENTS: usize = 64;

/// The last connection that closes would play the log into the database, and remove the log by its path. A daemon that
/// stops makes the log empty itself, through the open file.
fn leave_log_when_closed(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

/// Keeps SQLite from planning a statement again for other parameter values. That took a seventh of the daemon's work
/// for an event.
fn plans_do_not_depend_on_values(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Moves the content of the write-ahead log into the database, unless a reader is in the way. The next commit
/// overwrites the log from its beginning. For the write connection, outside of a transaction.
pub(crate) fn restart_log(connection: &Connection) -> Result<(), StoreError> {
    checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)")
}

/// Like [`restart_log`], and empties the log.
pub(crate) fn empty_log(connection: &Connection) -> Result<(), StoreError> {
    checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
}

fn checkpoint(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    // A long reader must not block: the next call tries again.
    connection.busy_timeout(Duration::ZERO)?;
    let done = connection.query_row(sql, [], |_| Ok(()));
    connection.busy_timeout(Duration::from_secs(5))?;
    Ok(done?)
}

/// Like [`empty_log`], but waits for readers, and fails if one takes too long.
///
/// # Errors
/// When the database refuses, or somebody reads for more than ten seconds.
fn empty_log_now(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(Duration::from_secs(10))?;
    let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    connection.busy_timeout(Duration::from_secs(5))?;
    if emptied? == 0 { Ok(()) } else { Err(StoreError::LogInUse) }
}

/// Signs of damage that a reader found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// The generation of the database, see [`Readers::renew`].
    pub generation: u64,
    pub evidence: Evidence,
    pub why: String,
}

type Alarm = Box<dyn Fn(Suspicion) + Send + Sync>;

/// Read-only connections, opened when needed and kept for the next reader.
#[derive(Clone)]
pub struct Readers {
    path: Arc<Path>,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Pool {
    idle: Mutex<Vec<Connection>>,
    /// Held for writing while there may be no database at its path.
    replacing: RwLock<()>,
    generation: AtomicU64,
    alarm: RwLock<Option<Alarm>>,
    /// The result of the last replacement that the user requested, until somebody asks.
    replaced: Mutex<Option<Result<Repair, String>>>,
}

/// More idle readers than this are closed, because each has a page cache.
const IDLE_READERS: usize = 3;

impl Readers {
    pub fn new(path: &Path) -> Self {
        Self { path: path.into(), pool: Arc::default() }
    }

    /// Runs `query` on a read-only connection. Blocks: call it outside the async threads. Raises the alarm when the
    /// database turns out to be damaged.
    ///
    /// # Errors
    /// What `query` returns, or the failure to open a connection.
    pub fn read<T>(&self, query: impl FnOnce(Reader<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let generation = self.generation();
        let idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.open()?,
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

    /// Like [`Readers::read`], but all questions of `query` see the same state of the database.
    pub fn read_one_state<T>(
        &self,
        query: impl FnOnce(Reader<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.read(|db| {
            let snapshot = db.0.unchecked_transaction()?;
            query(Reader(&snapshot))
        })
    }

    /// The generation of the database, counted from the start of the process.
    pub fn generation(&self) -> u64 {
        self.pool.generation.load(Ordering::Acquire)
    }

    /// Closes every connection, because the database is being replaced.
    pub fn renew(&self) {
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        self.pool.generation.fetch_add(1, Ordering::AcqRel);
        idle.clear();
    }

    /// Replaces the database file. Readers wait meanwhile, and then read the new one.
    fn replace<T>(&self, put_in_place: impl FnOnce() -> T) -> T {
        let _nobody_opens_it = self.pool.replacing.write().unwrap_or_else(PoisonError::into_inner);
        let outcome = put_in_place();
        self.renew();
        outcome
    }

    /// Sets the function that is called at damage.
    pub fn on_damage(&self, alarm: impl Fn(Suspicion) + Send + Sync + 'static) {
        *self.pool.alarm.write().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(alarm));
    }

    /// Requests that another database replaces this one. Returns without waiting.
    pub fn replace_by(&self, instead: PathBuf) {
        let evidence = Evidence::Unwanted { instead };
        if let Some(alarm) = &*self.pool.alarm.read().unwrap_or_else(PoisonError::into_inner) {
            alarm(Suspicion {
                generation: self.generation(),
                evidence,
                why: "the user restores another one".to_owned(),
            });
        }
    }

    fn say_replaced(&self, outcome: Result<Repair, String>) {
        *self.pool.replaced.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }

    /// The result of a requested replacement: `None` until it is known, then once. An error says why the database is
    /// unchanged.
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

    /// The database's file, for another process that reads it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> Result<Connection, StoreError> {
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
