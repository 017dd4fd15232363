//! The fields of an event, wherever an agent puts them and however it spells them.
//!
//! Agents report the same facts under different names. Each list below contains all spellings of one fact; the first
//! that exists counts. So an agent's folder contains only its peculiarities.

use recall_protocol::wire::Deliver;
use serde_json::value::RawValue;

use crate::Unreadable;
use crate::json::{JsonFields, objects, string};
use recall_domain::event::{HostFacts, MessageOrigin};
use recall_domain::ids::{SessionId, Timestamp};

pub(crate) const SESSION: &[&str] = &["session_id", "sessionId"];
/// Names of a conversation, for hosts that name no session. A chat gateway's events name both.
const CONVERSATION: &[&str] = &["conversation_id", "conversationId", "trajectory_id", "taskId"];
const SESSION_KEY: &[&str] = &["session_key", "sessionKey"];
/// The usual name of this field.
pub(crate) const EVENT_FIELD: &str = "hook_event_name";
const EVENT: &[&str] = &[EVENT_FIELD, "hookEventName", "hookName", "agent_action_name"];
pub(crate) const TURN: &[&str] = &["prompt_id", "promptId", "turn_id", "generation_id", "execution_id"];
pub(crate) const PROMPT: &[&str] = &["prompt", "user_prompt"];
pub(crate) const TRANSCRIPT: &[&str] = &["transcript_path", "transcriptPath"];
pub(crate) const SUBAGENT: &[&str] = &["agent_id", "agentId", "subagent_id"];
pub(crate) const SUBAGENT_KIND: &[&str] = &["agent_type", "agentType", "subagent_type"];
pub(crate) const TOOL: &[&str] = &["tool_name", "toolName"];
pub(crate) const INPUT: &[&str] = &["tool_input", "toolArgs", "toolInput", "parameters"];
pub(crate) const RESPONSE: &[&str] = &["tool_response", "tool_result", "toolResult", "tool_output"];
pub(crate) const CALL: &[&str] = &["tool_use_id", "toolUseId", "tool_call_id", "toolCallId"];
pub(crate) const DURATION: &[&str] = &["duration_ms", "durationMs", "duration", "executionTimeMs"];
/// The agent's last message.
pub(crate) const MESSAGE: &[&str] = &[
    "last_assistant_message",
    "lastAssistantMessage",
    "prompt_response",
    "assistant_response",
    "response",
    "summary",
    "text",
];
pub(crate) const COMPACTED: &[&str] = &["compact_summary", "summary"];
/// The session before this one.
pub(crate) const CONTINUES: &[&str] =
    &["resumed_from", "resumedFrom", "previous_session_id", "previousSessionId"];
pub(crate) const DELETED: &[&str] = &["deleted_session_id", "deletedSessionId"];
const FOLDER: &[&str] = &["cwd", "workspaceDir", "workspace_dir", "working_dir"];
const FOLDERS: &[&str] = &["workspace_roots", "workspaceRoots", "workspacePaths"];

/// The maximum nesting of texts: messages have them in blocks, and some have the blocks in an object.
const DEEPEST_TEXT: usize = 4;

/// Objects that contain an event's fields in some hosts.
const INSIDE: &[&str] = &["event", "context", "ctx", "metadata"];

/// An event's fields and those of the nested objects.
pub struct Payload {
    pub top: JsonFields,
    inside: Vec<JsonFields>,
}

impl Payload {
    /// # Errors
    /// The payload is not UTF-8 or not one JSON object.
    pub fn read(delivery: &Deliver) -> Result<Self, Unreadable> {
        Self::with_objects(delivery, INSIDE)
    }

    /// Also reads the objects of these names.
    pub(crate) fn with_objects(delivery: &Deliver, names: &[&str]) -> Result<Self, Unreadable> {
        let top = JsonFields::read(&delivery.payload)?;
        let mut inside = Vec::new();
        for name in names {
            let object = top.raw(name).and_then(|raw| JsonFields::read(raw.as_bytes()).ok());
            let deeper = object.as_ref().and_then(|object| object.raw("metadata"));
            let deeper = deeper.and_then(|raw| JsonFields::read(raw.as_bytes()).ok());
            inside.extend(object);
            inside.extend(deeper);
        }
        Ok(Self { top, inside })
    }

    /// The JSON text of the first spelling that exists, outer fields first.
    pub fn raw(&self, names: &[&str]) -> Option<&str> {
        let all = std::iter::once(&self.top).chain(&self.inside);
        all.filter_map(|fields| fields.raw_of(names)).next()
    }

    /// A text, which may be empty.
    pub fn text(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| string(self.raw(&[name])?))
    }

    /// The text of a message: a string, or the texts of its blocks without those that the program added.
    pub fn message_text(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| message_text(self.raw(&[name])?, DEEPEST_TEXT))
    }

    /// A non-empty text. Ids may be numbers.
    pub fn word(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| word(self.raw(&[name])?))
    }

    /// Milliseconds, which some hosts write as a fraction.
    pub fn number(&self, names: &[&str]) -> Option<i64> {
        let raw = self.raw(names)?;
        raw.parse().ok().or_else(|| raw.parse::<f64>().ok().map(|number| number as i64))
    }

    /// The person that these fields name. Some hosts write an object with an id and names.
    fn person(&self, names: &[&str]) -> Option<String> {
        let raw = self.raw(names)?;
        match JsonFields::read(raw.as_bytes()) {
            Ok(person) => ["id", "username", "name"].iter().find_map(|name| word(person.raw(name)?)),
            Err(_) => word(raw),
        }
    }

    /// The event's name in the payload, else on the command line.
    pub fn event_name(&self, delivery: &Deliver) -> Option<String> {
        let pair = || Some(format!("{}:{}", self.top.word("type")?, self.top.word("action")?));
        EVENT
            .iter()
            .find_map(|name| self.top.word(name))
            .or_else(|| Some(delivery.event_name.clone()).filter(|name| !name.is_empty()))
            .or_else(pair)
            .or_else(|| self.top.word("event"))
    }

    pub fn session(&self) -> Option<String> {
        let named = self.word(SESSION).or_else(|| CONVERSATION.iter().find_map(|name| self.top.word(name)));
        named.or_else(|| self.word(SESSION_KEY))
    }

    /// The session of a message that reached a chat host. If the message only names where it was written, its session
    /// is [untold](SessionId::UNKNOWN), to be found among the known sessions. A host without a session yet writes the
    /// conversation's name instead.
    pub(super) fn session_of_message(&self) -> Option<String> {
        let key = self.word(SESSION_KEY);
        let named = self.word(SESSION).filter(|id| Some(id) != key.as_ref());
        named.or_else(|| self.origin("").map(|_| String::new()))
    }

    /// The working folder: the first one if there are several.
    pub fn folder(&self) -> Option<String> {
        let first = || {
            let roots: Vec<String> = serde_json::from_str(self.top.raw_of(FOLDERS)?).ok()?;
            roots.into_iter().find(|root| !root.is_empty())
        };
        self.word(FOLDER).or_else(first)
    }

    /// Where a message of this session came from.
    pub fn origin(&self, session: &str) -> Option<Box<MessageOrigin>> {
        // Some hosts write an object with an id and names.
        let from = self.raw(&["from"]).and_then(|from| JsonFields::read(from.as_bytes()).ok());
        let part = |name: &str| word(from.as_ref()?.raw(name)?);
        let origin = MessageOrigin {
            sender: self.person(&["from", "sender_id", "senderId"]),
            channel: self.word(&["channel_id", "channelId", "channel"]),
            account: self.word(&["account_id", "accountId", "account"]),
            conversation: self.word(&["conversation_id", "conversationId", "conversation", "chatId"]),
            session_key: self.word(SESSION_KEY).filter(|key| key != session),
            sent_at: self.raw(&["timestamp"]).and_then(time),
            sender_id: self.word(&["sender_id", "senderId"]),
            sender_name: self.word(&["sender_name", "senderName"]).or_else(|| part("name")),
            sender_username: self.word(&["sender_username", "senderUsername"]).or_else(|| part("username")),
            thread: self.word(&["thread_id", "threadId"]),
            message: self.word(&["message_id", "messageId"]),
        };
        let MessageOrigin { sender, channel, account, conversation, session_key, .. } = &origin;
        let places = [sender, channel, account, conversation, session_key];
        places.iter().any(|id| id.is_some()).then(|| Box::new(origin))
    }

    /// The program's own counters for the session.
    pub(super) fn host_facts(&self) -> Option<Box<HostFacts>> {
        let facts = HostFacts {
            continues: self.word(CONTINUES).map(SessionId),
            message_count: self.number(&["message_count", "messageCount"]),
            compacted_count: self.number(&["compacted_count", "compactedCount"]),
        };
        (facts != HostFacts::default()).then(|| Box::new(facts))
    }

    /// The calls of an event that reports several.
    pub(super) fn calls(&self) -> Vec<JsonFields> {
        objects(self.top.raw("tool_calls").unwrap_or("[]"))
    }
}

fn message_text(raw: &str, deeper: usize) -> Option<String> {
    const TEXT: &[&str] = &["text", "content", "parts"];
    if let Some(text) = string(raw) {
        return Some(text);
    }
    let deeper = deeper.checked_sub(1)?;
    if let Ok(block) = JsonFields::read(raw.as_bytes()) {
        let is_made = block.raw("synthetic") == Some("true");
        return if is_made {
            None
        } else {
            TEXT.iter().find_map(|name| message_text(block.raw(name)?, deeper))
        };
    }
    let blocks: Vec<Box<RawValue>> = serde_json::from_str(raw).ok()?;
    let texts: Vec<String> = blocks.iter().filter_map(|block| message_text(block.get(), deeper)).collect();
    (!texts.is_empty() || blocks.is_empty()).then(|| texts.join("\n"))
}

/// A text that is not empty, or a number.
fn word(raw: &str) -> Option<String> {
    let number = || raw.parse::<i64>().ok().map(|number| number.to_string());
    string(raw).or_else(number).filter(|text| !text.is_empty())
}

/// Parses milliseconds or seconds since 1970, or RFC 3339.
fn time(raw: &str) -> Option<Timestamp> {
    /// Smaller numbers are seconds. As seconds, this is the year 5138.
    const LEAST_MS: i64 = 100_000_000_000;
    if let Some(text) = string(raw) {
        return Some(Timestamp(text.parse::<jiff::Timestamp>().ok()?.as_millisecond()));
    }
    let number = raw.parse::<i64>().ok()?;
    Some(Timestamp(if number < LEAST_MS { number.checked_mul(1000)? } else { number }))
}
