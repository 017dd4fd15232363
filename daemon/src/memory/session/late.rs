//! A prompt that arrives after what came after it: it waited in the spool, or was overtaken.

use super::turn::Turn;
use super::{Batch, BatchState, CloseReason, Content, Effect, Load, NewPrompt, Response, Seq, SessionStatus};
use crate::memory::ids::{PromptId, Timestamp};
use crate::memory::material::BatchSource;
use crate::memory::order::Order;

/// Where a late prompt has found its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing was asked since.
    Last,
    Earlier,
}

impl Turn<'_> {
    /// Puts a prompt that arrived late into its place: what was done and answered from then until the next prompt
    /// moves into its batch, and later prompts move up by one.
    pub(super) fn insert_late(
        &mut self,
        source: BatchSource,
        prompt_id: Option<PromptId>,
        prompt: NewPrompt,
    ) -> (Seq, Place) {
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
                Response::Missing | Response::Recovered => false,
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
        let fresh = Load::default();
        let batch = Batch { seq, number, opened: order, prompt: prompt_id, source, state, response, fresh };
        self.session.batches.insert(place, batch);
        (seq, if is_last { Place::Last } else { Place::Earlier })
    }

    /// Gives the recovery batch at `at` the prompt that it lacked. What later prompts own in it they take over when
    /// they arrive.
    fn adopt_recovery(
        &mut self,
        at: usize,
        source: BatchSource,
        prompt_id: Option<PromptId>,
        prompt: NewPrompt,
    ) -> (Seq, Place) {
        let before = at.checked_sub(1).and_then(|at| self.session.batches.get(at));
        let number = before.map_or(0, |before| before.number) + 1;
        for batch in self.session.batches.iter_mut().skip(at + 1) {
            batch.number += 1;
            self.effects.push(Effect::Renumber { seq: batch.seq, number: batch.number });
        }
        let is_last = at + 1 == self.session.batches.len();
        let seq = self.next_seq();
        let Some(batch) = self.session.batches.get_mut(at) else { return (seq, Place::Earlier) };
        (batch.number, batch.source, batch.opened) = (number, source, self.capture.order);
        batch.prompt = prompt_id.clone();
        let (seq, private) = (batch.seq, source == BatchSource::Private);
        let content = if private { Content::Hidden } else { Content::Kept };
        self.effects.push(Effect::AdoptRecovery { seq, number, source, prompt_id, prompt, content });
        if batch.state == BatchState::Closed && !private {
            self.effects.push(Effect::CompressBatch { seq });
        }
        (seq, if is_last && batch.state == BatchState::Open { Place::Last } else { Place::Earlier })
    }
}
