//! Drops notes that a newer note repeats in other words, using the vectors of a sentence model. Without vectors
//! nothing is dropped here: threads and equal words are handled when notes are stored.

use super::sentences::Sentences;
use recall_domain::context::Note;
use recall_domain::observation::Maker;
use recall_domain::sameness::are_paraphrases;
use recall_embedding::{Compared, packed_bytes};
use recall_store::{Reader, StoreError};

/// Returns the notes without those that a newer one repeats. Notes that a person wrote or pinned, and warnings about
/// the current work, are kept.
pub fn without_repeats(
    db: Reader<'_>,
    sentences: &Sentences,
    mut notes: Vec<Note>,
) -> Result<Vec<Note>, StoreError> {
    let Some(embedder) = sentences.embedder() else { return Ok(notes) };
    let ids: Vec<_> = notes.iter().map(|note| note.id).collect();
    let rows = db.vectors_of_observations(&embedder.model().0, &ids)?;
    // The notes that have a vector, with the first vector of each.
    let mut with_vector: Vec<&Note> = Vec::new();
    let mut packed: Vec<u8> = Vec::new();
    for row in &rows {
        let note = notes.iter().find(|note| note.id.0 == row.key.row);
        let bytes = usize::try_from(row.dimensions).ok().map(packed_bytes);
        let first = bytes.and_then(|bytes| row.packed.get(..bytes));
        if let (Some(note), Some(first)) = (note, first) {
            with_vector.push(note);
            packed.extend(first);
        }
    }
    let Some(size) = packed.len().checked_div(with_vector.len()) else { return Ok(notes) };
    let mut repeated = Vec::new();
    for (note, vector) in with_vector.iter().zip(packed.chunks_exact(size)) {
        if note.maker == Maker::Person || note.is_pinned || note.warns_of.is_some() {
            continue;
        }
        let cosines = Compared::unpack(vector).cosines(&packed, 0);
        let is_newer = |other: &Note| (other.at, other.id) > (note.at, note.id);
        let mut others = with_vector.iter().zip(cosines);
        if others.any(|(other, cosine)| is_newer(other) && are_paraphrases(cosine, &note.title, &other.title))
        {
            repeated.push(note.id);
        }
    }
    notes.retain(|note| !repeated.contains(&note.id));
    Ok(notes)
}
