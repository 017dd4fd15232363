//! Finds the words that restore a wallet: twelve or more in a row, all from the list of 2,048 words of BIP 39.
//!
//! Prose does not have so many of them in a row, because the list has no articles and none of the shortest words. The text
//! is sampled: only where a word of the list stands at the sample, its neighbours are read.

use std::ops::Range;
use std::sync::OnceLock;

/// Sorted.
const WORDS: &str = include_str!("mnemonic_words.txt");
/// The fewest words of a mnemonic.
const FEWEST: usize = 12;
/// The most: two of the longest.
const MOST: usize = 48;
/// Bytes between two samples. The shortest mnemonic, twelve words of three letters, is longer.
const STEP: usize = 40;
/// Lengths of the words.
const LENGTH: std::ops::RangeInclusive<usize> = 3..=8;
/// Between two words: blanks, commas, numbers, quotes, ends of lines.
const BETWEEN: usize = 8;

/// The mnemonics of a text.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut floor) = (STEP, 0);
    while at < bytes.len() {
        // Of a gap the word behind it counts.
        let gap = bytes.iter().skip(at).take(BETWEEN).take_while(|byte| is_between(**byte)).count();
        if let Some(word) = word_around(bytes, at + gap, floor).filter(|word| is_listed(bytes, word)) {
            let row = row_around(bytes, word, floor);
            floor = row.last().map_or(floor, |word| word.end);
            found.extend(mnemonic(text, &row));
        }
        at = at.max(floor) + STEP;
    }
    found
}

fn mnemonic(text: &str, row: &[Range<usize>]) -> Option<Range<usize>> {
    let words = || row.iter().map(|word| text.get(word.clone()).unwrap_or_default().to_ascii_lowercase());
    // A list of words is sorted.
    if !(FEWEST..=MOST).contains(&row.len()) || words().is_sorted() {
        return None;
    }
    Some(row.first()?.start..row.last()?.end)
}

/// The word at this place, not before `floor`. Of `\nword` in a JSON text the letter of the escape does not belong to it.
fn word_around(bytes: &[u8], at: usize, floor: usize) -> Option<Range<usize>> {
    let longest = *LENGTH.end() + 1;
    let before = bytes.get(floor..at)?;
    let back = before.iter().rev().take(longest).take_while(|byte| byte.is_ascii_alphabetic()).count();
    let mut start = at - back;
    let end = at + letters(bytes.get(at..)?, longest);
    if start > floor && bytes.get(start - 1) == Some(&b'\\') && start < end {
        start += 1;
    }
    LENGTH.contains(&(end.checked_sub(start)?)).then_some(start..end)
}

fn letters(bytes: &[u8], most: usize) -> usize {
    bytes.iter().take(most).take_while(|byte| byte.is_ascii_alphabetic()).count()
}

/// All words of the list that stand in a row with this one.
fn row_around(bytes: &[u8], word: Range<usize>, floor: usize) -> Vec<Range<usize>> {
    let mut row = vec![word];
    while row.len() <= MOST
        && let Some(before) = row.first().and_then(|first| before(bytes, first.start, floor))
    {
        row.insert(0, before);
    }
    // One of many more words is a list. It is read to its end, so that no part of it counts.
    while let Some(after) = row.last().and_then(|last| after(bytes, last.end)) {
        row.push(after);
    }
    row
}

fn before(bytes: &[u8], start: usize, floor: usize) -> Option<Range<usize>> {
    let mut at = start;
    while at > floor && start - at < BETWEEN {
        // The letter of an escape, such as that of a line's end, belongs to the gap.
        let is_escape = bytes.get(floor.max(at.saturating_sub(2))..at).is_some_and(|two| two == b"\\n");
        match bytes.get(at - 1) {
            _ if is_escape => at -= 2,
            Some(byte) if is_between(*byte) => at -= 1,
            _ => break,
        }
    }
    let word = word_around(bytes, at.checked_sub(1).filter(|last| *last >= floor && at < start)?, floor)?;
    is_listed(bytes, &word).then_some(word)
}

fn after(bytes: &[u8], end: usize) -> Option<Range<usize>> {
    let mut at = end;
    while at < end + BETWEEN && bytes.get(at).is_some_and(|byte| is_between(*byte)) {
        at += 1;
        if bytes.get(at - 1) == Some(&b'\\') && bytes.get(at).is_some_and(|byte| b"nrt".contains(byte)) {
            at += 1;
        }
    }
    let word = at..at + letters(bytes.get(at..)?, *LENGTH.end() + 1);
    (at > end && LENGTH.contains(&word.len()) && is_listed(bytes, &word)).then_some(word)
}

fn is_between(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\n' | b'\r' | b'\t' | b',' | b'.' | b':' | b')' | b'(' | b'"' | b'\'' | b'\\' | b'-' | b'|'
    ) || byte.is_ascii_digit()
}

fn is_listed(bytes: &[u8], word: &Range<usize>) -> bool {
    static LIST: OnceLock<List> = OnceLock::new();
    let Some(word) = bytes.get(word.clone()) else { return false };
    LIST.get_or_init(List::new).has(word)
}

/// The words, and which beginnings of three letters they have: most other words are ruled out by theirs.
struct List {
    words: Vec<&'static str>,
    beginnings: Vec<u64>,
}

impl List {
    fn new() -> Self {
        let words: Vec<_> = WORDS.lines().collect();
        let mut beginnings = vec![0; 1 << 9];
        for word in &words {
            let (slot, bit) = place(word.as_bytes());
            if let Some(slot) = beginnings.get_mut(slot) {
                *slot |= bit;
            }
        }
        Self { words, beginnings }
    }

    fn has(&self, word: &[u8]) -> bool {
        let (slot, bit) = place(word);
        self.beginnings.get(slot).is_some_and(|slot| slot & bit != 0)
            && self
                .words
                .binary_search_by(|listed| listed.bytes().cmp(word.iter().map(u8::to_ascii_lowercase)))
                .is_ok()
    }
}

/// Five bits of each of the first three letters, which do not tell capitals from small letters.
fn place(word: &[u8]) -> (usize, u64) {
    let number = word.iter().take(3).fold(0_usize, |number, byte| (number << 5) | usize::from(byte & 31));
    (number >> 6, 1 << (number & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALLET: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";

    #[test]
    fn words_of_a_wallet_are_found_wherever_they_begin() {
        assert_eq!(WORDS.lines().count(), 2048);
        assert!(WORDS.lines().is_sorted());
        for length in 0..60 {
            let before = "x".repeat(length);
            let text = format!("{before}: {WALLET}; and so on, as ever");
            let found = find(&text);
            assert_eq!(
                found.iter().filter_map(|range| text.get(range.clone())).collect::<Vec<_>>(),
                [WALLET]
            );
        }
        for text in [
            WALLET.to_owned(),
            WALLET.to_uppercase(),
            WALLET.replace(' ', "\n"),
            WALLET.replace(' ', "\\n"),
            WALLET.replace(' ', "\\n12. "),
            WALLET.replace(' ', "\", \""),
            format!("{WALLET} {}", WALLET.replace("year", "wave")),
            "zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo wrong".to_owned(),
        ] {
            assert_eq!(
                find(&text),
                [Some(0..text.len())].into_iter().flatten().collect::<Vec<_>>(),
                "{text}"
            );
        }
    }

    #[test]
    fn prose_and_lists_of_words_stay() {
        for text in [
            "about all that can happen there is nothing more one should add in this case, so we must end here",
            WORDS,
            &WORDS.replace('\n', " "),
            &WALLET[..WALLET.len() - 7],
            &WALLET.replace("sausage", "the"),
        ] {
            assert!(find(text).is_empty(), "{text:.100}");
        }
    }
}
