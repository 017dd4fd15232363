//! The store: SQLite with one writer and any number of readers.
//!
//! It contains the schema, its migrations, and one method of [`Reader`] per question. It decides nothing: the domain's
//! effects say what is stored, and the writer actor says when. Times are milliseconds since 1970 (UTC), event ids are
//! blobs of 16 bytes, lists are JSON arrays, and long texts are compressed (see `text`).
//!
//! **Invariant:** there is no policy here, and no `DELETE` that a caller did not ask for.

mod database;
mod error;
mod jobs;
mod notes;
mod questions;
mod searching;
mod sessions;
mod execution;
mod forgetting;
mod operation;
mod portable;
mod reader;
mod readers;
mod sharing;
mod writer;

pub use database::backup::{Thoroughness, backup_by_hand, daily_backup_is_due, is_usable};
pub use database::by_query::{Found, QueryError, QueryLimits, bound_memory, query};
pub use database::damage::{Evidence, LeftOut, Repair, Suspicion};
#[cfg(test)]
pub(crate) use database::opening::{empty_database, open_writer};
pub use database::orphans::{RepairOrphans, RepairedOrphans};
pub use database::repair::{
    RepairError, RepairOutcome, RepairSite, in_full, recent_repairs, remove_damaged, repair,
};
pub use error::{BackupError, OpenStoreError, SqliteError, StoreError};
#[cfg(test)]
pub(crate) use execution::execute;
pub use forgetting::{
    Criteria, Forget, Forgotten, ForgottenCounts, RowsToForget, Selection, TracesRemoved, Unreadable,
    has_all_words,
};
pub use jobs::finished_jobs::{FinishJob, FinishedJob, JobResult, Next, SessionResult, StoreStandIn};
pub use jobs::improving::{ImprovableSession, ImproveSessions, JobProgress};
pub use jobs::job_kind::{JobKind, JobStatus};
pub use jobs::ledger::{ReserveCost, SettleCost, SpendingRow};
pub use jobs::overview::{CompressionTrouble, DeadJobs, JobRow, Jobs, OpenJobs, WaitingJobs};
pub use jobs::queue::{
    DeleteDoneJobs, Duty, ExpireLeases, FirstResult, GiveBackJobs, JobFailure, LeaseJob, LeasedJob, Lives,
    NextTry, ReleaseLeases, Released, RetryJobs, WakeRetries,
};
pub use notes::by_hand::{RemarkAuthor, Remembered, Validity};
pub use notes::changes::{Changed, ForgottenElsewhere, NoteChange, UndoChange, Undone};
pub use notes::checkout_records::CheckoutRecord;
pub use notes::choice::{ChosenBatch, DueBatch, DueChoice, SessionChoice};
pub use notes::editing::{EditObservation, EditedText, MarkObservations, Pin, PinObservations};
pub use notes::file_notes::{ChangingCallRow, FileNoteRow, NotesWanted, WorkOf};
pub use notes::histories::StatementRow;
pub use notes::injection_uses::{
    ClearWrong, InjectedItemRow, InjectionPlace, InjectionUse, InjectionUseCounts, MarkWrong,
};
pub use notes::kept_memories::{KeepMemories, MemoryChanges, MemoryNote, Write};
pub use notes::results::BatchResult;
pub use notes::review::{ReviewObservations, Unreviewed};
pub use operation::{Changes, Operation};
pub use portable::{
    DamagedRow, PageStart, Portion, RestoreRows, Restored, RowKind, Trust, name_fields, text_fields,
};
pub use questions::authors::Authors;
pub use questions::browsing::{BROWSED, Browsed, EntryRow, ProjectLine, QUARTER_MS, Quarter};
pub use questions::names::Named;
pub use questions::projects::ProjectInfo;
pub use questions::reading::{ObservationRow, SummaryRow, TimelineRow};
pub use questions::statistics::{ProjectNotes, Statistics, UnreadableRow};
pub use reader::Reader;
pub use readers::Readers;
pub use searching::documents::{DocumentRow, LogEntry};
pub use searching::plain_search::{PlainHit, PlainHits, PlainSearch};
pub use searching::reindex::Reindex;
pub use searching::vectors::{
    CallsSeen, DropVectorFiles, RemoveOtherVectors, SessionPlace, StoreVectors, UseVectorFile, VectorFileRow,
    VectorRow, VectorState, VectorsStored,
};
pub use sessions::compactions::CompactionRow;
pub use sessions::delivery::{Delivery, Precedence, SessionOrigin};
pub use sessions::effect_context::StoredEvent;
pub use sessions::handoffs::HandOver;
pub use sessions::imported::{AnswerState, Capture, StoredPrompt};
pub use sessions::known::KnownSession;
pub use sessions::lineage::{LineageRow, Relation};
pub use sessions::lives::{LifeEventRow, SuspendAll, Suspension};
pub use sessions::plans::PlanRow;
pub use sessions::spans::{CallTimes, ExpiredLife, JobTimes, SessionTimes, TurnTimes};
pub use sessions::subagents::SubagentRow;
pub use sessions::turns::{ActivityRow, BatchRow, GivenRow, InjectionRow, SessionInfo, StoredBatch, Turns};
pub use sessions::writes::{
    EventOutcome, IdleEffects, Injection, MessageApart, RetractInjection, Transaction, TrimIndexLog,
    Unparsed, UnparsedOutcome,
};
pub use sharing::{
    AcceptMarker, Applied, ApplyParked, ApplyRecords, CloseShare, CompareArrived, EmptiedSent, Held,
    HoldBack, JudgeQuarantined, JudgedQuarantine, KnowProject, Left, LogExisting, Logged, OpenShare, Preview,
    PreviewText, Quarantined, ReadHead, ReceivedTextRow, RenewDevice, Share, ShareTerms,
};
pub use writer::StoreWriter;

/// How safe a commit must be before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power failure: every commit is synced to disk.
    #[default]
    Full,
    /// Survives the end of the process; a power failure may lose the last milliseconds.
    Normal,
}
