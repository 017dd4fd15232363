//! Finds candidates by their words: one pass over the posting lists, then a second look at the best.
//!
//! Term by term, the strength and coverage of every document are summed in flat arrays. This is linear in the length
//! of the posting lists for every query, and yields the frequencies inside the scope, the scores and the total
//! together. Positions are read only for the best candidates.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Searcher, TERMINATED, Term};

use crate::memory::document::DocumentKey;
use crate::memory::ranking::{
    Commonness, Frequency, HIGHEST_TRAIT_FACTOR, TermField, TextMatch, information, relevance,
};

use super::filter::passage_count;
use super::populations::Populations;
use super::proximity::{Weighted, closeness};
use super::request::Request;
use super::request::Spelling;
use super::schema::Fields;
use super::segment::Segment;
use super::source::{Candidate, Candidates, Part};
use super::spelling;
use super::terms::{self, QueryTerm};
use super::weights::{factors, presence, text_factors};

/// Candidates that get the second look, unless more hits are asked for.
const CANDIDATES: usize = 200;

pub(super) fn evaluate(
    searcher: &Searcher,
    (fields, populations): (&Fields, &Populations),
    request: &Request,
) -> tantivy::Result<Candidates> {
    let wanted = terms::query_terms(&request.query);
    if wanted.is_empty() && !(request.query.words.is_empty() && request.query.phrases.is_empty()) {
        // The query contains only punctuation, which matches nothing.
        return Ok(Candidates::default());
    }
    let mut terms = terms::select(searcher, fields, wanted)?;
    let segments = Segment::open_all(searcher, (fields, populations), request)?;
    let read_as = match request.spelling {
        Spelling::AsWritten => Vec::new(),
        Spelling::Forgiving => spelling::correct(&segments, fields.text, &mut terms)?,
    };
    let tally = Tally::count(fields, &segments, &terms)?;
    let (best, total) = best_documents(&segments, &tally, request);
    let candidates = judged(fields, &segments, &tally, best, request)?;
    let terms = tally.terms.iter().map(|weighted| weighted.term.text.clone()).collect();
    Ok(Candidates { candidates, total, terms, read_as })
}

/// Of these documents, the first `most` that are in the request's scope and fulfil its conditions, as candidates.
pub(super) fn admitted(
    searcher: &Searcher,
    (fields, populations): (&Fields, &Populations),
    request: &Request,
    documents: impl Iterator<Item = (DocumentKey, Part)>,
    most: usize,
) -> tantivy::Result<Vec<Candidate>> {
    let segments = Segment::open_all(searcher, (fields, populations), request)?;
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

/// The sums of all documents, and the information of the terms.
struct Tally<'a> {
    terms: Vec<Weighted<'a>>,
    /// Strength and information of each document. Arrays of zeros cost nothing where no term is found.
    sums: Vec<[f32; 2]>,
    /// One bit for each term that a document has.
    found: Vec<u32>,
    /// The sum of a document that has every term.
    whole: f32,
}

impl<'a> Tally<'a> {
    fn count(fields: &Fields, segments: &[Segment<'_>], terms: &'a [QueryTerm]) -> tantivy::Result<Self> {
        let documents: usize = segments.iter().map(|segment| segment.reader.max_doc() as usize).sum();
        let mut tokens = 0;
        for segment in segments {
            tokens += segment.reader.inverted_index(fields.text)?.total_num_tokens();
        }
        let mut texts = 0;
        for segment in segments {
            texts += segment.reader.max_doc() - passage_count(segment.reader)?;
        }
        let average_length = if texts == 0 { 0.0 } else { tokens as f32 / texts as f32 };
        let population = segments.iter().map(Segment::size).sum::<usize>();
        let population = u32::try_from(population).unwrap_or(u32::MAX);
        let mut tally = Self {
            terms: Vec::new(),
            sums: vec![[0.0; 2]; documents],
            found: vec![0; documents],
            whole: 0.0,
        };
        let mut matches: Vec<(u32, f32)> = Vec::new();
        for (place, term) in terms.iter().enumerate().take(terms::MOST_TERMS) {
            matches.clear();
            for segment in segments {
                collect(fields, segment, term, average_length, &mut matches)?;
            }
            let frequency =
                Frequency { documents: u32::try_from(matches.len()).unwrap_or(u32::MAX), population };
            let information = information(frequency, term.commonness) * term.share;
            for (document, presence) in &matches {
                let document = *document as usize;
                if let (Some([strength, sum]), Some(found)) =
                    (tally.sums.get_mut(document), tally.found.get_mut(document))
                {
                    *strength += presence * information;
                    *sum += information;
                    *found |= 1 << place;
                }
            }
            tally.whole += information;
            tally.terms.push(Weighted { term, information });
        }
        Ok(tally)
    }

    fn found(&self, document: usize) -> u32 {
        self.found.get(document).copied().unwrap_or_default()
    }

    /// The text match without its evidence, see [`Self::with_evidence`].
    fn text_match(&self, document: usize, proximity: f32) -> TextMatch {
        if self.terms.is_empty() {
            // Only conditions were asked for. Every document that fulfils them matches fully but is evidence of
            // nothing.
            return TextMatch { strength: 1.0, coverage: 1.0, ..TextMatch::default() };
        }
        let [strength, information] = self.sums.get(document).copied().unwrap_or_default();
        let whole = self.whole.max(f32::MIN_POSITIVE);
        TextMatch {
            strength: (strength / whole).min(1.0),
            coverage: (information / whole).min(1.0),
            proximity,
            ..TextMatch::default()
        }
    }

    /// Adds the evidence of the found terms. Instructing words support a subject but are no evidence without one.
    fn with_evidence(&self, document: usize, text: TextMatch) -> TextMatch {
        let found = self.found(document);
        let (mut subject, mut support, mut missed) = (0.0, 0.0, 0.0);
        for (place, weighted) in self.terms.iter().enumerate() {
            let told = weighted.information.min(1.0);
            match (found >> place & 1, weighted.term.commonness) {
                (1, Commonness::Content) => subject += told,
                (1, Commonness::Command | Commonness::Function) => support += told,
                (_, Commonness::Content) => missed += told,
                (_, Commonness::Command | Commonness::Function) => {}
            }
        }
        if subject <= 0.0 {
            return text;
        }
        let evidence: f32 = subject + support;
        TextMatch { evidence, answered: evidence / (evidence + missed), ..text }
    }

    fn part(&self, document: usize, text: TextMatch) -> Part {
        let words = text_factors(text);
        let matched = self.found(document);
        Part { fit: words.fit(), relevance: relevance(text), words: Some(words), cosine: None, matched }
    }
}

/// Appends the documents with a term, and its presence in each.
fn collect(
    fields: &Fields,
    segment: &Segment<'_>,
    term: &QueryTerm,
    average_length: f32,
    matches: &mut Vec<(u32, f32)>,
) -> tantivy::Result<()> {
    let in_text = segment.reader.inverted_index(fields.text)?;
    let lookup = Term::from_field_text(fields.text, &term.text);
    let Some(mut postings) = in_text.read_postings(&lookup, IndexRecordOption::WithFreqs)? else {
        return Ok(());
    };
    let lookup = Term::from_field_text(fields.title, &term.text);
    let mut titles =
        segment.reader.inverted_index(fields.title)?.read_postings(&lookup, IndexRecordOption::Basic)?;
    let lengths = segment.reader.get_fieldnorms_reader(fields.text)?;
    while postings.doc() != TERMINATED {
        let doc = postings.doc();
        if segment.holds(doc) {
            let in_title =
                titles.as_mut().is_some_and(|titles| titles.doc().max(doc) == doc && titles.seek(doc) == doc);
            let place = if in_title { TermField::Title } else { TermField::Text };
            let length = FieldNormReader::id_to_fieldnorm(lengths.fieldnorm_id(doc));
            let presence = presence(postings.term_freq(), place, length, average_length);
            matches.push((segment.first + doc, presence));
        }
        postings.advance();
    }
    Ok(())
}

/// A document that may become a candidate.
#[derive(Clone, Copy)]
struct Ranked {
    /// What its score would be if its terms were nowhere adjacent.
    score: f32,
    segment: usize,
    doc: DocId,
}

impl Ord for Ranked {
    /// By score. Of equal ones the later document is less, so that the order is deterministic.
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

/// The best documents that fulfil all conditions, and the number of all that do.
fn best_documents(segments: &[Segment<'_>], tally: &Tally<'_>, request: &Request) -> (Vec<Ranked>, usize) {
    let most = request.limit.clamp(CANDIDATES, Request::MOST_HITS);
    let mut best: BinaryHeap<Reverse<Ranked>> = BinaryHeap::with_capacity(most + 1);
    let mut total = 0;
    // A phrase may consist of function words, which are not looked up. Its documents are known from the conditions.
    let any_text = tally.terms.is_empty() || !request.query.phrases.is_empty();
    for (place, segment) in segments.iter().enumerate() {
        let found = tally.found.iter().skip(segment.first as usize);
        for (doc, found) in (0..segment.reader.max_doc()).zip(found) {
            let fits = *found != 0 || any_text && segment.holds(doc);
            if !(fits && segment.conditions.admits(doc)) {
                continue;
            }
            let document = (segment.first + doc) as usize;
            total += 1;
            let text = tally.text_match(document, 0.0);
            let floor = if best.len() < most { None } else { best.peek().map(|Reverse(least)| least.score) };
            if floor.is_some_and(|floor| text.strength * HIGHEST_TRAIT_FACTOR <= floor) {
                continue;
            }
            let score = factors(text_factors(text).fit(), segment.traits(doc, request.now)).score();
            if floor.is_some_and(|floor| score <= floor) {
                continue;
            }
            best.push(Reverse(Ranked { score, segment: place, doc }));
            if best.len() > most {
                best.pop();
            }
        }
    }
    (best.into_iter().map(|Reverse(ranked)| ranked).collect(), total)
}

/// Looks at the candidates' positions, and says what each one's words come to.
fn judged(
    fields: &Fields,
    segments: &[Segment<'_>],
    tally: &Tally<'_>,
    mut best: Vec<Ranked>,
    request: &Request,
) -> tantivy::Result<Vec<Candidate>> {
    best.sort_unstable_by_key(|ranked| (ranked.segment, ranked.doc));
    let mut candidates: Vec<Candidate> = Vec::with_capacity(best.len());
    for group in best.chunk_by(|a, b| a.segment == b.segment) {
        let Some(segment) = group.first().and_then(|ranked| segments.get(ranked.segment)) else {
            continue;
        };
        let docs: Vec<DocId> = group.iter().map(|ranked| ranked.doc).collect();
        let close = closeness(segment.reader, fields, &tally.terms, &docs)?;
        for (doc, proximity) in docs.into_iter().zip(close) {
            let document = (segment.first + doc) as usize;
            let text = tally.with_evidence(document, tally.text_match(document, proximity));
            candidates.extend(segment.candidate(doc, request.now, tally.part(document, text)));
        }
    }
    Ok(candidates)
}
