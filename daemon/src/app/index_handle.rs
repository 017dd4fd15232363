//! The index as readers see it: which one there is, and how complete it is.

use std::sync::{Arc, PoisonError, RwLock};

use crate::search::index::Index;

/// The index's reader, replaced when the index is rebuilt. Cheap to clone.
#[derive(Clone)]
pub struct IndexHandle {
    state: Arc<RwLock<IndexState>>,
    on_suspicion: Arc<dyn Fn() + Send + Sync>,
}

/// What searching can rely on.
#[derive(Clone, Default)]
pub enum IndexState {
    /// It is damaged, or not opened yet.
    #[default]
    Absent,
    /// It is being filled from the store: what it finds is right, what it does not find may be there.
    Filling(Index),
    Complete(Index),
}

impl IndexHandle {
    /// `on_suspicion` is told that a search has failed.
    pub fn new(on_suspicion: impl Fn() + Send + Sync + 'static) -> Self {
        Self { state: Arc::default(), on_suspicion: Arc::new(on_suspicion) }
    }

    /// A search has failed. Only damaged files make one fail.
    pub fn suspect(&self) {
        (self.on_suspicion)();
    }

    pub fn set(&self, state: IndexState) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    pub fn state(&self) -> IndexState {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything has to be put in again.
    pub fn filling(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let IndexState::Complete(index) = &*state {
            *state = IndexState::Filling(index.clone());
        }
    }

    /// Everything is in.
    pub fn complete(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let IndexState::Filling(index) = &*state {
            *state = IndexState::Complete(index.clone());
        }
    }

    /// The index as far as it goes.
    pub fn index(&self) -> Option<Index> {
        match self.state() {
            IndexState::Absent => None,
            IndexState::Filling(index) | IndexState::Complete(index) => Some(index),
        }
    }
}
