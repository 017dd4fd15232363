//! The vectors of texts, as searches use them: the model that is in use, and the vectors of the projects that were
//! searched last.
//!
//! A search never waits for a model to be read, and goes on without vectors whenever there are none.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::embedding::{Embedder, ModelHash, Purpose, Reach};
use crate::memory::ids::{ProjectKey, ProjectRow};
use crate::search::meaning::{Cosines, Question, Vectors};
use crate::search::request::{Request, Scope};
use crate::store::{self, Readers, StoreError, VectorCount};

/// Projects whose vectors are kept in memory.
const MOST_PROJECTS: usize = 4;
/// Bytes of a question that are read.
const LONGEST_QUESTION: usize = 2_000;

/// Who waits for a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// An agent, for milliseconds: no other server is asked.
    Hook,
    /// A person.
    Person,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Sentences {
    readers: Readers,
    state: Arc<RwLock<ModelState>>,
    kept: Arc<Mutex<Vec<Kept>>>,
}

/// The model that turns texts into vectors.
#[derive(Clone, Default)]
pub enum ModelState {
    /// None is configured, or it is not read yet.
    #[default]
    None,
    /// The one that is configured is not there, so nothing that it made is of use.
    Missing {
        why: String,
    },
    /// It cannot be used now. What it made stays.
    Unusable {
        why: String,
    },
    Ready(Arc<dyn Embedder>),
}

/// The vectors of a project, or of all.
struct Kept {
    model: ModelHash,
    project: Option<ProjectRow>,
    count: VectorCount,
    vectors: Arc<Vectors>,
}

impl Sentences {
    pub fn new(readers: Readers) -> Self {
        Self { readers, state: Arc::default(), kept: Arc::default() }
    }

    /// Uses this model from now on. What is known of another one is dropped.
    pub fn set(&self, state: ModelState) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub fn state(&self) -> ModelState {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn embedder(&self) -> Option<Arc<dyn Embedder>> {
        match self.state() {
            ModelState::Ready(embedder) => Some(embedder),
            ModelState::None | ModelState::Missing { .. } | ModelState::Unusable { .. } => None,
        }
    }

    /// The question's vector, and those of the searched documents. `None`: search without.
    pub fn for_request(&self, request: &Request, patience: Patience) -> Option<(Question, Arc<Vectors>)> {
        self.for_text(&request.query.wanted_text(), &request.scope, patience)
    }

    /// How close the passages of a project are to a prompt, for an agent that waits. `None`: nothing is known.
    pub fn for_prompt(&self, prompt: &str, project: &ProjectKey) -> Option<Cosines> {
        let scope = Scope::Project(project.clone());
        let (question, vectors) = self.for_text(prompt, &scope, Patience::Hook)?;
        Some(vectors.cosines(&question))
    }

    fn for_text(&self, text: &str, scope: &Scope, patience: Patience) -> Option<(Question, Arc<Vectors>)> {
        let embedder = self.embedder()?;
        if patience == Patience::Hook && embedder.reach() == Reach::Elsewhere {
            return None;
        }
        let text = text.get(..text.floor_char_boundary(LONGEST_QUESTION)).unwrap_or_default();
        if text.trim().is_empty() {
            return None;
        }
        let found = self.question_and_vectors(embedder.as_ref(), text, scope);
        found.inspect_err(|why| tracing::warn!(%why, "a search goes on without vectors")).ok().flatten()
    }

    fn question_and_vectors(
        &self,
        embedder: &dyn Embedder,
        text: &str,
        scope: &Scope,
    ) -> Result<Option<(Question, Arc<Vectors>)>, String> {
        let said = |error: StoreError| error.to_string();
        let project = match scope {
            Scope::Everything => None,
            Scope::Project(key) => {
                let found = self.readers.read(|db| store::find_project(db, std::slice::from_ref(key)));
                match found.map_err(said)? {
                    Some(project) => Some(project.row),
                    None => return Ok(None),
                }
            }
        };
        let model = embedder.model();
        let count = self.readers.read(|db| store::vector_count(db, &model.0, project)).map_err(said)?;
        if count.rows == 0 {
            return Ok(None);
        }
        let made =
            embedder.embed(&[text.to_owned()], Purpose::Question).map_err(|error| error.to_string())?;
        let Some(question) = made.first() else { return Ok(None) };
        let vectors = self.vectors(model, project, count, question.len()).map_err(said)?;
        Ok(Some((Question::new(question), vectors)))
    }

    /// The vectors of a project. Only new ones are read if no others have changed.
    fn vectors(
        &self,
        model: ModelHash,
        project: Option<ProjectRow>,
        count: VectorCount,
        dimensions: usize,
    ) -> Result<Arc<Vectors>, StoreError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|it| it.model == model && it.project == project);
        let mut known = place.map(|place| kept.remove(place));
        let (after, rows) = known.as_ref().map_or((0, 0), |it| (it.count.newest, it.count.rows));
        let mut newer = Vec::new();
        if known.as_ref().is_none_or(|it| it.count != count) {
            newer = self.readers.read(|db| store::vectors_after(db, &model.0, project, after))?;
            if known.is_some() && rows + newer.len() as i64 != count.rows {
                // Some were removed or replaced.
                known = None;
                newer = self.readers.read(|db| store::vectors_after(db, &model.0, project, 0))?;
            }
        }
        let read = VectorCount {
            rows: newer.len() as i64 + known.as_ref().map_or(0, |it| it.count.rows),
            newest: newer.last().map_or(count.newest, |row| row.id),
        };
        let mut vectors = known.map_or_else(|| Arc::new(Vectors::new(dimensions)), |it| it.vectors);
        if !newer.is_empty() {
            let growing = Arc::make_mut(&mut vectors);
            newer.iter().for_each(|row| growing.add(row.key, &row.packed));
        }
        kept.insert(0, Kept { model, project, count: read, vectors: Arc::clone(&vectors) });
        kept.truncate(MOST_PROJECTS);
        Ok(vectors)
    }
}
