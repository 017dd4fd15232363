//! A read-only connection, with one method per question. The methods are next to what they read.

use rusqlite::Connection;

/// A read-only connection. Two questions may see different states of the database, except in
/// [`Readers::read_one_state`](crate::Readers::read_one_state).
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub(crate) &'a Connection);
