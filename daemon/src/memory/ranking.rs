//! How good a memory is as an answer: arithmetic only.
//!
//! Two numbers with two purposes. The **score** orders results: what the text says, times factors for what sort of
//! memory it is, how old, how important, whether it still holds and how near it lies to the work at hand. Factors
//! multiply, so that none of them can lift a text that does not match, and each can be shown on its own
//! (`--explain`). The **relevance** decides whether a memory is worth saying unasked. It is built from what the
//! words tell rather than from the score, lies between 0 and 1 and means the same in a small project and a large
//! one.

use super::document::{DocumentKind, Status};
use super::observation::Importance;

/// BM25's saturation of repeated words: the usual value.
const K1: f32 = 1.2;
/// BM25's discount for long texts: the usual value. Tool output is long and says each thing rarely.
const B: f32 = 0.75;
/// How often a word counts that stands in the title, on top of its place in the text.
const TITLE_REPEATS: f32 = 2.0;

/// How many documents' worth of general expectation are mixed with what was counted: enough that a project of a few
/// documents does not take every word for a rare one, and nothing beside a large one.
const EXPECTED_DOCUMENTS: f32 = 1_000.0;

/// How common a word is in any project, known before counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Commonness {
    /// Holds sentences together: "the", "why".
    Function,
    /// Steers an agent: "run", "tests", "please".
    Command,
    /// May name a subject.
    Content,
}

impl Commonness {
    /// The share of all documents such a word is expected in.
    fn expected_share(self) -> f32 {
        match self {
            Self::Function => 0.6,
            Self::Command => 0.25,
            Self::Content => 0.002,
        }
    }
}

/// How often a term occurs among the documents that were searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequency {
    /// Documents with the term.
    pub documents: u32,
    /// All documents.
    pub population: u32,
}

/// What seeing a term tells, 0 (nothing) to 1: its inverse document frequency as a share of the highest there could
/// be, from the count and the general expectation together.
pub fn information(frequency: Frequency, commonness: Commonness) -> f32 {
    let population = frequency.population as f32 + EXPECTED_DOCUMENTS;
    let documents = frequency.documents.min(frequency.population) as f32
        + EXPECTED_DOCUMENTS * commonness.expected_share();
    let highest = inverse_frequency(0.0, population);
    (inverse_frequency(documents, population) / highest).clamp(0.0, 1.0)
}

fn inverse_frequency(documents: f32, population: f32) -> f32 {
    (1.0 + (population - documents + 0.5).max(0.0) / (documents + 0.5)).ln()
}

/// How strongly a term speaks in one document, 0 to 1: BM25's term factor.
///
/// `length` and `average_length` are counted in terms; an average of 0 stands for an empty index.
pub fn presence(in_text: u32, place: Place, length: u32, average_length: f32) -> f32 {
    let repeats = match place {
        Place::Text => 0.0,
        Place::Title => TITLE_REPEATS,
    };
    let frequency = in_text as f32 + repeats;
    let relative_length = if average_length > 0.0 { length as f32 / average_length } else { 1.0 };
    frequency / (frequency + K1 * (1.0 - B + B * relative_length))
}

/// Where a term was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Text,
    /// In the title, which is part of the text.
    Title,
}

/// How well a document's text fits the query.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextMatch {
    /// [`presence`] of each term weighted with its information, as a share of what there could be: 0 to 1.
    pub strength: f32,
    /// The information of the terms found, as a share of the query's: 0 to 1.
    pub coverage: f32,
    /// The information found, in terms that tell everything: 0 to the number of terms.
    pub evidence: f32,
    /// How many of the query's neighbouring words are neighbours here too: 0 to 1.
    pub proximity: f32,
}

/// How a document lies to the work at hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    #[default]
    Elsewhere,
    /// A session on the same branch.
    SameBranch,
    /// It is about a file that is being worked on.
    SameFile,
}

/// What a document is, apart from its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traits {
    pub kind: DocumentKind,
    pub status: Status,
    pub importance: Importance,
    /// Milliseconds.
    pub age: i64,
    pub nearness: Nearness,
}

/// The parts of a score. Their product is the score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// 0 to 1, from the words alone.
    pub text: f32,
    pub coverage: f32,
    pub proximity: f32,
    pub kind: f32,
    pub recency: f32,
    pub importance: f32,
    pub status: f32,
    pub nearness: f32,
}

/// No product of the factors that need no text exceeds this; a search may skip what cannot reach its results.
pub const HIGHEST_TRAIT_FACTOR: f32 = 2.0 * 1.15 * 1.15 * 1.4;

impl Factors {
    pub fn new(text: TextMatch, traits: Traits) -> Self {
        Self {
            text: text.strength,
            coverage: 0.5 + 0.5 * text.coverage,
            proximity: 1.0 + 0.5 * text.proximity,
            kind: kind_factor(traits.kind),
            recency: recency_factor(traits.age),
            importance: 1.0 + 0.03 * (f32::from(traits.importance.get()) - 5.0),
            status: status_factor(traits.status),
            nearness: nearness_factor(traits.nearness),
        }
    }

    pub fn score(&self) -> f32 {
        self.named().iter().map(|(_, factor)| factor).product()
    }

    /// The part of the score that no text is needed for.
    pub fn of_traits(&self) -> f32 {
        self.kind * self.recency * self.importance * self.status * self.nearness
    }

    /// Every factor with the name it is explained by.
    pub fn named(&self) -> [(&'static str, f32); 8] {
        [
            ("text", self.text),
            ("coverage", self.coverage),
            ("proximity", self.proximity),
            ("kind", self.kind),
            ("recency", self.recency),
            ("importance", self.importance),
            ("status", self.status),
            ("nearness", self.nearness),
        ]
    }
}

/// What was concluded and said outweighs what was merely done: raw tool output mentions every word once.
fn kind_factor(kind: DocumentKind) -> f32 {
    match kind {
        DocumentKind::Observation => 2.0,
        DocumentKind::Response => 1.8,
        DocumentKind::Summary | DocumentKind::Prompt => 1.6,
        DocumentKind::Plan => 1.5,
        DocumentKind::Activity => 1.0,
    }
}

/// Halves every thirty days, from +15 % for what has just happened to nothing for what is old. Old knowledge is
/// still knowledge: age decides between equals.
fn recency_factor(age: i64) -> f32 {
    const HALF_LIFE_DAYS: f32 = 30.0;
    const DAY: f32 = 86_400_000.0;
    1.0 + 0.15 * (-(age.max(0) as f32) / DAY / HALF_LIFE_DAYS).exp2()
}

fn status_factor(status: Status) -> f32 {
    match status {
        Status::Active => 1.0,
        Status::Resolved => 0.8,
        Status::Superseded => 0.4,
    }
}

fn nearness_factor(nearness: Nearness) -> f32 {
    match nearness {
        Nearness::Elsewhere => 1.0,
        Nearness::SameBranch => 1.15,
        Nearness::SameFile => 1.4,
    }
}

/// Evidence at which half of the doubt is gone, in terms that tell everything.
const HALF_EVIDENCE: f32 = 0.8;

/// How sure one can be that a text is about what was asked, 0 to 1.
///
/// It needs both: enough evidence in itself (a single everyday word is no topic) and a fair share of what was asked
/// (three words of a long prompt are chance).
pub fn relevance(text: TextMatch) -> f32 {
    let evidence = 1.0 - (-text.evidence.max(0.0) / HALF_EVIDENCE).exp2();
    (evidence * text.coverage.clamp(0.0, 1.0).sqrt()).clamp(0.0, 1.0)
}

/// From this relevance on a memory may be given unasked.
pub const RELEVANCE_FLOOR: f32 = 0.5;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 86_400_000;

    fn plain() -> Traits {
        Traits {
            kind: DocumentKind::Observation,
            status: Status::Active,
            importance: Importance::clamped(5),
            age: 0,
            nearness: Nearness::Elsewhere,
        }
    }

    fn full() -> TextMatch {
        TextMatch { strength: 0.8, coverage: 1.0, evidence: 1.5, proximity: 1.0 }
    }

    /// Expects the first to score higher than the second with the same text.
    #[track_caller]
    fn check_order(higher: Traits, lower: Traits) {
        let (higher, lower) = (Factors::new(full(), higher), Factors::new(full(), lower));
        assert!(higher.score() > lower.score(), "{higher:?} against {lower:?}");
    }

    #[test]
    fn each_trait_orders_what_the_text_leaves_equal() {
        check_order(plain(), Traits { kind: DocumentKind::Activity, ..plain() });
        check_order(
            Traits { kind: DocumentKind::Response, ..plain() },
            Traits { kind: DocumentKind::Prompt, ..plain() },
        );
        check_order(plain(), Traits { age: 60 * DAY, ..plain() });
        check_order(Traits { importance: Importance::clamped(9), ..plain() }, plain());
        check_order(plain(), Traits { status: Status::Resolved, ..plain() });
        check_order(
            Traits { status: Status::Resolved, ..plain() },
            Traits { status: Status::Superseded, ..plain() },
        );
        check_order(Traits { nearness: Nearness::SameBranch, ..plain() }, plain());
        check_order(
            Traits { nearness: Nearness::SameFile, ..plain() },
            Traits { nearness: Nearness::SameBranch, ..plain() },
        );
    }

    #[test]
    fn no_trait_lifts_a_text_that_does_not_match() {
        let best = Traits { importance: Importance::clamped(10), nearness: Nearness::SameFile, ..plain() };
        assert_eq!(Factors::new(TextMatch::default(), best).score(), 0.0);
    }

    #[test]
    fn rare_words_tell_more_than_common_ones() {
        let tell =
            |documents, commonness| information(Frequency { documents, population: 1_000 }, commonness);
        assert!(tell(1, Commonness::Content) > tell(100, Commonness::Content));
        assert!(tell(100, Commonness::Content) > tell(900, Commonness::Content));
        assert!(tell(1, Commonness::Content) > tell(1, Commonness::Command));
        assert!(tell(1, Commonness::Command) > tell(1, Commonness::Function));
    }

    #[test]
    fn relevance_does_not_depend_on_the_size_of_the_memory() {
        // The same share of documents has the word, in a memory of a hundred and in one of a hundred thousand.
        let at = |population| {
            let word = information(Frequency { documents: population / 50, population }, Commonness::Content);
            relevance(TextMatch { coverage: 1.0, evidence: 2.0 * word, ..TextMatch::default() })
        };
        assert!((at(100) - at(100_000)).abs() < 0.25, "{} against {}", at(100), at(100_000));
    }

    #[test]
    fn relevance_needs_evidence_and_coverage() {
        for (coverage, evidence, told) in [
            (1.0, 1.5, true),   // two telling words, both found
            (1.0, 0.75, true),  // one telling word, found
            (0.5, 0.75, false), // one of two
            (1.0, 0.4, false),  // "run the tests"
            (0.1, 0.8, false),  // one word of a long prompt
            (0.3, 3.0, true),   // a good part of a long prompt
            (0.0, 0.0, false),
        ] {
            let relevance = relevance(TextMatch { coverage, evidence, ..TextMatch::default() });
            assert_eq!(relevance >= RELEVANCE_FLOOR, told, "{coverage} {evidence}: {relevance}");
        }
    }

    fn any_traits() -> impl Strategy<Value = Traits> {
        let kinds = proptest::sample::select(DocumentKind::ALL.map(|(kind, ..)| kind).to_vec());
        let statuses = proptest::sample::select(Status::ALL.map(|(status, _)| status).to_vec());
        let nearness =
            proptest::sample::select(vec![Nearness::Elsewhere, Nearness::SameBranch, Nearness::SameFile]);
        (kinds, statuses, nearness, any::<i64>(), any::<i64>()).prop_map(
            |(kind, status, nearness, importance, age)| Traits {
                kind,
                status,
                importance: Importance::clamped(importance),
                age,
                nearness,
            },
        )
    }

    proptest! {
        #[test]
        fn traits_stay_within_their_bound(traits in any_traits()) {
            let of_traits = Factors::new(full(), traits).of_traits();
            prop_assert!(of_traits > 0.0 && of_traits <= HIGHEST_TRAIT_FACTOR + 1e-4);
        }

        #[test]
        fn every_number_stays_in_its_range(
            documents in any::<u32>(), population in any::<u32>(), repeats in any::<u32>(), length in any::<u32>(),
            average in 0.0f32..1e6, coverage in -1.0f32..2.0, evidence in -1.0f32..1e6,
        ) {
            for commonness in [Commonness::Function, Commonness::Command, Commonness::Content] {
                let information = information(Frequency { documents, population }, commonness);
                prop_assert!((0.0..=1.0).contains(&information));
            }
            for place in [Place::Text, Place::Title] {
                prop_assert!((0.0..=1.0).contains(&presence(repeats, place, length, average)));
            }
            let relevance = relevance(TextMatch { coverage, evidence, ..TextMatch::default() });
            prop_assert!((0.0..=1.0).contains(&relevance));
        }
    }
}
