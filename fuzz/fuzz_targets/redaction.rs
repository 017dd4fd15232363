#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use recall_domain::redaction::{RedactionPolicy, Redactor};
use serde_json::Value;

static REDACTOR: LazyLock<Redactor> =
    LazyLock::new(|| Redactor::new(&RedactionPolicy::default()).expect("the built-in rules are valid"));

// A second pass changes nothing, and JSON stays JSON.
fuzz_target!(|bytes: &[u8]| {
    REDACTOR.redact_bytes(bytes);
    let text = String::from_utf8_lossy(bytes);
    let once = REDACTOR.redact_text(&text);
    assert_eq!(REDACTOR.redact_text(&once), once, "a second pass changes the text");
    if serde_json::from_str::<Value>(&text).is_ok() {
        let once = REDACTOR.redact_json(&text);
        assert!(serde_json::from_str::<Value>(&once).is_ok(), "no JSON any more: {once}");
        assert_eq!(REDACTOR.redact_json(&once), once, "a second pass changes the JSON");
    }
});
