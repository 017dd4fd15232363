//! Answers questions from the stored calls of sessions: how a command was run ([`how`]), what made an error go away
//! ([`fix`]), and which sessions changed a file ([`blame`]).
//!
//! These functions read the calls themselves, not notes about them, so the answers are as exact as what the agents
//! reported.

pub mod blame;
pub mod fix;
pub mod how;
#[cfg(test)]
pub(crate) mod testing;

use super::command_form::{CommandForm, programs};
use super::ids::SessionId;
use super::material::{Action, SessionMaterial, Step};

/// A session with its calls.
#[derive(Clone, Debug, PartialEq)]
pub struct PastSession {
    pub id: SessionId,
    pub material: SessionMaterial,
}

impl PastSession {
    /// The calls in chronological order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.material.batches.iter().flat_map(|batch| &batch.steps)
    }
}

/// Returns the command of a shell call.
pub(crate) fn command_of(step: &Step) -> Option<&str> {
    match &step.action {
        Action::Command { command, .. } => Some(command),
        _ => None,
    }
}

/// Returns the text in which a call reports a problem: its error, or else a command's output. A command whose output
/// goes through a pipe may fail and still count as successful.
pub(crate) fn printed(step: &Step) -> &str {
    use super::material::CallOutcome::{Done, Failed, Rejected};
    match (&step.outcome, &step.action) {
        (Failed { error }, Action::Command { output, .. }) if error.trim().is_empty() => output,
        (Failed { error }, _) => error,
        (Done, Action::Command { output, .. }) => output,
        (Done | Rejected { .. }, _) => "",
    }
}

/// Whether both lines run the same command, ignoring options, values, and a program in front of one. Lines that only inspect or write to the
/// working copy have no form; they are the same if they run the same programs with the same first word.
fn is_same_form(one: &str, other: &str) -> bool {
    let forms = (CommandForm::all(one), CommandForm::all(other));
    match (forms.0.first(), forms.1.first()) {
        (Some(one), Some(other)) => one == other || one.wraps(other) || other.wraps(one),
        (None, None) => beginning(one) == beginning(other),
        _ => false,
    }
}

/// Returns the first program and the first plain word after it.
fn beginning(line: &str) -> Option<(String, Option<String>)> {
    let program = programs(line).into_iter().next()?;
    let after = line.split_once(program.as_str()).map_or("", |(_, after)| after);
    let word = after.split_whitespace().find(|word| !word.starts_with('-'));
    Some((program, word.map(str::to_owned)))
}
