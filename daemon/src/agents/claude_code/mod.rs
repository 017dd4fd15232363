//! Claude Code: parses hook payloads and renders hook answers.
//!
//! Format: the hooks reference of Claude Code, checked against 2.1.329. Fields change between versions. So every field
//! except the session's id is optional, unknown ones are ignored, and unknown events are stored as they came.

mod actions;
pub(super) mod demo;
mod plans;
mod rejection;
mod settings;
mod transcript;

use recall_protocol::wire::{Deliver, Flags};
use serde_json::json;

use super::failure::{self, FailureRules};
use super::json::{Fields, objects};
use super::settings::{AgentVersion, Install};
use super::{AgentSpec, HookOutput, Host, Unreadable};
use crate::memory::conventions::Conventions;
use crate::memory::event::{
    Audience, EventName, HookEvent, HookEventKind, PromptText, StartSource, Subagent, ToolCall, ToolResult,
    ToolStart,
};
use crate::memory::ids::{CallId, PromptId, SessionId};
use crate::memory::material::BatchSource;

const NAME: &str = "claude-code";

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: NAME,
    title: "Claude Code",
    host: Host {
        program: "claude",
        other_places: &[".local/bin/claude", ".claude/local/claude"],
        folder: ".claude",
        folder_variable: Some("CLAUDE_CONFIG_DIR"),
        assumed_version: AgentVersion(2, 1, 76),
    },
    events: &settings::EVENTS,
    prompt_field: PROMPT,
    read,
    envelope,
    action: actions::action,
    rejected: rejection::rejected,
    reply: transcript::reply,
    plan_file: plans::plan_file,
    failures: FailureRules {
        // `grep` returns 1 if it finds nothing.
        exit_code_note: Some("returnCodeInterpretation"),
        ..FailureRules::COMMON
    },
    injected_block: Some((REMINDER, "</system-reminder>")),
    conventions: Conventions {
        // Where EnterWorktree makes a session's own.
        work_trees: &[".claude/worktrees/"],
        plan_prompts: &["Implement the following plan:"],
        machine_prompts: &[
            NOTIFICATION,
            "<local-command",
            "<command-",
            REMINDER,
            "[Request interrupted",
            "Caveat: ",
            "This session is being continued from",
        ],
        empty_answers: &["no response requested."],
    },
    plan_folders: &[".claude/plans"],
    skipped_tools: &["ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite", "AskUserQuestion"],
    install: Install::JsonHooks(settings::HOOKS),
};

const PROMPT: &str = "prompt";
/// A background agent or shell has ended.
const NOTIFICATION: &str = "<task-notification>";
const REMINDER: &str = "<system-reminder>";

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
    Ok(event(&fields, delivery, (session, &name), &SPEC.failures))
}

/// The event of this name. Also used for hosts with this format and their own names.
pub(super) fn event(
    fields: &Fields,
    delivery: &Deliver,
    (session, name): (String, &str),
    failures: &FailureRules,
) -> HookEvent {
    HookEvent {
        session: SessionId(session),
        prompt: fields.word("prompt_id").map(PromptId),
        cwd: fields.word("cwd"),
        transcript_path: fields.word("transcript_path"),
        title: fields.text("session_title").and_then(|title| one_line(&title)),
        subagent: fields.word("agent_id").map(|id| Subagent { id, kind: fields.word("agent_type") }),
        origin: None,
        what: what(name, fields, delivery, failures),
    }
}

/// A title as one line, truncated.
fn one_line(title: &str) -> Option<String> {
    const LONGEST: usize = 120;
    let words = crate::memory::text::one_line(title);
    let line: String = words.chars().filter(|character| !character.is_control()).take(LONGEST).collect();
    (!line.is_empty()).then_some(line)
}

fn what(name: &str, fields: &Fields, delivery: &Deliver, failures: &FailureRules) -> HookEventKind {
    let Some(known) = settings::EVENTS.iter().find(|event| event.name == name) else {
        return other(name, delivery);
    };
    match known.is {
        EventName::SessionStart => {
            let source = StartSource::parse(&fields.text("source").unwrap_or_default());
            // `claude -p` starts without a model. `/clear` exists only in interactive sessions.
            let is_read = fields.word("model").is_some() || source == StartSource::Clear;
            HookEventKind::SessionStart {
                source,
                audience: if is_read { Audience::Person } else { Audience::Nobody },
            }
        }
        EventName::Prompt => prompt(fields, delivery),
        EventName::ToolStart => match fields.word("tool_name") {
            Some(tool) => HookEventKind::ToolStart(tool_start(tool, fields)),
            None => other(name, delivery),
        },
        EventName::Tool | EventName::ToolFailure => match fields.word("tool_name") {
            Some(tool) => HookEventKind::Tool(tool_call(tool, known.is, fields, failures)),
            None => other(name, delivery),
        },
        EventName::ToolBatch => HookEventKind::ToolBatch(settled_calls(fields)),
        // Compaction runs as a subagent without a type. Its text is repeated by PostCompact.
        EventName::SubagentStop if fields.text("agent_type").is_some_and(|kind| kind.is_empty()) => {
            HookEventKind::Internal { name: name.to_owned() }
        }
        EventName::SubagentStart => HookEventKind::SubagentStart,
        EventName::SubagentStop => HookEventKind::SubagentStop { message: last_message(fields) },
        EventName::PreCompact => {
            HookEventKind::PreCompact { trigger: fields.text("trigger").unwrap_or_default() }
        }
        EventName::PostCompact => HookEventKind::PostCompact {
            trigger: fields.text("trigger").unwrap_or_default(),
            summary: fields.text("compact_summary").map(|text| summary_of(&text)),
        },
        // `stop_hook_active` (also `stopHookActive`) says that a hook made the agent continue. A Stop is never
        // answered, so that was not recall, and the turn's later answer replaces the earlier one anyway.
        EventName::Stop => HookEventKind::Stop { message: last_message(fields) },
        EventName::StopFailure => HookEventKind::StopFailure {
            error: fields.word("error").unwrap_or_else(|| "unknown".to_owned()),
            detail: payload(delivery),
        },
        EventName::SessionEnd => {
            HookEventKind::SessionEnd { reason: fields.word("reason").unwrap_or_else(|| "other".to_owned()) }
        }
        EventName::SessionSuspend
        | EventName::SessionResume
        | EventName::MessageReceived
        | EventName::Other => other(name, delivery),
    }
}

fn other(name: &str, delivery: &Deliver) -> HookEventKind {
    HookEventKind::Other { name: name.to_owned(), detail: payload(delivery) }
}

fn payload(delivery: &Deliver) -> String {
    String::from_utf8_lossy(&delivery.payload).into_owned()
}

fn last_message(fields: &Fields) -> Option<String> {
    fields.text("last_assistant_message").map(|text| SPEC.without_injected_blocks(&text))
}

/// A compaction's summary without the model's preceding analysis.
fn summary_of(text: &str) -> String {
    let inside = text.split_once("<summary>").map_or(text, |(_, inside)| inside);
    let told = inside.rsplit_once("</summary>").map_or(inside, |(told, _)| told);
    SPEC.without_injected_blocks(told).trim().to_owned()
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
    let text = fields.text(PROMPT).unwrap_or_default();
    let source = match fields.word("source").as_deref() {
        Some("system" | "loop_wakeup" | "schedule_wakeup" | "poll_event") => BatchSource::System,
        // Only the text tells; `source` does not (2.1.329).
        _ if text.trim_start().starts_with(NOTIFICATION) => BatchSource::AgentNotification,
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

fn tool_call(name: String, event: EventName, fields: &Fields, failures: &FailureRules) -> ToolCall {
    let response = fields.raw_of(RESPONSE);
    let input = fields.raw("tool_input").unwrap_or("{}");
    let failure = match event {
        EventName::ToolFailure => Some(failures.failure_text(fields, response)),
        _ => failures.error_text(failure::Source::of(&name), fields, response),
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

fn envelope(event: &str, output: &HookOutput) -> Vec<u8> {
    let mut object = serde_json::Map::new();
    if let Some(notice) = &output.notice {
        object.insert("systemMessage".to_owned(), json!(notice));
    }
    if let Some(context) = &output.context {
        let specific = json!({"hookEventName": event, "additionalContext": context});
        object.insert("hookSpecificOutput".to_owned(), specific);
    }
    let mut bytes = serde_json::Value::Object(object).to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(one_line(" Cart\n\tdiscount ").as_deref(), Some("Cart discount"));
        assert_eq!(one_line(" \n "), None);
        assert_eq!(one_line(&"é".repeat(500)).map(|line| line.chars().count()), Some(120));
    }

    #[test]
    fn its_folder_may_be_elsewhere() {
        let folders = |moved| SPEC.host.folders("/home/dev".as_ref(), moved);
        assert_eq!(folders(None), [Path::new("/home/dev/.claude")]);
        assert_eq!(folders(Some("/data")), [Path::new("/data"), Path::new("/home/dev/.claude")]);
    }

    #[test]
    fn a_tool_call_is_answered_with_context_and_no_decision() {
        let answer = |event| SPEC.answer(HookOutput { event, context: Some("x".to_owned()), notice: None });
        let bytes =
            b"{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"additionalContext\":\"x\"}}\n";
        assert_eq!(answer(EventName::ToolStart), bytes);
        assert_eq!(answer(EventName::Tool), b"");
    }
}
