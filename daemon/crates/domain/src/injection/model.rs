//! The learned models: the question of each, and where its weights are.
//!
//! A model consists of a list of features, a section of weights for words alone, one for words and vectors, and a line
//! here.

use crate::linear::{Features, Linear, Weights};

/// The features that a model judges by.
#[derive(Clone, Debug, Default)]
pub struct FeatureSet {
    /// Features of the words.
    pub words: Features,
    /// The features of the words and those of the vectors. `None` if a vector is missing.
    pub meaning: Option<Features>,
}

impl FeatureSet {
    /// Builds a set of features that do not depend on vectors.
    pub fn of_words(words: Features) -> Self {
        Self { words, meaning: None }
    }
}

/// A learned model. Its weights differ with and without vectors, so that a probability means the same in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// The section of the weights file.
    pub words: &'static str,
    /// The section used with vectors.
    pub meaning: Option<&'static str>,
}

/// Is this a prompt that other sessions can help with?
pub const PROMPT: Model = Model { words: "prompt", meaning: None };
/// Is this passage an answer?
pub const ANSWER: Model = Model { words: "answer", meaning: Some("answer by meaning") };
/// Does this project know what is asked?
pub const KNOWN: Model = Model { words: "known", meaning: Some("known by meaning") };
/// Would somebody who remembers speak up here?
pub const NEED: Model = Model { words: "need", meaning: Some("need by meaning") };

/// A probability, and how much each feature adds to its log odds, greatest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    pub probability: f64,
    pub parts: Vec<(&'static str, f64)>,
}

impl Judgement {
    /// Returns the judgement with one more part.
    #[must_use]
    pub fn with(mut self, part: (&'static str, f64)) -> Self {
        let odds = self.probability / (1.0 - self.probability);
        self.probability = logistic(odds.ln() + part.1);
        self.parts.insert(0, part);
        self
    }
}

impl Model {
    pub fn judge(self, features: &FeatureSet, weights: &Weights) -> Judgement {
        let (linear, features) = self.used(features, weights);
        let values = features.0.iter().zip(&linear.weights);
        let mut parts: Vec<_> = values.map(|((name, value), weight)| (*name, value * weight)).collect();
        parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        Judgement { probability: probability(linear, features), parts }
    }

    /// Like [`Self::judge`], without the parts.
    pub fn probability(self, features: &FeatureSet, weights: &Weights) -> f64 {
        let (linear, features) = self.used(features, weights);
        probability(linear, features)
    }

    fn used<'a>(self, features: &'a FeatureSet, weights: &'a Weights) -> (&'a Linear, &'a Features) {
        match (&features.meaning, self.meaning) {
            (Some(features), Some(section)) => (weights.model(section), features),
            _ => (weights.model(self.words), &features.words),
        }
    }
}

fn probability(linear: &Linear, features: &Features) -> f64 {
    // Without weights nothing is probable.
    if linear.weights.is_empty() {
        return 0.0;
    }
    logistic(linear.predict(&features.values()))
}

/// Converts log odds into a probability.
fn logistic(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

/// Probabilities are clamped to this distance from 0 and 1.
const CERTAIN: f64 = 1e-4;

/// Converts a probability into log odds.
pub(super) fn log_odds(probability: f64) -> f64 {
    let probability = probability.clamp(CERTAIN, 1.0 - CERTAIN);
    (probability / (1.0 - probability)).ln()
}
