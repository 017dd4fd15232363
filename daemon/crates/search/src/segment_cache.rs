//! Caches facts about the segments of an index. A segment never changes, so each fact is computed once. Without the
//! cache, every search would first visit every document.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tantivy::index::SegmentId;
use tantivy::{BitSet, DocId, Opstamp, Searcher, SegmentReader};

use super::columns::Columns;
use super::filter::{by_hand, documents, of_session, passages};
use super::request::Scope;
use super::schema::Fields;
use recall_domain::ids::{ProjectKey, SessionId};

/// The number of cached sets; the least recently used is dropped. A set takes one bit per document: 64 sets of a
/// million documents are 8 MB.
const KEPT: usize = 64;

/// A set of documents over which statistics are taken.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Population {
    Documents(Scope),
    /// The passages of a project, except those of one session.
    Passages(ProjectKey, Option<SessionId>),
}

/// The cached facts about segments. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct SegmentCache(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    columns: Vec<(SegmentId, Arc<Columns>)>,
    by_hand: Vec<(SegmentId, Arc<[DocId]>)>,
    deleted: Vec<(SegmentId, Option<Opstamp>, Arc<[DocId]>)>,
    populations: VecDeque<Entry>,
}

struct Entry {
    segment: SegmentId,
    /// Deletions change the set of a segment.
    deletions: Option<Opstamp>,
    population: Population,
    documents: Option<Arc<BitSet>>,
}

impl SegmentCache {
    /// Drops segments that are no longer searched.
    pub(super) fn keep(&self, searched: &Searcher) {
        let is_searched =
            |id: SegmentId| searched.segment_readers().iter().any(|segment| segment.segment_id() == id);
        let mut kept = self.lock();
        kept.columns.retain(|(id, _)| is_searched(*id));
        kept.by_hand.retain(|(id, _)| is_searched(*id));
        kept.deleted.retain(|(id, ..)| is_searched(*id));
        kept.populations.retain(|entry| is_searched(entry.segment));
    }

    pub(super) fn columns(&self, segment: &SegmentReader) -> tantivy::Result<Arc<Columns>> {
        let id = segment.segment_id();
        if let Some((_, known)) = self.lock().columns.iter().find(|(known, _)| *known == id) {
            return Ok(known.clone());
        }
        let columns = Arc::new(Columns::open(segment)?);
        self.lock().columns.push((id, columns.clone()));
        Ok(columns)
    }

    /// Returns documents that a person wrote or pinned, in ascending order, including deleted ones and passages.
    pub(super) fn by_hand(&self, segment: &SegmentReader) -> tantivy::Result<Arc<[DocId]>> {
        let id = segment.segment_id();
        if let Some((_, known)) = self.lock().by_hand.iter().find(|(known, _)| *known == id) {
            return Ok(known.clone());
        }
        let columns = self.columns(segment)?;
        let found: Arc<[DocId]> = by_hand(segment, &columns).into();
        self.lock().by_hand.push((id, found.clone()));
        Ok(found)
    }

    /// Returns the deleted documents, in ascending order.
    pub(super) fn deleted(&self, segment: &SegmentReader) -> Arc<[DocId]> {
        let (id, deletions) = (segment.segment_id(), segment.delete_opstamp());
        let Some(alive) = segment.alive_bitset() else { return Arc::default() };
        let is_known = |known: &&(SegmentId, Option<Opstamp>, _)| known.0 == id && known.1 == deletions;
        if let Some((.., known)) = self.lock().deleted.iter().find(is_known) {
            return known.clone();
        }
        let found: Arc<[DocId]> = (0..segment.max_doc()).filter(|doc| alive.is_deleted(*doc)).collect();
        let kept = &mut self.lock().deleted;
        kept.retain(|(known, ..)| *known != id);
        kept.push((id, deletions, found.clone()));
        found
    }

    /// Returns the documents of the set that are not deleted. `None` means all.
    pub(super) fn population(
        &self,
        segment: &SegmentReader,
        fields: &Fields,
        population: &Population,
    ) -> tantivy::Result<Option<Arc<BitSet>>> {
        let (id, deletions) = (segment.segment_id(), segment.delete_opstamp());
        if let Some(known) = self.known(id, deletions, population) {
            return Ok(known);
        }
        let columns = self.columns(segment)?;
        let documents = match population {
            Population::Documents(scope) => documents(segment, &columns, scope)?.map(Arc::new),
            Population::Passages(project, None) => Some(Arc::new(passages(segment, fields, project)?)),
            Population::Passages(project, Some(session)) => {
                let project = Population::Passages(project.clone(), None);
                let all = self.population(segment, fields, &project)?;
                // Most segments contain nothing of the session, and share one set.
                let Some(own) = of_session(&columns, session)? else { return Ok(all) };
                let mut others = all;
                if let Some(others) = &mut others {
                    let others = Arc::make_mut(others);
                    (0..segment.max_doc()).filter(|doc| own.admits(*doc)).for_each(|doc| others.remove(doc));
                }
                others
            }
        };
        let entry =
            Entry { segment: id, deletions, population: population.clone(), documents: documents.clone() };
        let populations = &mut self.lock().populations;
        if populations.len() >= KEPT {
            populations.pop_front();
        }
        populations.push_back(entry);
        Ok(documents)
    }

    fn known(
        &self,
        segment: SegmentId,
        deletions: Option<Opstamp>,
        population: &Population,
    ) -> Option<Option<Arc<BitSet>>> {
        let populations = &mut self.lock().populations;
        let is_meant = |entry: &Entry| {
            entry.segment == segment && entry.deletions == deletions && entry.population == *population
        };
        let found = populations.iter().position(is_meant).and_then(|place| populations.remove(place))?;
        let documents = found.documents.clone();
        populations.push_back(found);
        Some(documents)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
