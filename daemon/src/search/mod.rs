//! Finding things again: the tantivy index over everything the store holds.
//!
//! The index is derived. It can be thrown away at any time and rebuilt from the store, and whatever is wrong with
//! it on disk is answered with "rebuild", never with a crash. It stores no text: a hit is a key, and what is shown
//! is read from the store.
//!
//! tantivy provides the files, the dictionaries and the posting lists. What a match is worth is decided here and
//! in [`crate::memory::ranking`], because a memory's score has to mean the same in a project of fifty documents and
//! in one of fifty thousand: statistics are taken inside the asked scope, and one pass over the posting lists
//! yields score, coverage and total at once.
//!
//! **Invariant:** nothing here is a source of truth, and nothing here reads the clock: `now` is in the request.

pub mod index;
pub mod query;
pub mod request;
pub mod snippet;
pub mod tokenizer;
pub mod vocabulary;

mod evaluate;
mod filter;
mod merging;
mod proximity;
mod schema;
mod terms;

pub use index::{Index, Opened, Writer};
pub use query::Query;
pub use request::{Hit, Hits, Request, Scope};
pub use schema::SCHEMA_VERSION;
pub use snippet::snippet;
