//! Finds candidates by their meaning: the passages whose vectors are close to the question's.
//!
//! All vectors of the searched project are compared, because a project has few: a hundred thousand take milliseconds,
//! and nothing is missed. The conditions of a request are the index's: it says which of the closest fulfil them.

use std::sync::Arc;

use crate::embedding::{Packed, cosine, pack, unpack};
use crate::memory::document::DocumentKey;
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

    /// Each document that is closer than by chance, the closest first.
    fn closest(&self, question: &Question) -> Vec<(DocumentKey, Closeness)> {
        if question.values.len() != self.dimensions || self.dimensions == 0 {
            return Vec::new();
        }
        let asked = Packed { scale: question.scale, values: &question.values };
        let passages = self.keys.iter().zip(&self.scales).zip(self.values.chunks_exact(self.dimensions));
        let mut documents: Vec<(DocumentKey, f32)> = Vec::new();
        for ((key, scale), values) in passages {
            let cosine = cosine(asked, Packed { scale: *scale, values });
            // The passages of a document follow each other.
            match documents.last_mut() {
                Some((last, best)) if last == key => *best = best.max(cosine),
                _ => documents.push((*key, cosine)),
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

/// The vector of a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    scale: f32,
    values: Vec<i8>,
}

impl Question {
    pub fn new(vector: &[f32]) -> Self {
        let (scale, values) = unpack(&pack(vector), vector.len()).next().unwrap_or_default();
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
}
