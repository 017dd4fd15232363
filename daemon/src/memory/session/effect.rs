//! What follows from an event, in words that the store turns into rows.

use super::{BatchState, Seq, SessionStatus};
use crate::memory::event::{StartSource, Subagent, ToolCall, ToolResult};
use crate::memory::ids::{EventId, PromptId};
use crate::memory::material::BatchSource;
use crate::memory::order::Order;

/// What shall be stored. The store applies the effects of one event in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A life begins: the first, or the next after completion.
    BeginLife {
        life: u32,
        source: StartSource,
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
    /// The session's summary shall be made, or made anew.
    Summarize,
    /// The life ends.
    Complete {
        reason: String,
    },
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
    SessionEnd,
    Idle,
}

impl CloseReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::NextPrompt => "next_prompt",
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
