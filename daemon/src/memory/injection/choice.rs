//! Which answers are told: nothing twice, each fact once, the newest of a thread.

use std::collections::HashSet;

use crate::memory::document::DocumentKind;
use crate::memory::ids::Timestamp;
use crate::memory::sameness::is_code;

/// A text says what another says if it shares so many of its words, in percent.
const SAME: usize = 60;
/// A text adds nothing to what is known if the known shares so many of its words, in percent.
const KNOWN: usize = 80;
/// At a prompt at most so many statements are told: it asks one thing.
pub const MOST: usize = 4;
/// Once the told statements spend so many tokens, nothing is added: more was measured to answer no more questions.
pub const ENOUGH_TOKENS: u32 = 155;

/// The words of a text, to recognise what was said already.
#[derive(Clone, Debug, Default)]
pub struct Words {
    all: HashSet<String>,
    /// Those that are names or numbers.
    names: HashSet<String>,
}

impl Words {
    pub fn of(text: &str) -> Self {
        let mut words = Self::default();
        for written in text.split_whitespace() {
            let written = written.trim_matches(|c: char| !c.is_alphanumeric());
            if is_code(written) {
                words.names.insert(written.to_lowercase());
            }
            let parts = written.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.all.extend(parts.filter(|part| !part.is_empty()).map(str::to_lowercase));
        }
        words
    }

    /// Whether this text says what the other says, and perhaps more. A name or a number that is missing makes another
    /// statement of it.
    pub fn covers(&self, other: &Self) -> bool {
        self.shares(other, SAME) && other.names.is_subset(&self.names)
    }

    /// Whether the known texts say all that this one does.
    pub fn are_known_from(&self, known: &Self) -> bool {
        known.shares(self, KNOWN) && self.names.is_subset(&known.names)
    }

    fn shares(&self, other: &Self, percent: usize) -> bool {
        let of_other = other.all.len();
        of_other > 0 && other.all.intersection(&self.all).count() * 100 >= of_other * percent
    }
}

/// Whether a passage states something. What a person asked does not.
pub fn is_statement(kind: DocumentKind, text: &str) -> bool {
    kind != DocumentKind::Prompt || !text.trim_end().ends_with(['?', '\u{ff1f}'])
}

/// The chosen ones so far.
#[derive(Clone, Debug)]
pub struct Choice<T> {
    known: Vec<Words>,
    chosen: Vec<(Words, Timestamp, T)>,
}

impl<T> Choice<T> {
    /// `known`: what the reader has read already.
    pub fn beside(known: Vec<Words>) -> Self {
        Self { known, chosen: Vec::new() }
    }

    /// Adds a statement; the best come first. Of two that say the same the newer is kept.
    pub fn add(&mut self, words: Words, at: Timestamp, statement: T) {
        if self.known.iter().any(|known| words.are_known_from(known)) {
            return;
        }
        let is_told = |(known, then, _): &(Words, Timestamp, T)| {
            known.covers(&words) && (*then >= at || !words.covers(known))
        };
        if self.chosen.iter().any(is_told) {
            return;
        }
        match self.chosen.iter_mut().find(|(known, ..)| words.covers(known)) {
            Some(older) => *older = (words, at, statement),
            None => self.chosen.push((words, at, statement)),
        }
    }

    pub fn is_full(&self) -> bool {
        self.chosen.len() >= MOST
    }

    /// The chosen ones, the best first.
    pub fn into_best(self) -> Vec<T> {
        self.chosen.into_iter().map(|(.., statement)| statement).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(known: &[&str], statements: &[(&str, i64)], expected: &[&str]) {
        let mut choice = Choice::beside(known.iter().map(|text| Words::of(text)).collect());
        for (text, at) in statements {
            choice.add(Words::of(text), Timestamp(*at), *text);
        }
        assert_eq!(choice.into_best(), expected);
    }

    #[test]
    fn each_fact_is_told_once_and_by_the_newest() {
        let (old, new) =
            ("Invoices are numbered per customer", "Invoices are numbered per shop, not per customer");
        let other = "Rounding happens once, after the sum";
        check(&[], &[(old, 1), (other, 5), (new, 9)], &[new, other]);
        check(&[], &[(new, 9), (other, 5), (old, 1)], &[new, other]);
    }

    #[test]
    fn a_question_of_a_person_states_nothing() {
        assert!(!is_statement(DocumentKind::Prompt, "Why is the cart rounded?\n"));
        assert!(is_statement(DocumentKind::Prompt, "The cart is rounded once."));
        assert!(is_statement(DocumentKind::Response, "It is done. Shall I commit?"));
    }

    #[test]
    fn another_number_or_name_is_another_statement() {
        let (seven, eleven) =
            ("The heron7 gateway waits 7 seconds.", "The heron11 gateway waits 11 seconds.");
        check(&[], &[(seven, 1), (eleven, 2)], &[seven, eleven]);
        check(&[seven], &[(seven, 1), (eleven, 2)], &[eleven]);
    }

    #[test]
    fn what_was_read_is_not_told_again() {
        let long = "Discounts are percentages. Rounding happens once, after the sum. Nothing else changed in the cart.";
        check(&[long], &[("Rounding happens once, after the sum", 1)], &[]);
        check(&["Rounding happens once, after the sum"], &[(long, 1)], &[long]);
    }
}
