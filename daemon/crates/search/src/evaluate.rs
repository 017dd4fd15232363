//! Finds candidates by words: one pass over the posting lists, then a closer comparison of the best.
//!
//! The first step counts each term's frequency inside the scope, which determines the term's weight. The second sums
//! the terms of every document that can be among the best, see [`super::sums`]. Both are linear in the length of the
//! posting lists, and yield exact scores and an exact total. Positions are read only for the best candidates.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Searcher, TERMINATED};

use recall_domain::document::DocumentKey;
use recall_domain::ids::Timestamp;
use recall_domain::ranking::{
    Commonness, Frequency, HIGHEST_TRAIT_FACTOR, TextMatch, information, relevance,
};

use super::proximity::{Weighted, closeness};
use super::request::Spelling;
use super::request::{SearchRequest, SourceScore};
use super::schema::Fields;
use super::segment::Segment;
use super::segment_cache::SegmentCache;
use super::source::{Candidate, Candidates};
use super::spelling;
use super::sums::{Passed, Ranking, Sum, Summand, Texts};
use super::terms::{self, QueryTerm};
use super::weights::{WEIGHING, factors, text_factors};

/// The number of candidates that are compared closely, unless more hits are requested.
const CANDIDATES: usize = 200;

pub(super) fn evaluate(
    searcher: &Searcher,
    fields: &Fields,
    cache: &SegmentCache,
    request: &SearchRequest,
) -> tantivy::Result<Candidates> {
    let wanted = terms::query_terms(&request.query);
    if wanted.is_empty() && !(request.query.words.is_empty() && request.query.phrases.is_empty()) {
        // The query contains only punctuation, which matches nothing.
        return Ok(Candidates::default());
    }
    let mut terms = terms::select(searcher, fields, wanted)?;
    let segments = Segment::open_all(searcher, fields, cache, request)?;
    let read_as = match request.spelling {
        Spelling::AsWritten => Vec::new(),
        Spelling::Forgiving => spelling::correct(&segments, fields.text, &mut terms)?,
    };
    let texts = open_texts(fields, &segments)?;
    let terms = Terms::count(&texts, &terms)?;
    let (best, total) = best_documents(&segments, &texts, &terms, request)?;
    let candidates = judged(fields, &segments, &terms, best, request)?;
    let terms = terms.all.iter().map(|weighted| weighted.term.text.clone()).collect();
    Ok(Candidates { candidates, total, terms, read_as })
}

/// The text of each segment, weighted for this query.
fn open_texts(fields: &Fields, segments: &[Segment<'_>]) -> tantivy::Result<Vec<Texts>> {
    let (mut tokens, mut texts) = (0, 0);
    for segment in segments {
        tokens += segment.reader.inverted_index(fields.text)?.total_num_tokens();
        texts += segment.with_text();
    }
    let average_length = if texts == 0 { 0.0 } else { tokens as f32 / texts as f32 };
    let open = |segment: &Segment<'_>| {
        let fields = (fields.text, Some(fields.title), segment.with_text());
        Texts::open(segment.reader, fields, segment.counted(), (WEIGHING, average_length))
    };
    segments.iter().map(open).collect()
}

/// Returns the first `most` of these documents that are in scope and satisfy the request's conditions, as candidates.
pub(super) fn admitted(
    searcher: &Searcher,
    (fields, cache): (&Fields, &SegmentCache),
    request: &SearchRequest,
    documents: impl Iterator<Item = (DocumentKey, SourceScore)>,
    most: usize,
) -> tantivy::Result<Vec<Candidate>> {
    let segments = Segment::open_all(searcher, fields, cache, request)?;
    let mut candidates = Vec::new();
    for (key, part) in documents {
        if candidates.len() >= most {
            break;
        }
        let term = fields.key_term(key);
        for segment in &segments {
            let keys = segment.reader.inverted_index(term.field())?;
            let Some(mut postings) = keys.read_postings(&term, IndexRecordOption::Basic)? else { continue };
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                let is_alive = segment.reader.alive_bitset().is_none_or(|alive| alive.is_alive(doc));
                if is_alive && segment.holds(doc) && segment.conditions.admits(doc) {
                    candidates.extend(segment.candidate(doc, request.now, part));
                }
                postings.advance();
            }
        }
    }
    Ok(candidates)
}

/// The terms with their information inside the scope.
struct Terms<'a> {
    all: Vec<Weighted<'a>>,
    /// The sum for a document that has every term.
    whole: f32,
}

impl<'a> Terms<'a> {
    fn count(texts: &[Texts], terms: &'a [QueryTerm]) -> tantivy::Result<Self> {
        let population = texts.iter().map(Texts::population).sum::<usize>();
        let population = u32::try_from(population).unwrap_or(u32::MAX);
        let mut counted = Self { all: Vec::new(), whole: 0.0 };
        for term in terms.iter().take(terms::MOST_TERMS) {
            let mut documents: u32 = 0;
            for text in texts {
                documents = documents.saturating_add(text.frequency(&term.text)?);
            }
            let information = information(Frequency { documents, population }, term.commonness) * term.share;
            counted.whole += information;
            counted.all.push(Weighted { term, information });
        }
        Ok(counted)
    }

    fn summands(&self) -> Vec<Summand<'_>> {
        let weighted = self.all.iter().zip(0..);
        let summands = weighted.map(|(one, place)| Summand {
            text: &one.term.text,
            information: one.information,
            bit: 1_u32.checked_shl(place).unwrap_or(0),
        });
        summands.collect()
    }

    /// The share of the query's information that a document's terms have, from 0 to 1. If the query has only
    /// conditions, every document that satisfies them matches fully.
    fn share(&self, strength: f32) -> f32 {
        if self.all.is_empty() { 1.0 } else { (strength / self.whole.max(f32::MIN_POSITIVE)).min(1.0) }
    }

    /// The text match without its evidence; see [`Self::with_evidence`].
    fn text_match(&self, sum: Sum, proximity: f32) -> TextMatch {
        if self.all.is_empty() {
            // Without terms there is no evidence.
            return TextMatch { strength: self.share(0.0), coverage: 1.0, ..TextMatch::default() };
        }
        let found = self.all.iter().enumerate().filter(|(place, _)| sum.found >> place & 1 == 1);
        let information: f32 = found.map(|(_, weighted)| weighted.information).sum();
        let whole = self.whole.max(f32::MIN_POSITIVE);
        TextMatch {
            strength: self.share(sum.strength),
            coverage: (information / whole).min(1.0),
            proximity,
            ..TextMatch::default()
        }
    }

    /// Adds the evidence of the found terms. Instructions support a subject but are not evidence on their own.
    fn with_evidence(&self, found: u32, text: TextMatch) -> TextMatch {
        let (mut subject, mut support, mut missed) = (0.0, 0.0, 0.0);
        for (place, weighted) in self.all.iter().enumerate() {
            let information = weighted.information.min(1.0);
            match (found >> place & 1, weighted.term.commonness) {
                (1, Commonness::Content) => subject += information,
                (1, Commonness::Command | Commonness::Function) => support += information,
                (_, Commonness::Content) => missed += information,
                (_, Commonness::Command | Commonness::Function) => {}
            }
        }
        if subject <= 0.0 {
            return text;
        }
        let evidence: f32 = subject + support;
        TextMatch { evidence, answered: evidence / (evidence + missed), ..text }
    }

    fn part(&self, matched: u32, text: TextMatch) -> SourceScore {
        let words = text_factors(text);
        SourceScore {
            fit: words.fit(),
            relevance: relevance(text),
            words: Some(words),
            cosine: None,
            matched,
        }
    }
}

/// A document that may become a candidate.
#[derive(Clone, Copy)]
struct Ranked {
    /// The score it would have without adjacent terms.
    score: f32,
    segment: usize,
    doc: DocId,
    sum: Sum,
}

impl Ord for Ranked {
    /// Compares by score. On a tie the later document is less, so that the order is deterministic.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then_with(|| (other.segment, other.doc).cmp(&(self.segment, self.doc)))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

/// Returns the best documents that satisfy all conditions, and the number of all such documents.
fn best_documents(
    segments: &[Segment<'_>],
    texts: &[Texts],
    terms: &Terms<'_>,
    request: &SearchRequest,
) -> tantivy::Result<(Vec<Ranked>, usize)> {
    let most = request.limit.clamp(CANDIDATES, SearchRequest::MOST_HITS);
    // A phrase may consist only of function words, which are not looked up. The conditions select its documents.
    let any_text = terms.all.is_empty() || !request.query.phrases.is_empty();
    let passed = if any_text { Passed::All } else { Passed::WithATerm };
    let summands = terms.summands();
    let mut best = Best { most, heap: BinaryHeap::with_capacity(most + 1), floor: None, total: 0 };
    if !terms.all.is_empty() {
        for (place, (segment, text)) in segments.iter().zip(texts).enumerate() {
            add_by_hand((place, segment, text), (terms, summands.as_slice()), request.now, &mut best)?;
        }
    }
    for (place, (segment, text)) in segments.iter().zip(texts).enumerate() {
        let mut ranking = SegmentRanking { best: &mut best, place, segment, terms, now: request.now };
        text.sum(&summands, 0..text.max_doc(), passed, &mut ranking)?;
    }
    Ok((best.heap.into_iter().map(|Reverse(ranked)| ranked).collect(), best.total))
}

/// Adds documents with a matching term that a person wrote or pinned. They are few, and they rank above the bounds by
/// which others are skipped.
fn add_by_hand(
    (place, segment, text): (usize, &Segment<'_>, &Texts),
    (terms, summands): (&Terms<'_>, &[Summand<'_>]),
    now: Timestamp,
    best: &mut Best,
) -> tantivy::Result<()> {
    let counts = |doc: &DocId| segment.holds(*doc) && segment.conditions.admits(*doc);
    let docs: Vec<DocId> = segment.by_hand.iter().copied().filter(counts).collect();
    for (doc, sum) in docs.iter().zip(text.sums_of(&docs, summands)?) {
        if sum.found != 0 {
            let fit = text_factors(terms.text_match(sum, 0.0)).fit();
            let score = factors(fit, segment.traits(*doc, now)).score();
            best.add(Ranked { score, segment: place, doc: *doc, sum });
        }
    }
    Ok(())
}

/// The best documents so far.
struct Best {
    most: usize,
    heap: BinaryHeap<Reverse<Ranked>>,
    /// The lowest score in the list once it is full.
    floor: Option<f32>,
    /// The number of documents counted.
    total: usize,
}

impl Best {
    fn add(&mut self, ranked: Ranked) {
        self.heap.push(Reverse(ranked));
        if self.heap.len() > self.most {
            self.heap.pop();
            self.floor = self.heap.peek().map(|Reverse(worst)| worst.score);
        }
    }
}

struct SegmentRanking<'a, 's> {
    best: &'a mut Best,
    place: usize,
    segment: &'a Segment<'s>,
    terms: &'a Terms<'a>,
    now: Timestamp,
}

impl Ranking for SegmentRanking<'_, '_> {
    fn wants(&self, strength: f32) -> bool {
        let Some(floor) = self.best.floor else { return true };
        let share = self.terms.share(strength);
        // A term contributes at most its information, so the found terms cover at least the strength.
        let text = TextMatch { strength: share, coverage: share, ..TextMatch::default() };
        text_factors(text).fit() * HIGHEST_TRAIT_FACTOR > floor
    }

    fn visit(&mut self, doc: DocId, sum: Sum) {
        if !self.segment.conditions.admits(doc) {
            return;
        }
        self.best.total += 1;
        // The document was already added, or has no term.
        let is_known = !self.terms.all.is_empty() && self.segment.by_hand.binary_search(&doc).is_ok();
        if is_known && sum.found != 0 {
            return;
        }
        let floor = self.best.floor.unwrap_or(f32::NEG_INFINITY);
        // The cheapest bound comes first, because it excludes most documents.
        if self.terms.share(sum.strength) * HIGHEST_TRAIT_FACTOR <= floor {
            return;
        }
        let fit = text_factors(self.terms.text_match(sum, 0.0)).fit();
        if fit * HIGHEST_TRAIT_FACTOR <= floor {
            return;
        }
        let score = factors(fit, self.segment.traits(doc, self.now)).score();
        if score > floor {
            self.best.add(Ranked { score, segment: self.place, doc, sum });
        }
    }

    fn pass(&mut self, doc: DocId) {
        if self.segment.conditions.admits(doc) {
            self.best.total += 1;
        }
    }
}

/// Reads the candidates' positions and rates their words.
fn judged(
    fields: &Fields,
    segments: &[Segment<'_>],
    terms: &Terms<'_>,
    mut best: Vec<Ranked>,
    request: &SearchRequest,
) -> tantivy::Result<Vec<Candidate>> {
    best.sort_unstable_by_key(|ranked| (ranked.segment, ranked.doc));
    let mut candidates: Vec<Candidate> = Vec::with_capacity(best.len());
    for group in best.chunk_by(|a, b| a.segment == b.segment) {
        let Some(segment) = group.first().and_then(|ranked| segments.get(ranked.segment)) else {
            continue;
        };
        let docs: Vec<DocId> = group.iter().map(|ranked| ranked.doc).collect();
        let close = closeness(segment.reader, fields, &terms.all, &docs)?;
        for (Ranked { doc, sum, .. }, proximity) in group.iter().zip(close) {
            let text = terms.with_evidence(sum.found, terms.text_match(*sum, proximity));
            candidates.extend(segment.candidate(*doc, request.now, terms.part(sum.found, text)));
        }
    }
    Ok(candidates)
}
