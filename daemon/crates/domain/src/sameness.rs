//! Detects duplicate observations.
//!
//! Compressors phrase the same finding differently each time. Two observations are duplicates only if nothing
//! distinguishes them: the same type, nearly the same words, and exactly the same numbers, code names and negations.
//! "The limit is 30 s" and "the limit is 60 s" share most words but contradict each other.

use std::collections::BTreeSet;

use super::observation::ObservationType;

/// The compared parts of an observation.
#[derive(Clone, Copy, Debug)]
pub struct ComparedNote<'a> {
    pub kind: ObservationType,
    pub title: &'a str,
    /// Narrative and facts.
    pub body: &'a str,
}

/// The minimum shares of common words, in percent.
const SAME_TITLE: usize = 75;
const SAME_TEXT: usize = 60;

/// Titles with fewer words are too short to compare.
const FEWEST_WORDS: usize = 3;

const NEGATIONS: [&str; 12] =
    ["no", "not", "never", "none", "without", "nor", "cannot", "kein", "keine", "nicht", "nie", "ohne"];

/// Whether the two are duplicates, so one can be dropped and its evidence added to the other's.
pub fn is_duplicate(one: ComparedNote<'_>, other: ComparedNote<'_>) -> bool {
    if one.kind != other.kind {
        return false;
    }
    let (title, other_title) = (words(one.title), words(other.title));
    let is_long_enough = title.len().min(other_title.len()) >= FEWEST_WORDS;
    let (distinct, other_distinct) = (distinctive_words(one.title), distinctive_words(other.title));
    is_long_enough
        && distinct == other_distinct
        && overlap(&title, &other_title) >= SAME_TITLE
        && overlap(&words(one.body), &words(other.body)) >= SAME_TEXT
}

/// The cosine from which two texts may say the same. Measured in `docs/observations.md`.
const SAME_COSINE: f32 = 0.85;

/// Whether two texts say the same in other words, judged by the cosine of their vectors. Texts of which each has a
/// number that the other lacks speak of different things. So do texts of equal length that differ in one word, a
/// difference that a model hardly notices.
pub fn are_paraphrases(cosine: f32, one: &str, other: &str) -> bool {
    if cosine < SAME_COSINE {
        return false;
    }
    let (numbers, other_numbers) = (numbers(one), numbers(other));
    let is_of_another_number = !numbers.is_subset(&other_numbers) && !other_numbers.is_subset(&numbers);
    let (words, other_words) = (words(one), words(other));
    let differs_in_a_word = words.len() == other_words.len() && words.difference(&other_words).count() == 1;
    !is_of_another_number && !differs_in_a_word
}

fn numbers(text: &str) -> BTreeSet<&str> {
    text.split(|character: char| !character.is_ascii_digit()).filter(|number| !number.is_empty()).collect()
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Whether a word is a number or a code name.
pub(super) fn is_code(word: &str) -> bool {
    let inner_capital = word.chars().skip(1).any(char::is_uppercase);
    inner_capital || word.contains(['_', '.', '/', ':', '(', '-']) || word.chars().any(|c| c.is_ascii_digit())
}

/// The words that must be equal: numbers, code names, negations.
pub(super) fn distinctive_words(text: &str) -> BTreeSet<String> {
    let words = text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let is_negation = |word: &str| word.ends_with("n't") || NEGATIONS.contains(&word.to_lowercase().as_str());
    words.filter(|word| is_code(word) || is_negation(word)).map(str::to_lowercase).collect()
}

/// The share of common words, in percent.
fn overlap(one: &BTreeSet<String>, other: &BTreeSet<String>) -> usize {
    let both = one.intersection(other).count();
    let any = one.union(other).count();
    (both * 100).checked_div(any).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, expected: bool) {
        let body = "Rounding each line lost up to a cent per line, so the total is rounded once.";
        let statement = |title| ComparedNote { kind: ObservationType::Gotcha, title, body };
        assert_eq!(is_duplicate(statement(one), statement(other)), expected, "{one:?} {other:?}");
        assert_eq!(is_duplicate(statement(other), statement(one)), expected, "both ways");
    }

    #[test]
    fn texts_with_close_vectors_say_the_same_unless_numbers_or_one_word_differ() {
        let close = |one, other| are_paraphrases(0.9, one, other);
        let round = "The cart is rounded once, after the sum";
        let round_again = "Rounding of the cart happens a single time when all is added";
        assert!(close(round, round_again));
        assert!(!are_paraphrases(0.84, round, round_again));
        assert!(
            close("The limit of 20 MB is gone", "Uploads have no limit any more"),
            "only one has a number"
        );
        assert!(!close("heron7 waits 7 seconds for the gateway", "The wait of heron11 for it is 11 seconds"));
        assert!(!close("The reader closes the socket", "The writer closes the socket"));
    }

    #[test]
    fn titles_with_nearly_the_same_words_are_duplicates() {
        check(
            "The cart total is rounded once after summing",
            "The cart total is rounded once, after summing.",
            true,
        );
        check(
            "The cart total is rounded once after summing",
            "The total is rounded once after summing",
            true,
        );
        check("`Cart::total` is rounded once", "Cart::total is rounded once", true);
    }

    #[test]
    fn titles_that_differ_in_numbers_names_or_negations_are_no_duplicates() {
        check("The request limit is 30 s for the shop", "The request limit is 60 s for the shop", false);
        check("The cart total is rounded once", "The cart total is not rounded once", false);
        check(
            "Tests of the cart need src/cart.rs built first",
            "Tests of the cart need src/line.rs built first",
            false,
        );
        check(
            "Rounding happens in LineItem and nowhere else",
            "Rounding happens in CartItem and nowhere else",
            false,
        );
        check("Rounding bug", "Rounding bug", false);
        check("The cart total is rounded once", "Login sends the token in the address", false);
    }

    #[test]
    fn observations_with_another_type_or_body_are_no_duplicates() {
        let title = "The cart total is rounded once after summing";
        let one = ComparedNote { kind: ObservationType::Gotcha, title, body: "Lines lost cents." };
        let decision = ComparedNote { kind: ObservationType::Decision, ..one };
        let reason = ComparedNote { body: "The tax office demands it since this year.", ..one };
        assert!(is_duplicate(one, one));
        assert!(!is_duplicate(one, decision));
        assert!(!is_duplicate(one, reason));
    }
}
