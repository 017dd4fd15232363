//! A model as a folder in the usual published format: `config.json`, `model.safetensors`, and `vocab.txt` or
//! `tokenizer.json`. Everything is checked before it is converted to recall's own file format ([`packed`]).

mod tensors;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::encoder::{Pooling, Shape};
use super::model_file::{Header, Prefixes, UnigramHeader, Writer, model_hash};
use super::unigram::{Unigram, UnigramMarks};
use super::wordpiece::{self, Case};
use tensors::write;

/// The files of a model that affect its vectors and are therefore part of its hash.
pub(super) const FILES: [&str; 7] = [
    "config.json",
    WEIGHTS,
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
];
pub(super) const WEIGHTS: &str = "model.safetensors";
/// Only the prefixes in this file matter, so the file itself is not part of the hash.
const PROMPTS: &str = "config_sentence_transformers.json";
/// The maximum length of a prefix. A longer one would leave no room for the text.
const MOST_PREFIX: usize = 300;
/// How a large file begins in a clone made without Git LFS.
const LFS_POINTER: &[u8] = b"version https://git-lfs";
/// The maximum size of the weights. Larger ones do not belong to a small encoder, and would use up the daemon's
/// memory.
const MOST_WEIGHTS: u64 = 600 << 20;
const MOST_OTHER: u64 = 64 << 20;
/// The maximum number of pieces. Larger vocabularies do not belong to a small encoder.
const MOST_VOCABULARY: usize = 2_000_000;
/// The maximum number of pieces read from a text, unless the model has a lower limit.
const MOST_PIECES: usize = 256;
/// Why a folder is not a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("{} is not a folder", path.display())]
    NoFolder { path: PathBuf },
    #[error("{} is missing in {}", what, folder.display())]
    Missing { folder: PathBuf, what: &'static str },
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there is no {}", path.display())]
    Absent { path: PathBuf },
    #[error("{} has changed since it was installed", file.display())]
    Altered { file: PathBuf },
    #[error("recall cannot run this model: {file}: {why}")]
    Unfit { file: &'static str, why: String },
}

impl ModelError {
    /// Tells the user what to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoFolder { .. } | Self::Missing { .. } => {
                "A model is a folder with config.json, model.safetensors, and vocab.txt or tokenizer.json. See \
                 docs/embeddings.md."
            }
            Self::Absent { .. } => {
                "Get one with `recall model get`, or install yours with `recall model add FOLDER` and set its name in [embedding]."
            }
            Self::Altered { .. } => "Remove it with `recall model remove`, and add it again from its source.",
            Self::Read { .. } => "Check that the path is right and that you may read it.",
            Self::Unfit { .. } => {
                "recall runs BERT encoders with weights in F32, such as all-MiniLM-L6-v2. See docs/embeddings.md."
            }
        }
    }
}

pub(super) fn unfit(file: &'static str, why: impl ToString) -> ModelError {
    ModelError::Unfit { file, why: why.to_string() }
}

#[derive(Deserialize)]
struct WrittenConfig {
    model_type: String,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    #[serde(default = "usual_epsilon")]
    layer_norm_eps: f32,
    #[serde(default = "usual_activation")]
    hidden_act: String,
    #[serde(default = "usual_positions")]
    position_embedding_type: String,
}

fn usual_epsilon() -> f32 {
    1e-12
}

fn usual_activation() -> String {
    "gelu".to_owned()
}

fn usual_positions() -> String {
    "absolute".to_owned()
}

fn add(hash: &mut Sha256, name: &str, bytes: &[u8]) {
    hash.update(name.as_bytes());
    hash.update([0]);
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn read(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, ModelError> {
    let path = folder.join(name);
    let failed = |source| ModelError::Read { path: path.clone(), source };
    let most = if name == WEIGHTS { MOST_WEIGHTS } else { MOST_OTHER };
    match std::fs::metadata(&path) {
        Ok(file) if !file.is_file() => Err(failed(io::Error::other("it is not a file"))),
        Ok(file) if file.len() > most => {
            Err(failed(io::Error::other(format!("it is larger than {} MB", most >> 20))))
        }
        Ok(_) => std::fs::read(&path).map(Some).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// The files of a folder, each read once.
struct Files {
    folder: PathBuf,
    contents: HashMap<&'static str, Vec<u8>>,
    hash: Sha256,
}

impl Files {
    fn read(folder: &Path) -> Result<Self, ModelError> {
        let mut hash = Sha256::new();
        let mut contents = HashMap::new();
        for name in FILES {
            if let Some(bytes) = read(folder, name)? {
                add(&mut hash, name, &bytes);
                contents.insert(name, bytes);
            }
        }
        if let Some(bytes) = read(folder, PROMPTS)? {
            contents.insert(PROMPTS, bytes);
        }
        Ok(Self { folder: folder.to_owned(), contents, hash })
    }

    /// Hashes everything that affects the vectors.
    fn hash(&self, prefixes: &Prefixes) -> [u8; 32] {
        let mut hash = self.hash.clone();
        if *prefixes != Prefixes::default() {
            add(&mut hash, "question", prefixes.question.as_bytes());
            add(&mut hash, "passage", prefixes.passage.as_bytes());
        }
        hash.finalize().into()
    }

    fn needed(&self, what: &'static str) -> Result<&[u8], ModelError> {
        let missing = || ModelError::Missing { folder: self.folder.clone(), what };
        self.contents.get(what).map(Vec::as_slice).ok_or_else(missing)
    }

    fn json(&self, name: &'static str) -> Result<Option<Value>, ModelError> {
        let read = |bytes: &Vec<u8>| serde_json::from_slice(bytes).map_err(|error| unfit(name, error));
        self.contents.get(name).map(read).transpose()
    }
}

/// Reads a model, checks that its parts fit together, and returns the bytes of recall's file.
///
/// # Errors
/// Fails when something is missing, cannot be read, or belongs to another kind of model.
pub(super) fn packed(folder: &Path) -> Result<Vec<u8>, ModelError> {
    let files = Files::read(folder)?;
    let config: WrittenConfig =
        serde_json::from_slice(files.needed("config.json")?).map_err(|error| unfit("config.json", error))?;
    let shape = shape(&config)?;
    let vocabulary = Vocabulary::of(&files)?;
    if vocabulary.pieces().len() > shape.pieces {
        let highest = vocabulary.pieces().len() - 1;
        let why = format!("a piece has the number {highest}, but the model has only {}", shape.pieces);
        return Err(unfit("vocab.txt", why));
    }
    let text: String = vocabulary.pieces().iter().flat_map(|piece| [piece.as_str(), "\n"]).collect();
    let prefixes = prefixes(&files)?;
    let settings = files.json("sentence_bert_config.json")?;
    let longest = settings.as_ref().and_then(|json| json.get("max_seq_length")?.as_u64());
    let most = longest.and_then(|most| usize::try_from(most).ok()).unwrap_or(MOST_PIECES);
    let weights = files.needed(WEIGHTS)?;
    if weights.starts_with(LFS_POINTER) {
        let why = "it is a Git LFS pointer; run `git lfs pull` to get the file itself";
        return Err(unfit(WEIGHTS, why));
    }
    let header = Header {
        model: model_hash(files.hash(&prefixes)).to_string(),
        weights_sha256: Sha256::digest(weights).iter().map(|byte| format!("{byte:02x}")).collect(),
        shape,
        epsilon: config.layer_norm_eps,
        pooling: pooling(files.json("1_Pooling/config.json")?.as_ref())?,
        case: vocabulary.case(),
        unigram: vocabulary.unigram(),
        prefixes,
        most_pieces: most.clamp(2, MOST_PIECES).min(shape.positions),
        vocabulary_bytes: text.len(),
    };
    let mut writer = Writer::new(&header, &text).map_err(|error| unfit("config.json", error))?;
    if let Vocabulary::Unigram { pieces, scores, marks } = &vocabulary {
        writer.words(&Unigram::order_of(pieces, *marks));
        writer.numbers(scores);
    }
    write(weights, shape, writer)
}

fn shape(config: &WrittenConfig) -> Result<Shape, ModelError> {
    let refuse = |why: String| Err(unfit("config.json", why));
    if config.model_type != "bert" {
        return refuse(format!("the model's type is {:?} instead of bert", config.model_type));
    }
    if config.hidden_act != "gelu" {
        return refuse(format!("its activation is {:?} instead of gelu", config.hidden_act));
    }
    if config.position_embedding_type != "absolute" {
        return refuse(format!("its positions are {:?} instead of absolute", config.position_embedding_type));
    }
    let shape = Shape {
        dimensions: config.hidden_size,
        layers: config.num_hidden_layers,
        heads: config.num_attention_heads,
        inner: config.intermediate_size,
        pieces: config.vocab_size,
        positions: config.max_position_embeddings,
    };
    if shape.heads == 0 || shape.dimensions == 0 || !shape.dimensions.is_multiple_of(shape.heads) {
        return refuse(format!(
            "{} dimensions cannot be divided among {} heads",
            shape.dimensions, shape.heads
        ));
    }
    let is_small = shape.layers <= 48 && shape.dimensions <= 4_096 && (1..=16_384).contains(&shape.inner);
    if shape.positions < 2 || !is_small {
        return refuse("its sizes are not those of a small encoder".to_owned());
    }
    Ok(shape)
}

fn pooling(config: Option<&Value>) -> Result<Pooling, ModelError> {
    let Some(config) = config else { return Ok(Pooling::Mean) };
    let is_on = |key: &str| config.get(key).and_then(Value::as_bool).unwrap_or(false);
    match (is_on("pooling_mode_mean_tokens"), is_on("pooling_mode_cls_token")) {
        (true, false) => Ok(Pooling::Mean),
        (false, true) => Ok(Pooling::First),
        _ => Err(unfit(
            "1_Pooling/config.json",
            "recall supports only the mean of all pieces, or the first piece",
        )),
    }
}

/// Reads the prefixes for questions and for passages from the model's file.
fn prefixes(files: &Files) -> Result<Prefixes, ModelError> {
    let Some(json) = files.json(PROMPTS)? else { return Ok(Prefixes::default()) };
    let named = |name: &str| json.get("prompts")?.get(name)?.as_str().map(str::to_owned);
    let usual = || named(json.get("default_prompt_name")?.as_str()?);
    let any = |names: &[&str]| names.iter().find_map(|name| named(name)).or_else(usual).unwrap_or_default();
    let found = Prefixes { question: any(&["query"]), passage: any(&["passage", "document"]) };
    if found.question.len().max(found.passage.len()) > MOST_PREFIX {
        return Err(unfit(PROMPTS, format!("a prompt is longer than {MOST_PREFIX} bytes")));
    }
    Ok(found)
}

/// How a model splits a text into pieces. The pieces are ordered by number.
pub(super) enum Vocabulary {
    WordPiece { pieces: Vec<String>, case: Case },
    Unigram { pieces: Vec<String>, scores: Vec<f32>, marks: UnigramMarks },
}

impl Vocabulary {
    fn of(files: &Files) -> Result<Self, ModelError> {
        let json = files.json("tokenizer.json")?;
        let kind = json.as_ref().and_then(|json| json.get("model")?.get("type")?.as_str());
        match (&json, kind) {
            (Some(json), Some("Unigram")) => Self::of_unigram(json),
            _ => word_pieces(files, json.as_ref()),
        }
    }

    fn pieces(&self) -> &[String] {
        match self {
            Self::WordPiece { pieces, .. } | Self::Unigram { pieces, .. } => pieces,
        }
    }

    fn case(&self) -> Case {
        match self {
            Self::WordPiece { case, .. } => *case,
            Self::Unigram { .. } => Case::Kept,
        }
    }

    fn unigram(&self) -> Option<UnigramHeader> {
        match self {
            Self::WordPiece { .. } => None,
            Self::Unigram { pieces, marks, .. } => {
                let ordered = Unigram::order_of(pieces, *marks).len();
                Some(UnigramHeader { marks: *marks, pieces: pieces.len(), ordered })
            }
        }
    }

    /// Reads a `tokenizer.json` of the Unigram type. Refuses unknown ways of normalizing texts.
    pub(super) fn of_unigram(json: &Value) -> Result<Self, ModelError> {
        let refuse = |why: &str| Err(unfit("tokenizer.json", why));
        let known = |key: &str, known: &[&str]| {
            let part = json.get(key).unwrap_or(&Value::Null);
            let several =
                ["normalizers", "pretokenizers"].iter().find_map(|name| part.get(*name)?.as_array());
            let kinds =
                |part: &Value| part.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
            let kinds: Vec<String> = match several {
                Some(parts) => parts.iter().map(kinds).collect(),
                None if part.is_null() => Vec::new(),
                None => vec![kinds(part)],
            };
            (kinds.iter().all(|kind| known.contains(&kind.as_str()))).then_some(kinds)
        };
        if known("normalizer", &["Precompiled", "NFKC", "Replace", "Strip"]).is_none() {
            return refuse("it normalizes texts in a way that recall does not support");
        }
        let cuts = known("pre_tokenizer", &["WhitespaceSplit", "Metaspace"]);
        if cuts.is_none_or(|kinds| !kinds.iter().any(|kind| kind == "Metaspace")) {
            return refuse("it splits texts into words in a way that recall does not support");
        }
        let model = json.get("model").unwrap_or(&Value::Null);
        if model.get("byte_fallback").and_then(Value::as_bool) == Some(true) {
            return refuse("it splits unknown characters into bytes, which recall does not support");
        }
        let listed: Vec<(String, f32)> = Vec::deserialize(model.get("vocab").unwrap_or(&Value::Null))
            .map_err(|error| unfit("tokenizer.json", error))?;
        if listed.len() > MOST_VOCABULARY {
            return refuse("it has too many pieces");
        }
        let number = |piece: &str| {
            let place = listed.iter().position(|(known, _)| known == piece)?;
            u32::try_from(place).ok()
        };
        let unknown = model.get("unk_id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        let unknown = unknown.filter(|id| (*id as usize) < listed.len());
        let (Some(begin), Some(end), Some(unknown)) = (number("<s>"), number("</s>"), unknown) else {
            return refuse("the vocabulary lacks <s>, </s> or the piece for unknown text");
        };
        // A piece with a line feed is never matched, because texts contain none when pieces are looked up.
        let pieces = listed.iter().map(|(piece, _)| piece.replace('\n', ""));
        let pieces = pieces.collect();
        let scores = listed.iter().map(|(_, score)| *score).collect();
        Ok(Self::Unigram { pieces, scores, marks: UnigramMarks { begin, end, unknown } })
    }
}

/// The pieces of a WordPiece vocabulary, and whether case matters.
fn word_pieces(files: &Files, json: Option<&Value>) -> Result<Vocabulary, ModelError> {
    let settings = files.json("tokenizer_config.json")?;
    let pieces: Vec<String> = match (files.contents.get("vocab.txt"), json) {
        (Some(bytes), _) => {
            let text = std::str::from_utf8(bytes).map_err(|error| unfit("vocab.txt", error))?;
            text.lines().map(str::to_owned).collect()
        }
        (None, Some(json)) => {
            let model = json.get("model").unwrap_or(&Value::Null);
            if model.get("type").and_then(Value::as_str) != Some("WordPiece") {
                return Err(unfit("tokenizer.json", "its vocabulary is neither WordPiece nor Unigram"));
            }
            let vocabulary = model.get("vocab").unwrap_or(&Value::Null);
            let known: HashMap<String, u32> =
                HashMap::deserialize(vocabulary).map_err(|error| unfit("tokenizer.json", error))?;
            numbered(known)?
        }
        (None, None) => {
            let folder = files.folder.clone();
            return Err(ModelError::Missing { folder, what: "vocab.txt or tokenizer.json" });
        }
    };
    for needed in wordpiece::MARKS {
        if !pieces.iter().any(|piece| piece == needed) {
            return Err(unfit("vocab.txt", format!("the vocabulary has no {needed}")));
        }
    }
    let normalizer = json.and_then(|json| json.get("normalizer")?.get("lowercase")?.as_bool());
    let lower_case = settings.as_ref().and_then(|json| json.get("do_lower_case")?.as_bool());
    let case = if normalizer.or(lower_case).unwrap_or(true) { Case::Ignored } else { Case::Kept };
    Ok(Vocabulary::WordPiece { pieces, case })
}

/// The pieces ordered by number. A missing number becomes an empty piece.
fn numbered(known: HashMap<String, u32>) -> Result<Vec<String>, ModelError> {
    let mut pieces = Vec::new();
    for (piece, number) in known {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if number > MOST_VOCABULARY || piece.contains('\n') {
            return Err(unfit("tokenizer.json", format!("the piece {number} is none")));
        }
        if pieces.len() <= number {
            pieces.resize(number + 1, String::new());
        }
        if let Some(place) = pieces.get_mut(number) {
            *place = piece;
        }
    }
    Ok(pieces)
}

#[cfg(test)]
#[path = "model_folder_tests.rs"]
mod tests;
