//! Reads foreign JSON leniently: only the outermost object is parsed, the last of equal keys wins, and unexpected types
//! are accepted.

use std::collections::BTreeMap;

use memchr::memmem;
use serde_json::value::RawValue;

use super::Unreadable;

/// The fields of a JSON object as raw JSON.
pub struct JsonFields(BTreeMap<String, Box<RawValue>>);

impl JsonFields {
    /// # Errors
    /// The bytes are not UTF-8 or not one JSON object.
    pub fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        Ok(Self(serde_json::from_str(std::str::from_utf8(bytes)?)?))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The JSON text of a field; `null` counts as absent.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.get()).filter(|text| *text != "null")
    }

    /// The first of several spellings that exists.
    pub(crate) fn raw_of(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.raw(name))
    }

    /// A string field. Lone surrogates become U+FFFD instead of an error, because agents cut texts anywhere.
    pub fn text(&self, name: &str) -> Option<String> {
        string(self.raw(name)?)
    }

    /// A non-empty string field.
    pub fn word(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty())
    }

    /// The first non-empty string among several spellings.
    pub(crate) fn word_of(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.word(name))
    }

    pub fn number(&self, name: &str) -> Option<i64> {
        let raw = self.raw(name)?;
        raw.parse().ok().or_else(|| raw.parse::<f64>().ok().map(|number| number as i64))
    }
}

/// The JSON text of an object without some fields of one of its inner objects. `None` if it has none of them.
pub(crate) fn without_inner(raw: &str, object: &str, fields: &[&str]) -> Option<String> {
    if !fields.iter().any(|field| raw.contains(field)) {
        return None;
    }
    let mut value: serde_json::Value = serde_json::from_str(raw).ok()?;
    let inner = value.get_mut(object)?.as_object_mut()?;
    let before = inner.len();
    inner.retain(|name, _| !fields.contains(&name.as_str()));
    (inner.len() < before).then(|| value.to_string())
}

/// The objects of a JSON array. Other elements are skipped; a value that is not an array has none.
pub fn objects(raw: &str) -> Vec<JsonFields> {
    let values: Vec<Box<RawValue>> = serde_json::from_str(raw).unwrap_or_default();
    values.iter().filter_map(|value| JsonFields::read(value.get().as_bytes()).ok()).collect()
}

/// Decodes a JSON string. `None` if the value is not a string.
pub fn string(raw: &str) -> Option<String> {
    if !raw.starts_with('"') {
        return None;
    }
    serde_json::from_str(raw).ok().or_else(|| serde_json::from_str(&without_lone_surrogates(raw)).ok())
}

/// Whether a JSON text contains the escape of a surrogate, which may lack its other half.
pub fn has_surrogates(json: &[u8]) -> bool {
    memmem::find(json, b"\\ud").is_some() || memmem::find(json, b"\\uD").is_some()
}

/// Replaces every unpaired `\uD800`–`\uDFFF` by `\uFFFD`.
pub fn without_lone_surrogates(raw: &str) -> String {
    let unit = |at: usize| {
        let digits = raw.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::with_capacity(raw.len());
    let mut rest = 0;
    while let Some(found) = raw.get(rest..).and_then(|tail| tail.find('\\')) {
        let at = rest + found;
        out.push_str(raw.get(rest..at).unwrap_or_default());
        let taken = match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                out.push_str("\\uFFFD");
                rest = at + 6;
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => 1 + raw.get(at + 1..).and_then(|tail| tail.chars().next()).map_or(0, char::len_utf8),
        };
        out.push_str(raw.get(at..at + taken).unwrap_or_default());
        rest = at + taken;
    }
    out.push_str(raw.get(rest..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_equal_keys_wins_and_null_is_absent() {
        let fields = JsonFields::read(br#"{"a": 1, "a": "two", "b": null, "n": 2.0}"#).unwrap();
        assert_eq!(fields.text("a").as_deref(), Some("two"));
        assert_eq!(fields.raw("b"), None);
        assert_eq!(fields.number("n"), Some(2));
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_are_kept() {
        for (raw, expected) in [
            (r#""a\ud800b""#, "a\u{FFFD}b"),
            (r#""\udc00\ud83d\ude00""#, "\u{FFFD}😀"),
            (r#""x\\ud800\ud800""#, "x\\ud800\u{FFFD}"),
            (r#""é\n\udfff""#, "é\n\u{FFFD}"),
        ] {
            assert_eq!(string(raw).as_deref(), Some(expected), "{raw}");
        }
    }

    #[test]
    fn anything_but_one_json_object_is_rejected() {
        for bad in [&b"[]"[..], b"", b"{", b"{\"a\":", b"\xff", b"nonsense", b"{} {}"] {
            assert!(JsonFields::read(bad).is_err(), "{bad:?}");
        }
    }
}
