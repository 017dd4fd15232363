//! Small operations on text that several rooms need.

/// The text on one line, with single spaces between its words.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns at most `most` characters. A shortened text ends with an ellipsis.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Like [`shortened`], on one line.
pub fn shortened_line(text: &str, most: usize) -> String {
    shortened(&one_line(text), most)
}

/// Describes the fault of a regular expression in one line. The library's own message repeats the pattern over several
/// lines.
pub(crate) fn pattern_fault(error: &regex::Error) -> String {
    let words = error.to_string();
    let last = words.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).trim_end_matches('.').to_owned()
}
