//! Computes vectors for stored documents: loads the model, removes the vectors of other models, and works through the
//! documents without vectors.
//!
//! Progress is in the database, so interrupted work continues where it stopped. A document that changes in the
//! meantime is processed again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

use super::clock;
use super::documents::embedded;
use super::embedding_backlog::{Backlog, News};
use super::embedding_pace::{Pace, Rest};
use super::ports::{WriteFailed, Writer};
use super::sentences::{ModelState, Sentences};
use super::vector_files::MakeError;
use recall_agents::Agents;
use recall_config::EmbeddingPolicy;
use recall_domain::budget::Prices;
use recall_domain::document::DocumentKey;
use recall_domain::ids::{JobId, ProjectRow};
use recall_embedding::{EmbedError, Embedder, InstalledModels, ModelError, ModelHash, Purpose, Reach, pack};
use recall_providers::embeddings::{EmbeddingProvider, cost, most};
use recall_providers::ledger::Ledger;
use recall_providers::{
    Backend, CallError, CallGuard, CallSettings, Payer, ProviderError, ProviderSetupError,
};
use recall_store::{
    CallsSeen, DocumentRow, DropVectorFiles, Readers, RemoveOtherVectors, StoreError, StoreVectors,
    VectorsStored,
};
use recall_system::faults::{self, Point};

/// The number of documents per batch for the model.
const AT_ONCE: usize = 8;
/// The maximum number of passages per request to another server.
const MOST_TEXTS: usize = 64;
/// The number of newly embedded documents after which the vector files are checked.
const LOOK_AFTER: usize = 1_024;
/// The maximum time that a person waits for a question's vector from another server.
const QUESTION_WITHIN: Duration = Duration::from_millis(500);
/// The project for calls that concern several projects. The daily budget covers them, but no project's budget.
const NO_PROJECT: ProjectRow = ProjectRow(0);
/// The job for these calls: vectors belong to no compression job.
const NO_JOB: JobId = JobId(0);

/// Services that the work needs. Cheap to clone.
#[derive(Clone)]
pub struct EmbeddingWork<W> {
    pub agents: Agents,
    pub readers: Readers,
    pub writer: W,
    pub sentences: Sentences,
    pub policy: EmbeddingPolicy,
    pub models: InstalledModels,
    pub ledger: Arc<dyn Ledger>,
    pub pace: Pace,
    /// Whether documents may have been added since the run began.
    pub news: Arc<AtomicBool>,
}

/// The file from which a model was loaded. If it changes, the model is loaded again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    file: PathBuf,
    changed: Option<SystemTime>,
    bytes: u64,
}

/// Why work stopped early.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Write(#[from] WriteFailed),
    #[error(transparent)]
    Model(#[from] EmbedError),
    #[error(transparent)]
    File(#[from] MakeError),
    #[error("the thread that computes vectors panicked")]
    Panicked,
}

/// Whether the vector files were compared with what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesChecked {
    Yes,
    No,
}

/// A document ready for the model.
struct Prepared {
    key: DocumentKey,
    row: DocumentRow,
    passages: Vec<String>,
}

/// A batch that is being computed.
type Made = tokio::task::JoinHandle<Result<Vec<StoreVectors>, EmbeddingError>>;

impl<W: Writer> EmbeddingWork<W> {
    /// Performs one run: loads the model if it is new, removes vectors of other models, and computes missing ones.
    /// `known` is the origin of the model in use.
    ///
    /// # Errors
    /// Fails when the store or the model fails. Finished work is kept.
    pub async fn run(
        self,
        known: Option<Origin>,
        checked: FilesChecked,
    ) -> (Option<Origin>, Result<(), EmbeddingError>) {
        let this = self.clone();
        let origin = match tokio::task::spawn_blocking(move || this.read_model(known, checked)).await {
            Ok(origin) => origin,
            Err(_) => return (None, Err(EmbeddingError::Panicked)),
        };
        let outcome = self.work(checked).await;
        if outcome.is_err() {
            // Calls that were just processed may have no vectors yet.
            self.sentences.set_calls_seen(None);
        }
        self.sentences.set_trouble(outcome.as_ref().err().map(ToString::to_string));
        (origin, outcome)
    }

    async fn work(&self, checked: FilesChecked) -> Result<(), EmbeddingError> {
        self.remove_other_vectors().await?;
        if checked == FilesChecked::No {
            let this = self.clone();
            for file in blocking(move || Ok(this.sentences.files.damaged(&this.readers)?)).await? {
                tracing::warn!("a vector file is missing or damaged; recreating it");
                self.writer.write(DropVectorFiles::Of(file)).await?;
            }
        }
        let made = self.make_missing_vectors().await;
        // Also needed without a model, because the files of an earlier one must be removed.
        self.renew_files().await?;
        made
    }

    /// Rewrites files that lack many vectors or contain many removed ones, and removes unused files.
    async fn renew_files(&self) -> Result<(), EmbeddingError> {
        let _alone = self.sentences.files.alone().await;
        if let Some(model) = self.sentences.embedder().map(|embedder| embedder.model()) {
            let this = self.clone();
            let outdated = move || Ok(this.readers.read(|db| db.outdated_vector_files(&model.0))?);
            for project in blocking(outdated).await? {
                let this = self.clone();
                let made = blocking(move || Ok(this.sentences.files.make(&this.readers, model, project)?));
                let made = made.await?;
                faults::reach(Point::VectorFile);
                self.writer.write(made).await?;
            }
        }
        let this = self.clone();
        blocking(move || Ok(this.sentences.files.sweep(&this.readers)?)).await
    }

    /// Loads the model, and returns the origin of the one in use. In the first run, before the files are checked, a
    /// model with different settings may still be in use.
    fn read_model(&self, known: Option<Origin>, checked: FilesChecked) -> Option<Origin> {
        match &self.policy {
            EmbeddingPolicy::None => {
                self.sentences.set(ModelState::None);
                None
            }
            EmbeddingPolicy::Local { model } => {
                let file = self.models.weights_of(model);
                let weights = std::fs::metadata(&file).ok();
                let origin = Origin {
                    file,
                    changed: weights.as_ref().and_then(|file| file.modified().ok()),
                    bytes: weights.map_or(0, |file| file.len()),
                };
                if known.as_ref() == Some(&origin) {
                    return known;
                }
                self.models.clean();
                let state = match self.models.open(model) {
                    Ok(opened) => ModelState::Ready(Arc::new(opened)),
                    Err(error) => {
                        tracing::warn!(%error, "cannot use the sentence model; searches continue without it");
                        let why = format!("{error}. {}", error.hint());
                        match error {
                            ModelError::Absent { .. } => ModelState::Missing { why },
                            _ => ModelState::Unusable { why },
                        }
                    }
                };
                self.sentences.set(state);
                Some(origin)
            }
            EmbeddingPolicy::OpenAi { backend, settings } => {
                if checked == FilesChecked::No || self.sentences.embedder().is_none() {
                    let ledger = Arc::clone(&self.ledger);
                    self.sentences.set(match Remote::new(backend, settings, ledger, &Handle::current()) {
                        Ok(remote) => ModelState::Ready(Arc::new(remote)),
                        Err(error) => ModelState::Unusable { why: error.to_string() },
                    });
                }
                None
            }
        }
    }

    async fn remove_other_vectors(&self) -> Result<(), EmbeddingError> {
        let model = match self.sentences.state() {
            ModelState::Ready(embedder) => Some(embedder.model().0),
            ModelState::None | ModelState::Missing { .. } => None,
            ModelState::Unusable { .. } => return Ok(()),
        };
        let readers = self.readers.clone();
        let others = blocking(move || Ok(readers.read(|db| db.has_other_vectors(model.as_ref()))?)).await?;
        if others {
            while self.writer.write(RemoveOtherVectors { model }).await? > 0 {}
        }
        Ok(())
    }

    async fn make_missing_vectors(&self) -> Result<(), EmbeddingError> {
        let Some(embedder) = self.sentences.embedder() else { return Ok(()) };
        let model = embedder.model();
        if self.pace.is_hurried() {
            self.sentences.set_calls_seen(None);
        }
        let (mut since_looked, mut backlog) = (0, Backlog::default());
        loop {
            let begun = Instant::now();
            let speed = self.pace.speed();
            // Requests to another server are sent one at a time.
            let lanes = if embedder.reach() == Reach::Here { speed.lanes } else { 1 };
            let news = if self.news.swap(false, Ordering::Relaxed) { News::Yes } else { News::No };
            let (mut keys, known) = {
                let (readers, mut known) = (self.readers.clone(), backlog);
                let next = move || Ok((known.next(&readers, model, news, AT_ONCE * lanes)?, known));
                blocking(next).await?
            };
            backlog = known;
            // Another server costs money for each text, and sees the text.
            if keys.is_empty() && embedder.reach() == Reach::Here {
                let this = self.clone();
                keys = blocking(move || this.next_calls(model, AT_ONCE * lanes)).await?;
            }
            let mut stored = 0;
            for made in self.make(&embedder, &keys) {
                for operation in made.await.map_err(|_| EmbeddingError::Panicked)?? {
                    stored += usize::from(self.writer.write(operation).await? == VectorsStored::Yes);
                    faults::reach(Point::Vectors);
                }
            }
            since_looked += stored;
            if since_looked >= LOOK_AFTER {
                since_looked = 0;
                self.renew_files().await?;
            }
            // Either nothing is left, or documents change faster than they are read; the next run checks again.
            let is_done = keys.is_empty() || stored == 0 && backlog.is_at_the_rest();
            if is_done || self.sentences.embedder().is_none_or(|now| now.model() != model) {
                return Ok(());
            }
            if speed.rest == Rest::AsLong {
                tokio::time::sleep(begun.elapsed()).await;
            }
            self.sentences.made(stored, begun.elapsed());
        }
    }

    /// Computes the vectors of documents, several batches concurrently.
    fn make(&self, embedder: &Arc<dyn Embedder>, keys: &[DocumentKey]) -> Vec<Made> {
        let batches = keys.chunks(AT_ONCE).map(|keys| {
            let (this, embedder, keys) = (self.clone(), Arc::clone(embedder), keys.to_vec());
            tokio::task::spawn_blocking(move || this.vectors_of(embedder.as_ref(), keys))
        });
        batches.collect()
    }

    /// Computes the vectors of some documents that have none.
    fn vectors_of(
        &self,
        embedder: &dyn Embedder,
        keys: Vec<DocumentKey>,
    ) -> Result<Vec<StoreVectors>, EmbeddingError> {
        let model = embedder.model();
        let mut prepared = Vec::new();
        for key in keys {
            let Some(row) = self.readers.read(|db| db.load_document(key))? else { continue };
            prepared.push(Prepared { key, passages: embedded(&row, self.agents), row });
        }
        let texts: Vec<String> = prepared.iter().flat_map(|it| it.passages.iter().cloned()).collect();
        let mut vectors = Vec::with_capacity(texts.len());
        for some in texts.chunks(MOST_TEXTS) {
            match embedder.embed(some, Purpose::Passages) {
                Ok(made) if made.len() == some.len() => vectors.extend(made),
                Err(error @ EmbedError::Later { .. }) => return Err(error.into()),
                // A rejected text gets no vectors and is not retried.
                Ok(_) | Err(EmbedError::Refused { .. }) => vectors.extend(some.iter().map(|_| Vec::new())),
            }
        }
        let mut vectors = vectors.into_iter();
        let packed = prepared.into_iter().map(|Prepared { key, row, passages }| {
            let own: Vec<Vec<f32>> = vectors.by_ref().take(passages.len()).collect();
            // A vector's position determines its passage, so either all passages of a text get a vector or none.
            let is_whole = own.iter().all(|vector| !vector.is_empty());
            let dimensions = if is_whole { own.first().map_or(0, Vec::len) } else { 0 };
            let packed = own.iter().filter(|_| is_whole).flat_map(|vector| pack(vector)).collect();
            let dimensions = u32::try_from(dimensions).unwrap_or_default();
            StoreVectors { key, seen: row, model: model.0, dimensions, packed }
        });
        Ok(packed.collect())
    }
}

impl<W> EmbeddingWork<W> {
    /// Returns calls without vectors, among those that were not checked yet.
    fn next_calls(&self, model: ModelHash, most: usize) -> Result<Vec<DocumentKey>, EmbeddingError> {
        let seen = self.sentences.calls_seen();
        let (keys, seen) = self.readers.read(|db| {
            let seen = seen.map_or_else(|| CallsSeen::none(db), Ok)?;
            db.calls_without_vectors(&model.0, seen, u32::try_from(most).unwrap_or(u32::MAX))
        })?;
        self.sentences.set_calls_seen(Some(seen));
        Ok(keys)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EmbeddingError> + Send + 'static,
) -> Result<T, EmbeddingError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| EmbeddingError::Panicked)?
}

/// A model on another server. Each call is paid for and limited like any other model call.
struct Remote {
    passages: EmbeddingProvider,
    questions: EmbeddingProvider,
    guard: CallGuard,
    ledger: Arc<dyn Ledger>,
    prices: Prices,
    model: ModelHash,
}

impl Remote {
    fn new(
        backend: &Backend,
        settings: &CallSettings,
        ledger: Arc<dyn Ledger>,
        runtime: &Handle,
    ) -> Result<Self, ProviderSetupError> {
        let provider = |within| EmbeddingProvider::new(backend, settings, within, runtime);
        let mut hash = Sha256::new();
        for part in [&backend.base_url, &backend.model] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        Ok(Self {
            passages: provider(settings.timeout)?,
            questions: provider(QUESTION_WITHIN)?,
            guard: CallGuard::new(format!("{}:{}", backend.kind, backend.model), settings.timeout),
            ledger,
            prices: backend.prices,
            model: ModelHash(hash.finalize().into()),
        })
    }
}

impl Embedder for Remote {
    fn model(&self) -> ModelHash {
        self.model
    }

    fn embed(&self, texts: &[String], purpose: Purpose) -> Result<Vec<Vec<f32>>, EmbedError> {
        let provider = match purpose {
            Purpose::Passages => &self.passages,
            Purpose::Question => &self.questions,
        };
        let payer = Payer { job: NO_JOB, project: NO_PROJECT, ledger: self.ledger.as_ref() };
        let answered = self.guard.call(
            &payer,
            most(texts, self.prices),
            clock::now,
            |now| provider.embed(texts, now),
            |reply| cost(texts, reply, self.prices),
        );
        match answered {
            Ok(reply) => Ok(reply.vectors.iter().map(|vector| of_length_one(vector)).collect()),
            Err(CallError::Provider(ProviderError::Unacceptable { why })) => Err(EmbedError::Refused { why }),
            Err(error) => {
                let wait_ms = match &error {
                    CallError::BackedOff { wait_ms, .. } => Some(*wait_ms),
                    CallError::Provider(ProviderError::Trouble { wait_ms, .. }) => *wait_ms,
                    CallError::NotReserved(_) | CallError::Provider(_) => None,
                };
                Err(EmbedError::Later { why: error.to_string(), wait_ms })
            }
        }
    }

    fn reach(&self) -> Reach {
        Reach::Elsewhere
    }
}

fn of_length_one(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter().map(|value| if length > 0.0 { value / length } else { 0.0 }).collect()
}
