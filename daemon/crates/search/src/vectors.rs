//! The vectors of passages for comparison: records of equal length in memory or in a mapped file. A search compares all
//! of them, which takes milliseconds and misses nothing.

use std::sync::Arc;

use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::VectorId;
use recall_domain::passage::PassageKey;
use recall_embedding::Compared;

use super::vector_file::VectorFile;
use super::vector_record::{HEAD, key_of, record_bytes, records_of};

/// The vectors of one or more projects. Cheap to clone.
#[derive(Clone, Default)]
pub struct Vectors {
    dimensions: usize,
    blocks: Vec<Block>,
}

/// Records ordered by id.
#[derive(Clone)]
struct Block {
    records: Records,
    /// The ids of removed records, ascending.
    gone: Arc<[VectorId]>,
}

#[derive(Clone)]
enum Records {
    Mapped(Arc<VectorFile>),
    Own(Arc<Vec<u8>>),
}

impl Vectors {
    pub fn new(dimensions: usize) -> Self {
        Self { dimensions, blocks: Vec::new() }
    }

    /// Adds the packed vectors of a document's passages. They may arrive one by one.
    pub fn add(&mut self, document: DocumentKey, packed: &[u8]) {
        let mut records = match self.blocks.pop() {
            Some(Block { records: Records::Own(records), .. }) => records,
            Some(other) => {
                self.blocks.push(other);
                Arc::default()
            }
            None => Arc::default(),
        };
        let last = records.rchunks_exact(record_bytes(self.dimensions)).next().and_then(key_of);
        let part = last.filter(|last| last.document == document).map_or(0, |last| last.part + 1);
        let first = PassageKey { document, part };
        let own = Arc::make_mut(&mut records);
        own.extend(records_of(0, first, packed, self.dimensions).flatten());
        self.blocks.push(Block { records: Records::Own(records), gone: Arc::default() });
    }

    /// Adds the vectors of a file, except removed ones.
    pub fn add_file(&mut self, file: Arc<VectorFile>, gone: Arc<[VectorId]>) {
        if file.dimensions() == self.dimensions {
            self.blocks.push(Block { records: Records::Mapped(file), gone });
        }
    }

    /// Adds rows from the store, except removed ones.
    pub fn add_rows(&mut self, rows: &Rows, gone: Arc<[VectorId]>) {
        if rows.dimensions == self.dimensions {
            self.blocks.push(Block { records: Records::Own(Arc::clone(&rows.records)), gone });
        }
    }

    pub fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes().len() / record_bytes(self.dimensions)).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the cosine of each record and the question, in order. Empty if they come from different models. NaN for
    /// removed records.
    pub(super) fn values(&self, question: &Compared) -> Vec<f32> {
        if self.dimensions == 0 || question.dimensions() != self.dimensions {
            return Vec::new();
        }
        let mut all = Vec::with_capacity(self.len());
        for block in &self.blocks {
            let mut cosines = question.cosines(block.bytes(), HEAD);
            block.forget_gone(&mut cosines, record_bytes(self.dimensions));
            all.append(&mut cosines);
        }
        all
    }

    /// Returns the passage of each record, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = PassageKey> {
        let length = record_bytes(self.dimensions);
        let records = self.blocks.iter().flat_map(move |block| block.bytes().chunks_exact(length));
        records.map(|record| key_of(record).unwrap_or(NO_PASSAGE))
    }

    /// Returns the passage of one record.
    pub(super) fn key(&self, mut number: usize) -> Option<PassageKey> {
        let length = record_bytes(self.dimensions);
        for block in &self.blocks {
            let count = block.bytes().len() / length;
            if number < count {
                return key_of(block.bytes().get(number * length..)?);
            }
            number -= count;
        }
        None
    }
}

/// The key of an unreadable record.
const NO_PASSAGE: PassageKey =
    PassageKey { document: DocumentKey { kind: DocumentKind::Observation, row: 0 }, part: 0 };

impl Block {
    fn bytes(&self) -> &[u8] {
        match &self.records {
            Records::Mapped(file) => file.records(),
            Records::Own(records) => records,
        }
    }

    fn forget_gone(&self, cosines: &mut [f32], length: usize) {
        let mut gone = self.gone.iter().copied().peekable();
        if gone.peek().is_none() {
            return;
        }
        for (record, cosine) in self.bytes().chunks_exact(length).zip(cosines) {
            let Some(id) = record.first_chunk().map(|id| VectorId(i64::from_le_bytes(*id))) else { return };
            while gone.next_if(|gone| *gone < id).is_some() {}
            match gone.peek() {
                Some(gone) if *gone == id => *cosine = f32::NAN,
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// Rows from the store, as records. Cheap to clone.
#[derive(Clone, Default)]
pub struct Rows {
    pub(crate) dimensions: usize,
    records: Arc<Vec<u8>>,
}

impl Rows {
    /// Adds a row. Its id must be greater than all earlier ones. A row with other dimensions is skipped.
    pub fn add(&mut self, id: VectorId, document: DocumentKey, dimensions: usize, packed: &[u8]) {
        if self.records.is_empty() {
            self.dimensions = dimensions;
        }
        if dimensions == self.dimensions && dimensions > 0 {
            let first = PassageKey { document, part: 0 };
            Arc::make_mut(&mut self.records).extend(records_of(id.0, first, packed, dimensions).flatten());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_embedding::pack;

    fn key(row: i64) -> DocumentKey {
        DocumentKey { kind: DocumentKind::Response, row }
    }

    #[test]
    fn each_vector_names_its_document_and_part() {
        let mut vectors = Vectors::new(2);
        vectors.add(key(-3), &[pack(&[0.0, 1.0]), pack(&[1.0, 0.0])].concat());
        vectors.add(key(-3), &pack(&[1.0, 0.0]));
        vectors.add(key(7), &[]);
        vectors.add(key(9), &pack(&[1.0, 0.0]));
        let keys: Vec<_> = vectors.keys().map(|key| (key.document.row, key.part)).collect();
        assert_eq!(keys, [(-3, 0), (-3, 1), (-3, 2), (9, 0)]);
        let one_by_one: Vec<_> = (0..5).map(|number| vectors.key(number)).collect();
        let all: Vec<_> = vectors.keys().map(Some).chain([None]).collect();
        assert_eq!((one_by_one, vectors.len(), vectors.is_empty()), (all, 4, false));
    }

    #[test]
    fn removed_vectors_have_no_similarity() {
        let mut rows = Rows::default();
        for id in [2, 4, 6, 8] {
            rows.add(VectorId(id), key(id), 2, &[pack(&[1.0, 0.0]), pack(&[1.0, 0.0])].concat());
        }
        rows.add(VectorId(9), key(9), 3, &pack(&[1.0, 0.0, 0.0]));
        let left = |gone: &[i64]| -> Vec<i64> {
            let mut vectors = Vectors::new(2);
            vectors.add_rows(&rows, gone.iter().copied().map(VectorId).collect());
            vectors.add_rows(&Rows::default(), Arc::default());
            let cosines = vectors.values(&Compared::new(&[1.0, 0.0]));
            assert_eq!(cosines.len(), 8);
            let left = vectors.keys().zip(cosines).filter(|(_, cosine)| !cosine.is_nan());
            left.map(|(key, _)| key.document.row).collect()
        };
        assert_eq!(left(&[]), [2, 2, 4, 4, 6, 6, 8, 8]);
        assert_eq!(left(&[1, 2, 3, 6, 7, 99]), [4, 4, 8, 8]);
        assert!(left(&[2, 4, 6, 8]).is_empty());
    }
}
