//! The fields of a shared note, and which values they can have.

use serde_json::Value;

use super::item::{Fields, Item};
use crate::observation::ObservationType;

/// The longest single text and the most elements of a list.
const MOST_CHARS: usize = 20_000;
const MOST_ELEMENTS: usize = 200;
/// More fields than any version has.
const MOST_FIELDS: usize = 64;
/// The last millisecond of the year 9999.
const LATEST_MS: i64 = 253_402_300_799_999;

/// The lists among the fields.
pub const LISTS: [&str; 4] = ["facts", "concepts", "files_read", "files_modified"];

/// Whether every known field has a value of its kind. Fields of later versions may have any.
pub fn are_valid(fields: &Fields) -> bool {
    let is_text = |value: &Value| value.as_str().is_some_and(|text| text.len() <= MOST_CHARS);
    let is_valid = |(name, value): (&String, &Value)| match name.as_str() {
        "type" => value.as_str().is_some_and(|name| ObservationType::parse(name).is_some()),
        "title" => is_text(value) && value != "",
        "narrative" | "origin" | "author" | "device" => is_text(value),
        "subtitle" => value.is_null() || is_text(value),
        "importance" => value.as_i64().is_some_and(|number| (1..=10).contains(&number)),
        "created_at" => value.as_i64().is_some_and(|at| (0..=LATEST_MS).contains(&at)),
        "resolved" | "pinned" => value.is_boolean(),
        "rejected" | "reviewed" => value.is_null() || value.is_boolean(),
        name if LISTS.contains(&name) => {
            value.as_array().is_some_and(|list| list.len() <= MOST_ELEMENTS && list.iter().all(is_text))
        }
        _ => true,
    };
    fields.len() <= MOST_FIELDS && fields.iter().all(is_valid)
}

/// Whether enough is known of a note to show it.
pub fn is_complete(item: &Item) -> bool {
    ["type", "title", "narrative", "importance", "created_at", "origin"]
        .iter()
        .all(|name| !item.get(name).is_null())
}

/// Whether a note says what a person is like or wants. It stays with that person's own machines.
pub fn is_personal(kind: &str) -> bool {
    [ObservationType::Preference, ObservationType::Correction].iter().any(|of| of.as_str() == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_of_another_kind_is_not_valid() {
        #[track_caller]
        fn check(name: &str, fit: Value, unfit: &[Value]) {
            assert!(are_valid(&[(name.to_owned(), fit)].into()), "{name}");
            for value in unfit {
                assert!(!are_valid(&[(name.to_owned(), value.clone())].into()), "{name} {value}");
            }
        }
        check("type", json!("bugfix"), &[json!("wish"), json!(1), Value::Null]);
        check("title", json!("x"), &[json!(""), json!(["x"]), json!("x".repeat(MOST_CHARS + 1))]);
        check("subtitle", Value::Null, &[json!(1)]);
        check("importance", json!(10), &[json!(11), json!(0), json!(1.5), json!("9")]);
        check("created_at", json!(0), &[json!(-1), json!(i64::MAX)]);
        check("resolved", json!(true), &[json!("true")]);
        check("rejected", Value::Null, &[json!("true")]);
        check("facts", json!(["a"]), &[json!("a"), json!([1]), json!(vec!["a"; MOST_ELEMENTS + 1])]);
        check("mood", json!({"of": "a later version"}), &[]);
        let many: Fields = (0..=MOST_FIELDS).map(|number| (number.to_string(), Value::Null)).collect();
        assert!(!are_valid(&many));
    }
}
