#![no_main]

use libfuzzer_sys::fuzz_target;
use recall_search::query::{Since, mistake, parse};

// Any text is a query. A mistake in it can be described.
fuzz_target!(|text: &str| {
    let query = parse(text);
    let _ = (query.wanted_text(), query.asks_for_nothing(), Since::parse(text));
    if let Some(mistake) = mistake(text) {
        assert!(!mistake.what().is_empty() && !mistake.hint().is_empty(), "a mistake without a word: {text:?}");
    }
});
