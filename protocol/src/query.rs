//! The requests to the daemon: one type for each, and the enum that goes over the wire.
//!
//! Answers are JSON; the daemon's library says which type answers which request. Times are in milliseconds since 1970,
//! and an absent time sets no bound. The rules of evolution are those of [`crate::wire`].

mod by_hand;
mod transfer;

use serde::{Deserialize, Serialize};

pub use by_hand::{
    AgentRemark, Changes, Edit, Forget, ForgetStep, Forgettable, InjectionVerdict, Mark, Pin, PinUp,
    Remember, Review, ReviewVerdict, Undo, UndoOf, Unreadable, Unreviewed, Validity, Wrong,
};
pub use transfer::{
    AgentNote, Backup, Export, ExportFrom, MemoryStep, Restore, RestoreBackup, RestoreFrom, RowSource,
    TakeMemories,
};

/// Declares the enum of all requests and the conversion of each request into it.
macro_rules! queries {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A request to read or administer.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Query {
            $($(#[$doc])* $name($name),)+
        }

        impl Query {
            /// The request's name, without its arguments.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($name),)+
                }
            }
        }

        $(impl From<$name> for Query {
            fn from(request: $name) -> Self {
                Self::$name(request)
            }
        })+
    };
}

queries! {
    Ping,
    Status,
    Sessions,
    Session,
    Jobs,
    Stats,
    Search,
    Show,
    Timeline,
    Context,
    Why,
    Identity,
    Flush,
    Stop,
    Pause,
    Resume,
    Retry,
    Forget,
    Remember,
    Mark,
    Follow,
    Captured,
    Export,
    Restore,
    Sql,
    Backup,
    RestoreBackup,
    Check,
    Prune,
    Reindex,
    Edit,
    PinUp,
    Undo,
    Changes,
    Glance,
    OpenGateway,
    Days,
    Entries,
    Projects,
    Threads,
    SessionPage,
    ThreadPage,
    RestoreFrom,
    AgentRemark,
    Improvable,
    Improve,
    Improving,
    Wrong,
    How,
    Fix,
    Blame,
    SharePreview,
    SyncState,
    Handoff,
    HandOver,
    Friction,
    Unreviewed,
    Review,
    TakeMemories,
    Outline,
    TermsPreview,
    UndoOf,
}

/// Asks whether a daemon responds, and for its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping;

/// Requests the daemon's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    pub filter: Filter,
}

/// Lists sessions, skipping the first `skip`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPage {
    pub filter: Filter,
    pub skip: u32,
}

/// Requests a few figures on how much is known about a folder's project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Glance {
    /// An absolute path.
    pub folder: String,
}

/// Requests one session, by the agent's id or an unambiguous prefix of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: String,
}

/// Lists compression jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobs {
    pub which: WhichJobs,
    pub filter: Filter,
}

/// Requests the cost of models over the last days, including today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub days: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    pub text: String,
    pub filter: Filter,
    pub explain: Explain,
    /// The absolute folder where the question is asked. Results from a branch that is not merged there are marked.
    pub folder: Option<String>,
}

/// Requests an observation (`123`, `#123`) or another document (`p12`, `r12`, `s12`, `a12`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Show {
    pub id: String,
    /// See [`Search::folder`].
    pub folder: Option<String>,
}

/// Requests the events around a document or in a session, in chronological order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    pub id: String,
    pub before: u32,
    pub after: u32,
    /// See [`Search::folder`].
    pub folder: Option<String>,
}

/// Requests the context for the next session in `cwd` or, with a prompt, the context for that prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub cwd: String,
    pub prompt: Option<String>,
}

/// Lists a session's injections with times and reasons. For an observation: the sessions that received it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    pub id: String,
}

/// Asks which parts of an agent's sessions are already stored. Used by an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    pub agent: String,
    /// The agent's session ids, at most 1,000.
    pub sessions: Vec<String>,
}

/// Requests the number of entries per day, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Days {
    pub of: EntryFilter,
}

/// Lists remembered items, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entries {
    pub of: EntryFilter,
    pub since_ms: Option<i64>,
    /// Only entries before this time.
    pub until_ms: Option<i64>,
    /// Skips this many of the newest entries.
    pub skip: u32,
    pub limit: u32,
}

/// Lists projects, most recent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Projects;

/// Lists subjects that have an earlier statement or are resolved, most recent first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threads {
    /// See [`Filter::project`].
    pub project: Option<String>,
    /// Only the thread of this observation (`123`, `#123`), with its texts.
    pub of: Option<String>,
    pub limit: u32,
}

/// Lists threads, skipping the first `skip`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPage {
    /// See [`Filter::project`].
    pub project: Option<String>,
    pub skip: u32,
    pub limit: u32,
}

/// Opens the gateway if it is closed, and creates a one-time link that signs in one browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenGateway;

/// Asks which project a folder belongs to, and why it does not belong to another project that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub folder: String,
}

/// Replies once everything accepted before is stored, compressed once and searchable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flush;

/// Drains the events, suspends live sessions, commits the index and exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop;

/// Stops capturing and injecting until this time; if absent, until [`Resume`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub until_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume;

/// Immediately retries dead and waiting jobs: one, or all. Paused providers are asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    pub job: Option<i64>,
}

/// Lists the sessions whose notes the built-in compressor wrote, newest first, with an estimate of what a model would
/// need for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Improvable {
    pub filter: Filter,
}

/// Has the configured model rewrite the notes of these sessions, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Improve {
    /// Session rows from the answer to [`Improvable`], at most 1,000.
    pub sessions: Vec<i64>,
}

/// Requests the progress of these jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Improving {
    pub jobs: Vec<i64>,
}

/// Finds commands that were run and contain these words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct How {
    pub command: String,
    pub filter: Filter,
}

/// Asks where an error occurred before, and what was done until the same call passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// The error, or the whole output that contains it.
    pub error: String,
    pub filter: Filter,
}

/// Lists the turns that changed a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blame {
    /// An absolute path.
    pub file: String,
    /// Only changes that wrote this line, exactly as it is in the file.
    pub line: Option<String>,
    pub limit: Option<u32>,
}

/// Requests what another agent or a person needs to continue a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// The agent's session id or an unambiguous prefix of it; absent: the project's latest session.
    pub session: Option<String>,
    /// See [`Filter::project`].
    pub project: String,
}

/// Injects into an agent's next session in the same project what it needs to continue this session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOver {
    /// See [`Handoff::session`].
    pub session: Option<String>,
    /// See [`Filter::project`].
    pub project: String,
    /// The agent's name or an unambiguous prefix of it.
    pub agent: String,
}

/// Lists problems that keep recurring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Friction {
    pub filter: Filter,
}

/// Asks where the code of a folder's repository declares a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// An absolute path.
    pub folder: String,
    /// A file's path, or names or words of names.
    pub asked: String,
    pub limit: Option<u32>,
}

/// Asks what would leave this machine if a project were shared. From then on the daemon knows the project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharePreview {
    /// An absolute folder, or a project's name.
    pub project: String,
    pub persons: Persons,
}

/// Whether the machines that share a project belong to one person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Persons {
    One,
    Several,
}

/// As [`SharePreview`], on terms by which prompts and answers may leave, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermsPreview {
    /// An absolute folder, or a project's name.
    pub project: String,
    pub persons: Persons,
    /// What leaves of that which is said in sessions.
    pub said: Vec<ConversationPart>,
}

/// A part of what is said in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConversationPart {
    Prompts,
    Answers,
}

/// Requests the state of what is shared with other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncState {
    pub round: SyncRound,
}

/// Whether to exchange with every remote first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncRound {
    No,
    Now,
}

/// Subscribes to events as they happen. The first reply is a `Json`; every later event is then sent as its own reply
/// until the client disconnects. When the daemon stops, the last reply says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follow {
    /// Only events of sessions whose id begins with this text.
    pub session: Option<String>,
    /// Only events of these names; empty means all.
    pub kinds: Vec<String>,
}

/// Runs a read-only SQL statement of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sql {
    pub text: String,
    /// The maximum number of rows to return; the daemon has its own limit.
    pub limit: u32,
}

/// Checks the database for damage and the index for missing documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check;

/// Forgets sessions without an event since a given time, or previews them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prune {
    pub silent_since_ms: i64,
    pub step: ForgetStep,
}

/// Rebuilds the search index, and replies when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reindex;

/// Which entries a listing contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryFilter {
    /// See [`Filter::project`].
    pub project: Option<String>,
    /// `observation`, `prompt`, `summary`; empty means all three.
    pub kinds: Vec<String>,
    /// Only observations of these types; empty means all.
    pub types: Vec<String>,
}

/// Which jobs to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhichJobs {
    All,
    /// Jobs that were given up.
    Dead,
}

/// Whether results explain their scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Explain {
    #[default]
    No,
    Yes,
}

/// Conditions shared by most read commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// A project's display name, its identity, or an absolute folder inside the project.
    pub project: Option<String>,
    pub since_ms: Option<i64>,
    pub limit: Option<u32>,
}
