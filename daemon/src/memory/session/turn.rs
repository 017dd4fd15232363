//! One event on its way through the rules: what it means for the session's life, its batches and its answer.

use super::late::Place;
use super::{
    ActivityContent, Ask, Batch, BatchState, CapturePolicy, CloseReason, Effect, NewActivity, NewPrompt,
    Response, Seq, Session, SessionStatus,
};
use crate::memory::event::{Capture, LifecycleEvent, PromptText, StartSource, ToolCall, What};
use crate::memory::ids::PromptId;
use crate::memory::material::BatchSource;

/// One event on its way through the rules.
pub(super) struct Turn<'a> {
    pub(super) session: Session,
    pub(super) effects: Vec<Effect>,
    pub(super) capture: Capture,
    pub(super) policy: &'a CapturePolicy,
    /// It comes after the end of the life it belongs to, and must not begin another.
    pub(super) belongs_to_ended_life: bool,
}

impl Turn<'_> {
    pub(super) fn take(&mut self, event: &LifecycleEvent) -> Option<Ask> {
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

    pub(super) fn next_seq(&self) -> Seq {
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
