//! The session's state machine: how an event changes a session and its prompt batches.
//!
//! [`Session::on_event`] is a function from state and event to state and effects. The session actor calls it and
//! passes the effects to the writer. Nothing here waits, writes or reads a clock.
//!
//! Batches are identified by a number that the session assigns ([`Seq`]), not by a row id, so an effect can refer to a
//! batch that is not stored yet. They are ordered by the time of their prompts; a late event is inserted where it
//! belongs.

mod effect;
mod growth;
mod transition;
mod work;
mod answer;
mod arrange;
mod early;
mod late;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::event::{Audience, Capture, HookEvent, HookEventKind, StartSource};
use super::ids::{EventId, PromptId, Timestamp};
use super::lifecycle::Tally;
use super::material::BatchSource;
use super::order::Order;
use crate::names::named;

pub use early::EarlyCall;
pub use effect::{
    ActivityContent, ActivityKind, CallEnd, CloseReason, Effect, LooseCall, NewActivity, NewPrompt, Period,
    RunningCall, UnstoredCall, Work,
};
pub use growth::{Growth, Load};
use transition::Transition;

/// The maximum time between the clearing of a session and the start of the one that continues it, in milliseconds.
/// Their hooks run concurrently, so either may come first.
pub const CLEAR_WITHIN_MS: i64 = 60_000;

/// A batch's number in its session, assigned from 1 in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u32);

/// The phase in a session's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SessionStatus {
    /// The session has started and has no prompt yet.
    #[default]
    Initialized,
    Active,
    /// The daemon stopped during the session's life. The next event resumes it.
    Suspended,
    Completed,
}

named! { SessionStatus {
    Initialized = "initialized",
    Active = "active",
    Suspended = "suspended",
    Completed = "completed",
} }

/// The state of a batch while its session lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub seq: Seq,
    /// The number of the batch's prompt; for a recovery batch, that of the prompt before it.
    pub number: u32,
    pub opened: Order,
    /// The turn that the batch runs as.
    pub prompt: Option<PromptId>,
    /// The turn that the agent named with the prompt. If it differs from `prompt`, the prompt was queued during that
    /// turn.
    pub asked_in: Option<PromptId>,
    pub source: BatchSource,
    pub state: BatchState,
    pub response: Response,
    pub growth: Growth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchState {
    /// The prompt was queued while another batch ran. The batch gets no activities yet.
    Waiting,
    Open,
    Closed,
}

named! { BatchState {
    Waiting = "waiting",
    Open = "open",
    Closed = "closed",
} }

/// Whether a batch's answer is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    Missing,
    /// The answer was read from the agent's transcript. A reported answer replaces it.
    Recovered,
    Known(TurnResponse),
}

/// The identity of an agent's answer, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnResponse {
    pub event: EventId,
    pub at: Order,
    /// The answer's turn, as the agent names it.
    pub prompt: Option<PromptId>,
}

/// A turn that was seen before any prompt of its id, and the time of its first event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSeen {
    pub turn: PromptId,
    pub at: Order,
}

/// The state of a session, as its actor holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    pub status: SessionStatus,
    /// The number of the current life, from 1; 0 before the first event.
    pub life: u32,
    /// The number of prompts so far. The next prompt gets the next number.
    pub prompts: u32,
    /// In the order of their prompts.
    pub batches: Vec<Batch>,
    /// Answers without a batch, stored as activities because their prompts may still arrive.
    pub spare: Vec<TurnResponse>,
    /// Calls from before the first prompt that are in the first batch.
    pub early: Vec<EarlyCall>,
    /// Turns that no prompt names. A queued prompt runs as such a turn.
    pub turns_seen: Vec<TurnSeen>,
    pub last_event: Timestamp,
    /// The latest event so far. An event captured before it is late.
    pub latest: Option<Order>,
    /// When the last life ended. Older events belong to it and begin no new life.
    pub ended: Option<Order>,
    /// When the current life began.
    pub begun: Timestamp,
    /// When the daemon stopped, if the session is suspended.
    pub suspended: Option<Timestamp>,
    /// Calls that have started and have no result yet.
    pub calls: Vec<RunningCall>,
    /// The number of messages at the last compaction.
    pub compacted: u32,
}

/// The context that the agent is waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContextAsk {
    /// Context for a starting session.
    Start(StartSource, Audience),
    /// Memory relevant to this prompt.
    Prompt(String),
    /// The context of the session's start, which the agent dropped, and memory relevant to the first prompt. `None` if
    /// that prompt is private.
    First(Option<String>),
    /// Notes about this file, as the agent spells it, which is about to be read or changed.
    File(String),
    /// Notes about this call of a tool that opens no file. The call is about to run, or failed with this output.
    Call { tool: String, input: String, failure: Option<String> },
    /// Memory relevant to a subagent's task. The subagent does not see its caller's context.
    Task(String),
}

/// The result of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub next: Session,
    pub effects: Vec<Effect>,
    pub ask: Option<ContextAsk>,
}

/// The user's configuration of recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturePolicy {
    /// Tools whose calls are not recorded.
    pub skip_tools: Vec<String>,
    /// Plan folders, see [`super::plan::is_plan_file`].
    pub plan_folders: Vec<String>,
    /// The agent's prefixes, see [`super::conventions::Conventions`].
    pub plan_prompts: &'static [&'static str],
    /// The size at which an open batch is compressed.
    pub chunk: Load,
}

/// The time in milliseconds after which a silent batch or session is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    pub batch_ms: i64,
    pub session_ms: i64,
}

/// The current time, and the time since which events could be observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    pub now: Timestamp,
    /// When observing began. A suspended session's silence before that does not count.
    pub since: Timestamp,
}

impl Batch {
    /// Whether the agent names a different turn than the batch's.
    pub fn is_of_other_turn(&self, turn: Option<&PromptId>) -> bool {
        turn.is_some() && self.prompt.is_some() && turn != self.prompt.as_ref()
    }

    /// Whether the prompt was queued during another turn.
    fn waited(&self) -> bool {
        self.asked_in.is_some() && self.prompt != self.asked_in
    }

    /// Whether this turn is private, as far as known.
    fn is_private_in(&self, turn: Option<&PromptId>) -> bool {
        self.source == BatchSource::Private && !self.is_of_other_turn(turn)
    }
}

impl Session {
    /// Processes an event.
    #[must_use]
    pub fn on_event(self, event: &HookEvent, capture: Capture, policy: &CapturePolicy) -> Decision {
        let ended = self.ended;
        let belongs_to_ended_life = ended.is_some_and(|ended| capture.order.is_before(&ended));
        let mut turn =
            Transition { session: self, effects: Vec::new(), capture, policy, belongs_to_ended_life };
        turn.host_facts(event);
        let ask = turn.take(event);
        let title = event.title.clone();
        turn.effects.extend(title.map(|title| Effect::SetTitle { title }));
        turn.session.last_event = turn.session.last_event.max(capture.at);
        if turn.session.latest.is_none_or(|latest| latest.is_before(&capture.order)) {
            turn.session.latest = Some(capture.order);
        }
        Decision { next: turn.session, effects: turn.effects, ask }
    }

    /// Processes the passing of time. Closing by time is provisional: the next event reopens.
    #[must_use]
    pub fn on_idle(self, watch: Watch, policy: IdlePolicy) -> Decision {
        let (closes, ends) = (self.closes_by_time(watch, policy), self.ends_by_time(watch, policy));
        let mut next = self;
        let mut effects = Vec::new();
        if closes {
            effects.extend(next.close_unfinished(CloseReason::Idle));
            // The end of the life requests a summary itself.
            if !effects.is_empty() && !ends {
                effects.push(Effect::Summarize);
            }
        }
        if ends {
            let tally = next.tally(next.last_event);
            effects.extend(next.abandon_calls(|_| true));
            effects.extend([Effect::Complete { reason: "idle".to_owned(), tally }, Effect::Summarize]);
            next.status = SessionStatus::Completed;
            next.suspended = None;
            // The life ended with its last event.
            next.ended = next.latest;
        }
        Decision { next, effects, ask: None }
    }

    /// Whether time closes the session's batches. A running call may be silent for longer than a batch, but not for
    /// longer than a session.
    fn closes_by_time(&self, watch: Watch, policy: IdlePolicy) -> bool {
        let silent = self.silent_for(watch);
        self.status != SessionStatus::Completed
            && (silent >= policy.session_ms || (silent >= policy.batch_ms && !self.is_calling()))
    }

    /// Whether a call is running. A call that a guard refused does not run, even if its agent reports nothing more
    /// about it.
    fn is_calling(&self) -> bool {
        self.calls.iter().any(|call| call.refused_by.is_none())
    }

    fn ends_by_time(&self, watch: Watch, policy: IdlePolicy) -> bool {
        self.life > 0
            && self.status != SessionStatus::Completed
            && self.silent_for(watch) >= policy.session_ms
    }

    /// How long the session has been silent, in milliseconds.
    fn silent_for(&self, watch: Watch) -> i64 {
        let since = match self.status {
            SessionStatus::Suspended => self.last_event.max(watch.since),
            SessionStatus::Initialized | SessionStatus::Active | SessionStatus::Completed => self.last_event,
        };
        watch.now.since(since)
    }

    /// Returns the open batch that `event` is about to close or leave without an answer.
    pub fn unanswered_batch_before(&self, event: &HookEvent) -> Option<&Batch> {
        let batch = self.unanswered()?;
        let leaves = match &event.what {
            HookEventKind::Prompt { .. } => event.prompt.is_none() || event.prompt != batch.prompt,
            HookEventKind::SessionEnd { .. } => true,
            HookEventKind::SessionStart { source, .. } => *source != StartSource::Compact,
            HookEventKind::Stop { .. } if batch.is_of_other_turn(event.prompt.as_ref()) => true,
            HookEventKind::Stop { message } => message.as_ref().is_none_or(|text| text.trim().is_empty()),
            _ => false,
        };
        leaves.then_some(batch)
    }

    /// Returns the open batch that time is about to close without an answer.
    pub fn unanswered_batch_on_idle(&self, watch: Watch, policy: IdlePolicy) -> Option<&Batch> {
        self.unanswered().filter(|_| self.closes_by_time(watch, policy))
    }

    fn unanswered(&self) -> Option<&Batch> {
        let has_answer = |batch: &&Batch| {
            batch.response == Response::Missing
                && !matches!(batch.source, BatchSource::Private | BatchSource::Recovery)
        };
        self.running().filter(has_answer)
    }

    /// Returns the batches that ended without an answer, in the order of their prompts.
    pub fn ended_unanswered(&self) -> Vec<Seq> {
        let is_missing = |batch: &&Batch| {
            batch.state == BatchState::Closed
                && batch.response == Response::Missing
                && !matches!(batch.source, BatchSource::Private | BatchSource::Recovery)
        };
        self.batches.iter().filter(is_missing).map(|batch| batch.seq).collect()
    }

    /// Stores the reply that was found for a batch. A batch that was closed without it is recompressed.
    #[must_use]
    pub fn with_reply(mut self, seq: Seq, text: &str) -> (Self, Vec<Effect>) {
        let missing = |batch: &&mut Batch| batch.seq == seq && batch.response == Response::Missing;
        let Some(batch) = self.batches.iter_mut().find(missing).filter(|_| !text.trim().is_empty()) else {
            return (self, Vec::new());
        };
        batch.response = Response::Recovered;
        let mut effects = vec![Effect::RecoverReply { seq, text: text.to_owned() }];
        if batch.state == BatchState::Closed && batch.source != BatchSource::Private {
            effects.extend([Effect::CompressBatch { seq }, Effect::Summarize]);
        }
        (self, effects)
    }

    /// Returns the batch if its answer is still missing.
    pub fn unanswered_batch(&self, seq: Seq) -> Option<&Batch> {
        self.batches.iter().find(|batch| batch.seq == seq && batch.response == Response::Missing)
    }

    /// The session's totals at a time.
    pub fn tally(&self, at: Timestamp) -> Tally {
        Tally { message_count: self.messages(), life_ms: at.since(self.begun) }
    }

    /// The number of prompts and answers so far.
    pub fn messages(&self) -> u32 {
        let of = |batch: &Batch| {
            u32::from(batch.source != BatchSource::Recovery) + u32::from(batch.response != Response::Missing)
        };
        self.batches.iter().map(of).sum()
    }

    /// Whether the passing of time can change nothing more.
    pub fn is_at_rest(&self) -> bool {
        self.status == SessionStatus::Completed
            && self.batches.iter().all(|batch| batch.state == BatchState::Closed)
    }

    /// Closes open batches and drops queued ones.
    fn close_unfinished(&mut self, why: CloseReason) -> Vec<Effect> {
        let unfinished = self.batches.iter_mut().filter(|batch| batch.state != BatchState::Closed);
        unfinished
            .flat_map(|batch| {
                batch.state = BatchState::Closed;
                let close = Effect::CloseBatch { seq: batch.seq, why };
                let compress = (batch.source != BatchSource::Private)
                    .then_some(Effect::CompressBatch { seq: batch.seq });
                [Some(close), compress].into_iter().flatten()
            })
            .collect()
    }

    /// Since when a batch ran. `None` if its prompt was queued during another turn and its own turn never came.
    fn ran_since(&self, batch: &Batch) -> Option<Order> {
        if !batch.waited() {
            return Some(batch.opened);
        }
        let turn = batch.prompt.as_ref()?;
        let seen = self.turns_seen.iter().find(|seen| seen.turn == *turn);
        Some(seen.map_or(batch.opened, |seen| seen.at))
    }

    /// Whether a person has already typed a prompt.
    fn was_asked(&self) -> bool {
        self.batches.iter().any(|batch| batch.source.is_of_person())
    }

    fn running(&self) -> Option<&Batch> {
        self.batches.iter().rev().find(|batch| batch.state == BatchState::Open)
    }
}
