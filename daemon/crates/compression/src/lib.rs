//! Turns a closed prompt batch into observations, and a session into a summary.
//!
//! The built-in compressor needs nothing; a language model does it better where the user configures one. A model is
//! asked once per session or per batch ([`policy::Unit`]): its material is condensed to a budget first ([`condense`]), its answer is read leniently and
//! believed only as far as the evidence goes ([`answer`]), and calls are made by [`recall_providers`].
//!
//! **Invariant:** nothing here touches the store; a compressor gets its material and returns drafts.

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

pub use wording::{alone, told};

use std::sync::Arc;

use serde::Serialize;

use notes::{NotesMaterial, SessionNotes};
use policy::CompressionPolicy;
use recall_domain::ids::{JobId, ProjectRow, Timestamp};
use recall_domain::material::{BatchMaterial, SessionMaterial};
use recall_domain::observation::{ObservationDraft, SummaryDraft};
use recall_providers::ledger::Ledger;
use recall_providers::{ProviderSetupError, ProviderState, chat};

/// The built-in compressor's name, as `origin` and in the config.
pub const EXTRACTIVE: &str = "extractive";

/// Why a compressor has no result, and what that means for the job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    /// Something that may pass; it is tried again after a pause.
    #[error("{0}")]
    Failed(String),
    /// It is tried again, not before so many milliseconds have passed: the provider said so.
    #[error("{why}")]
    Wait { why: String, wait_ms: u64 },
    /// Nothing was tried, because the provider is not asked for so many milliseconds.
    #[error("{why}")]
    BackedOff { why: String, wait_ms: u64 },
    /// Trying again by itself would be wrong or of no use.
    #[error("{0}")]
    Refused(String),
    /// The day's budget does not allow the call.
    #[error("{0}")]
    Spent(String),
}

/// What a compressor needs to know of a job besides its material.
#[derive(Clone, Copy)]
pub struct JobContext<'a> {
    pub job: JobId,
    /// Whose budget pays.
    pub project: ProjectRow,
    pub now: Timestamp,
    pub ledger: &'a dyn Ledger,
}

/// A result and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Made<T> {
    pub result: T,
    /// `extractive` or `provider:model`.
    pub origin: String,
    pub cuts: Cuts,
}

/// What a model was not shown of its material.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cuts {
    /// Reads, outputs and edits that had been told before.
    pub repeated: u32,
    /// Texts of which only head and tail were sent.
    pub shortened: u32,
    /// Steps that were left out whole.
    pub left_out: u32,
    /// Bytes of the material, and bytes that were sent.
    pub bytes: u64,
    pub sent: u64,
}

impl Cuts {
    /// Both together, for work that was done in parts.
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

/// Makes observations of batches and summaries of sessions. Called on a thread outside the runtime, so it may block.
pub trait Compressor: Send + Sync + 'static {
    /// How results are usually labelled (`origin`), e.g. `extractive`.
    fn origin(&self) -> String;

    /// Makes zero to eight observations of one batch. None: nothing in it is worth keeping.
    ///
    /// # Errors
    /// When no result could be made; the error says whether the job is tried again.
    fn observe(
        &self,
        batch: &BatchMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<Vec<ObservationDraft>>, CompressionError>;

    /// Sums a session up. `None`: there is nothing to say.
    ///
    /// # Errors
    /// As for [`Compressor::observe`].
    fn summarize(
        &self,
        session: &SessionMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<Option<SummaryDraft>>, CompressionError>;

    /// Makes observations of the turns of a session that are due, or of the first of them, and its summary where it is
    /// wanted.
    ///
    /// # Errors
    /// As for [`Compressor::observe`].
    fn note(
        &self,
        _session: &NotesMaterial,
        _job_context: &JobContext<'_>,
    ) -> Result<Made<SessionNotes>, CompressionError> {
        Err(CompressionError::Refused(format!("{} makes no notes of sessions", self.origin())))
    }

    /// Lets providers be asked again that were not: a person has seen to it.
    fn reconsider(&self) {}

    /// How the providers behind it are doing.
    fn providers(&self) -> Vec<ProviderState> {
        Vec::new()
    }
}

/// The compressor that a policy asks for.
///
/// # Errors
/// When its settings make no client; nothing is sent here.
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
