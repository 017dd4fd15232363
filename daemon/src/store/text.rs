//! Long texts are stored compressed. Short ones stay plain, so that they can be read in the database.
//!
//! The column's type tells which: TEXT is plain, BLOB is zstd.

use std::io::Read;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef};

/// Below this compressing saves less than the readable form is worth.
const PLAIN_BYTES: usize = 4096;
/// What is stored never exceeds the largest payload by much; more than this is damage.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// A text on its way into the store.
pub(super) struct Packed<'a>(pub(super) &'a str);

impl ToSql for Packed<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        if self.0.len() < PLAIN_BYTES {
            return Ok(ToSqlOutput::from(self.0));
        }
        let failed = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        let packed = zstd::bulk::compress(self.0.as_bytes(), 3).map_err(failed)?;
        Ok(ToSqlOutput::Owned(Value::Blob(packed)))
    }
}

/// Adds the SQL function `plain(X)`: the text of a compressed value, and anything else as it is.
pub(super) fn add_function(db: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    db.create_scalar_function("plain", 1, flags, |context| {
        let value = context.get_raw(0);
        // Another blob is no compressed text.
        let text = matches!(value, ValueRef::Blob(_)).then(|| Unpacked::column_result(value));
        Ok(match text {
            Some(Ok(text)) => Value::Text(text.0),
            Some(Err(_)) | None => Value::column_result(value)?,
        })
    })
}

/// A text on its way out.
pub(super) struct Unpacked(pub(super) String);

impl FromSql for Unpacked {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Blob(packed) => {
                let mut text = String::new();
                let decoder = zstd::stream::read::Decoder::new(packed).map_err(FromSqlError::other)?;
                decoder.take(MOST_BYTES).read_to_string(&mut text).map_err(FromSqlError::other)?;
                Ok(Self(text))
            }
            plain => Ok(Self(plain.as_str()?.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_whole_and_long_ones_take_less() {
        let db = Connection::open_in_memory().unwrap();
        for text in ["", "short", &"compress me, é! ".repeat(5000)] {
            let (back, stored): (Unpacked, i64) = db
                .query_row("SELECT ?1, octet_length(?1)", [Packed(text)], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .unwrap();
            assert_eq!(back.0, text);
            assert!(text.len() < PLAIN_BYTES || stored < text.len() as i64 / 10);
        }
    }

    #[test]
    fn damage_is_an_error() {
        let db = Connection::open_in_memory().unwrap();
        assert!(db.query_row("SELECT x'00112233'", [], |row| row.get::<_, Unpacked>(0)).is_err());
    }
}
