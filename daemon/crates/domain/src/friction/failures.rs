//! The same failure in several sessions.

use super::{Friction, FrictionKind, Groups};
use crate::check::{check_in, names_a_check};
use crate::command_form::CommandForm;
use crate::guard::refusal_in;
use crate::known_error::error_line;
use crate::material::{Action, CallOutcome, Step};
use crate::observation::ObservationType;
use crate::past_work::fix::{CureStep, fix};
use crate::past_work::{PastSession, command_of, printed};
use crate::text::{one_line, shortened_line};

/// The minimum number of sessions with the same failure.
const LEAST_SESSIONS: usize = 3;
const MOST: usize = 10;
const CALL_CHARS: usize = 120;
const ERROR_CHARS: usize = 200;
/// More steps do not fit into a sentence.
const MOST_STEPS: usize = 3;

struct Failed {
    error: String,
    call: String,
    is_command: bool,
}

pub(super) fn failures(sessions: &[PastSession]) -> Vec<Friction> {
    let mut groups = Groups::new();
    for session in sessions {
        for step in session.steps() {
            if let Some(failed) = failed(step) {
                groups.add(failed.key(), &session.id, step.at, failed);
            }
        }
    }
    let mut found: Vec<(bool, Friction)> = Vec::new();
    for group in groups.of_sessions(LEAST_SESSIONS) {
        let Some(last) = group.occurrences.first() else { continue };
        let cure = cure(&last.what.error, sessions);
        let remember = last.what.is_command.then(|| {
            // Only the user may know what helps, and writes it in place of the ellipsis.
            let helps = cure.as_ref().map_or("…".to_owned(), |cure| format!("{cure}."));
            let text = format!("When `{}` says \"{}\": {helps}", last.what.call, last.what.error);
            (ObservationType::Gotcha, text)
        });
        let helped = cure.map(|cure| format!("; what helped: {cure}")).unwrap_or_default();
        found.push((
            last.what.is_command,
            Friction {
                kind: FrictionKind::Failure,
                what: last.what.error.clone(),
                times: group.times(),
                example: Some(format!("{}{helped}", last.what.call)),
                met: group.met,
                remember,
                note: None,
            },
        ));
    }
    // Failures of the project's commands come before those of an agent's own tools. The sort is stable.
    found.sort_by_key(|(is_command, _)| !is_command);
    found.into_iter().map(|(_, friction)| friction).take(MOST).collect()
}

impl Failed {
    /// The grouping key. Timeouts of different commands are unrelated, so their key includes the call.
    fn key(&self) -> String {
        match self.error.contains("timed out") {
            true => format!("{}: {}", form(&self.error), self.call),
            false => form(&self.error),
        }
    }
}

/// Returns the failure of a call, or of a check whose failure a pipe hides.
fn failed(step: &Step) -> Option<Failed> {
    let command = command_of(step);
    let is_hidden = || command.is_some_and(|line| line.contains('|') && check_in(line).is_some());
    let is_failed = match &step.outcome {
        // Refusals by a guard are counted as denials.
        CallOutcome::Failed { error } if refusal_in(error).is_some() => false,
        CallOutcome::Failed { .. } => true,
        CallOutcome::Done => is_hidden(),
        CallOutcome::Rejected { .. } => false,
    };
    if !is_failed {
        return None;
    }
    // A failing test is ordinary work, and equal words only show which library compares.
    let error = error_line(printed(step)).filter(|line| !line.to_lowercase().contains("assert"))?;
    let error = shortened_line(&error, ERROR_CHARS);
    let call = command.map(name_of).unwrap_or_else(|| match &step.action {
        Action::Read { path } | Action::Edit { path, .. } | Action::Write { path, .. } => {
            format!("{} {path}", step.tool)
        }
        _ => step.tool.clone(),
    });
    Some(Failed { error, call: shortened_line(&call, CALL_CHARS), is_command: command.is_some() })
}

/// The command itself, or the commands that a long script runs.
fn name_of(command: &str) -> String {
    let line = one_line(command);
    let forms = CommandForm::all(command);
    match line.chars().count() <= CALL_CHARS || forms.is_empty() {
        true => line,
        false => forms.iter().map(CommandForm::text).collect::<Vec<_>>().join(" && "),
    }
}

/// Returns the commands that made the error go away, if known. A changed file fixed one case, so it is no lesson for
/// the next; running another check fixes nothing, unless it is the one that failed, with or without a program in front.
fn cure(error: &str, sessions: &[PastSession]) -> Option<String> {
    fix(error, sessions).into_iter().find_map(|met| {
        let steps = met.steps.iter().filter(|step| !matches!(step, CureStep::Ran(line) if checks(line)));
        let ran = |step: &CureStep| match step {
            CureStep::Ran(line) if line.chars().count() <= CALL_CHARS => Some(format!("run `{line}`")),
            CureStep::Ran(_) | CureStep::Changed(_) => None,
        };
        let steps = steps.map(ran).collect::<Option<Vec<_>>>()?;
        let helps = |line: &String| !checks(line) || is_wrapped(&met.call, line);
        let passed = met.passed_as.as_ref().filter(|line| helps(line) && line.chars().count() <= CALL_CHARS);
        match steps.len() {
            0 => passed.map(|line| format!("run `{line}`")),
            1..=MOST_STEPS => Some(steps.join(", ")),
            _ => None,
        }
    })
}

/// Whether one line runs the other's command behind another program.
fn is_wrapped(one: &str, other: &str) -> bool {
    let (one, other) = (CommandForm::all(one), CommandForm::all(other));
    let both = one.first().zip(other.first());
    both.is_some_and(|(one, other)| one.wraps(other) || other.wraps(one))
}

fn checks(line: &str) -> bool {
    names_a_check(&line.split_whitespace().collect::<Vec<_>>())
}

/// Reduces an error to what stays the same each time: without numbers, hashes, and the folders of paths.
pub(super) fn form(error: &str) -> String {
    let word = |word: &str| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
        let is_hash = |part: &str| part.len() >= 7 && part.chars().all(|c| c.is_ascii_hexdigit());
        let parts = name.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|part| !part.is_empty());
        let parts = parts.map(|part| {
            match part.chars().any(|c| c.is_ascii_digit()) && part.chars().all(|c| !c.is_alphabetic())
                || is_hash(part)
            {
                true => "#".to_owned(),
                false => part.to_lowercase(),
            }
        });
        parts.collect::<Vec<_>>().join(" ")
    };
    error.split_whitespace().map(word).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
