//! How prompts, turns and answers lie to each other, from nothing but when they happened.
//!
//! While events arrive in order, the rules of `turn` and `answer` come to the same one event after another. When a
//! prompt arrives late, what was decided without it is decided here anew, so that it does not matter in which order
//! things were heard of.

use super::{Batch, Period, Response, Session, TurnResponse};
use crate::memory::ids::{EventId, PromptId};
use crate::memory::material::BatchSource;
use crate::memory::order::Order;

/// What a batch comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arranged {
    /// The turn it runs as.
    pub(super) turn: Option<PromptId>,
    pub(super) course: Course,
    pub(super) answer: Option<TurnResponse>,
    /// Answers of which nothing is kept, for the batch is private.
    pub(super) hidden: Vec<EventId>,
}

/// How far a batch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// Its prompt has not come yet at the moment that is looked at.
    Unborn,
    /// Typed while another ran.
    Waiting,
    Running,
    /// The agent has ended it.
    Answered,
    /// Another turn has begun or ended since.
    Left,
}

enum Fact<'a> {
    Opens(usize),
    /// A turn without a prompt of its own is heard of.
    Seen(&'a PromptId),
    Answers(&'a TurnResponse),
}

/// What each batch of the session comes to, in their order.
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
    let mut course = Arrangement::new(&session.batches);
    for (_, fact) in facts {
        match fact {
            Fact::Opens(at) => course.open(at),
            Fact::Seen(turn) => course.see(turn),
            Fact::Answers(answer) => course.answer(answer),
        }
    }
    course.arranged
}

/// When each batch of the session ran.
pub(super) fn periods(session: &Session) -> Vec<Period> {
    let period = |batch: &Batch| Period {
        seq: batch.seq,
        turn: batch.prompt.clone(),
        since: session.ran_since(batch),
    };
    session.batches.iter().map(period).collect()
}

/// All answers that are known, each once.
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

/// After everything that is not later.
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
        let unborn = Arranged { turn: None, course: Course::Unborn, answer: None, hidden: Vec::new() };
        Self { batches, arranged: vec![unborn; batches.len()] }
    }

    fn is(&self, course: Course) -> impl Fn(&Arranged) -> bool + use<> {
        move |arranged| arranged.course == course
    }

    fn running(&self) -> Option<usize> {
        self.arranged.iter().rposition(self.is(Course::Running))
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
        let (turn, course) = match host {
            Some(_) => (None, Course::Waiting),
            None => {
                self.leave(|_| true);
                (turn, Course::Running)
            }
        };
        if let Some(arranged) = self.arranged.get_mut(at) {
            (arranged.turn, arranged.course) = (turn, course);
        }
    }

    /// What was typed meanwhile is the next turn.
    fn see(&mut self, turn: &PromptId) {
        let is_known = self.arranged.iter().any(|arranged| arranged.turn.as_ref() == Some(turn));
        let Some(waiting) = self.arranged.iter().position(self.is(Course::Waiting)).filter(|_| !is_known)
        else {
            return;
        };
        self.leave(|arranged| arranged.course == Course::Running);
        if let Some(arranged) = self.arranged.get_mut(waiting) {
            (arranged.turn, arranged.course) = (Some(turn.clone()), Course::Running);
        }
    }

    fn answer(&mut self, answer: &TurnResponse) {
        let of_turn = |arranged: &Arranged| answer.prompt.is_some() && arranged.turn == answer.prompt;
        let ran = |arranged: &Arranged| !matches!(arranged.course, Course::Unborn | Course::Waiting);
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
            // A turn of which no prompt is known has ended, so no other one runs.
            return self.leave(|arranged| arranged.course == Course::Running);
        }
        for (place, (arranged, batch)) in self.arranged.iter_mut().zip(self.batches).enumerate() {
            if Some(place) == at || arranged.course == Course::Waiting {
                arranged.course = Course::Answered;
                match batch.source {
                    BatchSource::Private => arranged.hidden.push(answer.event),
                    _ => arranged.answer = Some(answer.clone()),
                }
            }
        }
    }

    fn leave(&mut self, which: impl Fn(&Arranged) -> bool) {
        let unfinished = |arranged: &&mut Arranged| {
            matches!(arranged.course, Course::Running | Course::Waiting) && which(arranged)
        };
        self.arranged.iter_mut().filter(unfinished).for_each(|arranged| arranged.course = Course::Left);
    }
}
