//! Hosts without a folder of their own. Their events are read in the format that many agents copied, with event names
//! in any spelling.
//!
//! Long-lived hosts (chat gateways) name their events `session_start`, `session:compact:before`, `command:new` or
//! `message:received`. [`SPELLINGS`] maps them. Events that are neither listed nor in the copied format are stored
//! unprocessed.

use recall_protocol::wire::Deliver;

use super::failure::FailureRules;
use super::format::payload::Payload;
use super::format::{Format, Meaning};
use super::{AgentSpec, Unreadable, copied_format};
use recall_domain::event::{Audience, EventName, HookEvent, HookEventKind};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "unknown",
    title: "an unknown agent",
    format: Format { events: &[], ..FORMAT },
    read,
    reply: |_| Ok(None),
    plan_file: |_| Ok(None),
    plan_folders: &[".cursor/plans"],
    ..copied_format::SPEC
};

const FORMAT: Format = Format {
    also: SPELLINGS,
    failures: FailureRules {
        // OpenCode's field.
        inner_exit_code: Some(("metadata", "exit")),
        ..copied_format::FORMAT.failures
    },
    ..copied_format::FORMAT
};

/// Event names in [`letters`](super::format::letters).
pub(super) const SPELLINGS: &[(&str, Meaning)] = &[
    ("gatewaystartup", Meaning::Is(EventName::SessionStart)),
    ("sessionsuspend", Meaning::Is(EventName::SessionSuspend)),
    ("sessionresume", Meaning::Is(EventName::SessionResume)),
    ("commandnew", Meaning::Ends("new")),
    ("commandreset", Meaning::Ends("reset")),
    ("sessionautoreset", Meaning::Ends("idle")),
    // The user has stopped the turn.
    ("commandstop", Meaning::Is(EventName::Stop)),
    ("beforecompaction", Meaning::Is(EventName::PreCompact)),
    ("sessioncompactbefore", Meaning::Is(EventName::PreCompact)),
    ("aftercompaction", Meaning::Is(EventName::PostCompact)),
    ("sessioncompactafter", Meaning::Is(EventName::PostCompact)),
    ("messagereceived", Meaning::Is(EventName::MessageReceived)),
    // Each session also gets an event about its suspension or end.
    ("gatewayshutdown", Meaning::Internal),
    ("gatewayprerestart", Meaning::Internal),
    ("gatewaystop", Meaning::Internal),
];

/// Reads one event.
fn read(_: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let payload = Payload::read(delivery)?;
    let event = copied_format::as_meant(FORMAT.event(&payload, delivery)?, &payload);
    Ok(of_gateway(event, &payload, delivery))
}

/// Adds the fields of chat hosts: programs that serve many sessions for a long time.
pub(super) fn of_gateway(mut event: HookEvent, payload: &Payload, delivery: &Deliver) -> HookEvent {
    match &mut event.what {
        HookEventKind::SessionStart { audience, .. } => *audience = Audience::Nobody,
        HookEventKind::SessionEnd { reason } => match reason.as_str() {
            // The host exits, and its sessions continue when it returns.
            "shutdown" | "restart" => {
                event.what = HookEventKind::SessionSuspend { reason: std::mem::take(reason) };
            }
            // The conversation continues under another id.
            "compaction" => {
                let name = payload.event_name(delivery).unwrap_or_default();
                event.what = HookEventKind::Internal { name };
            }
            _ => {}
        },
        _ => {}
    }
    event
}

#[cfg(test)]
mod tests {
    use recall_protocol::wire::{EventId, Flags, ShimContext};
    use serde_json::{Value, json};

    use super::*;
    use recall_domain::event::{MessageOrigin, StartSource};
    use recall_domain::ids::Timestamp;

    fn read(event_name: &str, payload: &Value) -> HookEvent {
        let delivery = Deliver {
            event_id: EventId([1; 16]),
            agent: "some-gateway".to_owned(),
            event_name: event_name.to_owned(),
            captured_at_ms: 0,
            boot_id: [0; 16],
            boot_ns: 0,
            context: ShimContext::default(),
            payload: payload.to_string().into_bytes(),
            flags: Flags::default(),
        };
        crate::AGENTS.spec("some-gateway").event(&delivery).expect("readable")
    }

    #[track_caller]
    fn check(event_name: &str, fields: Value, expected: HookEventKind) {
        let mut payload = json!({"session_id": "s"});
        for (key, value) in fields.as_object().into_iter().flatten() {
            payload[key] = value.clone();
        }
        assert_eq!(read(event_name, &payload).what, expected, "{event_name} {payload}");
    }

    #[test]
    fn host_events_are_recognized_by_name_in_any_spelling() {
        let start = |source| HookEventKind::SessionStart { source, audience: Audience::Nobody };
        let end = |reason: &str| HookEventKind::SessionEnd { reason: reason.to_owned() };
        let suspend = |reason: &str| HookEventKind::SessionSuspend { reason: reason.to_owned() };
        let trigger = || "auto".to_owned();
        for name in ["session_start", "SessionStart", "sessionStart", "session:start", "gateway:startup"] {
            check(name, json!({}), start(StartSource::Startup));
        }
        check("session_start", json!({"resumedFrom": "before"}), start(StartSource::Clear));
        check("session_start", json!({"source": "resume"}), start(StartSource::Resume));
        check("session_suspend", json!({"reason": "gateway stopping"}), suspend("gateway stopping"));
        check("session_resume", json!({"suspendedForMs": 7}), HookEventKind::SessionResume);
        check("session_end", json!({"reason": "daily"}), end("daily"));
        check("session_end", json!({}), end("other"));
        check("session_end", json!({"reason": "shutdown"}), suspend("shutdown"));
        check("session_end", json!({"reason": "restart"}), suspend("restart"));
        check(
            "session_end",
            json!({"reason": "compaction"}),
            HookEventKind::Internal { name: "session_end".to_owned() },
        );
        check("command:new", json!({}), end("new"));
        check("command:stop", json!({}), HookEventKind::Stop { message: None });
        for name in ["before_compaction", "session:compact:before", "PreCompact"] {
            check(name, json!({"messageCount": 9}), HookEventKind::PreCompact { trigger: trigger() });
        }
        for name in ["after_compaction", "session:compact:after", "PostCompact"] {
            check(name, json!({}), HookEventKind::PostCompact { trigger: trigger(), summary: None });
        }
        check("gateway:shutdown", json!({}), HookEventKind::Internal { name: "gateway:shutdown".to_owned() });
        check(
            "stop",
            json!({"last_assistant_message": "done"}),
            HookEventKind::Stop { message: Some("done".to_owned()) },
        );
        let detail = json!({"session_id": "s", "x": 1}).to_string();
        check(
            "session:patch",
            json!({"x": 1}),
            HookEventKind::Other { name: "session:patch".to_owned(), detail },
        );
    }

    #[test]
    fn event_name_session_and_folder_are_read_from_alternative_fields() {
        let event =
            read("", &json!({"type": "command", "action": "new", "sessionKey": "agent:main", "context": {}}));
        assert_eq!((event.session.as_str(), event.name()), ("agent:main", "SessionEnd"));
        let nested = json!({"event": {"sessionId": "s9"}, "ctx": {"workspaceDir": "/shop"}});
        let event = read("session_start", &nested);
        assert_eq!((event.session.as_str(), event.cwd.as_deref()), ("s9", Some("/shop")));
    }

    #[test]
    fn a_messages_sender_channel_and_time_are_read() {
        let origin = |session_key: Option<&str>, sent_at| MessageOrigin {
            sender: Some("telegram:4711".to_owned()),
            channel: Some("telegram".to_owned()),
            account: Some("bot-1".to_owned()),
            conversation: Some("4711".to_owned()),
            session_key: session_key.map(str::to_owned),
            sent_at: Some(Timestamp(sent_at)),
            sender_id: Some("4711".to_owned()),
            sender_name: Some("Ada Lovelace".to_owned()),
            sender_username: Some("ada".to_owned()),
            thread: Some("7".to_owned()),
            message: Some("881".to_owned()),
        };
        let inside = json!({"channelId": "telegram", "accountId": "bot-1", "conversationId": 4711});
        let flat = json!({"channelId": "telegram", "accountId": "bot-1", "conversationId": 4711, "from": "telegram:4711",
            "content": "hi", "timestamp": 1_795_218_000, "senderId": "4711", "senderName": "Ada Lovelace",
            "senderUsername": "ada", "threadId": 7, "messageId": 881});
        for (name, payload, session, key, sent_at) in [
            (
                "message_received",
                json!({"session_id": "s", "from": "telegram:4711", "content": "hi", "timestamp": 1_795_218_000_000_i64,
                    "metadata": {"channel": "telegram", "account": "bot-1", "conversation": "4711", "sender_id": "4711",
                    "senderName": "Ada Lovelace", "senderUsername": "ada", "thread_id": "7", "message_id": 881}}),
                "s",
                None,
                1_795_218_000_000,
            ),
            (
                "message:received",
                json!({"sessionKey": "k", "timestamp": "2026-11-20T23:40:00Z",
                    "context": {"from": "telegram:4711", "content": "hi", "channelId": "telegram", "messageId": "881",
                        "metadata": {"accountId": "bot-1", "conversationId": "4711", "senderId": "4711", "threadId": "7",
                            "senderName": "Ada Lovelace", "senderUsername": "ada"}}}),
                "",
                Some("k"),
                1_795_218_000_000,
            ),
            (
                "message_received",
                json!({"event": {"from": "telegram:4711", "content": "hi", "timestamp": 1_795_218_000, "messageId": 881,
                    "senderId": "4711", "senderName": "Ada Lovelace", "senderUsername": "ada", "threadId": "7"},
                    "ctx": inside, "session_id": "k", "session_key": "k"}),
                "",
                Some("k"),
                1_795_218_000_000,
            ),
            ("message_received", flat, "", None, 1_795_218_000_000),
        ] {
            let event = read(name, &payload);
            assert_eq!(event.session.as_str(), session, "{payload}");
            assert_eq!(event.origin.as_deref(), Some(&origin(key, sent_at)), "{payload}");
            assert!(
                matches!(&event.what, HookEventKind::MessageReceived { content: Some(text), .. } if text == "hi")
            );
        }
        let prompt = json!({"session_id": "s", "prompt": "go", "sender_id": "4711", "channel": "telegram"});
        let sender = read("UserPromptSubmit", &prompt).origin.and_then(|origin| origin.sender);
        assert_eq!(sender.as_deref(), Some("4711"));
        assert_eq!(read("UserPromptSubmit", &json!({"session_id": "s", "prompt": "go"})).origin, None);
        for (from, expected) in [
            (json!({"id": 5, "name": "Ann"}), Some("5")),
            (json!({"username": "ann", "name": "Ann"}), Some("ann")),
            (json!({"id": null, "name": "Ann"}), Some("Ann")),
            (json!({"bot": true}), None),
        ] {
            let message = json!({"session_id": "s", "content": "hi", "from": from, "channelId": "C7"});
            let origin = read("message_received", &message).origin.expect("a channel");
            assert_eq!(
                (origin.sender.as_deref(), origin.channel.as_deref()),
                (expected, Some("C7")),
                "{from}"
            );
        }
    }
}
