//! What is asked of the index and what it answers.

use jiff::tz::TimeZone;

use crate::memory::document::{DocumentKey, DocumentKind};
use crate::memory::ids::{ProjectKey, Timestamp};
use crate::memory::ranking::Factors;

use super::query::Query;

/// A search.
#[derive(Clone, Debug)]
pub struct Request {
    pub query: Query,
    pub scope: Scope,
    /// Empty means every kind.
    pub kinds: Vec<DocumentKind>,
    /// Nothing older, whatever the query says.
    pub since: Option<Timestamp>,
    /// At most this many hits; never more than [`Request::MOST_HITS`].
    pub limit: usize,
    pub now: Timestamp,
    /// Where days begin for `since:`.
    pub zone: TimeZone,
}

impl Request {
    /// The most hits of one search.
    pub const MOST_HITS: usize = 1_000;

    /// Ten hits of every kind from all projects, in UTC.
    pub fn new(query: Query, now: Timestamp) -> Self {
        Self {
            query,
            scope: Scope::Everything,
            kinds: Vec::new(),
            since: None,
            limit: 10,
            now,
            zone: TimeZone::UTC,
        }
    }
}

/// Whose memory is searched. Words are counted inside the scope: what is rare in one project may be on every line of
/// another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Everything,
    Project(ProjectKey),
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hits {
    /// Best first.
    pub hits: Vec<Hit>,
    /// How many documents match, shown or not.
    pub total: usize,
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub key: DocumentKey,
    pub at: Timestamp,
    pub score: f32,
    /// How surely it is about what was asked, 0 to 1, comparable between searches: see
    /// [`crate::memory::ranking::relevance`].
    pub relevance: f32,
    /// The score taken apart.
    pub factors: Factors,
    /// The query's terms it has, as they are indexed.
    pub matched: Vec<String>,
}
