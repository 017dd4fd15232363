//! Handles calls from before the first known prompt: recall started in the middle of a turn, or the first prompt
//! arrived late.
//!
//! Such calls belong to the first prompt that a person typed; a machine-made prompt concerns other work. They form a
//! separate recovery batch in four cases: there is no such prompt yet; they were answered before it came; it is
//! private, so that they are not hidden with it; or they follow a machine's prompt of an agent that does not name its
//! turns.

use super::arrange::periods;
use super::transition::Transition;
use super::{Batch, BatchState, Effect, Growth, NewPrompt, Response, Seq, Session};
use crate::event::HookEvent;
use crate::ids::PromptId;
use crate::material::BatchSource;
use crate::order::Order;

/// The first call of a turn, or of those without a turn, from before the first prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyCall {
    pub turn: Option<PromptId>,
    pub at: Order,
}

impl Transition<'_> {
    /// Turns the recovery batch into the batch of the session's first prompt, which arrives in order. Returns `None`
    /// if the batch stays separate or does not exist.
    pub(super) fn adopt_in_order(
        &mut self,
        source: BatchSource,
        asked_in: Option<&PromptId>,
        prompt: &NewPrompt,
    ) -> Option<Seq> {
        let [recovery] = self.session.batches.as_slice() else { return None };
        if !recovery.may_be_adopted(source, &self.capture.order) {
            return None;
        }
        let was_closed = recovery.state == BatchState::Closed;
        self.abandon_calls(|call| call.subagent.is_none());
        let seq = self.adopt_recovery(0, source, asked_in.cloned(), prompt.clone());
        if was_closed {
            self.effects.push(Effect::SetState { seq, state: BatchState::Open });
        }
        if let Some(batch) = self.session.batches.first_mut() {
            batch.state = BatchState::Open;
        }
        // Nothing moves, but these calls may have made it a plan's batch.
        let (periods, among) = (periods(&self.session), vec![seq]);
        self.effects.push(Effect::Rearrange { periods, among, hidden: Vec::new() });
        Some(seq)
    }

    /// Records a call from before the first prompt.
    pub(super) fn remember_early(&mut self, event: &HookEvent, at: usize) {
        let order = self.capture.order;
        let batches = &self.session.batches;
        let Some(first) = batches.first().filter(|_| at == self.session.place_of_early()) else { return };
        if first.source != BatchSource::Recovery && !order.is_before(&first.opened) {
            return;
        }
        let known = self.session.early.iter_mut().find(|early| early.turn == event.prompt);
        match known {
            Some(known) if order.is_before(&known.at) => known.at = order,
            Some(_) => {}
            None => self.session.early.push(EarlyCall { turn: event.prompt.clone(), at: order }),
        }
    }

    /// Separates the calls before the first prompt from its batch if required.
    pub(super) fn separate_early(&mut self) {
        if let Some(early) = self.session.first_to_separate().cloned() {
            self.separate(early);
        }
    }

    /// Separates them before a private prompt becomes the first of a person, so that earlier work is not hidden with
    /// it.
    pub(super) fn separate_from_private(&mut self, turn: Option<&PromptId>) {
        let order = self.capture.order;
        if self.session.batch_of_early().is_none_or(|holder| !order.is_before(&holder.opened)) {
            return;
        }
        let early = self.session.first_call_of_other_turn(turn).filter(|early| early.at.is_before(&order));
        if let Some(early) = early.cloned() {
            self.separate(early);
        }
    }

    fn separate(&mut self, early: EarlyCall) {
        let (seq, source, state) = (self.next_seq(), BatchSource::Recovery, BatchState::Open);
        let turn = early.turn;
        self.effects.push(Effect::OpenBatch {
            seq,
            number: 0,
            source,
            state,
            prompt_id: turn.clone(),
            prompt: None,
        });
        let (response, growth) = (Response::Missing, Growth::default());
        let recovery = Batch {
            seq,
            number: 0,
            opened: early.at,
            prompt: turn,
            asked_in: None,
            source,
            state,
            response,
            growth,
        };
        self.session.batches.insert(0, recovery);
        self.rearrange(0, Some(0));
    }

    /// Finds the recovery batch's answer, which may have arrived before its first call. An answer that it already has
    /// may belong to a later turn than that call.
    pub(super) fn find_early_answer(&mut self) {
        let waits = |first: &Batch| match &first.response {
            Response::Missing => self.session.spare.iter().any(|answer| first.opened.is_before(&answer.at)),
            Response::Known(answer) => first.is_of_other_turn(answer.prompt.as_ref()),
            Response::Recovered => false,
        };
        let is_recovery = |first: &&Batch| first.source == BatchSource::Recovery;
        if self.session.batches.first().filter(is_recovery).is_some_and(waits) {
            self.rearrange(0, Some(0));
        }
    }

    /// Gives the recovery batch's calls to the first prompt that a person typed, if nothing separates them any more:
    /// the answer that did belongs to a machine's prompt, which arrived late.
    fn merge_recovery(&mut self) {
        let is_asked =
            |batch: &Batch| batch.source != BatchSource::Recovery && !batch.source.is_made_by_machine();
        let batches = &self.session.batches;
        let heir = batches.iter().enumerate().find(|(_, batch)| is_asked(batch));
        let adopts = |(place, heir): &(usize, &Batch)| self.session.adopts(*place, heir.source, &heir.opened);
        let Some((place, heir)) = heir.filter(adopts) else { return };
        let to = heir.seq;
        let recovery = self.session.batches.remove(0);
        let from = recovery.seq;
        if let Response::Known(answer) = recovery.response {
            self.effects.push(Effect::SetAside { seq: from });
            self.session.remember_unassigned(answer);
        }
        if let Some(heir) = self.session.batches.get_mut(place - 1) {
            heir.growth.join(recovery.growth);
        }
        self.effects.push(Effect::MergeRecovery { from, to });
        self.rearrange(0, Some(place - 1));
    }

    /// Reassigns the early calls after a prompt arrived late.
    pub(super) fn reassign_early(&mut self) {
        self.merge_recovery();
        let batches = &self.session.batches;
        let Some(first) = batches.first() else { return };
        let (is_recovery, opened) = (first.source == BatchSource::Recovery, first.opened);
        let holder = self.session.place_of_early();
        let others = batches.iter().enumerate().filter(|(place, _)| *place != holder);
        let has_batch =
            |turn: &PromptId| others.clone().any(|(_, batch)| batch.prompt.as_ref() == Some(turn));
        self.session.early.retain(|early| {
            (is_recovery || early.at.is_before(&opened)) && !early.turn.as_ref().is_some_and(has_batch)
        });
        self.separate_early();
    }
}

impl Session {
    /// Whether a prompt of this source takes over the recovery batch although machine-made prompts came in between.
    pub(super) fn is_adopted_past_machines(&self, source: BatchSource, at: &Order) -> bool {
        self.batches.len() > 1 && self.adopts(self.batches.len(), source, at)
    }

    /// Whether a prompt of this source before the batch at `place` takes over the recovery batch.
    pub(super) fn adopts(&self, place: usize, source: BatchSource, at: &Order) -> bool {
        match self.batches.get(..place) {
            Some([recovery, between @ ..]) => {
                let past_machines = || {
                    between.iter().all(|batch| batch.source.is_made_by_machine())
                        && self.early_turns_are_named()
                };
                recovery.may_be_adopted(source, at) && (between.is_empty() || past_machines())
            }
            _ => false,
        }
    }
}

impl Session {
    /// If turns are unnamed, an answer to the machine's prompt may at first be mistaken for that of the calls.
    fn early_turns_are_named(&self) -> bool {
        self.early.iter().all(|early| early.turn.is_some())
    }
}

impl Batch {
    /// Whether the recovery batch may become that of a prompt of this source, typed at `at`.
    pub(super) fn may_be_adopted(&self, source: BatchSource, at: &Order) -> bool {
        let is_answered = matches!(&self.response, Response::Known(answer) if answer.at.is_before(at));
        self.source == BatchSource::Recovery && source.is_asked_openly() && !is_answered
    }
}

impl Session {
    /// Returns the batch of calls from before the first prompt: the recovery batch or else the first prompt that a
    /// person typed.
    pub(super) fn place_of_early(&self) -> usize {
        let asked = self.batches.iter().position(|batch| !batch.source.is_made_by_machine());
        asked.unwrap_or_default()
    }

    pub fn batch_of_early(&self) -> Option<&Batch> {
        self.batches.get(self.place_of_early())
    }

    /// Returns the first call that must not be in the first prompt's batch.
    fn first_to_separate(&self) -> Option<&EarlyCall> {
        let holder = self.batch_of_early()?;
        let first = self.batches.first()?;
        let early = self.first_call_of_other_turn(holder.prompt.as_ref())?;
        let is_answered = self.spare.iter().any(|answer| {
            let is_its = answer.prompt.is_none() || early.turn.is_none() || answer.prompt == early.turn;
            let is_anothers =
                || self.batches.iter().any(|batch| answer.prompt.is_some() && batch.prompt == answer.prompt);
            // An answer without a turn belongs to what ran last.
            let until = if answer.prompt.is_none() { first.opened } else { holder.opened };
            early.at.is_before(&answer.at) && answer.at.is_before(&until) && is_its && !is_anothers()
        });
        let is_past_machines = first.source.is_made_by_machine() && !self.early_turns_are_named();
        (!holder.source.is_asked_openly() || is_past_machines || is_answered).then_some(early)
    }

    /// Returns the first call in the first prompt's batch that belongs to a different turn.
    fn first_call_of_other_turn(&self, turn: Option<&PromptId>) -> Option<&EarlyCall> {
        self.batch_of_early().filter(|holder| holder.source != BatchSource::Recovery)?;
        let strange = self.early.iter().filter(|early| early.turn.is_none() || early.turn.as_ref() != turn);
        strange.reduce(|one, other| if other.at.is_before(&one.at) { other } else { one })
    }
}
