//! Corrects titles that a model or a user wrote.

use super::{LONGEST_TITLE, Title, fitting};
use crate::wording::clause::{Border, Cut, trimmed};
use crate::wording::plain::{capitalized, is_balanced, plain};
use crate::wording::word::{bare, is_weak};

/// A title by a model or a user, corrected by the same rules: no prefix, no marks, no ellipsis, complete within
/// [`LONGEST_TITLE`]. The rest is what had to be cut. `None` if it is not a statement: a question, a heading, nothing.
pub(crate) fn clean_title(written: &str) -> Option<Title> {
    let mut text = plain(&written.replace('…', " "));
    for _ in 0..2 {
        let Some((label, rest)) = text.split_once(": ") else { break };
        let label = label.to_lowercase();
        let label = label.split(" (").next().unwrap_or_default();
        const PREFIXES: [&str; 22] = [
            "user",
            "plan",
            "open",
            "decision",
            "decided",
            "summary",
            "note",
            "title",
            "bugfix",
            "fix",
            "feature",
            "change",
            "discovery",
            "gotcha",
            "refactor",
            "security",
            "trade-off",
            "preference",
            "correction",
            "next step",
            "todo",
            "user chose",
        ];
        if !PREFIXES.contains(&label) {
            break;
        }
        text = capitalized(&plain(rest));
    }
    let text = trimmed(without_quotes(text.trim()).trim_end_matches("...").trim_end());
    // A script without spaces says enough in one word.
    let enough = text.split_whitespace().count() >= 2 || !text.is_ascii() && text.chars().count() > 6;
    if text.ends_with('?') || !enough || !text.chars().any(char::is_alphabetic) {
        return None;
    }
    let (cut, _) = fitting(text, LONGEST_TITLE).unwrap_or_else(|| (at_a_word(text), 0.0));
    let holds = cut.head.chars().any(char::is_alphabetic)
        && !cut.head.ends_with(['?', ':'])
        && !cut.head.ends_with("...");
    holds.then(|| Title { text: capitalized(&cut.head), piece: 0, rest: cut.rest })
}

/// The text without quotation marks around all of it. `"Shared" is a "section"` keeps its marks.
fn without_quotes(text: &str) -> &str {
    let inside = |(open, close): (char, char)| {
        let inside = text.strip_prefix(open)?.strip_suffix(close)?;
        (!inside.contains([open, close])).then(|| inside.trim())
    };
    [('"', '"'), ('“', '”'), ('„', '“')].into_iter().find_map(inside).unwrap_or(text)
}

/// Cut between words, because no clause ends in time. The rest is then the whole text, because a beginning alone says
/// too little.
fn at_a_word(text: &str) -> Cut {
    let mut head = String::new();
    for word in text.split_whitespace() {
        if head.chars().count() + 1 + word.chars().count() > LONGEST_TITLE {
            break;
        }
        if !head.is_empty() {
            head.push(' ');
        }
        head.push_str(word);
    }
    while let Some((before, last)) = head.rsplit_once(' ') {
        if !is_weak(&bare(last)) && is_balanced(&head) {
            break;
        }
        head = before.to_owned();
    }
    if head.is_empty() {
        head = text.chars().take(LONGEST_TITLE).collect();
    }
    Cut { head: trimmed(&head).to_owned(), rest: text.to_owned(), border: Border::Addition }
}
