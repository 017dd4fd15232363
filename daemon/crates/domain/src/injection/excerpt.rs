//! Selects the sentences of a passage that say most about the question.

use crate::passage::PassageTerm;
use crate::sameness::is_code;
use crate::tokens::estimate;

/// The token limit of a statement with its heading. Its id, age and kind take about ten more.
pub const LINE: u32 = 48;
/// The limit where a question is answered. With the shorter limit, two of five answers were lost.
pub const ANSWER: u32 = 120;
/// The number of fifths of the limit that the heading may take.
const OF_HEADING: u32 = 2;
/// The maximum number of names and numbers that count per sentence. Each counts as much as one bit of the question.
const MOST_NAMES: usize = 3;
/// The penalty for sentences that introduce, open, offer or ask something.
const INTRODUCTION: f32 = 3.0;
/// Shorter terms may be part of any word.
const SHORTEST_PART: usize = 3;
/// Words with which an answer opens or moves on, before it says anything.
const OPENINGS: [&str; 24] = [
    "done",
    "perfect",
    "great",
    "yes",
    "no",
    "ok",
    "okay",
    "good",
    "sure",
    "excellent",
    "let me",
    "now let me",
    "i'll",
    "i will",
    "here is",
    "here's",
    "here are",
    "want me",
    "would you",
    "shall i",
    "should i",
    "do you",
    "let's",
    "review complete",
];

/// Fits a heading and a text into one line of `most` tokens: the whole text if it is short, or else its best sentences
/// in their order.
pub fn of(heading: &str, text: &str, terms: &[PassageTerm], most: u32) -> (String, String) {
    let heading = beginning(heading.trim(), most * OF_HEADING / 5);
    let room = most.saturating_sub(estimate(&heading));
    if estimate(text) <= room {
        return (heading, text.to_owned());
    }
    let sentences = sentences(text);
    let mut order: Vec<(f32, usize)> = sentences
        .iter()
        .enumerate()
        .map(|(place, sentence)| {
            let length = (estimate(sentence).max(1) as f32).sqrt();
            (worth(sentence, terms) / length, place)
        })
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let Some(best) = order.first().and_then(|(_, place)| sentences.get(*place)) else {
        return (heading, beginning(text, room));
    };
    if estimate(best) >= room {
        return (heading, beginning(best, room));
    }
    let text = together(&sentences, order.into_iter().filter(|(worth, _)| *worth > 0.0), room);
    let text = if text.is_empty() { (*best).to_owned() } else { text };
    (heading, text)
}

/// Returns the best sentences that fit, in the order of the text.
fn together(sentences: &[&str], order: impl Iterator<Item = (f32, usize)>, room: u32) -> String {
    let mut kept: Vec<usize> = Vec::new();
    let mut excerpt = String::new();
    for (_, place) in order {
        let at = kept.partition_point(|known| *known < place);
        kept.insert(at, place);
        let longer = joined(sentences, &kept);
        if estimate(&longer) <= room {
            excerpt = longer;
        } else {
            kept.remove(at);
        }
    }
    excerpt
}

/// Joins sentences in the order of the text, and marks omissions.
pub fn joined(sentences: &[&str], kept: &[usize]) -> String {
    let mut text = String::new();
    let mut last: Option<usize> = None;
    for place in kept {
        let between = match last {
            None => "",
            Some(last) if last + 1 == *place => " ",
            Some(_) => " \u{2026} ",
        };
        text.push_str(between);
        text.push_str(sentences.get(*place).copied().unwrap_or_default());
        last = Some(*place);
    }
    text
}

/// Returns as many whole words of a text as fit into `tokens`.
pub fn beginning(text: &str, tokens: u32) -> String {
    if estimate(text) <= tokens {
        return text.to_owned();
    }
    let mut kept = String::new();
    for word in text.split_whitespace() {
        let longer = if kept.is_empty() { word.to_owned() } else { format!("{kept} {word}") };
        if estimate(&format!("{longer}\u{2026}")) > tokens {
            break;
        }
        kept = longer;
    }
    kept.push('\u{2026}');
    kept
}

/// Whether a sentence only opens an answer, offers something or asks.
pub fn is_filler(sentence: &str) -> bool {
    let sentence = sentence.trim_start_matches(|c: char| !c.is_alphanumeric()).trim_end();
    let opens = OPENINGS.iter().any(|opening| {
        let head = sentence.get(..opening.len()).unwrap_or_default();
        let rest = sentence.get(opening.len()..).unwrap_or_default();
        head.eq_ignore_ascii_case(opening) && !rest.starts_with(char::is_alphanumeric)
    });
    opens && sentence.split_whitespace().count() <= 12 || sentence.ends_with([':', '?', '\u{ff1f}'])
}

fn worth(sentence: &str, terms: &[PassageTerm]) -> f32 {
    let lower = sentence.to_lowercase();
    let has = |term: &PassageTerm| term.text.len() >= SHORTEST_PART && lower.contains(&term.text);
    let asked: f32 = terms.iter().filter(|term| has(term)).map(|term| term.information).sum();
    let names =
        sentence.split_whitespace().filter(|word| is_code(word.trim_matches(|c: char| !c.is_alphanumeric())));
    let names = names.take(MOST_NAMES).count() as f32;
    asked + names - if is_filler(sentence) { INTRODUCTION } else { 0.0 }
}

/// Splits each line into sentences. A line of code is one sentence.
pub fn sentences(text: &str) -> Vec<&str> {
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

/// Returns the end of the first of several sentences.
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
    use crate::ranking::Commonness;

    fn term(text: &str) -> PassageTerm {
        PassageTerm { text: text.to_owned(), information: 2.0, passages: 3, commonness: Commonness::Content }
    }

    #[test]
    fn a_short_text_is_kept_whole_and_a_long_one_is_excerpted() {
        let excerpt_of = |heading: &str, text: &str, asked: &[PassageTerm]| {
            let (heading, text) = of(heading, text, asked, LINE);
            format!("{heading}|{text}")
        };
        let short = "Rounding happens once.\n- after the sum";
        assert_eq!(excerpt_of("Cart", short, &[]), format!("Cart|{short}"));
        let filler = "This says nothing about it at all, and goes on for quite a while here. ".repeat(9);
        let text = format!(
            "I changed the cart. {filler}\nThe gateway waits `gateway.timeout` = 30 s. Shall I go on?"
        );
        let found = excerpt_of("", &text, &[term("gateway")]);
        assert!(found.ends_with("The gateway waits `gateway.timeout` = 30 s."), "{found}");
        let opened = format!("Done. {filler} The gateway waits 30 s.");
        assert!(!excerpt_of("", &opened, &[term("gateway")]).contains("Done"));
    }

    #[test]
    fn openings_offers_and_questions_say_nothing() {
        for nothing in
            ["Done.", "**Perfect!**", "Want me to commit it?", "Here is the summary:", "Yes, go on."]
        {
            assert!(is_filler(nothing), "{nothing}");
        }
        for something in ["Nothing is rounded twice.", "The cart is done by rounding.", "Notes are kept."] {
            assert!(!is_filler(something), "{something}");
        }
    }

    proptest! {
        #[test]
        fn an_excerpt_is_short_and_contains_only_words_of_the_text(
            heading in "[a-z ]{0,200}",
            text in "([a-zA-Z\u{e9}]{1,9}[ .!?\n]{1,2}|\u{3002}|`){0,300}",
        ) {
            for most in [LINE, ANSWER] {
                let (heading, excerpt) = of(&heading, &text, &[term("abc")], most);
                prop_assert!(estimate(&heading) + estimate(&excerpt) <= most + 2, "{heading} {excerpt}");
            }
            let (_, excerpt) = of(&heading, &text, &[term("abc")], LINE);
            for part in excerpt.split('\u{2026}') {
                for word in part.split_whitespace() {
                    prop_assert!(text.contains(word), "{word}");
                }
            }
        }
    }
}
