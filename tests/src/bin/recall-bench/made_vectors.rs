//! Makes random vectors for a generated memory.
//!
//! A sentence model takes half an hour for a hundred thousand texts. A search compares all vectors, so its time does
//! not depend on their values.

use std::path::Path;

use recall_embedding::{Model, pack};
use recall_protocol::paths::Paths;
use recall_store::{Changes, Readers, StoreVectors, StoreWriter};

use crate::Random;

/// The number of documents in one transaction.
const AT_ONCE: u32 = 2_000;

/// Gives each document without a vector one with the length of this model's vectors.
pub(crate) fn make(paths: &Paths, connection: &StoreWriter, model: &Path) {
    let facts = Model::open(model).unwrap().facts();
    let readers = Readers::new(&paths.database());
    let mut random = Random(11);
    loop {
        let keys = readers.read(|db| db.documents_without_vectors(&facts.hash.0, AT_ONCE)).unwrap();
        if keys.is_empty() {
            return;
        }
        connection.begin().unwrap();
        for key in keys {
            let seen = readers.read(|db| db.load_document(key)).unwrap().unwrap();
            let vector: Vec<f32> =
                (0..facts.dimensions).map(|_| (random.next() % 255) as f32 - 127.0).collect();
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            let unit: Vec<f32> = vector.iter().map(|value| value / length).collect();
            let dimensions = u32::try_from(facts.dimensions).unwrap();
            let operation = StoreVectors { key, seen, model: facts.hash.0, dimensions, packed: pack(&unit) };
            connection.execute(operation, &mut Changes::default()).unwrap();
        }
        connection.commit(&Changes::default()).unwrap();
    }
}
