//! Values as statement parameters. The domain's ids belong to a crate that knows no SQL, so rusqlite's own trait
//! cannot be implemented for them here.

use std::borrow::Cow;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value};

use crate::database::text::Packed;
use recall_domain::ids::Timestamp;

/// A value that can be bound to a statement.
pub(crate) trait Bind {
    fn bind(&self) -> rusqlite::Result<ToSqlOutput<'_>>;
}

/// A statement parameter, created by [`params!`].
#[derive(Clone, Copy)]
pub(crate) struct Bound<'a>(pub(crate) &'a dyn Bind);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.bind()
    }
}

/// The parameters of a statement, in the order of their numbers.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        [$($crate::database::bind::Bound(&$value)),*]
    };
}
pub(crate) use params;

macro_rules! plain {
    ($($of_sql:ty),+) => {$(
        impl Bind for $of_sql {
            fn bind(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                self.to_sql()
            }
        }
    )+};
}

plain!(
    bool,
    u8,
    u16,
    u32,
    i32,
    i64,
    f64,
    str,
    String,
    [u8],
    Vec<u8>,
    [u8; 16],
    [u8; 32],
    Value,
    Cow<'_, str>,
    Packed<'_>
);

impl Bind for Timestamp {
    fn bind(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

/// SQLite has no unsigned integers. A number that is too large becomes the largest.
impl Bind for u64 {
    fn bind(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(i64::try_from(*self).unwrap_or(i64::MAX).into())
    }
}

impl<T: Bind + ?Sized> Bind for &T {
    fn bind(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        (**self).bind()
    }
}

impl<T: Bind> Bind for Option<T> {
    fn bind(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Some(value) => value.bind(),
            None => Ok(ToSqlOutput::Owned(Value::Null)),
        }
    }
}
