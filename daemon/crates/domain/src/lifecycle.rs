//! The lifecycle events that recall publishes about sessions, the same for every agent.
//!
//! Events derive only from committed changes, so each is published once: an event that is delivered twice changes
//! nothing the second time and publishes nothing. Only current subscribers receive them. If the daemon is killed
//! between commit and publication, the events are lost. The store keeps those about a session's life and is
//! authoritative.

use serde_json::{Value, json};

use super::document::{DocumentKey, DocumentKind};
use super::event::{ConversationPlace, MessageOrigin, Notification, StartSource};
use super::ids::{JobId, ObservationId, SessionId, SessionKey, SummaryId, Timestamp};
use super::material::BatchSource;
use super::observation::ObservationType;

/// A published event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleEvent {
    /// `None` if it belongs to no session.
    pub session: Option<SessionKey>,
    /// The project's folder, if known.
    pub workspace: Option<String>,
    /// The place of the conversation, as far as the agent reports it.
    pub place: Box<ConversationPlace>,
    pub at: Timestamp,
    pub what: LifecycleKind,
}

/// The kinds of events, with their data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifecycleKind {
    SessionStart {
        /// Counted from 1.
        life: u32,
        source: StartSource,
        /// In a later life, the session's own id; in the first life, the session that was cleared to start this one.
        resumed_from: Option<SessionId>,
        totals: Totals,
    },
    SessionSuspend {
        tally: Tally,
        totals: Totals,
        /// Milliseconds since the session's first start.
        duration_ms: i64,
        reason: String,
    },
    SessionResume {
        suspended_for_ms: i64,
        totals: Totals,
    },
    SessionEnd {
        tally: Tally,
        totals: Totals,
        /// Since the session's first start.
        duration_ms: i64,
        reason: String,
    },
    BeforeCompaction(Compactions),
    AfterCompaction(Compactions),
    MessageReceived {
        /// The prompt's source. `None` for a message that is not a prompt yet.
        source: Option<BatchSource>,
        /// Counted from 1. `None` for a message that is not a prompt yet.
        prompt_number: Option<u32>,
        /// `None` if it was entirely private.
        content: Option<String>,
        /// The origin, if the agent names it.
        origin: Option<Box<MessageOrigin>>,
    },
    BatchClosed(ClosedBatch),
    Notification(Notification),
    ObservationCreated {
        id: ObservationId,
        kind: ObservationType,
        title: String,
    },
    /// A better observation took over this one's statement and evidence.
    ObservationReplaced {
        id: ObservationId,
        by: ObservationId,
        title: String,
    },
    SummaryCreated {
        id: SummaryId,
        title: String,
        totals: Totals,
    },
    JobDead {
        job: JobId,
        attempts: u32,
        error: String,
    },
}

/// The state of a session's conversation at a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compactions {
    /// Prompts and answers of the whole session.
    pub message_count: u32,
    /// Those of them since the previous compaction.
    pub messages_since_last: u32,
    /// The session's compactions so far. The current one counts once it has finished.
    pub compacted_count: u32,
}

/// The session's totals so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub prompt_count: u32,
    pub tool_call_count: u32,
    pub observation_count: u32,
}

/// A finished prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosedBatch {
    pub prompt_number: u32,
    pub source: BatchSource,
    /// The store's name of the reason.
    pub reason: String,
    pub duration_ms: i64,
    pub tool_call_count: u32,
    /// The number of those calls that failed or were refused.
    pub failed_call_count: u32,
    /// The number of project files that the calls changed, as far as their tools report it.
    pub changed_file_count: u32,
}

/// Totals of a session so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Prompts and answers of the whole session.
    pub message_count: u32,
    /// The duration of the current life.
    pub life_ms: i64,
}

impl LifecycleKind {
    /// All event names.
    pub const NAMES: [&str; 13] = [
        "session_start",
        "session_suspend",
        "session_resume",
        "session_end",
        "before_compaction",
        "after_compaction",
        "message_received",
        "batch_closed",
        "observation_created",
        "observation_replaced",
        "summary_created",
        "job_dead",
        "notification",
    ];

    /// The event's public name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SessionStart { .. } => "session_start",
            Self::SessionSuspend { .. } => "session_suspend",
            Self::SessionResume { .. } => "session_resume",
            Self::SessionEnd { .. } => "session_end",
            Self::BeforeCompaction(_) => "before_compaction",
            Self::AfterCompaction(_) => "after_compaction",
            Self::MessageReceived { .. } => "message_received",
            Self::BatchClosed { .. } => "batch_closed",
            Self::ObservationCreated { .. } => "observation_created",
            Self::ObservationReplaced { .. } => "observation_replaced",
            Self::SummaryCreated { .. } => "summary_created",
            Self::JobDead { .. } => "job_dead",
            Self::Notification(_) => "notification",
        }
    }

    /// The event's public fields, as stored and published. They contain only counts, names and requested content.
    pub fn detail(&self) -> Value {
        match self {
            Self::SessionStart { life, source, resumed_from, totals } => {
                let resumed_from = resumed_from.as_ref().map(SessionId::as_str);
                with_totals(
                    json!({"life": life, "source": source.as_str(), "resumed_from": resumed_from}),
                    *totals,
                )
            }
            Self::SessionSuspend { tally, totals, duration_ms, reason }
            | Self::SessionEnd { tally, totals, duration_ms, reason } => {
                let Tally { message_count, life_ms } = tally;
                let fields = json!({"message_count": message_count, "duration_ms": duration_ms,
                    "life_ms": life_ms, "reason": reason});
                with_totals(fields, *totals)
            }
            Self::SessionResume { suspended_for_ms, totals } => {
                with_totals(json!({"suspended_for_ms": suspended_for_ms}), *totals)
            }
            Self::BeforeCompaction(counts) | Self::AfterCompaction(counts) => {
                let Compactions { message_count, messages_since_last, compacted_count } = counts;
                json!({"message_count": message_count, "messages_since_last": messages_since_last,
                       "compacted_count": compacted_count})
            }
            Self::MessageReceived { source, prompt_number, content, origin } => {
                let mut fields = message(*source, content.as_deref(), origin.as_deref());
                if let Some(number) = prompt_number {
                    fields["prompt_number"] = json!(number);
                }
                fields
            }
            Self::BatchClosed(closed) => json!({
                "prompt_number": closed.prompt_number,
                "source": closed.source.as_str(),
                "reason": closed.reason,
                "duration_ms": closed.duration_ms,
                "tool_call_count": closed.tool_call_count,
                "failed_call_count": closed.failed_call_count,
                "changed_file_count": closed.changed_file_count,
            }),
            Self::ObservationCreated { id, kind, title } => {
                json!({"id": id, "type": kind.as_str(), "title": title})
            }
            Self::ObservationReplaced { id, by, title } => json!({"id": id, "by": by, "title": title}),
            Self::SummaryCreated { id, title, totals } => {
                let key = DocumentKey { kind: DocumentKind::Summary, row: id.0 };
                with_totals(json!({"id": key.to_string(), "title": title}), *totals)
            }
            Self::Notification(Notification { kind, title, message }) => {
                json!({"kind": kind, "title": title, "message": message})
            }
            Self::JobDead { job, attempts, error } => {
                json!({"job": job, "attempts": attempts, "error": error})
            }
        }
    }
}

fn with_totals(mut fields: Value, totals: Totals) -> Value {
    let Totals { prompt_count, tool_call_count, observation_count } = totals;
    fields["prompt_count"] = json!(prompt_count);
    fields["tool_call_count"] = json!(tool_call_count);
    fields["observation_count"] = json!(observation_count);
    fields
}

/// `from` is the sender or, if unnamed, the prompt's source. Other fields are present only if known.
fn message(source: Option<BatchSource>, content: Option<&str>, origin: Option<&MessageOrigin>) -> Value {
    let source = source.unwrap_or(BatchSource::User).as_str();
    let sender = origin.and_then(|origin| origin.sender.as_deref());
    let mut fields = json!({"from": sender.unwrap_or(source), "content": content});
    let Some(origin) = origin else { return fields };
    let MessageOrigin { channel, account, conversation, sent_at, .. } = origin;
    for (name, value) in [
        ("channel_id", channel),
        ("account_id", account),
        ("conversation_id", conversation),
        ("sender_id", &origin.sender_id),
        ("sender_name", &origin.sender_name),
        ("sender_username", &origin.sender_username),
        ("thread_id", &origin.thread),
        ("message_id", &origin.message),
    ] {
        if let Some(value) = value {
            fields[name] = json!(value);
        }
    }
    if let Some(at) = sent_at {
        fields["timestamp"] = json!(at.0);
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_name_is_listed() {
        let (tally, totals) = (Tally::default(), Totals::default());
        let reason = String::new;
        let all = [
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
                origin: None,
            },
            LifecycleKind::BatchClosed(ClosedBatch::default()),
            LifecycleKind::ObservationCreated {
                id: ObservationId(1),
                kind: ObservationType::Gotcha,
                title: String::new(),
            },
            LifecycleKind::ObservationReplaced {
                id: ObservationId(1),
                by: ObservationId(2),
                title: String::new(),
            },
            LifecycleKind::SummaryCreated { id: SummaryId(1), title: String::new(), totals },
            LifecycleKind::JobDead { job: JobId(1), attempts: 3, error: String::new() },
            LifecycleKind::Notification(Notification::default()),
        ];
        assert_eq!(all.map(|kind| kind.name()), LifecycleKind::NAMES);
    }

    #[test]
    fn a_message_event_names_its_sender_if_known() {
        let detail = |origin| {
            let (source, content) = (Some(BatchSource::User), Some("hello".to_owned()));
            LifecycleKind::MessageReceived { source, prompt_number: None, content, origin }.detail()
        };
        assert_eq!(detail(None), json!({"from": "user", "content": "hello"}));
        let origin = MessageOrigin {
            sender: Some("telegram:4711".to_owned()),
            channel: Some("telegram".to_owned()),
            account: None,
            conversation: Some("4711".to_owned()),
            session_key: None,
            sent_at: Some(Timestamp(1_795_218_000_000)),
            sender_name: Some("Ada".to_owned()),
            thread: Some("7".to_owned()),
            ..MessageOrigin::default()
        };
        let expected = json!({"from": "telegram:4711", "content": "hello", "channel_id": "telegram",
            "conversation_id": "4711", "sender_name": "Ada", "thread_id": "7", "timestamp": 1_795_218_000_000_i64});
        assert_eq!(detail(Some(Box::new(origin))), expected);
    }
}
