//! Facts that nobody wrote down: a call that the user rejected, a check that still fails.

use super::files::file_name;
use crate::wording::LONGEST_TITLE;
use recall_domain::check::{self, CheckStatus};
use recall_domain::ids::EventId;
use recall_domain::material::{Action, BatchMaterial, CallOutcome, ProjectFolder, Step};
use recall_domain::observation::{Importance, ObservationDraft, ObservationType};
use recall_domain::subject;

/// Maximum characters of a reason, of a name in a title, and of an error line.
const REASON: usize = 160;
const NAMED: usize = 60;
const COMPLAINT: usize = 160;
/// The maximum number of reported rejected calls of a batch.
const MOST_REJECTED: usize = 2;
/// The maximum examined part of an error, in bytes.
const LONGEST_ERROR: usize = 8 * 1024;
/// The importance of a rejection. It is high, because repeating a rejected call is the costliest mistake.
const OF_REJECTION: i64 = 8;
const OF_FAILURE: i64 = 6;

/// Drafts the calls that the user rejected.
pub(super) fn rejections(batch: &BatchMaterial) -> impl Iterator<Item = ObservationDraft> {
    batch.steps.iter().filter_map(|step| rejected(step, batch.folder())).take(MOST_REJECTED)
}

/// Drafts a call that the user rejected with a reason.
fn rejected(step: &Step, folder: ProjectFolder<'_>) -> Option<ObservationDraft> {
    let CallOutcome::Rejected { reason: Some(reason) } = &step.outcome else { return None };
    let name = |path: &str| {
        let whole = folder.beneath(path).filter(|path| path.chars().count() <= NAMED);
        named(&whole.unwrap_or_else(|| file_name(path).to_owned()))
    };
    let (deed, file) = match &step.action {
        Action::Edit { path, .. } => (format!("an edit of `{}`", name(path)), folder.beneath(path)),
        Action::Write { path, .. } => (format!("writing `{}`", name(path)), folder.beneath(path)),
        Action::Command { command, .. } => {
            (format!("the command `{}`", named(command.lines().next().unwrap_or_default())), None)
        }
        Action::Plan { .. } => ("the plan".to_owned(), None),
        _ => return None,
    };
    let reason = shortened(reason, REASON);
    let whole = format!("User rejected {deed}: {reason}");
    let is_title = whole.chars().count() <= LONGEST_TITLE && !reason.contains('…') && !reason.ends_with('?');
    let (title, narrative) =
        if is_title { (whole, String::new()) } else { (format!("User rejected {deed}"), reason) };
    Some(ObservationDraft {
        narrative,
        files_read: file.into_iter().collect(),
        ..draft(ObservationType::Correction, title, OF_REJECTION, step.event)
    })
}

/// Drafts the last check of a batch, if it failed and did not pass later. The next session must know it. `None` also if no
/// line says what is wrong, or if the program is not installed: neither says anything about the work.
pub(super) fn left_failing(batch: &BatchMaterial) -> Option<ObservationDraft> {
    let last = check::checked(batch).pop()?;
    let CheckStatus::Failed { output } = &last.status else { return None };
    let complaint = complaint(output)?;
    const NOT_INSTALLED: [&str; 3] = ["command not found", "no such command", "not recognized as"];
    if NOT_INSTALLED.iter().any(|phrase| complaint.to_lowercase().contains(phrase)) {
        return None;
    }
    let files = super::files::TouchedFiles::of(batch).first_modified();
    Some(ObservationDraft {
        narrative: complaint,
        subject: Some(subject::of_check(&last.name)),
        files_modified: files,
        ..draft(ObservationType::Discovery, format!("`{}` fails", named(&last.name)), OF_FAILURE, last.event)
    })
}

/// A draft for one event.
pub(super) fn draft(
    kind: ObservationType,
    title: String,
    importance: i64,
    event: EventId,
) -> ObservationDraft {
    ObservationDraft {
        kind,
        title,
        subtitle: None,
        narrative: String::new(),
        facts: Vec::new(),
        concepts: Vec::new(),
        files_read: Vec::new(),
        files_modified: Vec::new(),
        importance: Importance::clamped(importance),
        evidence: vec![event],
        subject: None,
    }
}

/// Selects the line of an error that describes the problem.
fn complaint(error: &str) -> Option<String> {
    const WRONG: [&str; 11] = [
        "error",
        "fatal",
        "no such file",
        "not found",
        "cannot",
        "denied",
        "unknown",
        "invalid",
        "failed",
        "refused",
        "undefined",
    ];
    let error = error.get(..error.floor_char_boundary(LONGEST_ERROR)).unwrap_or_default();
    // Where to read more, and how many errors there are, is not what is wrong.
    const ABOUT: [&str; 4] = ["Exit code", "For more information", "Found ", "error: aborting"];
    let is_about = |line: &str| ABOUT.iter().any(|about| line.starts_with(about));
    let lines = error.lines().map(str::trim).filter(|line| line.len() > 12 && !is_about(line));
    // A tested program may log failures that it handles: `[20:52:15] task 2 failed`.
    let is_logged = |line: &&str| {
        let first = line.trim_start_matches('[').split([' ', ']']).next().unwrap_or_default();
        first.starts_with(|c: char| c.is_ascii_digit()) && first.matches([':', '-']).count() > 1
    };
    let mut wrong = lines.filter(|line| !is_logged(line)).filter(|line| {
        let lower = line.to_lowercase();
        WRONG.iter().any(|word| lower.contains(word))
    });
    wrong.next().map(|line| shortened(line, COMPLAINT))
}

/// A path or a command for a title: its first words, without a mark for the omitted rest.
fn named(text: &str) -> String {
    let text = text.replace('`', "'").replace('…', " ");
    let words = shortened(&text, NAMED + 1);
    let words = words.trim_end_matches('…').trim_end();
    if words.is_empty() { text.trim().chars().take(NAMED).collect() } else { words.to_owned() }
}

/// Shortens a text to a number of characters, on one line.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let mut words = String::new();
    for word in text.split_whitespace() {
        if words.chars().count() + word.chars().count() >= most {
            words.push('…');
            break;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_not_taken_for_the_problem_in_an_error() {
        let output = "[20:52:15.789] [Limiter] task 2 failed: no cart\n2026-11-27T09:00:00Z error: no cart";
        assert_eq!(complaint(output), None);
        let output = format!("{output}\nerror: cart.rs:12:3 expected one total");
        assert_eq!(complaint(&output).as_deref(), Some("error: cart.rs:12:3 expected one total"));
    }

    #[test]
    fn error_counts_and_hints_are_not_taken_for_the_problem() {
        let output = "Found 1 error.\nFor more information about this error, try `rustc --explain E0063`.";
        assert_eq!(complaint(output), None);
    }
}
