//! Whether to speak at a prompt, and what to say: decisions by learned weights.
//!
//! 1. [`prompt`]: is this a prompt that other sessions can help with?
//! 2. [`candidate`]: is this passage an answer?
//! 3. [`choice`]: which answers are told.
//!
//! Both questions are answered with a probability. recall speaks if their product reaches the [`FLOOR`]. The weights are
//! a generated file, see `docs/retrieval.md`.

pub mod candidate;
pub mod choice;
pub mod prompt;

use std::sync::LazyLock;

use super::linear::{Features, Linear, Weights};
use super::passage::{PassageKey, PassageMatches};
use prompt::Situation;

/// The least probability at which recall speaks: that the prompt is one that other sessions can help with, times that
/// the best passage answers it. `docs/retrieval.md` has the curve.
pub const FLOOR: f64 = 0.22;
/// Beside the best answer, others are told down to this share of its probability.
const SHARE_OF_BEST: f64 = 0.4;

/// The models in the weights file.
pub const PROMPT: &str = "prompt";
pub const ANSWER: &str = "answer";

/// The weights that recall was built with.
pub fn built_in() -> &'static Weights {
    static WEIGHTS: LazyLock<Weights> = LazyLock::new(|| Weights::parse(include_str!("weights.txt")));
    &WEIGHTS
}

/// A passage that may be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    pub key: PassageKey,
    /// That it answers the prompt.
    pub probability: f64,
}

/// What was decided about a prompt, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The probability that other sessions can help with the prompt.
    pub prompt: f64,
    /// The parts of that probability, in log odds, the greatest first.
    pub prompt_parts: Vec<(&'static str, f64)>,
    /// The passages above the floor, the best first.
    pub told: Vec<Judged>,
    /// The best passage, told or not, and the parts of its probability.
    pub best: Option<(Judged, Vec<(&'static str, f64)>)>,
}

/// Whether any answer could be told at such a prompt. If not, nothing needs to be searched for.
pub fn may_speak(situation: &Situation<'_>, weights: &Weights, floor: f64) -> bool {
    probability(weights.model(PROMPT), &prompt::features(situation)) >= floor
}

/// Decides what may be told at a prompt.
pub fn decide(
    situation: &Situation<'_>,
    matches: &PassageMatches,
    weights: &Weights,
    floor: f64,
) -> Decision {
    let (asking, answering) = (weights.model(PROMPT), weights.model(ANSWER));
    let features = prompt::features(situation);
    let mut decision = Decision {
        prompt: probability(asking, &features),
        prompt_parts: parts(asking, &features),
        ..Decision::default()
    };
    let mut judged: Vec<(Judged, Features)> = candidate::features(matches)
        .into_iter()
        .map(|(one, features)| {
            (Judged { key: one.key, probability: probability(answering, &features) }, features)
        })
        .collect();
    judged.sort_by(|(a, _), (b, _)| b.probability.total_cmp(&a.probability).then_with(|| a.key.cmp(&b.key)));
    let best = judged.first().map_or(0.0, |(best, _)| best.probability);
    decision.best = judged.first().map(|(best, features)| (*best, parts(answering, features)));
    if best > 0.0 && decision.prompt * best >= floor {
        decision.told = judged
            .into_iter()
            .map(|(one, _)| one)
            .take_while(|one| one.probability >= best * SHARE_OF_BEST)
            .collect();
    }
    decision
}

/// Log odds as a probability.
fn probability(model: &Linear, features: &Features) -> f64 {
    if model.weights.is_empty() {
        return 0.0;
    }
    1.0 / (1.0 + (-model.predict(&features.values())).exp())
}

/// What each feature adds to the log odds, the greatest first.
fn parts(model: &Linear, features: &Features) -> Vec<(&'static str, f64)> {
    let mut parts: Vec<(&'static str, f64)> = features
        .0
        .iter()
        .zip(&model.weights)
        .map(|((name, value), weight)| (*name, value * weight))
        .collect();
    parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    parts
}

#[cfg(test)]
mod tests;
