//! Turns a closed prompt batch into observations, and a session into a summary.
//!
//! The built-in compressor needs no model; a language model gives better results if the user configures one. A model
//! is called once per session or per batch ([`policy::Unit`]): its material is condensed to a budget ([`condense`]),
//! its answer is parsed leniently and checked against the evidence ([`answer`]), and [`recall_providers`] makes the
//! calls.
//!
//! **Invariant:** nothing here accesses the store; a compressor receives material and returns drafts.

pub mod policy;
mod phrases;
pub(crate) mod wording;
pub mod extractive;
pub mod salience;
pub mod condense;
pub mod notes;
pub mod prompt;
pub mod estimate;
pub mod answer;
pub mod probe;
pub mod model;
pub mod chain;

pub use wording::{alone, injected_line};

use std::sync::Arc;

use serde::Serialize;

use notes::{NotesMaterial, SessionNotes};
use policy::CompressionPolicy;
use recall_domain::ids::{JobId, ProjectRow, Timestamp};
use recall_domain::material::{BatchMaterial, SessionMaterial};
use recall_domain::observation::{NoteOrigin, ObservationDraft, SummaryDraft};
use recall_providers::ledger::Ledger;
use recall_providers::{ProviderSetupError, ProviderState, chat};

/// The built-in compressor's name, in `origin` and in the configuration.
pub const EXTRACTIVE: &str = NoteOrigin::BUILT_IN;

/// Why a compressor has no result, and what happens to the job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    /// A temporary failure. The job is retried after a delay.
    #[error("{0}")]
    Failed(String),
    /// The provider asked to wait. The job is retried after this many milliseconds.
    #[error("{why}")]
    Wait { why: String, wait_ms: u64 },
    /// No request was sent, because the provider is backed off for this many milliseconds.
    #[error("{why}")]
    BackedOff { why: String, wait_ms: u64 },
    /// An automatic retry would be wrong or useless.
    #[error("{0}")]
    Refused(String),
    /// The day's budget does not allow the call.
    #[error("{0}")]
    Spent(String),
}

/// What a compressor needs to know about a job besides its material.
#[derive(Clone, Copy)]
pub struct JobContext<'a> {
    pub job: JobId,
    /// The project whose budget pays.
    pub project: ProjectRow,
    pub now: Timestamp,
    pub ledger: &'a dyn Ledger,
}

/// A result, and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Made<T> {
    pub result: T,
    /// `extractive` or `provider:model`.
    pub origin: NoteOrigin,
    pub cuts: Cuts,
}

/// What was omitted from the material for a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cuts {
    /// The number of reads, outputs and edits that were already included.
    pub repeated: u32,
    /// The number of texts of which only head and tail were sent.
    pub shortened: u32,
    /// The number of omitted steps.
    pub left_out: u32,
    /// The size of the material, and of what was sent, in bytes.
    pub bytes: u64,
    pub sent: u64,
}

impl Cuts {
    /// Adds the cuts of two parts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            repeated: self.repeated + other.repeated,
            shortened: self.shortened + other.shortened,
            left_out: self.left_out + other.left_out,
            bytes: self.bytes + other.bytes,
            sent: self.sent + other.sent,
        }
    }
}

/// Creates observations of batches and summaries of sessions. It runs on a thread outside the runtime, so it may
/// block.
pub trait Compressor: Send + Sync + 'static {
    /// The usual `origin` of its results, such as `extractive`.
    fn origin(&self) -> NoteOrigin;

    /// Creates zero to eight observations of one batch. The list is empty if nothing is worth keeping.
    ///
    /// # Errors
    /// There is no result. The error says whether the job is retried.
    fn observe(
        &self,
        batch: &BatchMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<Vec<ObservationDraft>>, CompressionError>;

    /// Summarises a session. Returns `None` if there is nothing to summarise.
    ///
    /// # Errors
    /// See [`Compressor::observe`].
    fn summarize(
        &self,
        session: &SessionMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<Option<SummaryDraft>>, CompressionError>;

    /// Creates observations of a session's due turns, or of the first of them, and the summary if requested.
    ///
    /// # Errors
    /// See [`Compressor::observe`].
    fn note(
        &self,
        _session: &NotesMaterial,
        _job_context: &JobContext<'_>,
    ) -> Result<Made<SessionNotes>, CompressionError> {
        Err(CompressionError::Refused(format!("{} cannot make notes of sessions", self.origin())))
    }

    /// Ends the back-off of its providers, because a person has fixed the problem.
    fn reconsider(&self) {}

    /// The state of its providers.
    fn providers(&self) -> Vec<ProviderState> {
        Vec::new()
    }
}

/// Creates the compressor that a policy selects.
///
/// # Errors
/// Its settings do not result in a valid client. Nothing is sent here.
pub fn compressor(
    policy: &CompressionPolicy,
    runtime: &tokio::runtime::Handle,
) -> Result<Arc<dyn Compressor>, ProviderSetupError> {
    if policy.backends.is_empty() {
        return Ok(Arc::new(extractive::Extractive));
    }
    let settings = policy.call_settings();
    let links = policy.backends.iter().map(|backend| {
        let provider = chat::provider(backend, &settings, runtime)?;
        Ok(model::ModelCompressor::new(backend.clone(), provider, policy))
    });
    Ok(Arc::new(chain::Chain::new(links.collect::<Result<_, ProviderSetupError>>()?)))
}
