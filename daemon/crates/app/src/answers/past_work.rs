//! Answers from the stored calls: commands that worked, errors that went away, turns that changed a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Moment;
use recall_domain::past_work::blame::Touch;
use recall_domain::past_work::fix::{CureStep, Met};
use recall_domain::past_work::how::{FailedRun, Invocation};
use recall_domain::text::shortened_line;

/// The maximum length of a line of a command, an error, a prompt or an answer, in characters.
const CHARS: usize = 300;

/// `how`: a command line that was run.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct InvocationAnswer {
    pub command: String,
    /// When it last worked or, if it never did, when it last failed.
    pub at: Moment,
    pub session_id: String,
    pub worked: u32,
    pub failed: u32,
    /// The last other attempt that failed before it first worked.
    pub before: Option<FailedRunAnswer>,
    /// The output of its last failure, if it never worked.
    pub error: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct FailedRunAnswer {
    pub command: String,
    pub error: Option<String>,
}

/// `fix`: an occurrence of the error.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MetAnswer {
    pub session_id: String,
    pub at: Moment,
    pub call: String,
    pub error: String,
    /// The number of consecutive failures of this kind.
    pub times: u32,
    /// What was done between the last failure and the pass.
    pub steps: Vec<CureStepAnswer>,
    /// When the same call passed. Null if not in that session.
    pub passed_at: Option<Moment>,
    /// The command line that passed, if it differs from the one that failed.
    pub passed_as: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CureStepAnswer {
    Changed(String),
    Ran(String),
}

/// `blame`: a turn that changed the file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TouchAnswer {
    pub session_id: String,
    pub prompt_number: u32,
    pub at: Moment,
    pub changes: u32,
    pub asked: Option<String>,
    pub answered: Option<String>,
}

fn short(text: &str) -> String {
    shortened_line(text, CHARS)
}

impl From<Invocation> for InvocationAnswer {
    fn from(run: Invocation) -> Self {
        let before = run.before.map(|FailedRun { command, error }| FailedRunAnswer {
            command: short(&command),
            error: error.as_deref().map(short),
        });
        Self {
            // Complete, because it is there to be run again.
            command: run.command,
            at: Moment(run.at),
            session_id: run.session.0,
            worked: run.worked,
            failed: run.failed,
            before,
            error: run.error.as_deref().map(short),
        }
    }
}

impl From<Met> for MetAnswer {
    fn from(met: Met) -> Self {
        let step = |step: CureStep| match step {
            CureStep::Changed(path) => CureStepAnswer::Changed(path),
            CureStep::Ran(command) => CureStepAnswer::Ran(short(&command)),
        };
        Self {
            session_id: met.session.0,
            at: Moment(met.at),
            call: short(&met.call),
            error: short(&met.error),
            times: met.times,
            steps: met.steps.into_iter().map(step).collect(),
            passed_at: met.passed_at.map(Moment),
            passed_as: met.passed_as,
        }
    }
}

impl From<Touch> for TouchAnswer {
    fn from(touch: Touch) -> Self {
        Self {
            session_id: touch.session.0,
            prompt_number: touch.prompt_number,
            at: Moment(touch.at),
            changes: touch.changes,
            asked: touch.asked.as_deref().map(short),
            answered: touch.answered.as_deref().map(short),
        }
    }
}
