//! The sentences of a passage that say most about what was asked.

use crate::memory::passage::PassageTerm;
use crate::memory::sameness::is_code;
use crate::memory::tokens::estimate;

/// A passage is told in so many tokens.
const MOST_TOKENS: u32 = 120;
/// Names and numbers that count in one sentence, each as much as one bit of what was asked.
const MOST_NAMES: usize = 3;
/// What introduces or asks something says little itself.
const INTRODUCTION: f32 = 3.0;
/// A shorter term may be a part of any word.
const SHORTEST_PART: usize = 3;

/// A text as it is told: whole if it is short, or else its best sentences in their order.
pub fn of(text: &str, terms: &[PassageTerm]) -> String {
    if estimate(text) <= MOST_TOKENS {
        return text.to_owned();
    }
    let sentences = sentences(text);
    let mut order: Vec<(f32, usize)> = sentences
        .iter()
        .enumerate()
        .map(|(place, sentence)| {
            let first = if place == 0 { 1.0 } else { 0.0 };
            let length = (estimate(sentence).max(1) as f32).sqrt();
            ((worth(sentence, terms) + first) / length, place)
        })
        .filter(|(worth, _)| *worth > 0.0)
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut room = MOST_TOKENS;
    let mut kept: Vec<usize> = Vec::new();
    for (_, place) in order {
        let Some(sentence) = sentences.get(place) else { continue };
        let cost = estimate(sentence) + 1;
        if cost <= room {
            room -= cost;
            kept.push(place);
        }
    }
    if kept.is_empty() {
        // One long line.
        return text.to_owned();
    }
    kept.sort_unstable();
    let mut told = String::new();
    let mut last: Option<usize> = None;
    for place in kept {
        let between = match last {
            None => "",
            Some(last) if last + 1 == place => " ",
            Some(_) => " \u{2026} ",
        };
        told.push_str(between);
        told.push_str(sentences.get(place).copied().unwrap_or_default());
        last = Some(place);
    }
    told
}

fn worth(sentence: &str, terms: &[PassageTerm]) -> f32 {
    let lower = sentence.to_lowercase();
    let has = |term: &PassageTerm| term.text.len() >= SHORTEST_PART && lower.contains(&term.text);
    let asked: f32 = terms.iter().filter(|term| has(term)).map(|term| term.information).sum();
    let names =
        sentence.split_whitespace().filter(|word| is_code(word.trim_matches(|c: char| !c.is_alphanumeric())));
    let names = names.take(MOST_NAMES).count() as f32;
    let introduces = sentence.ends_with([':', '?', '\u{ff1f}']);
    asked + names - if introduces { INTRODUCTION } else { 0.0 }
}

/// The sentences of each line. A line of code is one.
pub(in crate::memory) fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    for line in text.lines().map(str::trim) {
        let mut rest = line;
        while let Some(end) = end_of_sentence(rest) {
            let (sentence, after) = rest.split_at(end);
            sentences.push(sentence);
            rest = after.trim_start();
        }
        sentences.push(rest);
    }
    sentences.retain(|sentence| sentence.chars().filter(|c| c.is_alphanumeric()).count() > 2);
    sentences
}

/// Where the first of several sentences ends.
fn end_of_sentence(text: &str) -> Option<usize> {
    let ends = text.char_indices().filter(|(_, c)| matches!(c, '.' | '!' | '?' | '\u{3002}'));
    ends.map(|(at, c)| at + c.len_utf8()).find(|end| {
        let after = text.get(*end..).unwrap_or_default();
        let is_wide = text.get(..*end).is_some_and(|head| head.ends_with('\u{3002}'));
        let next = after.trim_start();
        let begins = next.starts_with(|c: char| c.is_uppercase() || matches!(c, '`' | '*' | '"'));
        (is_wide && !next.is_empty()) || (after.starts_with(' ') && begins)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::ranking::Commonness;

    fn term(text: &str) -> PassageTerm {
        PassageTerm { text: text.to_owned(), information: 2.0, passages: 3, commonness: Commonness::Content }
    }

    #[test]
    fn a_short_text_is_told_as_it_is_and_of_a_long_one_what_was_asked() {
        assert_eq!(
            of("Rounding happens once.\n- after the sum", &[]),
            "Rounding happens once.\n- after the sum"
        );
        let filler = "This says nothing about it at all, and goes on for quite a while here. ".repeat(9);
        let text = format!(
            "I changed the cart. {filler}\nThe gateway waits `gateway.timeout` = 30 s. Shall I go on?"
        );
        let told = of(&text, &[term("gateway")]);
        assert_eq!(told, "I changed the cart. \u{2026} The gateway waits `gateway.timeout` = 30 s.");
    }

    proptest! {
        #[test]
        fn nothing_is_made_up(text in "([a-zA-Z\u{e9}]{1,9}[ .!?\n]{1,2}|\u{3002}|`){0,300}") {
            let told = of(&text, &[term("abc")]);
            for part in told.split(" \u{2026} ") {
                for word in part.split_whitespace() {
                    prop_assert!(text.contains(word), "{word}");
                }
            }
        }
    }
}
