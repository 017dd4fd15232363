//! Finds any of many phrases in one pass over a text.

use aho_corasick::AhoCorasick;

/// A list of phrases. Building it costs more than many searches, so keep it.
pub(super) struct Phrases(Option<AhoCorasick>);

impl Phrases {
    /// Too many phrases, millions of them, make a list that finds nothing.
    pub(super) fn new(phrases: impl IntoIterator<Item = String>) -> Self {
        Self(AhoCorasick::new(phrases).ok())
    }

    /// Whether the text has one of the phrases.
    pub(super) fn are_in(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|phrases| phrases.is_match(text))
    }
}
