//! Stores long texts compressed. Short ones stay readable in the database.
//!
//! The column's type distinguishes them: TEXT is plain, BLOB is zstd.

use std::cell::RefCell;
use std::io;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef};
use zstd::bulk::Compressor;
use zstd::zstd_safe::get_frame_content_size;

/// The minimum size for compression, in bytes. Below it, the savings are worth less than the readable form.
const PLAIN_BYTES: usize = 4096;
/// Stored texts barely exceed the largest payload, so a larger size indicates damage.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// The default of zstd.
const LEVEL: i32 = 3;

thread_local! {
    /// Kept, because building its tables takes four times as long as compressing a text of 20 KB with them. Only one
    /// thread writes.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

fn compress(text: &str) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(Compressor::new(LEVEL)?),
        };
        compressor.compress(text.as_bytes())
    })
}

fn decompress(packed: &[u8]) -> io::Result<String> {
    // Every compressed text begins with its length, so it is decompressed into a single allocation.
    let length = get_frame_content_size(packed).ok().flatten().filter(|length| *length <= MOST_BYTES);
    let length = length.and_then(|length| usize::try_from(length).ok()).ok_or(io::ErrorKind::InvalidData)?;
    let text = zstd::bulk::decompress(packed, length)?;
    String::from_utf8(text).map_err(io::Error::other)
}

/// A text to be stored.
pub(crate) struct Packed<'a>(pub(crate) &'a str);

impl ToSql for Packed<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        if self.0.len() < PLAIN_BYTES {
            return Ok(ToSqlOutput::from(self.0));
        }
        let failed = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        Ok(ToSqlOutput::Owned(Value::Blob(compress(self.0).map_err(failed)?)))
    }
}

/// Adds the SQL function `plain(X)`, which decompresses a text and returns anything else unchanged.
pub(crate) fn add_function(db: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    db.create_scalar_function("plain", 1, flags, |context| {
        let value = context.get_raw(0);
        // Any other blob is not compressed text.
        let text = matches!(value, ValueRef::Blob(_)).then(|| Unpacked::column_result(value));
        Ok(match text {
            Some(Ok(text)) => Value::Text(text.0),
            Some(Err(_)) | None => Value::column_result(value)?,
        })
    })
}

/// A text that was read.
pub(crate) struct Unpacked(pub(crate) String);

impl FromSql for Unpacked {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Blob(packed) => Ok(Self(decompress(packed).map_err(FromSqlError::other)?)),
            plain => Ok(Self(plain.as_str()?.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_texts_are_read_back_unchanged_and_long_ones_are_compressed() {
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
    fn a_damaged_text_is_rejected_and_others_stay_readable() {
        let db = Connection::open_in_memory().unwrap();
        let whole = compress(&"compress me ".repeat(1000)).unwrap();
        let read = |packed: &[u8]| db.query_row("SELECT ?1", [packed], |row| row.get::<_, Unpacked>(0));
        assert!(read(&[0, 0x11, 0x22, 0x33]).is_err());
        assert!(read(&whole[..whole.len() - 3]).is_err());
        assert_eq!(read(&whole).unwrap().0.len(), 12_000);
    }
}
