//! Shares projects' notes with other machines: a preview of what would leave (`preview.rs`), a round with every
//! remote (`round.rs`), its part for one project (`exchange.rs`), what this machine may read of that (`access.rs`), the
//! results so far (`syncing.rs`), and the report for people (`report.rs`).
//!
//! **Invariant:** no hook, and no answer to one, waits for a remote.

mod access;
mod exchange;
pub mod names;
pub mod preview;
pub mod report;
pub mod round;
pub mod syncing;

use recall_domain::redaction::Redactor;
use recall_domain::sync::fields::are_valid;
use recall_domain::sync::item::{ItemChange, ItemFields};
use recall_domain::sync::kind::ItemKind;
use recall_domain::sync::record::{MOST_BODY, Record, RecordContent};

/// Why an entry must not leave; `None` if it may.
fn held_for(record: &Record, redactor: &Redactor) -> Option<&'static str> {
    let body = record.body.as_ref()?;
    if body.len() > MOST_BODY {
        return Some("it is too long");
    }
    match record.content() {
        // Other machines would reject it.
        RecordContent::Change(ItemChange::Set(fields)) if !are_valid(ItemKind::of(&record.item), &fields) => {
            Some("it is too long")
        }
        RecordContent::Change(ItemChange::Set(fields)) if has_secret(&fields, redactor) => {
            Some("it looks like a secret")
        }
        _ => None,
    }
}

fn has_secret(fields: &ItemFields, redactor: &Redactor) -> bool {
    fields.values().any(|value| {
        let texts = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        texts.iter().filter_map(serde_json::Value::as_str).any(|text| redactor.redact_text(text) != text)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use recall_domain::redaction::RedactionPolicy;

    #[test]
    fn records_with_secrets_and_overlong_records_are_not_shared() {
        let policy = RedactionPolicy { extra: vec!["ACME-[0-9]+".to_owned()], ..RedactionPolicy::default() };
        let redactor = Redactor::new(&policy).unwrap();
        let record = |name: &str, value| {
            let change = ItemChange::Set([(name.to_owned(), value)].into());
            Record::of(1, "uuid", 7, &change, "00112233445566778899aabbccddeeff")
        };
        assert_eq!(
            held_for(&record("title", json!("The key is ACME-123")), &redactor),
            Some("it looks like a secret")
        );
        assert_eq!(
            held_for(&record("facts", json!(["a", "ACME-123"])), &redactor),
            Some("it looks like a secret")
        );
        assert_eq!(held_for(&record("title", json!("The key is gone")), &redactor), None);
        for length in [MOST_BODY, MOST_BODY / 4] {
            assert_eq!(
                held_for(&record("narrative", json!("x ".repeat(length))), &redactor),
                Some("it is too long")
            );
        }
        let forget = Record::of(
            1,
            "uuid",
            7,
            &ItemChange::Remove(recall_domain::sync::item::ItemRemoval::Forgotten),
            "s",
        );
        assert_eq!(held_for(&forget, &redactor), None);
    }
}
