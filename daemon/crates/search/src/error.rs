//! Errors of the index.

use tantivy::TantivyError;

/// Why a search or a write failed.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("index: {0}")]
    Engine(#[from] TantivyError),
    /// The engine panicked, which only damaged files cause. The damage is detected when the index is reopened.
    #[error("index is damaged")]
    Damaged,
}
