//! Replaces a word that no searched document contains with one that some do: a synonym or else the nearest spelling.
//!
//! Only typed words are replaced, and only if they have no match: pasted text and error codes are meant literally.

use tantivy::schema::Field;
use tantivy::{DocSet, TERMINATED, Term};

use recall_domain::ranking::Commonness;

use super::edit_distance::edits;
use super::near_words;
use super::request::ReadAs;
use super::segment::Segment;
use super::terms::QueryTerm;

/// Shorter words have too many similar words.
const SHORTEST: usize = 4;
/// From this length on, two edits count as one typo.
const LONG: usize = 8;
/// The maximum number of words replaced per query.
const MOST_CORRECTED: usize = 4;
/// The maximum number of vocabulary words compared per search.
const MOST_COMPARED: usize = 200_000;
/// The number of nearest words that are looked up in the searched documents.
const MOST_TRIED: usize = 8;

/// Replaces terms that no document in scope contains. Linear in the number of words with the same first letter.
pub(super) fn correct(
    segments: &[Segment<'_>],
    text: Field,
    terms: &mut [QueryTerm],
) -> tantivy::Result<Vec<ReadAs>> {
    let mut corrected = Vec::new();
    let mut comparisons = MOST_COMPARED;
    let known: Vec<String> = terms.iter().map(|term| term.text.clone()).collect();
    let may_be = |stem: &str| -> tantivy::Result<bool> {
        Ok(!known.iter().any(|term| term == stem) && occurs(segments, text, stem)?)
    };
    for term in terms.iter_mut() {
        if corrected.len() == MOST_CORRECTED || !is_word(term) || occurs(segments, text, &term.text)? {
            continue;
        }
        // A word of the language is unlikely to be a typo.
        let meant = near_words::of(&term.text).map(|(stem, word)| (stem, word.to_owned()));
        let mut share = near_words::SHARE;
        let mut read = first(meant, may_be)?;
        if read.is_none() && term.text.len() >= SHORTEST {
            let near = nearest(segments, text, &term.text, &mut comparisons)?.into_iter();
            share = 1.0;
            read = first(near.map(|word| (word.clone(), word)), may_be)?;
        }
        if let Some((stem, word)) = read {
            corrected.push(ReadAs { typed: term.typed.clone(), read: word });
            term.text = stem;
            term.share *= share;
        }
    }
    Ok(corrected)
}

/// Returns the first of these stems and words that occurs in scope.
fn first(
    words: impl Iterator<Item = (String, String)>,
    may_be: impl Fn(&str) -> tantivy::Result<bool>,
) -> tantivy::Result<Option<(String, String)>> {
    for (stem, word) in words {
        if may_be(&stem)? {
            return Ok(Some((stem, word)));
        }
    }
    Ok(None)
}

fn is_word(term: &QueryTerm) -> bool {
    term.commonness == Commonness::Content && term.text.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Whether a document in scope contains the term.
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

/// Returns the nearest words of the vocabulary. Ties go to the more frequent word.
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
