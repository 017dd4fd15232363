//! Measures whether words that are close in the query are close in a document too.
//!
//! Positions are the most expensive part of the posting lists, so they are read only for the best candidates.

use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, SegmentReader, Term};

use super::schema::Fields;
use super::terms::{Neighbours, QueryTerm};

/// Words are unrelated if their distance exceeds that in the query by more than this.
const FARTHEST: u32 = 10;
/// The number of positions read per term and document. Texts name their subject at the beginning.
const MOST_POSITIONS: usize = 64;

/// A query term with its information and its position in the query.
pub(crate) struct Weighted<'a> {
    pub term: &'a QueryTerm,
    pub information: f32,
}

/// Returns the closeness, from 0 to 1, for each of `docs`, which are documents of the segment in ascending order.
pub(crate) fn closeness(
    segment: &SegmentReader,
    fields: &Fields,
    terms: &[Weighted<'_>],
    docs: &[DocId],
) -> tantivy::Result<Vec<f32>> {
    let terms: Vec<&Weighted<'_>> =
        terms.iter().filter(|weighted| weighted.term.has_neighbours == Neighbours::Yes).collect();
    let mut closeness = vec![0.0; docs.len()];
    if terms.len() < 2 {
        return Ok(closeness);
    }
    let index = segment.inverted_index(fields.text)?;
    let mut positions: Vec<Vec<Vec<u32>>> = Vec::with_capacity(terms.len());
    for weighted in &terms {
        let term = Term::from_field_text(fields.text, &weighted.term.text);
        let mut of_docs = vec![Vec::new(); docs.len()];
        if let Some(mut postings) = index.read_postings(&term, IndexRecordOption::WithFreqsAndPositions)? {
            for (doc, found) in docs.iter().zip(&mut of_docs) {
                if postings.doc() < *doc {
                    postings.seek(*doc);
                }
                if postings.doc() == *doc {
                    postings.positions(found);
                    found.truncate(MOST_POSITIONS);
                }
            }
        }
        positions.push(of_docs);
    }
    let mut whole = 0.0;
    for (pair, places) in terms.windows(2).zip(positions.windows(2)) {
        let ([first, second], [first_places, second_places]) = (pair, places) else { continue };
        let weight = first.information.min(second.information);
        whole += weight;
        let apart = second.term.position.saturating_sub(first.term.position);
        let apart = u32::try_from(apart).unwrap_or(u32::MAX);
        for ((sum, left), right) in closeness.iter_mut().zip(first_places).zip(second_places) {
            *sum += weight * pair_closeness(left, right, apart);
        }
    }
    if whole > 0.0 {
        closeness.iter_mut().for_each(|sum| *sum /= whole);
    }
    Ok(closeness)
}

/// Returns 1 if the words are as far apart as in the query, and less with every word of difference.
fn pair_closeness(first: &[u32], second: &[u32], apart: u32) -> f32 {
    let mut nearest = u32::MAX;
    for at in first {
        let expected = at.saturating_add(apart);
        let behind = second.partition_point(|place| *place < expected);
        for place in second.get(behind.saturating_sub(1)..).unwrap_or_default().iter().take(2) {
            nearest = nearest.min(place.abs_diff(expected));
        }
    }
    if nearest > FARTHEST { 0.0 } else { 1.0 / (1.0 + nearest as f32 / 2.0) }
}

#[cfg(test)]
mod tests {
    use super::pair_closeness;

    #[test]
    fn the_closeness_of_two_words_falls_with_their_distance() {
        for (first, second, apart, expected) in [
            (&[3][..], &[4][..], 1, 1.0),
            (&[3], &[5], 1, 1.0 / 1.5),
            (&[4], &[3], 1, 0.5),
            (&[3, 50], &[20, 51], 1, 1.0),
            (&[3], &[40], 1, 0.0),
            (&[3], &[], 1, 0.0),
            (&[], &[3], 1, 0.0),
            (&[0], &[3], 3, 1.0),
            (&[u32::MAX], &[0], u32::MAX, 0.0),
        ] {
            let closeness = pair_closeness(first, second, apart);
            assert!((closeness - expected).abs() < 1e-6, "{first:?} {second:?}: {closeness}");
        }
    }
}
