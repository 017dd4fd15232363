//! Chooses the few observations of a batch: the best that say different things.

use std::collections::BTreeSet;

use super::candidate::Origin;
use super::compose::Composed;

/// The most of one batch.
pub(super) const MOST: usize = 5;

/// Below this a candidate is no knowledge, in tenths of a point.
const LEAST: i32 = 50;

/// A candidate with fewer tenths of the best one's worth is left out.
const SHARE: i32 = 5;

/// Of ten words, so many in common make two observations tell the same.
const SAME: usize = 6;

/// The best, in the order of their worth. What only repeats a better one lends it its evidence and reference.
pub(super) fn select(mut composed: Vec<Composed>) -> Vec<Composed> {
    composed.sort_by_key(|candidate| std::cmp::Reverse(candidate.worth));
    let best = composed.first().map_or(0, |first| first.worth);
    let mut chosen: Vec<(Composed, BTreeSet<String>)> = Vec::new();
    for candidate in composed {
        let words = words(&told(&candidate));
        let twin = chosen.iter_mut().find(|(_, known)| repeats(&words, known));
        if let Some((twin, known)) = twin {
            merge(twin, candidate);
            known.extend(words);
            continue;
        }
        let is_knowledge = candidate.worth >= LEAST && candidate.worth * 10 >= best * SHARE;
        let is_own_sort = matches!(candidate.origin, Origin::User | Origin::OpenEnd | Origin::Failure);
        if (is_knowledge || (is_own_sort && candidate.worth >= LEAST)) && chosen.len() < MOST {
            chosen.push((candidate, words));
        }
    }
    chosen.into_iter().map(|(composed, _)| composed).collect()
}

/// What was told already, for leaving out what says the same.
#[derive(Default)]
pub(super) struct Told {
    texts: Vec<BTreeSet<String>>,
}

impl Told {
    /// Whether the text says something new; it is told from then on.
    pub(super) fn is_new(&mut self, text: &str) -> bool {
        let words = words(text);
        let is_new = !self.texts.iter().any(|known| repeats(&words, known));
        if is_new {
            self.texts.push(words);
        }
        is_new
    }
}

fn merge(into: &mut Composed, repeated: Composed) {
    for event in repeated.draft.evidence {
        if !into.draft.evidence.contains(&event) {
            into.draft.evidence.push(event);
        }
    }
    let Some(reference) = repeated.reference else { return };
    match &mut into.draft.subtitle {
        None => into.draft.subtitle = Some(reference),
        Some(subtitle) if !subtitle.contains(&reference) && into.origin == Origin::Statement => {
            subtitle.push_str(", ");
            subtitle.push_str(&reference);
        }
        Some(_) => {}
    }
}

fn told(composed: &Composed) -> String {
    let draft = &composed.draft;
    format!("{} {} {}", draft.title, draft.narrative, draft.facts.join(" "))
}

/// The words that carry meaning: longer ones, and names.
pub(super) fn words(text: &str) -> BTreeSet<String> {
    text.to_lowercase()
        .split(|gap: char| !(gap.is_alphanumeric() || gap == '_'))
        .filter(|word| word.chars().count() > 3 || word.bytes().any(|byte| byte.is_ascii_digit()))
        .map(str::to_owned)
        .collect()
}

/// Whether most of the words are known.
pub(super) fn repeats(words: &BTreeSet<String>, known: &BTreeSet<String>) -> bool {
    let shared = words.intersection(known).count();
    !words.is_empty() && shared * 10 >= words.len() * SAME
}
