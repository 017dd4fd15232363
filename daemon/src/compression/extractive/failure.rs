//! Finds commands that failed and what made them work: knowledge that nobody writes down.

use std::collections::BTreeSet;

use super::candidate::{Candidate, CandidateSource};
use super::cue;
use super::markdown::{Passage, Role, Sentence};
use super::sentence::{self, shortened};
use crate::memory::check::{self, CheckStatus};
use crate::memory::material::{Action, BatchMaterial, CallOutcome, Step};
use crate::memory::observation::ObservationType;
use crate::memory::subject;

/// A retry comes soon after the failure.
const WITHIN: usize = 8;

/// Errors are looked at up to here.
const LONGEST: usize = 8 * 1024;

/// The first failure of the batch that teaches something.
pub(super) fn candidate(batch: &BatchMaterial) -> Option<Candidate> {
    batch.steps.iter().enumerate().find_map(|(index, step)| {
        let following = batch.steps.get(index + 1..).unwrap_or_default();
        taught(step, following)
    })
}

/// The last check that failed and did not pass again: whoever goes on must know.
pub(super) fn left_failing(batch: &BatchMaterial) -> Option<Candidate> {
    let last = check::checked(batch).pop()?;
    let CheckStatus::Failed { output } = &last.status else { return None };
    let mut passage = Passage::default();
    if let Some(complaint) = complaint(output) {
        passage.sentences.push(fact(shortened(&complaint, 160)));
    }
    let mut candidate = Candidate::new(CandidateSource::Failing, passage, last.event);
    candidate.title = Some(format!("Fails: `{}`", shortened(&last.name, 90)));
    candidate.kind = Some(ObservationType::Discovery);
    candidate.subject = Some(subject::of_check(&last.name));
    candidate.bonus = 45;
    Some(candidate)
}

fn taught(step: &Step, following: &[Step]) -> Option<Candidate> {
    let Action::Command { command, .. } = &step.action else { return None };
    let CallOutcome::Failed { error } = &step.outcome else { return None };
    let rule = rule(error);
    let added = following.iter().take(WITHIN).find_map(|later| match &later.action {
        Action::Command { command: retried, .. } if !later.outcome.is_failed() => {
            Some((addition(command, retried)?, later.event))
        }
        _ => None,
    });
    let what = shortened(&sentence::tidy(&last_line(command)), 90);
    let complaint = rule.clone().or_else(|| complaint(error))?;
    let mut passage = Passage::default();
    let mut evidence = vec![step.event];
    match (&added, &rule) {
        (Some((addition, event)), _) => {
            passage.sentences.push(fact(format!("Works with `{addition}`.")));
            evidence.push(*event);
        }
        (None, Some(_)) => {}
        (None, None) => return None,
    }
    passage.sentences.push(fact(format!("From `{}`.", what.replace('`', "'"))));
    let mut candidate = Candidate::new(CandidateSource::Failure, passage, step.event);
    candidate.evidence = evidence;
    candidate.title = Some(shortened(&complaint, 160));
    candidate.kind = Some(ObservationType::Gotcha);
    candidate.bonus = 15;
    Some(candidate)
}

fn fact(text: String) -> Sentence {
    Sentence { text, role: Role::Prose }
}

fn last_line(command: &str) -> String {
    command.lines().next().unwrap_or_default().rsplit("&& ").next().unwrap_or_default().to_owned()
}

/// The line that names a rule: what must not be, and what to use instead.
fn rule(error: &str) -> Option<String> {
    const RULES: &str = "must not, must be, use, instead, not allowed, forbidden, deprecated, required, disallowed, \
        should be, should not, not permitted, unsupported, requires";
    lines(error)
        .find(|line| is_diagnostic(line) && cue::mentions(line, RULES))
        .map(|line| message(line).to_owned())
}

/// The line that says what went wrong.
fn complaint(error: &str) -> Option<String> {
    const WRONG: &str = "error, fatal, no such file, not found, cannot, can't, denied, unknown, invalid, failed, \
        refused, missing, unrecognized, undefined";
    lines(error).find(|line| cue::mentions(line, WRONG)).map(|line| sentence::tidy(message(line)))
}

fn lines(error: &str) -> impl Iterator<Item = &str> {
    let cut = sentence::floor_boundary(error, LONGEST);
    let lines = error.get(..cut).unwrap_or_default().lines();
    lines.map(str::trim).filter(|line| line.len() > 12 && line.len() < 400 && !line.starts_with("Exit code"))
}

/// `file:12:3: message`, `error: message`, `error[E1]: message`.
fn is_diagnostic(line: &str) -> bool {
    let place = line.split_whitespace().next().unwrap_or_default();
    let colons = place.matches(':').count();
    (colons >= 2 && place.bytes().any(|byte| byte.is_ascii_digit()))
        || line.to_lowercase().starts_with("error")
        || line.to_lowercase().starts_with("warning")
}

/// The message behind `file:12:3: `.
fn message(line: &str) -> &str {
    match line.split_once(": ") {
        Some((place, message)) if place.contains(':') && !place.contains(' ') => message,
        _ => line,
    }
}

/// The words that a retried command has more than the failed one. `None`: it is another command, or the same.
fn addition(failed: &str, retried: &str) -> Option<String> {
    if failed.len() > 2_000 || retried.len() > 2_000 {
        return None;
    }
    let (failed, retried) = (failed.trim(), retried.trim());
    let around = retried.strip_suffix(failed).or_else(|| retried.strip_prefix(failed)).map(str::trim);
    if let Some(added) = around {
        return (!added.is_empty() && added.len() <= 100).then(|| added.replace('`', "'"));
    }
    let words = |command: &str| command.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (before, after) = (words(failed), words(retried));
    let known: BTreeSet<&String> = before.iter().collect();
    let shared = after.iter().filter(|word| known.contains(word)).count();
    let added: Vec<&str> = after.iter().filter(|word| !known.contains(word)).map(String::as_str).collect();
    let similar = before.len() >= 3 && shared * 10 >= before.len().max(after.len()) * 6;
    let told = added.join(" ").replace('`', "'");
    (similar && !added.is_empty() && told.len() <= 100).then_some(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ids::{EventId, Timestamp};

    fn step(number: u8, command: &str, outcome: CallOutcome) -> Step {
        Step {
            event: EventId([number; 16]),
            at: Timestamp(0),
            tool: "Bash".to_owned(),
            outcome,
            subagent: None,
            action: Action::Command { command: command.to_owned(), description: None, output: String::new() },
        }
    }

    #[track_caller]
    fn check(failed: &str, error: &str, then: &str, expected: Option<&str>) {
        let steps = vec![
            step(1, failed, CallOutcome::Failed { error: error.to_owned() }),
            step(2, then, CallOutcome::Done),
        ];
        let found = candidate(&BatchMaterial { steps, ..BatchMaterial::default() });
        let told = found.map(|found| {
            let sentences: Vec<&str> =
                found.passage.sentences.iter().map(|sentence| sentence.text.as_str()).collect();
            format!("{} {}", found.title.unwrap_or_default(), sentences.join(" "))
        });
        assert_eq!(told.as_deref(), expected);
    }

    #[test]
    fn a_retry_tells_what_was_missing() {
        check(
            "docker run app /bin/sh -c 'ls'",
            "Exit code 127\ntty: /dev/tty: No such device, cannot prompt",
            "CI=1 docker run app /bin/sh -c 'ls'",
            Some(
                "tty: /dev/tty: No such device, cannot prompt Works with `CI=1`. From `docker run app /bin/sh -c 'ls'`.",
            ),
        );
    }

    #[test]
    fn a_linters_rule_is_told_without_its_place() {
        check(
            "make fmt && make lint",
            "src/a.go:3:1: fmt.Println must not be called, use log instead",
            "make test",
            Some("fmt.Println must not be called, use log instead From `make lint`."),
        );
    }

    #[test]
    fn other_failures_teach_nothing() {
        check("cargo test", "test result: FAILED. 3 failed", "cargo test", None);
        check("ls x", "No such file or directory", "pwd", None);
    }
}
