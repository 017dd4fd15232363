//! What an event means for its session and the session's prompt batches.
//!
//! [`Session::on_event`] is a function from state and event to state and effects. The session actor calls it and
//! hands the effects to the writer; nothing here waits, writes or knows the time.
//!
//! Batches are named by a number that the session gives out ([`Seq`]), not by a row's, so that an effect can name a
//! batch that is not yet stored. They stand in the order in which their prompts were typed: an event that arrives
//! late takes the place it would have had.

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

pub use early::EarlyCall;
pub use effect::{ActivityContent, CloseReason, Effect, NewActivity, NewPrompt, Period, RunningCall, Work};
pub use growth::{Growth, Load};
use transition::Transition;

/// A session that begins within so long of another's clearing continues it, in milliseconds either way: both are told
/// of by hooks that run at the same moment.
pub const CLEAR_WITHIN_MS: i64 = 60_000;

/// A batch's name in its session, given out from 1 in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u32);

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SessionStatus {
    /// It has started and nothing was asked yet.
    #[default]
    Initialized,
    Active,
    /// The daemon stopped while it lived; its next event resumes it.
    Suspended,
    Completed,
}

impl SessionStatus {
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Initialized, "initialized"),
        (Self::Active, "active"),
        (Self::Suspended, "suspended"),
        (Self::Completed, "completed"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(status, _)| *status == self).map_or("initialized", |(_, name)| name)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(status, _)| *status)
    }
}

/// What is remembered of a batch while its session lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub seq: Seq,
    /// The number of its prompt; for a recovery batch, of the prompt before it.
    pub number: u32,
    pub opened: Order,
    /// The turn it runs as.
    pub prompt: Option<PromptId>,
    /// The turn that the agent named with the prompt. Where it is another than `prompt`, the prompt was typed while
    /// that turn ran.
    pub asked_in: Option<PromptId>,
    pub source: BatchSource,
    pub state: BatchState,
    pub response: Response,
    pub growth: Growth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchState {
    /// Typed while another batch ran; activities do not come here yet.
    Waiting,
    Open,
    Closed,
}

/// Whether the agent's answer to a batch is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    Missing,
    /// Read from the agent's transcript: whatever is told of it later is truer.
    Recovered,
    Known(TurnResponse),
}

/// An answer of the agent's, without its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnResponse {
    pub event: EventId,
    pub at: Order,
    /// For which turn, by the agent's own word.
    pub prompt: Option<PromptId>,
}

/// A turn that was heard of before any prompt of its id, and when first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSeen {
    pub turn: PromptId,
    pub at: Order,
}

/// A session as its actor holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    pub status: SessionStatus,
    /// Which life this is, from 1; 0 before the first event.
    pub life: u32,
    /// Prompts so far; the next one gets the next number.
    pub prompts: u32,
    /// In the order in which they were opened.
    pub batches: Vec<Batch>,
    /// Answers that are no batch's, kept as activities: their prompts may still come.
    pub spare: Vec<TurnResponse>,
    /// What was done before the first prompt, and lies in the first batch.
    pub early: Vec<EarlyCall>,
    /// Turns that were heard of though no prompt has their id: what was typed while the agent worked runs as one.
    pub turns_seen: Vec<TurnSeen>,
    pub last_event: Timestamp,
    /// The latest event so far; what was taken before it comes late.
    pub latest: Option<Order>,
    /// When the last life ended: what is older belongs to it and begins no other.
    pub ended: Option<Order>,
    /// When the current life began.
    pub begun: Timestamp,
    /// Since when the daemon was away, while the session is suspended.
    pub suspended: Option<Timestamp>,
    /// Calls that were begun and have no result yet.
    pub calls: Vec<RunningCall>,
    /// Messages at the last compaction.
    pub compacted: u32,
}

/// What the agent waits to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Context for a session that starts.
    Start(StartSource, Audience),
    /// Memory relevant to this prompt.
    Prompt(String),
    /// What is known of this file, as the agent names it: it is about to be read or changed.
    File(String),
    /// Memory relevant to what a subagent is to do. It begins without any of its caller's.
    Task(String),
}

/// What follows from an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub next: Session,
    pub effects: Vec<Effect>,
    pub ask: Option<Ask>,
}

/// What the user's configuration says about capturing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturePolicy {
    /// Tools whose calls make no activity.
    pub skip_tools: Vec<String>,
    /// Where plans lie, see [`super::plan::is_plan_file`].
    pub plan_folders: Vec<String>,
    /// With so much in it a batch is compressed though it goes on.
    pub chunk: Load,
}

/// How long a batch or a session may be silent, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    pub batch_ms: i64,
    pub session_ms: i64,
}

/// The time, as somebody sees it who has not always been looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    pub now: Timestamp,
    /// Since when. A suspended session was not silent before: nobody could hear it.
    pub since: Timestamp,
}

impl Batch {
    /// Whether a turn is another than the batch's by the agent's own words.
    pub fn is_strange_to(&self, turn: Option<&PromptId>) -> bool {
        turn.is_some() && self.prompt.is_some() && turn != self.prompt.as_ref()
    }

    /// Whether its prompt was typed while another turn ran.
    fn waited(&self) -> bool {
        self.asked_in.is_some() && self.prompt != self.asked_in
    }

    /// Whether what is done in a turn is nobody's business, as far as is known.
    fn is_private_in(&self, turn: Option<&PromptId>) -> bool {
        self.source == BatchSource::Private && !self.is_strange_to(turn)
    }
}

impl Session {
    /// Decides what `event` means.
    #[must_use]
    pub fn on_event(self, event: &HookEvent, capture: Capture, policy: &CapturePolicy) -> Decision {
        let ended = self.ended;
        let belongs_to_ended_life = ended.is_some_and(|ended| capture.order.is_before(&ended));
        let mut turn =
            Transition { session: self, effects: Vec::new(), capture, policy, belongs_to_ended_life };
        let ask = turn.take(event);
        let title = event.title.clone();
        turn.effects.extend(title.map(|title| Effect::SetTitle { title }));
        turn.session.last_event = turn.session.last_event.max(capture.at);
        if turn.session.latest.is_none_or(|latest| latest.is_before(&capture.order)) {
            turn.session.latest = Some(capture.order);
        }
        Decision { next: turn.session, effects: turn.effects, ask }
    }

    /// Decides what the passing of time means. Closing by time is provisional: the next event goes on.
    #[must_use]
    pub fn on_idle(self, watch: Watch, policy: IdlePolicy) -> Decision {
        let (closes, ends) = (self.closes_by_time(watch, policy), self.ends_by_time(watch, policy));
        let mut next = self;
        let mut effects = Vec::new();
        if closes {
            effects.extend(next.close_unfinished(CloseReason::Idle));
            // The end of the life asks for one itself.
            if !effects.is_empty() && !ends {
                effects.push(Effect::Summarize);
            }
        }
        if ends {
            let tally = next.tally(next.last_event);
            effects.extend(next.end_calls(|_| true));
            effects.extend([Effect::Complete { reason: "idle".to_owned(), tally }, Effect::Summarize]);
            next.status = SessionStatus::Completed;
            next.suspended = None;
            // It ended with the last that was heard of it.
            next.ended = next.latest;
        }
        Decision { next, effects, ask: None }
    }

    /// A running call may be silent for longer than a batch, but not for longer than a session.
    fn closes_by_time(&self, watch: Watch, policy: IdlePolicy) -> bool {
        let silent = self.silent_for(watch);
        self.status != SessionStatus::Completed
            && (silent >= policy.session_ms || (silent >= policy.batch_ms && self.calls.is_empty()))
    }

    fn ends_by_time(&self, watch: Watch, policy: IdlePolicy) -> bool {
        self.life > 0
            && self.status != SessionStatus::Completed
            && self.silent_for(watch) >= policy.session_ms
    }

    /// In milliseconds.
    fn silent_for(&self, watch: Watch) -> i64 {
        let since = match self.status {
            SessionStatus::Suspended => self.last_event.max(watch.since),
            SessionStatus::Initialized | SessionStatus::Active | SessionStatus::Completed => self.last_event,
        };
        watch.now.since(since)
    }

    /// The open batch that `event` is about to close, or to leave, without an answer to it.
    pub fn left_unanswered_by(&self, event: &HookEvent) -> Option<&Batch> {
        let batch = self.unanswered()?;
        let leaves = match &event.what {
            HookEventKind::Prompt { .. } => event.prompt.is_none() || event.prompt != batch.prompt,
            HookEventKind::SessionEnd { .. } => true,
            HookEventKind::SessionStart { source, .. } => *source != StartSource::Compact,
            HookEventKind::Stop { .. } if batch.is_strange_to(event.prompt.as_ref()) => true,
            HookEventKind::Stop { message } => message.as_ref().is_none_or(|text| text.trim().is_empty()),
            _ => false,
        };
        leaves.then_some(batch)
    }

    /// The same for the passing of time.
    pub fn left_unanswered_by_time(&self, watch: Watch, policy: IdlePolicy) -> Option<&Batch> {
        self.unanswered().filter(|_| self.closes_by_time(watch, policy))
    }

    fn unanswered(&self) -> Option<&Batch> {
        let has_answer = |batch: &&Batch| {
            batch.response == Response::Missing
                && !matches!(batch.source, BatchSource::Private | BatchSource::Recovery)
        };
        self.running().filter(has_answer)
    }

    /// The reply that was found for the running batch.
    #[must_use]
    pub fn with_reply(mut self, text: &str) -> (Self, Option<Effect>) {
        let running = self.batches.iter_mut().rev().find(|batch| batch.state == BatchState::Open);
        let effect = running.filter(|_| !text.trim().is_empty()).map(|batch| {
            batch.response = Response::Recovered;
            Effect::RecoverReply { seq: batch.seq, text: text.to_owned() }
        });
        (self, effect)
    }

    /// What the session amounts to at a moment.
    pub fn tally(&self, at: Timestamp) -> Tally {
        Tally { message_count: self.messages(), life_ms: at.since(self.begun) }
    }

    /// Prompts and answers so far.
    pub fn messages(&self) -> u32 {
        let of = |batch: &Batch| {
            u32::from(batch.source != BatchSource::Recovery) + u32::from(batch.response != Response::Missing)
        };
        self.batches.iter().map(of).sum()
    }

    /// Whether anything could still change by the mere passing of time.
    pub fn is_at_rest(&self) -> bool {
        self.status == SessionStatus::Completed
            && self.batches.iter().all(|batch| batch.state == BatchState::Closed)
    }

    /// Closes what is open and forgets that something waited.
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

    /// Since when a batch ran; `None`: it was typed while another did, and its turn never came.
    fn ran_since(&self, batch: &Batch) -> Option<Order> {
        if !batch.waited() {
            return Some(batch.opened);
        }
        let turn = batch.prompt.as_ref()?;
        let seen = self.turns_seen.iter().find(|seen| seen.turn == *turn);
        Some(seen.map_or(batch.opened, |seen| seen.at))
    }

    fn running(&self) -> Option<&Batch> {
        self.batches.iter().rev().find(|batch| batch.state == BatchState::Open)
    }
}
