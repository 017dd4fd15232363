//! The columns of the index.

use tantivy::SegmentReader;
use tantivy::columnar::{Column, StrColumn};

use super::schema;

/// The columns of a segment. Opening them takes longer the more documents the segment has.
pub(crate) struct Columns {
    pub traits: Column<u64>,
    pub at: Column<i64>,
    pub row: Column<i64>,
    /// The same number for all documents of a session, in every segment.
    pub conversation: Column<u64>,
    /// The number of a passage. Other documents have no value here.
    pub part: Column<u64>,
    pub session: Option<StrColumn>,
}

impl Columns {
    pub(super) fn open(segment: &SegmentReader) -> tantivy::Result<Self> {
        let columns = segment.fast_fields();
        Ok(Self {
            traits: columns.u64(schema::TRAITS)?,
            at: columns.i64(schema::AT)?,
            row: columns.i64(schema::ROW)?,
            conversation: columns.u64(schema::CONVERSATION)?,
            part: columns.u64(schema::PART)?,
            session: columns.str(schema::SESSION)?,
        })
    }

    /// The number of passages, including deleted ones.
    pub(crate) fn passages(&self) -> u32 {
        self.part.values.num_vals()
    }
}
