//! How much each part of a match counts in a search, where measuring asked for more or less than
//! [`crate::memory::ranking`] says. `docs/search.md` has the figures.

use crate::memory::document::DocumentKind;
use crate::memory::ranking::{DocumentTraits, Factors, TermField, TextFactors, TextMatch};

/// BM25's saturation of repeated words, at its usual value.
const K1: f32 = 1.2;
/// BM25's length normalisation. Less than usual: a long answer is long because it explains.
const B: f32 = 0.3;
/// Extra occurrences that a word in the title counts for.
const TITLE_REPEATS: f32 = 2.0;
/// The bonus when all words of the query are adjacent as in the query.
const PROXIMITY_WEIGHT: f32 = 1.0;
/// Prompts count as much as answers: they say what the user wanted, often in the words of the question.
const PROMPT: f32 = 2.2;

/// How prominent a term is in one document, 0 to 1: BM25's term factor.
///
/// `length` and `average_length` are counted in terms. An average of 0 stands for an empty index.
pub(super) fn presence(in_text: u32, place: TermField, length: u32, average_length: f32) -> f32 {
    let repeats = match place {
        TermField::Text => 0.0,
        TermField::Title => TITLE_REPEATS,
    };
    let frequency = in_text as f32 + repeats;
    let relative_length = if average_length > 0.0 { length as f32 / average_length } else { 1.0 };
    frequency / (frequency + K1 * (1.0 - B + B * relative_length))
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
        | DocumentKind::Activity => factors,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::document::Status;
    use crate::memory::observation::Importance;
    use crate::memory::ranking::HIGHEST_TRAIT_FACTOR;

    #[test]
    fn no_kind_exceeds_the_bound_by_which_documents_are_skipped() {
        for (kind, ..) in DocumentKind::ALL {
            let best =
                DocumentTraits { kind, status: Status::Active, importance: Importance::clamped(10), age: 0 };
            assert!(factors(1.0, best).of_traits() <= HIGHEST_TRAIT_FACTOR + 1e-4, "{kind:?}");
        }
    }

    proptest! {
        #[test]
        fn presence_grows_with_repeats_and_stays_in_its_range(
            repeats in 1u32..1_000, length in 1u32..100_000, average in 1.0f32..10_000.0,
        ) {
            let once = presence(repeats, TermField::Text, length, average);
            let more = presence(repeats + 1, TermField::Text, length, average);
            let titled = presence(repeats, TermField::Title, length, average);
            prop_assert!(0.0 < once && once < more && more < titled && titled < 1.0);
        }
    }
}
