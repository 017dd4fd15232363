//! The parts of a text that get a vector each. A model reads no more than a few hundred pieces, and the vector of a
//! long text is about everything in it and so about nothing.

/// Characters of a passage, without its title.
const LONGEST: usize = 600;
/// Passages of one text. The rest of a longer one has no vectors.
const MOST: usize = 64;
/// A text with fewer letters says nothing.
const FEWEST_LETTERS: usize = 3;

/// The passages of a text, each with its title: whole paragraphs, or else lines, or else words.
pub fn passages(title: &str, body: &str) -> Vec<String> {
    let title = title.trim();
    let mut passages = Vec::new();
    let (mut open, mut length) = (String::new(), 0);
    let mut close = |open: &mut String, length: &mut usize| {
        let text = std::mem::take(open);
        *length = 0;
        if passages.len() < MOST && says_something(&text) {
            passages.push(if title.is_empty() { text } else { format!("{title}\n{text}") });
        }
    };
    for paragraph in body.split("\n\n").map(str::trim).filter(|text| !text.is_empty()) {
        for piece in pieces(paragraph) {
            let added = piece.chars().count();
            if length > 0 && length + added + 1 > LONGEST {
                close(&mut open, &mut length);
            }
            if length > 0 {
                open.push('\n');
            }
            open.push_str(piece);
            length += added + 1;
        }
    }
    close(&mut open, &mut length);
    if passages.is_empty() && says_something(title) {
        passages.push(title.to_owned());
    }
    passages
}

fn says_something(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).take(FEWEST_LETTERS).count() == FEWEST_LETTERS
}

/// A text in pieces that are not too long, of whole lines or sentences or words if possible.
fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while let Some((most, _)) = text.char_indices().nth(LONGEST) {
        let head = text.get(..most).unwrap_or_default();
        let borders = ["\n", ". ", " "].into_iter();
        let found =
            borders.filter_map(|border| Some(head.rfind(border)? + border.len())).find(|at| *at > most / 3);
        let (piece, rest) = text.split_at_checked(found.unwrap_or(most)).unwrap_or((text, ""));
        pieces.push(piece.trim_end());
        text = rest.trim_start();
    }
    if !text.is_empty() {
        pieces.push(text);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paragraphs_stay_whole_and_carry_the_title() {
        let (first, second) = ("one ".repeat(90), "two ".repeat(90));
        let found = passages(" Login ", &format!("{first}\n\n{second}\n\nthree four"));
        assert_eq!(
            found,
            [format!("Login\n{}", first.trim()), format!("Login\n{}\nthree four", second.trim())]
        );
        assert_eq!(passages("Login is slow", " \n"), ["Login is slow"]);
        assert_eq!(passages("", "--\n\n.."), [""; 0]);
    }

    proptest! {
        #[test]
        fn no_passage_is_too_long_and_no_letter_is_lost(text in "([a-zé]{1,9}[ .\n]{1,2}){0,400}") {
            let found = passages("", &text);
            prop_assert!(found.iter().all(|passage| passage.chars().count() <= LONGEST));
            let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
            let kept: usize = found.iter().map(|passage| letters(passage)).sum();
            prop_assert!(kept == letters(&text) || letters(&text) < FEWEST_LETTERS || letters(&text) - kept < FEWEST_LETTERS);
        }
    }
}
