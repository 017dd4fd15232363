//! The fields of shared items, and their valid values.

use serde_json::Value;

use super::item::{ItemFields, SharedItem};
use super::kind::{ItemKind, message_of, summary_of};
use crate::ids::{SessionId, SessionKey};
use crate::observation::ObservationType;

/// The maximum length of a text in characters, and the maximum number of elements of a list.
const MOST_CHARS: usize = 20_000;
const MOST_ELEMENTS: usize = 200;
/// The same for the text of a plan.
const MOST_OF_PLAN: usize = 100_000;
/// The maximum length of the name of an agent or a session.
const MOST_OF_NAME: usize = 500;
/// The maximum number of fields, more than any version has.
pub const MOST_FIELDS: usize = 64;
/// The maximum length of the name and of the value of a field of a later version.
const MOST_OF_UNKNOWN_NAME: usize = 40;
const MOST_OF_UNKNOWN: usize = 2_000;
/// The maximum number of newer notes that a note is said to stand beside.
pub const MOST_BESIDE: usize = 40;
/// The last millisecond of the year 9999.
const LATEST_MS: i64 = 253_402_300_799_999;

/// The fields that are lists.
pub const LISTS: [&str; 4] = ["facts", "concepts", "files_read", "files_modified"];

/// A summary's texts after its title.
pub const PARTS: [&str; 6] = ["request", "investigated", "learned", "completed", "next_steps", "notes"];

/// Whether every known field has a valid value. Unknown fields, from later versions, may have any short value.
pub fn are_valid(kind: ItemKind, fields: &ItemFields) -> bool {
    let is_valid = |(name, value): (&String, &Value)| match kind {
        ItemKind::Observation => fits_observation(name, value),
        ItemKind::Summary => fits_summary(name, value),
        ItemKind::Plan => fits_plan(name, value),
        ItemKind::Prompt | ItemKind::Answer => fits_message(name, value),
    };
    fields.len() <= MOST_FIELDS && fields.iter().all(is_valid)
}

fn is_text(value: &Value, most: usize) -> bool {
    value.as_str().is_some_and(|text| text.len() <= most)
}

fn is_time(value: &Value) -> bool {
    value.as_i64().is_some_and(|at| (0..=LATEST_MS).contains(&at))
}

fn fits_unknown(name: &str, value: &Value) -> bool {
    name.len() <= MOST_OF_UNKNOWN_NAME && value.to_string().len() <= MOST_OF_UNKNOWN
}

fn is_uuid(value: &Value) -> bool {
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    };
    value.as_str().is_some_and(|text| text.len() == 36 && text.bytes().enumerate().all(fits))
}

fn fits_observation(name: &str, value: &Value) -> bool {
    match name {
        "type" => value.as_str().is_some_and(|name| ObservationType::parse(name).is_some()),
        "title" => is_text(value, MOST_CHARS) && value != "",
        "narrative" | "origin" | "author" | "device" => is_text(value, MOST_CHARS),
        "subtitle" => value.is_null() || is_text(value, MOST_CHARS),
        "importance" => value.as_i64().is_some_and(|number| (1..=10).contains(&number)),
        "created_at" => is_time(value),
        "resolved" | "pinned" => value.is_boolean(),
        "rejected" | "reviewed" | "hand" => value.is_null() || value.is_boolean(),
        "session" => is_uuid(value),
        "subject" => value.is_null() || is_uuid(value),
        "beside" => {
            let names = value.as_array();
            value.is_null() || names.is_some_and(|list| list.len() <= MOST_BESIDE && list.iter().all(is_uuid))
        }
        name if LISTS.contains(&name) => value.as_array().is_some_and(|list| {
            list.len() <= MOST_ELEMENTS && list.iter().all(|value| is_text(value, MOST_CHARS))
        }),
        name => fits_unknown(name, value),
    }
}

fn fits_summary(name: &str, value: &Value) -> bool {
    match name {
        "agent" | "session" => is_text(value, MOST_OF_NAME),
        "title" | "origin" | "author" | "device" => is_text(value, MOST_CHARS),
        "created_at" => is_time(value),
        name if PARTS.contains(&name) => is_text(value, MOST_CHARS),
        name => fits_unknown(name, value),
    }
}

fn fits_plan(name: &str, value: &Value) -> bool {
    match name {
        "agent" | "session" => is_text(value, MOST_OF_NAME),
        "title" | "author" | "device" => is_text(value, MOST_CHARS),
        "text" => is_text(value, MOST_OF_PLAN),
        "created_at" | "updated_at" => is_time(value),
        name => fits_unknown(name, value),
    }
}

fn fits_message(name: &str, value: &Value) -> bool {
    match name {
        "agent" | "session" => is_text(value, MOST_OF_NAME),
        "author" | "device" => is_text(value, MOST_CHARS),
        "text" => is_text(value, MOST_OF_PLAN) && value != "",
        "created_at" => is_time(value),
        name => fits_unknown(name, value),
    }
}

/// Whether an item has the fields that are needed to display it.
pub fn is_complete(name: &str, item: &SharedItem) -> bool {
    let has = |fields: &[&str]| fields.iter().all(|name| !item.get(name).is_null());
    match ItemKind::of(name) {
        ItemKind::Observation => has(&["type", "title", "narrative", "importance", "created_at", "origin"]),
        ItemKind::Summary => {
            has(&["title", "created_at", "origin"])
                && has(&PARTS)
                && session_of(item).is_some_and(|session| summary_of(&session) == name)
        }
        // The path from which its name is made stays on its author's machine.
        ItemKind::Plan => has(&["title", "text", "created_at", "updated_at"]) && session_of(item).is_some(),
        kind @ (ItemKind::Prompt | ItemKind::Answer) => {
            let text = item.get("text").as_str().unwrap_or_default();
            has(&["text", "created_at"])
                && session_of(item).is_some_and(|session| message_of(&session, kind, text) == name)
        }
    }
}

/// The session of an item that is not a note.
pub fn session_of(item: &SharedItem) -> Option<SessionKey> {
    let text = |name: &str| item.get(name).as_str().filter(|text| !text.is_empty());
    Some(SessionKey { agent: text("agent")?.into(), id: SessionId(text("session")?.to_owned()) })
}

/// Whether a note describes a person's traits or wishes. Such a note stays on that person's own machines.
pub fn is_personal(kind: &str) -> bool {
    [ObservationType::Preference, ObservationType::Correction].iter().any(|of| of.as_str() == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sync::item::ItemChange;
    use crate::sync::{DeviceId, Stamp};

    #[test]
    fn field_values_of_the_wrong_type_or_size_are_invalid() {
        #[track_caller]
        fn check_of(kind: ItemKind, name: &str, fit: Value, unfit: &[Value]) {
            assert!(are_valid(kind, &[(name.to_owned(), fit)].into()), "{name}");
            for value in unfit {
                assert!(!are_valid(kind, &[(name.to_owned(), value.clone())].into()), "{name} {value}");
            }
        }
        #[track_caller]
        fn check(name: &str, fit: Value, unfit: &[Value]) {
            check_of(ItemKind::Observation, name, fit, unfit);
        }
        check("type", json!("bugfix"), &[json!("wish"), json!(1), Value::Null]);
        check("title", json!("x"), &[json!(""), json!(["x"]), json!("x".repeat(MOST_CHARS + 1))]);
        check("subtitle", Value::Null, &[json!(1)]);
        check("importance", json!(10), &[json!(11), json!(0), json!(1.5), json!("9")]);
        check("created_at", json!(0), &[json!(-1), json!(i64::MAX)]);
        check("resolved", json!(true), &[json!("true")]);
        check("rejected", Value::Null, &[json!("true")]);
        let uuid = "01890a5d-ac96-774b-bcce-b302099a8057";
        check("session", json!(uuid), &[Value::Null, json!("x"), json!(uuid.to_uppercase())]);
        check("subject", Value::Null, &[json!("x"), json!(1)]);
        check("hand", Value::Null, &[json!("true")]);
        check("beside", json!([uuid]), &[json!(uuid), json!(["x"]), json!(vec![uuid; MOST_BESIDE + 1])]);
        check("facts", json!(["a"]), &[json!("a"), json!([1]), json!(vec!["a"; MOST_ELEMENTS + 1])]);
        check("mood", json!({"of": "a later version"}), &[json!("x".repeat(MOST_OF_UNKNOWN))]);
        let long = |chars: usize| json!("x".repeat(chars));
        check_of(ItemKind::Summary, "title", json!(""), &[json!(1), long(MOST_CHARS + 1)]);
        check_of(
            ItemKind::Summary,
            "next_steps",
            json!(""),
            &[Value::Null, json!(["x"]), long(MOST_CHARS + 1)],
        );
        check_of(ItemKind::Summary, "created_at", json!(7), &[json!("7"), json!(-1)]);
        check_of(ItemKind::Summary, "session", json!("s"), &[Value::Null, long(MOST_OF_NAME + 1)]);
        check_of(ItemKind::Plan, "text", long(MOST_OF_PLAN), &[Value::Null, long(MOST_OF_PLAN + 1)]);
        check_of(ItemKind::Plan, "updated_at", json!(7), &[json!(i64::MAX)]);
        let many: ItemFields = (0..=MOST_FIELDS).map(|number| (number.to_string(), Value::Null)).collect();
        assert!(!are_valid(ItemKind::Observation, &many));
    }
    #[test]
    fn a_summary_under_the_name_of_another_session_is_never_complete() {
        let summary_item = |session: &str| {
            let texts = PARTS.iter().chain(&["title", "origin"]).map(|name| ((*name).to_owned(), json!("x")));
            let more = [("agent", json!("codex")), ("session", json!(session)), ("created_at", json!(7))];
            let more = more.map(|(name, value)| (name.to_owned(), value));
            let mut item = SharedItem::default();
            item.merge(
                &ItemChange::Set(texts.chain(more).collect()),
                &Stamp { at: 1, device: DeviceId::default() },
            );
            item
        };
        let name = summary_of(&session_of(&summary_item("mine")).unwrap());
        assert!(is_complete(&name, &summary_item("mine")));
        assert!(!is_complete(&name, &summary_item("another")));
    }
}
