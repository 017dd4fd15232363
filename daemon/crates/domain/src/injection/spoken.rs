//! The words that the running session has already read. Known words are no news.

use std::collections::HashSet;

/// The number of bytes of a session's texts that are examined, newest first.
const LONGEST: usize = 96 * 1024;
/// The number of characters compared per word, so that endings do not matter.
const STEM: usize = 6;

/// The words of prompts and answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spoken(HashSet<String>);

impl Spoken {
    /// Collects the words. `texts` must be newest first.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut words, mut room) = (HashSet::new(), LONGEST);
        for text in texts {
            let text = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
            room -= text.len();
            for word in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
                for part in word.split('_').filter(|part| part.chars().count() > 1) {
                    words.insert(stem(part));
                }
            }
            if room == 0 {
                break;
            }
        }
        Self(words)
    }

    pub fn has(&self, word: &str) -> bool {
        self.0.contains(&stem(word))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub fn stem(word: &str) -> String {
    word.chars().flat_map(char::to_lowercase).take(STEM).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_already_read_is_matched_with_any_ending_and_case() {
        let spoken = Spoken::of(["The Discounts are percentages, see parse_flag."]);
        assert!(spoken.has("discounted") && spoken.has("parse") && spoken.has("FLAG"));
        assert!(!spoken.has("rounding") && !Spoken::default().has("discount"));
    }

    #[test]
    fn only_the_newest_text_of_a_long_session_counts() {
        let old = "heron ".repeat(3);
        let spoken = Spoken::of(["gateway ".repeat(LONGEST / 8).as_str(), old.as_str()]);
        assert!(spoken.has("gateway") && !spoken.has("heron"));
    }
}
