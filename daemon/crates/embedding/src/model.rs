//! A sentence encoder that runs on this machine.

use std::path::Path;

use tantivy::directory::OwnedBytes;

use super::encoder::{Encoder, Shape};
use super::model_file::{self, Parts, Prefixes};
use super::model_folder::{ModelError, packed, unfit};
use super::tokenizer::Tokenizer;
use super::{EmbedError, Embedder, ModelHash, Purpose, Reach};

/// How many pieces of a question are read. The time grows with their number, and an agent is waiting.
const QUESTION_PIECES: usize = 48;

/// A sentence encoder that runs on this machine.
pub struct Model {
    encoder: Encoder,
    tokenizer: Tokenizer,
    prefixes: Prefixes,
    most_pieces: usize,
    hash: ModelHash,
}

/// Facts about a model that need no computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    pub hash: ModelHash,
    pub dimensions: usize,
    pub layers: usize,
    pub pieces: usize,
}

impl Model {
    /// Reads a model from a folder in the published format.
    ///
    /// # Errors
    /// Fails when something is missing, cannot be read, or belongs to another kind of model.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        Self::try_from_packed(packed(folder)?)
    }

    /// Checks the bytes of a new file.
    pub(super) fn try_from_packed(bytes: Vec<u8>) -> Result<Self, ModelError> {
        let bytes = OwnedBytes::new(bytes);
        let parts = model_file::parts(&bytes).map_err(|error| unfit("model.safetensors", error))?;
        let model = Self::new(parts).ok_or_else(|| unfit("model.safetensors", "its name is damaged"))?;
        // Weights that are NaN or infinite are detected here instead of in a search.
        let length: f32 = model.vector("a test of the model").iter().map(|value| value * value).sum();
        if !(0.99..1.01).contains(&length) {
            return Err(unfit("model.safetensors", "its vectors are not numbers"));
        }
        Ok(model)
    }

    /// Memory-maps a model's file.
    ///
    /// # Errors
    /// Fails when it cannot be mapped, or has changed since it was written.
    pub(super) fn map(folder: &Path, name: &str) -> Result<Self, ModelError> {
        let altered = |_| ModelError::Altered { file: folder.join(name) };
        let bytes = model_file::map(folder, name).map_err(altered)?;
        let parts = model_file::parts(&bytes).map_err(altered)?;
        Self::new(parts).ok_or_else(|| ModelError::Altered { file: folder.join(name) })
    }

    fn new(Parts { header, encoder, tokenizer }: Parts) -> Option<Self> {
        let hash = ModelHash::from_digits(&header.model)?;
        let (prefixes, most_pieces) = (header.prefixes, header.most_pieces);
        Some(Self { encoder, tokenizer, prefixes, most_pieces, hash })
    }

    pub fn facts(&self) -> ModelFacts {
        let Shape { dimensions, layers, pieces, .. } = self.encoder.shape;
        ModelFacts { hash: self.hash, dimensions, layers, pieces }
    }

    /// Computes the vector of a text, of length 1.
    pub fn vector(&self, text: &str) -> Vec<f32> {
        self.vectors(&[text], self.most_pieces).pop().unwrap_or_default()
    }

    fn vectors(&self, texts: &[impl AsRef<str>], most: usize) -> Vec<Vec<f32>> {
        let ids: Vec<_> = texts.iter().map(|text| self.tokenizer.ids(text.as_ref(), most)).collect();
        self.encoder.encode(&ids)
    }

    #[cfg(test)]
    pub(super) fn ids(&self, text: &str) -> Vec<u32> {
        self.tokenizer.ids(text, self.most_pieces)
    }
}

impl Embedder for Model {
    fn model(&self) -> ModelHash {
        self.hash
    }

    fn embed(&self, texts: &[String], purpose: Purpose) -> Result<Vec<Vec<f32>>, EmbedError> {
        let (prefix, most) = match purpose {
            Purpose::Passages => (&self.prefixes.passage, self.most_pieces),
            Purpose::Question => (&self.prefixes.question, self.most_pieces.min(QUESTION_PIECES)),
        };
        if prefix.is_empty() {
            return Ok(self.vectors(texts, most));
        }
        let texts: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        Ok(self.vectors(&texts, most))
    }

    fn reach(&self) -> Reach {
        Reach::Here
    }
}
