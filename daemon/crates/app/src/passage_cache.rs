//! Caches the passages of documents that are not indexed yet. Each prompt is compared with all of them, and while
//! agents work fast there are hundreds.

use recall_domain::ids::LogSeq;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recall_domain::document::DocumentKey;
use recall_search::FreshDocument;
use recall_store::{LogEntry, StoreError};

/// The capacity, which exceeds what a search examines. When it is full, which happens only while the index lags far
/// behind, the cache is cleared.
const MOST: usize = 1_024;

/// The cached passages of documents that are not indexed yet. Cheap to clone; clones share their contents.
#[derive(Clone, Default)]
pub(crate) struct PassageCache(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// The generation of the database. A replaced database has different log numbers.
    generation: u64,
    /// The index contains everything up to this entry.
    indexed: LogSeq,
    documents: HashMap<DocumentKey, Read>,
}

/// A document as it was read. A later log entry means that it has changed since.
struct Read {
    seq: LogSeq,
    /// `None` if it has no passages or was removed.
    document: Option<Arc<FreshDocument>>,
}

impl PassageCache {
    /// Drops what the index contains by now, and everything if the database was replaced.
    pub(crate) fn begin(&self, generation: u64, indexed: LogSeq) {
        let mut known = self.known();
        if known.generation != generation {
            *known = Known { generation, ..Known::default() };
        }
        if known.indexed != indexed {
            known.indexed = indexed;
            known.documents.retain(|_, read| read.seq > indexed);
        }
    }

    /// Returns the document of its newest log entry, calling `read` unless it is cached.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn of(
        &self,
        newest: LogEntry,
        read: impl FnOnce() -> Result<Option<FreshDocument>, StoreError>,
    ) -> Result<Option<Arc<FreshDocument>>, StoreError> {
        let LogEntry { seq, key } = newest;
        if let Some(read) = self.known().documents.get(&key).filter(|read| read.seq == seq) {
            return Ok(read.document.clone());
        }
        let document = read()?.map(Arc::new);
        let mut known = self.known();
        if known.documents.len() >= MOST {
            known.documents.clear();
        }
        known.documents.insert(key, Read { seq, document: document.clone() });
        Ok(document)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::document::{Document, DocumentKind, Status};
    use recall_domain::ids::Timestamp;
    use recall_domain::observation::{Importance, Maker};

    fn document(key: DocumentKey, session: &str) -> FreshDocument {
        FreshDocument::of(&Document {
            key,
            project: "p".into(),
            project_name: String::new(),
            agent: "a".into(),
            session: session.into(),
            observation_type: None,
            status: Status::Active,
            importance: Importance::clamped(5),
            maker: Maker::Machine,
            at: Timestamp(0),
            files: Vec::new(),
            title: String::new(),
            body: String::new(),
            passages: Vec::new(),
        })
    }

    #[test]
    fn a_document_is_read_again_only_if_it_or_the_database_changed() {
        let cache = PassageCache::default();
        let key = |row| DocumentKey { kind: DocumentKind::Observation, row };
        let mut reads = 0;
        let mut session = |row: i64, seq: i64, stored: &str| {
            let read = || {
                reads += 1;
                Ok(Some(document(key(row), stored)))
            };
            let found = cache.of(LogEntry { seq: LogSeq(seq), key: key(row) }, read).unwrap().unwrap();
            (found.session.as_str().to_owned(), reads)
        };
        cache.begin(1, LogSeq(0));
        assert_eq!(session(1, 5, "first"), ("first".to_owned(), 1));
        assert_eq!(session(1, 5, "unread"), ("first".to_owned(), 1));
        assert_eq!(session(1, 7, "changed"), ("changed".to_owned(), 2));
        cache.begin(1, LogSeq(6));
        assert_eq!(session(1, 7, "unread"), ("changed".to_owned(), 2));
        cache.begin(1, LogSeq(7));
        assert!(cache.known().documents.is_empty(), "the index has it");
        assert_eq!(session(2, 8, "other"), ("other".to_owned(), 3));
        cache.begin(2, LogSeq(7));
        assert_eq!(session(2, 8, "restored"), ("restored".to_owned(), 4));
        for row in 0..2 * MOST as i64 {
            session(row, 100 + row, "many");
        }
        assert!(cache.known().documents.len() <= MOST);
    }

    #[test]
    fn an_entry_without_a_document_is_read_only_once() {
        let cache = PassageCache::default();
        let entry = LogEntry { seq: LogSeq(3), key: DocumentKey { kind: DocumentKind::Activity, row: 1 } };
        assert_eq!(cache.of(entry, || Ok(None)).unwrap(), None);
        let again = cache.of(entry, || Err(StoreError::NoSuchSession));
        assert_eq!(again.unwrap(), None);
    }
}
