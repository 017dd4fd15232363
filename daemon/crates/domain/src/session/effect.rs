//! The effects of an event, which the store turns into rows.

use super::{BatchState, Seq, SessionStatus};
use crate::event::{
    HostFacts, MessageOrigin, Notification, StartSource, Subagent, SubagentTask, ToolCall, ToolResult,
};
use crate::guard::Rule;
use crate::ids::{CallId, EventId, PromptId, Timestamp};
use crate::lifecycle::Tally;
use crate::material::BatchSource;
use crate::names::named;
use crate::order::Order;
use crate::plan::{PlanReference, PlanState};
use crate::task_list::TaskChange;

/// A change to store. All effects of one event are applied in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A life begins: the first one, or the next one after completion.
    BeginLife {
        life: u32,
        source: StartSource,
    },
    /// The session continues after the daemon was away.
    Resume {
        status: SessionStatus,
        suspended_for_ms: i64,
    },
    /// It is now known that the session began because another one was cleared.
    FollowCleared,
    /// Facts from the host program about the session.
    KeepHostFacts(Box<HostFacts>),
    SetStatus(SessionStatus),
    /// The agent names the session. The latest name counts, and overrides titles made by recall.
    SetTitle {
        title: String,
    },
    OpenBatch {
        seq: Seq,
        number: u32,
        source: BatchSource,
        state: BatchState,
        /// The turn that the batch runs as.
        prompt_id: Option<PromptId>,
        prompt: Option<NewPrompt>,
    },
    /// A queued batch starts as the turn with this id.
    RunBatch {
        seq: Seq,
        prompt_id: PromptId,
    },
    CloseBatch {
        seq: Seq,
        why: CloseReason,
    },
    /// The prompt of a recovery batch is now known, so the batch becomes that prompt's.
    AdoptRecovery {
        seq: Seq,
        number: u32,
        source: BatchSource,
        prompt_id: Option<PromptId>,
        prompt: NewPrompt,
    },
    /// Moves the contents of the recovery batch `from` to the batch `to`, and removes the recovery batch.
    MergeRecovery {
        from: Seq,
        to: Seq,
    },
    /// A prompt arrived late, so the numbers of later ones increase by one.
    Renumber {
        seq: Seq,
        number: u32,
    },
    /// The batch runs as a different turn than assumed, or as none because its prompt was queued while another one
    /// ran.
    SetTurn {
        seq: Seq,
        turn: Option<PromptId>,
    },
    /// Moves the activities of the batches `among` to where they belong, see [`Period`]. Activities moved to a batch
    /// in `hidden` lose their content. Closed batches that changed are recompressed.
    Rearrange {
        periods: Vec<Period>,
        among: Vec<Seq>,
        hidden: Vec<Seq>,
    },
    /// The batch's answer belongs to another batch. It is stored as an activity until that batch is known.
    SetAside {
        seq: Seq,
    },
    /// Assigns an answer that was stored as an activity to its batch.
    TakeAnswer {
        seq: Seq,
        event: EventId,
    },
    /// Drops an answer that was stored as an activity: its turn has a later one or is private.
    DropAnswer {
        event: EventId,
    },
    /// Prompts that were queued during a turn share its answer.
    ShareAnswer {
        from: Seq,
        to: Seq,
    },
    Respond {
        seq: Seq,
        event: EventId,
        text: String,
        prompt_id: Option<PromptId>,
    },
    /// `seq` is `None` before the session's first batch, which later takes over such activities.
    AddActivity {
        seq: Option<Seq>,
        activity: NewActivity,
    },
    /// The answer of a turn without an end event, recovered from the agent's transcript. A reported answer replaces
    /// it.
    RecoverReply {
        seq: Seq,
        text: String,
    },
    /// A call starts. The batch is busy until the call ends.
    BeginCall {
        call: RunningCall,
    },
    /// Calls have ended, and their results are known.
    EndCalls {
        calls: Vec<CallId>,
    },
    /// Calls have ended without a reported result.
    AbandonCalls {
        calls: Vec<RunningCall>,
    },
    /// The call of this event ended after its turn. Published, but not stored here.
    PublishLateCall {
        event: EventId,
    },
    /// A call without a row has ended. Published, but not stored here.
    PublishCall {
        call: UnstoredCall,
    },
    /// A call's start became known only after its result.
    SetCallStart {
        id: CallId,
    },
    /// Calls that were settled together. Only those without a row are stored: they were refused before they ran.
    AddRefused {
        seq: Option<Seq>,
        activities: Vec<NewActivity>,
    },
    BeginSubagent {
        seq: Option<Seq>,
        prompt: Option<PromptId>,
        subagent: Subagent,
    },
    /// A subagent's final message; `None` if it is private or missing.
    EndSubagent {
        seq: Option<Seq>,
        prompt: Option<PromptId>,
        subagent: Subagent,
        message: Option<String>,
    },
    /// Links a subagent to the call that started it.
    LinkSubagent {
        subagent: String,
        call: CallId,
    },
    BeginCompaction {
        seq: Option<Seq>,
        prompt: Option<PromptId>,
        trigger: String,
        message_count: u32,
        /// The number of messages since the previous compaction.
        since_last: u32,
    },
    /// `summary` is `None` if it may contain something private.
    EndCompaction {
        seq: Option<Seq>,
        prompt: Option<PromptId>,
        trigger: String,
        message_count: u32,
        /// The number of messages since the previous compaction.
        since_last: u32,
        summary: Option<String>,
    },
    /// A private prompt arrived late, so the agent's later summaries may describe it.
    HideCompactions,
    /// Stores a plan from a file or an approval. Without a text only its state changes.
    KeepPlan {
        seq: Option<Seq>,
        prompt: Option<PromptId>,
        path: Option<String>,
        text: Option<String>,
        state: PlanState,
    },
    KeepTasks {
        seq: Option<Seq>,
        prompt: Option<PromptId>,
        change: TaskChange,
    },
    /// The batch works on a known plan.
    CarryOut {
        seq: Seq,
        plan: PlanReference,
    },
    /// The source of the batch became known.
    SetSource {
        seq: Seq,
        source: BatchSource,
    },
    /// Stores additional material for the compressor that is not an activity: the user's answers, the task list.
    AddAside {
        seq: Seq,
        event: EventId,
        /// The turn as the agent names it. Likewise in the variants below.
        prompt: Option<PromptId>,
        call: ToolCall,
    },
    /// Requests (re)compression of the batch.
    CompressBatch {
        seq: Seq,
    },
    /// Requests compression of an open batch, which continues.
    FlushChunk {
        seq: Seq,
    },
    /// The batch continues or waits, contrary to what was assumed.
    SetState {
        seq: Seq,
        state: BatchState,
    },
    /// Requests the session's summary, even if it already has one.
    Summarize,
    /// The agent's program exits. The life continues when the program runs again.
    Suspend {
        reason: String,
        tally: Tally,
    },
    /// A message reached the agent's program. Published, but not stored here.
    PublishMessage {
        content: Option<String>,
        origin: Option<Box<MessageOrigin>>,
    },
    /// The agent notified its user. Published, but not stored here.
    PublishNotification(Notification),
    /// The life ends.
    Complete {
        reason: String,
        tally: Tally,
    },
}

/// Whether work on a batch begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Begins,
    Ends,
}

impl Effect {
    /// Returns the batch whose work begins or ends with this effect, so that the current checkout is that of the work.
    /// Batches closed by the next prompt or by time are excluded, because the branch may have been switched since.
    #[deny(clippy::wildcard_enum_match_arm)]
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
            Self::CloseBatch { .. }
            | Self::BeginLife { .. }
            | Self::Resume { .. }
            | Self::FollowCleared
            | Self::KeepHostFacts(_)
            | Self::SetStatus(_)
            | Self::SetTitle { .. }
            | Self::MergeRecovery { .. }
            | Self::Renumber { .. }
            | Self::SetTurn { .. }
            | Self::Rearrange { .. }
            | Self::SetAside { .. }
            | Self::TakeAnswer { .. }
            | Self::DropAnswer { .. }
            | Self::ShareAnswer { .. }
            | Self::Respond { .. }
            | Self::AddActivity { .. }
            | Self::RecoverReply { .. }
            | Self::BeginCall { .. }
            | Self::EndCalls { .. }
            | Self::AbandonCalls { .. }
            | Self::PublishLateCall { .. }
            | Self::PublishCall { .. }
            | Self::SetCallStart { .. }
            | Self::AddRefused { .. }
            | Self::BeginSubagent { .. }
            | Self::EndSubagent { .. }
            | Self::LinkSubagent { .. }
            | Self::BeginCompaction { .. }
            | Self::EndCompaction { .. }
            | Self::HideCompactions
            | Self::KeepPlan { .. }
            | Self::KeepTasks { .. }
            | Self::CarryOut { .. }
            | Self::SetSource { .. }
            | Self::AddAside { .. }
            | Self::CompressBatch { .. }
            | Self::FlushChunk { .. }
            | Self::SetState { .. }
            | Self::Summarize
            | Self::Suspend { .. }
            | Self::PublishMessage { .. }
            | Self::PublishNotification(_)
            | Self::Complete { .. } => None,
        }
    }
}

/// A tool call without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningCall {
    pub id: CallId,
    /// The subagent that makes the call; `None` on the main thread.
    pub subagent: Option<String>,
    /// The task that the call gives to a subagent; `None` if the turn is private.
    pub task: Option<SubagentTask>,
    /// The tool's name. `None` if the turn is private.
    pub tool: Option<String>,
    pub began: Timestamp,
    /// The guard that refused the call. Some agents report nothing more about such a call.
    pub refused_by: Option<Rule>,
}

/// A finished call without a row: its tool's calls are not recorded, or a guard refused it and the agent gives calls
/// no ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnstoredCall {
    /// The event that reported its end.
    pub event: EventId,
    pub seq: Seq,
    pub tool: String,
    pub id: Option<CallId>,
    /// The type of the subagent that made the call.
    pub subagent: Option<String>,
    /// `None` if the start was not reported.
    pub began: Option<Timestamp>,
    pub ended: Timestamp,
    /// The duration that the agent reports.
    pub duration_ms: Option<i64>,
    pub end: CallEnd,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    Done,
    Failed,
    /// The call did not run. The rule is known if a guard of recall refused it.
    Refused(Option<Rule>),
}

/// The published facts of a tool call that are not part of its turn's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LooseCall {
    /// The turn or session ended at this time without a reported result.
    NoResult { call: RunningCall, ended: Timestamp },
    /// The call has no row.
    Unstored(UnstoredCall),
    /// The result came after the turn, with this event: a subagent continued in the background.
    AfterTurn { event: EventId },
}

/// The period in which a batch ran. An activity belongs to the batch of its turn. If its turn is missing or unknown,
/// it belongs to the batch that ran at the time, or else to the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    pub seq: Seq,
    pub turn: Option<PromptId>,
    /// `None` if the prompt was queued while another batch ran and its own turn never came.
    pub since: Option<Order>,
    pub source: BatchSource,
}

impl Period {
    /// Like [`Self::seat`], for a tool call: one from before the first prompt belongs to the first that a person
    /// typed.
    pub fn seat_of_call(periods: &[Self], turn: Option<&PromptId>, at: &Order) -> Option<Seq> {
        let ran = |period: &Self| period.since.is_some_and(|since| !at.is_before(&since));
        let of_turn = |period: &Self| turn.is_some() && period.turn.as_ref() == turn;
        let is_early = !periods.iter().any(|period| ran(period) || of_turn(period));
        let asked = periods.iter().find(|period| is_early && !period.source.is_made_by_machine());
        asked.map(|period| period.seq).or_else(|| Self::seat(periods, turn, at))
    }

    /// Returns the batch of an activity that happened at `at` in this turn. `periods` must be in the order of their
    /// prompts.
    pub fn seat(periods: &[Self], turn: Option<&PromptId>, at: &Order) -> Option<Seq> {
        let of_turn = periods.iter().rev().find(|period| turn.is_some() && period.turn.as_ref() == turn);
        let ran = |period: &&Self| period.since.is_some_and(|since| !at.is_before(&since));
        let period = of_turn.or_else(|| periods.iter().rev().find(ran)).or_else(|| periods.first());
        period.map(|period| period.seq)
    }
}

/// A prompt's row. `text` is `None` if it was entirely private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPrompt {
    pub event: EventId,
    pub text: Option<String>,
    /// The turn that the agent named with the prompt. For a queued prompt, the turn that was running.
    pub asked_in: Option<PromptId>,
    /// Sender and channel, if the agent names them. Published, not stored.
    pub origin: Option<Box<MessageOrigin>>,
}

/// An activity's row.
#[derive(Clone, Debug, PartialEq)]
pub struct NewActivity {
    pub event: EventId,
    /// The turn that the agent names.
    pub prompt: Option<PromptId>,
    pub subagent: Option<Subagent>,
    /// When the call began, if reported.
    pub began: Option<Timestamp>,
    /// The guard that refused the call.
    pub refused_by: Option<Rule>,
    pub content: ActivityContent,
}

/// The kind of a stored activity or aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    Tool,
    Other,
    /// Content of a private batch.
    Private,
    Aside,
}

named! { ActivityKind {
    Tool = "tool",
    Other = "other",
    Private = "private",
    Aside = "aside",
} }

#[derive(Clone, Debug, PartialEq)]
pub enum ActivityContent {
    Tool(ToolCall),
    /// An event without a rule: its name and the agent's JSON.
    Other {
        name: String,
        detail: String,
    },
    /// Content of a private batch. Only the fact is stored.
    Hidden {
        name: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    Stop,
    NextPrompt,
    /// The model was unreachable or refused.
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
