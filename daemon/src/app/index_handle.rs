//! The index as its readers see it, and whether it is complete.

use std::sync::{Arc, PoisonError, RwLock};

use crate::memory::passage::PassageMatches;
use crate::search;
use crate::search::PassageRequest;
use crate::search::index::Index;
use crate::search::request::{Hits, Request};
use crate::search::source::CandidateSource;

/// The index's reader, replaced when the index is rebuilt. Cheap to clone.
#[derive(Clone)]
pub struct IndexHandle {
    state: Arc<RwLock<IndexState>>,
    on_suspicion: Arc<dyn Fn() + Send + Sync>,
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
    pub fn new(on_suspicion: impl Fn() + Send + Sync + 'static) -> Self {
        Self { state: Arc::default(), on_suspicion: Arc::new(on_suspicion) }
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

    /// Searches with all sources of candidates. `None`: a source has failed, which was reported.
    pub fn search(&self, index: &Index, request: &Request) -> Option<Hits> {
        let sources: [&dyn CandidateSource; 1] = [index];
        let searched = search::search(&sources, request);
        searched
            .inspect_err(|error| {
                tracing::error!(%error, "a search failed");
                self.suspect();
            })
            .ok()
    }

    /// Finds passages. `None`: that failed, which was reported.
    pub fn passages(&self, index: &Index, request: &PassageRequest<'_>) -> Option<PassageMatches> {
        index
            .passages(request)
            .inspect_err(|error| {
                tracing::error!(%error, "a search for passages failed");
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
