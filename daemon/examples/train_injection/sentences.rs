//! The vectors of passages and questions, as the daemon would have them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use recall_domain::document::{Document, DocumentKind};
use recall_embedding::{Embedder, Model, Purpose, pack};
use recall_search::meaning::{Question, Vectors};

/// A sentence model, and the vectors of each project's passages.
pub(crate) struct Sentences {
    model: Model,
    projects: HashMap<String, Vectors>,
    /// Vectors of earlier runs, by text. Questions are truncated at a shorter length than passages, so they have a
    /// mark.
    made: HashMap<String, Vec<u8>>,
    kept: Option<PathBuf>,
}

impl Sentences {
    /// `kept`: a file of vectors from earlier runs.
    pub(crate) fn read(model: &Path, kept: Option<PathBuf>) -> anyhow::Result<Self> {
        let made = match &kept {
            Some(file) if file.exists() => serde_json::from_slice(&std::fs::read(file)?)?,
            _ => HashMap::new(),
        };
        Ok(Self { model: Model::open(model)?, projects: HashMap::new(), made, kept })
    }

    pub(crate) fn add(&mut self, project: &str, documents: &[Document]) {
        let dimensions = self.model.facts().dimensions;
        // Messages of an agent to others get no vectors here, because they get none in the daemon.
        for document in documents.iter().filter(|document| document.key.kind != DocumentKind::Activity) {
            for passage in &document.passages {
                let text = passage.whole();
                let packed = match self.made.get(&text) {
                    Some(packed) => packed.clone(),
                    None => pack(&self.model.vector(&text)),
                };
                let vectors =
                    self.projects.entry(project.to_owned()).or_insert_with(|| Vectors::new(dimensions));
                vectors.add(document.key, &packed);
                self.made.insert(text, packed);
            }
        }
    }

    pub(crate) fn compared(&mut self, prompt: &str, project: &str) -> Option<(Question, Vectors)> {
        let vectors = self.projects.get(project)?;
        let key = format!("? {prompt}");
        let packed = match self.made.get(&key) {
            Some(packed) => packed.clone(),
            None => {
                let made = self.model.embed(&[prompt.to_owned()], Purpose::Question).ok()?;
                pack(made.first()?)
            }
        };
        self.made.insert(key, packed.clone());
        Some((Question::unpack(&packed), vectors.clone()))
    }

    /// Saves the vectors for the next run.
    pub(crate) fn keep(&self) -> anyhow::Result<()> {
        match &self.kept {
            Some(file) => Ok(std::fs::write(file, serde_json::to_vec(&self.made)?)?),
            None => Ok(()),
        }
    }
}
