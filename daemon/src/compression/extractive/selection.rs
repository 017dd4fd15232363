//! Chooses the few observations of a batch: the best that say different things.

use std::collections::BTreeSet;

use super::candidate::Origin;
use super::compose::Composed;

/// The most of one batch.
pub(super) const MOST: usize = 5;

/// Below this a candidate is no knowledge, in tenths of a point.
const LEAST: i32 = 42;

/// A candidate this many tenths of the best one's worth is only told if it is knowledge by itself.
const SHARE: i32 = 4;

/// Of ten words, so many in common make two observations tell the same.
const SAME: usize = 6;

/// The best, in the order of their worth. What only repeats a better one lends it its evidence and reference.
pub(super) fn select(mut composed: Vec<Composed>) -> Vec<Composed> {
    composed.sort_by_key(|candidate| std::cmp::Reverse(candidate.worth));
    let best = composed.first().map_or(0, |first| first.worth);
    let mut chosen: Vec<(Composed, BTreeSet<String>)> = Vec::new();
    for candidate in composed {
        let words = words(&candidate);
        let twin = chosen.iter_mut().find(|(_, known)| repeats(&words, known));
        if let Some((twin, known)) = twin {
            merge(twin, candidate);
            known.extend(words);
            continue;
        }
        let is_knowledge = candidate.worth >= LEAST && candidate.worth * 10 >= best * SHARE;
        if is_knowledge && chosen.len() < MOST {
            chosen.push((candidate, words));
        }
    }
    chosen.into_iter().map(|(composed, _)| composed).collect()
}

fn merge(into: &mut Composed, repeated: Composed) {
    for event in repeated.draft.evidence {
        if !into.draft.evidence.contains(&event) {
            into.draft.evidence.push(event);
        }
    }
    if let (None, Some(reference)) = (&into.draft.subtitle, &repeated.reference) {
        into.draft.subtitle = Some(reference.clone());
    } else if let (Some(subtitle), Some(reference)) = (&mut into.draft.subtitle, &repeated.reference)
        && !subtitle.contains(reference.as_str())
        && into.origin == Origin::Statement
    {
        subtitle.push_str(", ");
        subtitle.push_str(reference);
    }
}

/// The words that carry meaning: longer ones, and names.
fn words(composed: &Composed) -> BTreeSet<String> {
    let draft = &composed.draft;
    let text = format!("{} {} {}", draft.title, draft.narrative, draft.facts.join(" ")).to_lowercase();
    text.split(|gap: char| !(gap.is_alphanumeric() || gap == '_'))
        .filter(|word| word.chars().count() > 3 || word.bytes().any(|byte| byte.is_ascii_digit()))
        .map(str::to_owned)
        .collect()
}

fn repeats(words: &BTreeSet<String>, known: &BTreeSet<String>) -> bool {
    let shared = words.intersection(known).count();
    !words.is_empty() && shared * 10 >= words.len() * SAME
}
