//! Divides a paragraph into sentences.

/// Abbreviations: a point after one does not end a sentence.
const ABBREVIATIONS: [&str; 20] = [
    "e.g", "i.e", "etc", "vs", "cf", "approx", "no", "dr", "mr", "fig", "incl", "resp", "z.b", "d.h", "bzw",
    "usw", "ca", "nr", "al", "p.s",
];

/// The number of bytes within which a bracket must close to keep a sentence together.
const LONGEST_BRACKET: usize = 300;

/// The text with single spaces.
pub(super) fn collapsed(text: &str) -> String {
    let mut single = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !single.is_empty() {
            single.push(' ');
        }
        single.push_str(word);
    }
    single
}

/// Splits a paragraph into sentences. A point does not end one inside code spans and brackets, after abbreviations, and
/// before a lower-case letter.
pub(crate) fn sentences(paragraph: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut in_code = false;
    // Brackets that are open, and closed further on.
    let mut open = 0_usize;
    let mut letters = paragraph.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '`' => in_code = !in_code,
            '(' if !in_code => {
                let ahead = paragraph.floor_char_boundary(at + LONGEST_BRACKET);
                open += usize::from(paragraph.get(at..ahead).is_some_and(|ahead| ahead.contains(')')));
            }
            ')' if !in_code => open = open.saturating_sub(1),
            // The full stop of Chinese and Japanese needs no gap behind it.
            '。' | '！' | '？' if !in_code => {
                let end = at + letter.len_utf8();
                found.push(paragraph.get(start..end).unwrap_or_default().trim());
                start = end;
            }
            '.' | '!' | '?' if !in_code => {
                let behind = paragraph.get(at + 1..).unwrap_or_default();
                let closed = behind.trim_start_matches(['"', '\'', ')', '*']);
                let next = closed.trim_start_matches([' ', '\n']);
                let closing = behind.get(..behind.len() - closed.len()).unwrap_or_default();
                if closed.len() == next.len() || open > closing.matches(')').count() {
                    continue;
                }
                let before = paragraph.get(start..at).unwrap_or_default();
                let word = before.rsplit([' ', '\n', '(']).next().unwrap_or_default().to_lowercase();
                let is_number =
                    before.len() < 4 && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
                let goes_on = next.chars().next().is_none_or(char::is_lowercase);
                if ABBREVIATIONS.contains(&word.as_str()) || (letter == '.' && is_number) || goes_on {
                    continue;
                }
                let end = paragraph.len() - closed.len();
                found.push(paragraph.get(start..end).unwrap_or_default().trim());
                start = paragraph.len() - next.len();
                open = 0;
                while letters.peek().is_some_and(|(at, _)| *at < start) {
                    letters.next();
                }
            }
            _ => {}
        }
    }
    found.push(paragraph.get(start..).unwrap_or_default().trim());
    found.retain(|sentence| !sentence.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(paragraph: &str, expected: &[&str]) {
        assert_eq!(sentences(paragraph), expected);
    }

    #[test]
    fn a_sentence_ends_at_punctuation_before_a_capital_letter() {
        check("It hangs. Nobody wakes it! Why?", &["It hangs.", "Nobody wakes it!", "Why?"]);
        check("See e.g. Config, i.e. the file. no", &["See e.g. Config, i.e. the file. no"]);
        check(
            "It runs `a. B` first. Then (it stops.) Done",
            &["It runs `a. B` first.", "Then (it stops.)", "Done"],
        );
        check("1. First thing. Next", &["1. First thing.", "Next"]);
        check(
            "It casts (EXTRACT(EPOCH FROM ...) AS BIGINT). Then (see below it sums. Done",
            &["It casts (EXTRACT(EPOCH FROM ...) AS BIGINT).", "Then (see below it sums.", "Done"],
        );
        check("", &[]);
    }

    #[test]
    fn chinese_full_stops_end_a_sentence() {
        check("缓存永远不会失效。原因是顺序。", &["缓存永远不会失效。", "原因是顺序。"]);
    }
}
