//! A prompt that arrives after what came after it: it waited in the spool, or was overtaken.

use super::arrange::{Arranged, Course, arrange, periods};
use super::transition::Transition;
use super::{
    Batch, BatchState, CloseReason, Effect, Growth, NewPrompt, Order, Response, Seq, Session, SessionStatus,
    TurnResponse, TurnSeen,
};
use crate::memory::ids::PromptId;
use crate::memory::material::BatchSource;

/// Where a late prompt has found its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LatePosition {
    /// Nothing was asked since, and it was not answered.
    Last,
    Earlier,
}

impl Transition<'_> {
    /// Puts a prompt that arrived late into its place: what was done and answered since goes where it would have gone,
    /// and later prompts move up by one.
    pub(super) fn insert_late(
        &mut self,
        source: BatchSource,
        asked_in: Option<PromptId>,
        prompt: NewPrompt,
    ) -> (Seq, LatePosition) {
        let order = self.capture.order;
        if source == BatchSource::Private {
            self.part_from_private(asked_in.as_ref());
        }
        let batches = &self.session.batches;
        let place = batches.iter().take_while(|batch| !order.is_before(&batch.opened)).count();
        let recovery = place.checked_sub(1).filter(|before| {
            *before == 0 && batches.first().is_some_and(|first| first.may_be_adopted(source, &order))
        });
        let (place, seq) = match (recovery, batches.get(place)) {
            (Some(before), _) => (before, self.adopt_recovery(before, source, asked_in, prompt)),
            (None, Some(next)) if next.source == BatchSource::Recovery => {
                (place, self.adopt_recovery(place, source, asked_in, prompt))
            }
            (None, _) => (place, self.insert(place, source, asked_in, prompt)),
        };
        self.renumber();
        self.rearrange(place, Some(place));
        let batches = self.session.batches.len();
        self.settle_early();
        let place = place + (self.session.batches.len() - batches);
        let is_last = place + 1 == self.session.batches.len();
        let runs = self.session.batches.get(place).is_some_and(|batch| batch.state != BatchState::Closed);
        (seq, if is_last && runs { LatePosition::Last } else { LatePosition::Earlier })
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

    /// Gives the recovery batch at `at` the prompt that it lacked.
    pub(super) fn adopt_recovery(
        &mut self,
        at: usize,
        source: BatchSource,
        asked_in: Option<PromptId>,
        prompt: NewPrompt,
    ) -> Seq {
        let seq = self.next_seq();
        let Some(batch) = self.session.batches.get_mut(at) else { return seq };
        // The turn that it was taken for is known as one that was heard of.
        let seq = batch.seq;
        batch.source = source;
        batch.opened = self.capture.order;
        (batch.prompt, batch.asked_in) = (asked_in.clone(), asked_in.clone());
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

    /// Decides anew what was decided of the batches from `place` on without what has just arrived, which may be the
    /// prompt of the batch at `new`.
    pub(super) fn rearrange(&mut self, place: usize, new: Option<usize>) {
        let arranged = arrange(&self.session);
        let moved = self.set_turns(&arranged);
        self.set_aside(&arranged);
        // An answer alone moves nothing.
        if new.is_some() || !moved.is_empty() {
            self.reseat(moved.iter().copied().chain([place]).min().unwrap_or(place));
        }
        let answered = self.take_answers(&arranged);
        let anew: Vec<usize> = moved.into_iter().chain(new).collect();
        self.settle(&arranged, &anew);
        for at in answered.into_iter().chain(new) {
            if self.session.batches.get(at).is_some_and(|batch| batch.state == BatchState::Closed) {
                self.compress(at);
            }
            self.compress_followers(at);
        }
        self.effects.push(Effect::Summarize);
    }

    /// Nothing is moved that was done before: the last batch that ran until `place` is the first to look at.
    fn reseat(&mut self, place: usize) {
        let mut before = self.session.batches.iter().take(place);
        let first = before.rposition(|batch| self.session.ran_since(batch).is_some()).unwrap_or(0);
        let among = self.session.batches.get(first..).unwrap_or_default();
        let private = among.iter().filter(|batch| batch.source == BatchSource::Private);
        let hidden = private.map(|batch| batch.seq).collect();
        let among = among.iter().map(|batch| batch.seq).collect();
        self.effects.push(Effect::Rearrange { periods: periods(&self.session), among, hidden });
    }

    /// The turns that batches run as. Returns the batches that run as another one now.
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

    /// Takes away answers that are another batch's.
    fn set_aside(&mut self, arranged: &[Arranged]) {
        for (at, to) in arranged.iter().enumerate() {
            let Some(batch) = self.session.batches.get_mut(at) else { continue };
            let Response::Known(known) = batch.response.clone() else { continue };
            if to.answer.as_ref().is_some_and(|answer| answer.event == known.event) {
                continue;
            }
            batch.response = Response::Missing;
            self.effects.push(Effect::SetAside { seq: batch.seq });
            if self.session.holder(&known).is_some() {
                self.effects.push(Effect::DropAnswer { event: known.event });
            } else {
                self.session.keep_spare(known);
            }
        }
    }

    /// Gives batches the answers that are theirs. Returns those that got one.
    fn take_answers(&mut self, arranged: &[Arranged]) -> Vec<usize> {
        let mut answered = Vec::new();
        for (at, to) in arranged.iter().enumerate() {
            let Some(answer) = &to.answer else { continue };
            let holder = self.session.holder(answer);
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

    /// Of one turn only the last words are kept, and of a private one none.
    fn drop_answers(&mut self, arranged: &[Arranged]) {
        let held: Vec<&TurnResponse> = arranged.iter().filter_map(|to| to.answer.as_ref()).collect();
        let is_held = |spare: &TurnResponse| held.iter().any(|answer| answer.event == spare.event);
        let is_worthless = |spare: &TurnResponse| {
            arranged.iter().any(|to| to.hidden.contains(&spare.event))
                || held.iter().any(|answer| answer.is_of_turn_of(spare))
        };
        let spare = std::mem::take(&mut self.session.spare).into_iter().filter(|spare| !is_held(spare));
        let (gone, kept) = spare.partition::<Vec<_>, _>(is_worthless);
        self.session.spare = kept;
        self.effects.extend(gone.into_iter().map(|answer| Effect::DropAnswer { event: answer.event }));
    }

    /// Opens and closes: what is over stays so, unless it was taken for another turn.
    fn settle(&mut self, arranged: &[Arranged], anew: &[usize]) {
        let is_over = self.session.status == SessionStatus::Completed
            || self.session.ended.is_some_and(|ended| !ended.is_before(&self.capture.order));
        for (at, to) in arranged.iter().enumerate() {
            let Some(batch) = self.session.batches.get_mut(at) else { continue };
            let is_anew = anew.contains(&at);
            let (seq, state) = (batch.seq, batch.state);
            let wanted = match to.course {
                Course::Answered => (BatchState::Closed, CloseReason::Stop),
                Course::Running if !is_over => (BatchState::Open, CloseReason::NextPrompt),
                Course::Waiting if !is_over => (BatchState::Waiting, CloseReason::NextPrompt),
                Course::Running | Course::Waiting => (BatchState::Closed, CloseReason::SessionEnd),
                Course::Left | Course::Unborn => (BatchState::Closed, CloseReason::NextPrompt),
            };
            match wanted {
                (BatchState::Closed, why) if state != BatchState::Closed => self.close(at, why),
                (BatchState::Open, _) if is_anew && state != BatchState::Open => {
                    batch.state = BatchState::Open;
                    self.effects.push(Effect::SetState { seq, state: BatchState::Open });
                }
                (BatchState::Waiting, _) if is_anew && state != BatchState::Waiting => {
                    batch.state = BatchState::Waiting;
                    self.effects.push(Effect::SetState { seq, state: BatchState::Waiting });
                }
                _ => {}
            }
        }
    }
}

impl Session {
    /// Remembers when a turn was first heard of. Whether it had not been heard of so early.
    pub(super) fn sight(&mut self, turn: &PromptId, at: Order) -> bool {
        match self.turns_seen.iter_mut().find(|seen| seen.turn == *turn) {
            Some(seen) if !at.is_before(&seen.at) => return false,
            Some(seen) => seen.at = at,
            None => self.turns_seen.push(TurnSeen { turn: turn.clone(), at }),
        }
        true
    }
}
