//! Decides which statements of several sessions belong to one thread: they are about the same subject, and the newest
//! counts.
//!
//! Sharing a rare name or a file proves nothing, because most work on a part of a program continues beside earlier
//! work on it. Two statements belong together only if they share a third of all their words, and unless each of them
//! names something that the other does not. `daemon/examples/threads` measures this rule on labelled pairs.

use std::collections::BTreeMap;

use super::ids::{ObservationId, SessionRow, Timestamp};
use super::lineage::{Audience, Author};
use super::sameness::is_code;

/// The words of a statement, as hashes in ascending order. The lowest bit marks words that are part of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadWords(Vec<u32>);

/// Shorter words are mostly grammar.
const SHORTEST: usize = 4;

/// The number of characters compared per word, so that endings do not matter.
const STEM: usize = 7;

/// The maximum number of words considered per text.
const MOST: usize = 120;

/// The share of another statement's words, in percent, from which a statement may replace it.
pub const MOST_OF_IT: usize = 50;

impl ThreadWords {
    /// Hashes the words of an observation's title, narrative and facts.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut words: BTreeMap<u32, u32> = BTreeMap::new();
        for written in texts.into_iter().flat_map(str::split_whitespace) {
            let written = written.trim_matches(|edge: char| !edge.is_alphanumeric());
            let is_name = u32::from(is_code(written));
            for word in written.split(|gap: char| !gap.is_alphanumeric() && gap != '_') {
                if word.chars().count() >= SHORTEST && words.len() < MOST {
                    *words.entry(hash(word)).or_default() |= is_name;
                }
            }
        }
        Self(words.into_iter().map(|(hash, is_name)| hash | is_name).collect())
    }

    /// Encodes the words as they are stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// The share of these words that the other has, in percent.
    pub fn share_in(&self, other: &Self) -> usize {
        (self.compare(other).common * 100).checked_div(self.0.len()).unwrap_or(0)
    }

    /// Whether statements that share so many words belong together: a third of all their words, and half if the
    /// statements are short.
    fn is_close(&self, other: &Self, common: usize) -> bool {
        let of_both = self.0.len() + other.0.len();
        (common >= 5 && 4 * common >= of_both) || (common == 4 && 3 * common >= of_both)
    }

    /// Compares both: what they share, and what only one of them names.
    fn compare(&self, other: &Self) -> Comparison {
        let mut found = Comparison::default();
        let (mut mine, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        loop {
            match (mine.peek(), theirs.peek()) {
                (Some(one), Some(two)) if *one >> 1 == *two >> 1 => {
                    found.common += 1;
                    // A plain word does not name what a name does.
                    found.only_self_names |= *one & 1 > *two & 1;
                    found.only_other_names |= *two & 1 > *one & 1;
                    mine.next();
                    theirs.next();
                }
                (Some(one), two) if two.is_none_or(|two| **one < **two) => {
                    found.only_self_names |= *one & 1 == 1;
                    mine.next();
                }
                (_, Some(two)) => {
                    found.only_other_names |= *two & 1 == 1;
                    theirs.next();
                }
                (_, None) => return found,
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Comparison {
    common: usize,
    only_self_names: bool,
    only_other_names: bool,
}

/// FNV-1a of the first characters of a lower-case word, without the lowest bit. It is stored, so it must not change.
fn hash(word: &str) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    let mut utf8 = [0; 4];
    for letter in word.chars().take(STEM).flat_map(char::to_lowercase) {
        for byte in letter.encode_utf8(&mut utf8).bytes() {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    hash & !1
}

/// The relation between two statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinship {
    Unrelated,
    /// Both are about the same, and the older one names something that the newer one does not.
    AddsAFact,
    /// Both are about the same, and the newer one names everything that the older one does.
    Covered,
}

/// Determines how an older statement relates to a newer one.
pub fn kinship(older: &ThreadWords, newer: &ThreadWords) -> Kinship {
    let found = older.compare(newer);
    match (older.is_close(newer, found.common), found.only_self_names, found.only_other_names) {
        (false, ..) | (true, true, true) => Kinship::Unrelated,
        (true, true, false) => Kinship::AddsAFact,
        (true, false, _) => Kinship::Covered,
    }
}

/// An observation, as part of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saying {
    pub id: ObservationId,
    pub author: Author,
    pub audience: Audience,
    /// `None` if a person wrote it.
    pub session: Option<SessionRow>,
    pub at: Timestamp,
    pub words: ThreadWords,
}

impl Saying {
    /// Whether the older statement need not be injected because of this one. Statements of the same session are kept
    /// side by side. What the user wrote is never covered.
    pub fn covers(&self, older: &Self) -> bool {
        let is_later = self.at > older.at;
        let may = older.author == Author::Compressor;
        let apart = self.session.is_none() || self.session != older.session;
        is_later
            && may
            && apart
            && self.audience.may_replace(older.audience)
            && kinship(&older.words, &self.words) == Kinship::Covered
    }
}

/// Statements by their words, so that those close to another one are found without comparing it with each of them.
#[derive(Debug, Default)]
pub struct SayingsByWord<'a> {
    sayings: Vec<&'a Saying>,
    /// Each word of each statement with the statement's index, in order.
    words: Vec<(u32, usize)>,
    /// The time of the newest one.
    newest: Option<Timestamp>,
}

impl<'a> SayingsByWord<'a> {
    pub fn of(sayings: impl IntoIterator<Item = &'a Saying>) -> Self {
        let mut found = Self::default();
        for saying in sayings {
            let at = found.sayings.len();
            found.words.extend(saying.words.0.iter().map(|word| (*word >> 1, at)));
            found.newest = found.newest.max(Some(saying.at));
            found.sayings.push(saying);
        }
        found.words.sort_unstable();
        found
    }

    /// Returns all statements that may cover this one.
    pub fn close_to(&self, older: &Saying) -> Vec<&'a Saying> {
        if self.newest <= Some(older.at) || older.author != Author::Compressor {
            return Vec::new();
        }
        let mut shared = vec![0_u8; self.sayings.len()];
        for word in older.words.0.iter().map(|word| *word >> 1) {
            let first = self.words.partition_point(|(known, _)| *known < word);
            for (_, at) in self.words.iter().skip(first).take_while(|(known, _)| *known == word) {
                if let Some(count) = shared.get_mut(*at) {
                    *count = count.saturating_add(1);
                }
            }
        }
        let found = self.sayings.iter().zip(shared);
        let close = found.filter(|(newer, shared)| older.words.is_close(&newer.words, usize::from(*shared)));
        close.map(|(saying, _)| *saying).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_by_words_finds_the_same_covering_statements_as_a_full_scan() {
        let words =
            ["invoice", "number", "customer", "January", "upload", "limit", "export.rs", "ledger", "basket"];
        let saying = |id: usize| Saying {
            id: ObservationId(id as i64),
            author: Author::Compressor,
            audience: Audience::Sessions,
            session: None,
            at: Timestamp(id as i64),
            words: ThreadWords::of(
                words.iter().enumerate().filter(|(at, _)| id >> at & 1 == 1).map(|(_, word)| *word),
            ),
        };
        let all: Vec<Saying> = (0..512).map(saying).collect();
        let by_word = SayingsByWord::of(&all);
        let mut covered = 0;
        for older in &all {
            let covers = |newer: &&Saying| newer.covers(older);
            let expected: Vec<_> = all.iter().filter(covers).collect();
            covered += usize::from(!expected.is_empty());
            assert_eq!(by_word.close_to(older).into_iter().filter(covers).collect::<Vec<_>>(), expected);
        }
        assert!(covered > 50, "{covered}");
        let by_hand = Saying { author: Author::User, ..saying(1) };
        assert!(by_word.close_to(&by_hand).is_empty(), "nothing may cover it");
    }

    #[track_caller]
    fn check(older: &str, newer: &str, expected: Kinship) {
        assert_eq!(
            kinship(&ThreadWords::of([older]), &ThreadWords::of([newer])),
            expected,
            "{older:?} {newer:?}"
        );
    }

    #[test]
    fn a_newer_statement_about_the_same_subject_covers_the_older_one() {
        check(
            "Invoices are numbered per customer, starting anew each January",
            "Invoices are numbered per shop now, not per customer, starting anew each January",
            Kinship::Covered,
        );
        check(
            "The nightly export of orders fails when `export.rs` meets an empty basket",
            "The nightly export of orders no longer fails for an empty basket in `export.rs`, fixed by a guard",
            Kinship::Covered,
        );
        check(
            "Image uploads are limited to 20 megabytes each",
            "Image uploads are limited to 50 megabytes each",
            Kinship::Covered,
        );
    }

    #[test]
    fn an_older_statement_that_names_more_adds_a_fact() {
        check(
            "Sign-in tokens are kept in `SessionJar` and expire after a week without use",
            "Sign-in tokens are kept for longer and expire after a month without use",
            Kinship::AddsAFact,
        );
    }

    #[test]
    fn statements_about_different_subjects_are_unrelated() {
        // Built alike, about two files.
        check(
            "Tests of the basket need the file src/basket.rs to be generated first",
            "Tests of the basket need the file src/ledger.rs to be generated first",
            Kinship::Unrelated,
        );
        // About one file, and otherwise two things.
        check(
            "`export.rs` writes dates in the time zone of the shop, because accountants asked for it",
            "`export.rs` streams its rows, so that a year of orders does not fill the memory",
            Kinship::Unrelated,
        );
        check("Run the tests", "Run the tests", Kinship::Unrelated);
        check("", "", Kinship::Unrelated);
    }

    #[test]
    fn thread_words_survive_storage_unchanged() {
        let words = ThreadWords::of(["Sign-in tokens live in `SessionJar`", "Überweisungen über Nacht"]);
        assert_eq!(ThreadWords::from_bytes(&words.to_bytes()), words);
        assert!(words.0.is_sorted() && words.0.len() == 7, "{words:?}");
    }

    #[test]
    fn only_a_later_statement_of_another_session_covers_an_older_one() {
        let saying = |id: i64, author: Author, session: Option<i64>, at: i64| Saying {
            id: ObservationId(id),
            author,
            audience: Audience::Sessions,
            session: session.map(SessionRow),
            at: Timestamp(at),
            words: ThreadWords::of(["Invoices are numbered per customer, starting anew each January"]),
        };
        let older = saying(1, Author::Compressor, Some(1), 10);
        assert!(saying(2, Author::Compressor, Some(2), 11).covers(&older));
        assert!(!saying(2, Author::Compressor, Some(1), 11).covers(&older));
        assert!(!saying(2, Author::Compressor, Some(2), 9).covers(&older));
        assert!(
            !saying(2, Author::Compressor, Some(2), 10).covers(&older),
            "numbers say nothing of the order"
        );
        assert!(saying(2, Author::User, None, 11).covers(&older));
        let by_hand = saying(1, Author::User, None, 10);
        assert!(!saying(2, Author::Compressor, Some(2), 11).covers(&by_hand));
        assert!(!saying(2, Author::User, None, 11).covers(&by_hand));
        let only_found =
            Saying { audience: Audience::Searches, ..saying(2, Author::Compressor, Some(-1), 11) };
        assert!(!only_found.covers(&older), "sessions would receive neither");
        let both = Saying { audience: Audience::Searches, ..older.clone() };
        assert!(only_found.covers(&both) && saying(2, Author::Compressor, Some(2), 11).covers(&both));
    }
}
