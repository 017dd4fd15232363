//! The vectors of texts for searches: the model in use, and the vectors of the most recently searched projects.
//!
//! The vectors of a project are those of its file, minus removed rows, plus rows added after the file. A search never
//! waits for a model to load; without vectors it continues without them.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use super::vector_files::VectorFiles;
use recall_domain::ids::{ProjectRow, VectorId};
use recall_embedding::{Compared, Embedder, ModelHash, Purpose, Reach};
use recall_search::meaning::Vectors;
use recall_search::request::Scope;
use recall_search::vector_file::VectorFile;
use recall_search::vectors::Rows;
use recall_store::{CallsSeen, Readers, StoreError, VectorFileRow, VectorState};

/// The number of projects whose newest rows are kept in memory.
const MOST_PROJECTS: usize = 8;
/// The maximum number of a project's rows that are not in its file yet. There are more only before the first file is
/// made.
const MOST_ROWS: u32 = 8_192;
/// The number of bytes of a question that are used.
const LONGEST_QUESTION: usize = 2_000;
/// The weight of the last batch in the rate.
const NEWEST_PART: f64 = 0.1;

/// How long the caller of a search can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// An agent waits, for milliseconds, so no other server is asked.
    Hook,
    /// A person waits.
    Person,
}

/// The sentence model in use, with the vectors of recently searched projects. Cheap to clone.
#[derive(Clone)]
pub struct Sentences {
    readers: Readers,
    pub files: VectorFiles,
    state: Arc<RwLock<ModelState>>,
    /// Why the last attempt to compute vectors stopped early.
    trouble: Arc<Mutex<Option<String>>>,
    kept: Arc<Mutex<Vec<Kept>>>,
    /// Which calls were checked for vectors; `None` before the first run.
    calls: Arc<Mutex<Option<CallsSeen>>>,
    /// The recent number of documents that got vectors per second.
    per_second: Arc<Mutex<Option<f64>>>,
}

/// The model that turns texts into vectors.
#[derive(Clone, Default)]
pub enum ModelState {
    /// No model is configured, or it is not loaded yet.
    #[default]
    None,
    /// The configured model is missing, so its vectors are useless.
    Missing {
        why: String,
    },
    /// The model is unusable at the moment. Its vectors are kept.
    Unusable {
        why: String,
    },
    Ready(Arc<dyn Embedder>),
}

/// Ids of removed rows whose vectors are still in a file.
type Gone = Arc<[VectorId]>;

/// The vectors of a project.
#[derive(Clone)]
struct Kept {
    /// The generation of the database that the vectors come from.
    generation: u64,
    model: ModelHash,
    project: ProjectRow,
    /// The file that the database names, and its mapping.
    file: Option<(VectorFileRow, Option<Arc<VectorFile>>)>,
    /// The rows added after the file, up to `newest`.
    rows: Rows,
    newest: VectorId,
}

impl Sentences {
    pub fn new(readers: Readers, files: VectorFiles) -> Self {
        Self {
            readers,
            files,
            state: Arc::default(),
            trouble: Arc::default(),
            kept: Arc::default(),
            calls: Arc::default(),
            per_second: Arc::default(),
        }
    }

    /// Records that this many documents got vectors in this time, including pauses.
    pub fn made(&self, documents: usize, took: Duration) {
        let now = documents as f64 / took.as_secs_f64().max(0.001);
        let mut per_second = self.per_second.lock().unwrap_or_else(PoisonError::into_inner);
        *per_second = Some(per_second.map_or(now, |before| before + NEWEST_PART * (now - before)));
    }

    /// Returns how many documents get vectors per second; `None` if none did since the model was loaded.
    pub fn per_second(&self) -> Option<f64> {
        *self.per_second.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses this model from now on. Everything known about another one is dropped.
    pub fn set(&self, state: ModelState) {
        *self.per_second.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        self.drop_kept();
        self.set_calls_seen(None);
    }

    pub fn calls_seen(&self) -> Option<CallsSeen> {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets which calls were checked. With `None`, the next run checks all of them.
    pub(crate) fn set_calls_seen(&self, seen: Option<CallsSeen>) {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// Drops all files and rows.
    pub(crate) fn drop_kept(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub fn state(&self) -> ModelState {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the outcome of the last attempt; `None` for success.
    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn embedder(&self) -> Option<Arc<dyn Embedder>> {
        match self.state() {
            ModelState::Ready(embedder) => Some(embedder),
            ModelState::None | ModelState::Missing { .. } | ModelState::Unusable { .. } => None,
        }
    }

    /// Returns the question's vector, and those of the searched documents. `None` means to search without vectors.
    pub(crate) fn for_text(
        &self,
        text: &str,
        scope: &Scope,
        patience: Patience,
    ) -> Option<(Compared, Vectors)> {
        let embedder = self.embedder()?;
        if patience == Patience::Hook && embedder.reach() == Reach::Elsewhere {
            return None;
        }
        let text = text.get(..text.floor_char_boundary(LONGEST_QUESTION)).unwrap_or_default();
        if text.trim().is_empty() {
            return None;
        }
        let found = self.question_and_vectors(embedder.as_ref(), text, scope);
        found.inspect_err(|why| tracing::warn!(%why, "a search continues without vectors")).ok().flatten()
    }

    fn question_and_vectors(
        &self,
        embedder: &dyn Embedder,
        text: &str,
        scope: &Scope,
    ) -> Result<Option<(Compared, Vectors)>, String> {
        let message = |error: StoreError| error.to_string();
        let model = embedder.model();
        let projects = match scope {
            Scope::Everything => self.readers.read(|db| db.projects_with_vectors(&model.0)),
            Scope::Project(key) => {
                let found = self.readers.read(|db| db.find_project(std::slice::from_ref(key)));
                found.map(|found| found.into_iter().map(|project| project.row).collect())
            }
        };
        let mut vectors = Vec::new();
        for project in projects.map_err(message)? {
            vectors.extend(self.of_project(model, project).map_err(message)?);
        }
        if vectors.is_empty() {
            return Ok(None);
        }
        let made =
            embedder.embed(&[text.to_owned()], Purpose::Question).map_err(|error| error.to_string())?;
        let Some(question) = made.first() else { return Ok(None) };
        let mut all = Vectors::new(question.len());
        for (kept, gone) in vectors {
            if let Some((_, Some(file))) = kept.file {
                all.add_file(file, Arc::clone(&gone));
            }
            all.add_rows(&kept.rows, gone);
        }
        Ok(Some((Compared::new(question), all)))
    }

    /// Returns the vectors of a project, and the ids of removed ones. Reads only new rows.
    fn of_project(&self, model: ModelHash, project: ProjectRow) -> Result<Option<(Kept, Gone)>, StoreError> {
        let generation = self.readers.generation();
        let known = self.take_kept(model, project).filter(|known| known.generation == generation);
        let (mut kept, state) = self.readers.read_one_state(|snapshot| {
            // The list of deleted vectors and the file it belongs to must come from one snapshot.
            let state = snapshot.vector_state(&model.0, project)?;
            let mut kept = match known
                .filter(|known| known.file.as_ref().map(|(file, _)| file) == state.file.as_ref())
            {
                Some(known) => known,
                None => self.begin(generation, model, project, &state),
            };
            if state.newest > kept.newest {
                let newer = snapshot.newest_vectors(&model.0, project, kept.newest, MOST_ROWS)?;
                for row in newer {
                    kept.rows.add(row.id, row.key, row.dimensions as usize, &row.packed);
                }
            }
            Ok((kept, state))
        })?;
        // The newest row may have been removed.
        kept.newest = kept.newest.max(state.newest);
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(0, kept.clone());
        all.truncate(MOST_PROJECTS);
        Ok((state.newest > VectorId::default()).then(|| (kept, state.gone.into())))
    }

    fn take_kept(&self, model: ModelHash, project: ProjectRow) -> Option<Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|it| it.model == model && it.project == project)?;
        Some(kept.remove(place))
    }

    fn begin(&self, generation: u64, model: ModelHash, project: ProjectRow, state: &VectorState) -> Kept {
        let mut newest = VectorId::default();
        let file = state.file.clone().map(|row| {
            let mapped = if row.newest == VectorId::default() { None } else { self.map(&row, model) };
            if mapped.is_some() {
                newest = row.newest;
            }
            (row, mapped)
        });
        Kept { generation, model, project, file, rows: Rows::default(), newest }
    }

    /// Maps a file. `None` means that the rows are read instead, up to the limit, until the file is recreated.
    fn map(&self, file: &VectorFileRow, model: ModelHash) -> Option<Arc<VectorFile>> {
        let opened = self.files.open(file, model);
        opened
            .inspect_err(|error| tracing::warn!(%error, "a search reads vectors from the database"))
            .ok()
            .map(Arc::new)
    }
}
