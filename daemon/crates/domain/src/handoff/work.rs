//! Derives the state of the work from a session's calls: the files it changed, which of them are uncommitted, and
//! which commands fail.

use crate::check::{CheckStatus, check_in, checked};
use crate::command_form::CommandForm;
use crate::known_error::error_line;
use crate::material::{Action, BatchMaterial, CallOutcome, SessionMaterial, Step};
use crate::text::one_line;

/// The maximum number of failing commands listed.
const MOST_FAILING: usize = 6;

/// The state of the work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Most changed first.
    pub files: Vec<ChangedFile>,
    /// Files changed after the session's last commit, latest first.
    pub uncommitted: Vec<String>,
    /// Latest first.
    pub failing: Vec<FailingCommand>,
}

/// A project file that the session changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: String,
    pub changes: u32,
}

/// A command that failed and did not pass later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingCommand {
    pub command: String,
    pub error: Option<String>,
}

/// Reads the state of the work from the calls.
pub fn work(session: &SessionMaterial) -> Work {
    let mut work = Work { failing: failing(session), ..Work::default() };
    for batch in &session.batches {
        for step in batch.steps.iter().filter(|step| !step.outcome.is_failed()) {
            match &step.action {
                Action::Edit { path, .. } | Action::Write { path, .. } => {
                    if let Some(path) = batch.folder().beneath(path) {
                        work.change(path);
                    }
                }
                Action::Command { command, .. } if commits(command) => work.uncommitted.clear(),
                _ => {}
            }
        }
    }
    // The sort is stable: ties stay in the order of their first changes.
    work.files.sort_by_key(|file| std::cmp::Reverse(file.changes));
    work.uncommitted.reverse();
    work
}

impl Work {
    fn change(&mut self, path: String) {
        match self.files.iter_mut().find(|file| file.path == path) {
            Some(file) => file.changes += 1,
            None => self.files.push(ChangedFile { path: path.clone(), changes: 1 }),
        }
        self.uncommitted.retain(|known| *known != path);
        self.uncommitted.push(path);
    }
}

/// Whether a command line creates a commit.
fn commits(line: &str) -> bool {
    line.split(['\n', ';', '|', '&']).any(|simple| {
        let mut words = simple.split_whitespace().skip_while(|word| *word != "git");
        words.next();
        while let Some(word) = words.next() {
            match word {
                "-C" | "-c" => drop(words.next()),
                word if word.starts_with('-') => {}
                word => return word == "commit",
            }
        }
        false
    })
}

/// Returns checks whose last run failed, and other commands that failed in the last turn with calls and did not
/// succeed later.
fn failing(session: &SessionMaterial) -> Vec<FailingCommand> {
    let mut failing: Vec<FailingCommand> = Vec::new();
    for batch in &session.batches {
        for check in checked(batch) {
            match check.status {
                CheckStatus::Failed { output } => {
                    failing.retain(|known| known.command != check.name);
                    let error = error_line(&output).or_else(|| last_line(&output));
                    failing.push(FailingCommand { command: check.name, error });
                }
                // A pass of `cargo test` implies that `cargo test cart` passes.
                CheckStatus::Passed | CheckStatus::Flaky => {
                    failing.retain(|known| !is_part(&known.command, &check.name));
                }
            }
        }
    }
    let last = session.batches.iter().rev().find(|batch| !batch.steps.is_empty());
    failing.extend(last.map(other_failures).unwrap_or_default());
    failing.reverse();
    failing.truncate(MOST_FAILING);
    failing
}

/// Whether the narrow check is the wide one, possibly with more words.
fn is_part(narrow: &str, wide: &str) -> bool {
    narrow.strip_prefix(wide).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Returns the commands of a batch that do more than inspect, are not checks, failed, and did not succeed later.
fn other_failures(batch: &BatchMaterial) -> Vec<FailingCommand> {
    let mut failing: Vec<(String, FailingCommand)> = Vec::new();
    for step in &batch.steps {
        let Some((command, output)) = command(step) else { continue };
        let Some(form) = CommandForm::all(command).into_iter().next() else { continue };
        if check_in(command).is_some() {
            continue;
        }
        let form = form.text();
        // `git push` may succeed as `git push origin main`.
        failing.retain(|(known, _)| !is_part(known, &form) && !is_part(&form, known));
        if let CallOutcome::Failed { error } = &step.outcome {
            let text = if error.trim().is_empty() { output } else { error };
            let error = error_line(text).or_else(|| last_line(text));
            failing.push((form, FailingCommand { command: one_line(command), error }));
        }
    }
    failing.into_iter().map(|(_, failing)| failing).collect()
}

fn command(step: &Step) -> Option<(&str, &str)> {
    match &step.action {
        Action::Command { command, output, .. } => Some((command, output)),
        _ => None,
    }
}

fn last_line(text: &str) -> Option<String> {
    text.lines().rev().map(one_line).find(|line| !line.is_empty())
}
