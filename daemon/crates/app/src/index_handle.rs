//! The index for its readers, and whether it is complete.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use super::documents::{document, passages_alone};
use super::passage_cache::PassageCache;
use super::sentences::{Patience, Sentences};
use recall_agents::Agents;
use recall_domain::document::{Document, DocumentKey, DocumentKind};
use recall_domain::ids::{LogSeq, ProjectKey, SessionId};
use recall_domain::passage::{PassageMatches, PassageTerm};
use recall_search::fresh::{Current, Fresh};
use recall_search::index::Index;
use recall_search::request::{Hits, Scope, SearchRequest};
use recall_search::source::CandidateSource;
use recall_search::{FreshDocument, FreshPassages, IndexError, PassageRequest};
use recall_store::{Readers, StoreError};

/// The index's reader, replaced when the index is rebuilt. Cheap to clone.
#[derive(Clone)]
pub struct IndexHandle {
    state: Arc<RwLock<IndexState>>,
    on_suspicion: Arc<dyn Fn() + Send + Sync>,
    store: StoredDocuments,
    passage_cache: PassageCache,
    pub sentences: Sentences,
}

/// The store, for documents that the index does not contain yet.
#[derive(Clone)]
pub struct StoredDocuments {
    pub readers: Readers,
    pub agents: Agents,
}

/// The number of newest log entries that a search reads. While an import is being indexed there are many more.
const NEWEST_ENTRIES: u32 = 512;
/// The maximum number of new documents that a search reads from the store.
const NEWEST_DOCUMENTS: usize = 64;
/// A search stops reading new documents after this many bytes of text, because it has only milliseconds.
const NEWEST_BYTES: usize = 262_144;

/// The maximum number of passages that are considered for a prompt by words.
const MOST_PASSAGES: usize = 300;

/// The state of the index.
#[derive(Clone, Default)]
pub enum IndexState {
    /// The index is damaged, or not opened yet.
    #[default]
    Absent,
    /// The index is being filled from the store. Its results are correct but may be incomplete.
    Filling(Index),
    /// The index was complete when it was closed. Its files are being verified.
    Unexamined(Index),
    Complete(Index),
}

impl IndexHandle {
    /// Creates the handle. `on_suspicion` is called when a search fails.
    pub fn new(
        store: StoredDocuments,
        sentences: Sentences,
        on_suspicion: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let (state, passage_cache) = (Arc::default(), PassageCache::default());
        Self { state, on_suspicion: Arc::new(on_suspicion), store, passage_cache, sentences }
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

    /// Marks the index as being refilled.
    pub fn filling(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let IndexState::Complete(index) = &*state {
            *state = IndexState::Filling(index.clone());
        }
    }

    /// Marks the index as complete.
    pub fn complete(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let IndexState::Filling(index) = &*state {
            *state = IndexState::Complete(index.clone());
        }
    }

    /// Searches all sources of candidates. Finds everything committed before, even if the index does not contain it
    /// yet; only the oldest of very many new documents may be missed. `None` if a source failed, which was reported.
    pub fn search(&self, index: &Index, request: &SearchRequest, patience: Patience) -> Option<Hits> {
        let is_wanted = |key: DocumentKey| request.kinds.is_empty() || request.kinds.contains(&key.kind);
        let fresh = known(self.store.after(index.high_water(), is_wanted));
        let current = Current { index, fresh: &fresh };
        let compared = self.sentences.for_text(&request.query.wanted_text(), &request.scope, patience);
        let others = recall_search::other_sources(index, compared);
        let mut sources: Vec<&dyn CandidateSource> = vec![&current];
        sources.extend(others.iter().map(Box::as_ref));
        self.found(recall_search::search(&sources, request))
    }

    /// Finds passages of a project that may answer a prompt, by words and by meaning. Finds everything committed
    /// before, like a search. `None` if that failed, which was reported.
    pub fn passages(
        &self,
        index: &Index,
        prompt: &str,
        project: &ProjectKey,
        except: Option<&SessionId>,
    ) -> Option<PassageMatches> {
        let is_candidate =
            |document: &FreshDocument| document.project == *project && Some(&document.session) != except;
        let fresh = self.fresh_passages(index, |_| true, is_candidate);
        let scope = Scope::Project(project.clone());
        let sources =
            recall_search::other_sources(index, self.sentences.for_text(prompt, &scope, Patience::Hook));
        let request = PassageRequest { prompt, project, except, limit: MOST_PASSAGES, near: &[] };
        self.found(recall_search::search_passages(index, &fresh, &sources, &request))
    }

    /// Like [`Self::passages`], by words alone and at most `most`, for callers with very little time.
    pub(crate) fn passages_by_words(
        &self,
        index: &Index,
        words: &str,
        project: &ProjectKey,
        except: &SessionId,
        limit: usize,
    ) -> Option<PassageMatches> {
        let is_candidate =
            |document: &FreshDocument| document.project == *project && document.session != *except;
        let is_wanted = |key: DocumentKey| key.kind == DocumentKind::Observation;
        let fresh = self.fresh_passages(index, is_wanted, is_candidate);
        let request = PassageRequest { prompt: words, project, except: Some(except), limit, near: &[] };
        self.found(index.passages(&request, &fresh))
    }

    /// Returns how rare the words of a prompt are in a project. `None` if that failed, which was reported.
    pub fn words_of(&self, index: &Index, prompt: &str, project: &ProjectKey) -> Option<Vec<PassageTerm>> {
        let fresh = self.fresh_passages(index, |_| true, |document| document.project == *project);
        let request = PassageRequest { prompt, project, except: None, limit: 0, near: &[] };
        let found = self.found(index.passages(&request, &fresh))?;
        Some(found.terms)
    }

    fn found<T>(&self, found: Result<T, IndexError>) -> Option<T> {
        found
            .inspect_err(|error| {
                tracing::error!(%error, "a search failed");
                self.suspect();
            })
            .ok()
    }

    /// Returns the passages that the index does not contain yet.
    fn fresh_passages(
        &self,
        index: &Index,
        is_wanted: impl Fn(DocumentKey) -> bool,
        is_candidate: impl Fn(&FreshDocument) -> bool,
    ) -> FreshPassages {
        let cache = &self.passage_cache;
        known(self.store.passages_after(index.high_water(), cache, is_wanted, is_candidate))
    }

    /// Returns the index, complete or not.
    pub fn index(&self) -> Option<Index> {
        match self.state() {
            IndexState::Absent => None,
            IndexState::Filling(index) | IndexState::Unexamined(index) | IndexState::Complete(index) => {
                Some(index)
            }
        }
    }
}

/// Why documents could not be read.
#[derive(Debug, thiserror::Error)]
enum FreshError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// Returns the approximate size of a document's searched text, in bytes.
fn length(document: &Document) -> usize {
    let passages = document.passages.iter().map(|passage| passage.text.len()).sum();
    document.body.len().max(passages)
}

/// Returns the default if new documents cannot be read.
fn known<T: Default>(fresh: Result<T, FreshError>) -> T {
    fresh.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read documents that are not indexed yet");
        T::default()
    })
}

impl StoredDocuments {
    /// Returns the logged documents after `seq` that a request may be about.
    fn after(&self, seq: LogSeq, is_wanted: impl Fn(DocumentKey) -> bool) -> Result<Fresh, FreshError> {
        let mut newest = Newest::default();
        let mut documents = Vec::new();
        self.readers.read_one_state(|db| {
            for entry in db.newest_documents_after(seq, NEWEST_ENTRIES)? {
                if newest.takes(entry.key, &is_wanted)
                    && let Some(row) = db.load_document(entry.key)?
                {
                    let document = document(entry.key, &row, self.agents);
                    newest.add(length(&document));
                    documents.push(document);
                }
            }
            Ok(())
        })?;
        Ok(Fresh::new(newest.keys, &documents)?)
    }

    /// Like [`Self::after`], for passages. Each document is read once, however many requests come before it is
    /// indexed.
    fn passages_after(
        &self,
        seq: LogSeq,
        cache: &PassageCache,
        is_wanted: impl Fn(DocumentKey) -> bool,
        is_candidate: impl Fn(&FreshDocument) -> bool,
    ) -> Result<FreshPassages, FreshError> {
        let mut newest = Newest::default();
        let mut documents = Vec::new();
        cache.begin(self.readers.generation(), seq);
        self.readers.read_one_state(|db| {
            for entry in db.newest_documents_after(seq, NEWEST_ENTRIES)? {
                if !newest.takes(entry.key, &is_wanted) {
                    continue;
                }
                let document = cache.of(entry, || {
                    let row = db.load_document(entry.key)?;
                    let document = row.and_then(|row| passages_alone(entry.key, &row, self.agents));
                    Ok(document.map(|document| FreshDocument::of(&document)))
                })?;
                if let Some(document) = document.filter(|document| is_candidate(document)) {
                    newest.add(document.bytes);
                    documents.push(document);
                }
            }
            Ok(())
        })?;
        Ok(FreshPassages { keys: newest.keys, documents })
    }
}

/// How much of the newest documents a search has read.
#[derive(Default)]
struct Newest {
    keys: HashSet<DocumentKey>,
    documents: usize,
    bytes: usize,
}

impl Newest {
    /// Whether to read a document that was not read yet.
    fn takes(&mut self, key: DocumentKey, is_wanted: impl Fn(DocumentKey) -> bool) -> bool {
        let is_full = self.documents == NEWEST_DOCUMENTS || self.bytes >= NEWEST_BYTES;
        !is_full && is_wanted(key) && self.keys.insert(key)
    }

    fn add(&mut self, bytes: usize) {
        self.documents += 1;
        self.bytes += bytes;
    }
}
