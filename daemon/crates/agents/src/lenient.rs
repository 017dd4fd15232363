//! Repairs payloads that are almost JSON.
//!
//! Shells, wrappers and programs in other languages write JSON that strict parsers reject: text before the object,
//! raw line breaks inside strings, half a character, `NaN`, a missing end. The meaning is clear in each case, and a
//! lost prompt cannot be recovered. Half of a surrogate pair, which strict parsers also reject, becomes U+FFFD.

use std::borrow::Cow;
use std::fmt::Write;

use serde::de::IgnoredAny;

/// How many objects are tried in a payload with text before it.
const MOST_BEGINNINGS: usize = 16;

/// Returns the longest object in a payload, as strict JSON; `None` if there is none.
pub(super) fn legible(payload: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(payload);
    // A payload may be an array; but a log line may also begin with a bracket.
    if text.starts_with('[') && serde_json::from_str::<IgnoredAny>(&text).is_ok() {
        return None;
    }
    let mut longest: Option<String> = None;
    for (at, _) in text.match_indices('{').take(MOST_BEGINNINGS) {
        let rest = text.get(at..).unwrap_or_default();
        // If this one is longer than all remaining text, it is the longest.
        if longest.as_ref().is_some_and(|known| known.len() >= rest.len()) {
            break;
        }
        let found =
            Repair::of(rest).filter(|found| longest.as_ref().is_none_or(|known| known.len() < found.len()));
        longest = found.or(longest);
    }
    longest.map(String::into_bytes)
}

/// Copies an object and repairs it.
struct Repair<'a> {
    rest: &'a str,
    out: String,
    /// The closing brackets of open objects and arrays.
    open: Vec<char>,
    /// The length of the output, and of `open`, after the last complete part.
    whole: (usize, usize),
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Key,
    Colon,
    Value,
    After,
}

impl<'a> Repair<'a> {
    /// Returns `None` if the text is not an object.
    fn of(text: &'a str) -> Option<String> {
        let out = String::with_capacity(text.len() + 16);
        let mut repair = Self { rest: text, out, open: Vec::new(), whole: (0, 0), place: Place::Value };
        repair.copy()?;
        (repair.out.len() > 2).then_some(repair.out)
    }

    fn copy(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
            let Some(next) = self.rest.chars().next() else {
                self.end();
                return Some(());
            };
            match (self.place, next) {
                (Place::Value, '{' | '[') => self.open(next),
                (Place::Value, '"') if self.string() => self.value_ended(),
                (Place::Key, '"') if self.string() => self.place = Place::Colon,
                // The text ends inside a string, whose beginning is kept.
                (Place::Value, '"') => {
                    self.out.push('"');
                    self.value_ended();
                }
                (Place::Key, '"') => {}
                (Place::Colon, ':') => self.step(next, Place::Value),
                (Place::After, ',') => {
                    let place = if self.open.last() == Some(&'}') { Place::Key } else { Place::Value };
                    self.step(next, place);
                }
                (Place::After, close) if self.open.last() == Some(&close) => self.close(close),
                // An empty object or array, or a comma before the end.
                (Place::Key | Place::Value, close)
                    if self.open.last() == Some(&close) && close == self.expected()? =>
                {
                    self.out.truncate(self.out.trim_end_matches(',').len());
                    self.close(close);
                }
                (Place::Value, c) if c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.') => {
                    self.scalar()
                }
                _ => return None,
            }
            if self.open.is_empty() {
                // The rest is not part of the object.
                return Some(());
            }
        }
    }

    /// The bracket that may close the innermost object or array; none while a member's value is missing.
    fn expected(&self) -> Option<char> {
        match self.place {
            Place::Key => Some('}'),
            _ => Some(']'),
        }
    }

    fn step(&mut self, written: char, place: Place) {
        self.out.push(written);
        self.rest = self.rest.get(written.len_utf8()..).unwrap_or_default();
        self.place = place;
    }

    fn open(&mut self, bracket: char) {
        let (close, place) = if bracket == '{' { ('}', Place::Key) } else { (']', Place::Value) };
        self.open.push(close);
        self.step(bracket, place);
        self.whole = (self.out.len(), self.open.len());
    }

    fn close(&mut self, bracket: char) {
        self.open.pop();
        self.step(bracket, Place::After);
        self.whole = (self.out.len(), self.open.len());
    }

    fn value_ended(&mut self) {
        self.place = Place::After;
        self.whole = (self.out.len(), self.open.len());
    }

    /// Copies a string. Returns `false` if the text ends inside it.
    fn string(&mut self) -> bool {
        self.out.push('"');
        self.rest = self.rest.get(1..).unwrap_or_default();
        loop {
            let special = |c: char| c == '"' || c == '\\' || c < ' ';
            let run = self.rest.find(special).unwrap_or(self.rest.len());
            let (plain, rest) = self.rest.split_at(run);
            self.out.push_str(plain);
            self.rest = rest;
            match rest.chars().next() {
                None => return false,
                Some('"') => {
                    self.out.push('"');
                    self.rest = rest.get(1..).unwrap_or_default();
                    return true;
                }
                Some('\\') => {
                    let Some((written, read)) = escape(rest) else {
                        self.rest = "";
                        return false;
                    };
                    self.out.push_str(&written);
                    self.rest = rest.get(read..).unwrap_or_default();
                }
                Some(control) => {
                    let _ = write!(self.out, "\\u{:04x}", u32::from(control));
                    self.rest = rest.get(1..).unwrap_or_default();
                }
            }
        }
    }

    /// Copies a number or a word. Words that JSON lacks become null: `NaN`, `None`, `undefined`.
    fn scalar(&mut self) {
        let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.' | '_'));
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        let is_json = serde_json::from_str::<serde_json::Value>(word).is_ok();
        self.out.push_str(match word {
            "True" => "true",
            "False" => "false",
            word if is_json => word,
            _ => "null",
        });
        self.rest = rest;
        // A number at the end of the text may be cut off.
        if rest.is_empty() {
            self.place = Place::After;
        } else {
            self.value_ended();
        }
    }

    /// Handles the end of the text: keeps the complete parts and closes them.
    fn end(&mut self) {
        self.out.truncate(self.whole.0);
        self.open.truncate(self.whole.1);
        while let Some(close) = self.open.pop() {
            self.out.push(close);
        }
    }
}

/// Converts the escape at the front into valid JSON, and returns its length. `None` if the text ends inside it.
fn escape(text: &str) -> Option<(Cow<'_, str>, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
    };
    let second = text.chars().nth(1)?;
    Some(match (second, unit(0), unit(6)) {
        ('u', Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (text.get(..12)?.into(), 12),
        ('u', Some(0xD800..=0xDFFF), _) => ("\\ufffd".into(), 6),
        ('u', Some(_), _) => (text.get(..6)?.into(), 6),
        ('u', None, _) if text.len() < 6 => return None,
        ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't', _, _) => (text.get(..2)?.into(), 2),
        // In a Windows path the backslash is meant literally.
        _ => ("\\\\".into(), 1),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(payload: &[u8], expected: &str) {
        let legible = legible(payload).map(|bytes| String::from_utf8(bytes).unwrap());
        let shown = String::from_utf8_lossy(payload);
        assert_eq!(legible.as_deref(), Some(expected), "{shown}");
        assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok(), "{expected}");
    }

    #[test]
    fn payloads_that_are_almost_json_are_repaired() {
        check(b"{\"a\":\"one\ntwo\x07\"}", r#"{"a":"one\u000atwo\u0007"}"#);
        check(b"{\"a\":\"one \xe3\x81 two\"}", "{\"a\":\"one \u{fffd} two\"}");
        check(br#"warning: {old} config {"a":1}"#, r#"{"a":1}"#);
        check(b"\xef\xbb\xbf{\"a\":1}", r#"{"a":1}"#);
        check(br#"{"a":1} trailing {"#, r#"{"a":1}"#);
        check(br#"{"a":NaN,"b":[None,True],"c":undefined}"#, r#"{"a":null,"b":[null,true],"c":null}"#);
        check(br#"{"a":[1,],"b":{},}"#, r#"{"a":[1],"b":{}}"#);
        check(br#"{"a":"C:\Users\new"}"#, r#"{"a":"C:\\Users\new"}"#);
        check(br#"{"a":"\ud83d","b":"\ud83d\ude00\udc00"}"#, r#"{"a":"\ufffd","b":"\ud83d\ude00\ufffd"}"#);
    }

    #[test]
    fn a_truncated_payload_is_closed() {
        check(br#"{"a":"1","b":"Fixed: the com"#, r#"{"a":"1","b":"Fixed: the com"}"#);
        check(br#"{"a":"1","b":"x\"#, r#"{"a":"1","b":"x"}"#);
        check(br#"{"a":"1","b":"x\u00"#, r#"{"a":"1","b":"x"}"#);
        check(br#"{"a":"1","b":{"c":["d","e"#, r#"{"a":"1","b":{"c":["d","e"]}}"#);
        check(br#"{"a":"1","b":{"c":["d","#, r#"{"a":"1","b":{"c":["d"]}}"#);
        for rest in ["", ",", ",\"", ",\"b", ",\"b\"", ",\"b\":", ",\"b\":12", ",\"b\":tr"] {
            check(format!("{{\"a\":\"1\"{rest}").as_bytes(), r#"{"a":"1"}"#);
        }
    }

    #[test]
    fn payloads_without_a_usable_object_are_not_repaired() {
        for payload in
            ["", "{", "{}", "[1]", "[{\"a\":1}]", "hello {world}", "{'a': 1}", "\"{\\\"a\\\":1}\"", "{a:1}"]
        {
            assert_eq!(legible(payload.as_bytes()), None, "{payload}");
        }
    }

    #[test]
    fn huge_hostile_payloads_do_not_crash_or_hang() {
        for part in ["{", "{\"a\":", "[", "{\"", "\\", "\"", "{\"a\":[", "\\ud800"] {
            legible(part.repeat(100_000).as_bytes());
            legible(format!("{{\"a\":\"{}", part.repeat(100_000)).as_bytes());
        }
    }

    proptest! {
        #[test]
        fn a_repaired_payload_is_always_valid_json(text in proptest::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(&b"{}[]\":,\\u\nd8adef0"[..])], 0..120))
        {
            if let Some(made) = legible(&text) {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&made).is_ok());
            }
        }

        #[test]
        fn a_payload_cut_anywhere_keeps_its_first_field(at in 12_usize..70) {
            let whole = r#"{"a":"first","b":{"c":[1,"two",null],"d":"\u00e9\"x"},"e":true,"f":"last"}"#;
            let made = legible(whole.get(..at).unwrap_or_default().as_bytes()).unwrap();
            let made: serde_json::Value = serde_json::from_slice(&made).unwrap();
            prop_assert_eq!(&made["a"], "first");
        }
    }
}
