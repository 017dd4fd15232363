//! A connection that may only read, with one method for each question. The methods are beside what they read.

use rusqlite::Connection;

/// A connection that may only read. Two questions may see two states of the database, except in
/// [`Readers::read_one_state`](crate::Readers::read_one_state).
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub(crate) &'a Connection);
