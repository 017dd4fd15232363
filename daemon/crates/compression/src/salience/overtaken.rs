//! Finds what a later turn of the session has changed, corrected or mended: 30 s that are 90 s now, pounds that became
//! kilograms, a cause that was none, a finding that is fixed. It is told no more, and the later statement is.
//!
//! A statement is overtaken only if both have the same subject and most of their words in common, and if the later one says that
//! something has changed. So a doubtful one stays: to tell an old statement beside the new one is the smaller
//! fault.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use super::analysis::Analysis;
use super::sources::SourceKind;
use crate::wording;

/// The share of an earlier statement's words that the later one has, in percent.
const COMMON: usize = 60;
/// What says much besides is on something else.
const COMMON_OF_LATER: usize = 50;
/// Of a cause that is taken back, so much is in the statement that gave it.
const COMMON_OF_CAUSE: usize = 60;
/// Shorter statements have too little to be recognised by.
const FEWEST: usize = 3;
const FEWEST_OF_CAUSE: usize = 2;
/// A word stands for its other endings by so many characters.
const STEM: usize = 6;
/// At most so many earlier statements on one subject are compared.
const MOST: usize = 64;

/// What says that something is not as it was.
const CHANGES: &str = "now, no longer, any more, anymore, instead, switched, changed, replaced, raised, lowered, increased, reduced, \
    moved, renamed, removed, dropped, fixed, corrected, reverted, from now on, rather than, turned out";
/// What takes back a cause or a claim.
const TAKEN_BACK: &str = "is not the cause, was not the cause, isn't the cause, wasn't the cause, is not the reason, is not the problem, \
    is not why, was a red herring, has nothing to do with";
/// What names a cause.
const CAUSES: &str = "cause, culprit, reason, smoking gun, root of, why";
/// Words that carry a sentence and name nothing.
const GRAMMAR: &str = "the a an and or of to in for on with is are was were be been it its this that these those as at by from we you i they \
    can will would should could may might do does did has have had there here then than so not no also still only just all \
    now always already done switched changed fixed corrected replaced";
/// What ends the statement itself.
const ENDS: [&str; 8] = [" because ", " since ", " so that ", ", so ", "; ", " — ", " - ", ": "];
/// A label before a colon is no longer than this many characters.
const LABEL: usize = 24;

/// A statement by its words.
struct Statement {
    words: BTreeSet<String>,
    /// The first of them.
    subject: String,
    /// The one behind it if it is a number: `Phase 3` and `Phase 4` are two things.
    number: Option<String>,
}

impl Statement {
    /// `None`: it says too little.
    fn of(text: &str) -> Option<Self> {
        let plain = wording::plain(text);
        let mut said = plain.as_str();
        // `Fixed: the pool drains`, `Finding 2: the pool hangs`, `Done. The pool drains`
        for mark in [": ", ". "] {
            let label = said.split_once(mark).filter(|(label, _)| label.chars().count() <= LABEL);
            said = label.map_or(said, |(_, rest)| rest);
        }
        let end = ENDS.iter().filter_map(|end| said.find(end)).min().unwrap_or(said.len());
        let words = words_of(said.get(..end).unwrap_or(said));
        let subject = words.first()?.clone();
        let number = words.get(1).filter(|word| word.chars().all(|c| c.is_ascii_digit())).cloned();
        Some(Self { words: words.into_iter().collect(), subject, number })
    }

    /// Whether the later statement is on the same and says it otherwise.
    fn is_changed_by(&self, later: &Self) -> bool {
        let common = self.words.intersection(&later.words).count();
        self.subject == later.subject
            && self.number == later.number
            && self.words.len() >= FEWEST
            && common < self.words.len()
            && common * 100 >= self.words.len() * COMMON
            && common * 100 >= later.words.len() * COMMON_OF_LATER
    }
}

fn words_of(text: &str) -> Vec<String> {
    static GRAMMATICAL: LazyLock<HashSet<&str>> =
        LazyLock::new(|| GRAMMAR.split_ascii_whitespace().collect());
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':' || c == '/' || c == '.'));
    let words = words.map(|word| word.trim_matches([':', '.', '/']).to_lowercase());
    words
        .filter(|word| !word.is_empty() && !GRAMMATICAL.contains(word.as_str()))
        .map(|word| word.chars().take(STEM).collect::<String>().trim_end_matches('s').to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

/// The words of a cause that a sentence takes back.
fn taken_back(text: &str) -> Option<BTreeSet<String>> {
    let lower = wording::plain(text).to_lowercase().replace('\u{2019}', "'");
    let at = wording::phrases(TAKEN_BACK).find_map(|said| lower.find(said))?;
    let head = lower.get(..at)?;
    let clause = head.rsplit([':', ',', ';', '.']).next().unwrap_or(head);
    let words: BTreeSet<String> = words_of(clause).into_iter().collect();
    (words.len() >= FEWEST_OF_CAUSE).then_some(words)
}

fn names_a_cause(text: &str) -> bool {
    let lower = text.to_lowercase();
    wording::says_why(text) || wording::phrases(CAUSES).any(|said| lower.contains(said))
}

fn says_a_change(text: &str) -> bool {
    let lower = format!(" {} ", text.to_lowercase().replace(|c: char| !c.is_alphanumeric(), " "));
    wording::phrases(CHANGES).any(|said| lower.contains(&format!(" {said} ")))
}

fn set(by: &mut [Option<usize>], unit: usize, later: usize) {
    by.get_mut(unit).into_iter().for_each(|by| *by = Some(later));
}

/// The cause that is told right behind one that is taken back.
fn cause_behind(analysis: &Analysis, unit: usize) -> Option<usize> {
    let source = analysis.sources.get(*analysis.source_of.get(unit)?)?;
    let is_cause = |unit: &usize| {
        let text = analysis.units.get(*unit).map(|unit| unit.text.as_str()).unwrap_or_default();
        names_a_cause(text) && taken_back(text).is_none()
    };
    (unit + 1..source.units.end).take(2).find(is_cause)
}

fn is_report(kind: SourceKind) -> bool {
    matches!(
        kind,
        SourceKind::Answer
            | SourceKind::Subagent
            | SourceKind::Commit
            | SourceKind::PullRequest
            | SourceKind::Plan
    )
}

/// Of each unit the later one that overtakes it, if any.
pub(super) fn overtaken(analysis: &Analysis) -> Vec<Option<usize>> {
    let mut by = vec![None; analysis.units.len()];
    if analysis.batches < 2 {
        return by;
    }
    let batch_of = |unit: usize| {
        let source = analysis.sources.get(*analysis.source_of.get(unit)?)?;
        is_report(source.kind).then_some(source.batch)
    };
    // Units by the subject of their statement, and all by batch, in the order of the session.
    let mut subjects: HashMap<String, Vec<usize>> = HashMap::new();
    let mut statements: HashMap<usize, (usize, Statement)> = HashMap::new();
    let mut order: Vec<(usize, usize)> =
        (0..analysis.units.len()).filter_map(|unit| Some((batch_of(unit)?, unit))).collect();
    order.sort_unstable();
    for (batch, later) in order {
        let Some(text) = analysis.units.get(later).map(|unit| unit.text.as_str()) else { continue };
        if let Some(cause) = taken_back(text) {
            let instead = cause_behind(analysis, later).unwrap_or(later);
            let is_of_cause = |earlier: &Statement| {
                cause.intersection(&earlier.words).count() * 100 >= cause.len() * COMMON_OF_CAUSE
            };
            for (unit, (then, statement)) in &statements {
                let names_a_cause = analysis.units.get(*unit).is_some_and(|unit| names_a_cause(&unit.text));
                if *then < batch && names_a_cause && is_of_cause(statement) {
                    set(&mut by, *unit, instead);
                }
            }
        }
        let Some(statement) = Statement::of(text) else { continue };
        // What only introduces something says nothing instead.
        if says_a_change(text) && !text.ends_with(':') {
            for unit in subjects.get(&statement.subject).into_iter().flatten() {
                let Some((then, earlier)) = statements.get(unit) else { continue };
                if *then < batch && earlier.is_changed_by(&statement) {
                    set(&mut by, *unit, later);
                }
            }
        }
        let of_subject = subjects.entry(statement.subject.clone()).or_default();
        if of_subject.len() >= MOST {
            of_subject.remove(0);
        }
        of_subject.push(later);
        statements.insert(later, (batch, statement));
    }
    // What overtakes may be overtaken itself; the last word counts. A later statement is always of a later batch.
    for unit in 0..by.len() {
        let mut last = by.get(unit).copied().flatten();
        while let Some(next) = last.and_then(|later| by.get(later).copied().flatten()) {
            last = Some(next);
        }
        last.into_iter().for_each(|last| set(&mut by, unit, last));
    }
    by
}
