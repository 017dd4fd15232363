//! A session as the material of one call: the turns to note, the earlier notes, and the result.

use super::salience::sources::texts_for_people;
use recall_domain::earlier::Earlier;
use recall_domain::material::{Action, BatchMaterial, SessionMaterial, Step};
use recall_domain::observation::{ObservationDraft, SummaryDraft};

/// A session, and what a model should note.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotesMaterial {
    pub session: SessionMaterial,
    /// The turns that no model has noted, as indices of the session's batches, in order.
    pub due: Vec<usize>,
    /// Titles of the model's notes about earlier turns.
    pub noted: Vec<String>,
    /// Earlier statements about files that these turns touch.
    pub earlier: Vec<Earlier>,
    pub wanted: Wanted,
}

/// What an answer must contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Only observations, because more turns follow.
    Observations,
    #[default]
    WithSummary,
}

/// The model's notes about the turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionNotes {
    /// Each requested turn with its observations.
    pub turns: Vec<(usize, Vec<ObservationDraft>)>,
    pub summary: Option<SummaryDraft>,
}

/// The maximum number of turns, and of bytes said in them, in one call. Larger material is split into several calls;
/// a turn is never split.
const MOST_TURNS: usize = 40;
const MOST_BYTES: usize = 60_000;

impl NotesMaterial {
    /// The first turns, as many as fit into one call.
    pub fn first_part(&self) -> Self {
        let mut bytes = 0;
        let mut fitting = 0;
        for turn in self.due.iter().take(MOST_TURNS) {
            bytes += self.session.batches.get(*turn).map_or(0, text_bytes);
            if fitting > 0 && bytes > MOST_BYTES {
                break;
            }
            fitting += 1;
        }
        self.part(0, fitting)
    }

    /// Splits the turns in two halves.
    pub(crate) fn halves(&self) -> [Self; 2] {
        let middle = self.due.len() / 2;
        [self.part(0, middle), self.part(middle, self.due.len())]
    }

    fn part(&self, from: usize, to: usize) -> Self {
        let wanted = if to < self.due.len() { Wanted::Observations } else { self.wanted };
        let due = self.due.get(from..to).unwrap_or_default().to_vec();
        Self { due, wanted, ..self.clone() }
    }

    /// The turns to note.
    pub fn asked(&self) -> impl Iterator<Item = (usize, &BatchMaterial)> {
        self.due.iter().filter_map(|turn| Some((*turn, self.session.batches.get(*turn)?)))
    }
}

/// The size of a turn's texts in bytes. Of its actions only texts for people count.
fn text_bytes(batch: &BatchMaterial) -> usize {
    let message_bytes = [&batch.prompt, &batch.response]
        .into_iter()
        .flatten()
        .map(|message| message.text.len())
        .sum::<usize>();
    let of_step = |step: &Step| match &step.action {
        Action::Delegate { .. } => 0,
        action => texts_for_people(action, step.event).iter().map(|text| text.text.len()).sum(),
    };
    message_bytes + batch.steps.iter().map(of_step).sum::<usize>()
}
