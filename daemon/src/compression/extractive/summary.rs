//! Sums a session up: what was asked, what was found out, what was done, what is left.
//!
//! A summary stands first in the next session's context, so it is short and every field says something else. What a
//! later batch took back is left out.

use super::candidate::CandidateSource;
use super::compose::Composed;
use super::correction;
use super::cue;
use super::field::Field;
use super::files::TouchedFiles;
use super::gather;
use super::identifier;
use super::markdown;
use super::open_end;
use super::request;
use super::selection::SelectedTexts;
use super::sentence::shortened;
use super::shell;
use super::statement::{self, Medium};
use crate::memory::check;
use crate::memory::material::{Action, BatchMaterial, CallOutcome, SessionMaterial};
use crate::memory::observation::{ObservationType, SummaryDraft};

/// Bytes of each field.
const TITLE: usize = 120;
const REQUEST: usize = 190;
const LEARNED: usize = 420;
const COMPLETED: usize = 300;
const NOTES: usize = 100;

/// Bytes of one entry of a field.
const ENTRY: usize = 170;

/// A request of so many bytes says what the session is about even where nothing came of it.
const LONG_REQUEST: usize = 80;

/// The longest sessions are summed up by their first and last batches.
const MOST_BATCHES: usize = 200;

/// The session in a few lines. `None`: nothing was asked and nothing done.
pub(super) fn summarize(session: &SessionMaterial) -> Option<SummaryDraft> {
    let batches: Vec<&BatchMaterial> = ends(&session.batches);
    let mut observed: Vec<Vec<Composed>> = batches.iter().map(|batch| super::observations(batch)).collect();
    let taken_back = taken_back(&batches);
    for (index, of_batch) in observed.iter_mut().enumerate() {
        if taken_back.contains(&index) {
            of_batch.clear();
        }
    }
    let statements = Statements::of(&batches);
    let asked = asked(&batches, &observed);
    let request = requests(&asked);
    let completed = completed(&batches, &observed, &statements);
    let learned = learned(&observed, &statements);
    let draft = SummaryDraft {
        title: title(&asked, &observed, &statements),
        request,
        investigated: investigated(&batches),
        learned,
        completed,
        next_steps: open_end::next_steps(&batches, &observed),
        notes: checks(&batches),
    };
    let says_something =
        [&draft.request, &draft.learned, &draft.completed].into_iter().any(|field| !field.is_empty());
    says_something.then_some(draft)
}

/// The batches whose work the user had undone in the next.
fn taken_back(batches: &[&BatchMaterial]) -> Vec<usize> {
    let undoes =
        |batch: &BatchMaterial| request::own_words(batch).is_some_and(|words| correction::takes_back(&words));
    batches
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, batch)| undoes(batch))
        .map(|(index, _)| index - 1)
        .collect()
}

fn ends(batches: &[BatchMaterial]) -> Vec<&BatchMaterial> {
    let half = MOST_BATCHES / 2;
    let skipped = batches.len().saturating_sub(half)..;
    let first = batches.iter().take(half);
    first.chain(batches.get(skipped.start.max(half)..).unwrap_or_default()).collect()
}

/// What was committed and published in the session, as it stands at its end.
struct Statements {
    /// Subject and reference, in order.
    status: Vec<(String, Option<String>)>,
    /// Subjects of commits that were taken back.
    reverted: Vec<String>,
}

impl Statements {
    fn of(batches: &[&BatchMaterial]) -> Self {
        let mut found = Self { status: Vec::new(), reverted: Vec::new() };
        for step in batches.iter().flat_map(|batch| &batch.steps).filter(|step| !step.outcome.is_failed()) {
            let Action::Command { command, output, .. } = &step.action else { continue };
            for said in statement::statements(command, output) {
                let reference = said.reference.as_ref().map(|reference| match said.medium {
                    Medium::Commit | Medium::Revert => {
                        reference.split(' ').next().unwrap_or_default().to_owned()
                    }
                    _ => reference.clone(),
                });
                match said.medium {
                    Medium::Comment if reference.is_some() => {
                        found.status.push(("comment posted".to_owned(), reference));
                    }
                    Medium::Comment => {}
                    Medium::Revert => {
                        let subject = said.subject.trim_start_matches("Revert ").trim_matches('"').to_owned();
                        found.status.retain(|(known, _)| *known != subject);
                        found.status.push((said.subject.clone(), reference));
                        found.reverted.push(subject);
                    }
                    _ => found.status.push((said.subject.clone(), reference)),
                }
            }
        }
        found
    }
}

/// The requests that came to something, or are long enough to mean something.
fn asked(batches: &[&BatchMaterial], observed: &[Vec<Composed>]) -> Vec<String> {
    let of_batch = |(batch, observed): (&&BatchMaterial, &Vec<Composed>)| {
        let words = request::own_words(batch)?;
        let counts =
            !observed.is_empty() || words.len() >= LONG_REQUEST || !identifier::all(&words).is_empty();
        (counts && request::is_substantial(&words)).then_some(words)
    };
    let asked: Vec<String> = batches.iter().zip(observed).filter_map(of_batch).collect();
    if !asked.is_empty() {
        return asked;
    }
    batches
        .iter()
        .filter_map(|batch| request::own_words(batch))
        .filter(|words| request::is_substantial(words))
        .take(1)
        .collect()
}

/// The first request, and the weightiest later ones.
fn requests(asked: &[String]) -> String {
    let Some((first, later)) = asked.split_first() else { return String::new() };
    let mut field = Field::new(REQUEST);
    field.add(&shortened(&request::plainly(first), 140));
    let mut later: Vec<(usize, String)> =
        later.iter().filter_map(|words| request::sentences(words).into_iter().next()).enumerate().collect();
    later.sort_by_key(|(index, words)| (std::cmp::Reverse(cue::read(words).names), *index));
    for (_, words) in later.into_iter().take(2) {
        field.add(&shortened(&request::plainly(&words), 80));
    }
    field.text
}

fn title(asked: &[String], observed: &[Vec<Composed>], statements: &Statements) -> String {
    let asked = asked
        .first()
        .and_then(|words| request::sentences(words).into_iter().next())
        .map(|words| shortened(&request::plainly(&words), TITLE / 2));
    let committed = statements
        .status
        .iter()
        .rev()
        .map(|(subject, _)| subject)
        .find(|subject| subject.contains(' ') && *subject != "comment posted");
    let found = observed
        .iter()
        .flatten()
        .filter(|composed| {
            let of_user = matches!(composed.origin, CandidateSource::User | CandidateSource::Correction);
            !of_user && !matches!(composed.origin, CandidateSource::OpenEnd | CandidateSource::Failing)
        })
        .max_by_key(|composed| composed.worth)
        .map(|composed| &composed.draft.title);
    let outcome = committed.or(found).map(|outcome| outcome.as_str());
    match (asked, outcome) {
        (Some(asked), Some(outcome)) if asked.starts_with(outcome.trim_end_matches('.')) => asked,
        (Some(asked), Some(outcome)) => {
            shortened(&format!("{} → {outcome}", asked.trim_end_matches(['.', '?', ':', '…'])), TITLE)
        }
        (Some(asked), None) => asked,
        (None, outcome) => shortened(outcome.unwrap_or_default(), TITLE),
    }
}

/// The few files that were looked at most.
fn investigated(batches: &[&BatchMaterial]) -> String {
    let mut files = WordTally::default();
    for step in batches.iter().flat_map(|batch| &batch.steps) {
        if let (Action::Read { path }, CallOutcome::Done) = (&step.action, &step.outcome) {
            files.count(identifier::file_name(path));
        }
    }
    files.most(3).join(", ")
}

/// The weightiest things found out that are still true.
fn learned(observed: &[Vec<Composed>], statements: &Statements) -> String {
    let is_account = |composed: &&Composed| {
        !matches!(
            composed.origin,
            CandidateSource::User
                | CandidateSource::Correction
                | CandidateSource::OpenEnd
                | CandidateSource::Unfinished
                | CandidateSource::Plan
                | CandidateSource::Failure
                | CandidateSource::Failing
        ) && !statements.reverted.contains(&composed.draft.title)
    };
    // One of each batch: two things found out at the same time are often two sides of one.
    let mut found: Vec<&Composed> = observed
        .iter()
        .filter_map(|of_batch| of_batch.iter().filter(is_account).max_by_key(|composed| weight(composed)))
        .collect();
    found.sort_by_key(|composed| std::cmp::Reverse(weight(composed)));
    let mut told = SelectedTexts::default();
    let mut field = Field::new(LEARNED);
    for composed in found {
        let entry = shortened(&composed.essence, ENTRY);
        if field.has_room(&entry) && told.is_new(&entry) {
            field.add(&entry);
        }
    }
    field.text
}

/// Causes and pitfalls before news of work done.
fn weight(composed: &Composed) -> i32 {
    let sort = match composed.draft.kind {
        ObservationType::Discovery | ObservationType::Gotcha | ObservationType::Security => 30,
        ObservationType::TradeOff | ObservationType::Decision => 5,
        _ => 0,
    };
    composed.worth.min(110) + sort + 12 * i32::from(composed.draft.importance.get())
}

/// Commits and pages; where there are none, what the answers say was done.
fn completed(batches: &[&BatchMaterial], observed: &[Vec<Composed>], statements: &Statements) -> String {
    let mut field = Field::new(COMPLETED);
    // The newest are the likeliest to be asked for; they are told in their own order.
    let mut entries: Vec<String> = Vec::new();
    let mut room = COMPLETED;
    for (subject, reference) in statements.status.iter().rev() {
        let entry = match reference {
            Some(reference) => format!("{} ({reference})", shortened(subject, 80)),
            None => shortened(subject, 90),
        };
        if entry.len() + 2 <= room {
            room -= entry.len() + 2;
            entries.push(entry);
        }
    }
    for entry in entries.iter().rev() {
        field.add(entry);
    }
    if !field.text.is_empty() {
        return field.text;
    }
    let mut told = SelectedTexts::default();
    let mut done: Vec<String> = Vec::new();
    let mut room = COMPLETED;
    let taken_back = taken_back(batches);
    for (index, (batch, observed)) in batches.iter().zip(observed).enumerate().rev() {
        if taken_back.contains(&index) {
            continue;
        }
        let Some(entry) = done_in(batch, observed).map(|entry| shortened(&entry, ENTRY)) else { continue };
        if entry.len() + 2 <= room && told.is_new(&entry) {
            room -= entry.len() + 2;
            done.push(entry);
        }
    }
    for entry in done.iter().rev() {
        field.add(entry);
    }
    field.text
}

/// What a batch without a commit did, in its answer's words. `None`: it only looked.
fn done_in(batch: &BatchMaterial, observed: &[Composed]) -> Option<String> {
    let ran = batch.steps.iter().any(|step| matches!(step.action, Action::Command { .. }));
    let files: Vec<String> = TouchedFiles::of(batch)
        .modified()
        .take(2)
        .map(|path| identifier::file_name(path).to_owned())
        .collect();
    if files.is_empty() && !ran {
        return None;
    }
    let mut told: Vec<String> = Vec::new();
    if let Some(answer) = gather::answer(batch) {
        let passages = markdown::passages(&answer.text);
        let sentences = passages.iter().flat_map(|passage| &passage.sentences);
        let says_done = |text: &str| {
            let cues = cue::read(text);
            (cues.change + cues.routine > 0) && cues.proposal == 0 && !cues.is_question
        };
        told.extend(sentences.map(|sentence| sentence.text.clone()).filter(|text| says_done(text)).take(3));
    }
    let names: usize = told.iter().map(|text| identifier::all(text).len()).sum();
    if names == 0 {
        let explained = observed
            .iter()
            .find(|composed| matches!(composed.origin, CandidateSource::Remark | CandidateSource::Answer));
        told.extend(explained.map(|composed| composed.essence.clone()));
    }
    if told.is_empty() {
        return None;
    }
    let text = told.iter().map(|text| text.trim_end_matches(['.', ':'])).collect::<Vec<_>>().join(", ");
    Some(if files.is_empty() { text } else { format!("{}: {text}", files.join(", ")) })
}

/// The commands with which the work was checked, as they were typed.
fn checks(batches: &[&BatchMaterial]) -> String {
    let mut commands = WordTally::default();
    for step in batches.iter().flat_map(|batch| &batch.steps) {
        let Action::Command { command, .. } = &step.action else { continue };
        if command.len() > 600 {
            continue;
        }
        for checked in shell::commands(command).iter().filter_map(|command| checking(&command.words)) {
            commands.count(&checked);
        }
    }
    let mut field = Field::new(NOTES);
    for command in commands.most(3) {
        field.add(&format!("`{command}`"));
    }
    if field.text.is_empty() { field.text } else { format!("Checks: {}", field.text) }
}

/// Counts names; only the first few different ones, so that the count stays cheap.
#[derive(Default)]
struct WordTally {
    counts: Vec<(String, usize)>,
}

impl WordTally {
    fn count(&mut self, name: &str) {
        if let Some((_, count)) = self.counts.iter_mut().find(|(known, _)| known == name) {
            *count += 1;
        } else if self.counts.len() < 64 {
            self.counts.push((name.to_owned(), 1));
        }
    }

    fn most(mut self, number: usize) -> Vec<String> {
        self.counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        self.counts.into_iter().take(number).map(|(name, _)| name).collect()
    }
}

/// A command that tests, builds, formats or lints, without its redirections.
fn checking(words: &[String]) -> Option<String> {
    if !check::names_a_check(words) {
        return None;
    }
    let kept: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.contains('>')).collect();
    let text = kept.join(" ").replace('`', "'");
    (text.len() <= 70).then_some(text)
}
