//! What a job produces, and its state.

use crate::database::row::{FromRow, stored_names};
use recall_domain::named;
use rusqlite::Row;

/// What a job produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// The observations of one batch.
    Batch,
    /// The summary of one session.
    Summary,
    /// A model's notes on one session: observations of several batches, and its summary. The built-in compressor's
    /// results are already stored.
    Notes,
}

named! { JobKind {
    Batch = "batch",
    Summary = "summary",
    Notes = "notes",
} }

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStatus {
    Pending,
    Running,
    /// A failed attempt is repeated.
    Retrying,
    Done,
    /// It failed too often.
    Dead,
}

named! { JobStatus {
    Pending = "pending",
    Running = "running",
    Retrying = "retrying",
    Done = "done",
    Dead = "dead",
} }

stored_names! {
    JobKind else JobKind::Batch,
    JobStatus else JobStatus::Pending,
}
