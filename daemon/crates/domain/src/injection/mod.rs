//! Whether to speak at a prompt, and what to say: decisions by learned weights.
//!
//! 1. [`prompt`]: is this a prompt that other sessions can help with?
//! 2. [`candidate`]: is this passage an answer?
//! 3. [`known`]: does this project know what is asked?
//! 4. [`need`]: would somebody who remembers speak up here?
//! 5. [`choice`]: which answers are told; [`excerpt`]: what of them; [`reason`]: why, in words.
//!
//! What persons wrote or pinned is told by a rule of its own, [`by_hand`].
//!
//! [`asked`] says what of a prompt is asked, and [`spoken`] what the running session has read. The questions are answered
//! with probabilities. At a question that opens a session the product of the first and the third decides, because both were
//! learned from such questions. At any other prompt the fourth decides, which was learned from real prompts, or a product that
//! leaves little doubt. [`FLOORS`] says from which probabilities on recall speaks. With vectors of a sentence model, all but the
//! first have weights of their own, so a probability means the same with and without. The weights are a generated file, see
//! `docs/retrieval.md`.

pub mod asked;
pub mod by_hand;
pub mod candidate;
pub mod choice;
pub mod excerpt;
pub mod known;
pub mod need;
pub mod prompt;
pub mod reason;
pub mod spoken;

use std::sync::LazyLock;

use super::document::DocumentKind;
use super::linear::{Features, Linear, Weights};
use super::passage::{PassageKey, PassageMatches};
use candidate::Candidate;
use prompt::Situation;

/// From which probabilities on recall speaks. `docs/retrieval.md` has the curves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floors {
    /// At a question that opens a session: that other sessions can help with it, times that this project knows what is asked.
    pub question: f64,
    /// At any other prompt: that other sessions can help with it. Below nothing is searched for.
    pub prompt: f64,
    /// At any other prompt: that somebody who remembers would speak up.
    pub need: f64,
    /// Or, at any other prompt: that other sessions can help with it, times that this project knows what is asked.
    pub certain: f64,
}

pub const FLOORS: Floors = Floors { question: 0.64, prompt: 0.2, need: 0.46, certain: 0.8 };
/// Beside the best answer, others are told down to this share of its probability.
const SHARE_OF_BEST: f64 = 0.6;

/// What is told at pasted text distracts seven times of ten. So that speaks against it, in log odds, more than anything
/// speaks for it.
const PASTED: (&str, f64) = ("is pasted", -12.0);

/// The models in the weights file.
pub const PROMPT: &str = "prompt";
pub const ANSWER: &str = "answer";
pub const ANSWER_BY_MEANING: &str = "answer by meaning";
pub const KNOWN: &str = "known";
pub const KNOWN_BY_MEANING: &str = "known by meaning";
pub const NEED: &str = "need";
pub const NEED_BY_MEANING: &str = "need by meaning";

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
    /// The probability that this project knows what is asked.
    pub known: f64,
    /// The parts of that probability, in log odds, the greatest first.
    pub known_parts: Vec<(&'static str, f64)>,
    /// The probability that somebody who remembers would speak up. `None` at a question that opens a session.
    pub need: Option<f64>,
    /// The parts of that probability, in log odds, the greatest first.
    pub need_parts: Vec<(&'static str, f64)>,
    /// The passages that may be told, the best first.
    pub told: Vec<Judged>,
    /// The best passage, told or not, and the parts of its probability.
    pub best: Option<(Judged, Vec<(&'static str, f64)>)>,
}

/// Whether any answer could be told at such a prompt. If not, nothing needs to be searched for.
pub fn may_speak(situation: &Situation<'_>, weights: &Weights, floors: Floors) -> bool {
    let least = if prompt::opens_with_a_question(situation) { floors.question } else { floors.prompt };
    of_prompt(situation, weights).0 >= least
}

/// The probability that other sessions can help with a prompt.
pub fn prompt_probability(situation: &Situation<'_>, weights: &Weights) -> f64 {
    of_prompt(situation, weights).0
}

/// The probability that other sessions can help with a prompt, and its parts.
fn of_prompt(situation: &Situation<'_>, weights: &Weights) -> (f64, Vec<(&'static str, f64)>) {
    let (model, features) = (weights.model(PROMPT), prompt::features(situation));
    let mut parts = parts(model, &features);
    if model.weights.is_empty() || !prompt::is_pasted(situation) {
        return (probability(model, &features), parts);
    }
    parts.insert(0, PASTED);
    (logistic(model.predict(&features.values()) + PASTED.1), parts)
}

/// Decides what may be told at a prompt.
pub fn decide(
    situation: &Situation<'_>,
    matches: &PassageMatches,
    weights: &Weights,
    floors: Floors,
) -> Decision {
    let (prompt, prompt_parts) = of_prompt(situation, weights);
    let by_need = !prompt::opens_with_a_question(situation);
    let need = by_need.then_some(0.0);
    let mut decision = Decision { prompt, prompt_parts, need, ..Decision::default() };
    let judged = judge(matches, weights);
    let Some((best, features)) = judged.first() else { return decision };
    let answering = weights.model(if features.meaning.is_some() { ANSWER_BY_MEANING } else { ANSWER });
    let shown = features.meaning.as_ref().unwrap_or(&features.words);
    decision.best = Some((*best, parts(answering, shown)));
    let found = known::features(matches, &probabilities(&judged));
    let (knowing, features) = match &found.meaning {
        Some(features) => (weights.model(KNOWN_BY_MEANING), features),
        None => (weights.model(KNOWN), &found.words),
    };
    decision.known = probability(knowing, features);
    decision.known_parts = parts(knowing, features);
    if by_need && let Some(found) = need_of(situation, prompt, &judged) {
        let (needing, features) = match &found.meaning {
            Some(features) => (weights.model(NEED_BY_MEANING), features),
            None => (weights.model(NEED), &found.words),
        };
        decision.need = Some(probability(needing, features));
        decision.need_parts = parts(needing, features);
    }
    let speaks = match decision.need {
        Some(need) => {
            let is_needed = prompt >= floors.prompt && need >= floors.need;
            is_needed || prompt * decision.known >= floors.certain
        }
        None => prompt * decision.known >= floors.question,
    };
    let best = best.probability;
    if best > 0.0 && speaks {
        let told = judged.iter().map(|(one, _)| *one);
        decision.told = told.take_while(|one| one.probability >= best * SHARE_OF_BEST).collect();
    }
    decision
}

/// The features of the need, with the best passage that is no prompt and no plan, because these are never told.
pub fn need_of(
    situation: &Situation<'_>,
    prompt: f64,
    judged: &[(Judged, Candidate<'_>)],
) -> Option<need::Found> {
    let (best, candidate) = best_told(judged)?;
    Some(need::features(situation, (log_odds(best.probability), log_odds(prompt)), candidate))
}

/// The best passage that is no prompt and no plan.
pub fn best_told<'a, 'b>(judged: &'a [(Judged, Candidate<'b>)]) -> Option<&'a (Judged, Candidate<'b>)> {
    let is_told = |one: &Judged| !matches!(one.key.document.kind, DocumentKind::Prompt | DocumentKind::Plan);
    judged.iter().find(|(one, _)| is_told(one))
}

/// The judged passages, the most probable answer first.
pub fn judge<'a>(matches: &'a PassageMatches, weights: &Weights) -> Vec<(Judged, Candidate<'a>)> {
    let (by_words, by_meaning) = (weights.model(ANSWER), weights.model(ANSWER_BY_MEANING));
    let judged = candidate::candidates(matches).into_iter().map(|candidate| {
        let probability = match &candidate.meaning {
            Some(features) => probability(by_meaning, features),
            None => probability(by_words, &candidate.words),
        };
        (Judged { key: candidate.found.key, probability }, candidate)
    });
    let mut judged: Vec<_> = judged.collect();
    judged.sort_by(|(a, _), (b, _)| b.probability.total_cmp(&a.probability).then_with(|| a.key.cmp(&b.key)));
    judged
}

/// That of each judged passage, the greatest first.
pub fn probabilities(judged: &[(Judged, Candidate<'_>)]) -> Vec<f64> {
    judged.iter().map(|(one, _)| one.probability).collect()
}

/// Log odds as a probability.
fn probability(model: &Linear, features: &Features) -> f64 {
    if model.weights.is_empty() {
        return 0.0;
    }
    logistic(model.predict(&features.values()))
}

fn logistic(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

/// Probabilities nearer to 0 and 1 are no more certain.
const CERTAIN: f64 = 1e-4;

fn log_odds(probability: f64) -> f64 {
    let probability = probability.clamp(CERTAIN, 1.0 - CERTAIN);
    (probability / (1.0 - probability)).ln()
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
