//! What is said of sessions, in the form in which other programs hear it: one JSON object an event.

use serde_json::{Map, Value};

use crate::memory::lifecycle::LifecycleEvent;

/// `event`, `session_id`, `agent`, `at` (RFC 3339), and the event's own fields beside them.
pub fn told(said: &LifecycleEvent) -> Value {
    let (session, agent) = said.session.as_ref().map(|key| (key.id.as_str(), key.agent.as_str())).unzip();
    // Out of the calendar's range is damage; the beginning of time says so as well as anything.
    let at = jiff::Timestamp::from_millisecond(said.at.0).unwrap_or_default();
    let mut object = Map::new();
    object.insert("event".to_owned(), said.what.name().into());
    object.insert("session_id".to_owned(), session.into());
    object.insert("agent".to_owned(), agent.into());
    object.insert("at".to_owned(), at.to_string().into());
    if let Value::Object(fields) = said.what.detail() {
        object.extend(fields);
    }
    Value::Object(object)
}
