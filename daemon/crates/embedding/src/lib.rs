//! Sentence embeddings turn a text into a vector; texts of similar meaning get similar vectors.
//!
//! [`Model`] is a small encoder that runs on this machine, memory-mapped from one file. The rest of the program uses
//! it through [`Embedder`], as it does a model on another server. Stored vectors are packed ([`pack`]).
//!
//! **Invariant:** nothing here uses the store or a clock, and the same text always has the same vector.

mod encoder;
mod installed;
mod model;
mod model_file;
mod model_folder;
mod product;
mod published;
mod tokenizer;
mod unigram;
mod vector;
mod wordpiece;

use std::fmt;

pub use installed::{InstallError, InstalledModel, InstalledModels, is_model_name};
pub use model::{Model, ModelFacts};
pub use model_folder::ModelError;
pub use published::{Package, Published, PublishedFile};
pub use vector::{Compared, pack, packed_bytes};

/// Identifies a model by the content of its files, or by its address if it runs elsewhere. Vectors of different models
/// cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModelHash(pub [u8; 32]);

impl ModelHash {
    /// Parses hexadecimal digits.
    fn from_digits(digits: &str) -> Option<Self> {
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let mut hash = [0; 32];
        if pairs.len() != hash.len() || !rest.is_empty() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(pairs) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl fmt::Display for ModelHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Turns texts into vectors of length 1. Called on threads that may block.
pub trait Embedder: Send + Sync + 'static {
    fn model(&self) -> ModelHash;

    /// One vector for each text.
    ///
    /// # Errors
    /// Fails when no vectors could be computed.
    fn embed(&self, texts: &[String], purpose: Purpose) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// Whether a question may take longer than a few milliseconds.
    fn reach(&self) -> Reach;
}

/// The use of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To store the vectors. Nobody is waiting for them.
    Passages,
    /// To search with the vector. A user or agent is waiting, so only the beginning of a long text is read.
    Question,
}

/// Where a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Here,
    Elsewhere,
}

/// Why no vectors were computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// A later attempt may succeed, after this many milliseconds if known.
    #[error("{why}")]
    Later { why: String, wait_ms: Option<u64> },
    /// The model refuses these texts; they get no vectors.
    #[error("{why}")]
    Refused { why: String },
}
