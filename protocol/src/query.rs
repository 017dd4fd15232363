//! The requests to the daemon: one type for each, and the enum that goes over the wire.
//!
//! Answers are JSON; the daemon's library says which type answers which request. Times are in milliseconds since 1970,
//! and an absent time sets no bound. The rules of evolution are those of [`crate::wire`].

use serde::{Deserialize, Serialize};

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

/// Requests the next part of the stored memory, as JSON lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    pub filter: Filter,
    /// Where the part begins; `None` for the beginning.
    pub from: Option<ExportFrom>,
}

/// The position where a part of an export begins. Only the daemon that created it can interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportFrom {
    pub table: u32,
    pub after: i64,
}

/// Stores lines of an export, each a JSON object. Rows that already exist stay unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restore {
    pub lines: Vec<String>,
}

/// Like [`Restore`], for lines from a source that is trusted more than a stranger's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreFrom {
    pub lines: Vec<String>,
    pub source: RowSource,
}

/// The author of these lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowSource {
    /// Another tool's memory, which identifies projects by name.
    OtherMemory,
    /// The user's own export, according to the user.
    OwnExport,
}

/// Replaces the stored notes of an agent's own memory about a project with these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeMemories {
    pub agent: String,
    /// The absolute path of the project's folder.
    pub folder: String,
    pub notes: Vec<AgentNote>,
    pub step: MemoryStep,
}

/// A note from an agent's own memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentNote {
    pub file: String,
    /// The headings above the note.
    pub heading: String,
    pub text: String,
    /// When the note's file was written.
    pub at_ms: i64,
}

/// Whether to store anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryStep {
    /// Only counts the changes.
    Preview,
    Store,
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

/// Records whether documents (ids as in [`Show`]) should have been injected where they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrong {
    pub ids: Vec<String>,
    /// The agent's session id or an unambiguous prefix of it; absent: wherever each document was last injected.
    pub session: Option<String>,
    pub told: Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    Wrongly,
    /// Withdraws an earlier objection.
    Rightly,
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
    pub said: Vec<SaidPart>,
}

/// A part of what is said in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SaidPart {
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

/// Forgets permanently, or previews what would be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forget {
    pub what: Forgettable,
    pub unreadable: Unreadable,
    pub step: ForgetStep,
}

/// Stores what the user says. The daemon chooses all absent fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remember {
    pub text: String,
    pub title: Option<String>,
    /// One of the types of observations.
    pub kind: Option<String>,
    /// A known project's name or identity, or an absolute folder.
    pub project: String,
    /// Absolute paths, or relative to the project's folder.
    pub files: Vec<String>,
    /// 1 to 10.
    pub importance: Option<u8>,
}

/// Stores a statement of an agent's model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRemark {
    pub remark: Remember,
}

/// Marks observations (`123`, `#123`) as still valid or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub ids: Vec<String>,
    pub validity: Validity,
}

/// Lists observations that await review, newest first: written by a machine and not yet seen by a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreviewed {
    pub filter: Filter,
    /// Only observations before this time.
    pub until_ms: Option<i64>,
    /// Skips this many of the newest observations.
    pub skip: u32,
}

/// A person's verdict on observations (`123`, `#123`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    pub ids: Vec<String>,
    pub verdict: ReviewVerdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReviewVerdict {
    /// Keeps the observation as it is. A rejected one becomes valid again.
    Kept,
    /// The observation is never injected unasked, and supersedes nothing.
    Rejected,
}

/// A person's new text for an observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// `123`, `#123`.
    pub id: String,
    pub kind: String,
    pub title: String,
    pub narrative: String,
    pub facts: Vec<String>,
    /// Absolute paths, or relative to the project's folder.
    pub files: Vec<String>,
}

/// Pins observations to the start of sessions, or unpins them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinUp {
    pub ids: Vec<String>,
    pub pin: Pin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pin {
    On,
    Off,
}

/// Reverts the newest manual change of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo;

/// Reverts the newest manual change of one item, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoOf {
    /// An observation, or `q3`, as `recall review` names what waits.
    pub id: String,
}

/// Lists manual changes that can be reverted, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    pub limit: u32,
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

/// Copies the database to this file, which must not exist yet; if absent, to the backup folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// An absolute path.
    pub path: Option<String>,
}

/// Replaces the database with this one, and keeps the current one aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreBackup {
    /// An absolute path.
    pub path: String,
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

/// What to forget: the documents in `ids`, or one session, or everything that matches the other fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgettable {
    /// Ids as in [`Show`].
    pub ids: Vec<String>,
    /// The agent's session id or an unambiguous prefix of it.
    pub session: Option<String>,
    /// See [`Filter::project`].
    pub project: Option<String>,
    /// Only items from this time on.
    pub since_ms: Option<i64>,
    /// Only items before this time.
    pub until_ms: Option<i64>,
    /// Texts that must all occur, ignoring case.
    pub words: Vec<String>,
}

/// Whether to remove unreadable files too. Nobody can tell which session they belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unreadable {
    #[default]
    Stays,
    Goes,
}

/// Whether to forget, or only to preview it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForgetStep {
    /// Only counts and names what would be removed.
    #[default]
    Preview,
    Forget,
}

/// Whether an observation still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Validity {
    Active,
    Resolved,
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
