//! Decides whether a person typed a prompt, from the fields of the agent's program.
//!
//! If the program says that nobody typed a prompt, recall relies on it. An unknown word means nothing, unless the
//! field exists only to name the author.

use super::letters;
use super::payload::Payload;
use crate::json::JsonFields;
use recall_domain::material::BatchSource;

/// Fields that may say how a prompt was created, among other things.
const SOURCE: &[&str] =
    &["source", "prompt_source", "promptSource", "turn_origin", "turnOrigin", "provenance", "origin_kind"];
/// An object that names the author, or the name itself.
const ORIGIN: &[&str] = &["origin"];
const KIND: &[&str] = &["kind", "type"];
/// Fields that are true if the program created the text.
const MADE: &[&str] = &["is_meta", "isMeta", "synthetic", "is_synthetic", "isSynthetic"];

/// Authors of a person's own prompts, in [`letters`].
const PEOPLE: &[&str] = &[
    "human",
    "user",
    "realuser",
    "externaluser",
    "person",
    "owner",
    "composer",
    "typed",
    "queued",
    "sdk",
    "suggestionaccepted",
    "cli",
];

/// Authors of other prompts, in [`letters`].
const MACHINES: &[(BatchSource, &[&str])] = &[
    (
        BatchSource::System,
        &[
            "system",
            "internalsystem",
            "internal",
            "synthetic",
            "loopwakeup",
            "schedulewakeup",
            "wakeup",
            "pollevent",
            "poll",
            "schedule",
            "scheduled",
            "scheduledtask",
            "cron",
            "heartbeat",
            "timer",
            "loop",
            "tick",
            "hook",
            "stophook",
            "hookfeedback",
            "autocontinuation",
            "continuation",
            "automation",
        ],
    ),
    (
        BatchSource::AgentNotification,
        &["tasknotification", "agentnotification", "notification", "backgroundtask", "monitor"],
    ),
    (
        BatchSource::AgentMessage,
        &[
            "peer",
            "agent",
            "subagent",
            "assistant",
            "teammate",
            "coordinator",
            "observer",
            "observeractivity",
            "channel",
            "webhook",
            "session",
            "intersession",
            "crosssession",
            "agentmessage",
            "teammatemessage",
            "crosssessionmessage",
            "peersendmessage",
        ],
    ),
];

/// The author of a payload's prompt.
pub(crate) fn source(payload: &Payload) -> BatchSource {
    let named = |kind: Option<String>| match kind {
        Some(kind) if is_person(&kind) => None,
        Some(kind) => Some(machine(&kind).unwrap_or(BatchSource::System)),
        None => None,
    };
    let origin = payload.raw(ORIGIN).and_then(|raw| JsonFields::read(raw.as_bytes()).ok());
    let of_origin = match origin {
        Some(origin) => named(KIND.iter().find_map(|name| origin.word(name))),
        None => payload.word(ORIGIN).and_then(|word| machine(&word)),
    };
    let of_words = || SOURCE.iter().find_map(|name| machine(&payload.word(&[name])?));
    let of_marks = || payload.raw(MADE).filter(|raw| *raw == "true").map(|_| BatchSource::System);
    of_origin.or_else(of_words).or_else(of_marks).unwrap_or(BatchSource::User)
}

pub(crate) fn is_person(word: &str) -> bool {
    PEOPLE.contains(&letters(word).as_str())
}

/// The source that a word names, unless it names a person.
pub(crate) fn machine(word: &str) -> Option<BatchSource> {
    let word = letters(word);
    MACHINES.iter().find(|(_, words)| words.contains(&word.as_str())).map(|(source, _)| *source)
}

/// The word for the source of a prompt, as written by an import.
pub(crate) fn word_for(source: BatchSource) -> &'static str {
    match source {
        BatchSource::AgentNotification => "notification",
        BatchSource::AgentMessage => "agent",
        BatchSource::System => "system",
        _ => "user",
    }
}

#[cfg(test)]
mod tests {
    use recall_protocol::wire::{Deliver, EventId, Flags, ShimContext};
    use serde_json::{Value, json};

    use super::*;

    fn source_of(mut fields: Value) -> BatchSource {
        fields["prompt"] = json!("Never use tabs");
        let delivery = Deliver {
            event_id: EventId([1; 16]),
            agent: String::new(),
            event_name: String::new(),
            captured_at_ms: 0,
            boot_id: [0; 16],
            boot_ns: 0,
            context: ShimContext::default(),
            payload: fields.to_string().into_bytes(),
            flags: Flags::default(),
        };
        source(&Payload::read(&delivery).unwrap())
    }

    #[test]
    fn the_source_of_a_prompt_is_read_from_its_fields() {
        use BatchSource::{AgentMessage, AgentNotification, System, User};
        for (fields, expected) in [
            (json!({}), User),
            (json!({"source": "user"}), User),
            (json!({"source": "sdk"}), User),
            (json!({"source": "vscode"}), User),
            (json!({"source": "system"}), System),
            (json!({"source": "loop_wakeup"}), System),
            (json!({"source": "peer"}), AgentMessage),
            (json!({"promptSource": "typed", "origin": {"kind": "human"}}), User),
            (json!({"promptSource": "system", "origin": {"kind": "task-notification"}}), AgentNotification),
            (json!({"promptSource": "sdk", "origin": {"kind": "peer", "name": "reviewer"}}), AgentMessage),
            (json!({"origin": {"kind": "channel", "server": "chat"}}), AgentMessage),
            (json!({"origin": {"kind": "from-the-future"}}), System),
            (json!({"origin": "external_user"}), User),
            (json!({"origin": "inter_session"}), AgentMessage),
            (json!({"origin": "Slack"}), User),
            (json!({"turnOrigin": "peer"}), AgentMessage),
            (json!({"provenance": "real_user"}), User),
            (json!({"metadata": {"isMeta": true}}), System),
            (json!({"isMeta": false}), User),
        ] {
            assert_eq!(source_of(fields.clone()), expected, "{fields}");
        }
    }
}
