//! Reads rows as values. A [`record!`] names the column of each field, so the column list and the reading code cannot
//! diverge. [`Sql`] runs a statement and reads its rows.
//!
//! Values are read by position, because looking up a column by name costs more than reading it.
//!
//! A foreign database may contain values of the wrong type or size. Such a value is read as the nearest valid one, or
//! as missing, so that one bad row does not block the others. `portable/damaged.rs` lists such rows.

use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{CachedStatement, Connection, Params, Row};

use crate::database::text::Unpacked;
use crate::{SqliteError, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind, Status};
use recall_domain::ids::{EventId, SessionKey, Timestamp};
use recall_domain::material::BatchSource;
use recall_domain::observation::{Importance, ObservationType};
use recall_domain::order::Order;
use recall_domain::plan::{PlanKind, PlanStage};
use recall_domain::session::{ActivityKind, BatchState, SessionStatus};

/// A value read from one or more columns.
pub(crate) trait FromRow: Sized {
    const WIDTH: usize = 1;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self>;

    /// Whether there is a value at all.
    fn is_there(value: ValueRef<'_>) -> bool {
        value != ValueRef::Null
    }
}

/// Reads single values of a row that is not a [`record!`].
pub(crate) trait Cells {
    fn cell<T: FromRow>(&self, at: usize) -> rusqlite::Result<T>;
}

impl Cells for Row<'_> {
    fn cell<T: FromRow>(&self, at: usize) -> rusqlite::Result<T> {
        T::from_row(self, at)
    }
}

/// Runs statements. Each is prepared once per connection.
pub(crate) trait Sql {
    fn run(&self, sql: &str, given: impl Params) -> Result<(), StoreError>;
    /// Like [`Sql::run`]; returns the number of changed rows.
    fn update(&self, sql: &str, given: impl Params) -> Result<usize, StoreError>;
    fn all<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<Vec<T>, StoreError>;
    /// Visits the rows one by one, where all of them may be too many for the memory.
    fn each<T: FromRow>(
        &self,
        sql: &str,
        given: impl Params,
        mut visit: impl FnMut(T),
    ) -> Result<(), StoreError> {
        self.try_each(sql, given, |row| {
            visit(row);
            Ok(())
        })
    }
    /// Like [`Sql::each`]; stops at the first error.
    fn try_each<T: FromRow>(
        &self,
        sql: &str,
        given: impl Params,
        visit: impl FnMut(T) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;
    /// Returns the first row, if any.
    fn first<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<Option<T>, StoreError>;
    /// Returns the first row. A missing row is an error.
    fn one<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<T, StoreError>;
}

impl Sql for Connection {
    fn run(&self, sql: &str, given: impl Params) -> Result<(), StoreError> {
        self.update(sql, given).map(drop)
    }

    fn update(&self, sql: &str, given: impl Params) -> Result<usize, StoreError> {
        let run = |mut statement: CachedStatement<'_>| statement.execute(given);
        Ok(self.prepare_cached(sql).and_then(run).map_err(SqliteError)?)
    }

    fn all<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<Vec<T>, StoreError> {
        let read = |mut statement: CachedStatement<'_>| {
            statement.query_map(given, |row| T::from_row(row, 0))?.collect()
        };
        Ok(self.prepare_cached(sql).and_then(read).map_err(SqliteError)?)
    }

    fn try_each<T: FromRow>(
        &self,
        sql: &str,
        given: impl Params,
        mut visit: impl FnMut(T) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut statement = self.prepare_cached(sql).map_err(SqliteError)?;
        for row in statement.query_map(given, |row| T::from_row(row, 0)).map_err(SqliteError)? {
            visit(row.map_err(SqliteError)?)?;
        }
        Ok(())
    }

    fn first<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<Option<T>, StoreError> {
        match self.one(sql, given) {
            Err(error) if error.is_missing_row() => Ok(None),
            found => found.map(Some),
        }
    }

    fn one<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<T, StoreError> {
        let read = |mut statement: CachedStatement<'_>| statement.query_row(given, |row| T::from_row(row, 0));
        Ok(self.prepare_cached(sql).and_then(read).map_err(SqliteError)?)
    }
}

/// Defines a struct with its `SELECT`: `struct Name from "tables" { field: Type = "column", ... }`. A field that is
/// read from several columns names all of them.
macro_rules! record {
    ($(#[$meta:meta])* $vis:vis struct $name:ident from $source:literal {
        $(#[$first_doc:meta])* $first_vis:vis $first:ident: $first_type:ty = $first_column:literal
        $(, $(#[$doc:meta])* $field_vis:vis $field:ident: $type:ty = $column:literal)* $(,)?
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $(#[$first_doc])* $first_vis $first: $first_type,
            $($(#[$doc])* $field_vis $field: $type,)*
        }

        impl $name {
            pub(crate) const SELECT: &str =
                concat!("SELECT ", $first_column, $(", ", $column,)* " FROM ", $source);
        }

        impl $crate::database::row::FromRow for $name {
            const WIDTH: usize = <$first_type as $crate::database::row::FromRow>::WIDTH
                $(+ <$type as $crate::database::row::FromRow>::WIDTH)*;

            #[allow(unused_assignments, reason = "the last field moves the position, too")]
            fn from_row(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Self> {
                let mut at = first;
                let $first = $crate::database::row::next(row, &mut at)?;
                $(let $field = $crate::database::row::next(row, &mut at)?;)*
                Ok(Self { $first, $($field,)* })
            }
        }
    };
}
pub(crate) use record;

/// Reads the value at this position and advances the position.
pub(crate) fn next<T: FromRow>(row: &Row<'_>, at: &mut usize) -> rusqlite::Result<T> {
    let value = T::from_row(row, *at)?;
    *at += T::WIDTH;
    Ok(value)
}

/// Larger numbers are not real counts, and would overflow later sums.
pub(crate) const MOST: u32 = i32::MAX as u32;
/// The last millisecond of the year 9999. Also the limit before 1970.
pub(crate) const LATEST_MS: i64 = 253_402_300_799_999;

fn number(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Integer(number) => number,
        #[allow(clippy::cast_possible_truncation, reason = "the nearest number is meant")]
        ValueRef::Real(number) => number as i64,
        ValueRef::Text(_) | ValueRef::Blob(_) | ValueRef::Null => 0,
    }
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        // For valid text, `from_utf8_lossy` costs ten times as much.
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(text).into_owned(),
        },
        ValueRef::Blob(_) => Unpacked::column_result(value).map_or_else(|_| String::new(), |text| text.0),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Null => String::new(),
    }
}

impl FromRow for i64 {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        row.get_ref(first).map(number)
    }
}

impl FromRow for u32 {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        let number = row.get_ref(first).map(number)?;
        Ok(Self::try_from(number.clamp(0, MOST.into())).unwrap_or(MOST))
    }
}

impl FromRow for u8 {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(Self::try_from(row.get_ref(first).map(number)?.clamp(0, 255)).unwrap_or(Self::MAX))
    }
}

impl FromRow for bool {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(row.get_ref(first).map(number)? != 0)
    }
}

/// Reads an id or a hash. Bytes of another length count as missing.
impl FromRow for [u8; 16] {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        let bytes = row.get_ref(first)?.as_blob().unwrap_or_default();
        Ok(bytes.try_into().unwrap_or_default())
    }

    fn is_there(value: ValueRef<'_>) -> bool {
        value.as_blob().is_ok_and(|bytes| bytes.len() == 16)
    }
}

impl FromRow for Vec<u8> {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(row.get_ref(first)?.as_bytes().unwrap_or_default().to_vec())
    }
}

impl FromRow for EventId {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        FromRow::from_row(row, first).map(Self)
    }

    fn is_there(value: ValueRef<'_>) -> bool {
        <[u8; 16]>::is_there(value)
    }
}

impl FromRow for Timestamp {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(Self(row.get_ref(first).map(number)?.clamp(-LATEST_MS, LATEST_MS)))
    }
}

/// Reads a text, decompressing it if necessary.
impl FromRow for String {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        row.get_ref(first).map(text)
    }
}

/// Reads an unsigned integer, which SQLite lacks.
impl FromRow for u64 {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(Self::try_from(row.get_ref(first).map(number)?).unwrap_or(0))
    }
}

/// Reads `None` if the first column has no value.
impl<T: FromRow> FromRow for Option<T> {
    const WIDTH: usize = T::WIDTH;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        let is_there = row.get_ref(first).map(T::is_there)?;
        if is_there { T::from_row(row, first).map(Some) } else { Ok(None) }
    }
}

/// Reads JSON arrays. Elements of another type are skipped.
macro_rules! lists {
    ($($item:ty),+) => {$(
        impl FromRow for Vec<$item> {
            fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
                let written = text(row.get_ref(first)?);
                let elements = |_| serde_json::from_str(&written).map(|elements: Vec<serde_json::Value>| {
                    let read = |element| serde_json::from_value::<$item>(element).ok();
                    elements.into_iter().filter_map(read).collect()
                });
                Ok(serde_json::from_str(&written).or_else(elements).unwrap_or_default())
            }
        }
    )+};
}

lists!(String, u32);

macro_rules! tuple {
    ($($name:ident)+) => {
        impl<$($name: FromRow),+> FromRow for ($($name,)+) {
            const WIDTH: usize = 0 $(+ $name::WIDTH)+;

            fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
                let mut at = first;
                Ok(($(next::<$name>(row, &mut at)?,)+))
            }
        }
    };
}

tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);

/// Reads the agent's name and the session's id.
impl FromRow for SessionKey {
    const WIDTH: usize = 2;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        FromRow::from_row(row, first).map(|(agent, id)| Self { agent, id })
    }
}

/// Reads the kind of a document and its row.
impl FromRow for DocumentKey {
    const WIDTH: usize = 2;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        FromRow::from_row(row, first).map(|(kind, row)| Self { kind, row })
    }
}

/// Reads when an event was captured: `boot_id`, `boot_ns`, `captured_at` of its delivery.
impl FromRow for Order {
    const WIDTH: usize = 3;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        FromRow::from_row(row, first).map(|(boot, boot_ns, wall)| Self { boot, boot_ns, wall })
    }
}

/// Reads enums by their stored names. An unknown name becomes the most harmless value.
macro_rules! stored_names {
    ($($name:ident else $unknown:expr),+ $(,)?) => {$(
        impl FromRow for $name {
            fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
                let written = row.get_ref(first)?;
                Ok(written.as_str().ok().and_then($name::parse).unwrap_or($unknown))
            }
        }
    )+};
}

pub(crate) use stored_names;

stored_names! {
    ObservationType else ObservationType::Change,
    Status else Status::default(),
    BatchSource else BatchSource::default(),
    DocumentKind else DocumentKind::Observation,
    SessionStatus else SessionStatus::default(),
    BatchState else BatchState::Closed,
    ActivityKind else ActivityKind::Other,
    PlanKind else PlanKind::Plan,
    PlanStage else PlanStage::Draft,
}

impl FromRow for Importance {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        row.get_ref(first).map(number).map(Self::clamped)
    }
}
