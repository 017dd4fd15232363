//! What follows from an event, in words that the store turns into rows.

use super::{BatchState, Seq, SessionStatus};
use crate::memory::event::{MessageOrigin, StartSource, Subagent, SubagentTask, ToolCall, ToolResult};
use crate::memory::ids::{CallId, EventId, PromptId};
use crate::memory::lifecycle::Tally;
use crate::memory::material::BatchSource;
use crate::memory::order::Order;
use crate::memory::plan::{PlanReference, PlanState};
use crate::memory::task_list::TaskChange;

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
    /// The session began because another one was cleared away, which is heard of only now.
    FollowCleared,
    SetStatus(SessionStatus),
    /// The agent names the session; the latest name counts, before any that recall makes up.
    SetTitle {
        title: String,
    },
    OpenBatch {
        seq: Seq,
        number: u32,
        source: BatchSource,
        state: BatchState,
        /// The turn it runs as.
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
    },
    /// A prompt arrived late: later ones move up by one.
    Renumber {
        seq: Seq,
        number: u32,
    },
    /// The batch runs as another turn than it was taken for, or as none: it was typed while another one ran.
    SetTurn {
        seq: Seq,
        turn: Option<PromptId>,
    },
    /// What was done in the batches `among` goes where it belongs: see [`Period`]. What then lies in a batch of `hidden`
    /// loses its content; closed batches that lost or gained something are compressed anew.
    Rearrange {
        periods: Vec<Period>,
        among: Vec<Seq>,
        hidden: Vec<Seq>,
    },
    /// The batch's answer is another's: it is kept as an activity until that one is known.
    SetAside {
        seq: Seq,
    },
    /// An answer that was kept as an activity has found its batch.
    TakeAnswer {
        seq: Seq,
        event: EventId,
    },
    /// An answer that was kept as an activity is worth nothing any more: its turn has a later one, or is private.
    DropAnswer {
        event: EventId,
    },
    /// What was typed while the agent worked was answered by the same words.
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
        prompt: Option<PromptId>,
        subagent: Subagent,
    },
    /// A subagent's last words, `None` where they are private or it had none.
    EndSubagent {
        seq: Option<Seq>,
        prompt: Option<PromptId>,
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
        prompt: Option<PromptId>,
        trigger: String,
        message_count: u32,
        /// Messages since the compaction before.
        since_last: u32,
    },
    /// `summary` is `None` where something private may be in it.
    EndCompaction {
        seq: Option<Seq>,
        prompt: Option<PromptId>,
        trigger: String,
        message_count: u32,
        /// Messages since the compaction before.
        since_last: u32,
        summary: Option<String>,
    },
    /// A private prompt has arrived late: the agent's summaries of what came after it tell of it.
    HideCompactions,
    /// What a file or an approval says of a plan. Without a text only its state is news.
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
        /// Its turn, by the agent's own word; so below.
        prompt: Option<PromptId>,
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
    /// The batch goes on, or waits, after all.
    SetState {
        seq: Seq,
        state: BatchState,
    },
    /// The session's summary shall be made, or made anew.
    Summarize,
    /// The agent's program goes away; the life goes on when it is back.
    Suspend {
        reason: String,
        tally: Tally,
    },
    /// A message has reached the agent's program: others are told, and nothing is stored of it here.
    TellMessage {
        content: Option<String>,
        origin: Option<Box<MessageOrigin>>,
    },
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
            | Self::SetStatus(_)
            | Self::SetTitle { .. }
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
            | Self::TellMessage { .. }
            | Self::Complete { .. } => None,
        }
    }
}

/// A tool call without a result yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningCall {
    pub id: CallId,
    /// The subagent that makes it; `None` on the main thread.
    pub subagent: Option<String>,
    /// What it gives to a subagent to do; none of it where the turn is private.
    pub task: Option<SubagentTask>,
}

/// When a batch ran. What was done belongs to the batch of its turn; what names no turn, or one that nobody knows, to
/// the batch that ran when it was done, or to the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    pub seq: Seq,
    pub turn: Option<PromptId>,
    /// `None`: it was typed while another ran, and its own turn never came.
    pub since: Option<Order>,
}

impl Period {
    /// Where something belongs that was done at `at`, in the turn of this id. `periods` are in the order of their prompts.
    pub fn seat(periods: &[Self], turn: Option<&PromptId>, at: &Order) -> Option<Seq> {
        let of_turn = periods.iter().rev().find(|period| turn.is_some() && period.turn.as_ref() == turn);
        let ran = |period: &&Self| period.since.is_some_and(|since| !at.is_before(&since));
        let period = of_turn.or_else(|| periods.iter().rev().find(ran)).or_else(|| periods.first());
        period.map(|period| period.seq)
    }
}

/// A prompt's row. `text` is `None` where it was wholly private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPrompt {
    pub event: EventId,
    pub text: Option<String>,
    /// The turn that the agent named with it: for what was typed while the agent worked, the running one.
    pub asked_in: Option<PromptId>,
    /// Who sent it, and where, as far as the agent says. It is told to others and not stored.
    pub origin: Option<Box<MessageOrigin>>,
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
