//! Recognises a statement that a later one changes: 30 s that are 90 s now, pounds that became kilograms, a finding that is
//! fixed.
//!
//! A statement counts as changed only if both have the same subject and most of their words in common, and if the later one
//! says that something has changed. So a doubtful one stays: to tell an old statement beside the new one is the smaller
//! fault. Compressors ask within a session, and whatever tells something unasked asks between all.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use super::injection::excerpt::sentences;

/// The share of an earlier statement's words that the later one has, in percent.
const COMMON: usize = 60;
/// What says much besides is on something else.
const COMMON_OF_LATER: usize = 50;
/// Shorter statements have too little to be recognised by.
const FEWEST: usize = 3;
/// A word stands for its other endings by so many characters.
const STEM: usize = 6;

/// What says that something is not as it was.
const CHANGES: &str = "now, no longer, any more, anymore, instead, switched, changed, replaced, raised, lowered, increased, reduced, \
    moved, renamed, removed, dropped, fixed, corrected, reverted, from now on, rather than, turned out";
/// Words that carry a sentence and name nothing.
const GRAMMAR: &str = "the a an and or of to in for on with is are was were be been it its this that these those as at by from we you i they \
    can will would should could may might do does did has have had there here then than so not no also still only just all \
    now always already done switched changed fixed corrected replaced";
/// What ends the statement itself.
const ENDS: [&str; 8] = [" because ", " since ", " so that ", ", so ", "; ", " — ", " - ", ": "];
/// A label before a colon is no longer than this many characters.
const LABEL: usize = 24;

/// A statement by its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub words: BTreeSet<String>,
    /// The first of them.
    pub subject: String,
    /// The one behind it if it is a number: `Phase 3` and `Phase 4` are two things.
    number: Option<String>,
}

impl Statement {
    /// `None`: it says too little.
    pub fn of(text: &str) -> Option<Self> {
        let mut said = text.trim();
        // `Fixed: the pool drains`, `Finding 2: the pool hangs`, `Done. The pool drains`
        for mark in [": ", ". "] {
            let label = said.split_once(mark).filter(|(label, _)| label.chars().count() <= LABEL);
            said = label.map_or(said, |(_, rest)| rest);
        }
        let end = ENDS.iter().filter_map(|end| said.find(end)).min().unwrap_or(said.len());
        let words = words_of(said.get(..end).unwrap_or(said));
        let subject = words.first()?.clone();
        let number = words.get(1).filter(|word| word.chars().all(|c| c.is_ascii_digit())).cloned();
        Some(Self { words: words.into_iter().collect(), subject, number })
    }

    /// Whether the later statement is on the same and says it otherwise.
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

/// The words that name something, without their endings, in their order.
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

/// Whether a sentence says that something is not as it was. What only introduces something says nothing instead.
pub fn says_a_change(text: &str) -> bool {
    // By their first words.
    static SAID: LazyLock<HashMap<&str, Vec<Vec<&str>>>> = LazyLock::new(|| {
        let mut said: HashMap<&str, Vec<Vec<&str>>> = HashMap::new();
        for phrase in CHANGES.split(", ") {
            let mut words = phrase.split(' ');
            said.entry(words.next().unwrap_or_default()).or_default().push(words.collect());
        }
        said
    });
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let begins = |(at, word): (usize, &&str)| {
        let rest = words.get(at + 1..).unwrap_or_default();
        SAID.get(word).is_some_and(|phrases| phrases.iter().any(|more| rest.starts_with(more)))
    };
    !text.ends_with(':') && words.iter().enumerate().any(begins)
}

/// The statements of a text, read once to be compared with those of many others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    all: Vec<Statement>,
    /// Those that say that something is not as it was.
    changes: Vec<Statement>,
}

impl Statements {
    pub fn of(text: &str) -> Self {
        let sentences = sentences(text);
        let changed = sentences.iter().filter(|sentence| says_a_change(sentence));
        Self {
            changes: changed.filter_map(|sentence| Statement::of(sentence)).collect(),
            all: sentences.iter().filter_map(|sentence| Statement::of(sentence)).collect(),
        }
    }

    /// Whether a sentence of the later text changes one of these.
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
    fn a_later_text_changes_what_it_says_otherwise() {
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
