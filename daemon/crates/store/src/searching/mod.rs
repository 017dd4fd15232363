//! The source of the index and the vectors, and the search that works without an index.

pub(crate) mod documents;
pub(crate) mod plain_search;
pub(crate) mod reindex;
pub(crate) mod vectors;
