//! Rewrites the strings of a JSON text in place. Everything else stays identical byte for byte, so valid JSON stays
//! valid.
//!
//! Nothing is parsed into values, because an agent's JSON may be truncated or contain lone surrogates or duplicate
//! keys, and must otherwise come out unchanged. Text outside of strings is skipped, because no secret is a number.

use std::borrow::Cow;
use std::ops::Range;

use recall_protocol::json_escape;

/// One string of a JSON text.
pub(crate) struct StringPlace<'a> {
    pub role: Role<'a>,
    /// The string with escapes resolved. A lone surrogate becomes U+FFFD.
    pub text: &'a str,
}

/// The role of a string in its JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role<'a> {
    Key,
    /// The value of the field `key`.
    Value {
        key: &'a str,
    },
    /// An array element at any depth below the last field.
    Element {
        key: &'a str,
    },
}

/// A range of a string, and its replacement.
pub(crate) struct Replacement {
    pub range: Range<usize>,
    pub text: Cow<'static, str>,
}

/// Calls `replace` for every string, including a truncated one, and applies the replacements. They must be in
/// ascending order, must not overlap or split characters, and must not contain quotes, backslashes or control
/// characters.
pub(crate) fn rewrite<'a>(
    json: &'a str,
    mut replace: impl FnMut(StringPlace<'_>) -> Vec<Replacement>,
) -> Cow<'a, str> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    let mut key = String::new();
    let mut after_colon = false;
    let mut decoded = Decoded::default();
    while let Some(quote) = json.get(at..).and_then(|rest| rest.find('"')) {
        let between = json.get(at..at + quote).unwrap_or_default().trim();
        after_colon = (after_colon && between.is_empty()) || between == ":";
        let start = at + quote + 1;
        let raw = string_from(json, start);
        at = start + raw.len() + 1;
        decoded.read(raw);
        let text = decoded.text(raw);
        let is_key = json
            .get(at..)
            .is_some_and(|rest| rest.trim_start_matches([' ', '\n', '\r', '\t']).starts_with(':'));
        let role = match (is_key, after_colon) {
            (true, _) => Role::Key,
            (false, true) => Role::Value { key: &key },
            (false, false) => Role::Element { key: &key },
        };
        for replacement in replace(StringPlace { role, text }) {
            let from = start + decoded.raw_offset(replacement.range.start);
            out.push_str(json.get(copied..from).unwrap_or_default());
            out.push_str(&replacement.text);
            copied = start + decoded.raw_offset(replacement.range.end);
        }
        if is_key {
            key.clear();
            key.push_str(decoded.text(raw));
        }
        after_colon = false;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(json.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// The raw contents of the string that begins at `start`, up to its closing quote or the end of the text.
fn string_from(json: &str, start: usize) -> &str {
    let rest = json.get(start..).unwrap_or_default();
    let mut at = 0;
    while let Some(found) = rest.as_bytes().get(at..).and_then(|tail| memchr::memchr2(b'"', b'\\', tail)) {
        at += found;
        if rest.as_bytes().get(at) == Some(&b'"') {
            return rest.get(..at).unwrap_or_default();
        }
        at += 1 + rest.get(at + 1..).and_then(|tail| tail.chars().next()).map_or(0, char::len_utf8);
    }
    rest
}

/// A string with escapes resolved, and a map from its offsets to raw offsets.
#[derive(Default)]
struct Decoded {
    text: String,
    /// The offsets after each escape, in `text` and in the raw string. Empty if there are no escapes.
    steps: Vec<(usize, usize)>,
}

impl Decoded {
    fn read(&mut self, raw: &str) {
        self.text.clear();
        self.steps.clear();
        let mut at = 0;
        while let Some(found) = raw.get(at..).and_then(|rest| memchr::memchr(b'\\', rest.as_bytes())) {
            self.text.push_str(raw.get(at..at + found).unwrap_or_default());
            let escape = raw.as_bytes().get(at + found..).unwrap_or_default();
            let (character, length) = json_escape::read(escape);
            self.text.push(character);
            at += found + length;
            self.steps.push((self.text.len(), at));
        }
        if !self.steps.is_empty() {
            self.text.push_str(raw.get(at..).unwrap_or_default());
        }
    }

    fn text<'a>(&'a self, raw: &'a str) -> &'a str {
        if self.steps.is_empty() { raw } else { &self.text }
    }

    fn raw_offset(&self, offset: usize) -> usize {
        let passed = self.steps.partition_point(|(decoded, _)| *decoded <= offset);
        let step = passed.checked_sub(1).and_then(|last| self.steps.get(last));
        step.map_or(offset, |(decoded, raw)| raw + (offset - decoded))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lists every string with its role, and replaces every `needle` by `#`.
    fn run(json: &str, needle: &str) -> (String, Vec<String>) {
        let mut seen = Vec::new();
        let out = rewrite(json, |place| {
            seen.push(format!("{:?} {}", place.role, place.text));
            let found = place.text.match_indices(needle);
            found
                .map(|(at, _)| Replacement { range: at..at + needle.len(), text: Cow::Borrowed("#") })
                .collect()
        });
        (out.into_owned(), seen)
    }

    #[test]
    fn json_keys_values_and_elements_are_distinguished() {
        let (out, seen) = run(r#"{"a" : "b", "c": ["d", 1, {"e":"f"}], "g": {"h": ""}}"#, "d");
        assert_eq!(out, r##"{"a" : "b", "c": ["#", 1, {"e":"f"}], "g": {"h": ""}}"##);
        let expected = [
            "Key a",
            "Value { key: \"a\" } b",
            "Key c",
            "Element { key: \"c\" } d",
            "Key e",
            "Value { key: \"e\" } f",
            "Key g",
            "Key h",
            "Value { key: \"h\" } ",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn json_escapes_are_resolved_for_matching_and_kept_outside_replacements() {
        for (json, needle, expected) in [
            (r#""x\n\u0041B\"y""#, "\nAB", r##""x#\"y""##),
            (r#""\ud83d\ude00k\/""#, "k", r##""\ud83d\ude00#\/""##),
            (r#""\ud83dk\udc00""#, "k", r##""\ud83d#\udc00""##),
            (r#"["a\\", "k"]"#, "k", r##"["a\\", "#"]"##),
            (r#""cut k\"#, "k", r##""cut #\"##),
            (r#""\u12k""#, "k", r##""\u12#""##),
        ] {
            assert_eq!(run(json, needle).0, expected, "{json}");
        }
    }

    proptest! {
        #[test]
        fn strings_are_read_as_serde_json_reads_them(text in ".{0,40}", key in "[a-z\"\\\\\u{1F600}]{1,5}") {
            let json = serde_json::json!({ key.clone(): text.clone(), "Z": [text.clone()] }).to_string();
            let (out, seen) = run(&json, "\u{0}never");
            prop_assert_eq!(out, json);
            let expected = format!("{:?} {text}", Role::Value { key: &key });
            prop_assert!(seen.contains(&expected));
        }

        #[test]
        fn any_text_without_replacements_stays_identical(json in "[{}\\[\\]:,\"\\\\unk0dD8é ]{0,60}") {
            prop_assert_eq!(run(&json, "\u{0}never").0, json.clone());
            let (out, _) = run(&json, "k");
            prop_assert!(out.len() <= json.len());
        }
    }
}
