//! What an event means for its session and the session's prompt batches.
//!
//! [`Session::on_event`] is a function from state and event to state and effects. The session actor calls it and
//! hands the effects to the writer; nothing here waits, writes or knows the time.
//!
//! Batches are named by a number that the session gives out ([`Seq`]), not by a row's, so that an effect can name a
//! batch that is not yet stored. They stand in the order in which their prompts were typed: an event that arrives
//! late takes the place it would have had.

use serde::{Deserialize, Serialize};

use super::event::{
    Audience, Capture, LifecycleEvent, PromptText, StartSource, Subagent, ToolCall, ToolResult, What,
};
use super::ids::{EventId, PromptId, Timestamp};
use super::material::BatchSource;
use super::order::Order;

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
    pub prompt: Option<PromptId>,
    pub source: BatchSource,
    pub state: BatchState,
    pub response: Response,
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
    /// When it was given, and for which turn by the agent's own word.
    Known {
        at: Order,
        prompt: Option<PromptId>,
    },
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
    pub last_event: Timestamp,
    /// The latest event so far; what was taken before it comes late.
    pub latest: Option<Order>,
    /// When the last life ended: what is older belongs to it and begins no other.
    pub ended: Option<Order>,
}

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

/// What the agent waits to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Context for a session that starts.
    Start(StartSource, Audience),
    /// Memory relevant to this prompt.
    Prompt(String),
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
}

/// How long a batch or a session may be silent, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    pub batch_ms: i64,
    pub session_ms: i64,
}

impl Session {
    /// Decides what `event` means.
    #[must_use]
    pub fn on_event(self, event: &LifecycleEvent, capture: Capture, policy: &CapturePolicy) -> Decision {
        let ended = self.ended;
        let belongs_to_ended_life = ended.is_some_and(|ended| capture.order.is_before(&ended));
        let mut turn = Turn { session: self, effects: Vec::new(), capture, policy, belongs_to_ended_life };
        let ask = turn.take(event);
        turn.session.last_event = turn.session.last_event.max(capture.at);
        if turn.session.latest.is_none_or(|latest| latest.is_before(&capture.order)) {
            turn.session.latest = Some(capture.order);
        }
        Decision { next: turn.session, effects: turn.effects, ask }
    }

    /// Decides what the passing of time means. Closing by time is provisional: the next event goes on.
    #[must_use]
    pub fn on_idle(self, now: Timestamp, policy: IdlePolicy) -> Decision {
        let silent = now.since(self.last_event);
        let mut next = self;
        let mut effects = Vec::new();
        if silent >= policy.batch_ms && next.status != SessionStatus::Completed {
            effects.extend(next.close_unfinished(CloseReason::Idle));
        }
        let has_begun = next.life > 0;
        if has_begun
            && silent >= policy.session_ms
            && matches!(next.status, SessionStatus::Initialized | SessionStatus::Active)
        {
            effects.extend([Effect::Complete { reason: "idle".to_owned() }, Effect::Summarize]);
            next.status = SessionStatus::Completed;
        }
        Decision { next, effects, ask: None }
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

    fn running(&self) -> Option<&Batch> {
        self.batches.iter().rev().find(|batch| batch.state == BatchState::Open)
    }
}

/// Where a late prompt has found its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing was asked since.
    Last,
    Earlier,
}

/// One event on its way through the rules.
struct Turn<'a> {
    session: Session,
    effects: Vec<Effect>,
    capture: Capture,
    policy: &'a CapturePolicy,
    /// It comes after the end of the life it belongs to, and must not begin another.
    belongs_to_ended_life: bool,
}

impl Turn<'_> {
    fn take(&mut self, event: &LifecycleEvent) -> Option<Ask> {
        match &event.what {
            What::SessionStart { source, audience } => {
                self.begin(*source);
                return Some(Ask::Start(*source, *audience));
            }
            What::Prompt { text, source } => {
                self.activate();
                return self.open(event, text, *source);
            }
            What::Tool(call) => {
                self.activate();
                self.tool(event, call);
            }
            What::Stop { message } => {
                self.activate();
                self.stop(event, message.as_deref());
            }
            What::SessionEnd { reason } => {
                let older = |batch: &Batch| self.capture.order.is_before(&batch.opened);
                if self.session.status == SessionStatus::Completed || self.session.batches.iter().any(older) {
                    // It has ended already, or gone on since: a late word of it neither ends nor begins a life.
                    return None;
                }
                self.begin(StartSource::Resume);
                self.effects.extend(self.session.close_unfinished(CloseReason::SessionEnd));
                self.session.status = SessionStatus::Completed;
                self.session.ended = Some(self.capture.order);
                self.effects.extend([Effect::Complete { reason: reason.clone() }, Effect::Summarize]);
            }
            What::PreCompact { trigger } => {
                self.note(event, "PreCompact", &format!("{{\"trigger\":{trigger:?}}}"))
            }
            What::Other { name, detail } => self.note(event, name, detail),
        }
        None
    }

    /// A session starts or is continued. Other live sessions are nobody's business here.
    fn begin(&mut self, source: StartSource) {
        match self.session.status {
            _ if self.session.life == 0 => self.begin_life(source),
            SessionStatus::Completed if self.belongs_to_ended_life => {}
            SessionStatus::Completed => self.begin_life(source),
            SessionStatus::Suspended => self.set_status(SessionStatus::Active),
            SessionStatus::Initialized | SessionStatus::Active => {}
        }
    }

    fn begin_life(&mut self, source: StartSource) {
        self.session.life += 1;
        self.session.status = SessionStatus::Initialized;
        self.effects.push(Effect::BeginLife { life: self.session.life, source });
    }

    fn set_status(&mut self, status: SessionStatus) {
        self.session.status = status;
        self.effects.push(Effect::SetStatus(status));
    }

    /// Sees that the session lives and works, whatever was missed before.
    fn activate(&mut self) {
        self.begin(StartSource::Resume);
        if !matches!(self.session.status, SessionStatus::Active | SessionStatus::Completed) {
            self.set_status(SessionStatus::Active);
        }
    }

    fn open(&mut self, event: &LifecycleEvent, text: &PromptText, source: BatchSource) -> Option<Ask> {
        // A prompt that carries the running turn's id was typed while the agent works.
        let queued = event.prompt.is_some()
            && self.session.running().is_some_and(|running| {
                running.prompt == event.prompt && running.source != BatchSource::Recovery
            });
        let (source, state) = match (text, queued) {
            (PromptText::WhollyPrivate, true) => (BatchSource::Private, BatchState::Waiting),
            (PromptText::WhollyPrivate, false) => (BatchSource::Private, BatchState::Open),
            (PromptText::Text(_), true) => (BatchSource::Queued, BatchState::Waiting),
            (PromptText::Text(_), false) => (source, BatchState::Open),
        };
        let text = match text {
            PromptText::Text(text) => Some(text.clone()),
            PromptText::WhollyPrivate => None,
        };
        let prompt_id = if queued { None } else { event.prompt.clone() };
        let prompt = NewPrompt { event: self.capture.event, text: text.clone() };
        self.session.prompts += 1;
        if self.session.latest.is_some_and(|latest| self.capture.order.is_before(&latest)) {
            let place = self.insert_late(source, event.prompt.clone(), prompt);
            // Where another prompt followed, or the life ended, its time is over: there is nobody to answer.
            return if place == Place::Last { self.ask(source, text) } else { None };
        }
        if !queued {
            self.effects.extend(self.session.close_unfinished(CloseReason::NextPrompt));
        }
        self.push_batch(source, state, prompt_id, Some(prompt));
        self.ask(source, text)
    }

    /// A person's prompt is answered; a machine's is not.
    fn ask(&self, source: BatchSource, text: Option<String>) -> Option<Ask> {
        match source {
            BatchSource::User | BatchSource::Queued | BatchSource::Plan => text.map(Ask::Prompt),
            _ => None,
        }
    }

    /// Puts a prompt that arrived late into its place: what was done and answered from then until the next prompt
    /// moves into its batch, and later prompts move up by one.
    fn insert_late(&mut self, source: BatchSource, prompt_id: Option<PromptId>, prompt: NewPrompt) -> Place {
        let order = self.capture.order;
        let place = self.session.batches.iter().take_while(|batch| !order.is_before(&batch.opened)).count();
        if self.session.batches.get(place).is_some_and(|next| next.source == BatchSource::Recovery) {
            return self.adopt_recovery(place, source, prompt_id, prompt);
        }
        // What was done before the first known prompt lies with that one.
        let from = place.checked_sub(1).or_else(|| (!self.session.batches.is_empty()).then_some(0));
        let before = place.checked_sub(1).and_then(|at| self.session.batches.get(at));
        let number = before.map_or(0, |before| before.number) + 1;
        let seq = self.next_seq();
        // What was done before any known prompt moves along to the one that is now the first.
        let since = if place == 0 { Order { boot_ns: 0, wall: Timestamp(i64::MIN), ..order } } else { order };
        let until = if place == 0 { self.session.batches.first().map(|first| first.opened) } else { None };
        let answer = from.and_then(|at| self.session.batches.get_mut(at)).and_then(|from| {
            let moves = match &from.response {
                Response::Known { at, prompt } => {
                    let in_time = until.is_none_or(|until| at.is_before(&until));
                    since.is_before(at) && in_time && (prompt.is_none() || *prompt != from.prompt)
                }
                Response::Missing => false,
            };
            moves.then(|| std::mem::replace(&mut from.response, Response::Missing))
        });
        let is_last = place == self.session.batches.len() && self.session.status != SessionStatus::Completed;
        let runs = is_last && answer.is_none();
        if is_last {
            self.effects.extend(self.session.close_unfinished(CloseReason::NextPrompt));
        }
        let state = if runs { BatchState::Open } else { BatchState::Closed };
        let opened = Some(prompt);
        self.effects.push(Effect::OpenBatch {
            seq,
            number,
            source,
            state,
            prompt_id: prompt_id.clone(),
            prompt: opened,
        });
        for batch in self.session.batches.iter_mut().skip(place) {
            batch.number += 1;
            self.effects.push(Effect::Renumber { seq: batch.seq, number: batch.number });
        }
        let is_private = source == BatchSource::Private;
        if let Some(from) = from.and_then(|at| self.session.batches.get(at)) {
            let content = if is_private { Content::Hidden } else { Content::Kept };
            self.effects.push(Effect::TakeOver { from: from.seq, to: seq, since, until, content });
            if from.source != BatchSource::Private && from.state == BatchState::Closed {
                self.effects.push(Effect::CompressBatch { seq: from.seq });
            }
        }
        if !runs {
            let why = if answer.is_some() { CloseReason::Stop } else { CloseReason::NextPrompt };
            self.effects.push(Effect::CloseBatch { seq, why });
            if !is_private {
                self.effects.push(Effect::CompressBatch { seq });
            }
        }
        let response = answer.unwrap_or(Response::Missing);
        let batch = Batch { seq, number, opened: order, prompt: prompt_id, source, state, response };
        self.session.batches.insert(place, batch);
        if is_last { Place::Last } else { Place::Earlier }
    }

    /// Gives the recovery batch at `at` the prompt that it lacked. What later prompts own in it they take over when
    /// they arrive.
    fn adopt_recovery(
        &mut self,
        at: usize,
        source: BatchSource,
        prompt_id: Option<PromptId>,
        prompt: NewPrompt,
    ) -> Place {
        let number =
            at.checked_sub(1).and_then(|at| self.session.batches.get(at)).map_or(0, |b| b.number) + 1;
        for batch in self.session.batches.iter_mut().skip(at + 1) {
            batch.number += 1;
            self.effects.push(Effect::Renumber { seq: batch.seq, number: batch.number });
        }
        let is_last = at + 1 == self.session.batches.len();
        let Some(batch) = self.session.batches.get_mut(at) else { return Place::Earlier };
        (batch.number, batch.source, batch.opened) = (number, source, self.capture.order);
        batch.prompt = prompt_id.clone();
        let (seq, private) = (batch.seq, source == BatchSource::Private);
        let content = if private { Content::Hidden } else { Content::Kept };
        self.effects.push(Effect::AdoptRecovery { seq, number, source, prompt_id, prompt, content });
        if batch.state == BatchState::Closed && !private {
            self.effects.push(Effect::CompressBatch { seq });
        }
        if is_last && batch.state == BatchState::Open { Place::Last } else { Place::Earlier }
    }

    fn next_seq(&self) -> Seq {
        Seq(self.session.batches.iter().map(|batch| batch.seq.0).max().unwrap_or(0) + 1)
    }

    fn push_batch(
        &mut self,
        source: BatchSource,
        state: BatchState,
        prompt_id: Option<PromptId>,
        prompt: Option<NewPrompt>,
    ) -> usize {
        let (seq, opened) = (self.next_seq(), self.capture.order);
        let number = self.session.prompts;
        self.effects.push(Effect::OpenBatch {
            seq,
            number,
            source,
            state,
            prompt_id: prompt_id.clone(),
            prompt,
        });
        let response = Response::Missing;
        self.session.batches.push(Batch { seq, number, opened, prompt: prompt_id, source, state, response });
        self.session.batches.len() - 1
    }

    /// The batch an event belongs to: that of its prompt id even when closed; else one that waited for just this
    /// turn; else the one that ran at its time; else the first. `None` where the session has none.
    fn batch_of(&mut self, prompt: Option<&PromptId>) -> Option<usize> {
        let batches = &self.session.batches;
        if let Some(id) = prompt {
            // The newest of that id: a compaction or a resumed turn may have opened it again.
            if let Some(known) = batches.iter().rposition(|batch| batch.prompt.as_ref() == Some(id)) {
                return Some(known);
            }
            if let Some(waiting) = batches.iter().position(|batch| batch.state == BatchState::Waiting) {
                return Some(self.run_waiting(waiting, id));
            }
        }
        let order = self.capture.order;
        // What was typed meanwhile ran only if its turn came.
        let ran = |batch: &Batch| {
            batch.state != BatchState::Waiting
                && (batch.source != BatchSource::Queued || batch.prompt.is_some())
        };
        let batches = &self.session.batches;
        let running = batches
            .iter()
            .rposition(|batch| batch.state == BatchState::Open && !order.is_before(&batch.opened));
        running
            .or_else(|| batches.iter().rposition(|batch| ran(batch) && !order.is_before(&batch.opened)))
            .or_else(|| (!batches.is_empty()).then_some(0))
    }

    /// The interrupted turn is over; what was typed meanwhile is the turn of `id`.
    fn run_waiting(&mut self, waiting: usize, id: &PromptId) -> usize {
        for batch in self.session.batches.iter_mut().filter(|batch| batch.state == BatchState::Open) {
            batch.state = BatchState::Closed;
            self.effects.push(Effect::CloseBatch { seq: batch.seq, why: CloseReason::NextPrompt });
            if batch.source != BatchSource::Private {
                self.effects.push(Effect::CompressBatch { seq: batch.seq });
            }
        }
        if let Some(batch) = self.session.batches.get_mut(waiting) {
            batch.state = BatchState::Open;
            batch.prompt = Some(id.clone());
            self.effects.push(Effect::RunBatch { seq: batch.seq, prompt_id: id.clone() });
        }
        waiting
    }

    fn tool(&mut self, event: &LifecycleEvent, call: &ToolCall) {
        let skipped = self.policy.skip_tools.contains(&call.name);
        let at = match self.batch_of(event.prompt.as_ref()) {
            Some(at) => at,
            None if skipped => return,
            None => {
                let at = self.push_batch(BatchSource::Recovery, BatchState::Open, event.prompt.clone(), None);
                if self.session.status == SessionStatus::Completed {
                    self.effects.extend(self.session.close_unfinished(CloseReason::SessionEnd));
                }
                at
            }
        };
        let Some(batch) = self.session.batches.get(at) else { return };
        let (seq, private, closed) =
            (batch.seq, batch.source == BatchSource::Private, batch.state == BatchState::Closed);
        let event_id = self.capture.event;
        let effect = match (private, skipped) {
            (true, true) => return,
            (false, true) => Effect::AddAside { seq, event: event_id, call: call.clone() },
            (hidden, false) => {
                let content = if hidden {
                    ActivityContent::Hidden { name: call.name.clone() }
                } else {
                    ActivityContent::Tool(call.clone())
                };
                let activity = NewActivity {
                    event: event_id,
                    prompt: event.prompt.clone(),
                    subagent: event.subagent.clone(),
                    content,
                };
                Effect::AddActivity { seq: Some(seq), activity }
            }
        };
        self.effects.push(effect);
        if closed && !private {
            // Background work goes on after Stop: the batch's observations are made anew with it.
            self.effects.push(Effect::CompressBatch { seq });
        }
    }

    fn stop(&mut self, event: &LifecycleEvent, message: Option<&str>) {
        let Some(at) = self.batch_of(event.prompt.as_ref()) else {
            return self.note(event, "Stop", message.unwrap_or_default());
        };
        let answered_itself = |batch: &Batch| matches!(&batch.response, Response::Known { prompt, .. } if prompt.is_some() && *prompt == batch.prompt);
        let target = self.session.batches.get(at);
        let of_unknown_turn =
            event.prompt.is_some() && target.is_some_and(|batch| batch.prompt != event.prompt);
        if of_unknown_turn && target.is_some_and(answered_itself) {
            // Its prompt has not arrived; this must not take the place of another turn's answer.
            return self.note(event, "Stop", message.unwrap_or_default());
        }
        let waiting = self.session.batches.iter().position(|batch| {
            batch.state == BatchState::Waiting && !self.capture.order.is_before(&batch.opened)
        });
        // What was typed while the agent worked was answered by the same words.
        let ended: Vec<usize> = [Some(at), waiting].into_iter().flatten().collect();
        let mut aside = None;
        for at in ended {
            let Some(batch) = self.session.batches.get_mut(at) else { continue };
            let (seq, private) = (batch.seq, batch.source == BatchSource::Private);
            let was_closed = batch.state == BatchState::Closed;
            let mut news = !was_closed;
            // Of two answers the later one counts, in whatever order they arrive; a turn's own before any other.
            let is_own = event.prompt.is_some() && batch.prompt == event.prompt;
            let (is_older, of_same_turn) = match &batch.response {
                Response::Known { at, prompt } => {
                    let of_same_turn = event.prompt.is_some() && *prompt == event.prompt;
                    (self.capture.order.is_before(at) && (of_same_turn || !is_own), of_same_turn)
                }
                Response::Missing => (false, false),
            };
            if is_older && !of_same_turn && !private {
                // The prompt that it answers may still be on its way.
                aside = message.filter(|text| !text.trim().is_empty());
            }
            let text = message.filter(|text| !private && !is_older && !text.trim().is_empty());
            if let Some(text) = text {
                // A turn that went on has a later, truer last word; one that was cut short gets its first.
                batch.response = Response::Known { at: self.capture.order, prompt: event.prompt.clone() };
                let (text, prompt_id) = (text.to_owned(), event.prompt.clone());
                self.effects.push(Effect::Respond { seq, event: self.capture.event, text, prompt_id });
                news = true;
            }
            if !was_closed {
                batch.state = BatchState::Closed;
                self.effects.push(Effect::CloseBatch { seq, why: CloseReason::Stop });
            }
            if news && !private {
                self.effects.push(Effect::CompressBatch { seq });
            }
        }
        if let Some(text) = aside {
            self.note(event, "Stop", text);
        }
        // A crash after this moment leaves a summary.
        self.effects.push(Effect::Summarize);
    }

    /// Keeps an event that has no rule. It never opens a batch.
    fn note(&mut self, event: &LifecycleEvent, name: &str, detail: &str) {
        self.begin(StartSource::Resume);
        let batch = self.batch_of(event.prompt.as_ref()).and_then(|at| self.session.batches.get(at));
        let content = if batch.is_some_and(|batch| batch.source == BatchSource::Private) {
            ActivityContent::Hidden { name: name.to_owned() }
        } else {
            ActivityContent::Other { name: name.to_owned(), detail: detail.to_owned() }
        };
        let activity = NewActivity {
            event: self.capture.event,
            prompt: event.prompt.clone(),
            subagent: event.subagent.clone(),
            content,
        };
        self.effects.push(Effect::AddActivity { seq: batch.map(|batch| batch.seq), activity });
    }
}

impl ToolCall {
    pub fn is_failed(&self) -> bool {
        matches!(self.result, ToolResult::Failed(_))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::ids::SessionId;

    const IDLE: IdlePolicy = IdlePolicy { batch_ms: 300_000, session_ms: 3_600_000 };

    fn policy() -> CapturePolicy {
        CapturePolicy { skip_tools: vec!["TodoWrite".to_owned()] }
    }

    /// Reads one line of a story: `start`, `prompt p1 text`, `queued p1 text`, `private p1`, `machine p1`,
    /// `tool p1 Read`, `stop p1 text`, `note p1`, `end other`, `wait 300`. A dash stands for no prompt id.
    fn event(line: &str) -> Option<LifecycleEvent> {
        let mut words = line.split_whitespace();
        let mut kind = words.next().unwrap();
        if kind.starts_with('@') {
            kind = words.next().unwrap();
        }
        let mut id = || words.next().filter(|word| *word != "-").map(PromptId::from);
        let (prompt, what) = match kind {
            "start" => {
                let source = StartSource::parse(words.next().unwrap_or("startup"));
                (None, What::SessionStart { source, audience: Audience::Person })
            }
            "prompt" => {
                let prompt = id();
                let text = PromptText::Text(words.collect::<Vec<_>>().join(" "));
                (prompt, What::Prompt { text, source: BatchSource::User })
            }
            "private" => (id(), What::Prompt { text: PromptText::WhollyPrivate, source: BatchSource::User }),
            "machine" => {
                let text = PromptText::Text("<task-notification>".to_owned());
                (id(), What::Prompt { text, source: BatchSource::AgentNotification })
            }
            "tool" => {
                let prompt = id();
                let name = words.next().unwrap().to_owned();
                let result = ToolResult::Done("{}".to_owned());
                let call = ToolCall { name, use_id: None, input: "{}".to_owned(), result, duration_ms: None };
                (prompt, What::Tool(call))
            }
            "stop" => {
                let prompt = id();
                let text = words.collect::<Vec<_>>().join(" ");
                (prompt, What::Stop { message: Some(text).filter(|text| !text.is_empty()) })
            }
            "note" => (id(), What::Other { name: "Notification".to_owned(), detail: "{}".to_owned() }),
            "compact" => (id(), What::PreCompact { trigger: "auto".to_owned() }),
            "end" => (None, What::SessionEnd { reason: words.next().unwrap_or("other").to_owned() }),
            "wait" => return None,
            other => panic!("no such line: {other}"),
        };
        Some(LifecycleEvent {
            session: SessionId::from("s"),
            prompt,
            cwd: None,
            transcript_path: None,
            subagent: None,
            what,
        })
    }

    fn play(story: &str) -> (Session, Vec<Effect>) {
        let (mut session, mut effects) = (Session::default(), Vec::new());
        let mut at = Timestamp(1_000);
        for (number, line) in story.split(';').map(str::trim).enumerate() {
            let decision = match event(line) {
                Some(event) => {
                    // `@3 prompt …` was taken before the fourth line and arrives now.
                    let place = line.strip_prefix('@').and_then(|rest| rest.split_whitespace().next());
                    let boot_ns =
                        place.map_or(number as u64 * 10, |place| place.parse::<u64>().unwrap() * 10 - 5);
                    let order = Order { boot: [1; 16], boot_ns, wall: at };
                    let capture = Capture { event: EventId((number as u128).to_be_bytes()), at, order };
                    session.on_event(&event, capture, &policy())
                }
                None => {
                    at.0 += line.strip_prefix("wait ").unwrap().parse::<i64>().unwrap() * 1000;
                    session.on_idle(at, IDLE)
                }
            };
            session = decision.next;
            effects.extend(decision.effects);
            at.0 += 1;
        }
        (session, effects)
    }

    /// The batches as the effects leave them: `1 closed(stop) user [Read] 'answer'`.
    fn batches(effects: &[Effect]) -> String {
        struct Row {
            source: &'static str,
            state: String,
            calls: Vec<String>,
            answer: String,
        }
        let mut rows: Vec<Row> = Vec::new();
        let at = |seq: &Seq| seq.0 as usize - 1;
        for effect in effects {
            match effect {
                Effect::OpenBatch { source, state, .. } => {
                    let state = if *state == BatchState::Waiting { "waiting" } else { "open" }.to_owned();
                    rows.push(Row {
                        source: source.as_str(),
                        state,
                        calls: Vec::new(),
                        answer: String::new(),
                    });
                }
                Effect::RunBatch { seq, .. } => rows[at(seq)].state = "open".to_owned(),
                Effect::TakeOver { from, to, content, .. } => {
                    rows[at(to)].calls.push(format!(
                        "{} from {}",
                        if *content == Content::Kept { "rest" } else { "hidden rest" },
                        from.0
                    ));
                }
                Effect::CloseBatch { seq, why } => rows[at(seq)].state = format!("closed({})", why.as_str()),
                Effect::Respond { seq, text, .. } => rows[at(seq)].answer = format!(" '{text}'"),
                Effect::AddActivity { seq: Some(seq), activity } => {
                    let name = match &activity.content {
                        ActivityContent::Tool(call) => call.name.clone(),
                        ActivityContent::Other { name, .. } => format!("({name})"),
                        ActivityContent::Hidden { name } => format!("hidden {name}"),
                    };
                    rows[at(seq)].calls.push(name);
                }
                _ => {}
            }
        }
        let lines = rows.iter().enumerate().map(|(number, Row { source, state, calls, answer })| {
            format!("{} {state} {source} [{}]{answer}", number + 1, calls.join(" "))
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    #[track_caller]
    fn check(story: &str, expected: &str) {
        assert_eq!(batches(&play(story).1), expected);
    }

    #[test]
    fn a_prompt_opens_a_batch_and_what_follows_belongs_to_it() {
        check("start; prompt p1 hello; tool p1 Read; stop p1 done", "1 closed(stop) user [Read] 'done'");
        check(
            "start; prompt - a; tool - Read; prompt - b",
            "1 closed(next_prompt) user [Read]; 2 open user []",
        );
        check("start; prompt p1 a; end clear", "1 closed(session_end) user []");
    }

    #[test]
    fn a_closed_batch_still_gets_what_is_its_own() {
        // A background agent works on after Stop.
        check(
            "start; prompt p1 a; stop p1 x; tool p1 Bash; machine p2; stop p2 y",
            "1 closed(stop) user [Bash] 'x'; 2 closed(stop) agent_notification [] 'y'",
        );
        let (_, effects) = play("start; prompt p1 a; stop p1 x; tool p1 Bash");
        let compressions =
            effects.iter().filter(|effect| matches!(effect, Effect::CompressBatch { .. })).count();
        assert_eq!(compressions, 2);
    }

    #[test]
    fn a_prompt_typed_meanwhile_waits_for_the_answer() {
        check(
            "start; prompt p1 a; prompt p1 b; tool p1 Read; stop p1 both",
            "1 closed(stop) user [Read] 'both'; 2 closed(stop) queued [] 'both'",
        );
        // Interrupted: what was typed becomes the next turn.
        check(
            "start; prompt p1 a; prompt p1 b; tool p2 Read; stop p2 second",
            "1 closed(next_prompt) user []; 2 closed(stop) queued [Read] 'second'",
        );
        check(
            "start; prompt p1 a; prompt p1 b; stop p2 second",
            "1 closed(next_prompt) user []; 2 closed(stop) queued [] 'second'",
        );
    }

    #[test]
    fn nothing_of_a_private_prompt_is_kept() {
        let story =
            "start; private p1; tool p1 Read; note p1; tool p1 TodoWrite; stop p1 secret; prompt p2 b";
        check(story, "1 closed(stop) private [hidden Read hidden Notification]; 2 open user []");
        let (session, effects) = play(story);
        assert_eq!(session.prompts, 2);
        assert!(!effects.contains(&Effect::CompressBatch { seq: Seq(1) }));
    }

    #[test]
    fn a_call_without_any_prompt_opens_a_recovery_batch_and_a_note_never_does() {
        check("tool - Read; stop - x", "1 closed(stop) recovery [Read] 'x'");
        check("start; note -; note -; prompt p1 a", "1 open user []");
        check("start; tool - TodoWrite", "");
    }

    #[test]
    fn skipped_tools_make_no_activity_but_tell_the_batch() {
        let (_, effects) = play("start; prompt p1 a; tool p1 TodoWrite; stop p1 x");
        assert!(effects.iter().any(|effect| matches!(effect, Effect::AddAside { .. })));
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::AddActivity { .. })));
    }

    #[test]
    fn the_last_word_of_a_turn_that_went_on_counts() {
        check("start; prompt p1 a; stop p1 first; stop p1 second", "1 closed(stop) user [] 'second'");
        check("start; prompt p1 a; end other; stop p1 late", "1 closed(session_end) user [] 'late'");
    }

    #[test]
    fn silence_closes_first_the_batch_and_then_the_life() {
        check("start; prompt p1 a; wait 299", "1 open user []");
        check("start; prompt p1 a; wait 301", "1 closed(idle) user []");
        let (session, effects) = play("start; prompt p1 a; wait 301; wait 3600; wait 3600");
        assert_eq!(session.status, SessionStatus::Completed);
        assert!(session.is_at_rest());
        let ends = effects.iter().filter(|effect| matches!(effect, Effect::Complete { .. })).count();
        assert_eq!(ends, 1);
        // Closing by time is provisional.
        let (session, _) = play("start; prompt p1 a; wait 7200; tool p1 Read");
        assert_eq!((session.status, session.life), (SessionStatus::Active, 2));
    }

    #[test]
    fn a_life_begins_and_ends_once() {
        let lives = |story: &str| {
            let (session, effects) = play(story);
            let begun = effects.iter().filter(|effect| matches!(effect, Effect::BeginLife { .. })).count();
            let ended = effects.iter().filter(|effect| matches!(effect, Effect::Complete { .. })).count();
            (begun, ended, session.status)
        };
        assert_eq!(lives("start; prompt p1 a; end other; end other"), (1, 1, SessionStatus::Completed));
        assert_eq!(lives("start; end clear; start resume"), (2, 1, SessionStatus::Initialized));
        assert_eq!(lives("start; start compact; prompt p1 a"), (1, 0, SessionStatus::Active));
        assert_eq!(lives("end other"), (1, 1, SessionStatus::Completed));
        let suspended = Session { status: SessionStatus::Suspended, life: 1, ..Session::default() };
        let resumed = event("tool - Read").unwrap();
        let capture = Capture { event: EventId([9; 16]), at: Timestamp(1), order: Order::default() };
        let decision = suspended.on_event(&resumed, capture, &policy());
        assert_eq!((decision.next.status, decision.next.life), (SessionStatus::Active, 1));
    }

    #[test]
    fn only_a_start_and_a_users_prompt_are_answered() {
        let ask = |story: &str| {
            let (before, last) = story.rsplit_once(';').unwrap_or(("start", story));
            let order = Order { boot: [1; 16], boot_ns: 1_000, wall: Timestamp(9) };
            let capture = Capture { event: EventId([7; 16]), at: Timestamp(9), order };
            play(before).0.on_event(&event(last.trim()).unwrap(), capture, &policy()).ask
        };
        assert_eq!(ask("start; start clear"), Some(Ask::Start(StartSource::Clear, Audience::Person)));
        assert_eq!(ask("start; prompt p1 why"), Some(Ask::Prompt("why".to_owned())));
        for silent in
            ["start; machine p1", "start; private p1", "start; prompt p1 a; stop p1 x", "start; end other"]
        {
            assert_eq!(ask(silent), None, "{silent}");
        }
    }

    fn numbers(session: &Session) -> Vec<(u32, u32)> {
        session.batches.iter().map(|batch| (batch.seq.0, batch.number)).collect()
    }

    #[test]
    fn what_arrives_late_takes_its_place() {
        // A call between two prompts belongs to the first of them.
        check(
            "start; prompt - a; prompt - b; @2 tool - Read",
            "1 closed(next_prompt) user [Read]; 2 open user []",
        );
        // A prompt between a prompt and its next call takes over what was done since.
        let story = "start; prompt - a; tool - Read; tool - Bash; prompt - d; @3 prompt - late";
        let (session, effects) = play(story);
        assert_eq!(
            batches(&effects),
            "1 closed(next_prompt) user [Read Bash]; 2 open user []; 3 closed(next_prompt) user [rest from 1]"
        );
        assert_eq!(numbers(&session), [(1, 1), (3, 2), (2, 3)]);
        assert_eq!(session.prompts, 3);
        // The next prompt is the fourth, and its place is the last.
        let (session, _) = play(&format!("{story}; prompt - e"));
        assert_eq!(numbers(&session), [(1, 1), (3, 2), (2, 3), (4, 4)]);
        // Before all others; and a private one hides what it takes over.
        let (session, effects) = play("start; prompt - a; tool - Read; @1 private -");
        assert_eq!(numbers(&session), [(2, 1), (1, 2)]);
        assert!(batches(&effects).ends_with("2 closed(next_prompt) private [hidden rest from 1]"));
    }

    #[test]
    fn a_late_prompt_gets_the_answer_that_was_given_to_it() {
        let (session, _) = play("start; prompt p1 a; stop p2 second; @2 prompt p2 b; prompt p3 c");
        let known = |batch: &Batch| matches!(batch.response, Response::Known { .. });
        assert_eq!(session.batches.iter().map(known).collect::<Vec<_>>(), [false, true, false]);
        // An answer to a turn nobody knows yet does not replace another turn's own.
        check("start; prompt p1 a; stop p1 first; stop p2 second", "1 closed(stop) user [(Stop)] 'first'");
    }

    #[test]
    fn a_late_prompt_adopts_what_was_done_before_any_was_known() {
        let (session, _) = play("start; tool p1 Read; stop p1 done; @1 prompt p1 a; prompt p2 b");
        let shown: Vec<_> = session.batches.iter().map(|batch| (batch.source, batch.number)).collect();
        assert_eq!(shown, [(BatchSource::User, 1), (BatchSource::User, 2)]);
        assert!(matches!(session.batches[0].response, Response::Known { .. }));
        // The next one takes its own out of it.
        let (session, effects) = play("start; tool - Read; tool - Bash; @1 prompt - a; @2 prompt - b");
        assert_eq!(numbers(&session), [(1, 1), (2, 2)]);
        assert!(
            effects.iter().any(|effect| matches!(effect, Effect::TakeOver { from: Seq(1), to: Seq(2), .. }))
        );
        let (_, effects) = play("start; tool p1 Read; @1 private p1");
        assert!(
            effects
                .iter()
                .any(|effect| matches!(effect, Effect::AdoptRecovery { content: Content::Hidden, .. }))
        );
    }

    #[test]
    fn an_older_answer_is_kept_beside_the_later_one() {
        check(
            "start; prompt - a; tool - Read; stop - second; @2 stop - first",
            "1 closed(stop) user [Read (Stop)] 'second'",
        );
        // The turn itself has a later, truer word.
        check(
            "start; prompt p1 a; tool p1 Read; stop p1 second; @2 stop p1 first",
            "1 closed(stop) user [Read] 'second'",
        );
    }

    #[test]
    fn what_belongs_to_an_ended_life_begins_no_other() {
        let (session, _) = play("start; prompt p1 a; end other; @2 tool p1 Read; @2 stop p1 late");
        assert_eq!((session.status, session.life), (SessionStatus::Completed, 1));
        let (session, _) = play("start; prompt p1 a; stop p1 x; prompt p2 b; @3 end other");
        assert_eq!((session.status, session.life), (SessionStatus::Active, 1));
    }

    fn any_line() -> impl Strategy<Value = String> {
        let id = prop::sample::select(vec!["-", "p1", "p2", "p3"]);
        let kind = prop::sample::select(vec![
            "start",
            "start resume",
            "start compact",
            "prompt",
            "private",
            "machine",
            "tool",
            "stop",
            "note",
            "compact",
            "end",
            "wait",
        ]);
        let late = prop::option::weighted(0.2, 1u32..30);
        (kind, id, 0u32..8000, late).prop_map(|(kind, id, seconds, late)| {
            let line = match kind {
                "tool" => format!("tool {id} Read"),
                "stop" => format!("stop {id} answer"),
                "wait" => return format!("wait {seconds}"),
                "start" | "start resume" | "start compact" | "end" => kind.to_owned(),
                other => format!("{other} {id} text"),
            };
            late.map_or(line.clone(), |place| format!("@{place} {line}"))
        })
    }

    proptest! {
        #[test]
        fn any_order_of_events_leaves_a_sound_session(lines in prop::collection::vec(any_line(), 1..40)) {
            let (session, effects) = play(&lines.join("; "));
            let open = session.batches.iter().filter(|batch| batch.state == BatchState::Open).count();
            prop_assert!(open <= 1);
            prop_assert!(session.batches.windows(2).all(|pair| !pair[1].opened.is_before(&pair[0].opened)));
            // Every effect names a batch that was opened before it.
            let mut opened = 0;
            let mut lives = 0i32;
            for effect in &effects {
                match effect {
                    Effect::OpenBatch { seq, .. } => {
                        opened += 1;
                        prop_assert_eq!(*seq, Seq(opened));
                    }
                    Effect::RunBatch { seq, .. } | Effect::CloseBatch { seq, .. } | Effect::Respond { seq, .. }
                    | Effect::AddAside { seq, .. } | Effect::CompressBatch { seq } | Effect::AdoptRecovery { seq, .. }
                    | Effect::Renumber { seq, .. } | Effect::TakeOver { from: seq, .. }
                    | Effect::AddActivity { seq: Some(seq), .. } => prop_assert!(seq.0 >= 1 && seq.0 <= opened),
                    Effect::BeginLife { .. } => lives += 1,
                    Effect::Complete { .. } => lives -= 1,
                    _ => {}
                }
                prop_assert!((0..=1).contains(&lives), "a life begins and ends once");
            }
            prop_assert_eq!(lives == 0, session.life == 0 || session.status == SessionStatus::Completed);
            if session.status == SessionStatus::Completed {
                prop_assert_eq!(open, 0);
            }
            // Prompts are numbered in the order in which they were typed.
            let prompts: Vec<u32> = session
                .batches
                .iter()
                .filter(|batch| batch.source != BatchSource::Recovery)
                .map(|batch| batch.number)
                .collect();
            prop_assert_eq!(&prompts, &(1..=session.prompts).collect::<Vec<_>>());
        }
    }
}
