//! What follows from an event, in words that the store turns into rows.

use super::{BatchState, Seq, SessionStatus};
use crate::memory::event::{StartSource, Subagent, ToolCall, ToolResult};
use crate::memory::ids::{CallId, EventId, PromptId};
use crate::memory::lifecycle::Tally;
use crate::memory::material::BatchSource;
use crate::memory::order::Order;
use crate::memory::plan::{PlanReference, PlanState, TaskChange};

/// What shall be stored. The store applies the effects of one event in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A life begins: the first, or the next after completion.
    BeginLife {
        life: u32,
        source: StartSource,
    },
    /// The daemon was away while the session lived; here it is heard of again.
    Resume {
        status: SessionStatus,
        suspended_for_ms: i64,
    },
    SetStatus(SessionStatus),
    OpenBatch {
        seq: Seq,
        number: u32,
        source: BatchSource,
        state: BatchState,
        prompt_id: Option<PromptId>,
        prompt: Option<NewPrompt>,
    },
    /// A waiting batch begins to run, as the turn of this id.
    RunBatch {
        seq: Seq,
        prompt_id: PromptId,
    },
    CloseBatch {
        seq: Seq,
        why: CloseReason,
    },
    /// What was done before any prompt was known has got its prompt: the recovery batch becomes that prompt's.
    AdoptRecovery {
        seq: Seq,
        number: u32,
        source: BatchSource,
        prompt_id: Option<PromptId>,
        prompt: NewPrompt,
        content: Content,
    },
    /// A prompt arrived late: later ones move up by one.
    Renumber {
        seq: Seq,
        number: u32,
    },
    /// What was done from `since` on, and answered, belongs to the late prompt's batch and not to `from`; where
    /// `from` follows it, only what was done until then.
    TakeOver {
        from: Seq,
        to: Seq,
        since: Order,
        until: Option<Order>,
        content: Content,
    },
    Respond {
        seq: Seq,
        event: EventId,
        text: String,
        prompt_id: Option<PromptId>,
    },
    /// `seq` is `None` before the session's first batch, which takes such activities over.
    AddActivity {
        seq: Option<Seq>,
        activity: NewActivity,
    },
    /// The answer to a turn whose end was never told, as the agent's transcript has it. One that is told replaces it.
    RecoverReply {
        seq: Seq,
        text: String,
    },
    /// A call begins; until its end the batch is in the middle of something.
    BeginCall {
        call: RunningCall,
    },
    /// Calls are over.
    EndCalls {
        calls: Vec<CallId>,
    },
    /// Calls that were settled together, each kept only where it has no row of its own: it was refused before it ran.
    AddRefused {
        seq: Option<Seq>,
        activities: Vec<NewActivity>,
    },
    BeginSubagent {
        seq: Option<Seq>,
        subagent: Subagent,
    },
    /// A subagent's last words, `None` where they are private or it had none.
    EndSubagent {
        seq: Option<Seq>,
        subagent: Subagent,
        message: Option<String>,
    },
    /// The call that started a subagent.
    LinkSubagent {
        subagent: String,
        call: CallId,
    },
    BeginCompaction {
        seq: Option<Seq>,
        trigger: String,
        message_count: u32,
    },
    /// `summary` is `None` where something private may be in it.
    EndCompaction {
        seq: Option<Seq>,
        trigger: String,
        message_count: u32,
        compacted_count: u32,
        summary: Option<String>,
    },
    /// What a file or an approval says of a plan. Without a text only its state is news.
    KeepPlan {
        seq: Option<Seq>,
        path: Option<String>,
        text: Option<String>,
        state: PlanState,
    },
    KeepTasks {
        seq: Option<Seq>,
        change: TaskChange,
    },
    /// The batch works on a plan that is already known.
    CarryOut {
        seq: Seq,
        plan: PlanReference,
    },
    /// It turned out who or what started the batch.
    SetSource {
        seq: Seq,
        source: BatchSource,
    },
    /// Something that is no activity but tells the compressor more: answers of the user, the task list.
    AddAside {
        seq: Seq,
        event: EventId,
        call: ToolCall,
    },
    /// The batch's observations shall be made, or made anew.
    CompressBatch {
        seq: Seq,
    },
    /// What an open batch has so far shall be compressed; it goes on.
    FlushChunk {
        seq: Seq,
    },
    /// The session's summary shall be made, or made anew.
    Summarize,
    /// The life ends.
    Complete {
        reason: String,
        tally: Tally,
    },
}

/// What becomes of the work on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Begins,
    Ends,
}

impl Effect {
    /// The batch whose work begins or ends here: what is checked out then is where it is done. What merely closes a
    /// batch that was left, a next prompt or the passing of time, may come after somebody has switched branches.
    pub fn work(&self) -> Option<(Seq, Work)> {
        match self {
            Self::OpenBatch { source: BatchSource::Private, .. }
            | Self::AdoptRecovery { source: BatchSource::Private, .. } => None,
            Self::OpenBatch { seq, .. } | Self::AdoptRecovery { seq, .. } | Self::RunBatch { seq, .. } => {
                Some((*seq, Work::Begins))
            }
            Self::CloseBatch { seq, why: CloseReason::Stop | CloseReason::StopFailure } => {
                Some((*seq, Work::Ends))
            }
            _ => None,
        }
    }
}

/// A tool call without a result yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningCall {
    pub id: CallId,
    /// The subagent that makes it; `None` on the main thread.
    pub subagent: Option<String>,
}

/// Whether what moves into another batch keeps what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Kept,
    /// The batch is private: nothing but the fact that something was done.
    Hidden,
}

/// A prompt's row. `text` is `None` where it was wholly private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPrompt {
    pub event: EventId,
    pub text: Option<String>,
}

/// An activity's row.
#[derive(Clone, Debug, PartialEq)]
pub struct NewActivity {
    pub event: EventId,
    /// The turn it belongs to, by the agent's own word.
    pub prompt: Option<PromptId>,
    pub subagent: Option<Subagent>,
    pub content: ActivityContent,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ActivityContent {
    Tool(ToolCall),
    /// An event without a rule of its own: its name and the agent's JSON.
    Other {
        name: String,
        detail: String,
    },
    /// It happened in a private batch: only that it did.
    Hidden {
        name: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    Stop,
    NextPrompt,
    /// The model could not be reached or refused.
    StopFailure,
    SessionEnd,
    Idle,
}

impl CloseReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::NextPrompt => "next_prompt",
            Self::StopFailure => "stop_failure",
            Self::SessionEnd => "session_end",
            Self::Idle => "idle",
        }
    }
}

impl ToolCall {
    pub fn is_failed(&self) -> bool {
        matches!(self.result, ToolResult::Failed(_))
    }
}
