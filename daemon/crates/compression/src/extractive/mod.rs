//! The built-in compressor: deterministic, without a model or a network.
//!
//! It believes that the knowledge of a session has already been written down by somebody: by the agent in its answers,
//! plans and comments, in commit messages, by the user in prompts. [`salience`] chooses among their
//! sentences by learned weights. Source that was merely read and the output of tools are not looked at: they are large
//! and say little that the answer does not.
//!
//! A batch is told when it ends, for the time being. When the session ends, the choice is made again over all of it, so
//! that nothing is told twice and what came later counts. What was told before stays, or is in what replaces it.
//!
//! The time is linear in the size of the texts, and of every text only the beginning is looked at.

mod announced;
pub mod drafts;
pub(super) mod files;
mod incidents;
mod prompts;

use super::salience;
use super::{CompressionError, Compressor, Cuts, EXTRACTIVE, JobContext, Made};
pub use announced::Announced;
use recall_domain::material::{BatchMaterial, Extent, SessionMaterial};
use recall_domain::observation::{ObservationDraft, SummaryDraft};

/// What is made of a session as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionDraft {
    pub summary: Option<SummaryDraft>,
    /// The observations of each batch of the material, in the same order.
    pub batches: Vec<Vec<ObservationDraft>>,
}

/// The built-in compressor. It has no settings and never fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extractive;

impl Extractive {
    /// The observations of a batch, best first. What the answer before it says is told already.
    pub fn draft(self, batch: &BatchMaterial) -> Vec<ObservationDraft> {
        drafts::of_batch(batch, salience::built_in())
    }

    /// The session's summary, and the observations of its batches. What its batches told when they ended is among them,
    /// or in one of them.
    pub fn draft_session(self, session: &SessionMaterial, extent: Extent) -> SessionDraft {
        drafts::of_session(&session.batches, extent, salience::built_in())
    }

    /// As [`Self::draft`], and remembers it for the session.
    pub fn announce(self, batch: &BatchMaterial, known: &Announced) -> Vec<ObservationDraft> {
        let told = known.of(batch, |batch| drafts::announced(batch, salience::built_in()));
        told.into_iter().map(|(_, draft)| draft).collect()
    }

    /// As [`Self::draft_session`], but does not judge again what is known.
    pub fn draft_session_beside(
        self,
        batches: &[BatchMaterial],
        extent: Extent,
        known: &Announced,
    ) -> SessionDraft {
        drafts::of_session_beside(batches, extent, salience::built_in(), known)
    }

    /// The session in a few lines. `None`: nothing was asked and nothing done.
    pub fn sum_up(self, session: &SessionMaterial) -> Option<SummaryDraft> {
        drafts::summary_of(&session.batches, salience::built_in())
    }
}

impl Compressor for Extractive {
    fn origin(&self) -> String {
        EXTRACTIVE.to_owned()
    }

    fn observe(
        &self,
        batch: &BatchMaterial,
        _job_context: &JobContext<'_>,
    ) -> Result<Made<Vec<ObservationDraft>>, CompressionError> {
        Ok(made(self.draft(batch)))
    }

    fn summarize(
        &self,
        session: &SessionMaterial,
        _job_context: &JobContext<'_>,
    ) -> Result<Made<Option<SummaryDraft>>, CompressionError> {
        Ok(made(self.sum_up(session)))
    }
}

fn made<T>(result: T) -> Made<T> {
    Made { result, origin: EXTRACTIVE.to_owned(), cuts: Cuts::default() }
}

#[cfg(test)]
mod last_word_tests;
#[cfg(test)]
mod tests;
