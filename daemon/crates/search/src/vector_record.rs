//! The binary form of a passage's vector: records of equal length, in files and in memory.

use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::passage::PassageKey;
use recall_embedding::packed_bytes;

/// The number of bytes before a record's packed vector: the id of the stored row, the document's row, its kind, and
/// the passage's number.
pub(super) const HEAD: usize = 20;

/// The size of a record in bytes.
pub(super) const fn record_bytes(dimensions: usize) -> usize {
    HEAD + packed_bytes(dimensions)
}

/// Builds the records of a document's passages, stored under `id`.
pub(super) fn records_of(
    id: i64,
    first: PassageKey,
    packed: &[u8],
    dimensions: usize,
) -> impl Iterator<Item = Vec<u8>> {
    packed.chunks_exact(packed_bytes(dimensions)).zip(first.part..).map(move |(packed, part)| {
        let kind = first.document.kind.letter() as u8;
        let [low, middle, high, _] = part.to_le_bytes();
        let (id, row) = (id.to_le_bytes(), first.document.row.to_le_bytes());
        [&id[..], &row[..], &[kind, low, middle, high], packed].concat()
    })
}

/// Returns the passage of a record.
pub(super) fn key_of(record: &[u8]) -> Option<PassageKey> {
    let (row, rest) = record.get(8..)?.split_first_chunk()?;
    let ([letter, low, middle, high], _) = rest.split_first_chunk()?;
    let letter = char::from(*letter);
    let (kind, ..) = *DocumentKind::ALL.iter().find(|(.., known)| *known == letter)?;
    let document = DocumentKey { kind, row: i64::from_le_bytes(*row) };
    Some(PassageKey { document, part: u32::from_le_bytes([*low, *middle, *high, 0]) })
}
