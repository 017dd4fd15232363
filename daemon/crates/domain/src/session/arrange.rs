//! Assigns turns and answers to prompts by their capture times alone.
//!
//! For events in order, `transition` and `answer` reach the same result one event at a time. When a prompt arrives
//! late, the assignment is recomputed here, so the order of arrival does not matter.

use super::{Batch, Period, Response, Session, TurnResponse};
use crate::ids::{EventId, PromptId};
use crate::material::BatchSource;
use crate::order::Order;

/// The assignment of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arranged {
    /// The turn that the batch runs as.
    pub(super) turn: Option<PromptId>,
    pub(super) progress: BatchProgress,
    pub(super) answer: Option<TurnResponse>,
    /// Answers that are dropped because the batch is private.
    pub(super) hidden: Vec<EventId>,
}

/// The progress of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchProgress {
    /// The prompt was typed after the moment being processed.
    NotYetTyped,
    /// The prompt was queued while another batch ran.
    Waiting,
    Running,
    /// The agent has answered.
    Answered,
    /// Another turn began or ended after this batch.
    Abandoned,
}

enum Fact<'a> {
    Opens(usize),
    /// The first event of a turn without a prompt of its own.
    Seen(&'a PromptId),
    Answers(&'a TurnResponse),
}

/// Computes the assignment of each batch of the session, in order.
pub(super) fn arrange(session: &Session) -> Vec<Arranged> {
    let given = answers(session);
    let mut facts: Vec<(Order, Fact<'_>)> =
        session.batches.iter().enumerate().map(|(at, batch)| (batch.opened, Fact::Opens(at))).collect();
    for seen in &session.turns_seen {
        insert(&mut facts, seen.at, Fact::Seen(&seen.turn));
    }
    for answer in &given {
        insert(&mut facts, answer.at, Fact::Answers(answer));
    }
    let mut arrangement = Arrangement::new(&session.batches);
    for (_, fact) in facts {
        match fact {
            Fact::Opens(at) => arrangement.open(at),
            Fact::Seen(turn) => arrangement.start_turn(turn),
            Fact::Answers(answer) => arrangement.answer(answer),
        }
    }
    arrangement.arranged
}

/// Returns the period in which each batch of the session ran.
pub(super) fn periods(session: &Session) -> Vec<Period> {
    let period = |batch: &Batch| Period {
        seq: batch.seq,
        turn: batch.prompt.clone(),
        since: session.ran_since(batch),
        source: batch.source,
    };
    session.batches.iter().map(period).collect()
}

/// Returns all known answers without duplicates.
fn answers(session: &Session) -> Vec<TurnResponse> {
    let mut all = session.spare.clone();
    for batch in &session.batches {
        if let Response::Known(answer) = &batch.response
            && !all.iter().any(|known| known.event == answer.event)
        {
            all.push(answer.clone());
        }
    }
    all
}

/// Inserts the fact after all facts that are not later.
fn insert<'a>(facts: &mut Vec<(Order, Fact<'a>)>, at: Order, fact: Fact<'a>) {
    let place = facts.iter().rposition(|(known, _)| !at.is_before(known)).map_or(0, |before| before + 1);
    facts.insert(place, (at, fact));
}

struct Arrangement<'a> {
    batches: &'a [Batch],
    arranged: Vec<Arranged>,
}

impl<'a> Arrangement<'a> {
    fn new(batches: &'a [Batch]) -> Self {
        let not_yet_typed =
            Arranged { turn: None, progress: BatchProgress::NotYetTyped, answer: None, hidden: Vec::new() };
        Self { batches, arranged: vec![not_yet_typed; batches.len()] }
    }

    fn is(&self, progress: BatchProgress) -> impl Fn(&Arranged) -> bool + use<> {
        move |arranged| arranged.progress == progress
    }

    fn running(&self) -> Option<usize> {
        self.arranged.iter().rposition(self.is(BatchProgress::Running))
    }

    fn open(&mut self, at: usize) {
        let Some(batch) = self.batches.get(at) else { return };
        let is_recovery = batch.source == BatchSource::Recovery;
        let turn = if is_recovery { batch.prompt.clone() } else { batch.asked_in.clone() };
        let host = self.running().filter(|host| {
            turn.is_some()
                && self.arranged.get(*host).is_some_and(|host| host.turn == turn)
                && self.batches.get(*host).is_some_and(|host| host.source != BatchSource::Recovery)
        });
        let (turn, progress) = match host {
            Some(_) => (None, BatchProgress::Waiting),
            None => {
                self.abandon(|_| true);
                (turn, BatchProgress::Running)
            }
        };
        if let Some(arranged) = self.arranged.get_mut(at) {
            (arranged.turn, arranged.progress) = (turn, progress);
        }
    }

    /// The queued prompt becomes the next turn.
    fn start_turn(&mut self, turn: &PromptId) {
        let is_known = self.arranged.iter().any(|arranged| arranged.turn.as_ref() == Some(turn));
        let Some(waiting) =
            self.arranged.iter().position(self.is(BatchProgress::Waiting)).filter(|_| !is_known)
        else {
            return;
        };
        self.abandon(|arranged| arranged.progress == BatchProgress::Running);
        if let Some(arranged) = self.arranged.get_mut(waiting) {
            (arranged.turn, arranged.progress) = (Some(turn.clone()), BatchProgress::Running);
        }
    }

    fn answer(&mut self, answer: &TurnResponse) {
        let of_turn = |arranged: &Arranged| answer.prompt.is_some() && arranged.turn == answer.prompt;
        let ran = |arranged: &Arranged| {
            !matches!(arranged.progress, BatchProgress::NotYetTyped | BatchProgress::Waiting)
        };
        let own = self.arranged.iter().rposition(of_turn);
        let at = own.or_else(|| self.running()).or_else(|| {
            let has_run = |(arranged, batch): (&Arranged, &Batch)| {
                ran(arranged) && (arranged.turn.is_some() || batch.asked_in.is_none())
            };
            let pairs: Vec<_> = self.arranged.iter().zip(self.batches).collect();
            pairs.into_iter().rposition(has_run)
        });
        let Some(target) = at.and_then(|at| self.arranged.get(at)) else { return };
        if answer.prompt.is_some() && target.turn.is_some() && target.turn != answer.prompt {
            // The answer ends a turn without a known prompt, so no other turn is running.
            return self.abandon(|arranged| arranged.progress == BatchProgress::Running);
        }
        for (place, (arranged, batch)) in self.arranged.iter_mut().zip(self.batches).enumerate() {
            if Some(place) == at || arranged.progress == BatchProgress::Waiting {
                arranged.progress = BatchProgress::Answered;
                match batch.source {
                    BatchSource::Private => arranged.hidden.push(answer.event),
                    _ => arranged.answer = Some(answer.clone()),
                }
            }
        }
    }

    fn abandon(&mut self, which: impl Fn(&Arranged) -> bool) {
        let unfinished = |arranged: &&mut Arranged| {
            matches!(arranged.progress, BatchProgress::Running | BatchProgress::Waiting) && which(arranged)
        };
        self.arranged
            .iter_mut()
            .filter(unfinished)
            .for_each(|arranged| arranged.progress = BatchProgress::Abandoned);
    }
}
