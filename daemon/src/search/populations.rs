//! Which documents of a segment are in a scope. A segment never changes, so this is counted once and kept: a search would
//! otherwise look at every document of the memory before it looks at its words.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tantivy::index::SegmentId;
use tantivy::{BitSet, Opstamp, SegmentReader};

use super::filter::population;
use super::request::Scope;

/// The sets that are kept, the last used last. One bit a document: 64 of a million documents are 8 MB.
const KEPT: usize = 64;

/// The documents of segments by scope. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Populations(Arc<Mutex<VecDeque<Entry>>>);

struct Entry {
    segment: SegmentId,
    /// Deletions make another set of the same segment.
    deletions: Option<Opstamp>,
    scope: Scope,
    documents: Option<Arc<BitSet>>,
}

impl Populations {
    /// The documents that are in scope and not deleted. `None` means all.
    pub(super) fn of(&self, segment: &SegmentReader, scope: &Scope) -> tantivy::Result<Option<Arc<BitSet>>> {
        let (id, deletions) = (segment.segment_id(), segment.delete_opstamp());
        if let Some(known) = self.known(id, deletions, scope) {
            return Ok(known);
        }
        let documents = population(segment, scope)?.map(Arc::new);
        let entry = Entry { segment: id, deletions, scope: scope.clone(), documents: documents.clone() };
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= KEPT {
            entries.pop_front();
        }
        entries.push_back(entry);
        Ok(documents)
    }

    fn known(
        &self,
        segment: SegmentId,
        deletions: Option<Opstamp>,
        scope: &Scope,
    ) -> Option<Option<Arc<BitSet>>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_meant =
            |entry: &Entry| entry.segment == segment && entry.deletions == deletions && entry.scope == *scope;
        let found = entries.iter().position(is_meant).and_then(|place| entries.remove(place))?;
        let documents = found.documents.clone();
        entries.push_back(found);
        Some(documents)
    }
}
