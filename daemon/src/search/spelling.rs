//! Reads a word that no searched document has as the nearest word that one has.
//!
//! Only words that people type are read so, and only without a hit: a pasted text or an error code means what it says.

use tantivy::schema::Field;
use tantivy::{DocSet, TERMINATED, Term};

use crate::memory::ranking::Commonness;

use super::edit_distance::edits;
use super::request::ReadAs;
use super::segment::Segment;
use super::terms::QueryTerm;

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
