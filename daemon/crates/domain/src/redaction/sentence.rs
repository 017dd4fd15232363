//! Finds secrets in sentences, such as "the password is hunter2" and "set the token to …": a name, a few words, a
//! linking word, a value.
//!
//! Sentences mention passwords more often than they contain one. So a plain word counts only at the end of a sentence,
//! and only if it does not describe a password.

use std::ops::Range;

use super::assignment;
use super::cursor::Cursor;
use super::plausibility::{Name, ValuePosition, is_secret, is_words, may_be_password};

/// The maximum distance of a value from its name, in bytes and in words.
const REACH: usize = 96;
const WORDS: usize = 7;

const LINKS: [&str; 15] =
    ["is", "was", "to", "ist", "lautet", "war", "auf", "equals", "=", "be", "→", "->", "=>", "es", "est"];
/// Words that may stand between the linking word and the value.
const FILLERS: [&str; 13] = [
    "now",
    "still",
    "currently",
    "just",
    "set",
    "to",
    "jetzt",
    "called",
    ":",
    "changed",
    "reset",
    "updated",
    "rotated",
];

/// Returns the value that a sentence assigns to the name that ends at `start`.
pub(super) fn stated_value(text: &str, start: usize, name: Name) -> Option<Range<usize>> {
    let at = Cursor { text, at: start };
    if !(at.starts_with(" ") || at.starts_with(": ")) {
        return None;
    }
    let line = at.line(REACH);
    if matches!(name, Name::Password | Name::Pass)
        && let Some(range) = directly(text, start)
    {
        return Some(range);
    }
    let mut linked = line.starts_with(": ");
    let mut at = start;
    for part in line.split(' ').take(WORDS) {
        let here = at;
        at += part.len() + 1;
        if part.is_empty() || part == ":" {
            continue;
        }
        if linked && !FILLERS.contains(&part) {
            return value(text, here, name);
        }
        if part.ends_with(':') || LINKS.contains(&part) {
            linked = true;
        } else if !linked && part.ends_with(['.', ';', ',', '?', '!', ')', '(', '{', '"']) {
            return None;
        }
    }
    None
}

/// Returns a value directly after its name: `log in with password hunter2hunter2`, `password (hunter2hunter2)`.
fn directly(text: &str, start: usize) -> Option<Range<usize>> {
    let mut at = Cursor { text, at: start };
    at.skip_some(b" ", 1);
    at.skip_some(b"(", 1);
    if let Some(range) = assignment::quoted(at, Name::Pass) {
        return Some(range);
    }
    let word = text.get(at.run())?.trim_end_matches(['.', ',', '!', '?', ':']);
    let end = at.at + word.len();
    let is_code = matches!(text.as_bytes().get(end), Some(b'(' | b'[' | b'<' | b'{'));
    (!is_code && is_secret(word, Name::Pass, ValuePosition::Sentence)).then_some(at.at..end)
}

fn value(text: &str, at: usize, name: Name) -> Option<Range<usize>> {
    let at = Cursor { text, at };
    if let Some(range) = assignment::quoted(at, name).or_else(|| phrase(at, name)) {
        return Some(range);
    }
    let word = at.run();
    let word = text.get(word)?.trim_end_matches(['.', '!', '?', ':']);
    let range = at.at..at.at + word.len();
    // A call, an index, or a type with parameters.
    if matches!(text.as_bytes().get(range.end), Some(b'(' | b'[' | b'<' | b'{' | b'/')) {
        return None;
    }
    if is_secret(word, name, ValuePosition::Sentence) {
        return Some(range.start..at.whole_run().end.max(range.end))
            .filter(|_| word.len() >= 60)
            .or(Some(range));
    }
    (name == Name::Password && ends_sentence(text, range.end) && may_be_password(word)).then_some(range)
}

/// Returns a passphrase such as `correct horse battery staple`, up to the end of the sentence.
fn phrase(at: Cursor<'_>, name: Name) -> Option<Range<usize>> {
    let words = at.line(REACH).split(['.', ',', ';', '"', '\'', ')', '(', '!', '?']).next()?.trim_end();
    (name == Name::Password && is_words(words)).then(|| at.at..at.at + words.len())
}

fn ends_sentence(text: &str, end: usize) -> bool {
    const GOES_ON: [&str; 8] =
        [" so use", " so you", ", use", ", so use", " use that", " and use", " and the user", ", user"];
    let rest = text.get(end..).unwrap_or_default();
    let after = rest.trim_start_matches(['.', '!']);
    after.is_empty() || after.starts_with('\n') || GOES_ON.iter().any(|words| rest.starts_with(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let word = text.find("password").unwrap();
        let found = stated_value(text, word + "password".len(), Name::Password);
        assert_eq!(found.and_then(|range| text.get(range)), expected, "{text}");
    }

    #[test]
    fn a_password_stated_in_a_sentence_is_found() {
        check("the password is hunter2!x", Some("hunter2!x"));
        check("The password for the staging database is hunter2x.", Some("hunter2x"));
        check("the password is swordfish", Some("swordfish"));
        check("so the password is now `correct-horse-9`, ok?", Some("correct-horse-9"));
        check("set the password to hunter2x and go on", Some("hunter2x"));
        check("password for prod: hunter2x", Some("hunter2x"));
        check("password: hunter2x, user: me", Some("hunter2x"));
        check("das password lautet hunter2x", Some("hunter2x"));
    }

    #[test]
    fn sentences_that_only_mention_passwords_are_not_matched() {
        for text in [
            "the password is required",
            "the password is wrong.",
            "password is not set",
            "the password is stored in the keyring",
            "password is hashed with sha256",
            "the password is None",
            "change the password to something",
            "if password is valid: go on",
            "password is verified by check2(x)",
        ] {
            check(text, None);
        }
    }
}
