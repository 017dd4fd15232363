//! Passages that are stored but not yet indexed. They are compared with a prompt by the same terms and weights as
//! those of the index, but without building one, which took four milliseconds per prompt.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;

use recall_domain::document::{Document, DocumentKey, Status};
use recall_domain::ids::{ProjectKey, SessionId};
use recall_domain::passage::{PassageKey, PassageMatch};

use super::schema::{conversation, passage_text};
use super::sums::{Sum, Summand, presence_of};
use super::tokenizer::CodeTokenizer;

/// A document whose passages were tokenized.
#[derive(Clone, Debug, PartialEq)]
pub struct FreshDocument {
    pub project: ProjectKey,
    pub session: SessionId,
    passages: Vec<FreshPassage>,
    /// The size of its texts in bytes.
    pub bytes: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct FreshPassage {
    /// All facts about the passage except how well it matches.
    facts: PassageMatch,
    status: Status,
    /// The frequency of each term in the passage.
    terms: HashMap<String, u32>,
    tokens: u64,
    /// The length, as the index encodes it.
    length: u8,
}

impl FreshDocument {
    pub fn of(document: &Document) -> Self {
        let conversation = conversation(document);
        let passages = document.passages.iter().zip(0..).map(|(passage, part)| {
            let mut terms: HashMap<String, u32> = HashMap::new();
            let tokens = CodeTokenizer::default().tokens(&passage_text(passage));
            let count = tokens.len();
            for token in tokens {
                *terms.entry(token.text).or_default() += 1;
            }
            let length = FieldNormReader::fieldnorm_to_id(u32::try_from(count).unwrap_or(u32::MAX));
            FreshPassage {
                facts: PassageMatch {
                    key: PassageKey { document: document.key, part },
                    at: document.at,
                    conversation,
                    importance: document.importance,
                    observation_type: document.observation_type,
                    length: FieldNormReader::id_to_fieldnorm(length),
                    strength: 0.0,
                    found: 0,
                    cosine: None,
                },
                status: document.status,
                terms,
                tokens: count as u64,
                length,
            }
        });
        Self {
            project: document.project.clone(),
            session: document.session.clone(),
            passages: passages.collect(),
            bytes: document.passages.iter().map(|passage| passage.text.len()).sum(),
        }
    }
}

/// The passages written after the index's high-water mark.
#[derive(Clone, Debug, Default)]
pub struct FreshPassages {
    /// The documents whose index entries are outdated.
    pub keys: HashSet<DocumentKey>,
    /// The documents that have passages for the request.
    pub documents: Vec<Arc<FreshDocument>>,
}

impl FreshPassages {
    fn passages(&self) -> impl Iterator<Item = &FreshPassage> {
        self.documents.iter().flat_map(|document| &document.passages)
    }

    /// The numbers of tokens and of passages.
    pub(super) fn size(&self) -> (u64, u32) {
        self.passages().fold((0, 0), |(tokens, passages), one| (tokens + one.tokens, passages + 1))
    }

    /// Prepares the passages for comparison.
    pub(super) fn weighed(&self, saturation: Vec<f32>) -> Weighed<'_> {
        Weighed { passages: self.passages().collect(), saturation }
    }
}

/// Fresh passages by number, with the saturation for each length.
pub(super) struct Weighed<'a> {
    passages: Vec<&'a FreshPassage>,
    saturation: Vec<f32>,
}

impl Weighed<'_> {
    pub(super) fn population(&self) -> usize {
        self.passages.len()
    }

    pub(super) fn frequency(&self, term: &str) -> u32 {
        self.passages.iter().map(|one| u32::from(one.terms.contains_key(term))).sum()
    }

    /// Returns the numbers of the passages with these keys.
    pub(super) fn near(&self, keys: &[PassageKey]) -> impl Iterator<Item = u32> {
        (0..).zip(&self.passages).filter(|(_, one)| keys.contains(&one.facts.key)).map(|(number, _)| number)
    }

    /// Returns the passages that contain a term, with the sum of their terms. `summands` are in the order of
    /// [`super::sums::Texts`], so that a text has the same sum here and in the index.
    pub(super) fn sums(&self, summands: &[Summand<'_>]) -> impl Iterator<Item = (u32, Sum)> {
        (0..).zip(&self.passages).map(|(number, one)| (number, self.sum(one, summands)))
    }

    fn sum(&self, passage: &FreshPassage, summands: &[Summand<'_>]) -> Sum {
        let saturation = self.saturation.get(usize::from(passage.length)).copied().unwrap_or_default();
        let mut sum = Sum::default();
        for term in summands {
            if let Some(frequency) = passage.terms.get(term.text) {
                sum.add(presence_of(*frequency as f32, saturation) * term.information, term.bit);
            }
        }
        sum
    }

    /// Returns the match. `None` for a passage that was superseded or resolved.
    pub(super) fn matched(&self, number: u32, sum: Sum, whole: f32) -> Option<PassageMatch> {
        let FreshPassage { facts, status, .. } = self.passages.get(usize::try_from(number).ok()?)?;
        (*status == Status::Active).then(|| PassageMatch {
            strength: sum.strength / whole.max(f32::MIN_POSITIVE),
            found: sum.found,
            ..facts.clone()
        })
    }
}
