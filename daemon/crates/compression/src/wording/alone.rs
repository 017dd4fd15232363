//! Rates how well a title reads without anything else that explains it, as in the list of a start.
//!
//! Seven signs count one point each. The signs, and the smaller weight of importance, come from reading the starts of
//! six projects. They were confirmed on other projects, see `docs/retrieval.md`.

use super::clause::{Opening, opening};
use super::word::{bare, is_file, is_identifier};

/// The minimum number of words of a title. Shorter titles omit too much.
const FEWEST_WORDS: usize = 7;
/// Words that make a title a rule or a condition.
const BINDING: [&str; 12] = [
    "must", "never", "always", "only", "should", "cannot", "can't", "don't", "instead", "without", "unless",
    "requires",
];
/// Beginnings of titles whose subject is usually elsewhere.
const POINTING: [&str; 8] = ["the", "a", "an", "this", "these", "it", "in", "on"];
/// Words that, at the beginning of a title, stand for something said before.
const STANDING_IN: [&str; 8] = ["i", "it", "this", "that", "these", "those", "them", "they"];
const FIRST_WORDS: usize = 3;

/// The points of a title, from -4 to 3.
pub fn alone(title: &str) -> i8 {
    let words: Vec<String> = title.split_whitespace().map(bare).collect();
    let opening = opening(title);
    let points = |is_so| i8::from(is_so);
    points(title.split_whitespace().any(|word| is_identifier(word) || is_file(word)))
        + points(words.iter().any(|word| BINDING.contains(&word.as_str())))
        + points(opening == Opening::Imperative)
        - points(opening == Opening::Done)
        - points(words.first().is_some_and(|first| POINTING.contains(&first.as_str())))
        - points(words.iter().take(FIRST_WORDS).any(|word| STANDING_IN.contains(&word.as_str())))
        - points(words.len() < FEWEST_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specific_titles_are_rated_higher_than_vague_ones() {
        for (title, expected) in [
            ("Release preparation must commit dist/index.js on the tagged commit", 2),
            ("Migrate the MCP server to map_server for performance", 2),
            ("The cart rounds once, after the sum of all lines", -1),
            ("Rounded the totals of the cart", -2),
            ("The job failed", -2),
            ("I meant the label of the second tray", -1),
            ("", -1),
        ] {
            assert_eq!(alone(title), expected, "{title}");
        }
    }
}
