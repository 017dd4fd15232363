//! What can be asked of the daemon: one type for each request, and the enum that travels.
//!
//! The answers are JSON; the daemon's library says which type answers which request. Times are milliseconds since
//! 1970; absent means unbounded. The rules of evolution are those of [`crate::wire`].

use serde::{Deserialize, Serialize};

/// Declares the enum that travels and the conversion of each request into it.
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
}

/// Is somebody there, and of which version?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping;

/// How the daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    pub filter: Filter,
}

/// The same after the first `skip` of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPage {
    pub filter: Filter,
    pub skip: u32,
}

/// How much is known of the project of a folder, in a few figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Glance {
    /// Absolute.
    pub folder: String,
}

/// One session by the agent's id or an unambiguous beginning of it.
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

/// The cost of models in the last days, today included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub days: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    pub text: String,
    pub filter: Filter,
    pub explain: Explain,
    /// Where the question is asked, absolute: what was made on a branch that is not merged there is marked.
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

/// The context for the next session in `cwd`; with a prompt, the context for that prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub cwd: String,
    pub prompt: Option<String>,
}

/// The injections of a session, with times and reasons; for an observation, the sessions that were told it.
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

/// The next part of what is stored, as lines of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    pub filter: Filter,
    /// Where the part begins; `None`: at the beginning.
    pub from: Option<ExportFrom>,
}

/// Where a part of an export begins. Only the daemon that made it knows what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportFrom {
    pub table: u32,
    pub after: i64,
}

/// Stores lines of an export, each a JSON object. What is stored already stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restore {
    pub lines: Vec<String>,
}

/// The same of lines that say more than a stranger's may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreFrom {
    pub lines: Vec<String>,
    pub source: RowSource,
}

/// The author of these lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowSource {
    /// They were made of another tool's memory, which knows projects by name.
    OtherMemory,
    /// The user says that the export is his own.
    OwnExport,
}

/// How much there is of each day, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Days {
    pub of: EntryFilter,
}

/// The remembered items, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entries {
    pub of: EntryFilter,
    pub since_ms: Option<i64>,
    /// Before this moment.
    pub until_ms: Option<i64>,
    /// So many of the newest are left out.
    pub skip: u32,
    pub limit: u32,
}

/// The projects, the latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Projects;

/// Subjects about which something else was said before, or that are resolved, the latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threads {
    /// As [`Filter::project`].
    pub project: Option<String>,
    /// Only that of this observation (`123`, `#123`), with its texts.
    pub of: Option<String>,
    pub limit: u32,
}

/// All of them after the first `skip`.
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

/// Which project a folder is taken for, and why not for another that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub folder: String,
}

/// Answers when all that was accepted before is stored, compressed once and searchable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flush;

/// Drain, suspend live sessions, commit the index, exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop;

/// From now on nothing is captured and nothing given back; absent: until [`Resume`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub until_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume;

/// Tries dead and waiting jobs at once: this one, or all. Providers that were left alone are asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    pub job: Option<i64>,
}

/// Forgets for good, or says what would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forget {
    pub what: Forgettable,
    pub unreadable: Unreadable,
    pub step: ForgetStep,
}

/// Keeps what the user says. Whatever is absent the daemon chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remember {
    pub text: String,
    pub title: Option<String>,
    /// One of the types of observations.
    pub kind: Option<String>,
    /// A known project's name or identity, or an absolute folder.
    pub project: String,
    /// Absolute, or relative to the project's folder.
    pub files: Vec<String>,
    /// 1 to 10.
    pub importance: Option<u8>,
}

/// Keeps what an agent's model says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRemark {
    pub remark: Remember,
}

/// Says whether observations (`123`, `#123`) still hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub ids: Vec<String>,
    pub validity: Validity,
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
    /// Absolute, or relative to the project's folder.
    pub files: Vec<String>,
}

/// Has observations stand first when a session starts, or no longer.
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

/// Takes back the newest change by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo;

/// The changes by hand that can be taken back, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    pub limit: u32,
}

/// Answers more than once: with a first `Json`, from which on everything is heard, then with one for each event
/// until the client goes or the daemon stops, which the last answer says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follow {
    /// Only of sessions whose id begins so.
    pub session: Option<String>,
    /// Only events of these names; empty: all.
    pub kinds: Vec<String>,
}

/// A reading SQL statement of the user's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sql {
    pub text: String,
    /// The most rows; the daemon has a limit of its own.
    pub limit: u32,
}

/// Copies the database to this file, which must not exist; absent: into the folder of backups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Absolute.
    pub path: Option<String>,
}

/// Goes on with this database, and keeps the present one aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreBackup {
    /// Absolute.
    pub path: String,
}

/// Looks for damage in the database, and for what the index lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check;

/// Forgets the sessions without an event since a moment, or says what would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prune {
    pub silent_since_ms: i64,
    pub step: ForgetStep,
}

/// Builds the search index again, and answers when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reindex;

/// Which entries of a listing are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryFilter {
    /// As [`Filter::project`].
    pub project: Option<String>,
    /// `observation`, `prompt`, `summary`; empty: all three.
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

/// The items to forget: the documents of `ids`, or one session, or all that fits the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgettable {
    /// Ids as [`Show`] takes them.
    pub ids: Vec<String>,
    /// The agent's id of a session or an unambiguous beginning of it.
    pub session: Option<String>,
    /// As [`Filter::project`].
    pub project: Option<String>,
    /// From this moment on.
    pub since_ms: Option<i64>,
    /// Before this moment.
    pub until_ms: Option<i64>,
    /// Texts that must all occur, whatever their case.
    pub words: Vec<String>,
}

/// Whether what cannot be read goes too: nobody can say what it is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unreadable {
    #[default]
    Stays,
    Goes,
}

/// Whether to do it or only show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForgetStep {
    /// Only count and name what would go.
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

/// Whether a result says how its score came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Explain {
    #[default]
    No,
    Yes,
}

/// Conditions that most reading commands share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// A project's display name, its identity, or an absolute folder whose project is meant.
    pub project: Option<String>,
    pub since_ms: Option<i64>,
    pub limit: Option<u32>,
}
