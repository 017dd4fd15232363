//! Explains in words why something is injected: what it shares with the prompt, and what of that is new to the
//! session.

use super::prompt::{Situation, words_as_written};
use crate::document::DocumentKind;
use crate::passage::{PassageKey, PassageMatch, PassageMatches, PassageTerm};
use crate::ranking::Commonness;

/// The maximum number of words named.
const MOST_WORDS: usize = 3;
/// The number of standard deviations above the usual from which a passage counts as close in meaning.
const CLOSE: f32 = 2.5;
/// The share of this prompt that a prompt of the other session must contain to count as the same question.
const SAME: f32 = 0.8;

/// For example ``names `parse_flag`, which this session has not mentioned``.
pub fn of(situation: &Situation<'_>, matches: &PassageMatches, key: PassageKey) -> String {
    let Some(found) = matches.matches.iter().find(|one| one.key == key) else {
        return "it was found for this prompt".to_owned();
    };
    let mut reasons = Vec::new();
    if was_asked_there(matches, found) {
        reasons.push("the same was asked in its session".to_owned());
    }
    let mut terms: Vec<&PassageTerm> = matches.found(found.found).collect();
    terms.retain(|term| term.commonness == Commonness::Content);
    terms.sort_by(|a, b| b.information.total_cmp(&a.information).then_with(|| a.text.cmp(&b.text)));
    let (known, new): (Vec<_>, Vec<_>) = terms.into_iter().partition(|term| situation.has_read(&term.text));
    if !new.is_empty() {
        let since = if situation.prompts_before == 0 { "" } else { ", which this session has not mentioned" };
        reasons.push(format!("names {}{since}", named(situation.prompt, &new)));
    } else if !known.is_empty() {
        reasons.push(format!("names {}", named(situation.prompt, &known)));
    }
    let is_close =
        found.cosine.zip(matches.background).is_some_and(|(cosine, usual)| usual.deviations(cosine) >= CLOSE);
    if is_close {
        reasons.push("means nearly the same as the prompt".to_owned());
    }
    if reasons.is_empty() { "it was found for this prompt".to_owned() } else { reasons.join("; ") }
}

fn was_asked_there(matches: &PassageMatches, found: &PassageMatch) -> bool {
    let mut prompts = matches.matches.iter().filter(|one| one.key.document.kind == DocumentKind::Prompt);
    prompts.any(|one| one.conversation == found.conversation && one.strength >= SAME)
}

/// Returns the words of the prompt that contain these terms, without duplicates.
fn named(prompt: &str, terms: &[&PassageTerm]) -> String {
    let written = words_as_written(prompt);
    let mut named: Vec<String> = Vec::new();
    for term in terms {
        let has_it = |word: &&str| word.to_lowercase().contains(&term.text);
        let word = written.iter().copied().filter(has_it).min_by_key(|word| word.len()).unwrap_or(&term.text);
        let word = format!("`{}`", word.replace('`', ""));
        if !named.contains(&word) {
            named.push(word);
        }
        if named.len() == MOST_WORDS {
            break;
        }
    }
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::spoken::Spoken;
    use super::super::tests::{clear, first, without_words};
    use super::*;

    fn key(matches: &PassageMatches, place: usize) -> PassageKey {
        matches.matches[place].key
    }

    #[test]
    fn an_injection_reason_names_the_shared_words_or_only_the_new_ones() {
        let matches = clear();
        let prompt = "why is the login with `bcrypt` slow?";
        assert_eq!(of(&first(prompt), &matches, key(&matches, 0)), "names `bcrypt`, `login`, `slow`");
        let spoken = Spoken::of(["The login is slow."]);
        let later = Situation { prompts_before: 2, spoken: Some(&spoken), ..first(prompt) };
        let reason = of(&later, &matches, key(&matches, 0));
        assert_eq!(reason, "names `bcrypt`, which this session has not mentioned");
        assert_eq!(of(&later, &matches, key(&matches, 1)), "names `login`, `slow`");
    }

    #[test]
    fn similar_meaning_and_an_earlier_question_are_injection_reasons() {
        let mut matches = without_words();
        assert_eq!(of(&first("x"), &matches, key(&matches, 0)), "means nearly the same as the prompt");
        let mut asked = matches.matches[1].clone();
        asked.key.document.kind = DocumentKind::Prompt;
        asked.strength = 0.9;
        matches.matches.push(asked);
        let reason = of(&first("x"), &matches, key(&matches, 0));
        assert!(reason.starts_with("the same was asked in its session; "), "{reason}");
    }
}
