//! The weights of a search where measurements called for values other than those of [`recall_domain::ranking`].
//! `docs/search.md` has the figures.

use recall_domain::document::DocumentKind;
use recall_domain::ranking::{DocumentTraits, Factors, TextFactors, TextMatch};

use super::sums::Weighing;

/// BM25's saturation of repeated words, at its usual value.
const K1: f32 = 1.2;
/// BM25's length normalisation. Less than usual, because a long answer explains much.
const B: f32 = 0.3;
/// BM25's length normalisation of passages, at its usual value: among passages that state the same fact, the shorter
/// one is more about it.
const B_OF_PASSAGES: f32 = 0.75;
/// The number of extra occurrences that a word in the title counts for.
const TITLE_REPEATS: f32 = 2.0;
/// The bonus if all words of the query are adjacent as in the query.
const PROXIMITY_WEIGHT: f32 = 1.0;
/// The factor for prompts. They count as much as answers, because they contain what the user wanted, often in the
/// question's own words.
const PROMPT: f32 = 2.2;

/// The factor for a call's closeness in meaning. Only the beginning of a call has vectors, and a model that learned from
/// sentences places commands and output further from a question than prose that answers it equally well.
const MEANING_OF_CALL: f32 = 2.5;

/// The factor for the fit of a match by meaning.
pub(super) fn meaning_factor(kind: DocumentKind) -> f32 {
    match kind {
        DocumentKind::Activity => MEANING_OF_CALL,
        DocumentKind::Prompt
        | DocumentKind::Observation
        | DocumentKind::Response
        | DocumentKind::Summary
        | DocumentKind::Plan
        | DocumentKind::Compaction
        | DocumentKind::ReceivedText => 1.0,
    }
}

/// The BM25 parameters for a document.
pub(super) const WEIGHING: Weighing = Weighing {
    saturation: |length, average_length| saturation(length, average_length, B),
    title_repeats: TITLE_REPEATS,
};
/// The BM25 parameters for a passage.
pub(super) const WEIGHING_OF_PASSAGES: Weighing = Weighing {
    saturation: |length, average_length| saturation(length, average_length, B_OF_PASSAGES),
    title_repeats: 0.0,
};

/// The number of occurrences at which a term reaches half of its weight in a text of this length, as in BM25.
///
/// `length` and `average_length` are counted in terms. An average of 0 means an empty index.
fn saturation(length: u32, average_length: f32, normalisation: f32) -> f32 {
    let relative_length = if average_length > 0.0 { length as f32 / average_length } else { 1.0 };
    K1 * (1.0 - normalisation + normalisation * relative_length)
}

/// The factors of a text's fit.
pub(super) fn text_factors(text: TextMatch) -> TextFactors {
    TextFactors { proximity: 1.0 + PROXIMITY_WEIGHT * text.proximity, ..TextFactors::new(text) }
}

/// The factors of a document's score, before its neighbours in time are known.
pub(super) fn factors(fit: f32, traits: DocumentTraits) -> Factors {
    let factors = Factors::new(fit, traits);
    match traits.kind {
        DocumentKind::Prompt => Factors { kind: PROMPT, ..factors },
        DocumentKind::Observation
        | DocumentKind::Response
        | DocumentKind::Summary
        | DocumentKind::Plan
        | DocumentKind::Compaction
        | DocumentKind::ReceivedText
        | DocumentKind::Activity => factors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::document::Status;
    use recall_domain::observation::{Importance, Maker};
    use recall_domain::ranking::HIGHEST_TRAIT_FACTOR;

    #[test]
    fn no_document_kind_exceeds_the_bound_used_for_skipping() {
        for (kind, ..) in DocumentKind::ALL {
            let best = DocumentTraits {
                kind,
                status: Status::Active,
                importance: Importance::clamped(10),
                maker: Maker::Machine,
                age: 0,
            };
            assert!(factors(1.0, best).of_traits() <= HIGHEST_TRAIT_FACTOR + 1e-4, "{kind:?}");
        }
    }
}
