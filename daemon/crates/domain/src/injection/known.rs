//! Does this project know what is asked? Computes the features of everything found for a prompt.

use std::collections::HashMap;

use super::model::{FeatureSet, log_odds};
use crate::linear::Features;
use crate::passage::PassageMatches;
use crate::ranking::Commonness;

/// The number of passages in an average.
const FEW: usize = 5;
const MANY: usize = 20;

/// Computes the features. `answers` are the probabilities that the judged passages answer the prompt, greatest first.
pub fn features(matches: &PassageMatches, answers: &[f64]) -> FeatureSet {
    let words = of_words(matches, answers);
    let meaning = matches.background.map(|background| {
        let cosines = matches.matches.iter().filter_map(|one| one.cosine);
        let closest = cosines.fold(0.0, f32::max);
        let mut features = words.clone();
        features.add("closest", f64::from(closest));
        features.add("closest above the usual", f64::from(background.deviations(closest)));
        features
    });
    FeatureSet { words, meaning }
}

fn of_words(matches: &PassageMatches, answers: &[f64]) -> Features {
    let all = matches.terms.iter().map(|term| term.information).sum::<f32>().max(f32::MIN_POSITIVE);
    let unknown = matches.terms.iter().filter(|term| term.passages == 0);
    let subjects = || matches.terms.iter().filter(|term| term.commonness == Commonness::Content);
    let strongest = matches.matches.first().map_or(0.0, |one| one.strength);
    let mut sessions: HashMap<u64, u32> = HashMap::new();
    for one in &matches.matches {
        *sessions.entry(one.conversation).or_default() |= one.found;
    }
    let mut coverage: Vec<f32> = sessions.values().map(|found| matches.information(*found) / all).collect();
    coverage.sort_unstable_by(|a, b| b.total_cmp(a));
    let (best, next) =
        (coverage.first().copied().unwrap_or_default(), coverage.get(1).copied().unwrap_or_default());
    let strong = matches.matches.iter().take(MANY);
    let together = strong.map(|one| one.found.count_ones()).max().unwrap_or_default();
    let mut features = Features::default();
    features.add("best answer", log_odds(answers.first().copied().unwrap_or_default()));
    let few: Vec<f64> = answers.iter().copied().take(4).collect();
    features.add("four best answers", log_odds(few.iter().sum::<f64>() / few.len().max(1) as f64));
    let mut add = |name: &'static str, value: f32| features.add(name, f64::from(value));
    add("share of unknown words", unknown.map(|term| term.information).sum::<f32>() / all);
    add("unknown words", subjects().filter(|term| term.passages == 0).count() as f32);
    add("words asked", (1.0 + subjects().count() as f32).ln());
    add("strongest", strongest);
    add("strongest in bits", strongest * all);
    add("strongest few", mean(matches.matches.iter().map(|one| one.strength), FEW));
    add("session coverage", best);
    add("ahead of other sessions", best - next);
    add("words together", together as f32);
    features
}

/// The mean of the first `count` values, or of all if there are fewer: a project may know little.
fn mean(values: impl Iterator<Item = f32>, count: usize) -> f32 {
    let (sum, count) = values.take(count).fold((0.0, 0_u16), |(sum, count), value| (sum + value, count + 1));
    sum / f32::from(count.max(1))
}
