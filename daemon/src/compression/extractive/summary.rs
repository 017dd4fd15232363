//! Sums a session up: what was asked, what was found out, what was done, what is left.
//!
//! A summary stands first in the next session's context, so it is short and every field says something else. What a
//! later batch took back is left out.

use super::candidate::Origin;
use super::compose::Composed;
use super::cue;
use super::files::TouchedFiles;
use super::gather;
use super::identifier;
use super::markdown;
use super::request::{self, Answered};
use super::selection::Told;
use super::sentence::{self, shortened};
use super::shell;
use super::statement::{self, Medium};
use crate::memory::material::{Action, BatchMaterial, SessionMaterial};
use crate::memory::observation::{ObservationType, SummaryDraft};

/// Bytes of each field.
const TITLE: usize = 120;
const REQUEST: usize = 190;
const LEARNED: usize = 420;
const COMPLETED: usize = 300;
const NEXT: usize = 200;
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
    let observed: Vec<Vec<Composed>> = batches.iter().map(|batch| super::observations(batch)).collect();
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
        next_steps: next_steps(&batches, &observed),
        notes: checks(&batches),
    };
    let says_something =
        [&draft.request, &draft.learned, &draft.completed].into_iter().any(|field| !field.is_empty());
    says_something.then_some(draft)
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
    standing: Vec<(String, Option<String>)>,
    /// Subjects of commits that were taken back.
    reverted: Vec<String>,
}

impl Statements {
    fn of(batches: &[&BatchMaterial]) -> Self {
        let mut found = Self { standing: Vec::new(), reverted: Vec::new() };
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
                        found.standing.push(("comment posted".to_owned(), reference));
                    }
                    Medium::Comment => {}
                    Medium::Revert => {
                        let subject = said.subject.trim_start_matches("Revert ").trim_matches('"').to_owned();
                        found.standing.retain(|(known, _)| *known != subject);
                        found.standing.push((said.subject.clone(), reference));
                        found.reverted.push(subject);
                    }
                    _ => found.standing.push((said.subject.clone(), reference)),
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
        (counts && is_substantial(&words)).then_some(words)
    };
    let asked: Vec<String> = batches.iter().zip(observed).filter_map(of_batch).collect();
    if !asked.is_empty() {
        return asked;
    }
    batches
        .iter()
        .filter_map(|batch| request::own_words(batch))
        .filter(|words| is_substantial(words))
        .take(1)
        .collect()
}

/// The first request, and the weightiest later ones.
fn requests(asked: &[String]) -> String {
    let Some((first, later)) = asked.split_first() else { return String::new() };
    let mut field = Field::new(REQUEST);
    field.add(&shortened(&plainly(first), 140));
    let mut later: Vec<(usize, String)> =
        later.iter().filter_map(|words| request::sentences(words).into_iter().next()).enumerate().collect();
    later.sort_by_key(|(index, words)| (std::cmp::Reverse(cue::read(words).names), *index));
    for (_, words) in later.into_iter().take(2) {
        field.add(&shortened(&plainly(&words), 80));
    }
    field.text
}

fn is_substantial(words: &str) -> bool {
    let names = !identifier::all(words).is_empty() || words.contains("://");
    !request::is_assent(words) && (words.split_whitespace().count() >= 3 || names)
}

/// A request without the courtesies it begins with.
fn plainly(words: &str) -> String {
    const COURTESY: &str = "please, can you please, can you, could you, i want you to, i want to, i'd like you to, i'd like to, \
        i would like to, we need to, you need to, let's, i have the impression that, i had a quick question about, \
        i have a question about, i'm currently, hey, hi, hello, ok, okay, so, now, kannst du bitte, kannst du, bitte, \
        ich möchte";
    let mut rest = sentence::tidy(words).replace("https://", "");
    while let Some(courtesy) = cue::each(COURTESY).find(|courtesy| {
        let head = rest.get(..courtesy.len()).unwrap_or_default();
        head.eq_ignore_ascii_case(courtesy)
            && rest.get(courtesy.len()..).is_some_and(|tail| tail.starts_with([' ', ',']))
    }) {
        rest = rest.get(courtesy.len()..).unwrap_or_default().trim_start_matches([' ', ',']).to_owned();
    }
    rest
}

fn title(asked: &[String], observed: &[Vec<Composed>], statements: &Statements) -> String {
    let asked = asked
        .first()
        .and_then(|words| request::sentences(words).into_iter().next())
        .map(|words| shortened(&plainly(&words), TITLE / 2));
    let committed = statements
        .standing
        .iter()
        .rev()
        .map(|(subject, _)| subject)
        .find(|subject| subject.contains(' ') && *subject != "comment posted");
    let found = observed
        .iter()
        .flatten()
        .filter(|composed| !matches!(composed.origin, Origin::User | Origin::OpenEnd))
        .max_by_key(|composed| composed.worth)
        .map(|composed| &composed.draft.title);
    let outcome = committed.or(found).map(|outcome| outcome.as_str());
    match (asked, outcome) {
        (Some(asked), Some(outcome)) => {
            shortened(&format!("{} → {outcome}", asked.trim_end_matches(['.', '?', ':', '…'])), TITLE)
        }
        (Some(asked), None) => asked,
        (None, outcome) => shortened(outcome.unwrap_or_default(), TITLE),
    }
}

/// The few files that were looked at most.
fn investigated(batches: &[&BatchMaterial]) -> String {
    let mut files = Tally::default();
    for step in batches.iter().flat_map(|batch| &batch.steps) {
        if let Action::Read { path } = &step.action {
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
            Origin::User | Origin::OpenEnd | Origin::Unfinished | Origin::Plan | Origin::Failure
        ) && !statements.reverted.contains(&composed.draft.title)
    };
    // One of each batch: two things found out at the same time are often two sides of one.
    let mut found: Vec<&Composed> = observed
        .iter()
        .filter_map(|of_batch| of_batch.iter().filter(is_account).max_by_key(|composed| weight(composed)))
        .collect();
    found.sort_by_key(|composed| std::cmp::Reverse(weight(composed)));
    let mut told = Told::default();
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
    for (subject, reference) in statements.standing.iter().rev() {
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
    let mut told = Told::default();
    let mut done: Vec<String> = Vec::new();
    let mut room = COMPLETED;
    for (batch, observed) in batches.iter().zip(observed).rev() {
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
        let explained =
            observed.iter().find(|composed| matches!(composed.origin, Origin::Remark | Origin::Answer));
        told.extend(explained.map(|composed| composed.essence.clone()));
    }
    if told.is_empty() {
        return None;
    }
    let text = told.iter().map(|text| text.trim_end_matches(['.', ':'])).collect::<Vec<_>>().join(", ");
    Some(if files.is_empty() { text } else { format!("{}: {text}", files.join(", ")) })
}

/// What the end of the session leaves open.
fn next_steps(batches: &[&BatchMaterial], observed: &[Vec<Composed>]) -> String {
    let mut field = Field::new(NEXT);
    let mut told = Told::default();
    let ended = batches.iter().rposition(|batch| {
        gather::answer(batch)
            .is_some_and(|answer| answer.text.len() > 120 || cue::read(&answer.text).open > 0)
            || request::own_words(batch).is_some_and(|words| is_substantial(&words))
    });
    let Some(last) = ended else { return String::new() };
    let places = [(Some(last), Place::Last), (last.checked_sub(1), Place::Before)];
    for (index, place) in places.into_iter().filter_map(|(index, place)| Some((index?, place))) {
        let of_batch = observed.get(index).map_or(&[][..], Vec::as_slice);
        let entries = batches.get(index).map(|batch| open_ends(batch, of_batch, place));
        for entry in entries.unwrap_or_default() {
            let entry = shortened(&entry, ENTRY);
            if field.has_room(&entry) && told.is_new(&entry) {
                field.add(&entry);
            }
        }
        if field.text.len() > NEXT / 2 {
            break;
        }
    }
    field.text
}

/// Where a batch stands at the session's end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Last,
    /// Its questions have had an answer: the next prompt.
    Before,
}

fn is_open(sentence: &str, place: Place) -> bool {
    let cues = cue::read(sentence);
    let is_offer = cues.is_question && place == Place::Last;
    cue::leaves_open(sentence) || (cues.open > 0 && (cues.talk == 0 || is_offer))
}

fn open_ends(batch: &BatchMaterial, observed: &[Composed], place: Place) -> Vec<String> {
    let mut entries = Vec::new();
    for composed in observed.iter().filter(|composed| composed.origin == Origin::OpenEnd) {
        entries.push(format!(
            "{} {}",
            composed.draft.title.trim_start_matches("Open: "),
            composed.draft.narrative
        ));
    }
    let later = request::own_words(batch)
        .filter(|words| cue::mentions(words, "todo, to do, later, next, follow-up, remind, später"));
    if let Some(words) = later {
        entries.push(sentence::tidy(&words));
        entries.extend(batch.previous_response.as_deref().and_then(request::closing_question));
    }
    match gather::answer(batch) {
        Some(answer) => {
            let passages = markdown::passages(&answer.text);
            let sentences = passages.iter().rev().take(3).rev().flat_map(|passage| &passage.sentences);
            entries.extend(
                sentences
                    .filter(|sentence| is_open(&sentence.text, place))
                    .map(|sentence| sentence.text.clone()),
            );
        }
        None if gather::answered(batch) == Answered::No => {
            entries.extend(
                request::own_words(batch).map(|words| format!("Unanswered: {}", sentence::tidy(&words))),
            );
        }
        None => {}
    }
    entries
}

/// The commands with which the work was checked, as they were typed.
fn checks(batches: &[&BatchMaterial]) -> String {
    let mut commands = Tally::default();
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
struct Tally {
    counts: Vec<(String, usize)>,
}

impl Tally {
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
    const VERBS: &str = "test, tests, lint, fmt, format, check, build, clippy, vet, bench, typecheck, tsc, pytest, jest, vitest, eslint, \
        golangci-lint, tox, rspec, phpunit, mypy, ruff";
    let plain = words
        .iter()
        .take(5)
        .any(|word| cue::each(VERBS).any(|verb| word == verb || word.starts_with(&format!("{verb}:"))));
    if !plain {
        return None;
    }
    let kept: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.contains('>')).collect();
    let text = kept.join(" ").replace('`', "'");
    (text.len() <= 70).then_some(text)
}

/// A field that grows up to its room, entries separated by semicolons.
struct Field {
    text: String,
    room: usize,
}

impl Field {
    fn new(room: usize) -> Self {
        Self { text: String::new(), room }
    }

    fn has_room(&self, entry: &str) -> bool {
        self.text.is_empty() || self.text.len() + entry.len() + 2 <= self.room
    }

    fn add(&mut self, entry: &str) {
        let entry = entry.trim().trim_end_matches([';', '.']);
        if entry.is_empty() || !self.has_room(entry) {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("; ");
        }
        self.text.push_str(entry);
    }
}
