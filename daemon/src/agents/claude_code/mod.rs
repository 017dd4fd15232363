//! Claude Code: its hook payloads in, its hook answers out.
//!
//! Formats: the hooks reference of Claude Code, checked against 2.1.329. Fields come and go between versions, so
//! every field but the session's id is optional, unknown ones are ignored and unknown events are kept as they came.

pub mod actions;

use recall_protocol::wire::{Deliver, Flags};
use serde_json::json;

use super::json::Fields;
use super::{AgentSpec, Answer, Unreadable};
use crate::memory::event::{
    Audience, LifecycleEvent, PromptText, StartSource, Subagent, ToolCall, ToolResult, What,
};
use crate::memory::ids::{PromptId, SessionId};
use crate::memory::material::BatchSource;

pub const SPEC: AgentSpec =
    AgentSpec { name: "claude-code", display_name: "Claude Code", read, answer, action: actions::action };

/// Reads one hook payload.
fn read(delivery: &Deliver) -> Result<LifecycleEvent, Unreadable> {
    let fields = Fields::read(&delivery.payload)?;
    // `conversation_id` and `tool_result` are the spellings of hosts built on the Agent SDK.
    let session =
        fields.word("session_id").or_else(|| fields.word("conversation_id")).ok_or(Unreadable::NoSession)?;
    let name = fields
        .word("hook_event_name")
        .or_else(|| Some(delivery.event_name.clone()).filter(|name| !name.is_empty()));
    let name = name.ok_or(Unreadable::NoEvent)?;
    Ok(LifecycleEvent {
        session: SessionId(session),
        prompt: fields.word("prompt_id").map(PromptId),
        cwd: fields.word("cwd"),
        transcript_path: fields.word("transcript_path"),
        subagent: fields.word("agent_id").map(|id| Subagent { id, kind: fields.word("agent_type") }),
        what: what(&name, &fields, delivery),
    })
}

fn what(name: &str, fields: &Fields, delivery: &Deliver) -> What {
    match name {
        "SessionStart" => {
            let source = StartSource::parse(&fields.text("source").unwrap_or_default());
            // `claude -p` starts without a model; /clear exists only where somebody types.
            let is_read = fields.word("model").is_some() || source == StartSource::Clear;
            What::SessionStart { source, audience: if is_read { Audience::Person } else { Audience::Nobody } }
        }
        "UserPromptSubmit" => prompt(fields, delivery),
        "PostToolUse" | "PostToolUseFailure" => match fields.word("tool_name") {
            Some(tool) => What::Tool(tool_call(tool, name == "PostToolUseFailure", fields)),
            None => other(name, delivery),
        },
        "PreCompact" => What::PreCompact { trigger: fields.text("trigger").unwrap_or_default() },
        "Stop" => {
            What::Stop { message: fields.text("last_assistant_message").map(|text| without_reminders(&text)) }
        }
        "SessionEnd" => {
            What::SessionEnd { reason: fields.word("reason").unwrap_or_else(|| "other".to_owned()) }
        }
        _ => other(name, delivery),
    }
}

fn other(name: &str, delivery: &Deliver) -> What {
    What::Other { name: name.to_owned(), detail: String::from_utf8_lossy(&delivery.payload).into_owned() }
}

fn prompt(fields: &Fields, delivery: &Deliver) -> What {
    let text = fields.text("prompt").unwrap_or_default();
    let source = match fields.word("source").as_deref() {
        Some("system" | "loop_wakeup" | "schedule_wakeup" | "poll_event") => BatchSource::System,
        // A background agent or shell has ended; `source` does not tell (2.1.329), the text does.
        _ if text.trim_start().starts_with("<task-notification>") => BatchSource::AgentNotification,
        _ => BatchSource::User,
    };
    let text = if delivery.flags.contains(Flags::WHOLLY_PRIVATE) {
        PromptText::WhollyPrivate
    } else {
        PromptText::Text(text)
    };
    What::Prompt { text, source }
}

fn tool_call(name: String, failed: bool, fields: &Fields) -> ToolCall {
    let response = fields.raw_of(&["tool_response", "tool_result"]);
    let result = if failed {
        let error = fields.text("error").or_else(|| response.map(str::to_owned));
        ToolResult::Failed(error.unwrap_or_default())
    } else {
        ToolResult::Done(response.unwrap_or("null").to_owned())
    };
    ToolCall {
        name,
        use_id: fields.word("tool_use_id"),
        input: fields.raw("tool_input").unwrap_or("{}").to_owned(),
        result,
        duration_ms: fields.number("duration_ms"),
    }
}

/// Removes `<system-reminder>` blocks: the program's words to the model, not the model's to the user.
fn without_reminders(text: &str) -> String {
    const OPEN: &str = "<system-reminder>";
    const CLOSE: &str = "</system-reminder>";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once(OPEN) {
        out.push_str(before);
        rest = inside.split_once(CLOSE).map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

/// The events whose output may carry `additionalContext` and that recall answers. A wrong `hookEventName` makes
/// Claude Code refuse the whole output, so no other event is ever answered.
const ANSWERED: [&str; 2] = ["SessionStart", "UserPromptSubmit"];

/// Claude Code moves a hook's text of more than 10,000 UTF-16 units to a file and shows the model 2 KB of it.
const CONTEXT_CAP: usize = 10_000;

fn answer(answer: &Answer) -> Vec<u8> {
    if !ANSWERED.contains(&answer.event_name.as_str()) {
        return Vec::new();
    }
    let context = answer.context.as_deref().filter(|text| text.encode_utf16().count() <= CONTEXT_CAP);
    let mut object = serde_json::Map::new();
    if let Some(notice) = &answer.notice {
        object.insert("systemMessage".to_owned(), json!(notice));
    }
    if let Some(context) = context {
        let specific = json!({"hookEventName": answer.event_name, "additionalContext": context});
        object.insert("hookSpecificOutput".to_owned(), specific);
    }
    if object.is_empty() {
        return Vec::new();
    }
    let mut bytes = serde_json::Value::Object(object).to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}
