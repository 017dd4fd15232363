//! Chooses which answers to inject: nothing twice, each fact once, the newest of a thread.

use super::excerpt::{self, is_filler, sentences};
use super::prompt::{Situation, opens_with_a_question};
use crate::document::DocumentKind;
use crate::ids::Timestamp;
use crate::sameness::is_code;
use crate::subject::UNITS;

/// The share of common words from which two texts say the same, in percent.
const SAME: usize = 60;
/// The share of a text's words in the known text from which it adds nothing, in percent.
const KNOWN: usize = 80;
/// The maximum number of statements at a prompt. A second one makes the block half as long again, and helped at one of
/// 50 prompts. A question that opens a session may get more, because it has nothing else to go by.
const MOST: usize = 1;
const MOST_FOR_QUESTION: usize = 4;
/// Once the statements have spent this many tokens, nothing is added: more was measured to answer no more questions.
pub const ENOUGH_TOKENS: u32 = 155;

/// The words of a text, used to detect repetition.
#[derive(Clone, Debug, Default)]
pub struct Words {
    all: WordSet,
    /// The words that are names or numbers.
    names: WordSet,
    /// Numbers with their units.
    values: WordSet,
}

impl Words {
    pub fn of(text: &str) -> Self {
        let (mut all, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let is_unit = |word: &str| UNITS.contains(&word) || word.starts_with('%');
        // The preceding word, if it is a number without a unit.
        let mut number = None;
        for raw in text.split_whitespace() {
            let written = raw.trim_matches(|c: char| !c.is_alphanumeric());
            let before = number.take();
            let is_number = written.starts_with(|c: char| c.is_ascii_digit());
            if is_number || before.is_some() {
                let lower = written.to_lowercase();
                if is_unit(&lower) || raw.starts_with('%') {
                    values.extend(before);
                }
                let unit = lower.trim_start_matches(|c: char| c.is_ascii_digit());
                match is_number && (is_unit(unit) || raw.contains('%')) {
                    true => values.push(hash(written)),
                    false => number = is_number.then(|| hash(written)),
                }
            }
            if is_code(written) {
                names.push(hash(written));
            }
            let parts = written.split(|c: char| !c.is_alphanumeric() && c != '_');
            all.extend(parts.filter(|part| !part.is_empty()).map(hash));
        }
        Self { all: WordSet::of(all), names: WordSet::of(names), values: WordSet::of(values) }
    }

    /// Whether this text says everything that the other says. A missing name or number makes it a different statement.
    pub fn covers(&self, other: &Self) -> bool {
        self.shares(other, SAME) && other.names.is_subset(&self.names)
    }

    /// Whether the known texts say everything that this one does.
    pub(crate) fn are_known_from(&self, known: &Self) -> bool {
        known.shares(self, KNOWN) && self.names.is_subset(&known.names)
    }

    /// Whether this text contains all words of the other.
    pub(crate) fn has_all_of(&self, other: &Self) -> bool {
        other.all.is_subset(&self.all)
    }

    /// Whether both are one sentence that differs in one word.
    pub fn differs_in_a_word(&self, other: &Self) -> bool {
        let length = self.all.0.len();
        // Equally many words, all but one of them shared.
        length > 2 && length == other.all.0.len() && self.all.common(&other.all) + 1 == length
    }

    /// Whether both are one sentence with different values: 30 s, then 90 s.
    pub(crate) fn differs_in_a_value(&self, other: &Self) -> bool {
        let is_value = |one: &Self, other: &Self| {
            let mut differing = one.all.0.iter().filter(|word| !other.all.contains(**word));
            differing.all(|word| one.values.contains(*word))
        };
        self.differs_in_a_word(other) && is_value(self, other) && is_value(other, self)
    }

    fn shares(&self, other: &Self, percent: usize) -> bool {
        let of_other = other.all.0.len();
        of_other > 0 && other.all.common(&self.all) * 100 >= of_other * percent
    }
}

/// The hashes of words, in ascending order, each once. Every start compares many texts, and strings took most of its
/// time. Two different words of 64 bits practically never have the same hash.
#[derive(Clone, Debug, Default)]
struct WordSet(Vec<u64>);

impl WordSet {
    fn of(mut hashes: Vec<u64>) -> Self {
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes)
    }

    fn contains(&self, hash: u64) -> bool {
        self.0.binary_search(&hash).is_ok()
    }

    fn is_subset(&self, other: &Self) -> bool {
        self.0.len() <= other.0.len() && self.common(other) == self.0.len()
    }

    /// The number of words that both contain.
    fn common(&self, other: &Self) -> usize {
        let mut theirs = other.0.iter().peekable();
        let is_shared = |mine: &&u64| {
            while theirs.next_if(|their| their < mine).is_some() {}
            theirs.next_if_eq(mine).is_some()
        };
        self.0.iter().filter(is_shared).count()
    }
}

/// FNV-1a of the lower-case word.
fn hash(word: &str) -> u64 {
    let letters = word.chars().flat_map(char::to_lowercase);
    letters.fold(0xcbf2_9ce4_8422_2325, |hash, letter| {
        (hash ^ u64::from(u32::from(letter))).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Whether a passage states something. A prompt says what a person wanted, a plan or task list what somebody intended,
/// and the opening of an answer says nothing yet.
pub fn is_statement(kind: DocumentKind, text: &str) -> bool {
    let is_statement_kind = !matches!(kind, DocumentKind::Prompt | DocumentKind::Plan);
    let is_task = |line: &&str| TASKS.iter().any(|mark| line.trim_start().starts_with(mark));
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    let tasks = text.lines().filter(is_task).count();
    let sentences = sentences(text);
    // A title may be the whole statement.
    let has_content = sentences.is_empty() || !sentences.into_iter().all(is_filler);
    is_statement_kind && tasks * 2 < lines.max(1) && has_content
}

/// Prefixes of task list entries.
const TASKS: [&str; 8] = ["- [ ]", "- [x]", "* [ ]", "* [x]", "\u{2610}", "\u{2611}", "\u{2714}", "\u{25fb}"];

/// The maximum number of statements to inject at a prompt.
pub fn most(situation: &Situation<'_>) -> usize {
    if opens_with_a_question(situation) { MOST_FOR_QUESTION } else { MOST }
}

/// The token limit of each statement.
pub fn tokens_of_each(situation: &Situation<'_>) -> u32 {
    if opens_with_a_question(situation) { excerpt::ANSWER } else { excerpt::LINE }
}

/// The statements chosen so far.
#[derive(Clone, Debug)]
pub struct StatementChoice<T> {
    known: Vec<Words>,
    most: usize,
    chosen: Vec<(Words, Timestamp, T)>,
}

impl<T> StatementChoice<T> {
    /// Starts a choice. `known` is what the reader has already read; `most` is the maximum number of statements.
    pub fn beside(known: Vec<Words>, most: usize) -> Self {
        Self { known, most, chosen: Vec::new() }
    }

    /// Adds a statement; call it with the best first. Of two that say the same, the newer is kept.
    pub fn add(&mut self, words: Words, at: Timestamp, statement: T) {
        if self.known.iter().any(|known| words.are_known_from(known)) {
            return;
        }
        let is_covered = |(known, then, _): &(Words, Timestamp, T)| {
            let is_newer = *then < at && (words.covers(known) || words.differs_in_a_word(known));
            known.covers(&words) && !is_newer
        };
        if self.chosen.iter().any(is_covered) {
            return;
        }
        if self.chosen.iter().any(|(known, then, _)| known.differs_in_a_value(&words) && *then > at) {
            return;
        }
        let replaces = |(known, then, _): &(Words, Timestamp, T)| {
            let is_older = *then > at && words.differs_in_a_word(known);
            words.covers(known) && !is_older || words.differs_in_a_value(known)
        };
        match self.chosen.iter_mut().find(|one| replaces(one)) {
            Some(older) => *older = (words, at, statement),
            None => self.chosen.push((words, at, statement)),
        }
    }

    /// Whether enough were added. One more than `most` is collected, because it may be the newer of two.
    pub fn is_full(&self) -> bool {
        self.chosen.len() > self.most
    }

    /// Returns the chosen statements, best first. Of two that differ in one word the newer comes first, because it
    /// says what replaced the older one.
    pub fn into_best(mut self) -> Vec<T> {
        newer_first(&mut self.chosen, |(first, then, _), (second, at, _)| {
            at > then && second.differs_in_a_word(first)
        });
        self.chosen.into_iter().take(self.most).map(|(.., statement)| statement).collect()
    }
}

/// Swaps each statement that comes before one that overtakes it, because the newer one says what holds.
pub fn newer_first<T>(statements: &mut [T], is_overtaken: impl Fn(&T, &T) -> bool) {
    for later in 1..statements.len() {
        for earlier in 0..later {
            let pair = statements.get(earlier).zip(statements.get(later));
            if pair.is_some_and(|(first, second)| is_overtaken(first, second)) {
                statements.swap(earlier, later);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(known: &[&str], statements: &[(&str, i64)], expected: &[&str]) {
        let mut choice = StatementChoice::beside(known.iter().map(|text| Words::of(text)).collect(), 9);
        for (text, at) in statements {
            choice.add(Words::of(text), Timestamp(*at), *text);
        }
        assert_eq!(choice.into_best(), expected);
    }

    #[test]
    fn each_fact_is_kept_once_in_its_newest_statement() {
        let (old, new) =
            ("Invoices are numbered per customer", "Invoices are numbered per shop, not per customer");
        let other = "Rounding happens once, after the sum";
        check(&[], &[(old, 1), (other, 5), (new, 9)], &[new, other]);
        check(&[], &[(new, 9), (other, 5), (old, 1)], &[new, other]);
    }

    #[test]
    fn prompts_plans_tasks_and_openings_are_not_statements() {
        let rounded = "The cart is rounded once.";
        assert!(is_statement(DocumentKind::Response, rounded) && is_statement(DocumentKind::Observation, ""));
        assert!(is_statement(DocumentKind::Response, "It is done by hand. Shall I commit?"));
        assert!(!is_statement(DocumentKind::Prompt, rounded) && !is_statement(DocumentKind::Plan, rounded));
        for nothing in
            ["- [x] round the cart\n- [ ] ship it", "Done. Want me to commit it?", "Here is the list:"]
        {
            assert!(!is_statement(DocumentKind::Response, nothing), "{nothing}");
        }
    }

    #[test]
    fn a_question_that_opens_a_session_gets_more_statements() {
        let first = |prompt| Situation { prompt, ..Situation::default() };
        let question = first("why is the cart rounded once?");
        let task = first("round the cart once");
        let later = Situation { prompts_before: 1, ..question };
        for one_line in [task, later] {
            assert!(most(&question) > most(&one_line));
            assert!(tokens_of_each(&question) > tokens_of_each(&one_line));
        }
        let mut choice = StatementChoice::beside(Vec::new(), most(&later));
        for (text, at) in [("We use SQLite.", 1), ("We use Postgres.", 2)] {
            assert!(!choice.is_full());
            choice.add(Words::of(text), Timestamp(at), text);
        }
        assert!(choice.is_full());
        assert_eq!(choice.into_best(), ["We use Postgres."], "the newer of two in one line");
    }

    #[test]
    fn statements_with_different_names_or_numbers_are_distinct() {
        let (seven, eleven) =
            ("The heron7 gateway waits 7 seconds.", "The heron11 gateway waits 11 seconds.");
        check(&[], &[(seven, 1), (eleven, 2)], &[seven, eleven]);
        check(&[seven], &[(seven, 1), (eleven, 2)], &[eleven]);
    }

    #[test]
    fn only_the_newest_value_is_kept() {
        for (old, new) in [
            ("The gateway gives up after 30 s.", "The gateway gives up after 90 s."),
            ("The gateway gives up after 30s.", "The gateway gives up after 90s."),
            ("Staging keeps 10 % of the traces.", "Staging keeps 25 % of the traces."),
        ] {
            check(&[], &[(old, 1), (new, 2)], &[new]);
            check(&[], &[(new, 2), (old, 1)], &[new]);
            // What was given at the start is known; what holds now is news beside it.
            check(&[old], &[(old, 1), (new, 2)], &[new]);
        }
        let (one, other) = ("Phase 3 draws the cart anew.", "Phase 4 draws the cart anew.");
        check(&[], &[(one, 1), (other, 2)], &[other, one]);
    }

    #[test]
    fn the_later_of_two_choices_comes_first() {
        let (old, new) = ("We use SQLite.", "We use Postgres.");
        check(&[], &[(old, 1), (new, 2)], &[new, old]);
        check(&[], &[(new, 2), (old, 1)], &[new, old]);
        check(&[], &[("Orders live in files.", 1), (old, 2)], &["Orders live in files.", old]);
    }

    #[test]
    fn statements_already_read_are_not_injected_again() {
        let long = "Discounts are percentages. Rounding happens once, after the sum. Nothing else changed in the cart.";
        check(&[long], &[("Rounding happens once, after the sum", 1)], &[]);
        check(&["Rounding happens once, after the sum"], &[(long, 1)], &[long]);
    }
}
