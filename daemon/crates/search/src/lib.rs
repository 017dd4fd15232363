//! Search: the tantivy index over everything in the store, and the fusion of all sources of candidates.
//!
//! A [`source::CandidateSource`] finds candidates: the index by words, [`meaning`] by vectors. [`fusion`] combines
//! them into hits of a search, or into passages for a prompt, which learned models then judge.
//!
//! The index has no data of its own: it can be deleted at any time and rebuilt from the store. Damage on disk leads to
//! a rebuild, never to a crash. The index stores no text: a hit is a key, and its text is read from the store.
//!
//! tantivy provides the files, the dictionaries and the posting lists. Scores are computed here and in
//! [`recall_domain::ranking`], because they must mean the same in a project of fifty documents and one of fifty
//! thousand. Statistics are taken inside the requested scope, and a single pass over the posting lists yields score,
//! coverage and total.
//!
//! **Invariant:** nothing here is a source of truth, and nothing here reads the clock: the request contains `now`.

pub mod fresh;
pub mod fresh_passages;
pub(crate) mod fusion;
pub mod index;
pub mod meaning;
pub mod query;
pub mod request;
pub mod snippet;
pub mod source;
pub mod edit_distance;
mod segment;
mod segment_cache;
mod spelling;
pub mod tokenizer;
pub mod vector_file;
pub mod vocabulary;

#[cfg(test)]
mod cases;
mod columns;
mod directory;
mod error;
mod evaluate;
mod filter;
mod long_text;
mod merging;
mod near_words;
mod passages;
mod proximity;
mod schema;
mod sums;
mod terms;
mod vector_record;
pub mod vectors;
mod weights;

pub use error::IndexError;
pub use fresh::{Current, Fresh};
pub use fresh_passages::{FreshDocument, FreshPassages};
pub use fusion::{other_sources, search, search_passages};
pub use index::{Index, Opened, Writer};
pub use passages::PassageRequest;
pub use query::Query;
pub use request::{Hit, Hits, Scope, SearchRequest};
pub use snippet::snippet;
pub use terms::subjects;
