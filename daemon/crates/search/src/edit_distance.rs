//! Edit distances between words.

/// Returns the number of insertions, deletions, substitutions and swaps of neighbours between two words.
pub fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (nth, letter) in from.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(nth + 1);
        for (place, other) in to.iter().enumerate() {
            let at = |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX / 2);
            let replaced = at(&row, place) + usize::from(letter != other);
            let mut least = replaced.min(at(&row, place + 1) + 1).min(at(&next, place) + 1);
            let swapped =
                place > 0 && nth > 0 && to.get(place - 1) == Some(letter) && from.get(nth - 1) == Some(other);
            if swapped {
                least = least.min(at(&before, place - 1) + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

/// Returns the known name that a mistyped one most likely means; `None` if none is close.
pub fn nearest_name<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let near = known.into_iter().map(|known| (edits(typed, known), known));
    let (edits, known) = near.min_by_key(|(edits, _)| *edits)?;
    (edits <= 3.min(known.chars().count() / 3)).then_some(known)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::edits;

    #[test]
    fn edits_between_two_words_are_counted() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("bugfx", "bugfix", 1),
            ("kitten", "sitting", 3),
            ("reciev", "receiv", 1),
            ("atribut", "attribut", 1),
            ("ba", "ab", 1),
        ] {
            assert_eq!(edits(from, to), expected, "{from} {to}");
        }
    }

    proptest! {
        #[test]
        fn an_edit_distance_is_the_same_both_ways(from in "[a-c]{0,7}", to in "[a-c]{0,7}") {
            prop_assert_eq!(edits(&from, &to), edits(&to, &from));
            prop_assert_eq!(edits(&from, &from), 0);
            prop_assert!(edits(&from, &to) >= from.len().abs_diff(to.len()));
        }
    }
}
