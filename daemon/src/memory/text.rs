//! Small operations on text that several rooms need.

/// The text on one line, with single spaces between its words.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
