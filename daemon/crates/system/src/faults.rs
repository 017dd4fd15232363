//! Fail points, at which a test can kill or delay the daemon or make a step fail, and the faults that a test can
//! trigger.
//!
//! There is a [`Point`] at each step in the handling of an event after which a dying process would leave a different
//! state. In builds with the feature `faults`, the variable `RECALL_FAILPOINTS` defines what happens at which point,
//! in the syntax of the `fail` crate: `writer.commit=2*off->return(kill)` passes twice and kills the process the third
//! time. Besides the crate's own actions (`panic`, `sleep(ms)`, `off`) there are `return(kill)`, which kills the
//! process at once, `return(kill slowly)`, which first lets earlier output be sent, and `return(refuse)`, which causes
//! an input/output error if the step can have one. `RECALL_CLOCK_AHEAD_MS` sets this process's clock ahead. In all
//! other builds a point is an empty function, and the program contains neither the variable nor the names of the
//! points.
//!
//! Only `recall-tests` enables the feature, and only when tests are built: `cargo build` never has it, whatever
//! packages are selected. [`VERSION`] distinguishes the two builds, so that the tests never run the wrong one and the
//! benchmark never measures it.

pub use recall_protocol::planted::{Fault, planted};

/// A step in the handling of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// An event has arrived, through the socket or from the spool, but was not parsed.
    Decode,
    /// The event's session has decided, but has not sent the effects to the writer.
    Enqueue,
    /// The writer is about to begin a transaction.
    Begin,
    /// An event's acceptance is written, but not its effects.
    Insert,
    /// A transaction with rows is written, but not committed.
    Commit,
    /// A transaction is committed, but its callers do not know yet.
    Committed,
    /// The response is ready, but not sent.
    Ack,
    /// A spooled event is stored, but its file still exists.
    Unlink,
    /// Context was requested, but nothing was looked up.
    Recall,
    /// A compressor has leased a job, but has not started it.
    Lease,
    /// The maximum cost of a model call is reserved, but the call was not made.
    Reserved,
    /// A model has responded, but the cost is not recorded.
    Answered,
    /// The cost is recorded, but the result is not stored.
    Booked,
    /// A job's result is written, but the job is not marked as done.
    Result,
    /// A job's result is committed, but not reported.
    ResultCommitted,
    /// Documents were added to the index, but not committed.
    IndexCommit,
    /// The documents are committed, but the store's log still lists them.
    IndexCommitted,
    /// The vectors of a document are stored, but not reported.
    Vectors,
    /// A file of vectors is complete, but not in use.
    VectorFile,
    /// Forgotten vectors were deleted from the store, but the vector files may still contain them.
    VectorFilesDropped,
    /// Entries of another machine were read, but not merged.
    SyncRead,
    /// These entries are merged.
    SyncMerged,
    /// Entries are ready to be sent.
    SyncSend,
    /// The entries are sent, but this machine has not recorded it.
    SyncSent,
    /// The texts of forgotten notes are about to be deleted from the remote.
    SyncEmpty,
    /// They are deleted, but the store does not know.
    SyncEmptied,
    /// This machine has published how far it has read.
    SyncProgress,
    /// A file for a shared folder is written, but does not have its final name.
    FolderWritten,
    /// It has its final name, and still the temporary one as well.
    FolderLinked,
    /// A file without the forgotten texts is written, but the old one still exists.
    FolderReplace,
}

impl Point {
    pub const ALL: [Self; 30] = [
        Self::Decode,
        Self::Enqueue,
        Self::Begin,
        Self::Insert,
        Self::Commit,
        Self::Committed,
        Self::Ack,
        Self::Unlink,
        Self::Recall,
        Self::Lease,
        Self::Reserved,
        Self::Answered,
        Self::Booked,
        Self::Result,
        Self::ResultCommitted,
        Self::IndexCommit,
        Self::IndexCommitted,
        Self::Vectors,
        Self::VectorFile,
        Self::VectorFilesDropped,
        Self::SyncRead,
        Self::SyncMerged,
        Self::SyncSend,
        Self::SyncSent,
        Self::SyncEmpty,
        Self::SyncEmptied,
        Self::SyncProgress,
        Self::FolderWritten,
        Self::FolderLinked,
        Self::FolderReplace,
    ];

    /// The points of a model call. They are never reached without a model.
    pub const OF_MODELS: [Self; 3] = [Self::Reserved, Self::Answered, Self::Booked];

    /// The points of vectors. They are never reached without a sentence model.
    pub const OF_VECTORS: [Self; 3] = [Self::Vectors, Self::VectorFile, Self::VectorFilesDropped];

    /// The points of an exchange with remotes. They are never reached without a share, and the last three only with a
    /// shared folder.
    pub const OF_SHARING: [Self; 10] = [
        Self::SyncRead,
        Self::SyncMerged,
        Self::SyncSend,
        Self::SyncSent,
        Self::SyncEmpty,
        Self::SyncEmptied,
        Self::SyncProgress,
        Self::FolderWritten,
        Self::FolderLinked,
        Self::FolderReplace,
    ];

    /// The point's name in `RECALL_FAILPOINTS`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "ingest.decode",
            Self::Enqueue => "session.enqueue",
            Self::Begin => "writer.begin",
            Self::Insert => "store.insert",
            Self::Commit => "writer.commit",
            Self::Committed => "writer.committed",
            Self::Ack => "connection.ack",
            Self::Unlink => "spool.unlink",
            Self::Recall => "context.lookup",
            Self::Lease => "compressor.lease",
            Self::Reserved => "ledger.reserved",
            Self::Answered => "ledger.answered",
            Self::Booked => "ledger.booked",
            Self::Result => "store.result",
            Self::ResultCommitted => "compressor.committed",
            Self::IndexCommit => "index.commit",
            Self::IndexCommitted => "index.committed",
            Self::Vectors => "vectors.stored",
            Self::VectorFile => "vectors.file",
            Self::VectorFilesDropped => "vectors.dropped",
            Self::SyncRead => "sync.read",
            Self::SyncMerged => "sync.merged",
            Self::SyncSend => "sync.send",
            Self::SyncSent => "sync.sent",
            Self::SyncEmpty => "sync.empty",
            Self::SyncEmptied => "sync.emptied",
            Self::SyncProgress => "sync.progress",
            Self::FolderWritten => "folder.written",
            Self::FolderLinked => "folder.linked",
            Self::FolderReplace => "folder.replace",
        }
    }
}

pub use build::{VERSION, arm, clock_ahead_ms, reach, reach_disk};

/// The error at a step for which a test requested a failure of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// Whether this build has fail points.
pub const WITH_FAULTS: bool = cfg!(feature = "faults");

/// The release build.
#[cfg(not(feature = "faults"))]
mod build {
    use super::{Point, Refused};

    /// The output of `recall --version`.
    pub const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// Does nothing: release builds have no fail points.
    ///
    /// # Errors Never.
    #[inline(always)]
    pub const fn arm() -> Result<(), std::convert::Infallible> {
        Ok(())
    }

    /// Does nothing.
    #[inline(always)]
    pub const fn reach(_: Point) {}

    /// Always 0.
    #[inline(always)]
    pub const fn clock_ahead_ms() -> i64 {
        0
    }

    /// Does nothing.
    ///
    /// # Errors
    /// Never.
    #[inline(always)]
    pub const fn reach_disk(_: Point) -> Result<(), Refused> {
        Ok(())
    }
}

/// The build for end-to-end tests.
#[cfg(feature = "faults")]
mod build {
    use std::sync::OnceLock;
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::{Point, Refused};

    /// The output of `recall --version`.
    pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " with faults, for tests only");

    /// Why the fail points cannot be configured.
    #[derive(Debug, thiserror::Error)]
    pub enum ArmError {
        #[error("RECALL_FAILPOINTS: there is no point {0:?}")]
        NoSuchPoint(String),
        #[error("RECALL_FAILPOINTS: {0}")]
        NoSuchAction(String),
    }

    /// Configures the fail points from the environment.
    ///
    /// # Errors
    /// Fails when the variable names an unknown point or action.
    pub fn arm() -> Result<(), ArmError> {
        let armed = std::env::var("RECALL_FAILPOINTS").unwrap_or_default();
        for (name, actions) in armed.split(';').filter_map(|point| point.split_once('=')) {
            if !Point::ALL.iter().any(|point| point.name() == name) {
                return Err(ArmError::NoSuchPoint(name.to_owned()));
            }
            fail::cfg(name, actions).map_err(ArmError::NoSuchAction)?;
        }
        Ok(())
    }

    /// How far this process's clock is ahead of the system's, according to `RECALL_CLOCK_AHEAD_MS`.
    pub fn clock_ahead_ms() -> i64 {
        static AHEAD: OnceLock<i64> = OnceLock::new();
        let read = || std::env::var("RECALL_CLOCK_AHEAD_MS").ok()?.parse().ok();
        *AHEAD.get_or_init(|| read().unwrap_or_default())
    }

    /// Performs the action that is configured for this point, if any.
    pub fn reach(point: Point) {
        // A step that cannot fail continues.
        let _ = outcome(point);
    }

    /// Like [`reach`], for a step that the disk can refuse.
    ///
    /// # Errors
    /// Fails when a refusal is configured for this point.
    pub fn reach_disk(point: Point) -> Result<(), Refused> {
        match outcome(point) {
            Outcome::GoOn => Ok(()),
            Outcome::Refused => Err(Refused),
        }
    }

    /// Far more time than it takes to send a finished response.
    const LAST_WORDS: Duration = Duration::from_secs(1);

    enum Outcome {
        GoOn,
        Refused,
    }

    fn outcome(point: Point) -> Outcome {
        fail::fail_point!(point.name(), |word: Option<String>| match word.as_deref() {
            Some("refuse") => Outcome::Refused,
            Some("kill slowly") => {
                std::thread::sleep(LAST_WORDS);
                die()
            }
            _ => die(),
        });
        Outcome::GoOn
    }

    fn die() -> ! {
        let _ = kill_process(getpid(), Signal::KILL);
        std::process::abort()
    }
}
