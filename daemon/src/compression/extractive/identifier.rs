//! Finds the names of things in prose: symbols, files, flags, commits, pull requests.
//!
//! A sentence that names things is more likely to be worth telling than one that does not, in any language, and
//! names are what two texts about the same thing share.

use std::collections::BTreeSet;

/// Longer code spans are commands or snippets, not names.
const LONGEST: usize = 60;

/// The names in a text in order of appearance, each once, without backticks.
pub(super) fn all(text: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    let mut add = |name: &str| {
        let is_edge = |edge: char| {
            edge.is_whitespace()
                || matches!(edge, ',' | ';' | ':' | '"' | '\'' | '!' | '?' | '[' | '{' | ']' | '}')
        };
        let name = name.trim_matches(is_edge);
        let name = name.trim_end_matches('.');
        if name.len() > 1 && name.len() <= LONGEST && seen.insert(name.to_lowercase()) {
            names.push(name.to_owned());
        }
    };
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            if part.chars().any(char::is_alphabetic) {
                add(part);
            }
            continue;
        }
        for word in part.split(|gap: char| gap.is_whitespace() || matches!(gap, '"' | ',' | '→')) {
            let bare = bare(word);
            if is_name(bare) {
                add(bare);
            }
        }
    }
    names
}

/// A word without the punctuation around it; the parentheses of a call stay.
fn bare(word: &str) -> &str {
    let is_edge = |edge: char| matches!(edge, '.' | ':' | ';' | '!' | '?' | '\'' | '[' | ']' | '*');
    let mut bare = word.trim_start_matches('(').trim_matches(is_edge);
    while let Some(shorter) = bare.strip_suffix(')').filter(|_| !bare.ends_with("()")) {
        bare = shorter.trim_end_matches(is_edge);
    }
    bare
}

/// Whether a bare word of prose is a name of code, a file, a commit or a ticket.
pub(super) fn is_name(word: &str) -> bool {
    if word.len() < 2 || word.len() > LONGEST || word.contains("://") {
        return false;
    }
    is_ticket(word) || is_commit(word) || is_file(word) || is_symbol(word) || is_flag(word)
}

/// `#123`, `PR#68`, `ABC-123`.
fn is_ticket(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((_, number)) = word.split_once('#') {
        return digits(number);
    }
    word.split_once('-').is_some_and(|(project, number)| {
        digits(number) && project.len() > 1 && project.bytes().all(|byte| byte.is_ascii_uppercase())
    })
}

/// An abbreviated or whole commit hash: hexadecimal with both a letter and a digit.
pub(super) fn is_commit(word: &str) -> bool {
    (7..=40).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// A name with a short extension of letters, or a path with one.
fn is_file(word: &str) -> bool {
    let word = word.split(':').next().unwrap_or(word);
    let Some((stem, extension)) = word.rsplit_once('.') else { return false };
    let named = stem.bytes().last().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        || stem.is_empty();
    named
        && (1..=5).contains(&extension.len())
        && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && extension.bytes().any(|byte| byte.is_ascii_lowercase())
        && stem.len() + extension.len() > 3
        && !matches!(word.to_ascii_lowercase().as_str(), "e.g" | "i.e" | "z.b" | "d.h" | "a.m" | "p.m")
}

/// `camelCase`, `snake_case`, `a::b`, `call()`, `CONSTANT_NAME`.
fn is_symbol(word: &str) -> bool {
    let inner_capital = word
        .as_bytes()
        .windows(2)
        .any(|pair| matches!(pair, [low, high] if low.is_ascii_lowercase() && high.is_ascii_uppercase()));
    let joined = word.contains('_') && word.bytes().any(|byte| byte.is_ascii_alphabetic());
    inner_capital || joined || word.contains("::") || word.ends_with("()")
}

fn is_flag(word: &str) -> bool {
    word.strip_prefix("--").is_some_and(|name| name.starts_with(|first: char| first.is_ascii_lowercase()))
}

/// The part of a path after the last separator.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(all(text), expected);
    }

    #[test]
    fn names_are_found_and_words_are_not() {
        check(
            "The `run` of src/main.rs calls parseArgs, twice: parseArgs.",
            &["run", "src/main.rs", "parseArgs"],
        );
        check("Merged PR#68 as 1a2b3c4d with --no-ff (see #12)", &["PR#68", "1a2b3c4d", "--no-ff", "#12"]);
        check(
            "SHOP-17 sets MAX_RETRIES via http::Client and reset()",
            &["SHOP-17", "MAX_RETRIES", "http::Client", "reset()"],
        );
        check("An ordinary sentence, e.g. this one. It ends here.", &[]);
        check("Version 1.2 took 3.5 s", &[]);
        check("defaced and 12345678", &[]);
    }

    #[test]
    fn file_names_of_either_system() {
        assert_eq!(file_name("/a/b.rs"), "b.rs");
        assert_eq!(file_name("C:\\a\\b.rs"), "b.rs");
        assert_eq!(file_name("b.rs"), "b.rs");
    }
}
