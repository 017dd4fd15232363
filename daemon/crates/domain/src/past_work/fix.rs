//! Finds what made an error go away: where it occurred, and what was changed or run until the same call passed.

use super::{PastSession, command_of, is_same_form, printed};
use crate::command_form::CommandForm;
use crate::ids::{SessionId, Timestamp};
use crate::known_error;
use crate::material::{Action, ProjectFolder, Step};
use crate::text::one_line;

/// An occurrence of the error in a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Met {
    pub session: SessionId,
    /// The last time the error occurred before it went away.
    pub at: Timestamp,
    /// The call that failed.
    pub call: String,
    /// The line that states the error.
    pub error: String,
    /// The number of consecutive failures of this kind.
    pub times: u32,
    /// What was done between the last failure and the pass, in order. Empty without a pass, because what follows is
    /// other work.
    pub steps: Vec<CureStep>,
    /// When the same call passed. `None` if it never did in that session.
    pub passed_at: Option<Timestamp>,
    /// The command line that passed, if it differs from the one that failed.
    pub passed_as: Option<String>,
}

impl Met {
    /// Whether it is known what made the error go away.
    fn is_cured(&self) -> bool {
        !self.steps.is_empty() || self.passed_as.is_some()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CureStep {
    /// A changed file, relative to the project.
    Changed(String),
    Ran(String),
}

/// The maximum number of steps reported per occurrence: the last ones.
const MOST_STEPS: usize = 8;
/// Errors with fewer words are searched word by word.
const WORDS_OF_AN_ERROR: usize = 4;

/// Returns where this error occurred. Occurrences with a known fix come first, then the latest.
pub fn fix(asked: &str, sessions: &[PastSession]) -> Vec<Met> {
    let line = known_error::error_line(asked).unwrap_or_else(|| one_line(asked));
    if line.is_empty() {
        return Vec::new();
    }
    let mut met: Vec<Met> = sessions.iter().flat_map(|session| in_session(session, &line)).collect();
    met.sort_by_key(|met| std::cmp::Reverse((met.is_cured(), met.passed_at.is_some(), met.at)));
    met
}

fn in_session(session: &PastSession, line: &str) -> Vec<Met> {
    let mut met: Vec<Met> = Vec::new();
    let batches = session.material.batches.iter();
    let steps: Vec<(&Step, ProjectFolder<'_>)> =
        batches.flat_map(|batch| batch.steps.iter().map(|step| (step, batch.folder()))).collect();
    let mut open: Option<Open<'_>> = None;
    for (step, folder) in steps {
        let shows = shows_error(step, line);
        match &mut open {
            Some(this) if this.is_same_call(step) => match shows {
                true => this.fails_again(step),
                // The call passes or fails for another reason. Either way this error is gone.
                false => met.extend(open.take().map(|this| this.end(&session.id, Some(step)))),
            },
            Some(this) => this.steps.extend(cure_step(step, folder)),
            None if shows => open = Some(Open::new(step, line)),
            None => {}
        }
    }
    met.extend(open.map(|this| this.end(&session.id, None)));
    met
}

/// An error that has occurred and is not gone yet.
struct Open<'a> {
    failed: &'a Step,
    error: String,
    times: u32,
    steps: Vec<CureStep>,
}

impl<'a> Open<'a> {
    fn new(step: &'a Step, line: &str) -> Self {
        let error = known_error::error_line(printed(step)).unwrap_or_else(|| line.to_owned());
        Self { failed: step, error, times: 1, steps: Vec::new() }
    }

    fn is_same_call(&self, step: &Step) -> bool {
        match (command_of(self.failed), command_of(step)) {
            (Some(one), Some(other)) => one == other || is_same_form(one, other),
            (None, None) => self.failed.tool == step.tool && path(self.failed) == path(step),
            _ => false,
        }
    }

    fn fails_again(&mut self, step: &'a Step) {
        self.failed = step;
        self.times += 1;
        // The steps so far did not help.
        self.steps.clear();
    }

    /// Closes the occurrence. `passed` is the call that passed.
    fn end(mut self, session: &SessionId, passed: Option<&Step>) -> Met {
        let last = self.steps.len().saturating_sub(MOST_STEPS);
        let steps = if passed.is_some() { self.steps.split_off(last) } else { Vec::new() };
        let call = command_of(self.failed).map(one_line);
        let call = call.unwrap_or_else(|| {
            let path = path(self.failed).unwrap_or_default();
            one_line(&format!("{} {path}", self.failed.tool))
        });
        let passed_as = passed.and_then(command_of).map(one_line).filter(|line| *line != call);
        Met {
            session: session.clone(),
            at: self.failed.at,
            call,
            error: self.error,
            times: self.times,
            steps,
            passed_at: passed.map(|step| step.at),
            passed_as,
        }
    }
}

/// Returns a step that may have helped: a changed file, or a command that does more than inspect. Consecutive changes
/// of one file count once.
fn cure_step(step: &Step, folder: ProjectFolder<'_>) -> Option<CureStep> {
    if step.outcome.is_failed() {
        return None;
    }
    match &step.action {
        Action::Edit { path, .. } | Action::Write { path, .. } => {
            Some(CureStep::Changed(folder.beneath(path).unwrap_or_else(|| path.clone())))
        }
        Action::Command { command, .. } if !CommandForm::all(command).is_empty() => {
            Some(CureStep::Ran(one_line(command)))
        }
        _ => None,
    }
}

fn path(step: &Step) -> Option<&str> {
    match &step.action {
        Action::Edit { path, .. } | Action::Write { path, .. } | Action::Read { path } => Some(path),
        _ => None,
    }
}

/// Whether a call produced this error. A command that succeeded must do more than inspect and must print an error: a
/// page that explains the error is no failure.
fn shows_error(step: &Step, line: &str) -> bool {
    let text = printed(step);
    let only_looks = || command_of(step).is_none_or(|command| CommandForm::all(command).is_empty());
    if !step.outcome.is_failed() && only_looks() {
        return false;
    }
    let is_reported =
        || step.outcome.is_failed() || known_error::error_line(text).is_some_and(|found| is_it(&found, line));
    !text.is_empty() && is_it(text, line) && is_reported()
}

fn is_it(text: &str, line: &str) -> bool {
    let words: Vec<String> = line.split_whitespace().map(str::to_lowercase).collect();
    if words.len() >= WORDS_OF_AN_ERROR {
        return known_error::is_about(text, line);
    }
    let text = text.to_lowercase();
    known_error::is_about(&text, line) || words.iter().all(|word| text.contains(word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{done, edited, failed, session};
    use super::*;

    const LOCK: &str = "error: could not acquire the lock of /var/lib/shop/index.lock";

    #[test]
    fn a_fix_lists_the_steps_between_the_last_failure_and_the_pass() {
        let sessions = [session(
            "a",
            [
                failed("cargo test cart", LOCK),
                done("cargo clean", ""),
                failed("cargo test cart -- --nocapture", LOCK),
                edited("src/worker.rs"),
                done("grep -n lock src/worker.rs", ""),
                done("pkill worker", ""),
                done("cargo test cart", "ok"),
                done("git push origin", ""),
            ],
        )];
        let met = fix("could not acquire the lock of /tmp/index.lock", &sessions);
        assert_eq!(met.len(), 1, "{met:?}");
        assert_eq!((met[0].times, met[0].passed_at.is_some()), (2, true));
        assert_eq!(met[0].passed_as.as_deref(), Some("cargo test cart"), "without the option");
        assert_eq!(
            met[0].steps,
            [CureStep::Changed("src/worker.rs".to_owned()), CureStep::Ran("pkill worker".to_owned())]
        );
    }

    #[test]
    fn a_call_is_recognized_with_other_arguments() {
        let sessions = [session(
            "a",
            [
                failed("git add src/cart.rs", "fatal: unable to read the index file of the repository"),
                done("git status", ""),
                done("rm .git/index.lock", ""),
                done("git add src/tax.rs", ""),
            ],
        )];
        let met = fix("fatal: unable to read the index file of the repository", &sessions);
        assert_eq!(met[0].steps, [CureStep::Ran("rm .git/index.lock".to_owned())]);
    }

    #[test]
    fn the_same_command_without_its_wrapper_program_is_a_fix() {
        let error = "error: unrecognized subcommand 'bun'";
        let sessions = [session("a", [failed("rtk bun run test 2>&1", error), done("bun run test", "ok")])];
        let met = fix(error, &sessions);
        assert_eq!(met[0].passed_as.as_deref(), Some("bun run test"));
    }

    #[test]
    fn sessions_that_fixed_the_error_come_before_those_that_did_not() {
        let sessions = [
            session(
                "cured",
                [
                    failed("npm test", "Error: connect ECONNREFUSED 127.0.0.1:5432"),
                    done("make db", ""),
                    done("npm test", ""),
                ],
            ),
            session(
                "open",
                [failed("npm test", "Error: connect ECONNREFUSED 127.0.0.1:5432"), done("npm ci", "")],
            ),
        ];
        let met = fix("ECONNREFUSED", &sessions);
        let outcomes: Vec<_> =
            met.iter().map(|met| (met.session.as_str(), met.passed_at.is_some())).collect();
        assert_eq!(outcomes, [("cured", true), ("open", false)]);
        assert_eq!(met[1].steps, [], "nobody knows whether it helped");
    }

    #[test]
    fn a_failure_behind_a_pipe_counts_and_a_text_about_it_does_not() {
        let piped = done("cargo build 2>&1 | tail -3", "error: linker `cc` not found in the path");
        let page = done("cat NOTES.md", "If the linker `cc` not found in the path, install gcc");
        let sessions = [session("a", [page, piped, done("apt install gcc", ""), done("cargo build", "")])];
        let met = fix("error: linker `cc` not found in the path", &sessions);
        assert_eq!(met.len(), 1, "{met:?}");
        assert_eq!(met[0].steps, [CureStep::Ran("apt install gcc".to_owned())]);
        assert_eq!(fix("something else went wrong", &sessions), []);
        assert_eq!(fix(" ", &sessions), []);
    }
}
