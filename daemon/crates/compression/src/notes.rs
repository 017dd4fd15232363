//! A session as one call of a model knows it: the turns it is asked about, what is known of the turns before, and what
//! came of it.

use super::salience::sources::said_by;
use recall_domain::earlier::Earlier;
use recall_domain::material::{Action, BatchMaterial, SessionMaterial, Step};
use recall_domain::observation::{ObservationDraft, SummaryDraft};

/// A session, and what a model is to note of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotesMaterial {
    pub session: SessionMaterial,
    /// The turns that no model has noted, as indices of the session's batches, in order.
    pub due: Vec<usize>,
    /// Titles of what a model has noted of the turns before.
    pub noted: Vec<String>,
    /// Earlier statements about files that these turns touch.
    pub earlier: Vec<Earlier>,
    pub wanted: Wanted,
}

/// What an answer contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Observations alone: more turns follow.
    Observations,
    #[default]
    WithSummary,
}

/// What came of the turns that a model was asked about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionNotes {
    /// Each turn that was asked about, with its observations.
    pub turns: Vec<(usize, Vec<ObservationDraft>)>,
    pub summary: Option<SummaryDraft>,
}

/// A call is about at most so many turns, and so many bytes of what was said in them. What is larger is asked about in
/// several calls, and a turn is never divided.
const MOST_TURNS: usize = 40;
const MOST_BYTES: usize = 60_000;

impl NotesMaterial {
    /// The same for one call: its first turns.
    pub fn first_part(&self) -> Self {
        let mut bytes = 0;
        let mut fitting = 0;
        for turn in self.due.iter().take(MOST_TURNS) {
            bytes += self.session.batches.get(*turn).map_or(0, said_bytes);
            if fitting > 0 && bytes > MOST_BYTES {
                break;
            }
            fitting += 1;
        }
        self.part(0, fitting)
    }

    /// The turns before and after the middle.
    pub(crate) fn halves(&self) -> [Self; 2] {
        let middle = self.due.len() / 2;
        [self.part(0, middle), self.part(middle, self.due.len())]
    }

    fn part(&self, from: usize, to: usize) -> Self {
        let wanted = if to < self.due.len() { Wanted::Observations } else { self.wanted };
        let due = self.due.get(from..to).unwrap_or_default().to_vec();
        Self { due, wanted, ..self.clone() }
    }

    /// The turns that are asked about.
    pub fn asked(&self) -> impl Iterator<Item = (usize, &BatchMaterial)> {
        self.due.iter().filter_map(|turn| Some((*turn, self.session.batches.get(*turn)?)))
    }
}

/// Bytes of what was said in a turn; of what was done only what speaks to people.
fn said_bytes(batch: &BatchMaterial) -> usize {
    let said =
        [&batch.prompt, &batch.response].into_iter().flatten().map(|said| said.text.len()).sum::<usize>();
    let of_step = |step: &Step| match &step.action {
        Action::Delegate { .. } => 0,
        action => said_by(action, step.event).iter().map(|text| text.text.len()).sum(),
    };
    said + batch.steps.iter().map(of_step).sum::<usize>()
}
