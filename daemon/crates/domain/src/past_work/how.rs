//! Finds how a command was run here: the lines that worked, newest first, and what failed before them.

use super::{PastSession, command_of, printed};
use crate::command_form::{CommandForm, programs};
use crate::ids::{SessionId, Timestamp};
use crate::known_error;
use crate::material::Step;
use crate::text::one_line;

/// A command line that was run.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    pub command: String,
    /// When it last worked or, if it never did, when it last failed.
    pub at: Timestamp,
    /// The session of that run.
    pub session: SessionId,
    /// The numbers of successful and failed runs.
    pub worked: u32,
    pub failed: u32,
    /// The last other attempt that failed before the first success, in the same session.
    pub before: Option<FailedRun>,
    /// The output of the last failure, if it never worked.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRun {
    pub command: String,
    /// The line that states the error, if there is one.
    pub error: Option<String>,
}

/// Returns the command lines that contain these words: first those that worked, latest first, then those that only
/// failed. `sessions` may be in any order.
pub fn how(asked: &str, sessions: &[PastSession]) -> Vec<Invocation> {
    let asked: Vec<Vec<String>> =
        asked.split_whitespace().map(parts).filter(|word| !word.is_empty()).collect();
    let mut sessions: Vec<&PastSession> = sessions.iter().collect();
    sessions.sort_by_key(|session| session.steps().next().map(|step| step.at));
    let mut found: Vec<Invocation> = Vec::new();
    for session in sessions {
        // The attempts that failed since one of these commands last worked.
        let mut failed: Option<FailedRun> = None;
        for step in session.steps() {
            let Some(command) = command_of(step).map(one_line).filter(|line| is_asked_for(line, &asked))
            else {
                continue;
            };
            let known = found.iter().position(|invocation| invocation.command == command);
            let at = known.unwrap_or_else(|| {
                found.push(never_run(command.clone(), &session.id));
                found.len() - 1
            });
            let Some(invocation) = found.get_mut(at) else { continue };
            invocation.note(step, &session.id, &mut failed);
        }
    }
    found.sort_by(|a, b| (b.worked > 0, b.at, &a.command).cmp(&(a.worked > 0, a.at, &b.command)));
    found
}

fn never_run(command: String, session: &SessionId) -> Invocation {
    let (at, session) = (Timestamp(0), session.clone());
    Invocation { command, at, session, worked: 0, failed: 0, before: None, error: None }
}

impl Invocation {
    /// Counts a run. `failed` is the last failed attempt before it.
    fn note(&mut self, step: &Step, session: &SessionId, failed: &mut Option<FailedRun>) {
        let is_latest = |run: &Self| run.at <= step.at;
        if step.outcome.is_failed() {
            let error = known_error::error_line(printed(step));
            self.failed += 1;
            if self.worked == 0 && is_latest(self) {
                (self.at, self.session, self.error) = (step.at, session.clone(), error.clone());
            }
            *failed = Some(FailedRun { command: self.command.clone(), error });
            return;
        }
        let before = failed.take();
        if self.worked == 0 {
            (self.at, self.error, self.before) = (Timestamp(0), None, before);
        }
        self.worked += 1;
        if is_latest(self) {
            (self.at, self.session) = (step.at, session.clone());
        }
    }
}

/// Whether a command line contains all these words, and not only as arguments of an inspecting program: `grep deploy`
/// does not show how to deploy. A word may be part of a name: `sync` of `scripts/sync.sh`.
fn is_asked_for(command: &str, asked: &[Vec<String>]) -> bool {
    let Some(first) = asked.first() else { return false };
    let has_all = |words: &[String]| {
        asked.iter().all(|word| words.windows(word.len()).any(|run| run == word.as_slice()))
    };
    let is_its_program = || programs(command).iter().any(|program| parts(program).starts_with(first));
    let forms = CommandForm::all(command);
    forms.iter().any(|form| has_all(&parts(&form.subjects())))
        || (is_its_program() && has_all(&parts(command)))
}

/// Returns the words of a text in lower case.
fn parts(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    parts.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{done, failed, session};
    use super::*;

    fn lines(asked: &str, sessions: &[PastSession]) -> Vec<String> {
        let line = |run: &Invocation| {
            let before = run.before.as_ref().map(|before| format!(" after {}", before.command));
            format!("{} {}/{}{}", run.command, run.worked, run.failed, before.unwrap_or_default())
        };
        how(asked, sessions).iter().map(line).collect()
    }

    #[test]
    fn the_latest_working_command_comes_first_with_the_failure_before_it() {
        let sessions = [
            session(
                "a",
                [
                    failed("npm run deploy", "error: missing script deploy"),
                    done("pnpm run deploy --prod", ""),
                ],
            ),
            session("b", [done("pnpm run deploy --prod", ""), done("make deploy ENV=test", "")]),
        ];
        assert_eq!(
            lines("deploy", &sessions),
            [
                "make deploy ENV=test 1/0",
                "pnpm run deploy --prod 2/0 after npm run deploy",
                "npm run deploy 0/1"
            ]
        );
        let failed = &how("npm deploy", &sessions)[0];
        assert_eq!((failed.worked, failed.error.as_deref()), (0, Some("error: missing script deploy")));
    }

    #[test]
    fn an_inspecting_command_is_matched_only_by_its_program_name() {
        let sessions = [session(
            "a",
            [
                done("grep -rn sync scripts", ""),
                done("cat scripts/sync.sh", ""),
                done("./scripts/sync.sh --dry", ""),
            ],
        )];
        assert_eq!(lines("sync", &sessions), ["./scripts/sync.sh --dry 1/0"]);
        assert_eq!(lines("scripts/sync.sh", &sessions), ["./scripts/sync.sh --dry 1/0"]);
        // Asked for by name, it is what is looked for.
        assert_eq!(lines("grep sync", &sessions), ["grep -rn sync scripts 1/0"]);
        assert_eq!(lines("deploy", &sessions), [""; 0]);
        assert_eq!(lines("", &sessions), [""; 0]);
    }
}
