//! The built-in compressor: deterministic, without a model or a network.
//!
//! It believes that the knowledge of a batch has already been written down by somebody: by the agent in its final
//! answer, in commit messages and notes, by the user in the prompt. It cuts these texts into passages, weighs each by
//! its wording (causes, rules, changes, choices, names, numbers), and writes the best of them out without saying
//! anything twice. Source that was merely read and the output of tools are hardly looked at: they are large and say
//! little that the answer does not.
//!
//! The time is linear in the size of a batch, and of every text only the beginning is looked at.

mod candidate;
mod comment;
mod compose;
mod correction;
mod cue;
mod failure;
mod field;
mod files;
mod gather;
mod identifier;
mod markdown;
mod open_end;
mod request;
mod selection;
mod sentence;
mod setting;
mod shell;
mod sort;
mod statement;
mod summary;

use compose::Composed;
use setting::Setting;

use super::{CompressionError, Compressor, Cuts, EXTRACTIVE, JobContext, Made};
use crate::memory::material::{BatchMaterial, SessionMaterial};
use crate::memory::observation::{ObservationDraft, SummaryDraft};

/// The built-in compressor. It has no settings and never fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extractive;

impl Extractive {
    /// The observations of a batch, best first.
    pub fn draft(self, batch: &BatchMaterial) -> Vec<ObservationDraft> {
        observations(batch).into_iter().map(|composed| composed.draft).collect()
    }

    /// The session in a few lines. `None`: nothing was asked and nothing done.
    pub fn sum_up(self, session: &SessionMaterial) -> Option<SummaryDraft> {
        summary::summarize(session)
    }
}

impl Compressor for Extractive {
    fn origin(&self) -> String {
        EXTRACTIVE.to_owned()
    }

    fn observe(
        &self,
        batch: &BatchMaterial,
        _errand: &JobContext<'_>,
    ) -> Result<Made<Vec<ObservationDraft>>, CompressionError> {
        Ok(made(self.draft(batch)))
    }

    fn summarize(
        &self,
        session: &SessionMaterial,
        _errand: &JobContext<'_>,
    ) -> Result<Made<Option<SummaryDraft>>, CompressionError> {
        Ok(made(self.sum_up(session)))
    }
}

fn made<T>(result: T) -> Made<T> {
    Made { result, origin: EXTRACTIVE.to_owned(), cuts: Cuts::default() }
}

/// Candidates behind the best of so many are not written out.
const MOST_CANDIDATES: usize = 40;

/// The observations of a batch with what they were worth, best first.
fn observations(batch: &BatchMaterial) -> Vec<Composed> {
    let setting = Setting::of(batch);
    let mut candidates = gather::candidates(batch, setting.work);
    candidates.sort_by_cached_key(|candidate| std::cmp::Reverse(candidate.worth()));
    candidates.truncate(MOST_CANDIDATES);
    let composed = candidates.iter().filter_map(|candidate| compose::compose(candidate, &setting)).collect();
    selection::select(composed, batch.previous_response.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests;
