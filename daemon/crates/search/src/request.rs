//! Requests to the index, and their results.

use std::collections::HashMap;

use jiff::tz::TimeZone;

use recall_domain::document::{DocumentKey, DocumentKind, Whose};
use recall_domain::ids::{ProjectKey, Timestamp};
use recall_domain::ranking::{Factors, TextFactors};

use super::query::Query;

/// Whether words without a match are replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// No; for texts that were not typed as a query.
    #[default]
    AsWritten,
    Forgiving,
}

/// A word of the query that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAs {
    pub typed: String,
    /// The replacement: a synonym, or a stem from the index.
    pub read: String,
}

/// A search.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    pub query: Query,
    pub scope: Scope,
    /// The kinds to search; empty means all.
    pub kinds: Vec<DocumentKind>,
    /// Excludes older documents, regardless of the query.
    pub since: Option<Timestamp>,
    /// The maximum number of hits; capped at [`SearchRequest::MOST_HITS`].
    pub limit: usize,
    pub now: Timestamp,
    /// The time zone in which the days of `since:` begin.
    pub zone: TimeZone,
    pub spelling: Spelling,
    /// The documents of each author that the query names. Supplied here because the index does not know authors.
    pub whose: HashMap<String, Whose>,
}

impl SearchRequest {
    /// The maximum number of hits of one search.
    pub const MOST_HITS: usize = 1_000;

    /// Builds a request for ten hits of every kind from all projects, in UTC.
    pub fn new(query: Query, now: Timestamp) -> Self {
        Self {
            query,
            scope: Scope::Everything,
            kinds: Vec::new(),
            since: None,
            limit: 10,
            now,
            zone: TimeZone::UTC,
            spelling: Spelling::AsWritten,
            whose: HashMap::new(),
        }
    }
}

/// The projects to search. Word statistics are taken inside the scope, because a word that is rare in one project may
/// be frequent in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Everything,
    Project(ProjectKey),
}

/// The answer to a [`SearchRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hits {
    /// Best first.
    pub hits: Vec<Hit>,
    /// The number of matching documents, whether returned or not.
    pub total: usize,
    /// Words that no document contains, with their replacements.
    pub read_as: Vec<ReadAs>,
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub key: DocumentKey,
    pub at: Timestamp,
    pub score: f32,
    /// The probability that the document is about the question, from 0 to 1. Comparable between searches, see
    /// [`recall_domain::ranking::relevance`].
    pub relevance: f32,
    /// The factors of the score.
    pub factors: Factors,
    /// The names of the sources that found the document, with their parts. The fit is the sum of their fits.
    pub sources: Vec<(&'static str, SourceScore)>,
    /// The query's terms that the document has, as indexed.
    pub matched: Vec<String>,
    /// The query's terms that the document lacks.
    pub missing: Vec<String>,
}

/// One source's contribution to a document's score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourceScore {
    /// How well the document matches; 0 for not at all.
    pub fit: f32,
    /// The probability that the document is about the question, from 0 to 1.
    pub relevance: f32,
    /// The factors of the fit, if it comes from words.
    pub words: Option<TextFactors>,
    /// The cosine of the closest passage, if the fit comes from vectors.
    pub cosine: Option<f32>,
    /// One bit for each of the source's terms that the document contains.
    pub matched: u32,
}

impl Hit {
    /// Returns every factor of the score with its name in `--explain`.
    pub fn named_factors(&self) -> Vec<(&'static str, f32)> {
        // The fits of several sources are added; the fit of words alone is a product.
        let words = match self.sources.as_slice() {
            [(_, only)] => only.words,
            _ => None,
        };
        let fit = words.map_or_else(|| vec![("fit", self.factors.fit)], |words| words.named().to_vec());
        fit.into_iter().chain(self.factors.besides_fit()).collect()
    }
}
