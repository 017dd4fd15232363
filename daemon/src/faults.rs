//! Places where a test can kill, stop or refuse the daemon, and the faults that a test can plant.
//!
//! A [`Point`] stands at each step of an event's way behind which something different is left if the process dies
//! there. In builds with the feature `faults` the variable `RECALL_FAILPOINTS` says what happens at which, in the
//! words of the `fail` crate: `writer.commit=2*off->return(kill)` passes twice and kills at the third time. Besides the
//! crate's own actions (`panic`, `sleep(ms)`, `off`) there are `return(kill)`, the process's end without a word,
//! `return(kill slowly)`, which lets out what has been said before, and `return(refuse)`, an input/output error where
//! the step can have one. In every other build a point is nothing: an empty function, no variable, no name of a point
//! in the program.
//!
//! Only `recall-tests` asks for the feature, and only where tests are built: `cargo build` has it for no selection of
//! packages. [`VERSION`] tells the two apart, so that the tests never run, nor the bench ever measures, the wrong one.

pub use recall_protocol::planted::{Fault, planted};

/// A step of an event's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// An event has come, through the socket or from the spool, and is not read yet.
    Decode,
    /// Its session has decided and has not told the writer.
    Enqueue,
    /// The writer is about to begin a transaction.
    Begin,
    /// An event's acceptance is written, what follows from it is not.
    Insert,
    /// A group with rows is written and not committed.
    Commit,
    /// It is committed and nobody knows.
    Committed,
    /// The answer is known and not sent.
    Ack,
    /// A spooled event is stored and its file still there.
    Unlink,
    /// Somebody asks for context, and nothing has been looked up yet.
    Recall,
    /// A compressor holds a job and has not begun.
    Lease,
    /// The most that a model's call can cost is reserved, and the call not made.
    Reserved,
    /// A model has answered, and what that cost is not booked.
    Answered,
    /// It is booked, and the answer is not stored.
    Booked,
    /// A job's result is written, and the job not yet done.
    Result,
    /// A job's result is committed and nobody knows.
    ResultCommitted,
    /// The index has taken documents and not committed them.
    IndexCommit,
    /// It has committed them and the store's log still names them.
    IndexCommitted,
    /// The vectors of a document are stored, and nobody knows.
    Vectors,
    /// A file of vectors is whole and not used yet.
    VectorFile,
    /// Forgotten vectors are gone from the store, but the vector files may still contain them.
    VectorFilesDropped,
}

impl Point {
    pub const ALL: [Self; 20] = [
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
    ];

    /// The points on the way of a model's call. Without a model none of them is reached.
    pub const OF_MODELS: [Self; 3] = [Self::Reserved, Self::Answered, Self::Booked];

    /// The points of vectors. Without a sentence model none of them is reached.
    pub const OF_VECTORS: [Self; 3] = [Self::Vectors, Self::VectorFile, Self::VectorFilesDropped];

    /// As the variable names it.
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
        }
    }
}

pub use build::{VERSION, arm, reach, reach_disk};

/// Whether this build has points and faults.
pub const WITH_FAULTS: bool = cfg!(feature = "faults");

/// The release build.
#[cfg(not(feature = "faults"))]
mod build {
    use super::Point;

    /// The output of `recall --version`.
    pub const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// Release builds have nothing to arm.
    ///
    /// # Errors Never.
    #[inline(always)]
    pub const fn arm() -> Result<(), std::convert::Infallible> {
        Ok(())
    }

    /// Goes on.
    #[inline(always)]
    pub const fn reach(_: Point) {}

    /// Goes on.
    ///
    /// # Errors
    /// Never.
    #[inline(always)]
    pub const fn reach_disk(_: Point) -> rusqlite::Result<()> {
        Ok(())
    }
}

/// The build for end-to-end tests.
#[cfg(feature = "faults")]
mod build {
    use std::time::Duration;

    use rusqlite::{Error, ffi};
    use rustix::process::{Signal, getpid, kill_process};

    use super::Point;

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

    /// Takes from the environment what shall happen at which point.
    ///
    /// # Errors
    /// When it names no point or no action.
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

    /// Does what was asked for at this point; goes on if nothing was.
    pub fn reach(point: Point) {
        // A step that cannot be refused goes on.
        let _ = outcome(point);
    }

    /// The same for a step that the disk can refuse.
    ///
    /// # Errors
    /// When a refusal was asked for.
    pub fn reach_disk(point: Point) -> rusqlite::Result<()> {
        match outcome(point) {
            Outcome::GoOn => Ok(()),
            Outcome::Refused => Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR), None)),
        }
    }

    /// Far longer than an answer needs that was given already.
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
