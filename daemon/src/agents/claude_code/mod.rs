//! Claude Code: parses hook payloads and renders hook answers.
//!
//! Format: the hooks reference of Claude Code, checked against 2.1.329. Fields change between versions. So every field
//! except the session's id is optional, unknown ones are ignored, and unknown events are stored as they came.

pub mod actions;
mod plans;
mod rejection;
mod transcript;

use recall_protocol::wire::{Deliver, Flags};
use serde_json::json;

use super::json::{Fields, objects};
use super::{AgentSpec, HookOutput, Unreadable, failure};
use crate::memory::event::{
    Audience, HookEvent, HookEventKind, PromptText, StartSource, Subagent, ToolCall, ToolResult, ToolStart,
};
use crate::memory::ids::{CallId, PromptId, SessionId};
use crate::memory::material::BatchSource;

pub const SPEC: AgentSpec = AgentSpec {
    name: "claude-code",
    display_name: "Claude Code",
    read,
    answer,
    action: actions::action,
    rejected: rejection::rejected,
    reply: transcript::reply,
    plan_file: plans::plan_file,
};

/// Reads one hook payload.
fn read(delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let fields = Fields::read(&delivery.payload)?;
    // `conversation_id` and `tool_result` are the spellings of hosts built on the Agent SDK.
    let session =
        fields.word("session_id").or_else(|| fields.word("conversation_id")).ok_or(Unreadable::NoSession)?;
    let name = fields
        .word("hook_event_name")
        .or_else(|| Some(delivery.event_name.clone()).filter(|name| !name.is_empty()));
    let name = name.ok_or(Unreadable::NoEvent)?;
    Ok(event(&fields, delivery, session, &name))
}

/// The event of this name. Also used for hosts with this format and their own names.
pub(super) fn event(fields: &Fields, delivery: &Deliver, session: String, name: &str) -> HookEvent {
    HookEvent {
        session: SessionId(session),
        prompt: fields.word("prompt_id").map(PromptId),
        cwd: fields.word("cwd"),
        transcript_path: fields.word("transcript_path"),
        title: fields.text("session_title").and_then(|title| one_line(&title)),
        subagent: fields.word("agent_id").map(|id| Subagent { id, kind: fields.word("agent_type") }),
        origin: None,
        what: what(name, fields, delivery),
    }
}

/// A title as one line, truncated.
fn one_line(title: &str) -> Option<String> {
    const LONGEST: usize = 120;
    let words = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = words.chars().filter(|character| !character.is_control()).take(LONGEST).collect();
    (!line.is_empty()).then_some(line)
}

fn what(name: &str, fields: &Fields, delivery: &Deliver) -> HookEventKind {
    match name {
        "SessionStart" => {
            let source = StartSource::parse(&fields.text("source").unwrap_or_default());
            // `claude -p` starts without a model. `/clear` exists only in interactive sessions.
            let is_read = fields.word("model").is_some() || source == StartSource::Clear;
            HookEventKind::SessionStart {
                source,
                audience: if is_read { Audience::Person } else { Audience::Nobody },
            }
        }
        "UserPromptSubmit" => prompt(fields, delivery),
        "PreToolUse" => match fields.word("tool_name") {
            Some(tool) => HookEventKind::ToolStart(tool_start(tool, fields)),
            None => other(name, delivery),
        },
        "PostToolUse" | "PostToolUseFailure" => match fields.word("tool_name") {
            Some(tool) => HookEventKind::Tool(tool_call(tool, name, fields)),
            None => other(name, delivery),
        },
        "PostToolBatch" => HookEventKind::ToolBatch(settled_calls(fields)),
        // Compaction runs as a subagent without a type. Its text is repeated by PostCompact.
        "SubagentStop" if fields.text("agent_type").is_some_and(|kind| kind.is_empty()) => {
            HookEventKind::Internal { name: name.to_owned() }
        }
        "SubagentStart" => HookEventKind::SubagentStart,
        "SubagentStop" => HookEventKind::SubagentStop { message: last_message(fields) },
        "PreCompact" => HookEventKind::PreCompact { trigger: fields.text("trigger").unwrap_or_default() },
        "PostCompact" => HookEventKind::PostCompact {
            trigger: fields.text("trigger").unwrap_or_default(),
            summary: fields.text("compact_summary").map(|text| summary_of(&text)),
        },
        // `stop_hook_active` (also `stopHookActive`) says that a hook made the agent continue. A Stop is never
        // answered, so that was not recall, and the turn's later answer replaces the earlier one anyway.
        "Stop" => HookEventKind::Stop { message: last_message(fields) },
        "StopFailure" => HookEventKind::StopFailure {
            error: fields.word("error").unwrap_or_else(|| "unknown".to_owned()),
            detail: payload(delivery),
        },
        "SessionEnd" => {
            HookEventKind::SessionEnd { reason: fields.word("reason").unwrap_or_else(|| "other".to_owned()) }
        }
        _ => other(name, delivery),
    }
}

fn other(name: &str, delivery: &Deliver) -> HookEventKind {
    HookEventKind::Other { name: name.to_owned(), detail: payload(delivery) }
}

fn payload(delivery: &Deliver) -> String {
    String::from_utf8_lossy(&delivery.payload).into_owned()
}

fn last_message(fields: &Fields) -> Option<String> {
    fields.text("last_assistant_message").map(|text| without_reminders(&text))
}

/// A compaction's summary without the model's preceding analysis.
fn summary_of(text: &str) -> String {
    let inside = text.split_once("<summary>").map_or(text, |(_, inside)| inside);
    let told = inside.rsplit_once("</summary>").map_or(inside, |(told, _)| told);
    without_reminders(told).trim().to_owned()
}

/// The calls of a PostToolBatch. Their responses are the texts that the model got. It does not say whether a call ran,
/// so each is read as one that did not; those that did have rows already.
fn settled_calls(fields: &Fields) -> Vec<ToolCall> {
    let calls = objects(fields.raw("tool_calls").unwrap_or("[]"));
    let named = calls.iter().filter_map(|call| Some((call.word("tool_name")?, call)));
    named
        .map(|(name, call)| {
            let said =
                call.raw_of(RESPONSE).map(|raw| super::json::string(raw).unwrap_or_else(|| raw.to_owned()));
            ToolCall {
                name,
                use_id: call.word("tool_use_id").map(CallId),
                input: call.raw("tool_input").unwrap_or("{}").to_owned(),
                result: ToolResult::Failed(said.unwrap_or_default()),
                duration_ms: None,
                plan: None,
                launched: None,
                rewrote: None,
            }
        })
        .collect()
}

fn prompt(fields: &Fields, delivery: &Deliver) -> HookEventKind {
    let text = fields.text("prompt").unwrap_or_default();
    let source = match fields.word("source").as_deref() {
        Some("system" | "loop_wakeup" | "schedule_wakeup" | "poll_event") => BatchSource::System,
        // A background agent or shell has ended. Only the text tells; `source` does not (2.1.329).
        _ if text.trim_start().starts_with("<task-notification>") => BatchSource::AgentNotification,
        _ => BatchSource::User,
    };
    let text = if delivery.flags.contains(Flags::WHOLLY_PRIVATE) {
        PromptText::WhollyPrivate
    } else {
        PromptText::Text(text)
    };
    HookEventKind::Prompt { text, source }
}

fn tool_start(name: String, fields: &Fields) -> ToolStart {
    let input = fields.raw("tool_input").unwrap_or("{}");
    ToolStart {
        use_id: fields.word("tool_use_id").map(CallId),
        file: actions::file(&name, input),
        task: actions::task(&name, input),
        input: input.to_owned(),
        name,
    }
}

/// Hosts built on the Agent SDK say `tool_result`.
const RESPONSE: &[&str] = &["tool_response", "tool_result"];

fn tool_call(name: String, event: &str, fields: &Fields) -> ToolCall {
    let response = fields.raw_of(RESPONSE);
    let input = fields.raw("tool_input").unwrap_or("{}");
    let failure = match event {
        "PostToolUseFailure" => Some(failure::failure_text(fields, response)),
        _ => failure::error_text(failure::Source::of(&name), fields, response),
    };
    let done = response.filter(|_| failure.is_none());
    let plan = if failure.is_some() { None } else { plans::change(&name, input, done.unwrap_or("null")) };
    let launched = done.filter(|_| matches!(name.as_str(), "Agent" | "Task")).and_then(plans::launched);
    let rewrote = if failure.is_some() || name != "Write" { None } else { actions::file(&name, input) };
    let result = match failure {
        Some(words) => ToolResult::Failed(words),
        None => ToolResult::Done(response.unwrap_or("null").to_owned()),
    };
    ToolCall {
        name,
        use_id: fields.word("tool_use_id").map(CallId),
        input: input.to_owned(),
        result,
        duration_ms: fields.number("duration_ms"),
        plan,
        launched,
        rewrote,
    }
}

/// Removes `<system-reminder>` blocks, which the program adds for the model.
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

/// The events that recall answers with `additionalContext`. A wrong `hookEventName` makes Claude Code refuse the whole
/// output, so no other event is answered.
///
/// `PreToolUse` is answered without a `permissionDecision`, which would skip the user's own dialog.
const ANSWERED: [&str; 4] = ["SessionStart", "UserPromptSubmit", "PreToolUse", "SubagentStart"];

/// Claude Code moves a hook's text of more than 10,000 UTF-16 units to a file and shows the model 2 KB of it.
const CONTEXT_CAP: usize = 10_000;

fn answer(answer: &HookOutput) -> Vec<u8> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(one_line(" Cart\n\tdiscount ").as_deref(), Some("Cart discount"));
        assert_eq!(one_line(" \n "), None);
        assert_eq!(one_line(&"é".repeat(500)).map(|line| line.chars().count()), Some(120));
    }

    #[test]
    fn a_tool_call_is_answered_with_context_and_no_decision() {
        let answer = |event: &str| {
            answer(&HookOutput { event_name: event.to_owned(), context: Some("x".to_owned()), notice: None })
        };
        let bytes =
            b"{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"additionalContext\":\"x\"}}\n";
        assert_eq!(answer("PreToolUse"), bytes);
        assert_eq!(answer("PostToolUse"), b"");
    }
}
