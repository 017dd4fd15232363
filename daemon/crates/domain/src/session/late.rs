//! Inserts prompts that arrive after later events, because they waited in the spool or were overtaken.

use super::arrange::{Arranged, BatchProgress, arrange, periods};
use super::transition::{LatePosition, Transition};
use super::{
    Batch, BatchState, CloseReason, Effect, Growth, NewPrompt, Order, Response, Seq, Session, SessionStatus,
    TurnResponse, TurnSeen,
};
use crate::ids::PromptId;
use crate::material::BatchSource;

impl Transition<'_> {
    /// Inserts a late prompt. Activities and answers after it are reassigned, and the numbers of later prompts
    /// increase by one.
    pub(super) fn insert_late(
        &mut self,
        source: BatchSource,
        asked_in: Option<PromptId>,
        prompt: NewPrompt,
    ) -> (Seq, LatePosition) {
        let order = self.capture.order;
        if source == BatchSource::Private {
            self.separate_from_private(asked_in.as_ref());
        }
        let batches = &self.session.batches;
        let place = batches.iter().take_while(|batch| !order.is_before(&batch.opened)).count();
        let adopted = place.checked_sub(1).filter(|_| self.session.adopts(place, source, &order));
        let (place, seq) = match (adopted, batches.get(place)) {
            (Some(to), _) => {
                let recovery = self.session.batches.remove(0);
                self.session.batches.insert(to, recovery);
                (to, self.adopt_recovery(to, source, asked_in, prompt))
            }
            (None, Some(next)) if next.source == BatchSource::Recovery => {
                (place, self.adopt_recovery(place, source, asked_in, prompt))
            }
            (None, _) => (place, self.insert(place, source, asked_in, prompt)),
        };
        self.renumber();
        self.rearrange(place, Some(place));
        self.reassign_early();
        let last = self.session.batches.last();
        let is_last_and_runs = last.is_some_and(|last| last.seq == seq && last.state != BatchState::Closed);
        (seq, if is_last_and_runs { LatePosition::Last } else { LatePosition::Earlier })
    }

    fn insert(
        &mut self,
        place: usize,
        source: BatchSource,
        asked_in: Option<PromptId>,
        prompt: NewPrompt,
    ) -> Seq {
        let seq = self.next_seq();
        let number = self.session.batches.get(..place).unwrap_or_default().iter();
        let number = number.filter(|batch| batch.source != BatchSource::Recovery).count() as u32 + 1;
        let (opened, state) = (self.capture.order, BatchState::Open);
        let (response, growth) = (Response::Missing, Growth::default());
        let turn = asked_in.clone();
        self.effects.push(Effect::OpenBatch {
            seq,
            number,
            source,
            state,
            prompt_id: turn.clone(),
            prompt: Some(prompt),
        });
        let batch = Batch { seq, number, opened, prompt: turn, asked_in, source, state, response, growth };
        self.session.batches.insert(place, batch);
        seq
    }

    /// Gives the recovery batch at `at` its missing prompt.
    pub(super) fn adopt_recovery(
        &mut self,
        at: usize,
        source: BatchSource,
        asked_in: Option<PromptId>,
        prompt: NewPrompt,
    ) -> Seq {
        let seq = self.next_seq();
        let Some(batch) = self.session.batches.get_mut(at) else { return seq };
        // The turn assumed so far becomes a turn seen without a prompt.
        let seq = batch.seq;
        batch.source = source;
        batch.opened = self.capture.order;
        (batch.prompt, batch.asked_in) = (asked_in.clone(), asked_in.clone());
        // Later prompts are renumbered.
        let number = batch.number + 1;
        batch.number = number;
        self.effects.push(Effect::AdoptRecovery { seq, number, source, prompt_id: asked_in, prompt });
        seq
    }

    fn renumber(&mut self) {
        let mut number = 0;
        for batch in &mut self.session.batches {
            number += u32::from(batch.source != BatchSource::Recovery);
            if batch.number != number {
                batch.number = number;
                self.effects.push(Effect::Renumber { seq: batch.seq, number });
            }
        }
    }

    /// Recomputes the assignment of the batches from `place` on after a late arrival, possibly the prompt of the batch
    /// at `new`.
    pub(super) fn rearrange(&mut self, place: usize, new: Option<usize>) {
        let arranged = arrange(&self.session);
        let moved = self.set_turns(&arranged);
        self.set_aside(&arranged);
        // An answer alone moves no activities.
        if new.is_some() || !moved.is_empty() {
            self.move_activities(moved.iter().copied().chain([place]).min().unwrap_or(place));
        }
        let answered = self.take_answers(&arranged);
        let changed: Vec<usize> = moved.into_iter().chain(new).collect();
        self.set_states(&arranged, &changed);
        for at in answered.into_iter().chain(new) {
            if self.session.batches.get(at).is_some_and(|batch| batch.state == BatchState::Closed) {
                self.compress(at);
            }
            self.compress_followers(at);
        }
        self.effects.push(Effect::Summarize);
    }

    /// Moves activities. Earlier ones do not move, so the first batch to consider is the last that ran until `place`.
    fn move_activities(&mut self, place: usize) {
        let mut before = self.session.batches.iter().take(place);
        let first = before.rposition(|batch| self.session.ran_since(batch).is_some()).unwrap_or(0);
        let among = self.session.batches.get(first..).unwrap_or_default();
        let private = among.iter().filter(|batch| batch.source == BatchSource::Private);
        let hidden = private.map(|batch| batch.seq).collect();
        let among = among.iter().map(|batch| batch.seq).collect();
        self.effects.push(Effect::Rearrange { periods: periods(&self.session), among, hidden });
    }

    /// Sets the batches' turns. Returns those that changed.
    fn set_turns(&mut self, arranged: &[Arranged]) -> Vec<usize> {
        let mut moved = Vec::new();
        for (at, (batch, to)) in self.session.batches.iter_mut().zip(arranged).enumerate() {
            let (seq, waited) = (batch.seq, batch.waited());
            if batch.prompt != to.turn {
                batch.prompt.clone_from(&to.turn);
                self.effects.push(Effect::SetTurn { seq, turn: to.turn.clone() });
                moved.push(at);
            }
            let source = match batch.source {
                BatchSource::Private | BatchSource::Recovery => batch.source,
                // A machine's prompt may wait too, but no person typed it.
                machine if machine.is_made_by_machine() => machine,
                _ if batch.waited() => BatchSource::Queued,
                BatchSource::Queued if waited => BatchSource::User,
                source => source,
            };
            if batch.source != source {
                batch.source = source;
                self.effects.push(Effect::SetSource { seq, source });
            }
        }
        moved
    }

    /// Removes answers that belong to another batch.
    fn set_aside(&mut self, arranged: &[Arranged]) {
        for (at, to) in arranged.iter().enumerate() {
            let Some(batch) = self.session.batches.get_mut(at) else { continue };
            let Response::Known(known) = batch.response.clone() else { continue };
            if to.answer.as_ref().is_some_and(|answer| answer.event == known.event) {
                continue;
            }
            batch.response = Response::Missing;
            self.effects.push(Effect::SetAside { seq: batch.seq });
            if self.session.batch_with(&known).is_some() {
                self.effects.push(Effect::DropAnswer { event: known.event });
            } else {
                self.session.remember_unassigned(known);
            }
        }
    }

    /// Assigns answers to their batches. Returns the batches that got one.
    fn take_answers(&mut self, arranged: &[Arranged]) -> Vec<usize> {
        let mut answered = Vec::new();
        for (at, to) in arranged.iter().enumerate() {
            let Some(answer) = &to.answer else { continue };
            let holder = self.session.batch_with(answer);
            let Some(batch) = self.session.batches.get_mut(at) else { continue };
            let seq = batch.seq;
            if holder == Some(seq) || matches!(&batch.response, Response::Known(known) if known == answer) {
                continue;
            }
            batch.response = Response::Known(answer.clone());
            self.effects.push(match holder {
                Some(from) => Effect::ShareAnswer { from, to: seq },
                None => Effect::TakeAnswer { seq, event: answer.event },
            });
            answered.push(at);
        }
        self.drop_answers(arranged);
        answered
    }

    /// Drops all but the last answer of each turn, and all answers of private ones.
    fn drop_answers(&mut self, arranged: &[Arranged]) {
        let held: Vec<&TurnResponse> = arranged.iter().filter_map(|to| to.answer.as_ref()).collect();
        let is_held = |spare: &TurnResponse| held.iter().any(|answer| answer.event == spare.event);
        let is_superseded = |spare: &TurnResponse| {
            arranged.iter().any(|to| to.hidden.contains(&spare.event))
                || held.iter().any(|answer| answer.is_same_turn_as(spare))
        };
        let spare = std::mem::take(&mut self.session.spare).into_iter().filter(|spare| !is_held(spare));
        let (gone, kept) = spare.partition::<Vec<_>, _>(is_superseded);
        self.session.spare = kept;
        self.effects.extend(gone.into_iter().map(|answer| Effect::DropAnswer { event: answer.event }));
    }

    /// Opens and closes batches. A closed batch stays closed unless its turn changed.
    fn set_states(&mut self, arranged: &[Arranged], changed: &[usize]) {
        let is_over = self.session.status == SessionStatus::Completed
            || self.session.ended.is_some_and(|ended| !ended.is_before(&self.capture.order));
        for (at, to) in arranged.iter().enumerate() {
            let Some(batch) = self.session.batches.get_mut(at) else { continue };
            let is_changed = changed.contains(&at);
            let (seq, state) = (batch.seq, batch.state);
            let wanted = match to.progress {
                BatchProgress::Answered => (BatchState::Closed, CloseReason::Stop),
                BatchProgress::Running if !is_over => (BatchState::Open, CloseReason::NextPrompt),
                BatchProgress::Waiting if !is_over => (BatchState::Waiting, CloseReason::NextPrompt),
                BatchProgress::Running | BatchProgress::Waiting => {
                    (BatchState::Closed, CloseReason::SessionEnd)
                }
                BatchProgress::Abandoned | BatchProgress::NotYetTyped => {
                    (BatchState::Closed, CloseReason::NextPrompt)
                }
            };
            match wanted {
                (BatchState::Closed, why) if state != BatchState::Closed => self.close(at, why),
                (BatchState::Open, _) if is_changed && state != BatchState::Open => {
                    batch.state = BatchState::Open;
                    self.effects.push(Effect::SetState { seq, state: BatchState::Open });
                }
                (BatchState::Waiting, _) if is_changed && state != BatchState::Waiting => {
                    batch.state = BatchState::Waiting;
                    self.effects.push(Effect::SetState { seq, state: BatchState::Waiting });
                }
                _ => {}
            }
        }
    }
}

impl Session {
    /// Records when a turn was first seen. Returns whether this is earlier than known before.
    pub(super) fn record_first_seen(&mut self, turn: &PromptId, at: Order) -> bool {
        match self.turns_seen.iter_mut().find(|seen| seen.turn == *turn) {
            Some(seen) if !at.is_before(&seen.at) => return false,
            Some(seen) => seen.at = at,
            None => self.turns_seen.push(TurnSeen { turn: turn.clone(), at }),
        }
        true
    }
}
