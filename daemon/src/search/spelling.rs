//! Reads a word that no searched document has as the nearest word that one has.
//!
//! Only words that people type are read so, and only without a hit: a pasted text or an error code means what it says.

use tantivy::schema::Field;
use tantivy::{DocSet, TERMINATED, Term};

use crate::memory::ranking::Commonness;

use super::evaluate::Segment;
use super::terms::QueryTerm;

/// Whether words without a hit are read as others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// Texts that were not typed as a query.
    #[default]
    AsWritten,
    Forgiving,
}

/// A word of the query that was read as another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAs {
    pub typed: String,
    /// As indexed: a stem.
    pub read: String,
}

/// Shorter words have too many neighbours.
const SHORTEST: usize = 4;
/// From this length on two edits are one typo.
const LONG: usize = 8;
/// Words of one query that may be read as others.
const MOST_CORRECTED: usize = 4;
/// Words of the vocabulary that one search compares.
const MOST_COMPARED: usize = 200_000;
/// The nearest words that are looked up in the searched documents.
const MOST_TRIED: usize = 8;

/// Replaces terms that no document in scope has. Linear in the number of words with the same first letter.
pub(super) fn correct(
    segments: &[Segment<'_>],
    text: Field,
    terms: &mut [QueryTerm],
) -> tantivy::Result<Vec<ReadAs>> {
    let mut corrected = Vec::new();
    let mut comparisons = MOST_COMPARED;
    let known: Vec<String> = terms.iter().map(|term| term.text.clone()).collect();
    for term in terms.iter_mut() {
        if corrected.len() == MOST_CORRECTED || !may_be_mistyped(term) || occurs(segments, text, &term.text)?
        {
            continue;
        }
        for near in nearest(segments, text, &term.text, &mut comparisons)? {
            if !known.contains(&near) && occurs(segments, text, &near)? {
                corrected.push(ReadAs { typed: term.typed.clone(), read: near.clone() });
                term.text = near;
                break;
            }
        }
    }
    Ok(corrected)
}

fn may_be_mistyped(term: &QueryTerm) -> bool {
    term.commonness == Commonness::Content
        && term.text.len() >= SHORTEST
        && term.text.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Whether a document in scope has the term.
fn occurs(segments: &[Segment<'_>], text: Field, term: &str) -> tantivy::Result<bool> {
    for segment in segments {
        let index = segment.reader.inverted_index(text)?;
        let lookup = Term::from_field_text(text, term);
        let Some(mut postings) = index.read_postings(&lookup, tantivy::schema::IndexRecordOption::Basic)?
        else {
            continue;
        };
        while postings.doc() != TERMINATED {
            if segment.holds(postings.doc()) {
                return Ok(true);
            }
            postings.advance();
        }
    }
    Ok(false)
}

/// The nearest words of the vocabulary, of equally near ones the most frequent first.
fn nearest(
    segments: &[Segment<'_>],
    text: Field,
    typed: &str,
    comparisons: &mut usize,
) -> tantivy::Result<Vec<String>> {
    let most = if typed.len() < LONG { 1 } else { 2 };
    let first = typed.as_bytes().first().copied().unwrap_or_default();
    let mut near: Vec<(usize, u32, String)> = Vec::new();
    for segment in segments {
        let index = segment.reader.inverted_index(text)?;
        let mut words = index.terms().range().ge([first]).lt([first + 1]).into_stream()?;
        while *comparisons > 0 && words.advance() {
            *comparisons -= 1;
            let Ok(word) = std::str::from_utf8(words.key()) else { continue };
            if word.len().abs_diff(typed.len()) > most || !word.bytes().all(|byte| byte.is_ascii_lowercase())
            {
                continue;
            }
            let distance = edits(typed, word);
            if distance > most {
                continue;
            }
            let documents = words.value().doc_freq;
            match near.iter_mut().find(|(.., known)| known == word) {
                Some((_, known_documents, _)) => *known_documents += documents,
                None => near.push((distance, documents, word.to_owned())),
            }
        }
    }
    near.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then_with(|| a.2.cmp(&b.2)));
    Ok(near.into_iter().take(MOST_TRIED).map(|(.., word)| word).collect())
}

/// Insertions, deletions, substitutions and swaps of neighbours that make one word of another.
pub(super) fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (nth, letter) in from.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(nth + 1);
        for (place, other) in to.iter().enumerate() {
            let at = |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX / 2);
            let replaced = at(&row, place) + usize::from(letter != other);
            let mut least = replaced.min(at(&row, place + 1) + 1).min(at(&next, place) + 1);
            let swapped =
                place > 0 && nth > 0 && to.get(place - 1) == Some(letter) && from.get(nth - 1) == Some(other);
            if swapped {
                least = least.min(at(&before, place - 1) + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

/// The name that a mistyped one most likely means; `None` if none is near.
pub fn nearest_name<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let near = known.into_iter().map(|known| (edits(typed, known), known));
    let (edits, known) = near.min_by_key(|(edits, _)| *edits)?;
    (edits <= 3.min(known.chars().count() / 3)).then_some(known)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::edits;

    #[test]
    fn edits_are_counted() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("bugfx", "bugfix", 1),
            ("kitten", "sitting", 3),
            ("reciev", "receiv", 1),
            ("atribut", "attribut", 1),
            ("ba", "ab", 1),
        ] {
            assert_eq!(edits(from, to), expected, "{from} {to}");
        }
    }

    proptest! {
        #[test]
        fn a_distance_is_the_same_both_ways(from in "[a-c]{0,7}", to in "[a-c]{0,7}") {
            prop_assert_eq!(edits(&from, &to), edits(&to, &from));
            prop_assert_eq!(edits(&from, &from), 0);
            prop_assert!(edits(&from, &to) >= from.len().abs_diff(to.len()));
        }
    }
}
