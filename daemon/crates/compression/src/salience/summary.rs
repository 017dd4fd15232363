//! Summarizes a session: for each field, selects the units that say most for it.
//!
//! Filters keep each field to its subject: prompts and plans say what was asked, and only the end of a session says
//! what is open.

use std::collections::HashSet;

use super::analysis::{Analysis, Source};
use super::git::GitFacts;
use super::sources::SourceKind;
use super::terms::Term;
use super::units::{Form, joined};
use crate::wording::{self, Never, Progress, Within};
use recall_domain::linear::{Linear, Row, Weights};

/// A field of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Request,
    Completed,
    Learned,
    NextSteps,
}

impl Field {
    /// The fields, in the order of a summary.
    pub const ALL: [Self; 4] = [Self::Request, Self::Completed, Self::Learned, Self::NextSteps];

    /// The name of the field's model.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Completed => "completed",
            Self::Learned => "learned",
            Self::NextSteps => "next_steps",
        }
    }

    /// The maximum length of the field, in characters, in a session with this number of turns.
    fn room(self, turns: usize) -> usize {
        match self {
            Self::Request => 220,
            Self::Completed => (500 + 100 * turns).min(1_200),
            Self::Learned => (500 + 100 * turns).min(1_000),
            Self::NextSteps => 400,
        }
    }

    /// The maximum number of entries of the field in a session with this number of turns.
    fn most(self, turns: usize) -> usize {
        match self {
            Self::Request => 4,
            Self::Completed | Self::Learned => (4 + turns).min(8),
            Self::NextSteps => 5,
        }
    }

    /// The minimum prediction for a unit in this field.
    fn least(self) -> f64 {
        match self {
            Self::Request => 0.0,
            Self::Completed => 0.08,
            Self::Learned => 0.05,
            Self::NextSteps => 0.14,
        }
    }
}

const SHORTEST: usize = 12;
const LONGEST: usize = 420;

/// A unit, or the heading of a plan, that may appear in a field.
#[derive(Clone, Debug)]
pub struct FieldCandidate {
    /// The unit, or the first one below the heading.
    pub unit: usize,
    pub text: String,
    pub is_heading: bool,
    pub content: Vec<Term>,
}

/// Everything that may appear in a summary.
pub fn candidates(analysis: &mut Analysis) -> Vec<FieldCandidate> {
    let mut found = Vec::new();
    let headings: Vec<(usize, String)> = analysis
        .sources
        .iter()
        .filter_map(|source| Some((source.units.start, plan_title(analysis, source)?)))
        .collect();
    for (unit, text) in headings {
        let content = analysis.read(&text).content;
        found.push(FieldCandidate { unit, text, is_heading: true, content });
    }
    for (number, (unit, terms)) in analysis.units.iter().zip(&analysis.terms).enumerate() {
        let source = analysis.source_of.get(number).and_then(|source| analysis.sources.get(*source));
        let is_bare_failure = source.is_some_and(|source| source.kind == SourceKind::Failure);
        if unit.form != Form::Code && unit.chars <= LONGEST && !is_bare_failure {
            let (text, content) = (unit.text.clone(), terms.content.clone());
            found.push(FieldCandidate { unit: number, text, is_heading: false, content });
        }
    }
    found
}

/// The first heading of a plan, without `Plan:` before it.
pub(super) fn plan_title(analysis: &Analysis, source: &Source) -> Option<String> {
    if !matches!(source.kind, SourceKind::Plan | SourceKind::PlanPrompt) {
        return None;
    }
    let first = source.units.clone().take(3).find_map(|unit| analysis.units.get(unit)?.headings.first())?;
    let text = first.text.as_str();
    let lower = text.to_lowercase();
    let label = ["implementation plan", "plan"].iter().find_map(|label| {
        let rest = lower.strip_prefix(label)?.trim_start();
        let rest = rest.strip_prefix([':', '—', '-', '–'])?;
        Some(lower.len() - rest.len())
    });
    Some(label.and_then(|label| text.get(label..)).unwrap_or(text).trim().to_owned())
}

/// The features of a candidate: those of its unit, and its place in the session.
pub fn row(analysis: &Analysis, salience: &[f64], candidate: &FieldCandidate) -> Option<Row> {
    let unit = candidate.unit;
    let source_number = *analysis.source_of.get(unit)?;
    let source = analysis.sources.get(source_number)?;
    let is_first = unit == source.units.start;
    let is_near_end = unit + 2 >= source.units.end;
    let is_last_batch = source.batch + 1 == analysis.batches;
    let is = |kind| source.kind == kind;
    let heading = candidate.is_heading;
    let mut row = analysis.rows.get(unit)?.clone();
    row.push((candidate.text.chars().count().max(1) as f64).ln());
    row.push(if heading { 0.0 } else { salience.get(unit).copied().unwrap_or(0.0) });
    row.extend(
        [
            heading,
            heading && is(SourceKind::PlanPrompt),
            is(SourceKind::Prompt) && source.batch == 0,
            is(SourceKind::Prompt) && is_first,
            source.is_last && is_first,
            matches!(source.kind, SourceKind::Commit | SourceKind::PullRequest) && is_first,
            is_last_batch && is(SourceKind::Prompt),
            is_last_batch && is_near_end,
            is_last_batch && is(SourceKind::Answer) && is_near_end,
        ]
        .map(f64::from),
    );
    Some(row)
}

/// The names of the features that [`row`] adds to those of the unit.
pub const ADDED: [&str; 11] = [
    "summary length",
    "salience",
    "plan heading",
    "heading of plan prompt",
    "first prompt",
    "start of prompt",
    "start of last answer",
    "start of commit",
    "last prompt",
    "end of text in last batch",
    "end of last answer",
];

/// Whether a candidate may appear in a field.
fn may_stand(analysis: &Analysis, candidate: &FieldCandidate, field: Field) -> bool {
    let Some(unit) = analysis.units.get(candidate.unit) else { return false };
    let source = analysis.source_of.get(candidate.unit).and_then(|source| analysis.sources.get(*source));
    let Some(source) = source else { return false };
    use SourceKind as S;
    let kind = source.kind;
    let heading = candidate.is_heading;
    let asks = candidate.text.trim_end().ends_with('?');
    let never = wording::never(&candidate.text, kind, Within::Earlier);
    let is_routine = matches!(
        never,
        Some(Never::Status | Never::TestCounts | Never::GitRoutine | Never::Chore | Never::FileList)
    );
    // An offer is left to the fields' own rule.
    let is_talk = never.is_some_and(|never| never != Never::Offer) && !is_routine;
    let at = candidate.unit - source.units.start;
    match field {
        Field::Request => {
            heading
                || (matches!(kind, S::Prompt | S::Task) && unit.chars > 14)
                || (unit.is_subject && !is_asked_in_words(analysis, source.batch))
                || (kind == S::PlanPrompt && at < 4)
        }
        Field::Completed => {
            !asks
                && !is_talk
                && unit.progress != Progress::Left
                && !unit.is_offer
                && (matches!(kind, S::Answer | S::Commit | S::PullRequest | S::Comment | S::Subagent)
                    || (kind == S::Plan && heading))
        }
        // What was asked or done was not learned. A plan that was given as a prompt was written by an agent before.
        Field::Learned => {
            !heading
                && !asks
                && !is_talk
                && !is_routine
                && unit.progress != Progress::Left
                && !unit.is_offer
                && !unit.is_subject
                && kind != S::Prompt
                && !wording::begins_with_deed(&candidate.text)
        }
        Field::NextSteps => {
            let is_last = source.batch + 1 == analysis.batches;
            let is_unanswered = is_last && analysis.is_unanswered && matches!(kind, S::Prompt | S::Plan);
            let may_be_open =
                !heading && unit.progress != Progress::Done && !wording::is_settled(&candidate.text);
            may_be_open && (is_unanswered || kind == S::Task || is_open(analysis, candidate.unit, source))
        }
    }
}

/// Whether the prompt of a turn says what it wants, unlike `yes` and `commit it`. Otherwise the subject of the turn's
/// commit says what was asked.
fn is_asked_in_words(analysis: &Analysis, batch: usize) -> bool {
    const FEWEST: usize = 5;
    let asks = |source: &&Source| {
        matches!(source.kind, SourceKind::Prompt | SourceKind::PlanPrompt | SourceKind::Task)
            && source.batch == batch
    };
    let words = |unit: usize| analysis.units.get(unit).map_or(0, |unit| unit.text.split_whitespace().count());
    analysis.sources.iter().filter(asks).flat_map(|source| source.units.clone()).map(words).sum::<usize>()
        >= FEWEST
}

/// The number of turns after which open work that no later turn mentions counts as done in other words, or dropped.
const RECENT: usize = 3;

/// Whether a unit is still open at the end of the session: open work that no later turn has done, or an offer or a
/// question of the last answer, which nobody answered. Other text at its end is mostly what was done.
fn is_open(analysis: &Analysis, number: usize, source: &Source) -> bool {
    use SourceKind as S;
    let Some(unit) = analysis.units.get(number) else { return false };
    let at = number - source.units.start;
    let is_last = source.batch + 1 == analysis.batches;
    let is_report = match source.kind {
        S::Answer | S::Subagent | S::Commit | S::PullRequest => true,
        // A plan was carried out since, if anything came after it.
        S::Plan => is_last,
        _ => false,
    };
    let asks = unit.is_offer || unit.text.trim_end().ends_with('?');
    let is_unanswered = asks && source.is_last && at * 2 >= source.units.len();
    let is_recent = source.batch + RECENT >= analysis.batches;
    let is_left =
        unit.progress == Progress::Left && is_report && is_recent && !is_done_later(analysis, number, source);
    is_left || is_unanswered
}

/// The share of a unit's content that a later text must contain to be about the same.
const SAME: f64 = 0.6;

/// Whether a later turn says that it did the open work of a unit, or was asked to do it.
fn is_done_later(analysis: &Analysis, number: usize, source: &Source) -> bool {
    let content = analysis.terms.get(number).map_or(&[][..], |terms| &terms.content);
    let needed = ((content.len() as f64 * SAME).ceil() as usize).max(2.min(content.len()));
    let later = analysis.units.iter().zip(&analysis.terms).zip(&analysis.source_of).skip(source.units.end);
    needed > 0
        && later
            .filter(|((unit, _), of)| {
                let is_later = analysis.sources.get(**of).is_some_and(|of| of.batch > source.batch);
                is_later && unit.progress != Progress::Left && !unit.is_offer
            })
            .any(|((_, terms), _)| {
                content.iter().filter(|term| terms.content.binary_search(term).is_ok()).count() >= needed
            })
}

/// What the fields of a summary are chosen from.
#[derive(Clone, Copy, Debug)]
pub struct SummaryMaterial<'a> {
    pub analysis: &'a Analysis,
    /// The salience of each unit.
    pub salience: &'a [f64],
    pub candidates: &'a [FieldCandidate],
}

impl SummaryMaterial<'_> {
    /// The texts of the fields, in the order of [`Field::ALL`].
    pub fn fields(&self, git: &GitFacts, weights: &Weights) -> [String; 4] {
        let mut previous: Vec<String> = Vec::new();
        Field::ALL.map(|field| {
            let chosen = self.choose(field, weights.model(field.name()), &previous);
            let texts = chosen.iter().filter_map(|number| self.candidates.get(*number));
            let texts: Vec<String> = texts.map(|candidate| wording::plain(&candidate.text)).collect();
            previous.extend(texts.iter().cloned());
            let fact = match field {
                Field::Completed => git.done(),
                Field::NextSteps => git.open(),
                Field::Request | Field::Learned => None,
            };
            joined(texts.into_iter().chain(fact))
        })
    }

    /// The units of a field. `previous` are sentences of other fields, which are not repeated.
    fn choose(&self, field: Field, model: &Linear, previous: &[String]) -> Vec<usize> {
        let Self { analysis, salience, candidates } = *self;
        let rarity = |content: &[Term]| content.iter().map(|term| analysis.rarity(*term)).sum::<f64>();
        let (room, most) = (field.room(analysis.batches), field.most(analysis.batches));
        let mut open: Vec<(usize, f64, f64)> = candidates
            .iter()
            .enumerate()
            .filter(|(_, candidate)| {
                let chars = candidate.text.chars().count();
                (SHORTEST..=room).contains(&chars) && may_stand(analysis, candidate, field)
            })
            .filter_map(|(number, candidate)| {
                let score = model.predict(&row(analysis, salience, candidate)?);
                // Work that is plainly left is kept whatever the weights say, because no other field has it.
                let is_left =
                    analysis.units.get(candidate.unit).is_some_and(|unit| unit.progress == Progress::Left);
                let score = if field == Field::NextSteps && is_left { score.max(0.0) + 1.0 } else { score };
                (score > field.least()).then(|| (number, score, rarity(&candidate.content)))
            })
            .collect();
        let mut covered: Vec<Term> = Vec::new();
        let mut chosen: Vec<usize> = Vec::new();
        let mut left = room;
        while chosen.len() < most {
            let mut best: Option<(f64, usize)> = None;
            for (number, score, whole) in &open {
                let Some(candidate) = candidates.get(*number) else { continue };
                let chars = candidate.text.chars().count();
                if chars > left {
                    continue;
                }
                let known: Vec<Term> = candidate
                    .content
                    .iter()
                    .filter(|term| covered.binary_search(term).is_ok())
                    .copied()
                    .collect();
                let new = if *whole > 0.0 { 1.0 - rarity(&known) / whole } else { 1.0 };
                let value = score * score * new / ((chars + 15) as f64).powf(0.6);
                if value > best.map_or(0.0, |(value, _)| value) {
                    best = Some((value, *number));
                }
            }
            let Some((_, number)) = best else { break };
            let Some(candidate) = candidates.get(number) else { break };
            open.retain(|(other, ..)| *other != number);
            let others: Vec<&str> = previous.iter().map(String::as_str).collect();
            if wording::without_repeats(&[&wording::plain(&candidate.text)], &others).is_empty() {
                continue;
            }
            chosen.push(number);
            left = left.saturating_sub(candidate.text.chars().count() + 1);
            covered.extend(&candidate.content);
            covered.sort_unstable();
            covered.dedup();
        }
        in_order(analysis, candidates, chosen)
    }
}

/// Puts the most important first, because a start may have room only for the beginning. Units of one source stay
/// together, in their order.
fn in_order(analysis: &Analysis, candidates: &[FieldCandidate], chosen: Vec<usize>) -> Vec<usize> {
    let unit_of = |number: &usize| candidates.get(*number).map(|candidate| candidate.unit);
    let source_of = |number: &usize| analysis.source_of.get(unit_of(number)?).copied();
    let sources: Vec<Option<usize>> = chosen.iter().map(source_of).collect();
    let mut ordered = chosen;
    ordered.sort_by_key(|number| {
        let source = source_of(number);
        (sources.iter().position(|of| *of == source), unit_of(number))
    });
    ordered
}

/// The title of the session, by its plan, its commits, its best observation or its request.
pub(super) fn session_title(analysis: &Analysis, observed: Option<&str>, request: &str) -> Option<String> {
    let plan = analysis.sources.iter().rev().find_map(|source| plan_title(analysis, source));
    let commits = subjects(analysis);
    wording::session_title(plan.as_deref(), &commits, observed, (!request.is_empty()).then_some(request))
}

/// The subjects of the commits. The one that shares most with what was asked comes last, and among equal ones the
/// newest. The last commit of a session is often a side matter.
fn subjects(analysis: &Analysis) -> Vec<&str> {
    let is_asked = |source: &usize| {
        let kind = analysis.sources.get(*source).map(|source| source.kind);
        matches!(kind, Some(SourceKind::Prompt | SourceKind::PlanPrompt | SourceKind::Task))
    };
    let all = || analysis.units.iter().zip(&analysis.terms).zip(&analysis.source_of);
    let asked: HashSet<Term> = all()
        .filter(|(_, source)| is_asked(source))
        .flat_map(|((_, terms), _)| terms.content.iter().copied())
        .collect();
    let shared = |content: &[Term]| -> f64 {
        content.iter().filter(|term| asked.contains(term)).map(|term| analysis.rarity(*term)).sum()
    };
    let mut subjects: Vec<(f64, &str)> = all()
        .filter(|((unit, _), _)| unit.is_subject)
        .map(|((unit, terms), _)| (shared(&terms.content), unit.text.as_str()))
        .collect();
    subjects.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    subjects.into_iter().map(|(_, subject)| subject).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::ids::{EventId, Timestamp};
    use recall_domain::material::{Action, BatchMaterial, CallOutcome, SourcedText, Step};

    fn batch(prompt: &str, answer: &str) -> BatchMaterial {
        let sourced = |text: &str| {
            (!text.is_empty()).then(|| SourcedText { event: EventId([1; 16]), text: text.to_owned() })
        };
        BatchMaterial { prompt: sourced(prompt), response: sourced(answer), ..BatchMaterial::default() }
    }

    /// The fields, with weights that accept everything, so that only the filters decide.
    fn fields_of(batches: &[BatchMaterial]) -> [String; 4] {
        fields_liked(batches, &Field::ALL)
    }

    /// The open entries, with weights that reject units in all other fields.
    fn open_of(batches: &[BatchMaterial]) -> String {
        let [.., next_steps] = fields_liked(batches, &[Field::NextSteps]);
        next_steps
    }

    fn fields_liked(batches: &[BatchMaterial], liked: &[Field]) -> [String; 4] {
        let mut weights = Weights::default();
        for field in liked {
            weights
                .models
                .insert(field.name().to_owned(), (Vec::new(), Linear { bias: 1.0, weights: Vec::new() }));
        }
        let mut analysis = Analysis::of(batches);
        let candidates = candidates(&mut analysis);
        let salience = vec![1.0; analysis.units.len()];
        SummaryMaterial { analysis: &analysis, salience: &salience, candidates: &candidates }
            .fields(&GitFacts::default(), &weights)
    }

    #[test]
    fn remaining_work_is_in_next_steps_and_not_in_completed() {
        let answer =
            "I fixed the exporter: it wrote the header twice. The exporter still needs its own test.";
        let [_, done, learned, open] =
            fields_liked(&[batch("Fix the exporter", answer)], &[Field::Completed]);
        assert!(done.contains("header twice") && !done.contains("still needs"), "{done}");
        assert_eq!((learned.as_str(), open.as_str()), ("", "The exporter still needs its own test."));
    }

    #[test]
    fn a_restated_fact_is_in_only_one_field() {
        let answer = "Totals of the cart are rounded once after all lines are summed.\n\n\
            Once all lines are summed, totals of the cart are rounded.\n\n\
            The gateway drops the sign of refunds without a word.";
        let [_, completed, learned, next_steps] =
            fields_of(&[batch("Round the totals of the cart once", answer)]);
        let counts = [&completed, &learned, &next_steps].map(|field| field.matches("are summed").count());
        assert_eq!(counts.iter().sum::<usize>(), 1, "{completed} / {learned} / {next_steps}");
    }

    #[test]
    fn only_work_that_is_open_at_the_end_is_in_next_steps() {
        let open = open_of(&[
            batch("Round the totals of the cart once", "The totals of refunds are not rounded yet."),
            batch(
                "Round refunds as well, please",
                "Refunds are rounded in the gateway, and still are exact.",
            ),
            batch(
                "Cache the exchange rates",
                "Rates are cached for an hour. The cache is not committed yet.",
            ),
        ]);
        assert_eq!(open, "The cache is not committed yet.");
        let settled =
            "Rates are cached for an hour. The provider bills every request. There is nothing left to do.";
        assert!(!open_of(&[batch("Cache the exchange rates", settled)]).contains("nothing left"));
    }

    #[test]
    fn work_that_was_done_is_not_in_learned() {
        let answer = "Added a test for the refunds of old carts.\n\nThe gateway drops the sign of refunds without a word.";
        let [.., learned, _] = fields_liked(&[batch("Test the refunds", answer)], &[Field::Learned]);
        assert_eq!(learned, "The gateway drops the sign of refunds without a word.");
    }

    #[test]
    fn completed_work_of_the_last_answer_is_not_in_next_steps() {
        let answer = "Refunds of the gateway are rounded once.\n\nAdded `gateway_test.rs` with a refund of 0.005.\n\n\
            All tests of the gateway pass.";
        assert_eq!(open_of(&[batch("Round the refunds of the gateway", answer)]), "");
        let asks = format!("{answer}\n\nShould the cart be rounded the same way?");
        let open = open_of(&[batch("Round the refunds of the gateway", &asks)]);
        assert_eq!(open, "Should the cart be rounded the same way?");
    }

    #[test]
    fn a_session_of_more_turns_gets_more_completed_entries() {
        let turn = |n: usize| {
            let facts = (0..6)
                .map(|at| format!("- `rule_{n}_{at}` keeps shelf {n}{at} of aisle {n}{at} sorted by night"));
            batch(&format!("Sort aisle {n}"), &facts.collect::<Vec<_>>().join("\n"))
        };
        let done_after = |turns: usize| {
            let turns: Vec<_> = (1..=turns).map(turn).collect();
            let [_, done, ..] = fields_liked(&turns, &[Field::Completed]);
            done
        };
        let (short, long) = (done_after(1), done_after(6));
        assert_eq!(
            (short.matches("keeps shelf").count(), long.matches("keeps shelf").count()),
            (5, 8),
            "{long}"
        );
        assert!(long.len() <= 1_200, "{long}");
    }

    #[test]
    fn an_unanswered_prompt_is_open() {
        let open = open_of(&[
            batch("Cache the exchange rates", "Rates are cached for an hour."),
            batch("Round the totals of refunds in the gateway", ""),
        ]);
        assert!(open.contains("Round the totals of refunds in the gateway"), "{open}");
    }

    #[test]
    fn the_prompt_is_in_the_request_and_not_in_completed() {
        let [request, completed, ..] =
            fields_of(&[batch("Cache the exchange rates for an hour", "The provider bills every request.")]);
        assert_eq!(request, "Cache the exchange rates for an hour");
        assert!(!completed.contains("Cache the exchange"), "{completed}");
    }

    #[test]
    fn questions_are_not_in_completed_or_learned() {
        let [_, completed, learned, _] = fields_of(&[batch(
            "Cache the exchange rates",
            "Should refunds of old carts be rounded as well?",
        )]);
        assert_eq!((completed.as_str(), learned.as_str()), ("", ""));
    }

    #[test]
    fn a_sessions_title_comes_from_an_observation_or_else_the_request() {
        let analysis = Analysis::of(&[batch("yes", "Done.")]);
        let title = |observed, request| session_title(&analysis, observed, request);
        assert_eq!(title(Some("Totals are rounded once"), "yes").as_deref(), Some("Totals are rounded once"));
        assert_eq!(title(None, "please cache the rates").as_deref(), Some("Cache the rates"));
        assert_eq!(title(None, ""), None);
    }

    #[test]
    fn a_sessions_title_is_the_subject_of_the_requested_commit() {
        let commit = |subject: &str| Step {
            event: EventId([2; 16]),
            at: Timestamp(0),
            tool: "Bash".to_owned(),
            outcome: CallOutcome::Done,
            subagent: None,
            action: Action::Command {
                command: format!("git commit -m '{subject}'"),
                description: None,
                output: String::new(),
            },
        };
        let mut asked = batch("Restore the receipt template for old printers", "Done.");
        asked.steps.push(commit("fix: restore the receipt template"));
        let mut next = batch("yes", "Done.");
        next.steps.push(commit("feat: warn of settings that will go"));
        let title = session_title(&Analysis::of(&[asked, next]), None, "yes");
        assert_eq!(title.as_deref(), Some("Restore the receipt template"));
    }

    #[test]
    fn an_empty_session_has_empty_fields() {
        assert_eq!(fields_of(&[]), [""; 4]);
    }
}
