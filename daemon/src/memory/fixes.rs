//! How a check came from failing to passing where that took several batches, of one session or of many: it failed,
//! something was changed, it passes.
//!
//! A pass proves nothing unless something was changed since the check failed last: it may be a test that fails now and
//! then. So every failing that is known counts, also one that nobody made an observation of.

use super::check::{Changed, CheckStatus, changed, checked};
use super::ids::{BatchId, EventId, SessionRow, Timestamp};
use super::lineage::Claim;
use super::material::BatchMaterial;
use super::subject::{self, SubjectKey};

/// What a batch leaves for later ones to go on from, by its own evidence: whoever compresses the batch, it is the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    pub failing: Vec<LeftFailing>,
    pub changed: Vec<Changed>,
}

/// A check that a batch left failing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFailing {
    pub subject: SubjectKey,
    /// Its last run, and which of the batch's steps that was.
    pub event: EventId,
    pub step: u32,
}

pub fn traces(batch: &BatchMaterial) -> Traces {
    let failing = checked(batch).into_iter().filter(|checked| checked.status != CheckStatus::Passed);
    let failing = failing.map(|checked| LeftFailing {
        subject: subject::of_check(&checked.name),
        event: checked.event,
        step: checked.step,
    });
    Traces { failing: failing.collect(), changed: changed(batch.steps.iter(), batch.root.as_deref()) }
}

/// When the work of a batch was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub batch: BatchId,
    pub session: SessionRow,
    /// Its place among the session's batches.
    pub place: u32,
    pub opened: Timestamp,
    /// `None`: work goes on in it.
    pub closed: Option<Timestamp>,
}

impl Span {
    /// What counts as its moment: the end or, while it is open, the beginning.
    pub fn end(&self) -> Timestamp {
        self.closed.unwrap_or(self.opened)
    }

    /// Whether all of it was done when the other began. Batches of one session follow one another.
    fn precedes(&self, other: &Self) -> bool {
        match self.session == other.session {
            true => self.place < other.place,
            false => self.closed.is_some_and(|closed| closed <= other.opened),
        }
    }
}

/// A batch that left the check failing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    pub by: Span,
    pub step: u32,
}

/// A file that a batch changed, at last in this step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub by: Span,
    pub step: u32,
    /// Named as those of a [`Claim`].
    pub file: String,
    pub event: String,
}

impl Change {
    fn follows(&self, failing: &Failing) -> bool {
        match self.by.batch == failing.by.batch {
            true => self.step > failing.step,
            false => failing.by.precedes(&self.by),
        }
    }
}

/// What is known of the way to a pass: where the check failed, and what other batches changed, the earliest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trail<'a> {
    pub failings: &'a [Failing],
    pub changes: &'a [Change],
}

impl<'a> Trail<'a> {
    /// What earlier batches than the passing one changed since the claim was made.
    pub(super) fn since(&self, claim: &Claim, pass: &Span) -> Vec<&'a Change> {
        let told = self.failings.iter().find(|failing| claim.batch == Some(failing.by.batch));
        let is_since =
            |change: &&Change| told.map_or(change.by.opened >= claim.at, |failing| change.follows(failing));
        self.changes.iter().filter(|change| change.by.precedes(pass)).filter(is_since).collect()
    }

    /// Whether any of these was changed after the check failed last.
    pub(super) fn explains(&self, changes: &[&Change], pass: &Span) -> bool {
        let earlier = self.failings.iter().filter(|failing| failing.by.precedes(pass));
        let last = earlier.max_by_key(|failing| (failing.by.opened, failing.by.place));
        changes.iter().any(|change| last.is_none_or(|failing| change.follows(failing)))
    }
}

#[cfg(test)]
mod tests;
