//! Splits prose into sentences and cleans them of what only a screen needs.
//!
//! Agents write code into their sentences, so a full stop counts only where white space and something that can begin
//! a sentence follow, and never inside backticks or after a known abbreviation.

/// Longer sentences are pasted output more often than prose; what lies behind is dropped.
const LONGEST: usize = 700;

const ABBREVIATIONS: [&str; 14] =
    ["e.g", "i.e", "vs", "etc", "cf", "approx", "incl", "z.b", "d.h", "bzw", "ca", "vgl", "usw", "no"];

/// The sentences of one paragraph, trimmed, in order, none empty.
pub(super) fn split(paragraph: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut in_code = false;
    for (at, character) in paragraph.char_indices() {
        if character == '`' {
            in_code = !in_code;
        }
        let end = at + character.len_utf8();
        let ends = match character {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' if !in_code => {
                let before = paragraph.get(start..at).unwrap_or_default();
                let after = paragraph.get(end..).unwrap_or_default();
                begins_sentence(after) && !(character == '.' && is_abbreviated(before))
            }
            _ => false,
        };
        if ends {
            push(&mut sentences, paragraph.get(start..end).unwrap_or_default());
            start = end;
        }
    }
    push(&mut sentences, paragraph.get(start..).unwrap_or_default());
    sentences
}

/// Whether a new sentence can begin with what follows a full stop.
fn begins_sentence(after: &str) -> bool {
    let trimmed = after.trim_start();
    trimmed.len() < after.len() && trimmed.chars().next().is_none_or(|first| !first.is_lowercase())
}

/// Whether the full stop after this belongs to an abbreviation, or to the number of a list written in a line.
fn is_abbreviated(before: &str) -> bool {
    let word = before.rsplit([' ', '(', '\n']).next().unwrap_or_default().to_lowercase();
    let is_numbering = word.len() <= 2 && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    (is_numbering && before.trim() == word) || ABBREVIATIONS.contains(&word.as_str())
}

fn push(sentences: &mut Vec<String>, text: &str) {
    let clean = tidy(text);
    if clean.chars().any(char::is_alphanumeric) {
        sentences.push(clean);
    }
}

/// Collapses white space, drops leading bullets and check marks, and cuts what is far too long.
pub(super) fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(LONGEST));
    for word in text.split_whitespace() {
        if out.len() + word.len() > LONGEST {
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    if out.is_empty() && !text.trim().is_empty() {
        out = shortened(text.trim(), LONGEST);
    }
    let bare = out.trim_start_matches(|first: char| {
        matches!(first, '-' | '•' | '*' | '—' | '–' | ':' | ',' | ';' | '>') && !out.starts_with("--")
            || first.is_whitespace()
            || is_pictograph(first)
    });
    without_locations(bare)
}

fn is_pictograph(character: char) -> bool {
    matches!(character, '\u{2600}'..='\u{27bf}' | '\u{1f300}'..='\u{1faff}' | '\u{fe0f}')
}

/// Drops parentheses that hold nothing but where something stands, such as `(src/a.rs:12-15)`: a place in a file is
/// out of date with the next edit, and the file itself is evidence of its own.
fn without_locations(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('(') {
        let (head, tail) = rest.split_at(open);
        let Some(close) = tail.find(')') else { break };
        let inner = tail.get(1..close).unwrap_or_default();
        out.push_str(head);
        if inner.split(", ").all(is_location) {
            out.truncate(out.trim_end().len());
        } else {
            out.push_str(tail.get(..=close).unwrap_or_default());
        }
        rest = tail.get(close + 1..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

fn is_location(text: &str) -> bool {
    let text = text.trim_matches(['`', ' ']);
    let Some((file, lines)) = text.rsplit_once([':', ' ']) else { return false };
    let counts = |character: char| character.is_ascii_digit() || matches!(character, '-' | '–' | '/' | ',');
    let is_line_word = matches!(file.trim(), "line" | "lines" | "Zeile");
    !lines.is_empty()
        && lines.chars().all(counts)
        && (file.contains('.') || is_line_word)
        && !file.contains("://")
}

/// At most `limit` bytes, cut at a word's end, with an ellipsis where something is missing.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let cut = floor_boundary(text, limit.saturating_sub('…'.len_utf8()));
    let head = text.get(..cut).unwrap_or_default();
    let head = match head.rfind(char::is_whitespace) {
        Some(space) if space > cut / 2 => head.get(..space).unwrap_or(head),
        _ => head,
    };
    let mut out = head.trim_end_matches([' ', ',', ';', ':', '—', '(', '-']).to_owned();
    if out.matches('`').count() % 2 == 1 {
        out.push('`');
    }
    out.push('…');
    out
}

/// The nearest character boundary at or below `at`.
pub(super) fn floor_boundary(text: &str, at: usize) -> usize {
    let mut cut = at.min(text.len());
    while !text.is_char_boundary(cut) {
        cut = cut.saturating_sub(1);
    }
    cut
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(paragraph: &str, expected: &[&str]) {
        assert_eq!(split(paragraph), expected);
    }

    #[test]
    fn sentences_end_where_a_new_one_can_begin() {
        check("It fails. The cache is stale!", &["It fails.", "The cache is stale!"]);
        check(
            "Open src/main.rs and v1.2.3 too. Then `a. B` it.",
            &["Open src/main.rs and v1.2.3 too.", "Then `a. B` it."],
        );
        check("Use a pool, e.g. Tokio's. Done", &["Use a pool, e.g. Tokio's.", "Done"]);
        check("Nutze z.B. Cargo. Das hilft.", &["Nutze z.B. Cargo.", "Das hilft."]);
        check("原因は不明。修正した。", &["原因は不明。", "修正した。"]);
        check("1. first things first", &["1. first things first"]);
        check("  \n ", &[]);
    }

    #[test]
    fn screen_decoration_goes() {
        check("✅ Tests pass", &["Tests pass"]);
        check("- It   moved\n  on", &["It moved on"]);
        check("--force is needed", &["--force is needed"]);
    }

    #[test]
    fn places_in_files_go_and_other_parentheses_stay() {
        check("`run` (`src/a.rs:12-15`) never returns.", &["`run` never returns."]);
        check("See the note (line 498) there.", &["See the note there."]);
        check("It waits (2 s) for `f(x)`.", &["It waits (2 s) for `f(x)`."]);
    }

    #[test]
    fn shortening_ends_at_a_word_and_closes_code() {
        assert_eq!(shortened("alpha beta gamma", 13), "alpha beta…");
        assert_eq!(shortened("call `alpha beta gamma` now", 16), "call `alpha`…");
        assert_eq!(shortened("short", 10), "short");
    }

    proptest! {
        #[test]
        fn any_text_is_split_without_empty_sentences(text in "\\PC{0,400}") {
            for sentence in split(&text) {
                prop_assert!(!sentence.trim().is_empty());
                prop_assert!(sentence.len() <= LONGEST + 8);
            }
        }

        #[test]
        fn shortening_keeps_the_limit(text in "\\PC{0,200}", limit in 8_usize..80) {
            prop_assert!(shortened(&text, limit).len() <= limit + 1);
        }
    }
}
