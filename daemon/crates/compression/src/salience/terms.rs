//! Divides a text into code names, words and numbers, and gives each term a number.
//!
//! Two texts about the same thing share terms. A term is a code name as it is written, or the stem of a long word.
//! Words of any alphabet count, but only English endings are removed.

use std::collections::HashMap;

/// The number of a term within one [`Vocabulary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(u32);

impl Term {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The terms of a session. Numbers follow the order of first appearance, so they are the same in every run.
#[derive(Debug, Default)]
pub struct Vocabulary {
    numbers: HashMap<String, Term>,
}

impl Vocabulary {
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    fn number(&mut self, term: &str) -> Term {
        if let Some(known) = self.numbers.get(term) {
            return *known;
        }
        let new = Term(u32::try_from(self.numbers.len()).unwrap_or(u32::MAX));
        self.numbers.insert(term.to_owned(), new);
        new
    }
}

/// The terms of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Code names, sorted, each once.
    pub names: Vec<Term>,
    /// Names and stems, sorted, each once.
    pub content: Vec<Term>,
    /// The number of characters of the names.
    pub name_chars: usize,
    /// Names that contain a slash.
    pub paths: usize,
    pub words: usize,
    /// The number of words without a meaning of their own.
    pub stop_words: usize,
    pub numbers: usize,
}

/// The length from which a code span is a snippet. The beginning of a snippet serves as the name.
const LONGEST_NAME: usize = 40;
/// The longest code span that counts as a name.
const LONGEST_SPAN: usize = 80;
/// The minimum length of a stem.
const SHORTEST_STEM: usize = 4;

const STOP_WORDS: &str = "the a an and or of to in for on with is are was were be been it its this that these those as at \
    by from not no but if so we you i they he she can will would should could may might do does did done has have had \
    there here then than when where which who what how why also all any each both more most other some such only just \
    into out up down over under about after before again now new old one two use used using via per get got let make \
    made need needs see set run add added";

pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.split_ascii_whitespace().any(|stop| stop == word)
}

/// Reads a text.
pub fn read(text: &str, vocabulary: &mut Vocabulary) -> Terms {
    let mut terms = Terms::default();
    let mut names: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once('`') {
        let Some((inside, after)) = behind.split_once('`') else { break };
        let name = inside.trim();
        if name.len() >= 2 && inside.len() <= LONGEST_SPAN && !inside.contains('\n') {
            names.push(name.chars().take(LONGEST_NAME).collect::<String>().to_lowercase());
        }
        rest = after;
    }
    for word in text.split(is_gap) {
        let word = word.trim_matches(is_edge);
        let Some(first) = word.chars().next() else { continue };
        if is_name(word) {
            names.push(word.to_lowercase());
        } else if first.is_ascii_digit() {
            terms.numbers += 1;
        } else {
            let runs = word.split(|letter: char| !letter.is_alphabetic());
            for run in runs.filter(|run| run.chars().nth(1).is_some()) {
                let run = run.to_lowercase();
                terms.words += 1;
                if is_stop_word(&run) {
                    terms.stop_words += 1;
                } else if run.chars().nth(3).is_some() {
                    terms.content.push(vocabulary.number(stem(&run)));
                }
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    terms.name_chars = names.iter().map(|name| name.chars().count()).sum();
    terms.paths = names.iter().filter(|name| name.contains('/')).count();
    terms.names = names.iter().map(|name| vocabulary.number(name)).collect();
    terms.content.extend(&terms.names);
    terms.names.sort_unstable();
    terms.names.dedup();
    terms.content.sort_unstable();
    terms.content.dedup();
    terms
}

fn is_gap(letter: char) -> bool {
    letter.is_whitespace() || "`()[]{}<>\"'“”,;=|*→—–".contains(letter)
}

fn is_edge(letter: char) -> bool {
    matches!(letter, '.' | ':' | '!' | '?' | '/' | '…' | '-')
}

/// Whether a word is a code name, a file, a version or an abbreviation, by its form.
pub fn is_name(word: &str) -> bool {
    let bytes = word.as_bytes();
    if bytes.len() < 3 {
        return false;
    }
    if word.trim_matches('_').contains('_') || word.trim_matches('/').contains('/') {
        return true;
    }
    let pair = |first: fn(&u8) -> bool, second: fn(&u8) -> bool| {
        bytes.windows(2).any(|pair| matches!(pair, [left, right] if first(left) && second(right)))
    };
    let has_letter = bytes.iter().any(u8::is_ascii_alphabetic);
    let has_digit = bytes.iter().any(u8::is_ascii_digit);
    let is_camel = pair(u8::is_ascii_lowercase, u8::is_ascii_uppercase)
        || bytes.windows(3).any(|three| {
            matches!(three, [one, two, three] if one.is_ascii_uppercase() && two.is_ascii_uppercase() && three.is_ascii_lowercase())
        });
    let is_dotted = bytes.windows(3).any(|three| {
        matches!(three, [left, b'.', right] if left.is_ascii_alphanumeric() && right.is_ascii_alphanumeric())
    }) && !bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let is_capitals =
        has_letter && word.chars().any(char::is_uppercase) && !word.chars().any(char::is_lowercase);
    is_camel || is_dotted || (has_letter && has_digit) || is_capitals
}

/// A word without its English ending.
fn stem(word: &str) -> &str {
    ["ing", "ed", "es", "s"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending).filter(|stem| stem.chars().count() >= SHORTEST_STEM))
        .unwrap_or(word)
}

/// The number of terms that two sorted lists share.
pub fn shared(left: &[Term], right: &[Term]) -> usize {
    left.iter().filter(|term| right.binary_search(term).is_ok()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_names_are_recognized_by_their_form() {
        for name in ["max_retries", "src/pool", "fooBar", "HTTPServer", "config.toml", "utf8", "JSON", "v1.2"]
        {
            assert!(is_name(name), "{name}");
        }
        for word in ["pool", "The", "1.2", "a_", "I", "Größe", "end."] {
            assert!(!is_name(word), "{word}");
        }
    }

    #[test]
    fn names_stems_and_numbers_are_found_in_a_text() {
        let mut vocabulary = Vocabulary::default();
        let terms = read("The `Pool::drain` call waits for 30 workers, see `src/pool.rs`.", &mut vocabulary);
        assert_eq!((terms.names.len(), terms.numbers, terms.paths), (2, 1, 1));
        let same = read("worker waiting, src/pool.rs", &mut vocabulary);
        assert_eq!(shared(&same.content, &terms.content), 3);
        assert_eq!(shared(&same.names, &terms.names), 1);
    }

    #[test]
    fn words_of_other_alphabets_are_counted() {
        let mut vocabulary = Vocabulary::default();
        let terms = read("Größere Überläufe verlieren Кавычки", &mut vocabulary);
        assert_eq!((terms.words, terms.content.len()), (4, 4));
    }
}
