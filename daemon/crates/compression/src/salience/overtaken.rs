//! Finds statements that a later turn of the session has changed or fixed ([`recall_domain::changed`]), or retracted
//! as a cause. The later statement replaces them.

use std::collections::{BTreeSet, HashMap};

use super::analysis::Analysis;
use super::sources::SourceKind;
use crate::wording;
use recall_domain::changed::{Statement, announces_change, words_of};

/// The percentage of a retracted cause that the statement of that cause must contain.
const COMMON_OF_CAUSE: usize = 60;
const FEWEST_OF_CAUSE: usize = 2;
/// The maximum number of earlier statements on one subject that are compared.
const MOST: usize = 64;

/// Words that retract a cause or a claim.
const TAKEN_BACK: &str = "is not the cause, was not the cause, isn't the cause, wasn't the cause, is not the reason, is not the problem, \
    is not why, was a red herring, has nothing to do with";
/// Words that name a cause.
const CAUSES: &str = "cause, culprit, reason, smoking gun, root of, why";

/// The words of a cause that a sentence retracts.
fn taken_back(text: &str) -> Option<BTreeSet<String>> {
    let lower = wording::plain(text).to_lowercase().replace('\u{2019}', "'");
    let at = wording::phrases(TAKEN_BACK).find_map(|phrase| lower.find(phrase))?;
    let head = lower.get(..at)?;
    let clause = head.rsplit([':', ',', ';', '.']).next().unwrap_or(head);
    let words: BTreeSet<String> = words_of(clause).into_iter().collect();
    (words.len() >= FEWEST_OF_CAUSE).then_some(words)
}

fn names_a_cause(text: &str) -> bool {
    let lower = text.to_lowercase();
    wording::says_why(text) || wording::phrases(CAUSES).any(|phrase| lower.contains(phrase))
}

fn set(by: &mut [Option<usize>], unit: usize, later: usize) {
    by.get_mut(unit).into_iter().for_each(|by| *by = Some(later));
}

/// The cause that is stated directly after a retracted one.
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

/// For each unit, the later one that overtakes it, if any.
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
        let Some(statement) = Statement::of(&wording::plain(text)) else { continue };
        if announces_change(text) {
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
