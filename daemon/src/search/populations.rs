//! Which documents of a segment count for a request. A segment never changes, so this is found out once and kept: a
//! search would otherwise look at every document of the memory before it looks at its words.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tantivy::index::SegmentId;
use tantivy::{BitSet, Opstamp, SegmentReader};

use super::filter::{documents, of_session, passages};
use super::request::Scope;
use super::schema::Fields;
use crate::memory::ids::{ProjectKey, SessionId};

/// The sets that are kept, the last used last. One bit a document: 64 of a million documents are 8 MB.
const KEPT: usize = 64;

/// Documents of the index that count together.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Population {
    Documents(Scope),
    /// The passages of a project, without those of a session.
    Passages(ProjectKey, Option<SessionId>),
}

/// The documents of segments by population. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Populations(Arc<Mutex<VecDeque<Entry>>>);

struct Entry {
    segment: SegmentId,
    /// Deletions make another set of the same segment.
    deletions: Option<Opstamp>,
    population: Population,
    documents: Option<Arc<BitSet>>,
}

impl Populations {
    /// Those documents of the segment that are not deleted. `None` means all.
    pub(super) fn of(
        &self,
        segment: &SegmentReader,
        fields: &Fields,
        population: &Population,
    ) -> tantivy::Result<Option<Arc<BitSet>>> {
        let (id, deletions) = (segment.segment_id(), segment.delete_opstamp());
        if let Some(known) = self.known(id, deletions, population) {
            return Ok(known);
        }
        let documents = match population {
            Population::Documents(scope) => documents(segment, scope)?.map(Arc::new),
            Population::Passages(project, None) => Some(Arc::new(passages(segment, fields, project)?)),
            Population::Passages(project, Some(session)) => {
                let all = self.of(segment, fields, &Population::Passages(project.clone(), None))?;
                // Most segments have nothing of a session, and one set for all of those is enough.
                let Some(own) = of_session(segment, session)? else { return Ok(all) };
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
        population: &Population,
    ) -> Option<Option<Arc<BitSet>>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_meant = |entry: &Entry| {
            entry.segment == segment && entry.deletions == deletions && entry.population == *population
        };
        let found = entries.iter().position(is_meant).and_then(|place| entries.remove(place))?;
        let documents = found.documents.clone();
        entries.push_back(found);
        Some(documents)
    }
}
