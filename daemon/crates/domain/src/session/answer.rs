//! Handles the agent's answer at the end of a turn, and assigns it to its batch.

use super::transition::Transition;
use super::{Batch, BatchSource, BatchState, CloseReason, Effect, Response, Seq, Session, TurnResponse};
use crate::event::HookEvent;

impl Transition<'_> {
    /// Handles the end of a turn. If a turn has two answers, the later one counts, whatever their order of arrival.
    /// The other is kept as an activity.
    pub(super) fn stop(&mut self, event: &HookEvent, message: Option<&str>) {
        let text = message.filter(|text| !text.trim().is_empty());
        let at = self.batch_of(event.prompt.as_ref());
        let target = at.and_then(|at| self.session.batches.get(at));
        let Some((at, target)) = at.zip(target) else {
            return self.keep_as_activity(event, message.unwrap_or_default());
        };
        if target.is_of_other_turn(event.prompt.as_ref()) {
            return self.stop_of_unknown_turn(event, at, text);
        }
        if self.is_late() && !target.is_private_in(event.prompt.as_ref()) {
            return self.late_stop(event, at, text);
        }
        // Prompts that were queued during the turn share its answer.
        let ended: Vec<usize> = std::iter::once(at).chain(self.waiting_after(at)).collect();
        self.answer_all(event, &ended, text);
        // Requested now, so that a crash after this point still leaves a summary.
        self.effects.push(Effect::Summarize);
    }

    /// Handles a late answer, with the same result as if it had arrived in time.
    fn late_stop(&mut self, event: &HookEvent, at: usize, text: Option<&str>) {
        match text {
            Some(text) => self.keep_as_activity(event, text),
            None => self.answer_all(event, &[at], None),
        }
        self.rearrange(at, None);
        self.separate_early();
    }

    /// Handles an answer whose prompt has not arrived or never will, as in an agent's shell mode. Only one turn runs
    /// at a time, so the known turn has ended too.
    fn stop_of_unknown_turn(&mut self, event: &HookEvent, at: usize, text: Option<&str>) {
        if let Some(batch) = self.session.batches.get(at)
            && batch.state == BatchState::Open
            && !self.capture.order.is_before(&batch.opened)
        {
            self.close(at, CloseReason::NextPrompt);
        }
        if let Some(text) = text {
            self.keep_as_activity(event, text);
        }
        self.effects.push(Effect::Summarize);
        self.separate_early();
    }

    /// Returns the batches whose prompts were still queued when the turn of the batch at `at` ended.
    fn waiting_after(&self, at: usize) -> impl Iterator<Item = usize> + use<> {
        let later = self.session.batches.iter().enumerate().skip(at + 1);
        let came = later.take_while(|(_, batch)| !self.capture.order.is_before(&batch.opened));
        let waited = came.take_while(|(_, batch)| batch.waited() && batch.prompt.is_none());
        waited.map(|(place, _)| place).collect::<Vec<_>>().into_iter()
    }

    fn answer_all(&mut self, event: &HookEvent, ended: &[usize], text: Option<&str>) {
        let answer =
            TurnResponse { event: self.capture.event, at: self.capture.order, prompt: event.prompt.clone() };
        for at in ended {
            let Some(batch) = self.session.batches.get_mut(*at) else { continue };
            let (seq, was_closed) = (batch.seq, batch.state == BatchState::Closed);
            let kept = text.filter(|_| !batch.is_private_in(event.prompt.as_ref()));
            if let Some(text) = kept {
                // A turn that continued has a later, final answer; an interrupted one gets its first.
                let before = std::mem::replace(&mut batch.response, Response::Known(answer.clone()));
                let (text, prompt_id) = (text.to_owned(), event.prompt.clone());
                self.effects.push(Effect::Respond { seq, event: self.capture.event, text, prompt_id });
                match before {
                    Response::Known(known) if !known.is_same_turn_as(&answer) => {
                        self.session.remember_unassigned(known)
                    }
                    _ => {}
                }
            }
            if !was_closed {
                self.close(*at, CloseReason::Stop);
            } else if kept.is_some() {
                self.effects.push(Effect::CompressBatch { seq });
                self.compress_followers(*at);
            }
        }
    }

    /// Stores an answer as an activity, because its prompt may still arrive.
    fn keep_as_activity(&mut self, event: &HookEvent, text: &str) {
        let answer =
            TurnResponse { event: self.capture.event, at: self.capture.order, prompt: event.prompt.clone() };
        let same_turn = self.session.spare.iter().position(|known| known.is_same_turn_as(&answer));
        if let Some(known) = same_turn.and_then(|at| self.session.spare.get(at)) {
            if answer.at.is_before(&known.at) {
                return;
            }
            self.effects.push(Effect::DropAnswer { event: known.event });
        }
        if let Some(at) = same_turn {
            self.session.spare.remove(at);
        }
        if self.note(event, "Stop", text) && !text.is_empty() {
            self.session.remember_unassigned(answer);
        }
    }

    /// Closes the batch at `at` and requests its compression.
    pub(super) fn close(&mut self, at: usize, why: CloseReason) {
        let Some(batch) = self.session.batches.get_mut(at) else { return };
        batch.state = BatchState::Closed;
        let seq = batch.seq;
        self.effects.push(Effect::CloseBatch { seq, why });
        self.compress(at);
    }

    /// Requests compression of the batch at `at`, unless it is private.
    pub(super) fn compress(&mut self, at: usize) {
        let batch = self.session.batches.get(at);
        if let Some(batch) = batch.filter(|batch| batch.source != BatchSource::Private) {
            self.effects.push(Effect::CompressBatch { seq: batch.seq });
        }
    }

    /// Requests recompression of the batches after `at` up to the next answer, because a batch's context includes the
    /// answer before it.
    pub(super) fn compress_followers(&mut self, at: usize) {
        for place in at + 1..self.session.batches.len() {
            let Some(batch) = self.session.batches.get(place) else { return };
            let has_answer = batch.response != Response::Missing;
            if batch.state == BatchState::Closed {
                self.compress(place);
            }
            if has_answer {
                return;
            }
        }
    }
}

impl TurnResponse {
    /// Whether the agent reports both answers for the same turn.
    pub(super) fn is_same_turn_as(&self, other: &Self) -> bool {
        self.prompt.is_some() && self.prompt == other.prompt
    }
}

impl Session {
    pub(super) fn remember_unassigned(&mut self, answer: TurnResponse) {
        if !self.spare.iter().any(|known| known.event == answer.event) {
            self.spare.push(answer);
        }
    }

    /// Returns the batch that has this answer.
    pub(super) fn batch_with(&self, answer: &TurnResponse) -> Option<Seq> {
        let holds =
            |batch: &&Batch| matches!(&batch.response, Response::Known(known) if known.event == answer.event);
        self.batches.iter().find(holds).map(|batch| batch.seq)
    }
}
