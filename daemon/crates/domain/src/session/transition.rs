//! Processes one event: how it changes the session's life and batches, and the context that it asks for.

use super::{
    ActivityContent, Batch, BatchState, CapturePolicy, CloseReason, ContextAsk, Effect, Growth, NewActivity,
    NewPrompt, Response, Seq, Session, SessionStatus,
};
use crate::event::{
    Audience, Capture, EventName, HookEvent, HookEventKind, HostFacts, Notification, PromptText,
    StartContext, StartSource,
};
use crate::ids::PromptId;
use crate::material::BatchSource;
use crate::plan::{PlanReference, PlanState, reference};

/// The processing of one event.
pub(super) struct Transition<'a> {
    pub(super) session: Session,
    pub(super) effects: Vec<Effect>,
    pub(super) capture: Capture,
    pub(super) policy: &'a CapturePolicy,
    /// Whether the event came after the end of the life it belongs to. It must not begin another life.
    pub(super) belongs_to_ended_life: bool,
}

/// The position of a late prompt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LatePosition {
    /// No later prompt exists, and the late one was not answered.
    Last,
    Earlier,
}

impl Transition<'_> {
    /// Stored before a life begins, so that its beginning can name the previous session. Counts from an earlier moment
    /// are ignored.
    pub(super) fn host_facts(&mut self, event: &HookEvent) {
        let Some(mut facts) = event.host.clone() else { return };
        if self.is_late() {
            (facts.message_count, facts.compacted_count) = (None, None);
        }
        facts.continues.take_if(|before| *before == event.session);
        if *facts != HostFacts::default() {
            self.effects.push(Effect::KeepHostFacts(facts));
        }
    }

    pub(super) fn take(&mut self, event: &HookEvent) -> Option<ContextAsk> {
        match &event.what {
            HookEventKind::SessionStart { source, audience } => {
                self.begin(*source);
                if *source == StartSource::Clear && self.is_late() && self.session.life == 1 {
                    // A later event began the life before the source was known.
                    self.effects.push(Effect::FollowCleared);
                }
                if *source != StartSource::Compact && !self.is_late() {
                    // The process is new, so the previous one's calls have ended.
                    self.abandon_calls(|_| true);
                }
                // A subagent that compacted its own conversation is not the session.
                return event.subagent.is_none().then_some(ContextAsk::Start(*source, *audience));
            }
            HookEventKind::Prompt { text, source, start } => {
                self.activate();
                // Only the first prompt repeats a dropped start.
                let start = if self.session.was_asked() { StartContext::Shown } else { *start };
                return self.open(event, text, *source, start);
            }
            HookEventKind::ToolStart(call) => {
                self.activate();
                self.call_begins(event, call);
                return self.in_view(event, call);
            }
            HookEventKind::Tool(call) => {
                self.activate();
                let failure = self.failure_in_view(event, call);
                self.tool(event, call);
                return failure;
            }
            HookEventKind::ToolBatch(calls) => {
                self.activate();
                self.settled_calls(event, calls);
            }
            HookEventKind::SubagentStart => return self.subagent_begins(event),
            HookEventKind::SubagentStop { message } => self.subagent_ends(event, message.as_deref()),
            HookEventKind::Stop { message } => {
                self.activate();
                self.abandon_calls(|call| call.subagent.is_none());
                self.stop(event, message.as_deref());
            }
            HookEventKind::StopFailure { error, detail } => {
                self.activate();
                self.abandon_calls(|call| call.subagent.is_none());
                self.stop_failure(event, error, detail);
            }
            HookEventKind::SessionEnd { reason } => self.session_end(reason),
            HookEventKind::SessionSuspend { reason } => self.suspend(reason),
            HookEventKind::SessionResume => {
                self.begin(StartSource::Resume);
                return Some(ContextAsk::Start(StartSource::Resume, Audience::Nobody));
            }
            HookEventKind::MessageReceived { content, detail } => {
                let is_open = self.note(event, "MessageReceived", detail);
                let (content, origin) = (content.clone().filter(|_| is_open), event.origin.clone());
                self.effects.push(Effect::PublishMessage { content, origin });
            }
            HookEventKind::Notification { notification, detail } => {
                let is_open = self.note(event, EventName::Notification.as_str(), detail);
                let kind = notification.kind.clone();
                let hidden = Notification { kind, ..Notification::default() };
                let published = if is_open { notification.clone() } else { hidden };
                self.effects.push(Effect::PublishNotification(published));
            }
            HookEventKind::PreCompact { trigger } => self.compaction_begins(event, trigger),
            HookEventKind::PostCompact { trigger, summary } => {
                self.compaction_ends(event, trigger, summary.as_deref());
            }
            HookEventKind::Internal { .. } | HookEventKind::Draft | HookEventKind::SessionDelete { .. } => {}
            HookEventKind::Other { name, detail } => {
                self.note(event, name, detail);
            }
        }
        None
    }

    /// Starts or continues the session. Other live sessions are not affected.
    pub(super) fn begin(&mut self, source: StartSource) {
        match self.session.status {
            _ if self.session.life == 0 => self.begin_life(source),
            SessionStatus::Completed if self.belongs_to_ended_life => {}
            SessionStatus::Completed => self.begin_life(source),
            SessionStatus::Suspended => self.resume(),
            SessionStatus::Initialized | SessionStatus::Active => {}
        }
    }

    fn begin_life(&mut self, source: StartSource) {
        self.session.life += 1;
        self.session.status = SessionStatus::Initialized;
        self.session.begun = self.capture.at;
        self.effects.push(Effect::BeginLife { life: self.session.life, source });
    }

    /// Resumes the session after the daemon was away. The agent may not have noticed.
    fn resume(&mut self) {
        let since = self.session.suspended.take().unwrap_or(self.session.last_event);
        let status = match self.session.batches.is_empty() {
            true => SessionStatus::Initialized,
            false => SessionStatus::Active,
        };
        self.session.status = status;
        self.effects.push(Effect::Resume { status, suspended_for_ms: self.capture.at.since(since) });
    }

    /// Suspends the session when the agent's program exits. Open batches are compressed now, because the program may
    /// never return.
    fn suspend(&mut self, reason: &str) {
        if self.session.status == SessionStatus::Suspended {
            // The session is already suspended: a duplicate, or the daemon was away.
            return;
        }
        self.begin(StartSource::Resume);
        if self.session.status == SessionStatus::Completed || self.is_late() {
            return;
        }
        self.abandon_calls(|_| true);
        self.flush_open();
        self.session.status = SessionStatus::Suspended;
        self.session.suspended = Some(self.capture.at);
        let tally = self.session.tally(self.capture.at);
        self.effects.push(Effect::Suspend { reason: reason.to_owned(), tally });
    }

    fn session_end(&mut self, reason: &str) {
        let older = |batch: &Batch| self.capture.order.is_before(&batch.opened);
        if self.session.status == SessionStatus::Completed || self.session.batches.iter().any(older) {
            // The session has ended already or has continued since. A late end neither ends nor begins a life.
            return;
        }
        self.begin(StartSource::Resume);
        self.abandon_calls(|_| true);
        self.effects.extend(self.session.close_unfinished(CloseReason::SessionEnd));
        self.session.status = SessionStatus::Completed;
        self.session.ended = Some(self.capture.order);
        let tally = self.session.tally(self.capture.at);
        self.effects.extend([Effect::Complete { reason: reason.to_owned(), tally }, Effect::Summarize]);
    }

    /// Whether a later event was already processed.
    pub(super) fn is_late(&self) -> bool {
        self.session.latest.is_some_and(|latest| self.capture.order.is_before(&latest))
    }

    fn set_status(&mut self, status: SessionStatus) {
        self.session.status = status;
        self.effects.push(Effect::SetStatus(status));
    }

    /// Activates the session, even if events before this one were missed.
    pub(super) fn activate(&mut self) {
        self.begin(StartSource::Resume);
        if !matches!(self.session.status, SessionStatus::Active | SessionStatus::Completed) {
            self.set_status(SessionStatus::Active);
        }
    }

    fn open(
        &mut self,
        event: &HookEvent,
        text: &PromptText,
        source: BatchSource,
        start: StartContext,
    ) -> Option<ContextAsk> {
        // A prompt with the running turn's id was queued while the agent worked.
        let queued = event.prompt.is_some()
            && self.session.running().is_some_and(|running| {
                running.prompt == event.prompt && running.source != BatchSource::Recovery
            });
        let queued = queued && !self.is_late();
        let state = if queued { BatchState::Waiting } else { BatchState::Open };
        let source = match text {
            PromptText::WhollyPrivate => BatchSource::Private,
            PromptText::Text(_) if queued && !source.is_made_by_machine() => BatchSource::Queued,
            PromptText::Text(_) => source,
        };
        let text = match text {
            PromptText::Text(text) => Some(text.clone()),
            PromptText::WhollyPrivate => None,
        };
        let plan = text.as_deref().filter(|_| matches!(source, BatchSource::User | BatchSource::Queued));
        let plan = plan.and_then(|text| reference(text, &self.policy.plan_folders, self.policy.plan_prompts));
        let source = match (&plan, source) {
            (Some(_), BatchSource::User) => BatchSource::Plan,
            (_, source) => source,
        };
        let prompt_id = if queued { None } else { event.prompt.clone() };
        let asked_in = event.prompt.clone();
        let prompt = NewPrompt {
            event: self.capture.event,
            text: text.clone(),
            asked_in,
            origin: event.origin.clone(),
        };
        self.session.prompts += 1;
        let adopts = self.session.is_adopted_past_machines(source, &self.capture.order);
        if adopts && !queued {
            self.abandon_calls(|call| call.subagent.is_none());
        }
        if adopts || self.is_late() {
            let (seq, place) = self.insert_late(source, event.prompt.clone(), prompt);
            if source == BatchSource::Private {
                self.effects.push(Effect::HideCompactions);
            }
            self.carry_out(seq, plan);
            // If another prompt followed, or the life ended, nobody waits for context.
            return if place == LatePosition::Last { ask(source, start, text) } else { None };
        }
        if let Some(seq) = self.adopt_in_order(source, event.prompt.as_ref(), &prompt) {
            self.carry_out(seq, plan);
            return ask(source, start, text);
        }
        if !queued {
            // Running calls were interrupted; subagents continue in the background.
            self.abandon_calls(|call| call.subagent.is_none());
            self.leave_unfinished();
        }
        let seq = self.next_seq();
        self.push_batch(source, state, prompt_id, Some(prompt));
        self.carry_out(seq, plan);
        ask(source, start, text)
    }

    /// Handles a running turn that ended without an answer. The summary is requested now, in case of a crash.
    fn leave_unfinished(&mut self) {
        let closed = self.session.close_unfinished(CloseReason::NextPrompt);
        let summarize = (!closed.is_empty()).then_some(Effect::Summarize);
        self.effects.extend(closed.into_iter().chain(summarize));
    }

    /// Links the batch to the plan that its prompt refers to.
    fn carry_out(&mut self, seq: Seq, plan: Option<PlanReference>) {
        let Some(plan) = plan else { return };
        if let PlanReference::Text(text) = &plan {
            let (text, state) = (Some(text.clone()), PlanState::Approved);
            let (seq, prompt) = (Some(seq), None);
            self.effects.push(Effect::KeepPlan { seq, prompt, path: None, text, state });
        } else {
            self.effects.push(Effect::CarryOut { seq, plan });
        }
    }

    pub(super) fn next_seq(&self) -> Seq {
        Seq(self.session.batches.iter().map(|batch| batch.seq.0).max().unwrap_or(0) + 1)
    }

    pub(super) fn push_batch(
        &mut self,
        source: BatchSource,
        state: BatchState,
        prompt_id: Option<PromptId>,
        prompt: Option<NewPrompt>,
    ) -> usize {
        let (seq, opened) = (self.next_seq(), self.capture.order);
        let number = self.session.prompts;
        let asked_in = prompt.as_ref().and_then(|prompt| prompt.asked_in.clone());
        self.effects.push(Effect::OpenBatch {
            seq,
            number,
            source,
            state,
            prompt_id: prompt_id.clone(),
            prompt,
        });
        let (response, growth) = (Response::Missing, Growth::default());
        self.session.batches.push(Batch {
            seq,
            number,
            opened,
            prompt: prompt_id,
            asked_in,
            source,
            state,
            response,
            growth,
        });
        self.session.batches.len() - 1
    }

    /// Returns the batch of an event: that of its prompt id, even if closed; else a queued one that runs as this turn;
    /// else the one that ran at the time; else the first. `None` if the session has no batch.
    pub(super) fn batch_of(&mut self, prompt: Option<&PromptId>) -> Option<usize> {
        if let Some(id) = prompt {
            self.record_turn(id);
            let batches = &self.session.batches;
            // Takes the newest batch with that id, because a compaction or a resumed turn may have reopened it.
            if let Some(known) = batches.iter().rposition(|batch| batch.prompt.as_ref() == Some(id)) {
                return Some(known);
            }
            // Events from before a prompt was typed do not belong to its turn.
            let may_run = |batch: &Batch| {
                batch.state == BatchState::Waiting && !self.capture.order.is_before(&batch.opened)
            };
            if let Some(waiting) = batches.iter().position(may_run) {
                return Some(self.run_waiting(waiting, id));
            }
        }
        let order = self.capture.order;
        let batches = &self.session.batches;
        // A queued prompt ran only if its turn came.
        let ran = |batch: &Batch| self.session.ran_since(batch).is_some_and(|since| !order.is_before(&since));
        let running = batches
            .iter()
            .rposition(|batch| batch.state == BatchState::Open && !order.is_before(&batch.opened));
        running.or_else(|| batches.iter().rposition(ran)).or_else(|| (!batches.is_empty()).then_some(0))
    }

    /// Records a turn. If no prompt has its id, a queued one may have run as this turn.
    fn record_turn(&mut self, turn: &PromptId) {
        let order = self.capture.order;
        let is_own = |batch: &Batch| !batch.waited() && batch.asked_in.as_ref() == Some(turn);
        if self.session.batches.iter().any(is_own) {
            return;
        }
        let is_new = self.session.record_first_seen(turn, order);
        // A prompt that was assumed to have run later may have run as this turn.
        let not_yet_ran = |batch: &Batch| {
            self.session.ran_since(batch).is_none_or(|since| order.is_before(&since))
                && !order.is_before(&batch.opened)
        };
        let waited = self.session.batches.iter().position(not_yet_ran);
        if let Some(place) = waited.filter(|_| is_new && self.is_late()) {
            self.rearrange(place, None);
        }
    }

    /// The interrupted turn has ended. The queued prompt becomes the turn with this `id`.
    fn run_waiting(&mut self, waiting: usize, id: &PromptId) -> usize {
        if let Some(open) = self.session.batches.iter().rposition(|batch| batch.state == BatchState::Open) {
            self.close(open, CloseReason::NextPrompt);
            self.effects.push(Effect::Summarize);
        }
        if let Some(batch) = self.session.batches.get_mut(waiting) {
            batch.state = BatchState::Open;
            batch.prompt = Some(id.clone());
            self.effects.push(Effect::RunBatch { seq: batch.seq, prompt_id: id.clone() });
        }
        waiting
    }

    /// Handles a turn that ended without an answer. The program's error text is not the model's answer.
    fn stop_failure(&mut self, event: &HookEvent, error: &str, detail: &str) {
        self.note(event, &format!("StopFailure {error}"), detail);
        let Some(at) = self.batch_of(event.prompt.as_ref()) else { return };
        let Some(batch) = self.session.batches.get(at) else { return };
        if batch.state == BatchState::Closed || self.capture.order.is_before(&batch.opened) {
            return;
        }
        self.close(at, CloseReason::StopFailure);
        self.effects.push(Effect::Summarize);
    }

    /// Stores an event without a rule. It never opens a batch. Returns `false` if the event is private, so that only
    /// the fact is stored.
    pub(super) fn note(&mut self, event: &HookEvent, name: &str, detail: &str) -> bool {
        self.begin(StartSource::Resume);
        let batch = self.batch_of(event.prompt.as_ref()).and_then(|at| self.session.batches.get(at));
        let is_private = batch.is_some_and(|batch| batch.is_private_in(event.prompt.as_ref()));
        let content = if is_private {
            ActivityContent::Hidden { name: name.to_owned() }
        } else {
            ActivityContent::Other { name: name.to_owned(), detail: detail.to_owned() }
        };
        let activity = NewActivity {
            event: self.capture.event,
            prompt: event.prompt.clone(),
            subagent: event.subagent.clone(),
            began: None,
            refused_by: None,
            content,
        };
        self.effects.push(Effect::AddActivity { seq: batch.map(|batch| batch.seq), activity });
        !is_private
    }
}

/// Returns the request for context. Only a person's prompts get context, and the text of a private one is not used.
fn ask(source: BatchSource, start: StartContext, text: Option<String>) -> Option<ContextAsk> {
    let text = text.filter(|_| source.is_asked_openly());
    match start {
        StartContext::Dropped if source.is_of_person() => Some(ContextAsk::First(text)),
        StartContext::Dropped | StartContext::Shown => text.map(ContextAsk::Prompt),
    }
}
