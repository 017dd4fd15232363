//! Validates values against their columns: a line's value before it is stored, or a stored one.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, ToSqlOutput, ValueRef};
use serde_json::Value;

use crate::database::row::{LATEST_MS, MOST};
use crate::database::text::{Packed, Unpacked};
use crate::portable::tables::Form;
use recall_domain::document::Status;
use recall_domain::material::BatchSource;
use recall_domain::observation::ObservationType;
use recall_domain::task_list::TaskList;

/// The maximum length of an id, name or path.
const MOST_NAME: usize = 4096;

/// A value for a column.
pub(super) enum Given {
    Null,
    Number(i64),
    Text(String),
    LongText(String),
    Bytes([u8; 16]),
}

impl ToSql for Given {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Null => Ok(ToSqlOutput::from(rusqlite::types::Null)),
            Self::Number(number) => Ok(ToSqlOutput::from(*number)),
            Self::Text(text) => Ok(ToSqlOutput::from(text.as_str())),
            Self::LongText(text) => match Packed(text).to_sql()? {
                ToSqlOutput::Owned(owned) => Ok(ToSqlOutput::Owned(owned)),
                _ => Ok(ToSqlOutput::from(text.as_str())),
            },
            Self::Bytes(bytes) => Ok(ToSqlOutput::from(bytes.as_slice())),
        }
    }
}

/// Converts a line's value for its column; `None` if the column cannot hold it.
pub(super) fn given(form: Form, value: &Value) -> Option<Given> {
    let number = match value {
        Value::Null => return Some(Given::Null),
        Value::Bool(yes) => Some(i64::from(*yes)),
        value => value.as_i64(),
    };
    match (form, value) {
        (Form::LongText, Value::String(text)) => Some(Given::LongText(text.clone())),
        (Form::Text, Value::String(text)) => Some(Given::Text(text.clone())),
        (Form::Name | Form::Source | Form::Type | Form::Status, Value::String(name)) => {
            is_name(form, name).then(|| Given::Text(name.clone()))
        }
        (Form::Id, Value::String(digits)) => unhex(digits).map(Given::Bytes),
        (Form::Count | Form::Number | Form::Time, _) => {
            number.filter(|number| is_number(form, *number)).map(Given::Number)
        }
        (Form::Texts | Form::Paths | Form::Events | Form::Tasks, value) => {
            is_json(form, value).then(|| Given::Text(value.to_string()))
        }
        _ => None,
    }
}

/// Whether a stored value can be read as its column's type. A missing one can.
pub(super) fn is_readable(form: Form, value: ValueRef<'_>) -> bool {
    let number = value.as_i64();
    match (form, value) {
        (_, ValueRef::Null) => true,
        (Form::LongText, value) => Unpacked::column_result(value).is_ok(),
        (Form::Session | Form::Batch | Form::Project, _) => number.is_ok(),
        (Form::Count | Form::Number | Form::Time, _) => number.is_ok_and(|number| is_number(form, number)),
        (Form::Id, ValueRef::Blob(bytes)) => bytes.len() == 16,
        (Form::Id, _) => false,
        (_, ValueRef::Text(text)) => std::str::from_utf8(text).is_ok_and(|text| match form {
            Form::Name | Form::Source | Form::Type | Form::Status => is_name(form, text),
            Form::Texts | Form::Paths | Form::Events | Form::Tasks => {
                serde_json::from_str(text).is_ok_and(|value| is_json(form, &value))
            }
            _ => true,
        }),
        _ => false,
    }
}

fn is_name(form: Form, name: &str) -> bool {
    match form {
        Form::Source => BatchSource::parse(name).is_some(),
        Form::Type => ObservationType::parse(name).is_some(),
        Form::Status => Status::parse(name).is_some(),
        _ => name.len() <= MOST_NAME,
    }
}

fn is_number(form: Form, number: i64) -> bool {
    match form {
        Form::Count => (0..=i64::from(MOST)).contains(&number),
        Form::Time => (-LATEST_MS..=LATEST_MS).contains(&number),
        _ => true,
    }
}

fn is_json(form: Form, value: &Value) -> bool {
    let is_each = |fits: fn(&str) -> bool| {
        value.as_array().is_some_and(|all| all.iter().all(|one| one.as_str().is_some_and(fits)))
    };
    match form {
        Form::Texts => is_each(|_| true),
        Form::Paths => is_each(|path| path.len() <= MOST_NAME),
        Form::Events => is_each(|event| unhex(event).is_some()),
        _ => serde_json::from_value::<TaskList>(value.clone()).is_ok(),
    }
}

fn unhex(digits: &str) -> Option<[u8; 16]> {
    let digits = digits.as_bytes();
    let mut bytes = [0; 16];
    if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_that_its_column_cannot_hold_is_rejected() {
        for (form, fit, unfit) in [
            (Form::Texts, json!(["a"]), vec![json!([1]), json!("x"), json!({}), json!([["a"]])]),
            (
                Form::Events,
                json!(["00112233445566778899aabbccddeeff"]),
                vec![json!({}), json!(["zz"]), json!([1])],
            ),
            (Form::Paths, json!(["src/a.rs"]), vec![json!("a"), json!(["a".repeat(5000)])]),
            (
                Form::Id,
                json!("00112233445566778899aabbccddeeff"),
                vec![json!("01"), json!(1), json!("+0".repeat(16))],
            ),
            (
                Form::Count,
                json!(7),
                vec![json!(i64::MAX), json!(5_000_000_000_i64), json!(-5), json!(1.5), json!("7")],
            ),
            (Form::Time, json!(1_750_000_000_000_i64), vec![json!(i64::MAX), json!(i64::MIN), json!("now")]),
            (Form::Type, json!("bugfix"), vec![json!("wish"), json!(1)]),
            (Form::Status, json!("active"), vec![json!("hidden")]),
            (Form::Text, json!("x"), vec![json!(1), json!(["x"])]),
            (
                Form::Tasks,
                json!({"whole": null, "tasks": []}),
                vec![json!([]), json!("x"), json!({"tasks": 1})],
            ),
        ] {
            assert!(given(form, &fit).is_some(), "{form:?} {fit}");
            for value in unfit {
                assert!(given(form, &value).is_none(), "{form:?} {value}");
            }
        }
    }
}
