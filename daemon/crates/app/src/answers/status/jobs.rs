//! Compression jobs in answers: those that wait, that ended, and that were given up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::answers::Moment;
use recall_store::{CompressionTrouble, DeadJobs, JobRow, OpenJobs, WaitingJobs};

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct JobsAnswer {
    pub jobs: Vec<JobLine>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct JobLine {
    pub id: i64,
    pub kind: String,
    pub session_id: String,
    pub status: String,
    pub attempts: u32,
    pub error: Option<String>,
    /// The origin of the last result.
    pub origin: Option<String>,
    /// The text that was omitted for the model; null if no model was used.
    #[schemars(with = "Option<serde_json::Value>")]
    pub cuts: Option<Box<RawValue>>,
}

impl From<JobRow> for JobLine {
    fn from(row: JobRow) -> Self {
        Self {
            id: row.id.0,
            kind: row.kind.as_str().to_owned(),
            session_id: row.session.0,
            status: row.status.as_str().to_owned(),
            attempts: row.attempts,
            error: row.error,
            origin: row.origin.map(|origin| origin.0),
            cuts: row.cuts.and_then(|json| RawValue::from_string(json).ok()),
        }
    }
}

/// `ctl retry`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct RetryAnswer {
    pub retried: u64,
}

/// Unfinished compression jobs.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct OpenJobsAnswer {
    pub running: u64,
    pub waiting: u64,
    /// Jobs that were given up.
    pub dead: u64,
    /// When the first waiting job is tried again; null if at once, or if none is waiting.
    pub next_try: Option<Moment>,
}

impl From<OpenJobs> for OpenJobsAnswer {
    fn from(jobs: OpenJobs) -> Self {
        let OpenJobs { running, waiting, dead, next_try } = jobs;
        Self { running, waiting, dead, next_try: next_try.filter(|at| at.0 > 0).map(Moment) }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct JobCounts {
    pub pending: i64,
    pub running: i64,
    pub retrying: i64,
    pub done: i64,
    pub dead: i64,
}

/// Waiting jobs of one kind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WaitingAnswer {
    /// `batch`, `summary` or `notes`.
    pub kind: String,
    pub jobs: u64,
    /// When the first of them is tried; null if as soon as a compressor is free.
    pub next_try: Option<Moment>,
    /// Why the last attempt failed; null if none was made.
    pub error: Option<String>,
}

impl From<WaitingJobs> for WaitingAnswer {
    fn from(WaitingJobs { kind, jobs, next_try, error }: WaitingJobs) -> Self {
        Self {
            kind: kind.as_str().to_owned(),
            jobs,
            next_try: Some(next_try).filter(|at| at.0 > 0).map(Moment),
            error,
        }
    }
}

/// Jobs that were given up for the same reason.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GivenUpAnswer {
    pub jobs: u64,
    pub error: Option<String>,
    pub last: Option<Moment>,
}

impl From<DeadJobs> for GivenUpAnswer {
    fn from(DeadJobs { jobs, error, last }: DeadJobs) -> Self {
        Self { jobs, error, last: last.map(Moment) }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct TroubleAnswer {
    pub since: Moment,
    pub jobs: i64,
    pub error: String,
}

impl From<CompressionTrouble> for TroubleAnswer {
    fn from(trouble: CompressionTrouble) -> Self {
        Self { since: Moment(trouble.since), jobs: trouble.jobs, error: trouble.error }
    }
}
