//! Places where a test can kill, stop or refuse the daemon, and the faults that a test can plant.
//!
//! There is a [`Point`] at each step of an event's handling after which a dying process leaves a different state. In
//! builds with the feature `faults`, the variable `RECALL_FAILPOINTS` says what happens at which point, in the syntax
//! of the `fail` crate: `writer.commit=2*off->return(kill)` passes twice and kills at the third time. Besides the
//! crate's own actions (`panic`, `sleep(ms)`, `off`) there are `return(kill)`, which kills the process at once,
//! `return(kill slowly)`, which first lets earlier output out, and `return(refuse)`, an input/output error if the step
//! can have one. `RECALL_CLOCK_AHEAD_MS` sets this process's clock ahead. In every other build a point is an empty function, and neither the variable nor the name of a point is
//! in the program.
//!
//! Only `recall-tests` enables the feature, and only when tests are built: `cargo build` never has it, whatever
//! packages are selected. [`VERSION`] distinguishes the two builds, so the tests never run the wrong one and the bench
//! never measures it.

pub use recall_protocol::planted::{Fault, planted};

/// A step in the handling of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// An event has arrived, through the socket or from the spool, and is not read yet.
    Decode,
    /// Its session has decided and has not sent the effects to the writer.
    Enqueue,
    /// The writer is about to begin a transaction.
    Begin,
    /// An event's acceptance is written, but not its effects.
    Insert,
    /// A group with rows is written and not committed.
    Commit,
    /// A group is committed, and its callers do not know yet.
    Committed,
    /// The answer is ready, but not sent.
    Ack,
    /// A spooled event is stored, but its file still exists.
    Unlink,
    /// Context was requested, but nothing looked up yet.
    Recall,
    /// A compressor has a job and has not begun.
    Lease,
    /// The highest cost of a model's call is reserved, but the call is not made.
    Reserved,
    /// A model has answered, but the cost is not recorded.
    Answered,
    /// The cost is recorded, but the answer is not stored.
    Booked,
    /// A job's result is written, but the job is not marked done.
    Result,
    /// A job's result is committed but not reported yet.
    ResultCommitted,
    /// Documents were added to the index, but not committed.
    IndexCommit,
    /// They are committed, but the store's log still lists them.
    IndexCommitted,
    /// The vectors of a document are stored but not reported yet.
    Vectors,
    /// A file of vectors is complete, but not used yet.
    VectorFile,
    /// Forgotten vectors are gone from the store, but the vector files may still contain them.
    VectorFilesDropped,
    /// Entries of another machine were read, but not merged.
    SyncRead,
    /// They are merged.
    SyncMerged,
    /// Entries are ready to be sent.
    SyncSend,
    /// They are sent, and this machine does not know.
    SyncSent,
    /// The remote is about to lose the texts of forgotten notes.
    SyncEmpty,
    /// It has lost them, but the store does not know.
    SyncEmptied,
    /// The machine has said how far it has read.
    SyncProgress,
    /// A file for a shared folder is written, but has not its name yet.
    FolderWritten,
    /// It has its name, and the temporary one too.
    FolderLinked,
    /// A file without forgotten texts is written, but the old one is still there.
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

    /// The points of a model's call. Without a model none of them is reached.
    pub const OF_MODELS: [Self; 3] = [Self::Reserved, Self::Answered, Self::Booked];

    /// The points of vectors. Without a sentence model none of them is reached.
    pub const OF_VECTORS: [Self; 3] = [Self::Vectors, Self::VectorFile, Self::VectorFilesDropped];

    /// The points of a round with remotes. Without a share none of them is reached, and in a database not the last three.
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

    /// The point's name in the variable.
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

/// A test asked that the disk refuses this step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// Whether this build has points and faults.
pub const WITH_FAULTS: bool = cfg!(feature = "faults");

/// The release build.
#[cfg(not(feature = "faults"))]
mod build {
    use super::{Point, Refused};

    /// The output of `recall --version`.
    pub const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// Release builds have nothing to arm.
    ///
    /// # Errors Never.
    #[inline(always)]
    pub const fn arm() -> Result<(), std::convert::Infallible> {
        Ok(())
    }

    /// Does nothing.
    #[inline(always)]
    pub const fn reach(_: Point) {}

    /// 0: the clock is the system's.
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
    pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " with faults, for tests alone");

    /// Why the points cannot be armed.
    #[derive(Debug, thiserror::Error)]
    pub enum ArmError {
        #[error("RECALL_FAILPOINTS: there is no point {0:?}")]
        NoSuchPoint(String),
        #[error("RECALL_FAILPOINTS: {0}")]
        NoSuchAction(String),
    }

    /// Reads from the environment which action happens at which point.
    ///
    /// # Errors
    /// When it names an unknown point or action.
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

    /// How far this process's clock is ahead of the system's, as `RECALL_CLOCK_AHEAD_MS` says.
    pub fn clock_ahead_ms() -> i64 {
        static AHEAD: OnceLock<i64> = OnceLock::new();
        let read = || std::env::var("RECALL_CLOCK_AHEAD_MS").ok()?.parse().ok();
        *AHEAD.get_or_init(|| read().unwrap_or_default())
    }

    /// Does what was requested at this point, or nothing.
    pub fn reach(point: Point) {
        // A step that cannot be refused continues.
        let _ = outcome(point);
    }

    /// The same for a step that the disk can refuse.
    ///
    /// # Errors
    /// When a refusal was asked for.
    pub fn reach_disk(point: Point) -> Result<(), Refused> {
        match outcome(point) {
            Outcome::GoOn => Ok(()),
            Outcome::Refused => Err(Refused),
        }
    }

    /// Far longer than a finished answer needs to get out.
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
