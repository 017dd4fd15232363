//! Which answers are told: each fact once, the newest of a thread, within a budget.

use std::collections::HashSet;

use crate::memory::ids::Timestamp;

/// Passages of which the smaller shares so many of its words with the other say the same, in percent.
const SAME: usize = 60;
/// At a prompt at most so many statements are told: it asks one thing.
pub const MOST: usize = 4;

/// The words of a passage, to recognise what was said already.
#[derive(Clone, Debug, Default)]
pub struct Words(HashSet<String>);

impl Words {
    pub fn of(text: &str) -> Self {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        Self(words.map(str::to_lowercase).collect())
    }

    /// Whether one of the two says nothing that the other does not.
    pub fn say_the_same(&self, other: &Self) -> bool {
        let smaller = self.0.len().min(other.0.len());
        smaller > 0 && self.0.intersection(&other.0).count() * 100 >= smaller * SAME
    }
}

/// The chosen ones so far.
#[derive(Clone, Debug)]
pub struct Choice<T> {
    chosen: Vec<(Words, Timestamp, T)>,
}

impl<T> Default for Choice<T> {
    fn default() -> Self {
        Self { chosen: Vec::new() }
    }
}

impl<T> Choice<T> {
    /// Adds a statement; the best come first. Of two that say the same the newer is kept.
    pub fn add(&mut self, text: &str, at: Timestamp, statement: T) {
        let words = Words::of(text);
        match self.chosen.iter_mut().find(|(known, ..)| known.say_the_same(&words)) {
            Some(known) if known.1 < at => *known = (words, at, statement),
            Some(_) => {}
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

    #[test]
    fn each_fact_is_told_once_and_by_the_newest() {
        let mut choice = Choice::default();
        choice.add("Invoices are numbered per customer", Timestamp(1), "old");
        choice.add("Rounding happens once, after the sum", Timestamp(5), "other");
        choice.add("Invoices are numbered per shop, not per customer", Timestamp(9), "new");
        choice.add("invoices: numbered per customer", Timestamp(3), "older than the newest");
        assert!(!choice.is_full());
        assert_eq!(choice.into_best(), ["new", "other"]);
    }
}
