//! The shapes that other programs may rely on: fields are added, never renamed. Times are RFC 3339.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::memory::document::{DocumentKey, DocumentKind};
use crate::memory::ids::Timestamp;

pub mod found;
pub mod lineage;
pub mod session;
pub mod status;

/// A point in time as others read it.
#[derive(Clone, Copy, Debug)]
pub struct Moment(pub Timestamp);

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Out of the calendar's range is damage; the beginning of time says so as well as anything.
        let time = jiff::Timestamp::from_millisecond(self.0.0).unwrap_or_default();
        serializer.collect_str(&time)
    }
}

/// An id as others read it: a number for an observation, a letter and a number for the rest.
#[derive(Clone, Copy, Debug)]
pub struct PublicId(pub DocumentKey);

impl Serialize for PublicId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.kind {
            DocumentKind::Observation => serializer.serialize_i64(self.0.row),
            _ => serializer.collect_str(&self.0),
        }
    }
}

/// Where something was made; as in [`ObservationAnswer`].
#[derive(Default, Serialize)]
pub struct MadeOnAnswer {
    pub branch: Option<String>,
    pub commit: Option<String>,
    pub elsewhere: Option<String>,
}

/// `show` and `timeline`.
#[derive(Serialize)]
pub struct TextAnswer<T: Serialize> {
    pub text: String,
    pub tokens: u32,
    pub items: Vec<T>,
}

/// At most `most` characters, the last an ellipsis where something is missing.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Agents' JSON nested deeper than this is given as a text: readers, the command line's among them, commonly refuse
/// more than 128 levels, and with it the whole answer around it.
const MOST_LEVELS: usize = 100;

fn json_or_text(text: String) -> Option<Box<RawValue>> {
    let json = (levels(&text) <= MOST_LEVELS).then(|| RawValue::from_string(text.clone()).ok()).flatten();
    json.or_else(|| serde_json::value::to_raw_value(&text).ok())
}

/// How deep arrays and objects are nested, without recursion.
fn levels(json: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let mut bytes = json.bytes();
    let mut in_string = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            // What is escaped, a quote perhaps, ends nothing.
            b'\\' if in_string => drop(bytes.next()),
            b'[' | b'{' if !in_string => {
                open += 1;
                most = most.max(open);
            }
            b']' | b'}' if !in_string => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_outside_strings() {
        let check = |json: &str, expected: usize| assert_eq!(levels(json), expected, "{json}");
        check("7", 0);
        check("[]", 1);
        check(r#"{"a":[{}],"b":[]}"#, 3);
        check(r#"["[[[\"[["]"#, 1);
        check(r#"["\\",[]]"#, 2);
        check("]]]", 0);
    }

    #[test]
    fn what_is_nested_too_deep_is_a_text() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let given = |text: String| json_or_text(text).map(|json| json.get().to_owned());
        assert_eq!(given(nested(MOST_LEVELS)), Some(nested(MOST_LEVELS)));
        assert_eq!(given(nested(MOST_LEVELS + 1)), Some(format!("{:?}", nested(MOST_LEVELS + 1))));
        assert_eq!(given("no json".to_owned()), Some("\"no json\"".to_owned()));
    }
}
