//! One segment of the index, as a request sees it.

use std::sync::Arc;

use tantivy::columnar::Column;
use tantivy::{BitSet, DocId, Searcher, SegmentReader};

use super::filter::{ConditionBuilder, Conditions};
use super::populations::{Population, Populations};
use super::request::Request;
use super::schema::{self, Fields, PackedTraits};
use super::source::{Candidate, Part};
use crate::memory::document::DocumentKey;
use crate::memory::ids::Timestamp;
use crate::memory::ranking::DocumentTraits;

/// A segment with the columns that a request needs.
pub(super) struct Segment<'a> {
    pub(super) reader: &'a SegmentReader,
    /// The documents in scope. `None` means all.
    pub(super) population: Option<Arc<BitSet>>,
    pub(super) conditions: Conditions,
    traits: Column<u64>,
    at: Column<i64>,
    row: Column<i64>,
    /// The same number for all documents of a session, in every segment.
    conversation: Column<u64>,
}

impl<'a> Segment<'a> {
    pub(super) fn open_all(
        searcher: &'a Searcher,
        (fields, populations): (&Fields, &Populations),
        request: &Request,
    ) -> tantivy::Result<Vec<Self>> {
        let conditions = ConditionBuilder { searcher, fields, request };
        let scope = Population::Documents(request.scope.clone());
        let mut segments = Vec::new();
        for reader in searcher.segment_readers() {
            let columns = reader.fast_fields();
            segments.push(Self {
                reader,
                population: populations.of(reader, fields, &scope)?,
                conditions: conditions.build(reader)?,
                traits: columns.u64(schema::TRAITS)?,
                at: columns.i64(schema::AT)?,
                row: columns.i64(schema::ROW)?,
                conversation: columns.u64(schema::CONVERSATION)?,
            });
        }
        Ok(segments)
    }

    pub(super) fn holds(&self, doc: DocId) -> bool {
        self.population.as_ref().is_none_or(|docs| docs.contains(doc))
    }

    pub(super) fn at(&self, doc: DocId) -> Timestamp {
        Timestamp(self.at.first(doc).unwrap_or_default())
    }

    pub(super) fn traits(&self, doc: DocId, now: Timestamp) -> DocumentTraits {
        let packed = PackedTraits(self.traits.first(doc).unwrap_or_default());
        DocumentTraits {
            kind: packed.kind(),
            status: packed.status(),
            importance: packed.importance(),
            age: now.since(self.at(doc)),
        }
    }

    /// `None`: a column has no value, which no document of ours lacks.
    pub(super) fn candidate(&self, doc: DocId, now: Timestamp, part: Part) -> Option<Candidate> {
        let traits = self.traits(doc, now);
        Some(Candidate {
            key: DocumentKey { kind: traits.kind, row: self.row.first(doc)? },
            at: self.at(doc),
            conversation: self.conversation.first(doc)?,
            traits,
            part,
        })
    }
}
