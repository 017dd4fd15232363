//! A model as one file, in the layout that the encoder uses, so a mapped file is ready without conversion.
//!
//! The file begins with [`MAGIC`], the length of the header, and the header as JSON. The sections follow in the order
//! in which [`parts`] reads them, each aligned to 64 bytes. The file ends with a checksum of everything before it.
//! Numbers are little endian. Once the file has its final name it is never written again, so mapped data never
//! changes.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tantivy::directory::{Directory, MmapDirectory, OwnedBytes};

use super::ModelHash;
use super::encoder::{Encoder, Layer, Linear, Norm, Pooling, Rows, Shape, to_signed_bytes};
use super::product::{OUTPUTS, STEP, panels};
use super::tokenizer::Tokenizer;
use super::unigram::{Unigram, UnigramMarks};
use super::wordpiece::{Case, WordPiece};

const MAGIC: [u8; 8] = *b"rcmodel1";
/// The magic bytes and the length of the header.
const BEFORE_HEADER: usize = 12;
const TRAILER: usize = 4;
const ALIGNMENT: usize = 64;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    /// Identifies the model, in hexadecimal digits.
    pub model: String,
    /// SHA-256 of the published weights.
    pub weights_sha256: String,
    pub shape: Shape,
    pub(crate) epsilon: f32,
    pub(crate) pooling: Pooling,
    pub case: Case,
    /// Whether the vocabulary is Unigram; otherwise it is WordPiece.
    #[serde(default)]
    pub(crate) unigram: Option<UnigramHeader>,
    /// The prefixes for questions and for passages.
    #[serde(default)]
    pub prefixes: Prefixes,
    pub(crate) most_pieces: usize,
    pub(crate) vocabulary_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct UnigramHeader {
    pub marks: UnigramMarks,
    pub pieces: usize,
    /// The number of pieces in the lookup order.
    pub ordered: usize,
}

/// Prefixes that a model expects before a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Prefixes {
    pub question: String,
    pub passage: String,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("it cannot be mapped: {0}")]
    Map(String),
    #[error("it is damaged")]
    Damaged,
}

/// The parts of a file.
pub(super) struct Parts {
    pub header: Header,
    pub encoder: Encoder,
    pub tokenizer: Tokenizer,
}

/// Memory-maps a file.
pub(super) fn map(folder: &Path, name: &str) -> Result<OwnedBytes, FileError> {
    let failed = |error: &dyn std::fmt::Display| FileError::Map(error.to_string());
    // A new directory object for each file, because one object returns the earlier mapping for the same name.
    let directory = MmapDirectory::open(folder).map_err(|error| failed(&error))?;
    let file = directory.open_read(Path::new(name)).map_err(|error| failed(&error))?;
    file.read_bytes().map_err(|error| failed(&error))
}

/// Reads the header of a file without verifying the checksum.
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let (length, rest) = bytes.strip_prefix(&MAGIC)?.split_first_chunk()?;
    serde_json::from_slice(rest.get(..u32::from_le_bytes(*length) as usize)?).ok()
}

/// Reads a file after verifying its checksum.
pub(super) fn parts(bytes: &OwnedBytes) -> Result<Parts, FileError> {
    let (all, trailer) = bytes.split_last_chunk::<TRAILER>().ok_or(FileError::Damaged)?;
    if crc32fast::hash(all) != u32::from_le_bytes(*trailer) {
        return Err(FileError::Damaged);
    }
    read_parts(bytes).ok_or(FileError::Damaged)
}

fn read_parts(bytes: &OwnedBytes) -> Option<Parts> {
    let header = header(bytes)?;
    let length = u32::from_le_bytes(*bytes.get(MAGIC.len()..)?.first_chunk()?) as usize;
    let mut reader = Reader { bytes, at: BEFORE_HEADER + length };
    let Shape { dimensions, layers, inner, pieces, positions, .. } = header.shape;
    let vocabulary = reader.section(header.vocabulary_bytes)?;
    let tokenizer = match header.unigram {
        Some(UnigramHeader { marks, pieces, ordered }) => {
            let order = reader.words(ordered)?.into_iter().map(u32::from_le_bytes).collect();
            Tokenizer::Unigram(Unigram::new(vocabulary, order, reader.numbers(pieces)?, marks)?)
        }
        None => {
            let vocabulary = std::str::from_utf8(&vocabulary).ok()?;
            let known = vocabulary.split_terminator('\n').zip(0..).filter(|(piece, _)| !piece.is_empty());
            let known = known.map(|(piece, id)| (piece.to_owned(), id)).collect();
            Tokenizer::WordPiece(WordPiece::new(known, header.case).ok()?)
        }
    };
    let encoder = Encoder {
        shape: header.shape,
        pieces: Rows {
            width: dimensions,
            values: reader.section(pieces.checked_mul(dimensions)?)?,
            scales: reader.numbers(pieces)?,
        },
        positions: reader.numbers(positions.checked_mul(dimensions)?)?,
        norm: reader.norm(dimensions)?,
        layers: (0..layers)
            .map(|_| {
                Some(Layer {
                    attention: reader.linear(dimensions, 3 * dimensions)?,
                    attention_out: reader.linear(dimensions, dimensions)?,
                    attention_norm: reader.norm(dimensions)?,
                    widen: reader.linear(dimensions, inner)?,
                    narrow: reader.linear(inner, dimensions)?,
                    norm: reader.norm(dimensions)?,
                })
            })
            .collect::<Option<_>>()?,
        epsilon: header.epsilon,
        pooling: header.pooling,
    };
    Some(Parts { header, encoder, tokenizer })
}

struct Reader<'a> {
    bytes: &'a OwnedBytes,
    at: usize,
}

impl Reader<'_> {
    fn section(&mut self, length: usize) -> Option<OwnedBytes> {
        let start = self.at.next_multiple_of(ALIGNMENT);
        let end = start.checked_add(length)?;
        if end > self.bytes.len().checked_sub(TRAILER)? {
            return None;
        }
        self.at = end;
        Some(self.bytes.slice(start..end))
    }

    fn words(&mut self, count: usize) -> Option<Vec<[u8; 4]>> {
        Some(self.section(count.checked_mul(4)?)?.as_chunks::<4>().0.to_vec())
    }

    fn numbers(&mut self, count: usize) -> Option<Vec<f32>> {
        Some(self.words(count)?.into_iter().map(f32::from_le_bytes).collect())
    }

    fn norm(&mut self, length: usize) -> Option<Norm> {
        Some(Norm { weight: self.numbers(length)?, bias: self.numbers(length)? })
    }

    fn linear(&mut self, inputs: usize, outputs: usize) -> Option<Linear> {
        let steps = outputs.div_ceil(OUTPUTS).checked_mul(inputs.div_ceil(STEP))?;
        let panels = self.section(steps.checked_mul(OUTPUTS * STEP)?)?;
        let (scales, biases) = (self.numbers(outputs)?, self.numbers(outputs)?);
        let sums = self.words(outputs)?.into_iter().map(i32::from_le_bytes);
        Some(Linear { panels, inputs, scales, biases, sums: sums.collect() })
    }
}

/// Builds a file's bytes, section by section in the order in which they are read.
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn new(header: &Header, vocabulary: &str) -> Result<Self, serde_json::Error> {
        let json = serde_json::to_vec(header)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(u32::try_from(json.len()).unwrap_or_default().to_le_bytes());
        bytes.extend(json);
        let mut this = Self { bytes };
        this.section(vocabulary.as_bytes());
        Ok(this)
    }

    fn section(&mut self, bytes: &[u8]) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn words(&mut self, values: &[u32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.section(&bytes);
    }

    pub(super) fn numbers(&mut self, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.section(&bytes);
    }

    /// Writes rows of weights that are looked up by number.
    pub(super) fn rows(&mut self, values: &[f32], width: usize) {
        let (bytes, scales) = to_signed_bytes(values, width);
        let bytes: Vec<u8> = bytes.into_iter().map(i8::cast_unsigned).collect();
        self.section(&bytes);
        self.numbers(&scales);
    }

    /// Writes the weights of a product, one row per output, and its biases.
    pub(super) fn linear(&mut self, weights: &[f32], bias: &[f32], inputs: usize) {
        let (bytes, scales) = to_signed_bytes(weights, inputs);
        self.section(&panels(&bytes, inputs));
        self.numbers(&scales);
        self.numbers(bias);
        let sum = |row: &[i8]| row.iter().map(|byte| i32::from(*byte)).sum::<i32>().to_le_bytes();
        let sums: Vec<u8> = bytes.chunks_exact(inputs).flat_map(sum).collect();
        self.section(&sums);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let checksum = crc32fast::hash(&self.bytes);
        self.bytes.extend(checksum.to_le_bytes());
        self.bytes
    }
}

/// Identifies a model by its files and by the way its vectors are computed, because vectors computed in another way
/// cannot be compared.
pub(super) fn model_hash(files: [u8; 32]) -> ModelHash {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    hash.update(b"weights and inputs of one byte");
    hash.update(files);
    ModelHash(hash.finalize().into())
}
