//! Finds candidates by their meaning: the passages whose vectors are close to the question's.
//!
//! All vectors of the searched project are compared, because a project has few: a hundred thousand take milliseconds,
//! and nothing is missed. The conditions of a request are the index's: it says which of the closest fulfil them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::embedding::{Packed, cosine, pack, unpack};
use crate::memory::document::DocumentKey;
use crate::memory::passage::{PassageKey, PassageMatches};
use crate::memory::ranking::{Background, Closeness};

use super::error::IndexError;
use super::index::Index;
use super::request::Request;
use super::source::{CandidateSource, Candidates, Part};

/// Candidates of one search, unless more hits are asked for.
const CANDIDATES: usize = 200;
/// Documents whose conditions are looked at.
const LOOKED_AT: usize = 2_000;

/// The vectors of the documents of a project, or of all.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    dimensions: usize,
    keys: Vec<DocumentKey>,
    scales: Vec<f32>,
    /// One after the other.
    values: Vec<i8>,
}

impl Vectors {
    pub fn new(dimensions: usize) -> Self {
        Self { dimensions, ..Self::default() }
    }

    /// Adds the vectors of a document's passages, as they are stored.
    pub fn add(&mut self, key: DocumentKey, packed: &[u8]) {
        for (scale, values) in unpack(packed, self.dimensions) {
            self.keys.push(key);
            self.scales.push(scale);
            self.values.extend(values);
        }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.values.len() + self.keys.len() * (size_of::<DocumentKey>() + size_of::<f32>())
    }

    /// The cosine of each passage and the question; none if they are of different models.
    pub fn cosines(&self, question: &Question) -> Cosines {
        let mut cosines = Cosines { background: Background::of(std::iter::empty()), of: HashMap::new() };
        let mut last: Option<PassageKey> = None;
        for (document, cosine) in self.each(question) {
            // The passages of a document follow each other.
            let part = last.filter(|last| last.document == document).map_or(0, |last| last.part + 1);
            let key = PassageKey { document, part };
            last = Some(key);
            cosines.of.insert(key, cosine);
        }
        cosines.background = Background::of(cosines.of.values().copied());
        cosines
    }

    /// The document and the cosine of each passage.
    fn each(&self, question: &Question) -> impl Iterator<Item = (DocumentKey, f32)> {
        let is_comparable = self.dimensions > 0 && question.values.len() == self.dimensions;
        let compared = if is_comparable { self.keys.len() } else { 0 };
        let passages = self.keys.iter().zip(&self.scales).zip(self.values.chunks(self.dimensions.max(1)));
        passages.take(compared).map(|((key, scale), values)| {
            let asked = Packed { scale: question.scale, values: &question.values };
            (*key, cosine(asked, Packed { scale: *scale, values }))
        })
    }

    /// Each document that is closer than by chance, the closest first.
    fn closest(&self, question: &Question) -> Vec<(DocumentKey, Closeness)> {
        let mut documents: Vec<(DocumentKey, f32)> = Vec::new();
        for (key, cosine) in self.each(question) {
            // The passages of a document follow each other.
            match documents.last_mut() {
                Some((last, best)) if *last == key => *best = best.max(cosine),
                _ => documents.push((key, cosine)),
            }
        }
        let background = Background::of(documents.iter().map(|(_, cosine)| *cosine));
        let judged = documents.into_iter().map(|(key, cosine)| (key, Closeness { cosine, background }));
        let mut closest: Vec<_> = judged.filter(|(_, closeness)| closeness.fit() > 0.0).collect();
        closest.sort_unstable_by(|(a_key, a), (b_key, b)| {
            b.cosine.total_cmp(&a.cosine).then_with(|| a_key.cmp(b_key))
        });
        closest
    }
}

/// How close the passages of a project are to a prompt.
#[derive(Clone, Debug)]
pub struct Cosines {
    of: HashMap<PassageKey, f32>,
    background: Background,
}

impl Cosines {
    /// The closest passages, the closest first.
    pub fn closest(&self, most: usize) -> Vec<PassageKey> {
        let mut all: Vec<(PassageKey, f32)> = self.of.iter().map(|(key, cosine)| (*key, *cosine)).collect();
        let order =
            |a: &(PassageKey, f32), b: &(PassageKey, f32)| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0));
        if most > 0 && most < all.len() {
            all.select_nth_unstable_by(most - 1, order);
        }
        all.truncate(most);
        all.sort_unstable_by(order);
        all.into_iter().map(|(key, _)| key).collect()
    }

    /// Says of each match how close it is.
    pub fn note(&self, matches: &mut PassageMatches) {
        matches.background = Some(self.background);
        for one in &mut matches.matches {
            one.cosine = self.of.get(&one.key).copied();
        }
    }
}

/// The vector of a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    scale: f32,
    values: Vec<i8>,
}

impl Question {
    pub fn new(vector: &[f32]) -> Self {
        Self::packed(&pack(vector), vector.len())
    }

    /// Of a vector as it is stored.
    pub fn packed(packed: &[u8], dimensions: usize) -> Self {
        let (scale, values) = unpack(packed, dimensions).next().unwrap_or_default();
        Self { scale, values }
    }
}

/// The source for one question.
pub struct Meaning<'a> {
    pub index: &'a Index,
    pub question: Question,
    pub vectors: Arc<Vectors>,
}

impl CandidateSource for Meaning<'_> {
    fn name(&self) -> &'static str {
        "meaning"
    }

    fn candidates(&self, request: &Request) -> Result<Candidates, IndexError> {
        let closest = self.vectors.closest(&self.question);
        let parts = closest.into_iter().take(LOOKED_AT).map(|(key, closeness)| {
            let part = Part {
                fit: closeness.fit(),
                relevance: closeness.relevance(),
                words: None,
                cosine: Some(closeness.cosine),
                matched: 0,
            };
            (key, part)
        });
        let most = request.limit.clamp(CANDIDATES, Request::MOST_HITS);
        let candidates = self.index.admitted(request, parts, most)?;
        // How many documents mean the same is a matter of degree: the total stays the number of those with the words.
        Ok(Candidates { total: 0, candidates, terms: Vec::new(), read_as: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::document::DocumentKind;

    fn key(row: i64) -> DocumentKey {
        DocumentKey { kind: DocumentKind::Response, row }
    }

    #[test]
    fn a_document_is_as_close_as_its_closest_passage() {
        let mut vectors = Vectors::new(2);
        vectors.add(key(1), &[pack(&[0.0, 1.0]), pack(&[1.0, 0.0])].concat());
        vectors.add(key(2), &pack(&[0.8, 0.6]));
        vectors.add(key(3), &[]);
        vectors.add(key(4), &pack(&[0.0, 1.0]));
        assert_eq!((vectors.len(), vectors.bytes() > 8, vectors.is_empty()), (4, true, false));
        let closest = vectors.closest(&Question::new(&[1.0, 0.0]));
        let found: Vec<_> = closest.iter().map(|(key, it)| (key.row, (it.cosine * 10.0).round())).collect();
        assert_eq!(found, [(1, 10.0), (2, 8.0)]);
        // Vectors of another model cannot be compared.
        assert_eq!(vectors.closest(&Question::new(&[1.0, 0.0, 0.0])), []);
        assert_eq!(Vectors::new(0).closest(&Question::new(&[])), []);
    }

    #[test]
    fn each_passage_has_its_own_cosine() {
        let mut vectors = Vectors::new(2);
        vectors.add(key(1), &[pack(&[0.0, 1.0]), pack(&[1.0, 0.0])].concat());
        vectors.add(key(2), &pack(&[0.8, 0.6]));
        let cosines = vectors.cosines(&Question::new(&[1.0, 0.0]));
        let part = |row, part| PassageKey { document: key(row), part };
        assert_eq!(cosines.closest(2), [part(1, 1), part(2, 0)]);
        assert_eq!(cosines.closest(9).len(), 3);
        assert_eq!(vectors.cosines(&Question::new(&[1.0])).closest(9), []);
    }
}
