//! The index as its readers see it, and whether it is complete.

use std::sync::{Arc, PoisonError, RwLock};

use super::sentences::{Patience, Sentences};
use crate::search;
use crate::search::index::Index;
use crate::search::meaning::Meaning;
use crate::search::request::{Hits, Request};
use crate::search::source::CandidateSource;

/// The index's reader, replaced when the index is rebuilt. Cheap to clone.
#[derive(Clone)]
pub struct IndexHandle {
    state: Arc<RwLock<IndexState>>,
    on_suspicion: Arc<dyn Fn() + Send + Sync>,
    pub sentences: Sentences,
}

/// The state of the index.
#[derive(Clone, Default)]
pub enum IndexState {
    /// It is damaged, or not opened yet.
    #[default]
    Absent,
    /// It is being filled from the store. What it finds is correct, but it may miss documents.
    Filling(Index),
    Complete(Index),
}

impl IndexHandle {
    /// `on_suspicion` is called when a search has failed.
    pub fn new(sentences: Sentences, on_suspicion: impl Fn() + Send + Sync + 'static) -> Self {
        Self { state: Arc::default(), on_suspicion: Arc::new(on_suspicion), sentences }
    }

    /// Reports a failed search. Only damaged files cause one.
    fn suspect(&self) {
        (self.on_suspicion)();
    }

    pub fn set(&self, state: IndexState) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    pub fn state(&self) -> IndexState {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The index must be filled again.
    pub fn filling(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let IndexState::Complete(index) = &*state {
            *state = IndexState::Filling(index.clone());
        }
    }

    /// The index is complete.
    pub fn complete(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let IndexState::Filling(index) = &*state {
            *state = IndexState::Complete(index.clone());
        }
    }

    /// Searches with all sources of candidates. `None`: the index has failed, which was reported.
    pub fn search(&self, index: &Index, request: &Request, patience: Patience) -> Option<Hits> {
        let meaning = self.sentences.for_request(request, patience).map(|(question, vectors)| Meaning {
            index,
            question,
            vectors,
        });
        let mut sources: Vec<&dyn CandidateSource> = vec![index];
        sources.extend(meaning.iter().map(|meaning| -> &dyn CandidateSource { meaning }));
        let searched = search::search(&sources, request);
        searched
            .inspect_err(|error| {
                tracing::error!(%error, "a search failed");
                self.suspect();
            })
            .ok()
    }

    /// The index, complete or not.
    pub fn index(&self) -> Option<Index> {
        match self.state() {
            IndexState::Absent => None,
            IndexState::Filling(index) | IndexState::Complete(index) => Some(index),
        }
    }
}
