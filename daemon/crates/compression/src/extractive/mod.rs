//! The built-in compressor: deterministic, without a model or a network.
//!
//! It assumes that somebody has already written down the knowledge of a session: the agent in its answers, plans and
//! comments, someone in commit messages, the user in prompts. [`salience`] selects among their sentences with learned
//! weights. Source that was only read, and the output of tools, are ignored: they are large, and add little to the
//! answer.
//!
//! A batch gets provisional observations when it ends. When the session ends, the selection is made again over all of
//! it, so that nothing is repeated and later statements win. Earlier observations stay, or are part of what replaces
//! them.
//!
//! The run time is linear in the size of the texts, and only the beginning of every text is examined.

mod announced;
pub mod drafts;
pub(super) mod files;
mod incidents;
mod prompts;

use super::salience;
use super::{CompressionError, Compressor, Cuts, JobContext, Made};
pub use announced::Announced;
use recall_domain::material::{BatchMaterial, SessionExtent, SessionMaterial};
use recall_domain::observation::{NoteOrigin, ObservationDraft, SummaryDraft};

/// The drafts for a session as a whole.
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
    /// Drafts the observations of a batch, best first. Statements of the previous answer are not repeated.
    pub fn draft(self, batch: &BatchMaterial) -> Vec<ObservationDraft> {
        drafts::of_batch(batch, salience::built_in())
    }

    /// Drafts the session's summary, and the observations of its batches. They include the provisional observations,
    /// or contain their statements.
    pub fn draft_session(self, session: &SessionMaterial, extent: SessionExtent) -> SessionDraft {
        drafts::of_session(&session.batches, extent, salience::built_in())
    }

    /// Like [`Self::draft`], and remembers the result for the session.
    pub fn announce(self, batch: &BatchMaterial, known: &Announced) -> Vec<ObservationDraft> {
        let announcement = known.of(batch, |batch| drafts::announced(batch, salience::built_in()));
        announcement.into_iter().map(|(_, draft)| draft).collect()
    }

    /// Like [`Self::draft_session`], but reuses known results.
    pub fn draft_session_beside(
        self,
        batches: &[BatchMaterial],
        extent: SessionExtent,
        known: &Announced,
    ) -> SessionDraft {
        drafts::of_session_beside(batches, extent, salience::built_in(), known)
    }

    /// Summarises the session in a few lines. Returns `None` if nothing was requested and nothing done.
    pub fn sum_up(self, session: &SessionMaterial) -> Option<SummaryDraft> {
        drafts::summary_of(&session.batches, salience::built_in())
    }
}

impl Compressor for Extractive {
    fn origin(&self) -> NoteOrigin {
        NoteOrigin::built_in()
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
    Made { result, origin: NoteOrigin::built_in(), cuts: Cuts::default() }
}

#[cfg(test)]
mod last_word_tests;
#[cfg(test)]
mod tests;
