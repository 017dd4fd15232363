//! The key of a subject.

use std::fmt;

/// Equal for two statements about the same subject. Contains words of the statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectKey(String);

impl SubjectKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the words that name a value, with its condition. `None` if the subject is not a value.
    pub(crate) fn named_value(&self) -> Option<impl Iterator<Item = &str>> {
        let (_, named) = self.0.strip_prefix("value: ")?.split_once(": ")?;
        Some(named.split(' ').map(trim_punctuation).filter(|word| !word.is_empty()))
    }

    pub(super) fn new(sort: &str, words: &str) -> Self {
        Self(format!("{sort}: {words}"))
    }
}

impl fmt::Display for SubjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) fn trim_punctuation(word: &str) -> &str {
    word.trim_matches(|edge: char| !edge.is_alphanumeric())
}
