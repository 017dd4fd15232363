//! Collects the candidates of a batch from everything it left behind.

use std::collections::BTreeSet;

use super::candidate::{self, Candidate, CandidateSource};
use super::comment;
use super::correction;
use super::cue;
use super::failure;
use super::identifier;
use super::markdown::{self, Passage, Sentence};
use super::open_end;
use super::request::{self, Answered};
use super::sentence;
use super::setting::WorkKind;
use super::statement::{self, Medium, Statement};
use crate::memory::ids::EventId;
use crate::memory::material::{Action, BatchMaterial, BatchSource, Change, SourcedText, Step};
use crate::memory::observation::ObservationType;
use crate::memory::subject;

/// A written file is looked at up to here.
const LONGEST_NOTE: usize = 12 * 1024;

/// Where answer or commit say so much, comments in the code repeat it; in tenths of a point.
const EXPLAINED: i32 = 40;

/// Added where the answer begins to tell of work done, in tenths of a point.
const ACCOUNT: i32 = 12;

/// Added to a report that the answer does not repeat, in tenths of a point.
const REPORT: i32 = 20;

/// Added to a note that was written to be remembered, in tenths of a point.
const REMEMBERED: i32 = 25;

/// Bytes of short passages told together.
const MERGED: usize = 700;

/// At most this many passages of one note or report.
const MOST_PASSAGES: usize = 3;

/// All candidates, in no particular order.
pub(super) fn candidates(batch: &BatchMaterial, work: WorkKind) -> Vec<Candidate> {
    if batch.source == BatchSource::Private {
        return Vec::new();
    }
    let answer = answer(batch);
    let mut found = Vec::new();
    if let Some(answer) = answer {
        let open = open_end::candidate(answer);
        let passages = merged(markdown::passages(&answer.text)).into_iter();
        found.extend(passages.filter_map(|mut passage| {
            // What is left open is told as such and not as something that is so.
            passage
                .sentences
                .retain(|sentence| !open.as_ref().is_some_and(|open| open.tells(&sentence.text)));
            (!passage.sentences.is_empty())
                .then(|| Candidate::new(CandidateSource::Answer, passage, answer.event))
        }));
        // Of work done, the answer's beginning is worth telling however plainly it is said.
        if let (WorkKind::Done(_), Some(first)) = (work, found.first_mut()) {
            first.bonus = ACCOUNT;
        }
        found.extend(open);
    }
    found.extend(request::candidate(batch, answered(batch)));
    found.extend(correction::candidates(batch));
    found.extend(said_in_commands(batch));
    found.extend(failure::candidate(batch));
    found.extend(failure::left_failing(batch));
    for step in batch.steps.iter().filter(|step| !step.outcome.is_failed()) {
        found.extend(from_step(step));
    }
    // What the answer tells at length, it has chosen from reports and comments itself.
    let explained = found
        .iter()
        .filter(|candidate| matches!(candidate.origin, CandidateSource::Answer | CandidateSource::Statement))
        .any(|candidate| candidate.worth() >= EXPLAINED);
    if explained {
        found.retain(|candidate| {
            !matches!(candidate.origin, CandidateSource::Remark | CandidateSource::Report)
        });
    }
    found.extend(unfinished(batch, &found));
    found
}

/// Short passages under headings that say nothing are told together.
fn merged(passages: Vec<Passage>) -> Vec<Passage> {
    let is_generic = |passage: &Passage| passage.heading.as_deref().is_some_and(candidate::is_generic);
    let mut merged: Vec<Passage> = Vec::new();
    for passage in passages {
        match merged.last_mut() {
            Some(last)
                if is_generic(last) && is_generic(&passage) && last.len() + passage.len() <= MERGED =>
            {
                last.sentences.extend(passage.sentences);
            }
            _ => merged.push(passage),
        }
    }
    merged
}

/// Work that ended without a word: what was asked for, with the files it changed.
fn unfinished(batch: &BatchMaterial, found: &[Candidate]) -> Option<Candidate> {
    let changed = batch.steps.iter().find(|step| {
        !step.outcome.is_failed() && matches!(step.action, Action::Edit { .. } | Action::Write { .. })
    })?;
    let is_told = found
        .iter()
        .any(|candidate| candidate.origin != CandidateSource::User && candidate.worth() >= EXPLAINED / 2);
    if is_told || answered(batch) == Answered::Yes {
        return None;
    }
    let words = request::own_words(batch).filter(|words| !request::is_assent(words))?;
    let mut candidate = Candidate::new(CandidateSource::Unfinished, Passage::default(), changed.event);
    candidate.evidence.extend(batch.prompt.as_ref().map(|prompt| prompt.event));
    candidate.title = Some(format!("Begun: {}", request::sentences(&words).into_iter().next()?));
    candidate.kind = Some(ObservationType::Change);
    candidate.bonus = 45;
    Some(candidate)
}

/// Whether the turn came to its end with words of the agent's own.
pub(super) fn answered(batch: &BatchMaterial) -> Answered {
    let said = batch.response.as_ref().map_or("", |said| said.text.trim());
    // What Claude Code writes where its model had nothing to say.
    if said.is_empty() || said.eq_ignore_ascii_case("no response requested.") {
        Answered::No
    } else {
        Answered::Yes
    }
}

/// The final answer, where it says more than that there is none.
pub(super) fn answer(batch: &BatchMaterial) -> Option<&SourcedText> {
    if batch.source == BatchSource::Private {
        return None;
    }
    batch.response.as_ref().filter(|said| {
        let text = said.text.trim();
        text.len() >= 32 || !identifier::all(text).is_empty()
    })
}

fn from_step(step: &Step) -> Vec<Candidate> {
    match &step.action {
        Action::Ask { exchanges } => {
            exchanges.iter().filter_map(|exchange| chosen(exchange, step.event)).collect()
        }
        Action::Plan { text, .. } => plan(text, step.event).into_iter().collect(),
        Action::Edit { path, changes } if is_prose(path) => note(path, &added(changes), step.event),
        Action::Write { path, content, .. } if is_prose(path) => note(path, content, step.event),
        Action::Edit { path, changes } => {
            let new = changes.iter().flat_map(|change| {
                let known = comment::blocks(&change.before);
                comment::blocks(&change.after).into_iter().filter(move |block| !known.contains(block))
            });
            new.filter_map(|text| remark(path, &text, step.event)).collect()
        }
        Action::Write { path, content, .. } => {
            comment::blocks(content).into_iter().filter_map(|text| remark(path, &text, step.event)).collect()
        }
        Action::Delegate { answer: Some(report), .. } => {
            best(markdown::passages(report), CandidateSource::Report, step.event, REPORT)
        }
        _ => Vec::new(),
    }
}

/// A question put to the user, and what they chose.
fn chosen((question, answer): &(String, String), event: EventId) -> Option<Candidate> {
    let mut candidate =
        Candidate::new(CandidateSource::User, Passage::prose(None, &format!("Asked: {question}")), event);
    if answer.trim().is_empty() {
        return None;
    }
    candidate.title = Some(format!("User chose: {answer}"));
    candidate.kind = Some(ObservationType::Decision);
    candidate.subject = subject::of_choice(question);
    // "Go on?" and the like steer the session and are soon forgotten.
    let steers = cue::mentions(
        question,
        "would you like to do, like to do next, proceed, continue, start now, ready, weiter",
    );
    let names = identifier::all(answer).len() + identifier::all(question).len();
    candidate.bonus = if steers { 12 } else { 36 } + 6 * i32::try_from(names.min(3)).unwrap_or(0);
    Some(candidate)
}

/// A comment that an edit brought: it says why the code is as it is.
fn remark(path: &str, text: &str, event: EventId) -> Option<Candidate> {
    let passage = Passage::prose(None, text);
    let mut candidate = Candidate::new(CandidateSource::Remark, passage, event);
    let cues = candidate.cues();
    if cues.cause + cues.rule < 2 {
        return None;
    }
    candidate.topic = Some(identifier::file_name(path).to_owned());
    candidate.bonus = -6;
    Some(candidate)
}

fn plan(text: &str, event: EventId) -> Option<Candidate> {
    let passages = markdown::passages(text);
    let heading =
        passages.iter().find_map(|passage| passage.section.clone().or_else(|| passage.heading.clone()));
    let mut sentences: Vec<Sentence> = passages.into_iter().flat_map(|passage| passage.sentences).collect();
    let first = sentences.first().map(|sentence| sentence.text.clone());
    let title = heading.or(first)?;
    sentences.retain(|sentence| sentence.text != title);
    let named = if title.to_lowercase().starts_with("plan") { title } else { format!("Plan: {title}") };
    let mut candidate =
        Candidate::new(CandidateSource::Plan, Passage { heading: None, section: None, sentences }, event);
    candidate.title = Some(named);
    candidate.kind = Some(ObservationType::Decision);
    candidate.bonus = 45;
    Some(candidate)
}

/// Files whose text is meant for readers.
fn is_prose(path: &str) -> bool {
    let name = identifier::file_name(path).to_lowercase();
    [".md", ".mdx", ".txt", ".rst", ".adoc"].iter().any(|ending| name.ends_with(ending))
        && name != "changelog.md"
}

/// The lines that the changes brought.
fn added(changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        let known: BTreeSet<&str> = change.before.lines().map(str::trim).collect();
        for line in change.after.lines().filter(|line| line.trim().is_empty() || !known.contains(line.trim()))
        {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn note(path: &str, text: &str, event: EventId) -> Vec<Candidate> {
    let body =
        text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---")).map_or(text, |(_, body)| body);
    let cut = sentence::floor_boundary(body, LONGEST_NOTE);
    let bonus = if is_for_agents(path) { REMEMBERED } else { 0 };
    best(markdown::passages(body.get(..cut).unwrap_or_default()), CandidateSource::Note, event, bonus)
}

/// Files in which an agent or its user keeps what the next session shall know.
fn is_for_agents(path: &str) -> bool {
    let path = path.to_lowercase().replace('\\', "/");
    let name = identifier::file_name(&path);
    path.contains("/memory/")
        || matches!(name, "claude.md" | "agents.md" | "gemini.md" | "memory.md" | "learnings.md")
}

/// The best passages of a long text.
fn best(passages: Vec<Passage>, origin: CandidateSource, event: EventId, bonus: i32) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = passages
        .into_iter()
        .map(|passage| Candidate { bonus, ..Candidate::new(origin, passage, event) })
        .collect();
    found.sort_by_cached_key(|candidate| std::cmp::Reverse(candidate.worth()));
    found.truncate(MOST_PASSAGES);
    found
}

/// Commits, pull requests and the like, one candidate each; a page about a commit just made only lends its address.
fn said_in_commands(batch: &BatchMaterial) -> Vec<Candidate> {
    let mut found = Vec::new();
    for step in &batch.steps {
        let Action::Command { command, output, .. } = &step.action else { continue };
        if step.outcome.is_failed() {
            continue;
        }
        found.extend(
            statement::statements(command, output)
                .into_iter()
                .flat_map(|said| from_statement(&said, step.event)),
        );
    }
    found
}

fn from_statement(said: &Statement, event: EventId) -> Vec<Candidate> {
    let passages = markdown::passages(&said.body);
    if matches!(said.medium, Medium::Comment | Medium::Issue) {
        let mut found = best(passages, CandidateSource::Statement, event, 0);
        for candidate in &mut found {
            candidate.reference.clone_from(&said.reference);
        }
        return found;
    }
    let sentences = passages.into_iter().flat_map(sentences_with_labels).collect();
    let passage = Passage { heading: None, section: None, sentences };
    let mut candidate = Candidate::new(CandidateSource::Statement, passage, event);
    let (kind, topic) = convention(&said.subject);
    candidate.kind = Some(if said.medium == Medium::Revert { ObservationType::Bugfix } else { kind });
    candidate.topic = topic;
    candidate.title = Some(said.subject.clone());
    candidate.reference = said.reference.as_ref().map(|reference| match said.medium {
        Medium::Commit | Medium::Revert => format!("commit {reference}"),
        _ => reference.clone(),
    });
    candidate.bonus = match kind {
        ObservationType::Bugfix | ObservationType::Feature => 30,
        _ => 12,
    };
    vec![candidate]
}

fn sentences_with_labels(passage: Passage) -> Vec<Sentence> {
    let is_checklist = |text: &str| text.starts_with("[x]") || text.starts_with("[ ]");
    passage.sentences.into_iter().filter(|sentence| !is_checklist(&sentence.text)).collect()
}

/// What a conventional subject line says of itself: its sort of change and its scope.
fn convention(subject: &str) -> (ObservationType, Option<String>) {
    let Some((prefix, _)) = subject.split_once(':').filter(|(prefix, _)| !prefix.contains(' ')) else {
        let kind = if cue::begins_with(subject, "fix, fixes, fixed, bugfix, hotfix, revert, behebe") {
            ObservationType::Bugfix
        } else if cue::begins_with(subject, "refactor, extract, rename, move, simplify, split") {
            ObservationType::Refactor
        } else if cue::begins_with(subject, "add, adds, implement, introduce, support") {
            ObservationType::Feature
        } else {
            ObservationType::Change
        };
        return (kind, None);
    };
    let (kind, scope) = prefix.trim_end_matches('!').split_once('(').unwrap_or((prefix, ""));
    let kind = match kind.trim_end_matches('!').to_lowercase().as_str() {
        "fix" | "bugfix" | "hotfix" | "revert" => ObservationType::Bugfix,
        "feat" | "feature" => ObservationType::Feature,
        "refactor" => ObservationType::Refactor,
        "security" | "sec" => ObservationType::Security,
        _ => ObservationType::Change,
    };
    let scope = scope.trim_end_matches(')');
    (kind, (!scope.is_empty()).then(|| scope.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(subject: &str, kind: ObservationType, topic: Option<&str>) {
        assert_eq!(convention(subject), (kind, topic.map(str::to_owned)));
    }

    #[test]
    fn subjects_say_what_sort_of_change_they_are() {
        check("fix(zsh): start quietly", ObservationType::Bugfix, Some("zsh"));
        check("feat!: drop the old API", ObservationType::Feature, None);
        check("perf(reader): read in chunks", ObservationType::Change, Some("reader"));
        check("Fix the login", ObservationType::Bugfix, None);
        check("Rename Foo", ObservationType::Refactor, None);
        check("Add a cache", ObservationType::Feature, None);
        check("Note: this and that", ObservationType::Change, None);
        check("", ObservationType::Change, None);
    }

    #[test]
    fn only_new_lines_of_an_edit_are_read() {
        let change =
            |before: &str, after: &str| Change { before: before.to_owned(), after: after.to_owned() };
        assert_eq!(added(&[change("a\nb", "a\n  b\nc"), change("", "d")]), "c\nd\n");
    }

    #[test]
    fn prose_is_told_from_code_by_its_ending() {
        assert!(is_prose("docs/notes.MD"));
        assert!(is_prose("C:\\a\\todo.txt"));
        assert!(!is_prose("src/main.rs"));
        assert!(!is_prose("CHANGELOG.md"));
    }
}
