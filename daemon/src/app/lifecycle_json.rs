//! Lifecycle events as other programs read them: one JSON object each.

use serde_json::{Map, Value};

use crate::memory::lifecycle::LifecycleEvent;

/// Has `event`, `session_id`, `agent`, `at` (RFC 3339), and the event's own fields.
pub fn to_json(event: &LifecycleEvent) -> Value {
    let (session, agent) = event.session.as_ref().map(|key| (key.id.as_str(), key.agent.as_str())).unzip();
    // A time outside the calendar means damage. It is shown as 1970.
    let at = jiff::Timestamp::from_millisecond(event.at.0).unwrap_or_default();
    let mut object = Map::new();
    object.insert("event".to_owned(), event.what.name().into());
    object.insert("session_id".to_owned(), session.into());
    object.insert("agent".to_owned(), agent.into());
    object.insert("at".to_owned(), at.to_string().into());
    if let Value::Object(fields) = event.what.detail() {
        object.extend(fields);
    }
    Value::Object(object)
}
