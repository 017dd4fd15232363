//! Divides a session into units, with what is known about each when its batch ends.
//!
//! The features of a unit use nothing that comes after its batch. So a batch can be judged when it ends, and judging
//! the session again at its end needs no second set of weights.

use crate::wording::Within;
use std::ops::Range;

use super::sources::SourceKind;
use super::terms::{self, Term, Terms, Vocabulary};
use super::units::Unit;
use recall_domain::ids::EventId;
use recall_domain::linear::Row;

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
    /// Whether this is the session's last answer.
    pub is_last: bool,
}

/// Facts about a batch besides its texts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BatchFacts {
    pub(super) edits: usize,
    pub(super) failures: usize,
    pub(super) steps: usize,
    pub(super) prompt_chars: usize,
    pub(super) asks: bool,
}

/// A session, divided into units, with their features.
#[derive(Debug, Default)]
pub struct Analysis {
    pub sources: Vec<Source>,
    pub units: Vec<Unit>,
    /// The terms of each unit.
    pub terms: Vec<Terms>,
    /// The source of each unit.
    pub source_of: Vec<usize>,
    /// The features of each unit, as they were at the end of its batch.
    pub rows: Vec<Row>,
    /// The number of sources that contain each term.
    pub frequency: Vec<usize>,
    pub batches: usize,
    /// One entry for each batch.
    pub(super) facts: Vec<BatchFacts>,
    /// Whether the last batch has a prompt and no answer.
    pub is_unanswered: bool,
    /// The kinds of source that contain each term.
    pub(super) places: Vec<Places>,
    vocabulary: Vocabulary,
}

/// A set of kinds of source.
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

impl Analysis {
    pub(super) fn add(
        &mut self,
        kind: SourceKind,
        batch: usize,
        events: Vec<EventId>,
        within: Within,
        units: Vec<Unit>,
    ) {
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
            is_last: within == Within::End,
        });
        self.units.extend(units);
    }

    /// The number of sources that contain a term.
    pub fn frequency(&self, term: Term) -> usize {
        self.frequency.get(term.index()).copied().unwrap_or(0)
    }

    /// The information of a term: the fewer sources contain it, the more.
    pub(super) fn rarity(&self, term: Term) -> f64 {
        rarity(self.frequency(term))
    }

    /// The share of terms that occur in these kinds of source.
    pub(super) fn share_in(&self, content: &[Term], places: Places) -> f64 {
        let has = |term: &&Term| self.places.get(term.index()).is_some_and(|known| known.has(places));
        content.iter().filter(has).count() as f64 / content.len().max(1) as f64
    }

    /// The terms of any text.
    pub fn read(&mut self, text: &str) -> Terms {
        terms::read(text, &mut self.vocabulary)
    }
}

/// The information of a term that so many sources contain.
pub(super) fn rarity(frequency: usize) -> f64 {
    1.0 / (1.0 + (frequency.max(1) as f64).ln())
}
