//! Chooses the few observations of a batch: the best that say different things.

use std::collections::BTreeSet;

use super::candidate::CandidateSource;
use super::compose::Composed;
use crate::memory::observation::Importance;

/// The most of one batch.
pub(super) const MOST: usize = 5;

/// Below this a candidate is no knowledge, in tenths of a point.
const LEAST: i32 = 42;

/// The best of a batch is told down to this: a short answer has less to show for itself.
const LEAST_BEST: i32 = 20;

/// What the user laid down, an open end or a failure's lesson is told down to this.
const LEAST_OWN_SORT: i32 = 34;

/// A candidate with fewer tenths of the best one's worth is left out.
const SHARE: i32 = 5;

/// Of ten words, so many in common make two observations tell the same.
const SAME: usize = 5;

/// Of ten words, so many known from all that was chosen make one more observation say nothing new.
const COVERED: usize = 6;

/// The best, in the order of their worth. What only repeats a better one lends it its evidence and reference; what
/// repeats the answer before was told then, and of a page about it only the address is new.
pub(super) fn select(mut composed: Vec<Composed>, before: &str) -> Vec<Composed> {
    let before = words(before);
    composed.sort_by_key(|candidate| std::cmp::Reverse(candidate.worth));
    let best = composed.first().map_or(0, |first| first.worth);
    let mut chosen: Vec<(Composed, BTreeSet<String>)> = Vec::new();
    let mut all: BTreeSet<String> = BTreeSet::new();
    for mut candidate in composed {
        let words = words(&told(&candidate));
        if let Some((twin, known)) = chosen.iter_mut().find(|(_, known)| repeats(&words, known, SAME)) {
            merge(twin, candidate);
            known.extend(words);
            continue;
        }
        let is_first = !chosen.iter().any(|(known, _)| is_account(known));
        let is_own_sort = !is_account(&candidate);
        let mut least = match (is_own_sort, is_first) {
            (true, _) => LEAST_OWN_SORT,
            (false, true) => LEAST_BEST,
            (false, false) => LEAST,
        };
        if repeats(&words, &before, SAME) {
            match candidate.origin {
                CandidateSource::Answer | CandidateSource::OpenEnd => continue,
                CandidateSource::Statement if is_page(&candidate) => {
                    shrink(&mut candidate);
                    least = LEAST_BEST;
                }
                _ => {}
            }
        }
        let compares = candidate.worth * 10 >= best * SHARE || is_own_sort || is_first;
        if candidate.worth >= least && compares && chosen.len() < MOST && !repeats(&words, &all, COVERED) {
            all.extend(words.iter().cloned());
            chosen.push((candidate, words));
        }
    }
    chosen.into_iter().map(|(composed, _)| composed).collect()
}

/// Whether it is the agent's account of the work, of which there is mostly more than one.
fn is_account(composed: &Composed) -> bool {
    matches!(
        composed.origin,
        CandidateSource::Answer
            | CandidateSource::Statement
            | CandidateSource::Note
            | CandidateSource::Remark
            | CandidateSource::Report
    )
}

/// Whether it is a pull request or the like, whose address is worth having.
fn is_page(composed: &Composed) -> bool {
    composed.reference.as_ref().is_some_and(|reference| reference.contains("://"))
}

/// Leaves the line that says what was done and where it is.
fn shrink(composed: &mut Composed) {
    let draft = &mut composed.draft;
    draft.narrative.clear();
    draft.facts.clear();
    draft.concepts.clear();
    draft.importance = Importance::clamped(i64::from(draft.importance.get()) - 2);
}

/// What was told already, for leaving out what says the same.
#[derive(Default)]
pub(super) struct SelectedTexts {
    texts: Vec<BTreeSet<String>>,
}

impl SelectedTexts {
    /// Whether the text says something new; it is told from then on.
    pub(super) fn is_new(&mut self, text: &str) -> bool {
        let words = words(text);
        let is_new = !self.texts.iter().any(|known| repeats(&words, known, SAME));
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
        Some(subtitle) if !subtitle.contains(&reference) && into.origin == CandidateSource::Statement => {
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
fn words(text: &str) -> BTreeSet<String> {
    text.to_lowercase()
        .split(|gap: char| !(gap.is_alphanumeric() || gap == '_'))
        .filter(|word| word.chars().count() > 3 || word.bytes().any(|byte| byte.is_ascii_digit()))
        .map(str::to_owned)
        .collect()
}

/// Whether of ten words so many are known.
fn repeats(words: &BTreeSet<String>, known: &BTreeSet<String>, share: usize) -> bool {
    let shared = words.intersection(known).count();
    !words.is_empty() && shared * 10 >= words.len() * share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shares_most_words_is_not_new() {
        let mut told = SelectedTexts::default();
        assert!(told.is_new("The cache is never invalidated because reset runs first"));
        assert!(!told.is_new("Because reset runs first, the cache is never invalidated at all"));
        assert!(told.is_new("Sockets are closed twice by the supervisor"));
        assert!(told.is_new("a an of"), "a text without words of meaning repeats nothing");
    }
}
