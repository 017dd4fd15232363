//! One segment of the index, prepared for a request.

use std::sync::Arc;

use tantivy::{BitSet, DocId, Searcher, SegmentReader};

use super::columns::Columns;
use super::filter::{ConditionBuilder, Conditions};
use super::request::{SearchRequest, SourceScore};
use super::schema::{Fields, PackedTraits};
use super::segment_cache::{Population, SegmentCache};
use super::source::Candidate;
use super::sums::Counted;
use recall_domain::document::DocumentKey;
use recall_domain::ids::Timestamp;
use recall_domain::ranking::DocumentTraits;

/// A segment with the columns that a request needs.
pub(super) struct Segment<'a> {
    pub(super) reader: &'a SegmentReader,
    /// The documents in scope. `None` means all.
    pub(super) population: Option<Arc<BitSet>>,
    deleted: Arc<[DocId]>,
    pub(super) conditions: Conditions,
    /// The documents in scope that a person wrote or pinned.
    pub(super) by_hand: Arc<[DocId]>,
    columns: Arc<Columns>,
}

impl<'a> Segment<'a> {
    pub(super) fn open_all(
        searcher: &'a Searcher,
        fields: &Fields,
        cache: &SegmentCache,
        request: &SearchRequest,
    ) -> tantivy::Result<Vec<Self>> {
        let conditions = ConditionBuilder { searcher, fields, request };
        let scope = Population::Documents(request.scope.clone());
        let mut segments = Vec::new();
        for reader in searcher.segment_readers() {
            segments.push(Self {
                reader,
                population: cache.population(reader, fields, &scope)?,
                deleted: cache.deleted(reader),
                conditions: conditions.build(reader)?,
                by_hand: cache.by_hand(reader)?,
                columns: cache.columns(reader)?,
            });
        }
        Ok(segments)
    }

    pub(super) fn holds(&self, doc: DocId) -> bool {
        self.population.as_ref().is_none_or(|docs| docs.contains(doc))
    }

    pub(super) fn counted(&self) -> Counted {
        Counted { documents: self.population.clone(), deleted: self.deleted.clone() }
    }

    /// The number of documents that are not passages, including deleted ones.
    pub(super) fn with_text(&self) -> u32 {
        self.reader.max_doc() - self.columns.passages()
    }

    pub(super) fn at(&self, doc: DocId) -> Timestamp {
        Timestamp(self.columns.at.first(doc).unwrap_or_default())
    }

    pub(super) fn traits(&self, doc: DocId, now: Timestamp) -> DocumentTraits {
        let packed = PackedTraits(self.columns.traits.first(doc).unwrap_or_default());
        DocumentTraits {
            kind: packed.kind(),
            status: packed.status(),
            importance: packed.importance(),
            maker: packed.maker(),
            age: now.since(self.at(doc)),
        }
    }

    /// Builds the candidate. `None` if a column has no value, which never happens for our documents.
    pub(super) fn candidate(&self, doc: DocId, now: Timestamp, part: SourceScore) -> Option<Candidate> {
        let traits = self.traits(doc, now);
        Some(Candidate {
            key: DocumentKey { kind: traits.kind, row: self.columns.row.first(doc)? },
            at: self.at(doc),
            conversation: self.columns.conversation.first(doc)?,
            traits,
            part,
        })
    }
}
