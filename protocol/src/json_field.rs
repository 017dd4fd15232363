//! Reads a single string field from the top level of a JSON object without building a tree.
//!
//! The shim needs two facts about a payload: the event's name, and whether the prompt is empty. The daemon reads
//! everything else. Keys at deeper levels are ignored. If a top-level key repeats, the last one counts, as in the
//! parsers of agents and of the daemon.

use std::borrow::Cow;

use crate::json_escape;
use crate::json_scan::{Cleaned, Escape, RunEnd, string_run};
use crate::wire::Flags;

/// Whether the whole prompt in a cleaned payload was private. `prompt_field` is the agent's name for the field.
pub fn is_wholly_private(cleaned: &Cleaned, prompt_field: &str) -> bool {
    cleaned.flags.contains(Flags::STRIPPED)
        && field(&cleaned.payload, prompt_field).is_some_and(|prompt| prompt.trim().is_empty())
}

/// Returns the string in the top-level field `name`, or `None` if the field is missing, is not a string, or the bytes
/// are not an object. Lone surrogates and invalid UTF-8 become U+FFFD.
///
/// `name` is compared with the raw key, so keys that contain escapes are not found.
pub fn field<'a>(json: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    let mut at = json.iter().position(|byte| !byte.is_ascii_whitespace())?;
    if json.get(at) != Some(&b'{') {
        return None;
    }
    let (mut depth, mut place, mut found) = (0_u64, FieldPosition::BeforeKey, None);
    while let Some(byte) = json.get(at) {
        at = at.saturating_add(1);
        match byte {
            b'"' => {
                let rest = json.get(at..)?;
                let (len, end) = string_run(rest, Escape::No);
                let RunEnd::Quote = end else { return found.map(unescape) };
                let inside = rest.get(..len)?;
                at = at.saturating_add(len).saturating_add(1);
                if depth == 1 {
                    match place {
                        FieldPosition::BeforeKey if inside == name.as_bytes() => {
                            place = FieldPosition::AfterOurKey
                        }
                        FieldPosition::BeforeKey => place = FieldPosition::Elsewhere,
                        FieldPosition::OurValue => {
                            found = Some(inside);
                            place = FieldPosition::Elsewhere;
                        }
                        FieldPosition::AfterOurKey | FieldPosition::Elsewhere => {}
                    }
                }
            }
            b':' if depth == 1 && place == FieldPosition::AfterOurKey => {
                place = FieldPosition::OurValue;
                found = None;
            }
            b',' if depth == 1 => place = FieldPosition::BeforeKey,
            b'{' | b'[' => {
                depth = depth.saturating_add(1);
                if place == FieldPosition::OurValue {
                    place = FieldPosition::Elsewhere;
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
    }
    found.map(unescape)
}

/// The reader's position in the top-level object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldPosition {
    BeforeKey,
    AfterOurKey,
    OurValue,
    Elsewhere,
}

/// Resolves the escapes inside a JSON string.
fn unescape(inside: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', inside).is_none() {
        return String::from_utf8_lossy(inside);
    }
    let mut text = String::new();
    let mut rest = inside;
    while let Some(plain) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at_checked(plain).unwrap_or((rest, b""));
        text.push_str(&String::from_utf8_lossy(before));
        let (character, len) = json_escape::read(escape);
        text.push(character);
        rest = escape.get(len..).unwrap_or_default();
    }
    text.push_str(&String::from_utf8_lossy(rest));
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(json: &str, expected: Option<&str>) {
        assert_eq!(field(json.as_bytes(), "name").as_deref(), expected, "{json}");
    }

    #[test]
    fn only_top_level_fields_are_read() {
        check(r#"{"name":"a"}"#, Some("a"));
        check(r#" { "x" : {"name":"b"} , "name" : "a" }"#, Some("a"));
        check(r#"{"x":[{"name":"b"}],"y":"name","name":"a"}"#, Some("a"));
        check(r#"{"x":{"name":"b"}}"#, None);
        check(r#"{"x":"name","y":"b"}"#, None);
        check(r#"[{"name":"b"}]"#, None);
        check(r#"["name","b"]"#, None);
        check(r#"{"name":{"name":"b"}}"#, None);
        check(r#"{"name":["b"],"x":"c"}"#, None);
        check(r#"{"name":1,"x":"c"}"#, None);
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        check(r#"{"name":"a","name":"b"}"#, Some("b"));
        check(r#"{"name":"a","name":1}"#, None);
        check(r#"{"name":1,"name":"b"}"#, Some("b"));
    }

    #[test]
    fn escapes_in_a_field_are_decoded() {
        check(r#"{"name":"a\"\\\/\n\tä\u00e4\ud83d\ude00"}"#, Some("a\"\\/\n\tää😀"));
        check(r#"{"name":"\ud83dx\u00"}"#, Some("\u{fffd}x\u{fffd}00"));
        check(r#"{"x\"":"b","name":"a"}"#, Some("a"));
    }

    #[test]
    fn truncated_json_yields_only_complete_fields() {
        check(r#"{"name":"a","x":"#, Some("a"));
        check(r#"{"name":"a","x":"y"#, Some("a"));
        check(r#"{"name":"a"#, None);
        check("", None);
        check("{", None);
        check("text", None);
    }

    proptest! {
        #[test]
        fn a_serialised_field_is_read_back(text in ".{0,20}", other in ".{0,20}") {
            let value = serde_json::json!({"x": {"name": other}, "name": text, "y": [other]});
            let json = value.to_string();
            prop_assert_eq!(field(json.as_bytes(), "name"), Some(Cow::Owned(text)));
        }

        #[test]
        fn no_bytes_make_the_field_reader_panic(bytes in proptest::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(&b"{}[]\":,\\unameadd0"[..])], 0..200))
        {
            if let Some(text) = field(&bytes, "name") {
                let is_object = bytes.trim_ascii_start().first() == Some(&b'{');
                prop_assert!(is_object);
                prop_assert!(text.len() <= bytes.len() * 3);
            }
        }
    }
}
