//! Runs of neighbouring units. Each is a possible observation.
//!
//! Half of the facts need two neighbouring sentences, so a selection of single units would lose them. A run may cross
//! a heading; the heading then comes before its first unit.

use super::analysis::{Analysis, Places};
use super::sources::SourceKind;
use super::terms::{self, Term};
use recall_domain::linear::{Features, Linear, Row};

/// The maximum number of characters of a run of several units.
const MOST_CHARS: usize = 650;
/// The maximum number of characters of a single unit.
const LONGEST_UNIT: usize = 1_400;
const MOST_UNITS: usize = 9;

/// A run of units of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub source: usize,
    /// The first and the last unit.
    pub first: usize,
    pub last: usize,
    /// The number of characters, including inner headings.
    pub chars: usize,
    /// The number of characters of the heading above the first unit.
    pub heading_chars: usize,
    /// Sorted, each once.
    pub content: Vec<Term>,
}

impl Window {
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// The approximate cost of the run in tokens.
    pub fn tokens(&self) -> f64 {
        (self.chars + self.heading_chars) as f64 / 4.0
    }
}

/// All runs of a session, by source, first and last unit.
pub fn windows(analysis: &Analysis) -> Vec<Window> {
    let mut windows = Vec::new();
    for (number, source) in analysis.sources.iter().enumerate() {
        for first in source.units.clone() {
            let heading_chars = heading_of(analysis, first).map_or(0, |heading| heading.chars().count() + 2);
            let mut content: Vec<Term> = Vec::new();
            let mut chars = 0;
            for last in first..source.units.end.min(first + MOST_UNITS) {
                let (Some(unit), Some(terms)) = (analysis.units.get(last), analysis.terms.get(last)) else {
                    break;
                };
                if unit.is_offer {
                    break;
                }
                chars += unit.chars + 1;
                if last > first {
                    chars += inner_heading(analysis, last).map_or(0, |heading| heading.chars().count() + 2);
                }
                if chars > if last > first { MOST_CHARS } else { LONGEST_UNIT } {
                    break;
                }
                content.extend(&terms.content);
                content.sort_unstable();
                content.dedup();
                windows.push(Window {
                    source: number,
                    first,
                    last,
                    chars,
                    heading_chars,
                    content: content.clone(),
                });
            }
        }
    }
    windows
}

/// The heading that comes before a unit of a run, except before the first.
pub fn inner_heading(analysis: &Analysis, unit: usize) -> Option<String> {
    let section = |unit: usize| analysis.units.get(unit).map(|unit| unit.section);
    let is_new = unit.checked_sub(1).and_then(section) != section(unit);
    is_new.then(|| heading_of(analysis, unit)).flatten()
}

const LONGEST_HEADING: usize = 90;

/// Words of headings that say nothing about the subject.
const GENERIC: &str = "summary changes context overview plan goal problem solution background files tests test testing \
    verification result results implementation details notes note what changed why fix fixes next steps description \
    status key decisions decision made todo todos pending work recent critical modified created current position \
    comments updated how works feedback addressed previous zusammenfassung änderungen problem lösung ergebnis";

/// The heading above a unit, if it names a subject.
pub fn heading_of(analysis: &Analysis, unit: usize) -> Option<String> {
    let heading = analysis.units.get(unit)?.headings.last()?;
    let text = without_number(&heading.text);
    let lower = text.to_lowercase();
    let mut words = lower.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty());
    let is_generic = words
        .all(|word| GENERIC.split_ascii_whitespace().any(|known| known == word) || terms::is_stop_word(word));
    (!is_generic).then(|| text.chars().take(LONGEST_HEADING).collect())
}

/// A heading without `1.`, `Step 2:`, `#3` or signs before it.
fn without_number(heading: &str) -> &str {
    let mut text = heading.trim();
    for label in ["step ", "issue ", "phase ", "part ", "schritt "] {
        if let Some(rest) = text
            .get(..label.len())
            .filter(|start| start.eq_ignore_ascii_case(label))
            .and_then(|_| text.get(label.len()..))
            && rest.starts_with(|digit: char| digit.is_ascii_digit())
        {
            text = rest;
        }
    }
    let digits = text.trim_start_matches('#');
    let rest = digits.trim_start_matches(|digit: char| digit.is_ascii_digit());
    if rest.len() < digits.len()
        && let Some(behind) = rest.strip_prefix(['.', ')', ':'])
        && behind.starts_with(' ')
    {
        text = behind;
    }
    text.trim_start_matches(|edge: char| !(edge.is_alphanumeric() || "_`\"'(/.@$#-".contains(edge))).trim()
}

const KINDS: [(SourceKind, &str); 8] = [
    (SourceKind::Answer, "in answer"),
    (SourceKind::Commit, "in commit"),
    (SourceKind::Prompt, "in prompt"),
    (SourceKind::PlanPrompt, "in plan prompt"),
    (SourceKind::Plan, "in plan"),
    (SourceKind::Subagent, "in subagent"),
    (SourceKind::Comment, "in comment"),
    (SourceKind::Ask, "in ask"),
];

/// The features of a run, from the salience of its units.
pub fn features(analysis: &Analysis, salience: &[f64], window: &Window) -> Option<Features> {
    let source = analysis.sources.get(window.source)?;
    let range = window.first..=window.last;
    let units = analysis.units.get(range.clone())?;
    let (first, last) = (units.first()?, units.last()?);
    let scores = salience.get(range.clone())?;
    let mut ranked = scores.to_vec();
    ranked.sort_by(|left, right| right.total_cmp(left));
    let best = |number: usize| ranked.iter().take(number).sum::<f64>();
    let positive: f64 = scores.iter().map(|score| score.max(0.0)).sum();
    let is_near = |unit: usize| {
        source.units.contains(&unit)
            && analysis
                .units
                .get(unit)
                .is_some_and(|unit| unit.section == first.section || unit.section == last.section)
    };
    let before = window.first.checked_sub(1).filter(|unit| is_near(*unit));
    let behind = Some(window.last + 1).filter(|unit| is_near(*unit));
    let score = |unit: Option<usize>| unit.and_then(|unit| salience.get(unit)).copied().unwrap_or(0.0);
    let mut names: Vec<Term> =
        analysis.terms.get(range)?.iter().flat_map(|terms| terms.names.iter().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let chars = window.chars.max(1) as f64;
    let content = &window.content;
    let mut features = Features::default();
    let f = &mut features;
    f.add("sum", scores.iter().sum::<f64>());
    f.add("best", best(1));
    f.add("mean", scores.iter().sum::<f64>() / scores.len() as f64);
    f.add("least", ranked.last().copied().unwrap_or(0.0));
    f.add("best two", best(2));
    f.add("best three", best(3));
    f.add("sum by root", positive / (scores.len() as f64).sqrt());
    f.add("units", scores.len() as f64);
    f.add("length", chars.ln());
    f.add("root of length", chars.sqrt());
    f.add("before", score(before));
    f.add("behind", score(behind));
    f.add("starts paragraph", first.is_first);
    let next = (window.last + 1 < source.units.end).then(|| analysis.units.get(window.last + 1)).flatten();
    f.add("ends paragraph", next.is_none_or(|next| next.is_first));
    f.add("starts section", before.is_none());
    f.add("ends section", behind.is_none());
    f.add("content", (content.len() as f64).ln_1p());
    f.add("names", (names.len() as f64).ln_1p());
    f.add("names by length", names.len() as f64 / chars);
    let paragraphs = |unit: &super::units::Unit| unit.paragraph;
    f.add("paragraphs", (paragraphs(last) - paragraphs(first) + 1) as f64);
    f.add("colon at start", first.text.ends_with(':'));
    f.add("colon at end", last.text.ends_with(':'));
    f.add("has heading", window.heading_chars > 0);
    f.add("share in prompts", analysis.share_in(content, Places::PROMPT));
    f.add("share in commits", analysis.share_in(content, Places::COMMIT));
    let rare = content.iter().filter(|term| analysis.frequency(**term) == 1).count();
    f.add("share of rare terms", rare as f64 / content.len().max(1) as f64);
    f.add("sections crossed", (last.section - first.section) as f64);
    f.add("is whole", window.first == source.units.start && window.last + 1 == source.units.end);
    for (kind, name) in KINDS {
        f.add(name, source.kind == kind);
    }
    Some(features)
}

/// The value of a run.
pub fn value(analysis: &Analysis, salience: &[f64], window: &Window, model: &Linear) -> f64 {
    let row: Row = features(analysis, salience, window).map_or_else(Vec::new, |features| features.values());
    model.predict(&row).max(0.0).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_signs_before_a_heading_are_removed() {
        assert_eq!(without_number("1. The pool"), "The pool");
        assert_eq!(without_number("Step 2: The pool"), "The pool");
        assert_eq!(without_number("✅ The pool"), "The pool");
        assert_eq!(without_number("2nd pool"), "2nd pool");
    }
}
