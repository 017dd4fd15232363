//! Sources of candidates: documents for a search, passages for a prompt.
//!
//! For a search, a source gives each document a calibrated part of its score: a fit and a relevance that mean the same
//! for every source. For a prompt, it names passages and adds what it knows about each passage that any source found;
//! learned models judge the result ([`recall_domain::injection`]). [`super::fusion`] combines the sources. Searches
//! and prompts use the same sources, so a new source needs only a file that implements this trait, and a line where
//! the sources are listed.

use recall_domain::document::DocumentKey;
use recall_domain::ids::Timestamp;
use recall_domain::passage::{PassageKey, PassageMatches};
use recall_domain::ranking::DocumentTraits;

use super::error::IndexError;
use super::request::{ReadAs, SearchRequest, SourceScore};

/// One way to find candidates.
pub trait CandidateSource {
    /// The source's name in `--explain`.
    fn name(&self) -> &'static str;

    /// Returns the best candidates that satisfy the request's conditions, in a deterministic order.
    ///
    /// # Errors
    /// Fails when the source cannot be read.
    fn candidates(&self, request: &SearchRequest) -> Result<Candidates, IndexError>;

    /// Returns passages that may answer the prompt, best first, at most `most`. The index already finds passages by
    /// words.
    fn passages(&self, most: usize) -> Vec<PassageKey> {
        let _ = most;
        Vec::new()
    }

    /// Adds what the source knows about passages, whichever source found them.
    fn describe(&self, matches: &mut PassageMatches) {
        let _ = matches;
    }
}

/// The results of one source.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    pub candidates: Vec<Candidate>,
    /// The number of matching documents, including those that are not candidates.
    pub total: usize,
    /// The terms that [`SourceScore::matched`] refers to.
    pub terms: Vec<String>,
    /// Words that no document contains, with their replacements.
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
    pub part: SourceScore,
}

impl Candidates {
    /// Returns the matched terms of a part.
    pub fn matched(&self, part: SourceScore) -> impl Iterator<Item = &String> {
        let has = move |place: usize| {
            let bit = u32::try_from(place).ok().and_then(|place| 1_u32.checked_shl(place));
            bit.is_some_and(|bit| part.matched & bit != 0)
        };
        self.terms.iter().enumerate().filter(move |(place, _)| has(*place)).map(|(_, term)| term)
    }
}
