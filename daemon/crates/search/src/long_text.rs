//! Shortens long texts before they are processed.

use std::borrow::Cow;

/// Returns the text or, if it is too long, its beginning and its end.
pub(super) fn both_ends(text: &str, head: usize, tail: usize) -> Cow<'_, str> {
    if text.len() <= head + tail {
        return Cow::Borrowed(text);
    }
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at += 1;
        }
        at
    };
    let first = text.get(..boundary(head)).unwrap_or_default();
    let last = text.get(boundary(text.len() - tail)..).unwrap_or_default();
    Cow::Owned(format!("{first}\n{last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_shortened_to_its_ends_at_character_boundaries() {
        for (text, head, tail, expected) in [
            ("short", 3, 3, "short"),
            ("abcdefghij", 2, 3, "ab\nhij"),
            ("ééééé", 3, 3, "éé\né"),
            ("", 0, 0, ""),
        ] {
            assert_eq!(both_ends(text, head, tail), expected, "{text}");
        }
    }
}
