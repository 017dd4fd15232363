//! What an event means for its session and the session's prompt batches.
//!
//! [`Session::on_event`] is a function from state and event to state and effects. The session actor calls it and
//! hands the effects to the writer; nothing here waits, writes or knows the time.
//!
//! Batches are named by their place in the session ([`Seq`]), not by a row number, so that an effect can name a
//! batch that is not yet stored.

use serde::{Deserialize, Serialize};

use super::event::{Capture, LifecycleEvent, PromptText, StartSource, Subagent, ToolCall, ToolResult, What};
use super::ids::{EventId, PromptId, Timestamp};
use super::material::BatchSource;

/// A batch's place in its session, from 1.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    Missing,
    Known,
}

/// A session as its actor holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    pub status: SessionStatus,
    /// Which life this is, from 1; 0 before the first event.
    pub life: u32,
    /// Prompts so far; the next one gets the next number.
    pub prompts: u32,
    /// In order of their [`Seq`].
    pub batches: Vec<Batch>,
    pub last_event: Timestamp,
}

/// What shall be stored. The store applies the effects of one event in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A life begins: the first, or the next after completion.
    BeginLife { life: u32, source: StartSource },
    SetStatus(SessionStatus),
    OpenBatch { seq: Seq, number: u32, source: BatchSource, state: BatchState, prompt_id: Option<PromptId>, prompt: Option<NewPrompt> },
    /// A waiting batch begins to run, as the turn of this id.
    RunBatch { seq: Seq, prompt_id: PromptId },
    CloseBatch { seq: Seq, why: CloseReason },
    Respond { seq: Seq, event: EventId, text: String },
    /// `seq` is `None` before the session's first batch, which takes such activities over.
    AddActivity { seq: Option<Seq>, activity: NewActivity },
    /// Something that is no activity but tells the compressor more: answers of the user, the task list.
    AddAside { seq: Seq, event: EventId, call: ToolCall },
    /// The batch's observations shall be made, or made anew.
    CompressBatch { seq: Seq },
    /// The session's summary shall be made, or made anew.
    Summarize,
    /// The life ends.
    Complete { reason: String },
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
    pub subagent: Option<Subagent>,
    pub content: ActivityContent,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ActivityContent {
    Tool(ToolCall),
    /// An event without a rule of its own: its name and the agent's JSON.
    Other { name: String, detail: String },
    /// It happened in a private batch: only that it did.
    Hidden { name: String },
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
    Start(StartSource),
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
        let mut turn = Turn { session: self, effects: Vec::new(), capture, policy };
        let ask = turn.take(event);
        turn.session.last_event = turn.session.last_event.max(capture.at);
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
        if silent >= policy.session_ms && matches!(next.status, SessionStatus::Initialized | SessionStatus::Active) {
            effects.extend([Effect::Complete { reason: "idle".to_owned() }, Effect::Summarize]);
            next.status = SessionStatus::Completed;
        }
        Decision { next, effects, ask: None }
    }

    /// Whether anything could still change by the mere passing of time.
    pub fn is_at_rest(&self) -> bool {
        self.status == SessionStatus::Completed && self.batches.iter().all(|batch| batch.state == BatchState::Closed)
    }

    /// Closes what is open and forgets that something waited.
    fn close_unfinished(&mut self, why: CloseReason) -> Vec<Effect> {
        let unfinished = self.batches.iter_mut().filter(|batch| batch.state != BatchState::Closed);
        unfinished
            .flat_map(|batch| {
                batch.state = BatchState::Closed;
                let close = Effect::CloseBatch { seq: batch.seq, why };
                let compress = (batch.source != BatchSource::Private).then_some(Effect::CompressBatch { seq: batch.seq });
                [Some(close), compress].into_iter().flatten()
            })
            .collect()
    }

    fn running(&self) -> Option<&Batch> {
        self.batches.iter().rev().find(|batch| batch.state == BatchState::Open)
    }
}

/// One event on its way through the rules.
struct Turn<'a> {
    session: Session,
    effects: Vec<Effect>,
    capture: Capture,
    policy: &'a CapturePolicy,
}

impl Turn<'_> {
    fn take(&mut self, event: &LifecycleEvent) -> Option<Ask> {
        match &event.what {
            What::SessionStart { source } => {
                self.begin(*source);
                return Some(Ask::Start(*source));
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
                if self.session.status == SessionStatus::Completed {
                    // It has ended already; a second word of it opens no other life.
                    return None;
                }
                self.begin(StartSource::Resume);
                self.effects.extend(self.session.close_unfinished(CloseReason::SessionEnd));
                self.session.status = SessionStatus::Completed;
                self.effects.extend([Effect::Complete { reason: reason.clone() }, Effect::Summarize]);
            }
            What::PreCompact { trigger } => self.note(event, "PreCompact", &format!("{{\"trigger\":{trigger:?}}}")),
            What::Other { name, detail } => self.note(event, name, detail),
        }
        None
    }

    /// A session starts or is continued. Other live sessions are nobody's business here.
    fn begin(&mut self, source: StartSource) {
        match self.session.status {
            _ if self.session.life == 0 => self.begin_life(source),
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
        if self.session.status != SessionStatus::Active {
            self.set_status(SessionStatus::Active);
        }
    }

    fn open(&mut self, event: &LifecycleEvent, text: &PromptText, source: BatchSource) -> Option<Ask> {
        // A prompt that carries the running turn's id was typed while the agent works.
        let queued = event.prompt.is_some()
            && self.session.running().is_some_and(|running| running.prompt == event.prompt);
        let (source, state) = match (text, queued) {
            (PromptText::WhollyPrivate, true) => (BatchSource::Private, BatchState::Waiting),
            (PromptText::WhollyPrivate, false) => (BatchSource::Private, BatchState::Open),
            (PromptText::Text(_), true) => (BatchSource::Queued, BatchState::Waiting),
            (PromptText::Text(_), false) => (source, BatchState::Open),
        };
        if !queued {
            self.effects.extend(self.session.close_unfinished(CloseReason::NextPrompt));
        }
        self.session.prompts += 1;
        let text = match text {
            PromptText::Text(text) => Some(text.clone()),
            PromptText::WhollyPrivate => None,
        };
        let prompt_id = if queued { None } else { event.prompt.clone() };
        self.push_batch(source, state, prompt_id, Some(NewPrompt { event: self.capture.event, text: text.clone() }));
        match source {
            BatchSource::User | BatchSource::Queued | BatchSource::Plan => text.map(Ask::Prompt),
            _ => None,
        }
    }

    fn push_batch(
        &mut self,
        source: BatchSource,
        state: BatchState,
        prompt_id: Option<PromptId>,
        prompt: Option<NewPrompt>,
    ) -> usize {
        let seq = Seq(self.session.batches.last().map_or(1, |last| last.seq.0 + 1));
        let number = self.session.prompts;
        self.effects.push(Effect::OpenBatch { seq, number, source, state, prompt_id: prompt_id.clone(), prompt });
        self.session.batches.push(Batch { seq, prompt: prompt_id, source, state, response: Response::Missing });
        self.session.batches.len() - 1
    }

    /// The batch an event belongs to: that of its prompt id even when closed; else one that waited for just this
    /// turn; else the running one; else the last. `None` where the session has none.
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
        let running = self.session.batches.iter().rposition(|batch| batch.state == BatchState::Open);
        running.or_else(|| self.session.batches.len().checked_sub(1))
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
            None => self.push_batch(BatchSource::Recovery, BatchState::Open, event.prompt.clone(), None),
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
                let activity = NewActivity { event: event_id, subagent: event.subagent.clone(), content };
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
        let waiting = self.session.batches.iter().position(|batch| batch.state == BatchState::Waiting);
        // What was typed while the agent worked was answered by the same words.
        let ended: Vec<usize> = [Some(at), waiting].into_iter().flatten().collect();
        for at in ended {
            let Some(batch) = self.session.batches.get_mut(at) else { continue };
            let (seq, private) = (batch.seq, batch.source == BatchSource::Private);
            let was_closed = batch.state == BatchState::Closed;
            let mut news = !was_closed;
            if let Some(text) = message.filter(|text| !private && !text.trim().is_empty()) {
                // A turn that went on has a later, truer last word; one that was cut short gets its first.
                batch.response = Response::Known;
                self.effects.push(Effect::Respond { seq, event: self.capture.event, text: text.to_owned() });
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
        let activity = NewActivity { event: self.capture.event, subagent: event.subagent.clone(), content };
        self.effects.push(Effect::AddActivity { seq: batch.map(|batch| batch.seq), activity });
    }
}

impl ToolCall {
    pub fn is_failed(&self) -> bool {
        matches!(self.result, ToolResult::Failed(_))
    }
}
