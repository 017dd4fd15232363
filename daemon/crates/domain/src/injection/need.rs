//! Would somebody who remembers speak up here? Computes the features of a prompt that does not open a session with a
//! question.
//!
//! The models for prompts and for what is known learn from made-up questions. This one learns from real prompts that
//! were judged by hand: at most of them nothing should be injected, however well something matches.

use super::candidate::Featured;
use super::model::FeatureSet;
use super::prompt::{self, Situation};
use crate::linear::Features;

/// Prompt features that are used again here, because real prompts express their need in other words than questions.
const OF_PROMPT: [&str; 4] = ["outward", "inward", "assent", "routine"];
/// The vector feature that is used again here.
const OF_VECTOR: &str = "deviations above the usual";
/// Words with fewer characters name nothing.
const SHORTEST: usize = 4;

/// Computes the features. `answer` and `prompt` are the log odds that the best passage answers the prompt, and that
/// other sessions can help with it.
pub fn features(situation: &Situation<'_>, answer: f64, prompt: f64, best: &Featured<'_>) -> FeatureSet {
    let mut words = Features::default();
    words.add("answer", answer);
    words.add("prompt", prompt);
    let written = prompt::words_as_written(situation.prompt);
    let long: Vec<&str> = written.into_iter().filter(|word| word.chars().count() >= SHORTEST).collect();
    let read = long.iter().filter(|word| situation.has_read(word)).count();
    words.add("share of words read", read as f64 / long.len().max(1) as f64);
    words.add("words not read", (1.0 + (long.len() - read) as f64).ln());
    let of_prompt = prompt::features(situation).0;
    for (name, value) in of_prompt.into_iter().filter(|(name, _)| OF_PROMPT.contains(name)) {
        words.add(name, value);
    }
    let meaning = best.features.meaning.as_ref().and_then(|of_best| {
        let (name, value) = of_best.0.iter().find(|(name, _)| *name == OF_VECTOR)?;
        let mut features = words.clone();
        features.add(name, *value);
        Some(features)
    });
    FeatureSet { words, meaning }
}
