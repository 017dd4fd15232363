//! Errors of the index.

use tantivy::TantivyError;

/// Why a search or a write failed.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("index: {0}")]
    Engine(#[from] TantivyError),
    /// The engine panicked, which only damaged files cause. Opening the index again detects the damage.
    #[error("index is damaged")]
    Damaged,
}
