//! Synonyms for words that no searched document contains.
//!
//! People ask weeks later in other words. `examples/near_words.rs` generated the list once from a sentence model;
//! using it needs no model. The list is English, and a word that is not in it has no synonyms.

use std::sync::LazyLock;

use super::tokenizer::CodeTokenizer;

const LIST: &str = include_str!("near_words.txt");

/// The lines, ordered by stem.
static LINES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).collect()
});

/// The weight of a synonym relative to the word itself.
pub(super) const SHARE: f32 = 0.6;

/// Returns the synonyms of a stem, closest first, each with its own stem.
pub(super) fn of(stem: &str) -> impl Iterator<Item = (String, &'static str)> {
    let place = LINES.binary_search_by(|(known, _)| (*known).cmp(stem)).ok();
    let words = place.and_then(|place| LINES.get(place)).map_or("", |(_, words)| words);
    words.split(' ').filter_map(|word| {
        let token = CodeTokenizer::default().tokens(word).into_iter().next()?;
        Some((token.text, word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_synonym_list_is_sorted_and_uses_the_stems_of_the_index() {
        assert!(LINES.len() > 5_000, "{}", LINES.len());
        assert!(LINES.is_sorted_by(|(a, _), (b, _)| a < b));
        for word in ["permissions", "startup", "folder", "encrypted"] {
            let tokens = CodeTokenizer::default().tokens(word);
            assert!(of(&tokens[0].text).next().is_some(), "{word}");
        }
    }

    #[test]
    fn known_words_have_synonyms_and_unknown_words_have_none() {
        assert!(of("folder").any(|(_, word)| word == "directory"), "{:?}", of("folder").collect::<Vec<_>>());
        assert_eq!(of("xyzzy").count(), 0);
        assert_eq!(of("").count(), 0);
    }
}
