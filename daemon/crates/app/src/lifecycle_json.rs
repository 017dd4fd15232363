//! Lifecycle events as JSON objects for other programs.

use serde_json::{Map, Value};

use recall_domain::event::ConversationPlace;
use recall_domain::lifecycle::LifecycleEvent;

/// Builds an object with `event`, `session_id`, `agent`, `session_key` (the agent's own, or else both in one),
/// `workspace`, `at` (RFC 3339), the ids of the channel if the agent named one, and the event's own fields.
pub fn to_json(event: &LifecycleEvent) -> Value {
    let (session, agent) = event.session.as_ref().map(|key| (key.id.as_str(), key.agent.as_str())).unzip();
    // A time outside the calendar indicates damage, and is shown as 1970.
    let at = jiff::Timestamp::from_millisecond(event.at.0).unwrap_or_default();
    let both = || session.zip(agent).map(|(session, agent)| format!("{agent}:{session}"));
    let mut object = Map::new();
    object.insert("event".to_owned(), event.what.name().into());
    object.insert("session_id".to_owned(), session.into());
    object.insert("agent".to_owned(), agent.into());
    object.insert("session_key".to_owned(), event.place.session_key.clone().or_else(both).into());
    object.insert("workspace".to_owned(), event.workspace.as_deref().into());
    object.insert("at".to_owned(), at.to_string().into());
    let ConversationPlace { session_key: _, channel_id, account_id, conversation_id, sender } = &*event.place;
    for (name, id) in [
        ("channel_id", channel_id),
        ("account_id", account_id),
        ("conversation_id", conversation_id),
        ("sender", sender),
    ] {
        object.extend(id.as_deref().map(|id| (name.to_owned(), id.into())));
    }
    if let Value::Object(fields) = event.what.detail() {
        object.extend(fields);
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use recall_domain::event::{MessageOrigin, Notification, StartSource};
    use recall_domain::ids::{AgentName, JobId, ObservationId, SessionId, SessionKey, SummaryId, Timestamp};
    use recall_domain::lifecycle::{ClosedBatch, Compactions, LifecycleKind, Tally, Totals};
    use recall_domain::material::BatchSource;
    use recall_domain::observation::ObservationType;

    /// One event of each kind, with every field set.
    fn examples() -> [LifecycleKind; 13] {
        let (tally, totals, reason) = (Tally::default(), Totals::default(), String::new);
        let origin = MessageOrigin {
            sender: Some(String::new()),
            channel: Some(String::new()),
            account: Some(String::new()),
            conversation: Some(String::new()),
            session_key: None,
            sent_at: Some(Timestamp(1)),
            sender_id: Some(String::new()),
            sender_name: Some(String::new()),
            sender_username: Some(String::new()),
            thread: Some(String::new()),
            message: Some(String::new()),
        };
        let (id, kind, title) = (ObservationId(1), ObservationType::Gotcha, String::new());
        [
            LifecycleKind::SessionStart { life: 1, source: StartSource::Startup, resumed_from: None, totals },
            LifecycleKind::SessionSuspend { tally, totals, duration_ms: 0, reason: reason() },
            LifecycleKind::SessionResume { suspended_for_ms: 0, totals },
            LifecycleKind::SessionEnd { tally, totals, duration_ms: 0, reason: reason() },
            LifecycleKind::BeforeCompaction(Compactions::default()),
            LifecycleKind::AfterCompaction(Compactions::default()),
            LifecycleKind::MessageReceived {
                source: Some(BatchSource::User),
                prompt_number: Some(1),
                content: None,
                origin: Some(Box::new(origin)),
            },
            LifecycleKind::BatchClosed(ClosedBatch::default()),
            LifecycleKind::ObservationCreated { id, kind, title: title.clone() },
            LifecycleKind::ObservationReplaced { id, by: ObservationId(2), title },
            LifecycleKind::SummaryCreated { id: SummaryId(1), title: String::new(), totals },
            LifecycleKind::JobDead { job: JobId(1), attempts: 3, error: String::new() },
            LifecycleKind::Notification(Notification::default()),
        ]
    }

    #[test]
    fn the_page_of_events_shows_every_field_of_every_event() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/events.md");
        let page = std::fs::read_to_string(page).unwrap();
        let shown: Vec<Value> = page
            .split("```json\n")
            .skip(1)
            .map(|block| serde_json::from_str(block.split("```").next().unwrap()).unwrap())
            .collect();
        let fields =
            |event: &Value| -> BTreeSet<String> { event.as_object().unwrap().keys().cloned().collect() };
        let key = SessionKey { agent: AgentName::from("an-agent"), id: SessionId("s".to_owned()) };
        for what in examples() {
            let name = what.name();
            let event = LifecycleEvent {
                session: Some(key.clone()),
                workspace: None,
                place: Box::default(),
                at: Timestamp(0),
                what,
            };
            let shown: Vec<_> = shown.iter().filter(|shown| shown["event"] == name).collect();
            assert_eq!(shown.len(), 1, "{name}");
            assert_eq!(fields(shown[0]), fields(&to_json(&event)), "{name}");
        }
        assert_eq!(shown.len(), LifecycleKind::NAMES.len() + 1, "and `lagged`");
    }
}
