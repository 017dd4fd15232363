//! Several models, tried in the user's order.
//!
//! If a model has no result, the next one is tried. If none has one, the job gets the most hopeful error: a temporary
//! one comes before a refusal, and a refusal before a spent budget.

use super::model::ModelCompressor;
use super::notes::{NotesMaterial, SessionNotes};
use super::{CompressionError, Compressor, JobContext, Made};
use recall_domain::material::{BatchMaterial, SessionMaterial};
use recall_domain::observation::{NoteOrigin, ObservationDraft, SummaryDraft};
use recall_providers::ProviderState;

pub struct Chain {
    /// Never empty.
    links: Vec<ModelCompressor>,
}

impl Chain {
    pub fn new(links: Vec<ModelCompressor>) -> Self {
        Self { links }
    }

    fn first<T>(
        &self,
        ask: impl Fn(&ModelCompressor) -> Result<Made<T>, CompressionError>,
    ) -> Result<Made<T>, CompressionError> {
        let mut failure: Option<CompressionError> = None;
        for link in &self.links {
            match ask(link) {
                Ok(made) => return Ok(made),
                Err(error) => {
                    failure = Some(match failure {
                        Some(earlier) if hope(&earlier) >= hope(&error) => earlier,
                        _ => error,
                    });
                }
            }
        }
        Err(failure.unwrap_or_else(|| CompressionError::Refused("no model is configured".to_owned())))
    }
}

/// How likely the same job is to succeed later without anybody's action.
fn hope(error: &CompressionError) -> u8 {
    match error {
        CompressionError::Failed(_) => 3,
        CompressionError::Wait { .. } | CompressionError::BackedOff { .. } => 2,
        CompressionError::Refused(_) => 1,
        CompressionError::Spent(_) => 0,
    }
}

impl Compressor for Chain {
    fn origin(&self) -> NoteOrigin {
        self.links.first().map(Compressor::origin).unwrap_or_default()
    }

    fn observe(
        &self,
        batch: &BatchMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<Vec<ObservationDraft>>, CompressionError> {
        self.first(|link| link.observe(batch, job_context))
    }

    fn summarize(
        &self,
        session: &SessionMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<Option<SummaryDraft>>, CompressionError> {
        self.first(|link| link.summarize(session, job_context))
    }

    fn note(
        &self,
        session: &NotesMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<SessionNotes>, CompressionError> {
        self.first(|link| link.note(session, job_context))
    }

    fn reconsider(&self) {
        self.links.iter().for_each(Compressor::reconsider);
    }

    fn providers(&self) -> Vec<ProviderState> {
        self.links.iter().flat_map(Compressor::providers).collect()
    }
}
