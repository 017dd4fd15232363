//! Turns a closed prompt batch into observations.
//!
//! **Invariant:** nothing here touches the store; a compressor gets its material and returns drafts.

pub mod extractive;

use crate::memory::material::{BatchMaterial, SessionMaterial};
use crate::memory::observation::{ObservationDraft, SummaryDraft};

/// Why a compressor has no result.
#[derive(Debug, thiserror::Error)]
pub enum CompressionError {
    #[error("{0}")]
    Failed(String),
}

/// Makes observations of batches and summaries of sessions. Called on a thread outside the runtime.
pub trait Compressor: Send + Sync + 'static {
    /// How results are labelled (`origin`), e.g. `extractive`.
    fn origin(&self) -> String;

    /// Makes zero to five observations of one batch.
    ///
    /// # Errors
    /// When no result could be made; the job is tried again later.
    fn observe(&self, batch: &BatchMaterial) -> Result<Vec<ObservationDraft>, CompressionError>;

    /// Sums a session up. `None`: there is nothing to say.
    ///
    /// # Errors
    /// As for [`Compressor::observe`].
    fn summarize(&self, session: &SessionMaterial) -> Result<Option<SummaryDraft>, CompressionError>;
}
