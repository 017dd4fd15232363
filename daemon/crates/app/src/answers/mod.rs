//! The JSON answers on which other programs may rely: fields are added, never renamed. Times are RFC 3339.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use recall_agents::json::{has_surrogates, without_lone_surrogates};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::Timestamp;

pub mod browsing;
pub mod by_hand;
pub mod found;
pub mod friction;
pub mod handoff;
pub mod improving;
pub mod lineage;
pub mod metrics;
pub mod observation;
pub mod outline;
pub mod past_work;
pub mod portable;
pub mod session;
pub mod sharing;
pub mod status;
pub mod injection_uses;
pub mod upkeep;

/// A constant word; owned if it was parsed from an answer.
pub type Text = Cow<'static, str>;

/// A point in time, as JSON.
#[derive(Clone, Copy, Debug)]
pub struct Moment(pub Timestamp);

impl JsonSchema for Moment {
    fn schema_name() -> Cow<'static, str> {
        "Moment".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A time outside the calendar indicates damage, and is shown as 1970.
        let time = jiff::Timestamp::from_millisecond(self.0.0).unwrap_or_default();
        serializer.collect_str(&time)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let time: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Self(Timestamp(time.as_millisecond())))
    }
}

/// An id in JSON: a number for an observation, a letter and a number for all others.
#[derive(Clone, Copy, Debug)]
pub struct PublicId(pub DocumentKey);

impl JsonSchema for PublicId {
    fn schema_name() -> Cow<'static, str> {
        "PublicId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["integer", "string"]})
    }
}

impl Serialize for PublicId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.kind {
            DocumentKind::Observation => serializer.serialize_i64(self.0.row),
            _ => serializer.collect_str(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for PublicId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Observation(i64),
            Other(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Observation(row) => Ok(Self(DocumentKey { kind: DocumentKind::Observation, row })),
            Written::Other(text) => {
                DocumentKey::parse(&text).map(Self).ok_or_else(|| D::Error::custom("no document's id"))
            }
        }
    }
}

/// Where something was made; see `ObservationAnswer`.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
pub struct MadeOnAnswer {
    pub branch: Option<String>,
    pub commit: Option<String>,
    pub elsewhere: Option<String>,
}

/// A text for an agent, with its items.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct TextAnswer<T> {
    pub text: String,
    pub tokens: u32,
    pub items: Vec<T>,
}

/// Agents' JSON that is nested deeper than this is returned as a text. Many parsers, such as the command line's,
/// reject more than 128 levels, which would make the whole answer unreadable.
const MOST_LEVELS: usize = 100;

fn json_or_text(text: String) -> Option<Box<RawValue>> {
    // Parsers of whole answers reject lone surrogates, which agents write where they truncate a text.
    let text = if has_surrogates(text.as_bytes()) { without_lone_surrogates(&text) } else { text };
    let json = (levels(&text) <= MOST_LEVELS).then(|| RawValue::from_string(text.clone()).ok()).flatten();
    json.or_else(|| serde_json::value::to_raw_value(&text).ok())
}

/// Returns the depth of nested arrays and objects, without recursion.
fn levels(json: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let mut bytes = json.bytes();
    let mut in_string = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            // An escaped character, such as a quote, ends nothing.
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

    #[track_caller]
    fn check_read_back<T: Serialize + serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
        let answer: T = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&answer).unwrap().to_string(), json.to_string());
        answer
    }

    #[test]
    fn times_and_ids_are_parsed_and_serialized_unchanged() {
        let moment: Moment = check_read_back("2026-11-01T12:00:00.123Z".into());
        assert_eq!(moment.0, Timestamp(1_793_534_400_123));
        let PublicId(observation) = check_read_back(12.into());
        assert_eq!((observation.kind, observation.row), (DocumentKind::Observation, 12));
        let PublicId(prompt) = check_read_back("p3".into());
        assert_eq!((prompt.kind, prompt.row), (DocumentKind::Prompt, 3));
        assert!(serde_json::from_str::<PublicId>("\"x\"").is_err());
    }

    #[test]
    fn the_kind_of_a_shown_item_is_recognized_by_its_fields() {
        let summary: found::ShownItem = check_read_back(serde_json::json!({
            "id": "s1", "session_id": "76fb", "title": "T", "request": "R", "investigated": "", "learned": "",
            "completed": "", "next_steps": "", "notes": "", "created_at": "2026-11-01T12:00:00Z",
            "branch": "main", "commit": null, "elsewhere": null}));
        assert!(matches!(summary, found::ShownItem::Summary(_)));
        let plan: found::ShownItem = check_read_back(serde_json::json!({
            "id": "l1", "kind": "plan", "path": null, "title": "T", "state": "draft", "text": "X",
            "prompt_numbers": [1], "created_at": "2026-11-01T12:00:00Z", "updated_at": "2026-11-01T12:00:00Z",
            "branch": null, "commit": null, "elsewhere": null}));
        assert!(matches!(plan, found::ShownItem::Plan(_)));
        let document: found::ShownItem = check_read_back(serde_json::json!({
            "id": "p1", "kind": "prompt", "title": "T", "text": "X", "project": "shop", "session_id": null,
            "prompt_number": 1, "created_at": "2026-11-01T12:00:00Z", "branch": null, "commit": null,
            "elsewhere": null}));
        assert!(matches!(document, found::ShownItem::Document(_)));
    }

    #[test]
    fn calls_and_why_answers_are_parsed_and_serialized_unchanged() {
        let call: session::ActivityAnswer = check_read_back(serde_json::json!({
            "event_id": "00", "kind": "tool", "tool_name": "Bash", "tool_use_id": null, "failed": true,
            "input": {"z": 1, "a": [2]}, "response": "text", "subagent": null, "duration_ms": 5,
            "at": "2026-11-01T12:00:00Z", "refused_by": "secrets"}));
        assert!(call.failed);
        let why: session::Why =
            check_read_back(serde_json::json!({"id": 4, "kind": "observation", "title": "T", "given": []}));
        assert!(matches!(why, session::Why::Given(_)));
        let why: session::Why = check_read_back(serde_json::json!({"session_id": "76fb", "injections": [
            {"at": "2026-11-01T12:00:00Z", "moment": "start", "tokens": 7, "items": [
                {"kind": "session", "id": null, "title": "T", "reason": "R"}]}]}));
        assert!(matches!(why, session::Why::Session(_)));
    }

    #[test]
    fn json_nesting_levels_are_counted_outside_strings() {
        let check = |json: &str, expected: usize| assert_eq!(levels(json), expected, "{json}");
        check("7", 0);
        check("[]", 1);
        check(r#"{"a":[{}],"b":[]}"#, 3);
        check(r#"["[[[\"[["]"#, 1);
        check(r#"["\\",[]]"#, 2);
        check("]]]", 0);
    }

    #[test]
    fn invalid_or_too_deeply_nested_json_becomes_a_string() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let given = |text: String| json_or_text(text).map(|json| json.get().to_owned());
        assert_eq!(given(nested(MOST_LEVELS)), Some(nested(MOST_LEVELS)));
        assert_eq!(given(nested(MOST_LEVELS + 1)), Some(format!("{:?}", nested(MOST_LEVELS + 1))));
        assert_eq!(given("no json".to_owned()), Some("\"no json\"".to_owned()));
    }
}
