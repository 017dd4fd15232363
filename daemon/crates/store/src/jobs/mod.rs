//! The queue of compression work, its results and its costs.

pub(crate) mod finished_jobs;
pub(crate) mod improving;
pub(crate) mod job_kind;
pub(crate) mod ledger;
pub(crate) mod overview;
pub(crate) mod queue;
