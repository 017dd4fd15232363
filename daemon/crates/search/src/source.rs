//! Sources of candidates.
//!
//! A source finds the documents that may answer a request, each with a calibrated part of its score: a fit and a
//! relevance that mean the same whichever source they come from. [`super::fusion`] combines the parts into one result.

use recall_domain::document::DocumentKey;
use recall_domain::ids::Timestamp;
use recall_domain::ranking::{DocumentTraits, TextFactors};

use super::error::IndexError;
use super::request::ReadAs;
use super::request::Request;

/// One way to find candidates.
pub trait CandidateSource {
    /// The source's name in `--explain`.
    fn name(&self) -> &'static str;

    /// The best candidates that fulfil the request's conditions, in an order that is the same in each search.
    ///
    /// # Errors
    /// When the source cannot be read.
    fn candidates(&self, request: &Request) -> Result<Candidates, IndexError>;
}

/// The results of one source.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    pub candidates: Vec<Candidate>,
    /// The number of matching documents, whether they are candidates or not.
    pub total: usize,
    /// The terms that [`Part::matched`] refers to.
    pub terms: Vec<String>,
    /// Words that no document contains, and what was searched for instead.
    pub read_as: Vec<ReadAs>,
}

/// A document that may answer a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub key: DocumentKey,
    pub at: Timestamp,
    /// The same number for all documents of a session.
    pub conversation: u64,
    pub traits: DocumentTraits,
    pub part: Part,
}

/// One source's rating of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// How well the document matches, 0 for not at all.
    pub fit: f32,
    /// How likely the document is about the question, 0 to 1.
    pub relevance: f32,
    /// The factors of the fit, if it comes from words.
    pub words: Option<TextFactors>,
    /// The cosine of the closest passage, if the fit comes from vectors.
    pub cosine: Option<f32>,
    /// The terms that the document contains: one bit for each of [`Candidates::terms`].
    pub matched: u32,
}

impl Candidates {
    /// The terms of a part.
    pub fn matched(&self, part: Part) -> impl Iterator<Item = &String> {
        let has = move |place: usize| {
            let bit = u32::try_from(place).ok().and_then(|place| 1_u32.checked_shl(place));
            bit.is_some_and(|bit| part.matched & bit != 0)
        };
        self.terms.iter().enumerate().filter(move |(place, _)| has(*place)).map(|(_, term)| term)
    }
}
