//! Finds any of many phrases in one pass over a text.

use aho_corasick::AhoCorasick;

/// A searchable list of phrases. Building it costs more than many searches, so keep it.
pub(super) struct Phrases(Option<AhoCorasick>);

impl Phrases {
    /// Builds the list. Millions of phrases exceed its limit; such a list finds nothing.
    pub(super) fn new(phrases: impl IntoIterator<Item = String>) -> Self {
        Self(AhoCorasick::new(phrases).ok())
    }

    /// Whether the text contains one of the phrases.
    pub(super) fn are_in(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|phrases| phrases.is_match(text))
    }
}
