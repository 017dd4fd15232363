//! Sessions made of a few calls, for the tests.

use std::sync::atomic::{AtomicI64, Ordering};

use super::PastSession;
use crate::ids::{EventId, SessionId, Timestamp};
use crate::material::{Action, BatchMaterial, CallOutcome, EditHunk, SessionMaterial, SourcedText, Step};

/// Calls happen in the order in which they are made.
fn step(tool: &str, outcome: CallOutcome, action: Action) -> Step {
    static CLOCK: AtomicI64 = AtomicI64::new(1);
    let at = Timestamp(CLOCK.fetch_add(1, Ordering::Relaxed));
    Step { event: EventId([0; 16]), at, tool: tool.to_owned(), outcome, subagent: None, action }
}

fn command(line: &str, output: &str) -> Action {
    Action::Command { command: line.to_owned(), description: None, output: output.to_owned() }
}

pub(crate) fn done(line: &str, output: &str) -> Step {
    step("Bash", CallOutcome::Done, command(line, output))
}

pub(crate) fn failed(line: &str, error: &str) -> Step {
    step("Bash", CallOutcome::Failed { error: error.to_owned() }, command(line, ""))
}

pub(crate) fn changed(path: &str, before: &str, after: &str) -> Step {
    let changes = vec![EditHunk { before: before.to_owned(), after: after.to_owned() }];
    step("Edit", CallOutcome::Done, Action::Edit { path: path.to_owned(), changes })
}

pub(crate) fn edited(path: &str) -> Step {
    changed(path, "a", "b")
}

pub(crate) fn session(id: &str, steps: impl IntoIterator<Item = Step>) -> PastSession {
    let sourced = |text: &str| Some(SourcedText { event: EventId([0; 16]), text: text.to_owned() });
    let batch = BatchMaterial {
        prompt_number: 1,
        prompt: sourced("Do it"),
        response: sourced("It is done."),
        steps: steps.into_iter().collect(),
        ..BatchMaterial::default()
    };
    PastSession { id: SessionId(id.to_owned()), material: SessionMaterial { batches: vec![batch] } }
}
