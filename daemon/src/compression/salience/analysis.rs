//! A session cut into units, with what is known of each when its batch ends.
//!
//! The features of a unit see nothing that comes after its batch. So a batch can be judged when it ends, and a session
//! that is judged again when it ends needs no second set of weights.

use std::ops::Range;

use super::noise;
use super::sources::{self, SourceKind};
use super::terms::{self, Term, Terms, Vocabulary};
use super::unit_features;
use super::units::{self, Unit};
use crate::memory::ids::EventId;
use crate::memory::linear::Row;
use crate::memory::material::{Action, BatchMaterial, CallOutcome};

/// A text of the session.
#[derive(Clone, Debug)]
pub struct Source {
    pub kind: SourceKind,
    /// The index of its batch.
    pub batch: usize,
    pub events: Vec<EventId>,
    /// Its units, as indices into those of the session.
    pub units: Range<usize>,
    pub chars: usize,
    pub sections: usize,
    /// Whether it is the last answer of the session.
    pub is_last: bool,
}

/// What happened in a batch besides its texts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BatchFacts {
    pub(super) edits: usize,
    pub(super) failures: usize,
    pub(super) steps: usize,
    pub(super) prompt_chars: usize,
    pub(super) asks: bool,
}

/// A session, cut and measured.
#[derive(Debug, Default)]
pub struct Analysis {
    pub sources: Vec<Source>,
    pub units: Vec<Unit>,
    /// The terms of each unit.
    pub terms: Vec<Terms>,
    /// The source of each unit.
    pub source_of: Vec<usize>,
    /// The features of each unit, as they stood at the end of its batch.
    pub rows: Vec<Row>,
    /// How many sources hold each term.
    pub frequency: Vec<usize>,
    pub batches: usize,
    /// Whether the last batch has a prompt and no answer.
    pub is_unanswered: bool,
    /// In which sorts of source each term stands.
    pub(super) places: Vec<Places>,
    vocabulary: Vocabulary,
}

/// A set of sorts of source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places(u8);

impl Places {
    pub(super) const PROMPT: Self = Self(1);
    pub(super) const COMMIT: Self = Self(2);
    pub(super) const ANSWER: Self = Self(4);
    pub(super) const PLAN: Self = Self(8);

    fn of(kind: SourceKind) -> Self {
        match kind {
            SourceKind::Prompt => Self::PROMPT,
            SourceKind::Commit | SourceKind::PullRequest => Self::COMMIT,
            SourceKind::Answer => Self::ANSWER,
            SourceKind::Plan | SourceKind::PlanPrompt => Self::PLAN,
            _ => Self(0),
        }
    }

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// More units than these are not looked at.
const MOST_UNITS: usize = 12_000;

impl Analysis {
    /// Reads the batches of a session, or a single one.
    pub fn of<'a>(batches: impl IntoIterator<Item = &'a BatchMaterial> + Clone) -> Self {
        let texts = sources::of_session(batches.clone());
        let last_answer =
            texts.iter().rposition(|texts| texts.iter().any(|text| text.kind == SourceKind::Answer));
        let mut analysis = Self::default();
        let mut index = unit_features::Index::default();
        for (number, (batch, texts)) in batches.into_iter().zip(texts).enumerate() {
            let facts = facts(batch);
            let first = analysis.units.len();
            for text in texts {
                let is_last = Some(number) == last_answer && text.kind == SourceKind::Answer;
                let units = noise::clean(text.kind, is_last, units::units_of(&text));
                if !units.is_empty() && analysis.units.len() + units.len() <= MOST_UNITS {
                    analysis.add(text.kind, number, text.events, is_last, units);
                }
            }
            let answered = batch.response.as_ref().is_some_and(|answer| !answer.text.trim().is_empty());
            analysis.is_unanswered = batch.prompt.is_some() && !answered;
            analysis.batches = number + 1;
            index.extend(&analysis);
            let rows = (first..analysis.units.len()).map(|unit| index.row(&analysis, facts, unit));
            let rows: Vec<Row> = rows.collect();
            analysis.rows.extend(rows);
        }
        analysis
    }

    fn add(&mut self, kind: SourceKind, batch: usize, events: Vec<EventId>, is_last: bool, units: Vec<Unit>) {
        let first = self.units.len();
        let source = self.sources.len();
        let mut content: Vec<Term> = Vec::new();
        for unit in &units {
            let terms = terms::read(&unit.text, &mut self.vocabulary);
            content.extend(&terms.content);
            self.terms.push(terms);
            self.source_of.push(source);
        }
        self.frequency.resize(self.vocabulary.len(), 0);
        self.places.resize(self.vocabulary.len(), Places::default());
        content.sort_unstable();
        content.dedup();
        for term in content {
            if let Some(frequency) = self.frequency.get_mut(term.index()) {
                *frequency += 1;
            }
            if let Some(places) = self.places.get_mut(term.index()) {
                places.0 |= Places::of(kind).0;
            }
        }
        self.sources.push(Source {
            kind,
            batch,
            events,
            units: first..first + units.len(),
            chars: units.iter().map(|unit| unit.chars).sum(),
            sections: units.last().map_or(0, |last| last.section + 1),
            is_last,
        });
        self.units.extend(units);
    }

    /// How many sources hold a term.
    pub fn frequency(&self, term: Term) -> usize {
        self.frequency.get(term.index()).copied().unwrap_or(0)
    }

    /// How much a term says: the fewer sources hold it, the more.
    pub(super) fn rarity(&self, term: Term) -> f64 {
        rarity(self.frequency(term))
    }

    /// The share of terms that stand in these sorts of source.
    pub(super) fn share_in(&self, content: &[Term], places: Places) -> f64 {
        let has = |term: &&Term| self.places.get(term.index()).is_some_and(|known| known.has(places));
        content.iter().filter(has).count() as f64 / content.len().max(1) as f64
    }

    /// The terms of any text.
    pub fn read(&mut self, text: &str) -> Terms {
        terms::read(text, &mut self.vocabulary)
    }
}

/// How much a term of so many sources says.
pub(super) fn rarity(frequency: usize) -> f64 {
    1.0 / (1.0 + (frequency.max(1) as f64).ln())
}

fn facts(batch: &BatchMaterial) -> BatchFacts {
    let prompt = batch.prompt.as_ref().map_or("", |prompt| prompt.text.as_str());
    let mut facts =
        BatchFacts { prompt_chars: prompt.len(), asks: prompt.contains('?'), ..BatchFacts::default() };
    for step in &batch.steps {
        match step.outcome {
            CallOutcome::Done => {
                facts.steps += 1;
                facts.edits += usize::from(matches!(step.action, Action::Edit { .. } | Action::Write { .. }));
            }
            CallOutcome::Failed { .. } | CallOutcome::Rejected { .. } => facts.failures += 1,
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::material::SourcedText;

    fn batch(prompt: &str, answer: &str) -> BatchMaterial {
        let said = |text: &str| {
            (!text.is_empty()).then(|| SourcedText { event: EventId([1; 16]), text: text.to_owned() })
        };
        BatchMaterial { prompt: said(prompt), response: said(answer), ..BatchMaterial::default() }
    }

    fn session() -> [BatchMaterial; 2] {
        [
            batch(
                "Cache the exchange rates",
                "The provider bills every request. Rates are cached for an hour.",
            ),
            batch(
                "Why are refunds negative in the ledger?",
                "The gateway drops the sign of `Refund::total`.",
            ),
        ]
    }

    #[test]
    fn units_know_nothing_that_comes_after_their_batch() {
        let session = session();
        let first = Analysis::of(&session[..1]);
        let whole = Analysis::of(&session);
        assert!(!first.rows.is_empty() && first.rows.len() < whole.rows.len());
        assert_eq!(first.rows, whole.rows[..first.rows.len()]);
    }

    #[test]
    fn each_unit_has_its_source_its_terms_and_its_row() {
        let analysis = Analysis::of(&session());
        let count = analysis.units.len();
        assert_eq!(
            (analysis.terms.len(), analysis.source_of.len(), analysis.rows.len()),
            (count, count, count)
        );
        for (number, source) in analysis.sources.iter().enumerate() {
            assert!(source.units.clone().all(|unit| analysis.source_of[unit] == number));
        }
        let last: Vec<usize> =
            analysis.sources.iter().filter(|source| source.is_last).map(|source| source.batch).collect();
        assert_eq!(last, [1]);
    }

    #[test]
    fn the_fewer_sources_hold_a_term_the_more_it_says() {
        let mut analysis = Analysis::of(&session());
        let mut term = |text: &str| analysis.read(text).content[0];
        let (twice, once, never) = (term("rates"), term("ledger"), term("kubernetes"));
        assert_eq!([twice, once, never].map(|term| analysis.frequency(term)), [2, 1, 0]);
        assert!(analysis.rarity(twice) < analysis.rarity(once));
        assert!((analysis.share_in(&[twice, once], Places::ANSWER) - 0.5).abs() < 1e-9);
        assert!((analysis.share_in(&[twice, once], Places::PROMPT) - 1.0).abs() < 1e-9);
        assert!(analysis.share_in(&[never], Places::PROMPT).abs() < 1e-9);
    }

    #[test]
    fn a_prompt_without_an_answer_is_known() {
        assert!(!Analysis::of(&session()).is_unanswered);
        assert!(Analysis::of(&[batch("Cache the exchange rates", "")]).is_unanswered);
        assert!(!Analysis::of(&[]).is_unanswered);
    }
}
