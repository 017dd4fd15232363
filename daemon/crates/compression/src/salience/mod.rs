//! Learned salience: decides which sentences of a session are worth remembering. The weights were learned from
//! sessions that people read.
//!
//! 1. [`sources`]: the texts of a batch that somebody wrote to be read.
//! 2. [`units`]: sentences, list items and rows of a text.
//! 3. [`analysis`]: the features of each unit, as they are when its batch ends; `measure` computes them. `overtaken`
//!    finds statements that a later turn changed or fixed, which are then left out.
//! 4. [`windows`]: runs of neighbouring units, judged by the salience of their units.
//! 5. [`selection`]: the selected runs. Each counts for what it adds to the others.
//! 6. [`keep`]: which of these become observations.
//! 7. [`summary`]: the same selection for each field of a summary.
//!
//! The weights are a generated file, see `docs/observations.md`. No word list decides alone, so a language without
//! training data is judged by form, place and names.

pub mod analysis;
mod comments;
mod cues;
pub mod git;
pub mod keep;
pub mod kind;
mod measure;
mod noise;
mod overtaken;
pub mod selection;
pub(super) mod sentences;
mod shell;
pub mod sources;
pub mod summary;
pub mod terms;
mod unit_features;
pub mod units;
pub mod windows;

use std::cell::RefCell;
use std::sync::LazyLock;

use analysis::Analysis;
use git::GitFacts;
use selection::{Chosen, Known, ValuedRuns};
use summary::Field;
use windows::Window;

use super::wording::{self, Piece, SourceKind, Typed};
use recall_domain::ids::EventId;
use recall_domain::linear::{Features, Weights};
use recall_domain::material::{BatchMaterial, SourcedText};
use recall_domain::observation::{ObservationType, SummaryDraft};

/// An observation without the files and events of its batch.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenNote {
    /// The index of its batch.
    pub batch: usize,
    pub kind: ObservationType,
    pub title: String,
    pub narrative: String,
    pub facts: Vec<String>,
    pub events: Vec<EventId>,
    /// Its value in addition to what is selected already.
    pub worth: f64,
}

/// The observations and the summary selected for a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionSelection {
    pub summary: Option<SummaryDraft>,
    /// Best first.
    pub observations: Vec<ChosenNote>,
    pub overtaken: Vec<Overtaken>,
}

/// A statement, and the later statement that replaces it.
#[derive(Clone, Debug, PartialEq)]
pub struct Overtaken {
    pub text: String,
    /// `None` if the later text cannot be worded.
    pub by: Option<ChosenNote>,
}

/// The value of a statement that is selected because it overtakes another.
const OVERTAKES: f64 = 0.3;

/// Tokens that a summary costs besides its fields.
const SUMMARY_OVERHEAD: f64 = 45.0;

/// The values from which observations are emitted before the session ends: for the best of a batch, and for the others.
/// They are above the floor for keeping, because emitted observations stay.
const ANNOUNCED: [f64; 2] = [0.2, 0.3];
/// The lower value from which the best observation of a session is emitted if nothing reaches the floor.
const ANYTHING: f64 = -0.2;

/// A session or a batch, measured with certain weights.
#[derive(Debug)]
pub struct Salience<'w> {
    pub analysis: Analysis,
    pub windows: Vec<Window>,
    pub candidates: Vec<summary::FieldCandidate>,
    /// The salience of each unit.
    pub units: Vec<f64>,
    /// For each unit, the later one that overtakes it.
    overtaken: Vec<Option<usize>>,
    git: GitFacts,
    /// The text that the user typed in each batch.
    typed: Vec<String>,
    weights: &'w Weights,
}

impl<'w> Salience<'w> {
    pub fn of<'a>(
        batches: impl IntoIterator<Item = &'a BatchMaterial> + Clone,
        weights: &'w Weights,
    ) -> Self {
        let git = GitFacts::of(batches.clone());
        let typed = batches.clone().into_iter().map(typed).collect();
        let mut analysis = Analysis::of(batches);
        let windows = windows::windows(&analysis);
        let overtaken = overtaken::overtaken(&analysis);
        let candidates = summary::candidates(&mut analysis);
        let units = Vec::new();
        let mut salience = Self { analysis, windows, candidates, units, overtaken, git, typed, weights };
        salience.reweigh(weights);
        salience
    }

    /// Judges the same session with other weights.
    fn reweigh(&mut self, weights: &'w Weights) {
        let model = weights.model("unit");
        self.units = self.analysis.rows.iter().map(|row| model.predict(row)).collect();
        self.weights = weights;
    }

    /// The summary and the observations.
    pub fn session(&mut self) -> SessionSelection {
        let holds = |candidate: &&summary::FieldCandidate| {
            self.overtaken.get(candidate.unit).is_none_or(Option::is_none)
        };
        let candidates: Vec<_> = self.candidates.iter().filter(holds).cloned().collect();
        let fields = summary::SummaryMaterial {
            analysis: &self.analysis,
            salience: &self.units,
            candidates: &candidates,
        }
        .fields(&self.git, self.weights);
        let summary_text = fields.join("\n");
        let terms = self.analysis.read(&summary_text).content;
        let budget = selection::BUDGET - summary_text.chars().count() as f64 / 4.0 - SUMMARY_OVERHEAD;
        let known = Known { summary: &terms, ..Known::default() };
        let mut observations = self.chosen_notes(known, budget, 0.0);
        if observations.is_empty() {
            observations = self.chosen_notes(known, budget, ANYTHING);
            observations.truncate(1);
        }
        let [request, completed, learned, next_steps] = fields;
        let best = observations.first().map(|note| note.title.as_str());
        let title = summary::session_title(&self.analysis, best, &request).unwrap_or_default();
        let is_empty = [&request, &completed, &learned].iter().all(|field| field.is_empty());
        let summary =
            SummaryDraft { title, request, completed, learned, next_steps, ..SummaryDraft::default() };
        SessionSelection {
            summary: (!is_empty).then_some(summary),
            observations,
            overtaken: self.overtaken_texts().collect(),
        }
    }

    fn overtaken_texts(&self) -> impl Iterator<Item = Overtaken> {
        let alone = |unit: usize| {
            let is_it = |window: &Window| (window.first, window.last) == (unit, unit);
            let window = self.windows.iter().position(is_it)?;
            self.word(Chosen { window, worth: OVERTAKES }, None)
        };
        let units = self.analysis.units.iter().zip(&self.overtaken);
        units.filter_map(move |(unit, later)| {
            Some(Overtaken { text: unit.text.clone(), by: later.map(alone)? })
        })
    }

    /// Only the observations, without what the text before says already. They are selected as at the session's end, and
    /// emitted if they are clearly above the floor.
    pub fn observations(&mut self, before: &str) -> Vec<ChosenNote> {
        let before = self.analysis.read(before).content;
        let notes = self.valued(Known { before: &before, ..Known::default() }, selection::BUDGET, 0.0);
        let [best, others] = ANNOUNCED;
        let floors = std::iter::once(best).chain(std::iter::repeat(others));
        notes
            .into_iter()
            .zip(floors)
            .filter(|((_, value), floor)| value >= floor)
            .map(|((note, _), _)| note)
            .collect()
    }

    fn chosen_notes(&self, known: Known<'_>, budget: f64, least: f64) -> Vec<ChosenNote> {
        self.valued(known, budget, least).into_iter().map(|(note, _)| note).collect()
    }

    /// The observations with at least this value to a colleague, above the floor, best first, each with its value.
    fn valued(&self, known: Known<'_>, budget: f64, least: f64) -> Vec<(ChosenNote, f64)> {
        let model = self.weights.model("window");
        let value = |window: &Window| {
            let value = windows::value(&self.analysis, &self.units, window, model);
            let units = self.overtaken.get(window.first..=window.last).unwrap_or_default();
            let holds = units.iter().all(Option::is_none);
            if value > 0.0 && holds && self.begins(window) { value } else { 0.0 }
        };
        let values: Vec<f64> = self.windows.iter().map(value).collect();
        // A subject is the title of one note.
        let used = RefCell::new(Vec::new());
        let runs = ValuedRuns { analysis: &self.analysis, windows: &self.windows, values: &values };
        selection::select(runs, known, budget, |chosen| {
            let value = values.get(chosen.window).copied().unwrap_or(0.0);
            let subject = self.subject_of(chosen);
            let is_used = subject.is_some_and(|subject| used.borrow().contains(&subject));
            let note = self.word(chosen, subject.filter(|_| !is_used))?;
            // Without the subject, which is another note's title, only a title that stands alone is understood.
            if is_used && !wording::stands_alone(&note.title) {
                return None;
            }
            let subject = subject.filter(|_| !is_used);
            let kept = self.kept(&note, chosen, value);
            (kept >= least).then(|| used.borrow_mut().extend(subject))?;
            Some((note, kept))
        })
    }

    /// Returns the index of the unit that is the subject of a commit: of the commit that the run is from, or of the only
    /// commit of the turn whose answer it is from. A subject was written to stand alone.
    fn subject_of(&self, chosen: Chosen) -> Option<usize> {
        let window = self.windows.get(chosen.window)?;
        let source = self.analysis.sources.get(window.source)?;
        let source = match source.kind {
            SourceKind::Answer => self.only_commit(source.batch)?,
            _ => source,
        };
        let first = source.units.start;
        self.analysis.units.get(first).filter(|unit| unit.is_subject).map(|_| first)
    }

    /// Returns the commit of a turn, if it made exactly one.
    fn only_commit(&self, batch: usize) -> Option<&analysis::Source> {
        let mut commits = self.analysis.sources.iter().filter(|source| {
            source.batch == batch && source.kind == SourceKind::Commit && !source.units.is_empty()
        });
        commits.next().filter(|_| commits.next().is_none())
    }

    /// The value to a colleague, above the floor. Zero without weights.
    fn kept(&self, note: &ChosenNote, chosen: Chosen, value: f64) -> f64 {
        let Some(window) = self.windows.get(chosen.window) else { return f64::MIN };
        let ChosenNote { kind, title, narrative, facts, .. } = note;
        let candidate = keep::Proposed { window, kind: *kind, title, narrative, facts };
        let features = keep::features(&self.analysis, (&self.units, value), candidate);
        self.weights.model(keep::MODEL).predict(&features.values())
    }

    /// Whether an observation may begin with this run. Tasks in prompts, steps of a plan, and commits that tidy are done or
    /// gone when somebody reads them. A comment that only repeats the code below it is read there.
    fn begins(&self, window: &Window) -> bool {
        let Some(source) = self.analysis.sources.get(window.source) else { return false };
        let Some(unit) = self.analysis.units.get(window.first) else { return false };
        match source.kind {
            SourceKind::Prompt => wording::holds_beyond(&unit.text).is_some(),
            SourceKind::Plan | SourceKind::PlanPrompt => {
                let headings: Vec<&str> = unit.headings.iter().map(|heading| heading.text.as_str()).collect();
                !wording::is_step(&unit.text, &headings)
            }
            SourceKind::Commit => {
                let subject = self.analysis.units.get(source.units.start);
                !subject.is_some_and(|subject| wording::is_chore(&subject.text))
            }
            SourceKind::Comment => {
                let units = self.analysis.units.get(window.first..=window.last).unwrap_or_default();
                units.iter().any(|unit| wording::says_why(&unit.text))
            }
            // That something failed teaches nothing before it is known how it works.
            SourceKind::Failure => false,
            _ => true,
        }
    }

    fn pieces(&self, first: usize, last: usize) -> Vec<Piece<'_>> {
        let source = self.analysis.source_of.get(first).and_then(|source| self.analysis.sources.get(*source));
        let Some(source) = source else { return Vec::new() };
        let piece = |number: usize| {
            // A block of code has lost its lines.
            let unit = self.analysis.units.get(number).filter(|unit| unit.form != units::Form::Code)?;
            Some(Piece {
                text: &unit.text,
                heading: unit.headings.last().map(|heading| heading.text.as_str()),
                lead: unit.lead.as_deref(),
                salience: self.units.get(number).copied().unwrap_or(0.0) as f32,
                source: source.kind,
                progress: unit.progress,
            })
        };
        (first..=last).filter_map(piece).collect()
    }

    fn typed(&self, batch: usize, pieces: &[Piece<'_>]) -> Typed {
        let typed = self.typed.get(batch).map(String::as_str).unwrap_or_default();
        match pieces.iter().all(|piece| wording::is_typed(piece.text, typed)) {
            true => Typed::ByUser,
            false => Typed::No,
        }
    }

    /// The type of a run.
    pub fn kind_of(&self, window: &Window) -> Option<ObservationType> {
        let source = self.analysis.sources.get(window.source)?;
        let pieces = self.pieces(window.first, window.last);
        let likely = kind::agreements(&self.analysis, window, self.weights);
        let begins = match source.kind {
            SourceKind::Commit | SourceKind::PullRequest => Some(source),
            SourceKind::Answer => self.only_commit(source.batch),
            _ => None,
        };
        let subject = begins.and_then(|source| self.analysis.units.get(source.units.start));
        let subject = subject.map(|unit| unit.text.as_str());
        Some(wording::kind(&pieces, Some(&likely), self.typed(source.batch, &pieces), subject))
    }

    /// The note of a run, with a commit's subject as its title if there is one. `None` if the run contains no
    /// statement.
    fn word(&self, chosen: Chosen, subject: Option<usize>) -> Option<ChosenNote> {
        let window = self.windows.get(chosen.window)?;
        let source = self.analysis.sources.get(window.source)?;
        let mut pieces = self.pieces(window.first, window.last);
        let subject = subject.map(|unit| (unit, self.pieces(unit, unit)));
        let subject = subject.and_then(|(unit, piece)| Some((unit, wording::title(&piece)?, piece)));
        // What the author calls the work that the title names is its type.
        let named = subject.as_ref().and_then(|(unit, ..)| self.analysis.units.get(*unit));
        let named = named.and_then(|unit| wording::committed_kind(&unit.text));
        let title = match subject {
            Some((unit, title, piece)) => {
                if unit != window.first {
                    pieces.splice(0..0, piece);
                }
                title
            }
            None => wording::title(&pieces)?,
        };
        let body = wording::body(&pieces, Some(&title));
        Some(ChosenNote {
            batch: source.batch,
            kind: named.map_or_else(|| self.kind_of(window), Some)?,
            title: title.text,
            narrative: body.narrative,
            facts: body.facts,
            events: source.events.clone(),
            worth: chosen.worth,
        })
    }
}

fn typed(batch: &BatchMaterial) -> String {
    let prompt = batch.prompt.as_ref().filter(|_| batch.source.is_asked_openly());
    prompt.map(|prompt| wording::typed_words(&prompt.text)).unwrap_or_default()
}

/// A session of one sentence, from which the names of the features are taken.
fn sample() -> Analysis {
    let text = "The pool waits for the port.".to_owned();
    let prompt = Some(SourcedText { event: EventId([0; 16]), text });
    Analysis::of([&BatchMaterial { prompt, ..BatchMaterial::default() }])
}

/// The weights that recall was built with.
pub fn built_in() -> &'static Weights {
    static WEIGHTS: LazyLock<Weights> = LazyLock::new(|| Weights::parse(include_str!("weights.txt")));
    &WEIGHTS
}

/// The names of the features of each model.
pub fn feature_names() -> Vec<(String, Vec<&'static str>)> {
    let sample = sample();
    let names_of = |features: Option<Features>| features.unwrap_or_default().names();
    let units = names_of(unit_features::first(&sample));
    let mut summary = units.clone();
    summary.extend(summary::ADDED);
    let windows = windows::windows(&sample);
    let window = names_of(windows.first().and_then(|window| windows::features(&sample, &[0.0], window)));
    let kind = names_of(windows.first().map(|window| kind::features(&sample, window)));
    let keep = names_of(windows.first().map(|window| {
        let (kind, title, narrative) = (ObservationType::Change, "", "");
        keep::features(&sample, (&[0.0], 0.0), keep::Proposed { window, kind, title, narrative, facts: &[] })
    }));
    let mut names =
        vec![("unit".to_owned(), units), ("window".to_owned(), window), (keep::MODEL.to_owned(), keep)];
    names.extend(Field::ALL.iter().map(|field| (field.name().to_owned(), summary.clone())));
    names.extend(kind::SORTS.iter().map(|(sort, _)| (kind::model(sort), kind.clone())));
    names
}
