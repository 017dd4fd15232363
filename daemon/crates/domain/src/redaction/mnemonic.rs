//! Finds the words that restore a wallet: twelve or more in a row, all from BIP 39's list of 2,048 words, with the
//! same separator between each two of them.
//!
//! They are searched only after phrases such as "seed phrase", and at the beginning of a text. Checking every line
//! would cost a seventh of all redaction.

use std::ops::Range;
use std::sync::OnceLock;

use super::byte_set::ByteSet;

/// Sorted.
const WORDS: &str = include_str!("mnemonic_words.txt");
/// The minimum number of words in a mnemonic.
const FEWEST: usize = 12;
/// The maximum number of words: two of the longest mnemonics.
const MOST: usize = 48;
/// Phrases that announce a mnemonic, which may begin up to [`REACH`] bytes after them.
pub(super) const NAMES: [&str; 8] = [
    "mnemonic",
    "seed phrase",
    "seed words",
    "recovery phrase",
    "recovery words",
    "secret phrase",
    "backup phrase",
    "wallet",
];
const REACH: usize = 64;
/// The number of characters allowed before the first word: a number, a quote, a dash.
const BULLET: usize = 4;
/// The possible lengths of a word.
const LENGTH: std::ops::RangeInclusive<usize> = 3..=8;
/// The maximum length in bytes between two words: blanks, commas, numbers, quotes, line ends.
const BETWEEN: usize = 8;
const BETWEEN_BYTES: ByteSet = ByteSet::of(b" \n\r\t,.:)(\"'\\-|0123456789");

/// Returns the mnemonic at the beginning of a text.
pub(super) fn at_start(text: &str) -> Option<Range<usize>> {
    begun_at(text, std::iter::once(0)).pop()
}

/// Whether a string of a JSON text begins with a mnemonic.
pub(super) fn may_hold(json: &str) -> bool {
    let quotes = memchr::memchr_iter(b'"', json.as_bytes()).map(|quote| quote + 1);
    !begun_at(json, quotes).is_empty()
}

fn begun_at(text: &str, starts: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let (bytes, list) = (text.as_bytes(), List::get());
    let (mut found, mut floor) = (Vec::new(), 0);
    for start in starts.filter(|start| bytes.get(*start).is_some_and(|first| *first != b' ')) {
        let bullet = bytes.iter().skip(start).take(BULLET).take_while(|byte| is_between(**byte)).count();
        if start >= floor
            && let Some(word) = list.likely_row(bytes, start + bullet)
            && is_listed(bytes, &word)
        {
            let row = row_from(bytes, word);
            floor = row.last().map_or(floor, |word| word.end);
            found.extend(mnemonic(text, &row));
        }
    }
    found
}

/// Returns the mnemonic after one of its [`NAMES`], which ends at `from`.
pub(super) fn announced(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len().min(from + REACH) {
        let word = at..at + letters(bytes.get(at..)?, *LENGTH.end() + 1);
        if LENGTH.contains(&word.len()) && is_listed(bytes, &word) {
            let row = row_from(bytes, word.clone());
            if let Some(found) = mnemonic(text, &row) {
                return Some(found);
            }
        }
        at = word.end + 1;
    }
    None
}

fn mnemonic(text: &str, row: &[Range<usize>]) -> Option<Range<usize>> {
    let gap = |two: &[Range<usize>]| {
        let gap = text.get(two.first()?.end..two.last()?.start)?;
        Some(
            gap.trim_matches(|sign: char| sign.is_ascii_digit() || sign == ' ')
                .replace(|sign: char| sign.is_ascii_digit(), ""),
        )
    };
    // Words after a different separator belong to the sentence.
    let first = gap(row.get(..2)?)?;
    let count = 1 + row.windows(2).take_while(|two| gap(two).as_ref() == Some(&first)).count();
    let row = row.get(..count)?;
    let words = || row.iter().map(|word| text.get(word.clone()).unwrap_or_default().to_ascii_lowercase());
    // A sorted sequence is a word list, not a mnemonic.
    if !(FEWEST..=MOST).contains(&row.len()) || words().is_sorted() {
        return None;
    }
    Some(row.first()?.start..row.last()?.end)
}

fn letters(bytes: &[u8], most: usize) -> usize {
    bytes.iter().take(most).take_while(|byte| byte.is_ascii_alphabetic()).count()
}

/// Returns the consecutive words of the list from this one on. More than [`MOST`] words are a word list.
fn row_from(bytes: &[u8], word: Range<usize>) -> Vec<Range<usize>> {
    let mut row = vec![word];
    while row.len() <= MOST
        && let Some(after) = row.last().and_then(|last| after(bytes, last.end))
    {
        row.push(after);
    }
    row
}

fn after(bytes: &[u8], end: usize) -> Option<Range<usize>> {
    let at = gap_end(bytes, end)?;
    let word = at..at + letters(bytes.get(at..)?, *LENGTH.end() + 1);
    (LENGTH.contains(&word.len()) && is_listed(bytes, &word)).then_some(word)
}

/// Returns the end of the gap that begins here.
fn gap_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while at < from + BETWEEN && bytes.get(at).is_some_and(|byte| is_between(*byte)) {
        at += 1;
        // Skips the letter of an escape, such as that of a line end.
        if bytes.get(at - 1) == Some(&b'\\') && bytes.get(at).is_some_and(|byte| b"nrt".contains(byte)) {
            at += 1;
        }
    }
    (at > from).then_some(at)
}

fn is_between(byte: u8) -> bool {
    BETWEEN_BYTES.has(byte)
}

fn is_listed(bytes: &[u8], word: &Range<usize>) -> bool {
    bytes.get(word.clone()).is_some_and(|word| List::get().has(word))
}

/// The words, and a bitmap of their hashes by which most other words are ruled out.
struct List {
    words: Vec<&'static str>,
    hashes: Vec<u64>,
}

impl List {
    fn get() -> &'static Self {
        static LIST: OnceLock<List> = OnceLock::new();
        LIST.get_or_init(|| {
            let words: Vec<_> = WORDS.lines().collect();
            let mut hashes = vec![0; 1 << 9];
            for word in &words {
                let hash = word.bytes().fold(0, hashed);
                if let Some(slot) = hashes.get_mut(hash >> 6) {
                    *slot |= 1 << (hash & 63);
                }
            }
            Self { words, hashes }
        })
    }

    /// Returns the word that begins here, if it and the two after it may be in the list.
    fn likely_row(&self, bytes: &[u8], at: usize) -> Option<Range<usize>> {
        let first = self.likely(bytes, at)?;
        let second = self.likely(bytes, gap_end(bytes, first.end)?)?;
        self.likely(bytes, gap_end(bytes, second.end)?).map(|_| first)
    }

    /// Returns the word that begins here, if it may be in the list.
    fn likely(&self, bytes: &[u8], at: usize) -> Option<Range<usize>> {
        let (mut end, mut hash) = (at, 0);
        while let Some(byte) = bytes.get(end).filter(|byte| byte.is_ascii_alphabetic()) {
            hash = hashed(hash, *byte);
            end += 1;
            if end - at > *LENGTH.end() {
                return None;
            }
        }
        (end - at >= *LENGTH.start() && self.may_have(hash)).then_some(at..end)
    }

    fn may_have(&self, hash: usize) -> bool {
        self.hashes.get(hash >> 6).is_some_and(|slot| slot & (1 << (hash & 63)) != 0)
    }

    fn has(&self, word: &[u8]) -> bool {
        self.may_have(word.iter().copied().fold(0, hashed))
            && self
                .words
                .binary_search_by(|listed| listed.bytes().cmp(word.iter().map(u8::to_ascii_lowercase)))
                .is_ok()
    }
}

/// Fifteen bits of a hash over a word's letters, ignoring case.
fn hashed(hash: usize, byte: u8) -> usize {
    (hash * 31 + usize::from(byte | 32)) & 0x7fff
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALLET: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";

    #[test]
    fn words_of_a_wallet_mnemonic_are_found() {
        assert_eq!(WORDS.lines().count(), 2048);
        assert!(WORDS.lines().is_sorted());
        for wallet in [
            WALLET.to_owned(),
            WALLET.to_uppercase(),
            WALLET.replace(' ', "\n"),
            WALLET.replace(' ', "\\n"),
            WALLET.replace(' ', "\\n12. "),
            WALLET.replace(' ', "\", \""),
            format!("{WALLET} {}", WALLET.replace("year", "wave")),
            "zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo wrong".to_owned(),
        ] {
            for before in ["", "1. ", "\"", "- "] {
                let text = format!("{before}{wallet}; and so on");
                let start = before.len();
                assert_eq!(at_start(&text), Some(start..start + wallet.len()), "{text}");
            }
            let text = format!("my seed phrase is this one: {wallet}, keep it");
            let found = announced(&text, "my seed phrase".len()).and_then(|range| text.get(range));
            assert_eq!(found, Some(wallet.as_str()));
            assert!(may_hold(&format!("{{\"a\":\"{wallet}\"}}")) || wallet.contains('"'), "{wallet}");
        }
    }

    #[test]
    fn prose_word_lists_and_incomplete_mnemonics_are_not_matched() {
        for text in [
            "about all that can happen there is nothing more one should add in this case, so we must end here",
            WORDS,
            &WORDS.replace('\n', " "),
            &WALLET[..WALLET.len() - 7],
            &WALLET.replace("sausage", "the"),
            &WALLET.replace("sausage ", "sausage, "),
        ] {
            assert_eq!(at_start(text), None, "{text:.100}");
        }
    }
}
