//! The built-in compressor: deterministic, without a model or a network.

use super::{CompressionError, Compressor};
use crate::memory::material::{BatchMaterial, SessionMaterial};
use crate::memory::observation::{ObservationDraft, SummaryDraft};
#[derive(Clone, Copy, Debug, Default)]
pub struct Extractive;
impl Compressor for Extractive {
    fn origin(&self) -> String { "extractive".into() }
    fn observe(&self, _b: &BatchMaterial) -> Result<Vec<ObservationDraft>, CompressionError> { Ok(Vec::new()) }
    fn summarize(&self, _s: &SessionMaterial) -> Result<Option<SummaryDraft>, CompressionError> { Ok(None) }
}
