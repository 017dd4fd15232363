//! Decides by learned weights whether to inject something at a prompt, and what.
//!
//! 1. [`prompt`]: can other sessions help with this prompt?
//! 2. [`candidate`]: is this passage an answer?
//! 3. [`known`]: does this project know what is asked?
//! 4. [`need`]: would somebody who remembers speak up here?
//! 5. [`choice`]: which answers to inject; [`excerpt`]: which parts of them; [`reason`]: why, in words.
//!
//! The first four are learned: [`model`] names them.
//! A separate rule, [`by_hand`], injects what persons wrote or pinned.
//!
//! [`asked`] extracts what a prompt asks, and [`spoken`] what the running session has read. The models answer with
//! probabilities. At a question that opens a session, the product of the first and the third decides, because both
//! were learned from such questions. At any other prompt the fourth decides, which was learned from real prompts, or a
//! product that leaves little doubt. [`FLOORS`] has the minimum probabilities. The weights are a generated file, see
//! `docs/retrieval.md`.

pub mod asked;
pub mod by_hand;
pub mod candidate;
pub mod choice;
pub mod excerpt;
pub mod known;
pub mod model;
pub mod need;
pub mod prompt;
pub mod reason;
pub mod spoken;

use std::sync::LazyLock;

use super::document::DocumentKind;
use super::linear::Weights;
use super::passage::{PassageKey, PassageMatches};
use candidate::Featured;
use model::{ANSWER, FeatureSet, Judgement, KNOWN, NEED, PROMPT, log_odds};
use prompt::Situation;

/// The minimum probabilities for injecting something. `docs/retrieval.md` has the curves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floors {
    /// At a question that opens a session: the probability that other sessions can help, times that this project knows
    /// what is asked.
    pub question: f64,
    /// At any other prompt: the probability that other sessions can help. Below it, nothing is searched.
    pub prompt: f64,
    /// At any other prompt: the probability that somebody who remembers would speak up.
    pub need: f64,
    /// An alternative to `need`: the probability that other sessions can help, times that this project knows what is
    /// asked.
    pub certain: f64,
}

pub const FLOORS: Floors = Floors { question: 0.64, prompt: 0.2, need: 0.46, certain: 0.8 };
/// Further answers must reach this share of the best answer's probability.
const SHARE_OF_BEST: f64 = 0.6;

/// Injections at pasted text distract in seven of ten cases. So pasted text lowers the log odds by more than anything
/// raises them.
const PASTED: (&str, f64) = ("is pasted", -12.0);

/// The weights that recall was built with.
pub fn built_in() -> &'static Weights {
    static WEIGHTS: LazyLock<Weights> = LazyLock::new(|| Weights::parse(include_str!("weights.txt")));
    &WEIGHTS
}

/// A passage that may be injected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedPassage {
    pub key: PassageKey,
    /// The probability that it answers the prompt.
    pub probability: f64,
}

/// The decision about a prompt, and its reasons.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptDecision {
    /// Whether other sessions can help with the prompt.
    pub prompt: Judgement,
    /// Whether this project knows what is asked.
    pub known: Judgement,
    /// Whether somebody who remembers would speak up. `None` at a question that opens a session.
    pub need: Option<Judgement>,
    /// The passages to inject, best first.
    pub chosen: Vec<JudgedPassage>,
    /// Whether the best passage is an answer, injected or not.
    pub best: Option<(PassageKey, Judgement)>,
}

/// Whether any answer could be injected at such a prompt. If not, nothing needs to be searched.
pub fn may_inject(situation: &Situation<'_>, weights: &Weights, floors: Floors) -> bool {
    let least = if prompt::opens_with_a_question(situation) { floors.question } else { floors.prompt };
    of_prompt(situation, weights).probability >= least
}

/// Judges whether other sessions can help with a prompt.
pub fn of_prompt(situation: &Situation<'_>, weights: &Weights) -> Judgement {
    let judgement = PROMPT.judge(&FeatureSet::of_words(prompt::features(situation)), weights);
    if prompt::is_pasted(situation) { judgement.with(PASTED) } else { judgement }
}

/// Decides what to inject at a prompt.
pub fn decide(
    situation: &Situation<'_>,
    matches: &PassageMatches,
    weights: &Weights,
    floors: Floors,
) -> PromptDecision {
    let by_need = !prompt::opens_with_a_question(situation);
    let mut decision = PromptDecision {
        prompt: of_prompt(situation, weights),
        need: by_need.then(Judgement::default),
        ..PromptDecision::default()
    };
    let judged = judge(matches, weights);
    let Some((best, candidate)) = judged.first() else { return decision };
    decision.best = Some((best.key, ANSWER.judge(&candidate.features, weights)));
    decision.known = KNOWN.judge(&known::features(matches, &probabilities(&judged)), weights);
    let prompt = decision.prompt.probability;
    if by_need && let Some(features) = need_of(situation, prompt, &judged) {
        decision.need = Some(NEED.judge(&features, weights));
    }
    let known = prompt * decision.known.probability;
    let speaks = match &decision.need {
        Some(need) => {
            let is_needed = prompt >= floors.prompt && need.probability >= floors.need;
            is_needed || known >= floors.certain
        }
        None => known >= floors.question,
    };
    if best.probability > 0.0 && speaks {
        let passages = judged.iter().map(|(one, _)| *one);
        let least = best.probability * SHARE_OF_BEST;
        decision.chosen = passages.take_while(|one| one.probability >= least).collect();
    }
    decision
}

/// The features of the need, computed with the best passage that is neither prompt nor plan, because those are never
/// injected.
pub fn need_of(
    situation: &Situation<'_>,
    prompt: f64,
    judged: &[(JudgedPassage, Featured<'_>)],
) -> Option<FeatureSet> {
    let (best, candidate) = best_injectable(judged)?;
    Some(need::features(situation, log_odds(best.probability), log_odds(prompt), candidate))
}

/// The best passage that is neither prompt nor plan.
pub fn best_injectable<'a, 'b>(
    judged: &'a [(JudgedPassage, Featured<'b>)],
) -> Option<&'a (JudgedPassage, Featured<'b>)> {
    let is_injectable =
        |one: &JudgedPassage| !matches!(one.key.document.kind, DocumentKind::Prompt | DocumentKind::Plan);
    judged.iter().find(|(one, _)| is_injectable(one))
}

/// Judges the passages, the most probable answer first.
pub fn judge<'a>(matches: &'a PassageMatches, weights: &Weights) -> Vec<(JudgedPassage, Featured<'a>)> {
    let judged = candidate::candidates(matches).into_iter().map(|candidate| {
        let probability = ANSWER.probability(&candidate.features, weights);
        (JudgedPassage { key: candidate.found.key, probability }, candidate)
    });
    let mut judged: Vec<_> = judged.collect();
    judged.sort_by(|(a, _), (b, _)| b.probability.total_cmp(&a.probability).then_with(|| a.key.cmp(&b.key)));
    judged
}

/// The probabilities of the judged passages, greatest first.
pub fn probabilities(judged: &[(JudgedPassage, Featured<'_>)]) -> Vec<f64> {
    judged.iter().map(|(one, _)| one.probability).collect()
}

#[cfg(test)]
mod tests;
