//! Finds notes that a person wrote or pinned, and that a prompt or a task is about. If only reviewed notes may be
//! injected, it also finds notes that a person kept.

use super::context_lookup::{ContextLookup, ContextRequest, note};
use super::documents;
use super::freshness::{Dated, Freshness};
use recall_domain::context::Note;
use recall_domain::ids::ObservationId;
use recall_domain::injection::by_hand::Touch;
use recall_domain::passage::PassageTerm;
use recall_domain::ranking::Commonness;
use recall_domain::used::Occasion;
use recall_repository::refs::WorkLocation;
use recall_repository::work_tree::WorkTree;
use recall_store::{ObservationRow, Reader, StoreError, WorkOf};

/// The number of notes considered, most important first.
const LOOKED_AT: u32 = 200;
/// The maximum number of notes per prompt, because a prompt asks one thing.
const MOST: usize = 2;

impl ContextLookup {
    /// Returns the best notes, best first, without those that the session already has in full.
    pub(super) fn notes_by_hand(
        &self,
        db: Reader<'_>,
        prompt: &str,
        context_request: &ContextRequest,
    ) -> Result<Vec<Note>, StoreError> {
        let project = &context_request.project;
        let mut rows = db.kept_by_hand(project.row, LOOKED_AT, self.settings.context().injectable)?;
        let injected = &context_request.injected;
        rows.retain(|row| !injected.observations.contains(&row.id) || injected.titles.contains(&row.id));
        let disfavour = db.disfavour()?;
        rows.retain(|row| disfavour.worth(row.id.into(), Occasion::Prompt, row.importance).is_some());
        let Some(index) = self.index.index().filter(|_| !rows.is_empty()) else { return Ok(Vec::new()) };
        let Some(words) = self.index.words_of(&index, prompt, &project.key) else { return Ok(Vec::new()) };
        let mut by_closeness: Vec<(f32, ObservationId)> = Vec::new();
        for row in &rows {
            let passages = documents::of_observation(&row.title, &row.narrative, &row.facts);
            let touches =
                passages.iter().map(|passage| touch(&words, &self.subjects.subjects(&passage.whole())));
            let closest = touches.filter(Touch::is_about).map(|touch| touch.closeness()).reduce(f32::max);
            by_closeness.extend(closest.map(|closeness| (closeness, row.id)));
        }
        by_closeness.sort_by(|(a, a_id), (b, b_id)| b.total_cmp(a).then_with(|| b_id.cmp(a_id)));
        let mut notes = Vec::new();
        for (_, id) in by_closeness {
            let Some(place) = rows.iter().position(|row| row.id == id) else { continue };
            notes.push(self.noted(db, rows.swap_remove(place), &context_request.place)?);
            if notes.len() == MOST {
                break;
            }
        }
        Ok(notes)
    }
}

impl ContextLookup {
    /// Adds the branch on which the note was made, and the files that have changed since.
    fn noted(&self, db: Reader<'_>, row: ObservationRow, place: &WorkLocation) -> Result<Note, StoreError> {
        let (modified, evidence) = (row.files_modified.clone(), row.evidence.clone());
        let mut note = note(row, &self.branch_context(place));
        if let Some(tree) = WorkTree::of(place).filter(|_| note.elsewhere.is_none()) {
            let work = Some(WorkOf::Events(&evidence));
            let (texts, modified) = ([note.title.as_str(), note.narrative.as_str()], modified.as_slice());
            let since = Freshness::new(db, self.agents, tree, self.answer_within).of(&Dated {
                texts,
                at: note.at,
                modified,
                work,
            })?;
            note.changed = since.changed;
        }
        Ok(note)
    }
}

/// Computes how a prompt's words overlap with a passage that has these subjects.
pub(super) fn touch(words: &[PassageTerm], subjects: &[(String, f32)]) -> Touch {
    let all: f32 = subjects.iter().map(|(_, share)| share).sum();
    let (mut touch, mut shared): (Touch, f32) = Default::default();
    for (text, share) in subjects {
        if let Some(term) = words.iter().find(|term| term.text == *text) {
            shared += share;
            touch.shared += term.information;
            touch.rarest = touch.rarest.max(term.information);
        }
    }
    let subjects_of_prompt = words.iter().filter(|term| term.commonness == Commonness::Content);
    let whole: f32 = subjects_of_prompt.map(|term| term.information).sum();
    touch.of_passage = shared / all.max(f32::MIN_POSITIVE);
    touch.of_prompt = touch.shared / whole.max(f32::MIN_POSITIVE);
    touch
}
