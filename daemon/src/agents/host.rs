//! Hosts without a folder of their own. Their events are read in the format that many agents copied, with event names
//! in any spelling.
//!
//! Long-lived hosts (chat gateways) name their events `session_start`, `session:compact:before`, `command:new` or
//! `message:received`. [`SPELLINGS`] maps them. Fields are looked up at the top and in the objects that these hosts
//! use, in both spellings. Events that are neither listed nor of the copied format are stored as they came.

use recall_protocol::wire::Deliver;

use super::failure::FailureRules;
use super::json::{Fields, string};
use super::{AgentSpec, Unreadable, copied_format};
use crate::memory::event::{Audience, HookEvent, HookEventKind, MessageOrigin, StartSource};
use crate::memory::ids::{SessionId, Timestamp};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "unknown",
    title: "an unknown agent",
    events: &[],
    read,
    reply: |_| Ok(None),
    plan_file: |_| Ok(None),
    plan_folders: &[".cursor/plans"],
    failures: FailureRules {
        // OpenCode's field.
        inner_exit_code: Some(("metadata", "exit")),
        ..copied_format::SPEC.failures
    },
    ..copied_format::SPEC
};

/// The event that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    SessionStart,
    SessionSuspend,
    SessionResume,
    /// With this reason if the event has none.
    SessionEnd(&'static str),
    BeforeCompaction,
    AfterCompaction,
    MessageReceived,
    /// The user has stopped the turn.
    Stop,
    /// Internal to the host, and also reported by events of its sessions.
    Internal,
}

/// Event names reduced to lower-case letters and digits: `session_start`, `SessionStart` and `session:start` are one.
const SPELLINGS: [(&str, Meaning); 19] = [
    ("sessionstart", Meaning::SessionStart),
    ("gatewaystartup", Meaning::SessionStart),
    ("sessionsuspend", Meaning::SessionSuspend),
    ("sessionresume", Meaning::SessionResume),
    ("sessionend", Meaning::SessionEnd("other")),
    ("commandnew", Meaning::SessionEnd("new")),
    ("commandreset", Meaning::SessionEnd("reset")),
    ("sessionautoreset", Meaning::SessionEnd("idle")),
    ("commandstop", Meaning::Stop),
    ("beforecompaction", Meaning::BeforeCompaction),
    ("sessioncompactbefore", Meaning::BeforeCompaction),
    ("precompact", Meaning::BeforeCompaction),
    ("aftercompaction", Meaning::AfterCompaction),
    ("sessioncompactafter", Meaning::AfterCompaction),
    ("postcompact", Meaning::AfterCompaction),
    ("messagereceived", Meaning::MessageReceived),
    // Each session also gets an event about its suspension or end.
    ("gatewayshutdown", Meaning::Internal),
    ("gatewayprerestart", Meaning::Internal),
    ("gatewaystop", Meaning::Internal),
];

fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Objects in which hosts put an event's fields.
const INSIDE: [&str; 4] = ["event", "context", "ctx", "metadata"];

/// An event's fields and those of the nested objects.
struct Payload {
    top: Fields,
    inside: Vec<Fields>,
}

impl Payload {
    fn read(delivery: &Deliver) -> Result<Self, Unreadable> {
        let top = Fields::read(&delivery.payload)?;
        let mut inside = Vec::new();
        for name in INSIDE {
            let object = top.raw(name).and_then(|raw| Fields::read(raw.as_bytes()).ok());
            let deeper = object.as_ref().and_then(|object| object.raw("metadata"));
            let deeper = deeper.and_then(|raw| Fields::read(raw.as_bytes()).ok());
            inside.extend(object);
            inside.extend(deeper);
        }
        Ok(Self { top, inside })
    }

    /// The JSON text of the first spelling that exists, outer fields first.
    fn raw(&self, names: &[&str]) -> Option<&str> {
        let all = std::iter::once(&self.top).chain(&self.inside);
        all.filter_map(|fields| fields.raw_of(names)).next()
    }

    /// A non-empty text. Ids may be numbers.
    fn word(&self, names: &[&str]) -> Option<String> {
        word(self.raw(names)?)
    }

    /// Who is named by these fields. Some hosts write an object with an id and names.
    fn person(&self, names: &[&str]) -> Option<String> {
        let raw = self.raw(names)?;
        match Fields::read(raw.as_bytes()) {
            Ok(person) => ["id", "username", "name"].iter().find_map(|name| word(person.raw(name)?)),
            Err(_) => word(raw),
        }
    }

    fn name(&self, delivery: &Deliver) -> Option<String> {
        let pair = || Some(format!("{}:{}", self.top.word("type")?, self.top.word("action")?));
        self.top
            .word("hook_event_name")
            .or_else(|| Some(delivery.event_name.clone()).filter(|name| !name.is_empty()))
            .or_else(pair)
            .or_else(|| self.top.word("event"))
    }

    fn session(&self) -> Option<String> {
        let id = self.word(&["session_id", "sessionId"]).or_else(|| self.top.word("conversation_id"));
        id.or_else(|| self.word(&["session_key", "sessionKey"]))
    }

    fn origin(&self) -> Option<Box<MessageOrigin>> {
        let origin = MessageOrigin {
            sender: self.person(&["from", "sender_id", "senderId"]),
            channel: self.word(&["channel_id", "channelId", "channel"]),
            account: self.word(&["account_id", "accountId", "account"]),
            conversation: self.word(&["conversation_id", "conversationId", "conversation", "chatId"]),
            sent_at: self.raw(&["timestamp"]).and_then(time),
        };
        let places = [&origin.sender, &origin.channel, &origin.account, &origin.conversation];
        places.iter().any(|id| id.is_some()).then(|| Box::new(origin))
    }
}

/// A text that says something, or a number.
fn word(raw: &str) -> Option<String> {
    let number = || raw.parse::<i64>().ok().map(|number| number.to_string());
    string(raw).or_else(number).filter(|text| !text.is_empty())
}

/// Milliseconds or seconds since 1970, or RFC 3339.
fn time(raw: &str) -> Option<Timestamp> {
    /// Smaller numbers are seconds; as seconds this is the year 5138.
    const LEAST_MS: i64 = 100_000_000_000;
    if let Some(text) = string(raw) {
        return Some(Timestamp(text.parse::<jiff::Timestamp>().ok()?.as_millisecond()));
    }
    let number = raw.parse::<i64>().ok()?;
    Some(Timestamp(if number < LEAST_MS { number.checked_mul(1000)? } else { number }))
}

/// Reads one event.
pub(super) fn read(delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let payload = Payload::read(delivery)?;
    let session = payload.session().ok_or(Unreadable::NoSession)?;
    let name = payload.name(delivery).ok_or(Unreadable::NoEvent)?;
    let spelled = letters(&name);
    let known = copied_format::SPEC.events.iter().find(|known| letters(known.name) == spelled);
    let known = known.map_or(&*name, |known| known.name);
    let event = copied_format::event(&payload.top, delivery, (session, known), &SPEC.failures);
    let meaning = SPELLINGS.iter().find(|(spelling, _)| *spelling == spelled).map(|(_, meaning)| *meaning);
    let what = match meaning {
        Some(meaning) => what(meaning, &name, &payload, delivery),
        None => event.what,
    };
    let is_message = matches!(what, HookEventKind::Prompt { .. } | HookEventKind::MessageReceived { .. });
    let origin = if is_message { payload.origin() } else { None };
    let cwd = event.cwd.or_else(|| payload.word(&["workspaceDir", "workspace_dir"]));
    Ok(HookEvent { origin, cwd, what, session: SessionId(event.session.0), ..event })
}

fn what(meaning: Meaning, name: &str, payload: &Payload, delivery: &Deliver) -> HookEventKind {
    let reason = |otherwise: &str| payload.word(&["reason"]).unwrap_or_else(|| otherwise.to_owned());
    let trigger = || payload.word(&["trigger"]).unwrap_or_else(|| "auto".to_owned());
    match meaning {
        Meaning::SessionStart => {
            let before = payload.word(&["resumed_from", "resumedFrom"]);
            let source = match (payload.word(&["source"]), before) {
                (Some(source), _) => StartSource::parse(&source),
                // A conversation that began in place of another one.
                (None, Some(_)) => StartSource::Clear,
                (None, None) => StartSource::Startup,
            };
            HookEventKind::SessionStart { source, audience: Audience::Nobody }
        }
        Meaning::SessionSuspend => HookEventKind::SessionSuspend { reason: reason("other") },
        Meaning::SessionResume => HookEventKind::SessionResume,
        Meaning::SessionEnd(otherwise) => match reason(otherwise).as_str() {
            // The host exits, and its sessions continue when it is back.
            reason @ ("shutdown" | "restart") => HookEventKind::SessionSuspend { reason: reason.to_owned() },
            // The conversation continues under another id.
            "compaction" => HookEventKind::Internal { name: name.to_owned() },
            reason => HookEventKind::SessionEnd { reason: reason.to_owned() },
        },
        Meaning::BeforeCompaction => HookEventKind::PreCompact { trigger: trigger() },
        Meaning::AfterCompaction => {
            let summary = payload.word(&["compact_summary", "summary"]);
            HookEventKind::PostCompact { trigger: trigger(), summary }
        }
        Meaning::MessageReceived => HookEventKind::MessageReceived {
            content: payload.word(&["content", "text"]).filter(|text| !text.trim().is_empty()),
            detail: String::from_utf8_lossy(&delivery.payload).into_owned(),
        },
        Meaning::Stop => HookEventKind::Stop { message: payload.word(&["last_assistant_message"]) },
        Meaning::Internal => HookEventKind::Internal { name: name.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use recall_protocol::wire::{EventId, Flags, ShimContext};
    use serde_json::{Value, json};

    use super::*;
    use crate::agents;

    fn read(event_name: &str, payload: &Value) -> HookEvent {
        let delivery = Deliver {
            event_id: EventId([1; 16]),
            agent: "openclaw".to_owned(),
            event_name: event_name.to_owned(),
            captured_at_ms: 0,
            boot_id: [0; 16],
            boot_ns: 0,
            context: ShimContext::default(),
            payload: payload.to_string().into_bytes(),
            flags: Flags::default(),
        };
        (agents::AGENTS.spec("openclaw").read)(&delivery).expect("readable")
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
    fn an_event_named_like_one_of_ours_is_that_event() {
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
    fn names_and_ids_stand_where_the_host_puts_them() {
        let event =
            read("", &json!({"type": "command", "action": "new", "sessionKey": "agent:main", "context": {}}));
        assert_eq!((event.session.as_str(), event.name()), ("agent:main", "SessionEnd"));
        let nested = json!({"event": {"sessionId": "s9"}, "ctx": {"workspaceDir": "/shop"}});
        let event = read("session_start", &nested);
        assert_eq!((event.session.as_str(), event.cwd.as_deref()), ("s9", Some("/shop")));
    }

    #[test]
    fn a_message_tells_who_sent_it_where_and_when() {
        let origin = |sent_at| MessageOrigin {
            sender: Some("telegram:4711".to_owned()),
            channel: Some("telegram".to_owned()),
            account: Some("bot-1".to_owned()),
            conversation: Some("4711".to_owned()),
            sent_at: Some(Timestamp(sent_at)),
        };
        let inside = json!({"channelId": "telegram", "accountId": "bot-1", "conversationId": 4711});
        for (name, payload, sent_at) in [
            (
                "message_received",
                json!({"session_id": "s", "from": "telegram:4711", "content": "hi", "timestamp": 1_795_218_000_000_i64,
                    "metadata": {"channel": "telegram", "account": "bot-1", "conversation": "4711"}}),
                1_795_218_000_000,
            ),
            (
                "message:received",
                json!({"sessionKey": "s", "timestamp": "2026-11-20T23:40:00Z",
                    "context": {"from": "telegram:4711", "content": "hi", "channelId": "telegram",
                                "metadata": {"accountId": "bot-1", "conversationId": "4711"}}}),
                1_795_218_000_000,
            ),
            (
                "message_received",
                json!({"event": {"from": "telegram:4711", "content": "hi", "timestamp": 1_795_218_000}, "ctx": inside,
                    "session_id": "s"}),
                1_795_218_000_000,
            ),
        ] {
            let event = read(name, &payload);
            assert_eq!(event.origin.as_deref(), Some(&origin(sent_at)), "{payload}");
            assert!(
                matches!(&event.what, HookEventKind::MessageReceived { content: Some(said), .. } if said == "hi")
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
