//! Excerpts that show why a document was found.

use recall_domain::text::one_line;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use recall_domain::ranking::{Frequency, information};

use super::long_text::both_ends;
use super::query::Query;
use super::schema::{LONGEST_HEAD, LONGEST_TAIL};
use super::terms;
use super::tokenizer::{CodeTokenizer, Token};

const ELISION: char = '…';

/// Returns the part of `text` with the most informative words of the query, as plain text on one line of at most
/// `max_chars` characters. It is cut at word boundaries. An ellipsis marks omissions and counts as a character.
pub fn snippet(text: &str, query: &Query, max_chars: usize) -> String {
    // Only the indexed parts can have matched.
    let text = both_ends(text, LONGEST_HEAD, LONGEST_TAIL);
    let line = one_line(&text);
    if line.chars().count() <= max_chars {
        return line;
    }
    // Reserves an ellipsis on each side.
    let Some(room) = max_chars.checked_sub(2).filter(|room| *room > 0) else { return String::new() };
    let ends: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
    let start = best_start(&line, query, &ends, room);
    let (from, to) = whole_words(&line, &ends, start, room);
    let mut shown = String::new();
    if from > 0 {
        shown.push(ELISION);
    }
    shown.push_str(line.get(from..to).unwrap_or_default().trim());
    if to < line.len() {
        shown.push(ELISION);
    }
    shown
}

/// Returns the ranges of the query's words in a text, in order and without overlaps.
pub fn matches(text: &str, query: &Query) -> Vec<Range<usize>> {
    let sought: HashSet<String> = terms::query_terms(query).into_iter().map(|term| term.text).collect();
    let mut spans: Vec<Range<usize>> = CodeTokenizer::default()
        .tokens(text)
        .into_iter()
        .filter(|token| sought.contains(&token.text))
        .map(|token| token.span)
        .collect();
    spans.sort_by_key(|span| (span.start, span.end));
    let mut found: Vec<Range<usize>> = Vec::new();
    for span in spans {
        match found.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => found.push(span),
        }
    }
    found
}

/// Returns the character at which the best window begins.
fn best_start(line: &str, query: &Query, ends: &[usize], room: usize) -> usize {
    let worth: HashMap<String, f32> = terms::query_terms(query)
        .into_iter()
        .map(|term| {
            let unknown = Frequency { documents: 0, population: 0 };
            (term.text, information(unknown, term.commonness) * term.share)
        })
        .collect();
    let char_at = |byte: usize| ends.partition_point(|end| *end < byte);
    let places: Vec<(usize, usize, Token)> = CodeTokenizer::default()
        .tokens(line)
        .into_iter()
        .filter(|token| worth.contains_key(&token.text))
        .map(|token| (char_at(token.span.start), char_at(token.span.end), token))
        .collect();
    // Some context before the match keeps it readable.
    let lead = room / 5;
    let mut best = (0.0, 0);
    for (index, (start, _, _)) in places.iter().enumerate() {
        let mut seen = HashSet::new();
        let mut sum = 0.0;
        // The window is short, so this visits only a few terms.
        for (_, end, token) in places.iter().skip(index) {
            if *end > start + room - lead {
                break;
            }
            if seen.insert(&token.text) {
                sum += worth.get(&token.text).copied().unwrap_or_default();
            }
        }
        if sum > best.0 {
            best = (sum, *start);
        }
    }
    best.1.saturating_sub(lead)
}

/// Returns the byte range of the window that starts at character `start`, shrunk to whole words where there are
/// spaces.
fn whole_words(line: &str, ends: &[usize], start: usize, room: usize) -> (usize, usize) {
    let last = ends.len().saturating_sub(1);
    let start = start.min(last.saturating_sub(room));
    let byte = |char_index: usize| ends.get(char_index).copied().unwrap_or(line.len());
    let (mut from, mut to) = (byte(start), byte(start + room));
    let window = line.get(from..to).unwrap_or_default();
    let inside_word = |at: usize| {
        let before = line.get(..at).is_some_and(|head| head.ends_with(|c: char| !c.is_whitespace()));
        let after = line.get(at..).is_some_and(|tail| tail.starts_with(|c: char| !c.is_whitespace()));
        before && after
    };
    // A word that takes a third of the window is cut instead of dropped.
    let reach = window.len() / 3;
    let head = window.find(' ').filter(|space| inside_word(from) && *space <= reach);
    let tail = window.rfind(' ').filter(|space| inside_word(to) && window.len() - space <= reach);
    to = tail.map_or(to, |space| from + space);
    from += head.map_or(0, |space| space + 1);
    (from.min(to), to)
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_of_the_query_are_matched_in_any_form() {
        let text = "Rounding once; rounds in src/round_cents.ts";
        let found: Vec<_> = matches(text, &parse("round")).into_iter().map(|span| &text[span]).collect();
        assert_eq!(found, ["Rounding", "rounds", "round"]);
        assert!(matches("nothing", &parse("round")).is_empty());
    }

    use proptest::prelude::*;

    use super::*;
    use crate::query::parse;

    const TEXT: &str = "We looked at many things on that day and found little of note. Then the login page was slow \
        because bcrypt ran with a cost of fourteen on the request thread. Nothing else of interest followed.";

    #[track_caller]
    fn check(query: &str, max_chars: usize, expected: &str) {
        assert_eq!(snippet(TEXT, &parse(query), max_chars), expected);
    }

    #[test]
    fn a_snippet_shows_the_part_with_the_matches() {
        check("bcrypt login", 60, "…Then the login page was slow because bcrypt ran with a…");
        check("interest", 40, "…Nothing else of interest followed.");
        check("absent", 30, "We looked at many things on…");
        check("login", 2, "");
    }

    #[test]
    fn short_texts_are_shown_whole_on_one_line() {
        assert_eq!(snippet("two\n  lines", &parse("x"), 40), "two lines");
    }

    proptest! {
        #[test]
        fn a_snippet_is_never_longer_than_requested(text in "\\PC{0,200}", query in "\\PC{0,20}", max_chars in 0usize..100) {
            let shown = snippet(&text, &parse(&query), max_chars);
            prop_assert!(shown.chars().count() <= max_chars);
        }
    }
}
