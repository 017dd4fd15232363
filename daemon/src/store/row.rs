//! Rows as values. A [`record!`] names the column of each field, so that the list of columns and the reading of a row
//! cannot differ. [`Sql`] runs a statement and reads its rows.
//!
//! Values are read by position: looking up a column by its name costs more than reading it.

use rusqlite::types::{ToSql, ToSqlOutput, Type, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::StoreError;
use super::text::Unpacked;
use crate::memory::document::{DocumentKey, DocumentKind, Status};
use crate::memory::ids::{
    ActivityId, AgentName, BatchId, BranchName, CallId, CommitId, EventId, JobId, ObservationId, PlanId,
    ProjectKey, ProjectRow, PromptId, SessionId, SessionKey, SessionRow, SummaryId, Timestamp,
};
use crate::memory::material::BatchSource;
use crate::memory::observation::{Importance, ObservationType};
use crate::memory::order::Order;

/// A value that is read from one or several columns.
pub(super) trait FromRow: Sized {
    const WIDTH: usize = 1;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self>;
}

/// Running statements. Each is prepared once for a connection.
pub(super) trait Sql {
    fn run(&self, sql: &str, given: impl Params) -> Result<(), StoreError>;
    /// As [`Sql::run`], and returns how many rows it changed.
    fn update(&self, sql: &str, given: impl Params) -> Result<usize, StoreError>;
    fn all<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<Vec<T>, StoreError>;
    /// The first row, if there is one.
    fn first<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<Option<T>, StoreError>;
    /// The first row. None is an error.
    fn one<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<T, StoreError>;
}

impl Sql for Connection {
    fn run(&self, sql: &str, given: impl Params) -> Result<(), StoreError> {
        self.update(sql, given).map(drop)
    }

    fn update(&self, sql: &str, given: impl Params) -> Result<usize, StoreError> {
        Ok(self.prepare_cached(sql)?.execute(given)?)
    }

    fn all<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<Vec<T>, StoreError> {
        let mut statement = self.prepare_cached(sql)?;
        Ok(statement.query_map(given, |row| T::from_row(row, 0))?.collect::<Result<_, _>>()?)
    }

    fn first<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<Option<T>, StoreError> {
        Ok(self.prepare_cached(sql)?.query_row(given, |row| T::from_row(row, 0)).optional()?)
    }

    fn one<T: FromRow>(&self, sql: &str, given: impl Params) -> Result<T, StoreError> {
        Ok(self.prepare_cached(sql)?.query_row(given, |row| T::from_row(row, 0))?)
    }
}

/// Defines a struct with its `SELECT`: `struct Name from "tables" { field: Type = "column", ... }`. A field whose type
/// is read from several columns names them all.
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
            pub(super) const SELECT: &str =
                concat!("SELECT ", $first_column, $(", ", $column,)* " FROM ", $source);
        }

        impl $crate::store::row::FromRow for $name {
            const WIDTH: usize = <$first_type as $crate::store::row::FromRow>::WIDTH
                $(+ <$type as $crate::store::row::FromRow>::WIDTH)*;

            #[allow(unused_assignments, reason = "the last field moves the position, too")]
            fn from_row(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Self> {
                let mut at = first;
                let $first = $crate::store::row::next(row, &mut at)?;
                $(let $field = $crate::store::row::next(row, &mut at)?;)*
                Ok(Self { $first, $($field,)* })
            }
        }
    };
}
pub(super) use record;

/// Reads the value at this position, and moves behind it.
pub(super) fn next<T: FromRow>(row: &Row<'_>, at: &mut usize) -> rusqlite::Result<T> {
    let value = T::from_row(row, *at)?;
    *at += T::WIDTH;
    Ok(value)
}

macro_rules! plain {
    ($($type:ty),+) => {$(
        impl FromRow for $type {
            fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
                row.get(first)
            }
        }
    )+};
}

plain!(i64, u32, u8, bool, [u8; 16], Vec<u8>);

/// Newtypes, in both directions.
macro_rules! newtypes {
    ($($name:ident: $inner:ty),+ $(,)?) => {$(
        impl FromRow for $name {
            fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
                <$inner>::from_row(row, first).map($name)
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                self.0.to_sql()
            }
        }
    )+};
}

newtypes! {
    Timestamp: i64,
    SessionRow: i64,
    BatchId: i64,
    ActivityId: i64,
    ObservationId: i64,
    SummaryId: i64,
    PlanId: i64,
    JobId: i64,
    ProjectRow: i64,
    AgentName: String,
    SessionId: String,
    PromptId: String,
    CallId: String,
    BranchName: String,
    CommitId: String,
    ProjectKey: String,
}

impl FromRow for EventId {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        row.get(first).map(Self)
    }
}

/// A text, decompressed if it is stored compressed.
impl FromRow for String {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        row.get::<_, Unpacked>(first).map(|text| text.0)
    }
}

/// SQLite has no unsigned numbers.
impl FromRow for u64 {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        row.get::<_, i64>(first).map(|number| Self::try_from(number).unwrap_or(0))
    }
}

/// `None` where the first column is NULL.
impl<T: FromRow> FromRow for Option<T> {
    const WIDTH: usize = T::WIDTH;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        match row.get_ref(first)? {
            ValueRef::Null => Ok(None),
            _ => T::from_row(row, first).map(Some),
        }
    }
}

/// JSON arrays.
macro_rules! lists {
    ($($item:ty),+) => {$(
        impl FromRow for Vec<$item> {
            fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
                let failed = |error| rusqlite::Error::FromSqlConversionFailure(first, Type::Text, Box::new(error));
                serde_json::from_str(row.get_ref(first)?.as_str()?).map_err(failed)
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

/// The agent's name and the session's id.
impl FromRow for SessionKey {
    const WIDTH: usize = 2;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        FromRow::from_row(row, first).map(|(agent, id)| Self { agent, id })
    }
}

/// The kind of a document and its row.
impl FromRow for DocumentKey {
    const WIDTH: usize = 2;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        FromRow::from_row(row, first).map(|(kind, row)| Self { kind, row })
    }
}

/// When an event was taken: `boot_id`, `boot_ns`, `captured_at` of its delivery.
impl FromRow for Order {
    const WIDTH: usize = 3;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        FromRow::from_row(row, first).map(|(boot, boot_ns, wall)| Self { boot, boot_ns, wall })
    }
}

/// Enums by their stored names; one that is not known becomes the most harmless.
macro_rules! named {
    ($($name:ident else $unknown:expr),+ $(,)?) => {$(
        impl FromRow for $name {
            fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
                Ok($name::parse(row.get_ref(first)?.as_str()?).unwrap_or($unknown))
            }
        }
    )+};
}

named! {
    ObservationType else ObservationType::Change,
    Status else Status::default(),
    BatchSource else BatchSource::default(),
    DocumentKind else DocumentKind::Observation,
}

impl FromRow for Importance {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        row.get(first).map(Self::clamped)
    }
}
