//! Combines the findings of all sources into one result.
//!
//! In a search, a document found by several sources is one candidate. Its fit is the sum of their fits, because a
//! match of both words and meaning is better than one of either. Its relevance is the highest of any source. The
//! document's own traits and matches nearby in time are then applied.

use std::collections::HashMap;

use recall_domain::document::DocumentKey;
use recall_domain::ids::Timestamp;
use recall_domain::passage::{PassageKey, PassageMatches};
use recall_domain::ranking::{Factors, MomentWeight, surroundings};

use super::error::IndexError;
use super::fresh_passages::FreshPassages;
use super::index::Index;
use super::meaning::{Meaning, Question, Vectors};
use super::passages::PassageRequest;
use super::request::{Hit, Hits, SearchRequest, SourceScore};
use super::source::{Candidate, CandidateSource, Candidates};
use super::weights::factors;

/// The number of passages that each source may name for a prompt.
const NAMED: usize = 40;

/// Returns the sources other than words, for searches, prompts, and the program that trains the weights. A new source
/// is a line here. `compared` is the question with the vectors to compare it with.
pub fn other_sources(
    index: &Index,
    compared: Option<(Question, Vectors)>,
) -> Vec<Box<dyn CandidateSource + '_>> {
    let meaning = compared.map(|(question, vectors)| Meaning::new(index, question, vectors));
    meaning.into_iter().map(|meaning| Box::new(meaning) as _).collect()
}

/// Finds passages that may answer a prompt: the index by their words, and `others` by their own means.
///
/// # Errors
/// Fails when the index cannot be read.
pub fn search_passages(
    index: &Index,
    fresh: &FreshPassages,
    others: &[Box<dyn CandidateSource + '_>],
    request: &PassageRequest<'_>,
) -> Result<PassageMatches, IndexError> {
    let named: Vec<PassageKey> = others.iter().flat_map(|source| source.passages(NAMED)).collect();
    let mut found = index.passages(&PassageRequest { near: &named, ..*request }, fresh)?;
    others.iter().for_each(|source| source.describe(&mut found));
    Ok(found)
}

/// Searches with all sources.
///
/// # Errors
/// Fails when a source cannot be read.
pub fn search(sources: &[&dyn CandidateSource], request: &SearchRequest) -> Result<Hits, IndexError> {
    let mut found: Vec<Candidates> = Vec::with_capacity(sources.len());
    for source in sources {
        found.push(source.candidates(request)?);
    }
    let mut fused = fuse(&found);
    // Without a text, nothing matches better than anything else.
    if !(request.query.words.is_empty() && request.query.phrases.is_empty()) {
        let weight = match sources.len() {
            1 => MomentWeight::BY_WORDS,
            _ => MomentWeight::BY_WORDS_AND_MEANING,
        };
        apply_conversation_fit(&mut fused, weight);
    }
    let mut scored: Vec<(f32, Fused)> = fused.into_iter().map(|one| (one.factors.score(), one)).collect();
    scored.sort_by(|(a_score, a), (b_score, b)| {
        // Ties go to the newer document, then to the lower key, because the position in the index has no meaning.
        b_score
            .total_cmp(a_score)
            .then_with(|| b.candidate.at.cmp(&a.candidate.at))
            .then_with(|| a.candidate.key.cmp(&b.candidate.key))
    });
    scored.truncate(request.limit.min(SearchRequest::MOST_HITS));
    let hits: Vec<Hit> = scored.into_iter().map(|(score, one)| one.hit(score, sources, &found)).collect();
    let total = found.iter().map(|each| each.total).max().unwrap_or_default().max(hits.len());
    let read_as = found.into_iter().flat_map(|each| each.read_as).collect();
    Ok(Hits { hits, total, read_as })
}

/// A candidate with the parts from all its sources.
struct Fused {
    candidate: Candidate,
    /// The part of each source, with the source's index.
    parts: Vec<(usize, SourceScore)>,
    factors: Factors,
}

/// Lists every document once, in the order in which the sources name them.
fn fuse(found: &[Candidates]) -> Vec<Fused> {
    let mut fused: Vec<Fused> = Vec::with_capacity(found.first().map_or(0, |first| first.candidates.len()));
    for (source, candidates) in found.iter().enumerate() {
        // A source never names a document twice.
        let known: HashMap<DocumentKey, usize> =
            fused.iter().enumerate().map(|(place, one)| (one.candidate.key, place)).collect();
        for candidate in &candidates.candidates {
            match known.get(&candidate.key).and_then(|place| fused.get_mut(*place)) {
                Some(one) => one.blend(source, candidate.part),
                None => fused.push(Fused {
                    candidate: *candidate,
                    parts: vec![(source, candidate.part)],
                    factors: factors(candidate.part.fit, candidate.traits),
                }),
            }
        }
    }
    fused
}

impl Fused {
    /// Adds the part of another source.
    fn blend(&mut self, source: usize, part: SourceScore) {
        self.parts.push((source, part));
        let fit = self.parts.iter().map(|(_, part)| part.fit).sum();
        self.factors = factors(fit, self.candidate.traits);
    }

    fn hit(self, score: f32, sources: &[&dyn CandidateSource], found: &[Candidates]) -> Hit {
        let parts = || self.parts.iter().copied();
        let named = |(source, part): (usize, SourceScore)| Some((sources.get(source)?.name(), part));
        let matched = parts().filter_map(|(source, part)| Some(found.get(source)?.matched(part))).flatten();
        let matched: Vec<String> = matched.cloned().collect();
        // A source that did not find the document contributes no terms.
        let terms = parts().filter_map(|(source, _)| found.get(source)).flat_map(|each| &each.terms);
        let missing = terms.filter(|term| !matched.contains(term)).cloned().collect();
        Hit {
            key: self.candidate.key,
            at: self.candidate.at,
            score,
            relevance: parts().map(|(_, part)| part.relevance).fold(0.0, f32::max),
            factors: self.factors,
            sources: parts().filter_map(named).collect(),
            matched,
            missing,
        }
    }
}

/// Adds to each candidate the match of its neighbours in time in the same session. Leaves the candidates grouped by
/// session.
fn apply_conversation_fit(fused: &mut [Fused], weight: MomentWeight) {
    fused.sort_by_key(|one| (one.candidate.conversation, one.candidate.at));
    for group in fused.chunk_by_mut(|a, b| a.candidate.conversation == b.candidate.conversation) {
        let moments: Vec<(Timestamp, f32)> =
            group.iter().map(|one| (one.candidate.at, one.factors.fit)).collect();
        for (one, around) in group.iter_mut().zip(surroundings(&moments)) {
            one.factors = one.factors.amid(around, weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Opened;
    use crate::query::Query;
    use recall_domain::document::{Document, DocumentKind, Status};
    use recall_domain::ids::LogSeq;
    use recall_domain::observation::{Importance, Maker};
    use recall_domain::passage::cut;
    use recall_domain::ranking::DocumentTraits;

    const NOW: Timestamp = Timestamp(1_795_262_400_000);

    /// A source that finds given rows, fits and relevances.
    struct Made(&'static str, Vec<(i64, f32, f32)>);

    impl CandidateSource for Made {
        fn name(&self) -> &'static str {
            self.0
        }

        fn candidates(&self, request: &SearchRequest) -> Result<Candidates, IndexError> {
            let candidates = self.1.iter().map(|(row, fit, relevance)| Candidate {
                key: DocumentKey { kind: DocumentKind::Observation, row: *row },
                at: NOW,
                conversation: row.unsigned_abs(),
                traits: DocumentTraits {
                    kind: DocumentKind::Observation,
                    status: Status::Active,
                    importance: Importance::clamped(5),
                    maker: Maker::Machine,
                    age: request.now.since(NOW),
                },
                part: SourceScore { fit: *fit, relevance: *relevance, words: None, cosine: None, matched: 1 },
            });
            Ok(Candidates {
                candidates: candidates.collect(),
                total: self.1.len(),
                terms: vec![self.0.to_owned()],
                read_as: Vec::new(),
            })
        }
    }

    /// A source that names one passage of a prompt, and says of each that it is close.
    struct Named(PassageKey);

    impl CandidateSource for Named {
        fn name(&self) -> &'static str {
            "named"
        }

        fn candidates(&self, _request: &SearchRequest) -> Result<Candidates, IndexError> {
            Ok(Candidates::default())
        }

        fn passages(&self, _most: usize) -> Vec<PassageKey> {
            vec![self.0]
        }

        fn describe(&self, matches: &mut PassageMatches) {
            matches.matches.iter_mut().for_each(|one| one.cosine = Some(0.5));
        }
    }

    #[test]
    fn passages_from_all_sources_are_found_and_described_by_each_source() {
        let answer = |row: i64, body: &str| Document {
            key: DocumentKey { kind: DocumentKind::Response, row },
            project: "path:/shop".into(),
            project_name: "shop".to_owned(),
            agent: "claude-code".into(),
            session: "s".into(),
            observation_type: None,
            status: Status::Active,
            importance: Importance::clamped(5),
            maker: Maker::Machine,
            at: Timestamp(row),
            files: Vec::new(),
            title: String::new(),
            body: body.to_owned(),
            passages: cut(body),
        };
        let folder = tempfile::tempdir().unwrap();
        let Opened { index, mut writer } = Index::open(folder.path()).unwrap();
        for document in [answer(1, "The login is slow"), answer(2, "The cart is rounded up")] {
            writer.put(&document).unwrap();
        }
        writer.commit(LogSeq(1)).unwrap();
        let project = "path:/shop".into();
        let request =
            PassageRequest { prompt: "slow login", project: &project, except: None, limit: 9, near: &[] };
        let found = |others: &[Box<dyn CandidateSource>]| {
            let found = search_passages(&index, &FreshPassages::default(), others, &request).unwrap();
            found.matches.iter().map(|one| (one.key.document.row, one.cosine)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[]), [(1, None)]);
        let cart = PassageKey { document: answer(2, "").key, part: 0 };
        assert_eq!(found(&[Box::new(Named(cart))]), [(1, Some(0.5)), (2, Some(0.5))]);
    }

    fn searched(sources: &[&dyn CandidateSource]) -> Hits {
        search(sources, &SearchRequest::new(Query::plain("login"), NOW)).unwrap()
    }

    #[test]
    fn a_document_that_two_sources_found_is_one_hit() {
        let words = Made("words", vec![(1, 0.5, 0.6), (2, 0.4, 0.4)]);
        let meaning = Made("meaning", vec![(3, 0.3, 0.7), (2, 0.9, 0.3), (1, 0.1, 0.1)]);
        let hits = searched(&[&words, &meaning]);
        let rows: Vec<i64> = hits.hits.iter().map(|hit| hit.key.row).collect();
        assert_eq!((rows, hits.total), (vec![2, 1, 3], 3));
        let both = &hits.hits[0];
        // The fits add up, the highest relevance counts, and each source is named with its own part.
        assert_eq!((both.factors.fit, both.relevance), (0.4 + 0.9, 0.4));
        let parts: Vec<_> =
            both.sources.iter().map(|(name, part)| (*name, part.fit, part.relevance)).collect();
        assert_eq!(parts, [("words", 0.4, 0.4), ("meaning", 0.9, 0.3)]);
        assert_eq!(both.matched, ["words", "meaning"]);
        assert_eq!(both.named_factors()[0], ("fit", 0.4 + 0.9));
    }

    #[test]
    fn a_source_that_finds_nothing_changes_nothing() {
        let (words, silent) =
            (Made("words", vec![(1, 0.5, 0.6), (2, 0.5, 0.6)]), Made("meaning", Vec::new()));
        assert_eq!(searched(&[&words]), searched(&[&words, &silent]));
        assert_eq!(searched(&[&words]), searched(&[&silent, &words]));
        assert_eq!(searched(&[]), Hits::default());
    }
}
