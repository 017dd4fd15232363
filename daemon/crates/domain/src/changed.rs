//! Detects that a later statement changes an earlier one: 30 s became 90 s, pounds became kilograms, a finding was
//! fixed.
//!
//! An earlier statement counts as changed only if both have the same subject and share most of their words, and the
//! later one says that something changed. Doubtful statements stay current, because injecting an old statement beside
//! the new one does less harm than losing it. Compressors compare statements within a session; everything that is
//! injected unasked is compared across all sessions.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use super::injection::excerpt::sentences;

/// The minimum share of an earlier statement's words that the later one must contain, in percent.
const COMMON: usize = 60;
/// The minimum share of a later statement's words that the earlier one must contain, in percent. Below it, the later
/// one is about something else.
const COMMON_OF_LATER: usize = 50;
/// Statements with fewer words cannot be compared.
const FEWEST: usize = 3;
/// The number of characters by which words are compared, so that their endings do not matter.
const STEM: usize = 6;

/// Words that say that something has changed.
const CHANGES: &str = "now, no longer, any more, anymore, instead, switched, changed, replaced, raised, lowered, increased, reduced, \
    moved, renamed, removed, dropped, fixed, corrected, reverted, from now on, rather than, turned out";
/// Grammatical words, which name nothing.
const GRAMMAR: &str = "the a an and or of to in for on with is are was were be been it its this that these those as at by from we you i they \
    can will would should could may might do does did has have had there here then than so not no also still only just all \
    now always already done switched changed fixed corrected replaced";
/// Separators after which a statement's explanation begins.
const ENDS: [&str; 8] = [" because ", " since ", " so that ", ", so ", "; ", " — ", " - ", ": "];
/// The maximum length of a label before a colon, in characters.
const LABEL: usize = 24;

/// A statement, reduced to its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub words: BTreeSet<String>,
    /// The first word.
    pub subject: String,
    /// The word after the subject if it is a number: `Phase 3` and `Phase 4` are different subjects.
    number: Option<String>,
}

impl Statement {
    /// Parses a statement. `None` if it has too few words.
    pub fn of(text: &str) -> Option<Self> {
        let mut statement = text.trim();
        // `Fixed: the pool drains`, `Finding 2: the pool hangs`, `Done. The pool drains`
        for mark in [": ", ". "] {
            let label = statement.split_once(mark).filter(|(label, _)| label.chars().count() <= LABEL);
            statement = label.map_or(statement, |(_, rest)| rest);
        }
        let end = ENDS.iter().filter_map(|end| statement.find(end)).min().unwrap_or(statement.len());
        let words = words_of(statement.get(..end).unwrap_or(statement));
        let subject = words.first()?.clone();
        let number = words.get(1).filter(|word| word.chars().all(|c| c.is_ascii_digit())).cloned();
        Some(Self { words: words.into_iter().collect(), subject, number })
    }

    /// Whether the later statement has the same subject and says something different.
    pub fn is_changed_by(&self, later: &Self) -> bool {
        if self.subject != later.subject || self.number != later.number || self.words.len() < FEWEST {
            return false;
        }
        let common = self.words.intersection(&later.words).count();
        common < self.words.len()
            && common * 100 >= self.words.len() * COMMON
            && common * 100 >= later.words.len() * COMMON_OF_LATER
    }
}

/// The content words of a text without their endings, in order.
pub fn words_of(text: &str) -> Vec<String> {
    static GRAMMATICAL: LazyLock<HashSet<&str>> =
        LazyLock::new(|| GRAMMAR.split_ascii_whitespace().collect());
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':' || c == '/' || c == '.'));
    let words = words.map(|word| word.trim_matches([':', '.', '/']).to_lowercase());
    words
        .filter(|word| !word.is_empty() && !GRAMMATICAL.contains(word.as_str()))
        .map(|word| word.chars().take(STEM).collect::<String>().trim_end_matches('s').to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Whether a sentence says that something changed. A sentence that only introduces something new does not.
pub fn announces_change(text: &str) -> bool {
    // Keyed by first word.
    static PHRASES: LazyLock<HashMap<&str, Vec<Vec<&str>>>> = LazyLock::new(|| {
        let mut by_first_word: HashMap<&str, Vec<Vec<&str>>> = HashMap::new();
        for phrase in CHANGES.split(", ") {
            let mut words = phrase.split(' ');
            by_first_word.entry(words.next().unwrap_or_default()).or_default().push(words.collect());
        }
        by_first_word
    });
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let begins = |(at, word): (usize, &&str)| {
        let rest = words.get(at + 1..).unwrap_or_default();
        PHRASES.get(word).is_some_and(|phrases| phrases.iter().any(|more| rest.starts_with(more)))
    };
    !text.ends_with(':') && words.iter().enumerate().any(begins)
}

/// The statements of a text, parsed once for comparison with those of many other texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    all: Vec<Statement>,
    /// The statements that say that something changed.
    changes: Vec<Statement>,
}

impl Statements {
    pub fn of(text: &str) -> Self {
        let sentences = sentences(text);
        let changed = sentences.iter().filter(|sentence| announces_change(sentence));
        Self {
            changes: changed.filter_map(|sentence| Statement::of(sentence)).collect(),
            all: sentences.iter().filter_map(|sentence| Statement::of(sentence)).collect(),
        }
    }

    /// Whether a sentence of the later text changes one of these statements.
    pub fn are_changed_by(&self, later: &Self) -> bool {
        later.changes.iter().any(|now| self.all.iter().any(|then| then.is_changed_by(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(later: &str, earlier: &str) -> bool {
        Statements::of(earlier).are_changed_by(&Statements::of(later))
    }

    #[test]
    fn a_later_text_changes_a_statement_only_if_it_says_so() {
        let waits = "The gateway client gives up after **30 s** because the bank is late. See `TIMEOUT_S`.";
        assert!(changes("Done. The gateway client now gives up after 90 s, see `TIMEOUT_S`.", waits));
        assert!(changes(
            "Fixed: `Cart::remove` returns None on an empty cart.",
            "`Cart::remove` panics on an empty cart"
        ));
        for other in [
            "The gateway client gives up after 90 s.",
            "The cart client now gives up after 90 s.",
            "The gateway client now retries three times, and logs what the bank answers each time.",
            "The gateway client now gives up after 30 s:",
            "",
        ] {
            assert!(!changes(other, waits), "{other}");
        }
        assert!(!changes("Phase 4 now draws the cart anew", "Phase 3 draws the cart anew"));
    }
}
