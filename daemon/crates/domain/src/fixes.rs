//! Traces how a check went from failing to passing across several batches of one or more sessions: it failed,
//! something was changed, it passes.
//!
//! A pass proves nothing unless something was changed since the last failure, because the test may be flaky. So every
//! known failure counts, even one without an observation.

use super::check::{Changed, CheckStatus, changed, checked};
use super::ids::{BatchId, EventId, SessionRow, Timestamp};
use super::material::BatchMaterial;
use super::subject::{self, SubjectKey};

/// Evidence that a batch leaves for later batches, independent of the compressor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    pub failing: Vec<LeftFailing>,
    pub changed: Vec<Changed>,
}

/// A check that failed at the end of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFailing {
    pub subject: SubjectKey,
    /// The check's last run, and the index of that run among the batch's steps.
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
    Traces { failing: failing.collect(), changed: changed(batch.steps.iter(), batch.folder()) }
}

/// The time during which the work of a batch was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSpan {
    pub batch: BatchId,
    pub session: SessionRow,
    /// The batch's index in its session.
    pub place: u32,
    pub opened: Timestamp,
    /// `None` while the batch is open.
    pub closed: Option<Timestamp>,
}

impl BatchSpan {
    /// The batch's time: its end, or its beginning while it is open.
    pub fn end(&self) -> Timestamp {
        self.closed.unwrap_or(self.opened)
    }

    /// Whether this batch ended before the other began. Batches of one session are ordered by index.
    fn precedes(&self, other: &Self) -> bool {
        match self.session == other.session {
            true => self.place < other.place,
            false => self.closed.is_some_and(|closed| closed <= other.opened),
        }
    }
}

/// A batch that ended with the check failing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingCheck {
    pub by: BatchSpan,
    pub step: u32,
}

/// A file that a batch changed, and the last step that changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub by: BatchSpan,
    pub step: u32,
    /// Normalised, so that equal files have equal names.
    pub file: String,
    pub event: String,
}

impl FileChange {
    fn follows(&self, failing: &FailingCheck) -> bool {
        match self.by.batch == failing.by.batch {
            true => self.step > failing.step,
            false => failing.by.precedes(&self.by),
        }
    }
}

/// The history of a pass: where the check failed, and what other batches changed, earliest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trail<'a> {
    pub failings: &'a [FailingCheck],
    pub changes: &'a [FileChange],
}

impl<'a> Trail<'a> {
    /// Changes by earlier batches since a claim was made, in this batch and at this time.
    pub(super) fn since(
        &self,
        batch: Option<BatchId>,
        at: Timestamp,
        pass: &BatchSpan,
    ) -> Vec<&'a FileChange> {
        let last_failure = self.failings.iter().find(|failing| batch == Some(failing.by.batch));
        let is_since = |change: &&FileChange| {
            last_failure.map_or(change.by.opened >= at, |failing| change.follows(failing))
        };
        self.changes.iter().filter(|change| change.by.precedes(pass)).filter(is_since).collect()
    }

    /// Whether any of these changes was made after the check last failed.
    pub(super) fn explains(&self, changes: &[&FileChange], pass: &BatchSpan) -> bool {
        let earlier = self.failings.iter().filter(|failing| failing.by.precedes(pass));
        let last = earlier.max_by_key(|failing| (failing.by.opened, failing.by.place));
        changes.iter().any(|change| last.is_none_or(|failing| change.follows(failing)))
    }
}

#[cfg(test)]
mod tests;
