//! Texts that are never worth remembering, recognized by form: offers, announcements, status, menus.
//!
//! These lists are short on purpose. They contain only what readers always reject; the weights decide about
//! everything else.

use super::sources::SourceKind;
use super::terms::is_name;
use super::units::{Form, Unit};
use crate::wording::Within;

const OFFERS: [&str; 25] = [
    "want me to",
    "would you like",
    "shall i",
    "should i",
    "do you want",
    "let me know",
    "happy to",
    "feel free",
    "ready to proceed",
    "ready to go",
    "ready when",
    "say the word",
    "reply with",
    "just say",
    "just tell",
    "soll ich",
    "möchtest du",
    "möchten sie",
    "willst du",
    "veux-tu que",
    "voulez-vous que",
    "souhaitez-vous",
    "dois-je",
    "quieres que",
    "te gustaría que",
];

/// Offers in scripts whose words are not separated.
const OFFERS_OF_SIGNS: [&str; 6] = ["ましょうか", "要我", "需要我", "할까요", "드릴까요", "원하시면"];

/// Offers that follow something else in a sentence.
const INNER_OFFERS: [&str; 6] = [
    "want me to",
    "would you like me to",
    "let me know if",
    "let me know when",
    "let me know whether",
    "shall i",
];

const ANNOUNCEMENTS: [&str; 32] = [
    "let me",
    "i'll",
    "i will",
    "now i'll",
    "now let",
    "now i have",
    "i now have",
    "let's",
    "perfect",
    "great",
    "excellent",
    "here's a",
    "here's the",
    "here's what",
    "here's my",
    "here's how",
    "heres a",
    "heres the",
    "heres what",
    "heres my",
    "heres how",
    "here is",
    "here are",
    "based on my",
    "i have all",
    "i have enough",
    "below is",
    "the following",
    "first, let",
    "first let",
    "looking at the",
    "lass mich",
];

const CHECKS: [&str; 10] =
    ["test", "tests", "lint", "linting", "checks", "typecheck", "ci", "build", "format", "formatting"];
const CHECK_QUALIFIERS: [&str; 4] = ["all", "both", "unit", "integration"];
const PASSED: [&str; 9] =
    [" pass", " clean", " green", " ok", " succeed", " 0 issues", "passed", "passing", "passes"];

const ACKNOWLEDGEMENTS: [&str; 11] = [
    "done",
    "committed",
    "pushed",
    "fixed",
    "perfect",
    "great",
    "yes",
    "ok",
    "all set",
    "complete",
    "erledigt",
];

/// Openings that are removed: the text after them is the answer.
const OPENINGS: [&str; 17] = [
    "done",
    "perfect",
    "great",
    "excellent",
    "good catch",
    "good point",
    "good question",
    "good",
    "yes",
    "fixed",
    "okay",
    "ok",
    "got it",
    "you're right",
    "youre right",
    "you're absolutely right",
    "behoben",
];

/// The length from which an announcement also says something else.
const LONGEST_ANNOUNCEMENT: usize = 160;
/// The length below which a line that ends with a colon only introduces the next line.
const SHORTEST_LEAD: usize = 50;

/// Drops units that say nothing, and removes openings. Only in an answer that ends the session does an offer say what
/// is open.
pub(super) fn clean(kind: SourceKind, within: Within, units: Vec<Unit>) -> Vec<Unit> {
    if matches!(kind, SourceKind::Ask | SourceKind::Failure | SourceKind::Cure) {
        return units;
    }
    let is_answer = matches!(kind, SourceKind::Answer | SourceKind::Subagent);
    let is_prose = is_answer
        || matches!(
            kind,
            SourceKind::Commit | SourceKind::PullRequest | SourceKind::Document | SourceKind::Plan
        );
    let is_end = within == Within::End;
    let mut kept = Vec::with_capacity(units.len());
    for (number, mut unit) in units.into_iter().enumerate() {
        let text = unit.text.replace("<br>", " ");
        let mut text = text.trim();
        if is_answer && number < 2 {
            text = without_opening(text);
        }
        let lower = text.to_lowercase();
        let bare = lower.trim_start_matches(|edge: char| !edge.is_alphanumeric());
        let is_menu =
            is_menu(&lower) && !(is_end && lower.trim_start_matches(['`', '"', '\'']).starts_with('/'));
        if !has_words(text) || is_menu {
            continue;
        }
        unit.is_offer = is_answer && unit.form != Form::Code && is_offer(bare);
        if (unit.is_offer && !is_end) || (is_prose && (is_announcement(bare) || is_status(bare))) {
            continue;
        }
        if unit.form == Form::Prose && text.ends_with(':') && text.chars().count() < SHORTEST_LEAD {
            continue;
        }
        if text.is_empty() {
            continue;
        }
        if text.len() != unit.text.len() {
            unit.text = capitalized(text);
        }
        kept.push(unit);
    }
    kept
}

/// The text with its first letter in upper case, unless it begins with a code name: `state.go: waits`.
fn capitalized(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or_default();
    if is_name(first.trim_matches(|edge: char| !edge.is_alphanumeric())) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>());
    first.unwrap_or_default() + letters.as_str()
}

fn has_words(text: &str) -> bool {
    let mut before = false;
    text.chars().any(|letter| {
        let is_letter = letter.is_alphabetic();
        // One character is a word in scripts without gaps.
        let found = is_letter && (before || letter > '\u{2e7f}');
        before = is_letter;
        found
    })
}

fn without_opening(text: &str) -> &str {
    let lower = text.to_lowercase();
    let Some(opening) = OPENINGS.iter().find(|opening| lower.starts_with(**opening)) else { return text };
    let Some(rest) = text.get(opening.len()..) else { return text };
    let behind = rest.trim_start().trim_start_matches(['!', '.', ',', '—', '–', '-']);
    let is_cut = behind.len() < rest.trim_start().len() && behind.starts_with(char::is_whitespace);
    if is_cut && !behind.trim().is_empty() { behind.trim_start() } else { text }
}

/// Whether a lower-case text begins with one of these, without a letter after it.
fn begins(text: &str, openings: &[&str]) -> bool {
    openings.iter().any(|opening| {
        text.strip_prefix(opening).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    })
}

fn is_offer(lower: &str) -> bool {
    let is_asked = lower.ends_with(['?', '？', '。']);
    if begins(lower, &OFFERS) || is_asked && OFFERS_OF_SIGNS.iter().any(|offer| lower.contains(offer)) {
        return true;
    }
    INNER_OFFERS.iter().any(|offer| {
        lower.find(offer).and_then(|at| lower.get(at..)).is_some_and(|rest| {
            let rest = rest.trim_end_matches(['.', '?', '!']);
            !rest.contains('.')
        })
    })
}

fn is_announcement(lower: &str) -> bool {
    (lower.len() < LONGEST_ANNOUNCEMENT || lower.ends_with(':'))
        && !lower.contains('—')
        && begins(lower, &ANNOUNCEMENTS)
}

/// `All 12 tests pass`, `Lint is clean`, `Done.`
fn is_status(lower: &str) -> bool {
    let bare = lower.trim_end_matches(['.', '!', ' ']);
    if ACKNOWLEDGEMENTS.contains(&bare)
        || lower.starts_with("the task is complete")
        || lower.starts_with("working tree clean")
        || lower.starts_with("working tree is clean")
    {
        return true;
    }
    let mut words = lower.split_whitespace().peekable();
    while words.peek().is_some_and(|word| {
        CHECK_QUALIFIERS.contains(word) || word.bytes().all(|byte| byte.is_ascii_digit() || byte == b',')
    }) {
        words.next();
    }
    let is_check = words.next().is_some_and(|word| CHECKS.contains(&word.trim_end_matches(':')));
    let until = bare.find(['.', ';', '—']).unwrap_or(bare.len());
    is_check && lower.len() < 140 && until == bare.len() && PASSED.iter().any(|passed| lower.contains(passed))
}

/// `/command`, `q to exit`, `<tag>`, rules and boxes.
fn is_menu(lower: &str) -> bool {
    let bare = lower.trim_start_matches(['`', '"', '\'']);
    let is_command = bare.strip_prefix('/').is_some_and(|name| {
        let name = name.split(['`', ' ']).next().unwrap_or_default();
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'-' | b'_'))
    });
    let is_key =
        bare.get(1..).is_some_and(|rest| rest.trim_start_matches(['`', '"', '\'']).starts_with(" to exit"));
    let is_tag = bare.strip_prefix('<').is_some_and(|rest| {
        rest.split_once('>').is_some_and(|(name, _)| name.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    });
    is_command || is_key || is_tag || lower.starts_with("also available")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, is_kept: bool) {
        let units = super::super::units::parse(text);
        let kept = clean(SourceKind::Answer, Within::Earlier, units);
        assert_eq!(!kept.is_empty(), is_kept, "{text}");
    }

    #[test]
    fn talk_and_status_are_dropped() {
        for text in [
            "Done.",
            "Let me look at the pool first.",
            "All 12 tests pass.",
            "Lint is clean.",
            "Want me to push it?",
            "I can also split it. Shall I?",
            "`/clear`",
            "Now I have everything I need.",
            "The working tree is fine:",
            "────",
            "42",
        ] {
            check(text, text.starts_with("I can"));
        }
    }

    #[test]
    fn statements_are_kept() {
        for text in [
            "The pool waits because `pending` is stale.",
            "Tests pass only with `--test-threads=1`; the port is shared.",
            "Let the reader close the socket.",
        ] {
            check(text, true);
        }
    }

    #[test]
    fn opening_words_before_a_statement_are_removed() {
        assert_eq!(without_opening("Done! The pool waits."), "The pool waits.");
        assert_eq!(without_opening("Good question — it is the port."), "it is the port.");
        assert_eq!(without_opening("Fixed-size pools wait."), "Fixed-size pools wait.");
        assert_eq!(without_opening("Done."), "Done.");
    }

    #[test]
    fn a_file_name_after_an_opening_is_not_capitalized() {
        for (text, kept) in [
            ("Done! till.go: counts the coins once.", "till.go: counts the coins once."),
            ("Done! counts the coins once.", "Counts the coins once."),
        ] {
            let units = clean(SourceKind::Answer, Within::Earlier, super::super::units::parse(text));
            assert_eq!(units[0].text, kept, "{units:?}");
        }
    }

    #[test]
    fn an_offer_of_the_last_answer_is_kept() {
        let units = super::super::units::parse("Want me to push it?");
        assert_eq!(clean(SourceKind::Answer, Within::End, units).len(), 1);
    }
}
