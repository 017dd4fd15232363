//! Ranks search results. Pure arithmetic.
//!
//! There are two numbers. The **score** orders results: the fit, multiplied by factors for the kind of memory, its
//! age, its importance and its status. Because factors multiply, none of them can lift a text that does not match, and
//! each can be shown on its own (`--explain`). The **relevance** says how likely a document is about the question. It
//! is computed from the matched words instead of the score, is between 0 and 1, and means the same in a small project
//! and a large one.

use super::document::{DocumentKind, Status};
use super::ids::Timestamp;
use super::observation::{Importance, Maker};

/// The weight of the expected frequencies, in documents. In a small project it keeps ordinary words from counting as
/// rare; in a large one it is negligible.
const EXPECTED_DOCUMENTS: f32 = 1_000.0;

/// A distinctive word occurs in one of this many documents. The unit of [`information`].
const TELLING_FREQUENCY: f32 = 300.0;

/// The weight of matching all query words, on top of what each word adds.
const COVERAGE_WEIGHT: f32 = 0.4;
/// The bonus if all query words are adjacent as in the query.
const PROXIMITY_WEIGHT: f32 = 0.5;
/// How much a perfect match nearby in time adds. A question, the work on it and the answer share their subject but
/// rarely their words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MomentWeight(f32);

impl MomentWeight {
    pub const BY_WORDS: Self = Self(0.6);
    /// Lower, because a search by meaning also finds documents that share no word.
    pub const BY_WORDS_AND_MEANING: Self = Self(0.45);
}

/// The half-life of that bonus, in milliseconds.
const MOMENT_HALF_LIFE: f32 = 300_000.0;

/// The factor for what a person wrote or pinned.
const BY_HAND: f32 = 4.0;

/// How common a word is in general, before counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Commonness {
    /// Grammatical words: "the", "why".
    Function,
    /// Words that instruct an agent: "run", "tests", "please".
    Command,
    /// Words that may name a subject.
    Content,
}

impl Commonness {
    /// The expected share of documents that contain such a word.
    fn expected_share(self) -> f32 {
        match self {
            Self::Function => 0.6,
            Self::Command => 0.25,
            Self::Content => 0.01,
        }
    }
}

/// The number of searched documents that contain a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequency {
    /// The number of documents that contain the term.
    pub documents: u32,
    /// The number of all documents.
    pub population: u32,
}

/// A term's inverse document frequency, combined from the count and the expected frequency. A word that one document
/// in three hundred contains has information 1; 0 means none.
pub fn information(frequency: Frequency, commonness: Commonness) -> f32 {
    let population = frequency.population as f32 + EXPECTED_DOCUMENTS;
    let documents = frequency.documents.min(frequency.population) as f32
        + EXPECTED_DOCUMENTS * commonness.expected_share();
    let inverse = (1.0 + (population - documents + 0.5).max(0.0) / (documents + 0.5)).ln();
    inverse / TELLING_FREQUENCY.ln()
}

/// How well a document's text matches the query.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextMatch {
    /// BM25's factor of each term weighted by its information, as a share of the maximum, from 0 to 1.
    pub strength: f32,
    /// The information of the found terms, as a share of the query's, from 0 to 1.
    pub coverage: f32,
    /// The information found, with each term capped at one distinctive word: from 0 to the number of terms.
    pub evidence: f32,
    /// The share of the question that was found, from 0 to 1. Instructions are not required: "please look at bcrypt"
    /// asks for bcrypt.
    pub answered: f32,
    /// The share of the query's adjacent word pairs that are adjacent here too, from 0 to 1.
    pub proximity: f32,
}

/// The distribution of cosines between a project's texts and a question. What is close to every question answers none,
/// and a model's cosines mean different things for different questions; the distribution makes them comparable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Background {
    mean: f32,
    deviation: f32,
}

impl Background {
    /// The prior distribution, before counting, and its weight in documents.
    const USUAL: Self = Self { mean: 0.12, deviation: 0.12 };
    const WEIGHT: f32 = 30.0;

    /// Computes the distribution from one cosine per document.
    pub fn of(cosines: impl Iterator<Item = f32> + Clone) -> Self {
        let usual = Self::USUAL;
        let (count, sum) =
            cosines.clone().fold((Self::WEIGHT, Self::WEIGHT * usual.mean), |(count, sum), cosine| {
                (count + 1.0, sum + cosine)
            });
        let mean = sum / count;
        let usual_squares = Self::WEIGHT * usual.deviation * usual.deviation;
        let squares = cosines.fold(usual_squares, |sum, cosine| sum + (cosine - mean) * (cosine - mean));
        Self { mean, deviation: (squares / count).sqrt() }
    }
}

impl Background {
    /// How far a cosine is above the mean, in standard deviations.
    pub(crate) fn deviations(self, cosine: f32) -> f32 {
        (cosine - self.mean) / self.deviation.max(f32::MIN_POSITIVE)
    }
}

/// How close a document is to a question: the cosine between the question's vector and that of the closest passage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closeness {
    pub cosine: f32,
    pub background: Background,
}

/// Below this cosine texts have nothing in common, whatever the background, so that a question about nothing finds
/// nothing.
const NOTHING_IN_COMMON: f32 = 0.2;
/// The number of standard deviations above the mean that may be chance.
const CHANCE: f32 = 1.0;
/// The fit of each further standard deviation. The best answers have four or five, about as much as a good match of
/// words.
const DEVIATION_FIT: f32 = 0.06;
/// The cosines that count as relevance 0 and relevance 1.
const UNRELATED: f32 = 0.3;
const SAME: f32 = 0.9;

impl Closeness {
    /// The fit in the unit of [`TextFactors::fit`]; 0 for a document that is no closer than chance.
    pub fn fit(&self) -> f32 {
        let deviations = self.background.deviations(self.cosine);
        if self.cosine < NOTHING_IN_COMMON { 0.0 } else { DEVIATION_FIT * (deviations - CHANCE).max(0.0) }
    }

    /// How likely the document is about the question, from 0 to 1. Independent of the rest of the project.
    pub fn relevance(&self) -> f32 {
        ((self.cosine - UNRELATED) / (SAME - UNRELATED)).clamp(0.0, 1.0)
    }
}

/// The properties of a document other than its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DocumentTraits {
    pub kind: DocumentKind,
    pub status: Status,
    pub importance: Importance,
    pub maker: Maker,
    /// In milliseconds.
    pub age: i64,
}

/// The factors of a text match. The fit is their product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextFactors {
    /// From 0 to 1, from the words alone.
    pub text: f32,
    pub coverage: f32,
    pub proximity: f32,
}

impl TextFactors {
    pub fn new(text: TextMatch) -> Self {
        Self {
            text: text.strength,
            coverage: 1.0 - COVERAGE_WEIGHT + COVERAGE_WEIGHT * text.coverage,
            proximity: 1.0 + PROXIMITY_WEIGHT * text.proximity,
        }
    }

    pub fn fit(&self) -> f32 {
        self.text * self.coverage * self.proximity
    }

    /// Returns every factor with its name in `--explain`.
    pub fn named(&self) -> [(&'static str, f32); 3] {
        [("text", self.text), ("coverage", self.coverage), ("proximity", self.proximity)]
    }
}

/// The factors of a score. The score is their product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// How well the document itself matches; 0 for not at all.
    pub fit: f32,
    /// How well documents nearby in time in the same session match; 1 or more.
    pub moment: f32,
    pub kind: f32,
    pub recency: f32,
    pub importance: f32,
    pub status: f32,
    /// More than 1 if a person wrote or pinned the document.
    pub by_hand: f32,
}

/// An upper bound of the product of all factors except the fit, for documents made by machines. A search skips
/// documents that cannot reach its results.
pub const HIGHEST_TRAIT_FACTOR: f32 = 2.4 * 1.15 * 1.15;

impl Factors {
    pub fn new(fit: f32, traits: DocumentTraits) -> Self {
        Self {
            fit,
            moment: 1.0,
            kind: kind_factor(traits.kind),
            recency: recency_factor(traits.age),
            importance: 1.0 + 0.03 * (f32::from(traits.importance.get()) - 5.0),
            status: status_factor(traits.status),
            by_hand: hand_factor(traits.maker, traits.status),
        }
    }

    /// Adds the match of neighbours in time, computed by [`surroundings`].
    #[must_use]
    pub fn amid(mut self, surroundings: f32, weight: MomentWeight) -> Self {
        self.moment = if self.fit > 0.0 { 1.0 + weight.0 * surroundings / self.fit } else { 1.0 };
        self
    }

    pub fn score(&self) -> f32 {
        self.besides_fit().iter().fold(self.fit, |product, (_, factor)| product * factor)
    }

    /// The product of the factors that depend on the document alone.
    pub fn of_traits(&self) -> f32 {
        self.kind * self.recency * self.importance * self.status * self.by_hand
    }

    /// Returns every factor except the fit, with its name in `--explain`.
    pub fn besides_fit(&self) -> [(&'static str, f32); 6] {
        [
            ("moment", self.moment),
            ("kind", self.kind),
            ("recency", self.recency),
            ("importance", self.importance),
            ("status", self.status),
            ("by_hand", self.by_hand),
        ]
    }
}

/// Conclusions and messages outweigh actions: raw tool output mentions every word once.
fn kind_factor(kind: DocumentKind) -> f32 {
    match kind {
        DocumentKind::Observation => 2.4,
        DocumentKind::Response => 2.2,
        DocumentKind::Summary | DocumentKind::Plan | DocumentKind::Compaction => 1.8,
        DocumentKind::Prompt | DocumentKind::ReceivedText => 1.5,
        DocumentKind::Activity => 1.0,
    }
}

/// From +15 % for the newest down towards 0 %, half of it after thirty days. Old knowledge is still knowledge, so age
/// only decides between equals. A hyperbola is cheap, and this is computed for every match.
fn recency_factor(age: i64) -> f32 {
    const HALF_LIFE: f32 = 30.0 * 86_400_000.0;
    1.0 + 0.15 / (1.0 + age.max(0) as f32 / HALF_LIFE)
}

fn status_factor(status: Status) -> f32 {
    match status {
        Status::Active => 1.0,
        Status::Resolved => 0.8,
        Status::Superseded => 0.4,
    }
}

/// Ranks what a person wrote or pinned above everything that machines made with the same words: a machine's neighbours
/// in time, recency and proximity outweigh less than this factor. A partial match still ranks below a full one. What
/// no longer holds gets no such bonus.
fn hand_factor(maker: Maker, status: Status) -> f32 {
    match (maker, status) {
        (Maker::Person, Status::Active) => BY_HAND,
        (Maker::Person, Status::Resolved | Status::Superseded) | (Maker::Machine, _) => 1.0,
    }
}

/// For each document of a session, computes the best match of any other, which decays with the time between them.
///
/// `moments` contains the time and the own match of each document, in chronological order.
pub fn surroundings(moments: &[(Timestamp, f32)]) -> Vec<f32> {
    let mut best = vec![0.0_f32; moments.len()];
    spread(moments.iter().zip(&mut best));
    spread(moments.iter().zip(&mut best).rev());
    best
}

/// Carries the best match so far from each document to the next.
fn spread<'a>(places: impl Iterator<Item = (&'a (Timestamp, f32), &'a mut f32)>) {
    let mut carried = 0.0_f32;
    let mut last: Option<Timestamp> = None;
    for ((at, fit), best) in places {
        let passed = last.map_or(0, |last| at.since(last).max(last.since(*at)));
        carried *= (-(passed as f32) / MOMENT_HALF_LIFE).exp2();
        *best = best.max(carried);
        carried = carried.max(*fit);
        last = Some(*at);
    }
}

/// The evidence at which half of the doubt is gone, in distinctive words.
const HALF_EVIDENCE: f32 = 0.75;

/// The probability that a text is about the question, from 0 to 1.
///
/// Requires both enough evidence (a single everyday word is no topic) and a fair share of the question (three words of
/// a long prompt may be chance).
pub fn relevance(text: TextMatch) -> f32 {
    let evidence = 1.0 - (-text.evidence.max(0.0) / HALF_EVIDENCE).exp2();
    (evidence * text.answered.clamp(0.0, 1.0).sqrt()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 86_400_000;

    fn plain() -> DocumentTraits {
        DocumentTraits {
            kind: DocumentKind::Observation,
            status: Status::Active,
            importance: Importance::clamped(5),
            maker: Maker::Machine,
            age: 0,
        }
    }

    fn full() -> TextMatch {
        TextMatch { strength: 0.8, coverage: 1.0, evidence: 1.5, answered: 1.0, proximity: 1.0 }
    }

    /// Expects the first to score higher than the second with the same text.
    #[track_caller]
    fn check_order(higher: DocumentTraits, lower: DocumentTraits) {
        let fit = TextFactors::new(full()).fit();
        let (higher, lower) = (Factors::new(fit, higher), Factors::new(fit, lower));
        assert!(higher.score() > lower.score(), "{higher:?} against {lower:?}");
    }

    #[test]
    fn each_trait_decides_between_equal_text_matches() {
        check_order(plain(), DocumentTraits { kind: DocumentKind::Activity, ..plain() });
        check_order(
            DocumentTraits { kind: DocumentKind::Response, ..plain() },
            DocumentTraits { kind: DocumentKind::Prompt, ..plain() },
        );
        check_order(plain(), DocumentTraits { age: 60 * DAY, ..plain() });
        check_order(DocumentTraits { importance: Importance::clamped(9), ..plain() }, plain());
        check_order(plain(), DocumentTraits { status: Status::Resolved, ..plain() });
        check_order(
            DocumentTraits { status: Status::Resolved, ..plain() },
            DocumentTraits { status: Status::Superseded, ..plain() },
        );
    }

    #[test]
    fn no_trait_lifts_a_text_that_does_not_match() {
        let best = DocumentTraits { importance: Importance::clamped(10), ..plain() };
        assert_eq!(Factors::new(TextFactors::new(TextMatch::default()).fit(), best).score(), 0.0);
    }

    #[test]
    fn a_good_match_raises_documents_near_it_in_time() {
        let minutes = |minutes: i64| Timestamp(minutes * 60_000);
        let fits = [(minutes(0), 0.8), (minutes(5), 0.1), (minutes(10), 0.0), (minutes(600), 0.2)];
        let around = surroundings(&fits);
        for (found, expected) in around.iter().zip([0.05, 0.4, 0.2, 0.0]) {
            assert!((found - expected).abs() < 1e-3, "{around:?}");
        }
        assert_eq!(surroundings(&[]), Vec::<f32>::new());
    }

    #[test]
    fn nearby_matches_raise_the_score_of_a_matching_document() {
        let alone = Factors::new(0.8, plain());
        assert!(alone.amid(0.5, MomentWeight::BY_WORDS).score() > alone.score());
        assert_eq!(alone.amid(0.0, MomentWeight::BY_WORDS).score(), alone.score());
        assert_eq!(Factors::new(0.0, plain()).amid(1.0, MomentWeight::BY_WORDS).score(), 0.0);
    }

    #[test]
    fn rare_words_are_more_informative_than_common_ones() {
        let weight =
            |documents, commonness| information(Frequency { documents, population: 1_000 }, commonness);
        assert!(weight(1, Commonness::Content) > weight(100, Commonness::Content));
        assert!(weight(100, Commonness::Content) > weight(900, Commonness::Content));
        assert!(weight(1, Commonness::Content) > weight(1, Commonness::Command));
        assert!(weight(1, Commonness::Command) > weight(1, Commonness::Function));
    }

    #[test]
    fn relevance_depends_little_on_the_size_of_the_memory() {
        // The same share of documents contains the word in a small and in a large memory.
        let at = |population| {
            let word = information(Frequency { documents: population / 50, population }, Commonness::Content);
            relevance(TextMatch { answered: 1.0, evidence: 2.0 * word, ..TextMatch::default() })
        };
        assert!((at(100) - at(100_000)).abs() < 0.25, "{} against {}", at(100), at(100_000));
    }

    #[test]
    fn closeness_is_relative_to_the_usual_similarity_in_the_project() {
        let fit = |cosine, others: &[f32]| {
            Closeness { cosine, background: Background::of(others.iter().copied()) }.fit()
        };
        // In a small project what is usual elsewhere counts.
        assert!(fit(0.6, &[0.6]) > 0.1 && fit(0.1, &[0.1, 0.6]) == 0.0);
        // What is close to everything is an answer to nothing.
        let alike = [0.6; 500];
        assert!(fit(0.6, &alike) == 0.0 && fit(0.6, &[0.1; 500]) > fit(0.6, &[0.6]));
        assert!(fit(0.6, &[]) > 0.0 && fit(0.0, &[]) == 0.0 && fit(0.19, &[-0.5; 500]) == 0.0);
        let background = Background::of([0.1].into_iter());
        let relevance = |cosine| Closeness { cosine, background }.relevance();
        assert!(relevance(0.2) == 0.0 && relevance(0.95) == 1.0 && relevance(0.5) < relevance(0.6));
    }

    #[test]
    fn relevance_needs_evidence_and_coverage() {
        for (answered, evidence, is_relevant) in [
            (1.0, 1.5, true),   // two telling words, both found
            (1.0, 0.75, true),  // one telling word, found
            (0.5, 0.75, false), // one of two
            (1.0, 0.4, false),  // "run the tests"
            (0.1, 0.8, false),  // one word of a long prompt
            (0.3, 3.0, true),   // a good part of a long prompt
            (0.0, 0.0, false),
        ] {
            let relevance = relevance(TextMatch { answered, evidence, ..TextMatch::default() });
            assert_eq!(relevance >= 0.45, is_relevant, "{answered} {evidence}: {relevance}");
        }
    }

    fn any_traits() -> impl Strategy<Value = DocumentTraits> {
        let kinds = proptest::sample::select(DocumentKind::ALL.map(|(kind, ..)| kind).to_vec());
        let statuses = proptest::sample::select(Status::ALL.map(|(status, _)| status).to_vec());
        (kinds, statuses, any::<i64>(), any::<i64>()).prop_map(|(kind, status, importance, age)| {
            DocumentTraits {
                kind,
                status,
                importance: Importance::clamped(importance),
                maker: Maker::Machine,
                age,
            }
        })
    }

    proptest! {
        #[test]
        fn traits_stay_within_their_bound(traits in any_traits()) {
            let of_traits = Factors::new(1.0, traits).of_traits();
            prop_assert!(of_traits > 0.0 && of_traits <= HIGHEST_TRAIT_FACTOR + 1e-4);
        }

        #[test]
        fn information_and_relevance_stay_in_their_ranges(
            documents in any::<u32>(), population in any::<u32>(), answered in -1.0f32..2.0, evidence in -1.0f32..1e6,
        ) {
            for commonness in [Commonness::Function, Commonness::Command, Commonness::Content] {
                let information = information(Frequency { documents, population }, commonness);
                prop_assert!((0.0..=4.0).contains(&information));
            }
            let relevance = relevance(TextMatch { answered, evidence, ..TextMatch::default() });
            prop_assert!((0.0..=1.0).contains(&relevance));
        }
    }
}
