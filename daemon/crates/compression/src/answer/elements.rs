//! Parses the element form of an answer: `<observation><type>…</type>…</observation>`, which some models write
//! unasked.
//!
//! It uses no XML parser, because models rarely write valid XML. It searches for tags literally, and takes their
//! content unchanged.

use serde_json::{Map, Value};

use super::Written;

/// The observations; `None` if the answer does not use this form.
pub(super) fn observations(answer: &str) -> Option<Vec<Written>> {
    let mut found = Vec::new();
    let mut rest = answer;
    while let Some((body, behind)) = element(rest, "observation") {
        found.push(written(body));
        rest = behind;
    }
    // `<observations></observations>` is the empty answer in this form.
    let is_empty_list = || element(answer, "observations").is_some() || answer.contains("<observations/>");
    (!found.is_empty() || is_empty_list()).then_some(found)
}

/// The fields of a summary; `None` if the answer does not use this form.
pub(super) fn summary(answer: &str) -> Option<Value> {
    let (body, _) = element(answer, "summary")?;
    let mut object = Map::new();
    for name in ["title", "request", "investigated", "learned", "completed", "next_steps", "notes"] {
        object.insert(name.to_owned(), Value::String(text(body, name)));
    }
    Some(Value::Object(object))
}

fn written(body: &str) -> Written {
    Written {
        kind: text(body, "type"),
        title: text(body, "title"),
        subtitle: Some(text(body, "subtitle")),
        narrative: text(body, "narrative"),
        facts: list(body, "facts", "fact"),
        concepts: list(body, "concepts", "concept"),
        files_read: list(body, "files_read", "file"),
        files_modified: list(body, "files_modified", "file"),
        importance: text(body, "importance").parse().ok(),
        replaces: Some(text(body, "replaces")),
        turn: text(body, "turn").parse().ok(),
        evidence: list(body, "evidence", "step").iter().filter_map(|number| number.parse().ok()).collect(),
    }
}

/// The content of the first element of this name, and the text after it.
fn element<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>"))
}

fn text(body: &str, name: &str) -> String {
    element(body, name).map_or_else(String::new, |(text, _)| unescaped(text.trim()))
}

fn list(body: &str, name: &str, entry: &str) -> Vec<String> {
    let Some((mut rest, _)) = element(body, name) else { return Vec::new() };
    let mut entries = Vec::new();
    while let Some((text, behind)) = element(rest, entry) {
        entries.push(unescaped(text.trim()));
        rest = behind;
    }
    entries
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}
