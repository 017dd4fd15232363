//! Finds candidates by meaning: passages whose vectors are close to the question's.
//!
//! All vectors of the searched projects are compared, which takes milliseconds and misses nothing. The index then
//! decides which of the closest documents satisfy the request's conditions.

use std::cell::OnceCell;
use std::collections::HashMap;

use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::passage::{PassageKey, PassageMatches};
use recall_domain::ranking::{Background, Closeness};
use recall_embedding::Compared;

use super::error::IndexError;
use super::index::Index;
use super::request::{SearchRequest, SourceScore};
use super::source::{CandidateSource, Candidates};
use super::weights::meaning_factor;

pub use super::vectors::Vectors;
pub use recall_embedding::Compared as Question;

/// The maximum number of candidates, unless more hits are requested.
const CANDIDATES: usize = 200;
/// The number of documents that are checked against the conditions.
const LOOKED_AT: usize = 2_000;
/// Row numbers are first compared by their lowest bits; this is the number of values of those bits.
const ROWS: usize = 1 << 16;

impl Vectors {
    /// Computes how close each passage is to a prompt; empty if their models differ. Calls are excluded: a search
    /// finds them, but the models that decide what to inject were trained without them.
    fn cosines(&self, question: &Compared) -> Cosines {
        let mut values = self.values(question);
        for (value, key) in values.iter_mut().zip(self.keys()) {
            if key.document.kind == DocumentKind::Activity {
                *value = f32::NAN;
            }
        }
        let background = Background::of(values.iter().copied().filter(|cosine| !cosine.is_nan()));
        Cosines { vectors: self.clone(), values, background }
    }

    /// Returns the documents that are closer than chance, closest first, at most `most`.
    fn closest(&self, question: &Compared, most: usize) -> Vec<(DocumentKey, Closeness)> {
        // The index of the record that identifies the document, and the value of the document's closest passage.
        let mut documents: Vec<(usize, f32)> = Vec::new();
        let mut last = None;
        let cosines = self.values(question);
        for ((number, cosine), key) in cosines.into_iter().enumerate().zip(self.keys()) {
            if cosine.is_nan() {
                continue;
            }
            // The passages of a document are adjacent.
            match documents.last_mut() {
                Some((_, best)) if last == Some(key.document) => *best = best.max(cosine),
                _ => documents.push((number, cosine)),
            }
            last = Some(key.document);
        }
        let background = Background::of(documents.iter().map(|(_, cosine)| *cosine));
        documents.retain(|(_, cosine)| Closeness { cosine: *cosine, background }.fit() > 0.0);
        let closest = highest(documents.into_iter(), most);
        let key = |number: usize| self.key(number).map(|key| key.document);
        let mut closest: Vec<_> = closest
            .into_iter()
            .filter_map(|(number, cosine)| Some((key(number)?, Closeness { cosine, background })))
            .collect();
        closest.sort_unstable_by(|(a_key, a), (b_key, b)| {
            b.cosine.total_cmp(&a.cosine).then_with(|| a_key.cmp(b_key))
        });
        closest
    }
}

/// Returns the `most` highest values with their indexes, unordered.
fn highest(values: impl Iterator<Item = (usize, f32)>, most: usize) -> Vec<(usize, f32)> {
    let order = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0));
    let mut best: Vec<(usize, f32)> = Vec::new();
    let mut floor = f32::NEG_INFINITY;
    let cut = |best: &mut Vec<(usize, f32)>| {
        if best.len() > most && most > 0 {
            best.select_nth_unstable_by(most - 1, order);
        }
        best.truncate(most);
    };
    for (number, value) in values {
        if value >= floor {
            best.push((number, value));
        }
        // Sorting only occasionally keeps the cost per value low.
        if best.len() >= 4 * most + 1_024 {
            cut(&mut best);
            floor = best.iter().fold(f32::INFINITY, |floor, (_, value)| floor.min(*value));
        }
    }
    cut(&mut best);
    best
}

/// The closeness of a project's passages to a prompt.
struct Cosines {
    vectors: Vectors,
    values: Vec<f32>,
    background: Background,
}

impl Cosines {
    /// Returns the closest passages, closest first.
    fn closest(&self, most: usize) -> Vec<PassageKey> {
        let values = self.values.iter().copied().enumerate().filter(|(_, cosine)| !cosine.is_nan());
        let mut closest: Vec<_> = highest(values, most)
            .into_iter()
            .filter_map(|(number, cosine)| Some((self.vectors.key(number)?, cosine)))
            .collect();
        closest.sort_unstable_by(|(a_key, a), (b_key, b)| b.total_cmp(a).then_with(|| a_key.cmp(b_key)));
        closest.into_iter().map(|(key, _)| key).collect()
    }

    /// Sets the cosine in each match.
    fn note(&self, matches: &mut PassageMatches) {
        matches.background = Some(self.background);
        let place = |row: i64| row.rem_euclid(ROWS as i64) as usize;
        let mut rows = vec![false; ROWS];
        let mut wanted: HashMap<PassageKey, Option<f32>> = HashMap::new();
        for one in &matches.matches {
            wanted.insert(one.key, None);
            if let Some(row) = rows.get_mut(place(one.key.document.row)) {
                *row = true;
            }
        }
        for (key, cosine) in self.vectors.keys().zip(&self.values) {
            if !cosine.is_nan()
                && rows.get(place(key.document.row)) == Some(&true)
                && let Some(found) = wanted.get_mut(&key)
            {
                *found = Some(*cosine);
            }
        }
        for one in &mut matches.matches {
            one.cosine = wanted.get(&one.key).copied().flatten();
        }
    }
}

/// The source for a single question.
pub struct Meaning<'a> {
    index: &'a Index,
    question: Compared,
    vectors: Vectors,
    /// The cosines of the passages, which only prompts need.
    cosines: OnceCell<Cosines>,
}

impl<'a> Meaning<'a> {
    pub fn new(index: &'a Index, question: Compared, vectors: Vectors) -> Self {
        Self { index, question, vectors, cosines: OnceCell::new() }
    }

    fn cosines(&self) -> &Cosines {
        self.cosines.get_or_init(|| self.vectors.cosines(&self.question))
    }
}

impl CandidateSource for Meaning<'_> {
    fn name(&self) -> &'static str {
        "meaning"
    }

    fn candidates(&self, request: &SearchRequest) -> Result<Candidates, IndexError> {
        let closest = self.vectors.closest(&self.question, LOOKED_AT);
        let parts = closest.into_iter().map(|(key, closeness)| {
            let part = SourceScore {
                fit: closeness.fit() * meaning_factor(key.kind),
                relevance: closeness.relevance(),
                words: None,
                cosine: Some(closeness.cosine),
                matched: 0,
            };
            (key, part)
        });
        let most = request.limit.clamp(CANDIDATES, SearchRequest::MOST_HITS);
        let candidates = self.index.admitted(request, parts, most)?;
        // Closeness in meaning is gradual, so the total counts only documents that contain the words.
        Ok(Candidates { total: 0, candidates, terms: Vec::new(), read_as: Vec::new() })
    }

    fn passages(&self, most: usize) -> Vec<PassageKey> {
        self.cosines().closest(most)
    }

    fn describe(&self, matches: &mut PassageMatches) {
        self.cosines().note(matches);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::parse;
    use recall_domain::document::{Document, Status};
    use recall_domain::ids::{SessionId, Timestamp};
    use recall_domain::observation::{Importance, Maker};
    use recall_embedding::pack;

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
        let closest = vectors.closest(&Question::new(&[1.0, 0.0]), 9);
        let found: Vec<_> = closest.iter().map(|(key, it)| (key.row, (it.cosine * 10.0).round())).collect();
        assert_eq!(found, [(1, 10.0), (2, 8.0)]);
        assert_eq!(vectors.closest(&Question::new(&[1.0, 0.0]), 1)[0].0, key(1));
        // Vectors of another model cannot be compared.
        assert_eq!(vectors.closest(&Question::new(&[1.0, 0.0, 0.0]), 9), []);
        assert_eq!(Vectors::new(0).closest(&Question::new(&[]), 9), []);
    }

    #[test]
    fn each_passage_has_its_own_cosine() {
        let mut vectors = Vectors::new(2);
        vectors.add(key(1), &[pack(&[0.0, 1.0]), pack(&[1.0, 0.0])].concat());
        vectors.add(key(2), &pack(&[0.8, 0.6]));
        let cosines = vectors.cosines(&Question::new(&[1.0, 0.0]));
        let part = |row, part| PassageKey { document: key(row), part };
        assert_eq!(cosines.closest(2), [part(1, 1), part(2, 0)]);
        assert_eq!((cosines.closest(9).len(), cosines.closest(0)), (3, vec![]));
        assert_eq!(vectors.cosines(&Question::new(&[1.0])).closest(9), []);
        // A call is found by a search, but not injected.
        let call = DocumentKey { kind: DocumentKind::Activity, row: 3 };
        vectors.add(call, &pack(&[1.0, 0.0]));
        assert_eq!(vectors.cosines(&Question::new(&[1.0, 0.0])).closest(2), [part(1, 1), part(2, 0)]);
        assert!(vectors.closest(&Question::new(&[1.0, 0.0]), 2).iter().any(|(key, _)| *key == call));
    }

    #[test]
    fn a_call_scores_higher_than_an_equally_close_answer() {
        let document = |kind| Document {
            key: DocumentKey { kind, row: 1 },
            project: "path:/shop".into(),
            project_name: "shop".to_owned(),
            agent: "claude-code".into(),
            session: SessionId("s".to_owned()),
            observation_type: None,
            status: Status::Active,
            importance: Importance::clamped(5),
            maker: Maker::Machine,
            at: Timestamp(1),
            files: Vec::new(),
            title: String::new(),
            body: "make".to_owned(),
            passages: Vec::new(),
        };
        let documents = [DocumentKind::Response, DocumentKind::Activity].map(document);
        let index = Index::in_memory(&documents).unwrap();
        let mut vectors = Vectors::new(2);
        documents.iter().for_each(|document| vectors.add(document.key, &pack(&[1.0, 0.0])));
        let meaning = Meaning::new(&index, Question::new(&[1.0, 0.0]), vectors);
        let request = SearchRequest::new(parse("build"), Timestamp(1));
        let found = meaning.candidates(&request).unwrap().candidates;
        let fit = |kind| found.iter().find(|one| one.key.kind == kind).unwrap().part.fit;
        assert!(fit(DocumentKind::Activity) > fit(DocumentKind::Response) && found.len() == 2);
    }

    #[test]
    fn the_highest_of_many_values_are_found() {
        let value = |number: usize| ((number * 7_919) % 10_007) as f32;
        let mut expected: Vec<usize> = (0..10_007).collect();
        expected.sort_by(|a, b| value(*b).total_cmp(&value(*a)));
        for most in [1, 40, 2_000] {
            let found = highest((0..10_007).map(|number| (number, value(number))), most);
            let mut found: Vec<usize> = found.into_iter().map(|(number, _)| number).collect();
            found.sort_by(|a, b| value(*b).total_cmp(&value(*a)));
            assert_eq!(found, expected[..most], "{most}");
        }
    }
}
