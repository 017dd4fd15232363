//! The requests to the daemon: one type for each, and the enum that goes over the wire.
//!
//! Answers are JSON; the daemon's library says which type answers which request. Times are in milliseconds since 1970;
//! an absent time sets no bound. The rules of evolution are those of [`crate::wire`].

use serde::{Deserialize, Serialize};

/// Declares the enum of all requests and the conversion of each request into it.
macro_rules! queries {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Administration and reading.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Query {
            $($(#[$doc])* $name($name),)+
        }

        impl Query {
            /// The name of the request, without its subject.
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
}

/// Asks whether a daemon answers, and which version it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping;

/// Asks for the daemon's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    pub filter: Filter,
}

/// The sessions after the first `skip`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPage {
    pub filter: Filter,
    pub skip: u32,
}

/// A few figures of how much is known about a folder's project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Glance {
    /// An absolute path.
    pub folder: String,
}

/// One session, by the agent's id or an unambiguous beginning of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: String,
}

/// Compression jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobs {
    pub which: WhichJobs,
    pub filter: Filter,
}

/// The cost of models in the last days, including today.
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

/// An observation (`123`, `#123`) or another document (`p12`, `r12`, `s12`, `a12`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Show {
    pub id: String,
    /// As [`Search::folder`].
    pub folder: Option<String>,
}

/// The events around a document or in a session, in order of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    pub id: String,
    pub before: u32,
    pub after: u32,
    /// As [`Search::folder`].
    pub folder: Option<String>,
}

/// The context for the next session in `cwd`, or with a prompt the context for that prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub cwd: String,
    pub prompt: Option<String>,
}

/// The injections of a session, with times and reasons. For an observation: the sessions that received it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    pub id: String,
}

/// The stored parts of an agent's sessions, for an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    pub agent: String,
    /// The agent's ids. At most a thousand.
    pub sessions: Vec<String>,
}

/// The next part of the stored memory, as lines of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    pub filter: Filter,
    /// Where the part begins; `None` means at the beginning.
    pub from: Option<ExportFrom>,
}

/// Where a part of an export begins. Only the daemon that made it can interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportFrom {
    pub table: u32,
    pub after: i64,
}

/// Stores lines of an export, each a JSON object. Rows that are stored already stay unchanged.
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
    /// The lines come from another tool's memory, which knows projects by name.
    OtherMemory,
    /// The user says that the export is their own.
    OwnExport,
}

/// Makes the stored notes of an agent's own memory about a project equal to these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeMemories {
    pub agent: String,
    /// The whole path of the project's folder.
    pub folder: String,
    pub notes: Vec<AgentNote>,
    pub step: MemoryStep,
}

/// A note of an agent's own memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentNote {
    pub file: String,
    /// The headings above it.
    pub heading: String,
    pub text: String,
    /// When its file was written.
    pub at_ms: i64,
}

/// Whether anything is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryStep {
    /// The changes are only counted.
    Preview,
    Store,
}

/// The number of entries of each day, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Days {
    pub of: EntryFilter,
}

/// The remembered items, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entries {
    pub of: EntryFilter,
    pub since_ms: Option<i64>,
    /// Only entries before this moment.
    pub until_ms: Option<i64>,
    /// Skips this many of the newest entries.
    pub skip: u32,
    pub limit: u32,
}

/// The projects, latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Projects;

/// Subjects with an earlier statement, or that are resolved, latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threads {
    /// As [`Filter::project`].
    pub project: Option<String>,
    /// Only the thread of this observation (`123`, `#123`), with its texts.
    pub of: Option<String>,
    pub limit: u32,
}

/// The threads after the first `skip`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPage {
    /// As [`Filter::project`].
    pub project: Option<String>,
    pub skip: u32,
    pub limit: u32,
}

/// Opens the gateway unless it is open, and makes a link that lets one browser in, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenGateway;

/// The project that a folder belongs to, and why not to another one that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub folder: String,
}

/// Answers when everything accepted before is stored, compressed once and searchable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flush;

/// Drains the events, suspends live sessions, commits the index and exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop;

/// Stops capturing and injecting until this time, or if absent until [`Resume`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub until_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume;

/// Retries dead and waiting jobs at once: one, or all. Paused providers are asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    pub job: Option<i64>,
}

/// The sessions whose notes the built-in compressor wrote, newest first, and what a model would take for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Improvable {
    pub filter: Filter,
}

/// Has the configured model write the notes of these sessions anew, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Improve {
    /// The rows that [`Improvable`] is answered with. At most a thousand.
    pub sessions: Vec<i64>,
}

/// How far these jobs are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Improving {
    pub jobs: Vec<i64>,
}

/// Says whether documents (ids as [`Show`] takes them) should have been told where they were told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrong {
    pub ids: Vec<String>,
    /// The agent's id of a session or an unambiguous beginning of it; absent: where each was told last.
    pub session: Option<String>,
    pub told: Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    Wrongly,
    /// What was said against it is taken back.
    Rightly,
}

/// The command lines that were run and have these words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct How {
    pub command: String,
    pub filter: Filter,
}

/// Where an error was met, and what was done until the same call passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// The error, or the whole output with it.
    pub error: String,
    pub filter: Filter,
}

/// The turns that changed a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blame {
    /// An absolute path.
    pub file: String,
    /// Only changes that wrote this line, as it is in the file.
    pub line: Option<String>,
    pub limit: Option<u32>,
}

/// What another agent or a person needs to go on with a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// The agent's id of the session or an unambiguous beginning of it; absent: the latest session of the project.
    pub session: Option<String>,
    /// As [`Filter::project`].
    pub project: String,
}

/// Tells the next session of an agent, in the session's project, what it needs to go on with the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOver {
    /// As [`Handoff::session`].
    pub session: Option<String>,
    /// As [`Filter::project`].
    pub project: String,
    /// The agent's name, or a beginning of it that no other has.
    pub agent: String,
}

/// What went wrong again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Friction {
    pub filter: Filter,
}

/// Where the code of a folder's repository declares what is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// An absolute path.
    pub folder: String,
    /// The path of a file, or names or words of names.
    pub asked: String,
    pub limit: Option<u32>,
}

/// Asks what would leave this machine if a project were shared. The daemon knows the project from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharePreview {
    /// An absolute folder, or a project's name.
    pub project: String,
    pub persons: Persons,
}

/// Whose the machines are that share a project.
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

/// Asks for the state of what is shared with other machines.
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

/// Forgets for good, or previews what would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forget {
    pub what: Forgettable,
    pub unreadable: Unreadable,
    pub step: ForgetStep,
}

/// Stores what the user says. The daemon chooses whatever is absent.
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

/// Stores what an agent's model says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRemark {
    pub remark: Remember,
}

/// Marks whether observations (`123`, `#123`) still hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub ids: Vec<String>,
    pub validity: Validity,
}

/// The observations that wait for a review, newest first: machines made them, and no person has looked at them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreviewed {
    pub filter: Filter,
    /// Only observations before this moment.
    pub until_ms: Option<i64>,
    /// Skips this many of the newest.
    pub skip: u32,
}

/// A person's verdict on observations (`123`, `#123`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    pub ids: Vec<String>,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It stays as it is. A rejected one holds again.
    Kept,
    /// It is not told unasked, and replaces nothing.
    Rejected,
}

/// A person's replacement for an observation's text.
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

/// Reverts the newest change by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo;

/// The changes by hand that can be reverted, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    pub limit: u32,
}

/// Asks for events as they happen. The first answer is a `Json`: every event after it is sent. Then each event gets an
/// answer, until the client goes. If the daemon stops, the last answer says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follow {
    /// Only events of sessions whose id begins with this.
    pub session: Option<String>,
    /// Only events of these names; empty means all.
    pub kinds: Vec<String>,
}

/// A read-only SQL statement of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sql {
    pub text: String,
    /// The most rows to return; the daemon has a limit of its own.
    pub limit: u32,
}

/// Copies the database to this file, which must not exist; if absent, into the folder of backups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// An absolute path.
    pub path: Option<String>,
}

/// Replaces the database by this one, and sets the present one aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreBackup {
    /// An absolute path.
    pub path: String,
}

/// Checks the database for damage and the index for missing documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check;

/// Forgets the sessions without an event since a moment, or previews them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prune {
    pub silent_since_ms: i64,
    pub step: ForgetStep,
}

/// Rebuilds the search index, and answers when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reindex;

/// Which entries a listing contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryFilter {
    /// As [`Filter::project`].
    pub project: Option<String>,
    /// `observation`, `prompt`, `summary`; empty means all three.
    pub kinds: Vec<String>,
    /// Only observations of these types; empty means all.
    pub types: Vec<String>,
}

/// Which jobs are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhichJobs {
    All,
    /// Jobs that were given up.
    Dead,
}

/// The items to forget: the documents of `ids`, or one session, or everything that matches the other fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgettable {
    /// Ids as in [`Show`].
    pub ids: Vec<String>,
    /// The agent's id of a session or an unambiguous beginning of it.
    pub session: Option<String>,
    /// As [`Filter::project`].
    pub project: Option<String>,
    /// Only items from this moment on.
    pub since_ms: Option<i64>,
    /// Only items before this moment.
    pub until_ms: Option<i64>,
    /// Texts that must all occur, in any case.
    pub words: Vec<String>,
}

/// Whether unreadable files are removed too, as nobody can tell whose they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unreadable {
    #[default]
    Stays,
    Goes,
}

/// Whether to forget, or only to show what would go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForgetStep {
    /// Only counts and names what would go.
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

/// Whether a result explains its score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Explain {
    #[default]
    No,
    Yes,
}

/// Conditions that most reading commands share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// A project's display name, its identity, or an absolute folder of the project.
    pub project: Option<String>,
    pub since_ms: Option<i64>,
    pub limit: Option<u32>,
}
