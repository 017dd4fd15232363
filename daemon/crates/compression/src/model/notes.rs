//! Notes of a session: one call for all of its turns, or for as many as fit.

use super::{CUTS_IN_HALVES, Failure, Job, ModelCompressor};
use crate::extractive::Extractive;
use crate::notes::{NotesMaterial, SessionNotes};
use crate::{CompressionError, Cuts, answer, condense, prompt};

impl ModelCompressor {
    /// Requests notes. If the provider rejects the material as a whole, its halves are requested. Turns that still
    /// fail get built-in observations.
    pub(super) fn notes_of(
        &self,
        part: &NotesMaterial,
        job: &Job<'_>,
    ) -> Result<(SessionNotes, Cuts), CompressionError> {
        if part.due.is_empty() {
            return Ok((SessionNotes::default(), Cuts::default()));
        }
        match self.asked_about(part, job) {
            Err(Failure::Material(why)) if part.due.len() > 1 => {
                tracing::warn!(job = %job.job_context.job, %why, "a provider rejected a session's turns; requesting them in halves");
                let mut notes = InHalves::default();
                self.in_halves_of(part, job, CUTS_IN_HALVES - 1, &mut notes)?;
                if notes.answers == 0 {
                    // The error of the whole request is more useful than that of the last part.
                    return Err(CompressionError::Refused(why));
                }
                Ok((notes.made, notes.cuts))
            }
            answered => answered.map_err(CompressionError::from),
        }
    }

    fn asked_about(&self, part: &NotesMaterial, job: &Job<'_>) -> Result<(SessionNotes, Cuts), Failure> {
        let condensed = condense::notes(part, self.material_tokens);
        let request = prompt::notes(&condensed.text, part);
        let notes = self.asked(&request, job, |text| answer::notes(text, part))?;
        Ok((notes, condensed.cuts))
    }

    fn in_halves_of(
        &self,
        part: &NotesMaterial,
        job: &Job<'_>,
        cuts_left: u32,
        notes: &mut InHalves,
    ) -> Result<(), CompressionError> {
        for half in part.halves() {
            match self.asked_about(&half, job) {
                Ok((made, cuts)) => notes.answered(made, cuts),
                Err(Failure::Material(_)) if cuts_left > 0 && half.due.len() > 1 => {
                    self.in_halves_of(&half, job, cuts_left - 1, notes)?;
                }
                Err(Failure::Material(_) | Failure::Unreadable(_))
                // Keep what was paid for.
                | Err(Failure::Other(CompressionError::Spent(_))) => notes.failed(&half),
                Err(Failure::Other(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The results of the halves.
#[derive(Default)]
struct InHalves {
    made: SessionNotes,
    cuts: Cuts,
    answers: u32,
}

impl InHalves {
    fn answered(&mut self, made: SessionNotes, cuts: Cuts) {
        self.answers += 1;
        self.cuts = self.cuts.and(cuts);
        self.made.turns.extend(made.turns);
        self.made.summary = made.summary.or(self.made.summary.take());
    }

    fn failed(&mut self, half: &NotesMaterial) {
        self.made.turns.extend(half.asked().map(|(turn, batch)| (turn, Extractive.draft(batch))));
    }
}
