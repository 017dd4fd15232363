//! Cursor, according to the hook runtime of its SDK 1.0.32. The editor itself was not run.
//!
//! It also runs the hooks in Claude Code's settings, with its own payloads and its own form of answers.
//! `cursor_version` identifies its payloads. At `preToolUse` an answer that is not JSON blocks the user's tool, so the
//! hook client prints `{}` when it has nothing to say. An answer with a `permission` would approve the tool for the
//! user.

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;
use serde_json::{Map, Value};

use super::failure::FailureRules;
use super::format::payload::Payload;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::memories::Memories;
use super::settings::{
    AgentVersion, FilePlace, Groups, Install, InstalledPart, JsonHooks, OwnFile, SettingValue, Syntax,
    about_the_memory,
};
use super::{
    Advice, Advised, AgentSpec, Asking, Cap, CommandChange, EventSpec, GuardAnswers, HookOutput, Host, Mark,
    Unreadable,
};
use recall_domain::event::{EventName, HookEvent, HookEventKind, StartContext, Subagent};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "cursor",
    title: "Cursor",
    host: Host {
        program: "cursor-agent",
        other_places: &[".local/bin/cursor-agent"],
        folder: ".cursor",
        assumed_version: AgentVersion(3, 12, 0),
        marks: &[Mark { field: "cursor_version", part: "" }],
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read,
    envelope,
    guards: GuardAnswers {
        before: None,
        refusal: Some(|decision, reason| {
            let fields =
                [("permission", decision.name()), ("user_message", reason), ("agent_message", reason)];
            answer::line(fields.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect())
        }),
        asking: Asking::Asks,
        advice: Some(Advice { to: Advised::Model, answer: with_context }),
        command_change: Some(CommandChange {
            tools: &["Shell"],
            add: |answer, input| {
                let mut object = answer::object(answer);
                object.insert("updated_input".to_owned(), input.into());
                answer::line(object)
            },
        }),
        warning: Some(with_context),
    },
    plan_folders: &[".cursor/plans"],
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("hooks.json", &[".cursor/hooks.json"]),
            JsonHooks {
                syntax: Syntax::Comments,
                groups: Groups::Flat,
                frame: Some(("version", 1)),
                // In seconds.
                entry: &[("command", SettingValue::ShimLineWithEvent), ("timeout", SettingValue::Number(10))],
                ..JsonHooks::GROUPED
            },
        )],
        server: &[
            InstalledPart::server(FilePlace::own("mcp.json", &[".cursor/mcp.json"]), Syntax::Comments),
            InstalledPart::own_file(
                FilePlace::of_project(&[".cursor/rules/recall.mdc"]),
                OwnFile::text(about_the_memory!("alwaysApply: false\n")),
            ),
        ],
        then: None,
    },
    memories: Some(Memories { of_project: &[".cursorrules", ".cursor/rules/*.mdc"], own: None }),
    ..AgentSpec::PLAIN
};

/// An answer of more than 10,000 characters is dropped completely.
const CAP: Cap = Cap { utf16_units: 9_500 };

/// Left out: the events of single kinds of tools, which repeat those of all tools; `beforeReadFile` (whole files);
/// `afterAgentThought`; the events of inline completion.
const EVENTS: &[EventSpec] = &[
    EventSpec::answered("sessionStart", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("beforeSubmitPrompt", EventName::Prompt, Wait::Answer, CAP),
    EventSpec::answered("preToolUse", EventName::ToolStart, Wait::Report, CAP),
    EventSpec::reported("postToolUse", EventName::Tool),
    EventSpec::answered("postToolUseFailure", EventName::ToolFailure, Wait::Report, CAP),
    // The only event that contains the change.
    EventSpec::reported("afterFileEdit", EventName::Tool),
    // The event of a turn's end does not contain the answer.
    EventSpec::reported("afterAgentResponse", EventName::Stop),
    EventSpec::reported("subagentStart", EventName::SubagentStart),
    EventSpec::reported("subagentStop", EventName::SubagentStop),
    EventSpec::reported("preCompact", EventName::PreCompact),
    EventSpec::reported("stop", EventName::Stop),
    EventSpec::reported("sessionEnd", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[("userpromptsubmit", Meaning::Is(EventName::Prompt))],
    tools: Tools(&[
        ("Read", Tool::Read),
        ("Write", Tool::Write),
        (EDIT, Tool::Edit),
        ("Shell", Tool::Command),
        ("Grep", Tool::Search),
        ("List", Tool::Search),
        ("Glob", Tool::Search),
        ("Fetch", Tool::Fetch),
        ("Task", Tool::Delegate),
    ]),
    failures: FailureRules::COMMON,
    ..Format::PLAIN
};

/// The id of the conversation that a new window shows. At the first prompt it becomes a session with an id of its
/// own.
const DRAFT: &str = "empty-state-draft";
/// Recall's name for the tool of `afterFileEdit`, which names none.
const EDIT: &str = "Edit";
/// The field in which the editor names its mode at a prompt; in the CLI it is null or missing. The editor (3.12)
/// drops the context of a session's start, because the hook ends before there is a conversation to add it to; its
/// vendor confirms this. The CLI (2026.07) passes it on.
const EDITOR: &[&str] = &["composer_mode"];
/// A personal field, which is never stored.
const PERSONAL: &str = "user_email";

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let shaped = shaped(delivery);
    let delivery = shaped.as_ref().unwrap_or(delivery);
    let payload = Payload::read(delivery)?;
    let mut event = format.event(&payload, delivery)?;
    if event.subagent.is_none() {
        event.subagent = payload.word(&["parent_tool_call_id"]).map(|id| Subagent { id, kind: None });
    }
    match &mut event.what {
        HookEventKind::Stop { .. } if payload.text(&["status"]).as_deref() == Some("error") => {
            let detail = String::from_utf8_lossy(&delivery.payload).into_owned();
            event.what = HookEventKind::StopFailure { error: "error".to_owned(), detail };
        }
        HookEventKind::Prompt { start, .. } if payload.word(EDITOR).is_some() => {
            *start = StartContext::Dropped;
        }
        HookEventKind::SessionStart { .. } | HookEventKind::SessionEnd { .. }
            if event.session.as_str() == DRAFT =>
        {
            event.what = HookEventKind::Draft;
        }
        _ => {}
    }
    Ok(event)
}

/// Converts the payload into the common form: without personal data, with results as JSON and edits as a call.
fn shaped(delivery: &Deliver) -> Option<Deliver> {
    let mut payload: Map<String, Value> = serde_json::from_slice(&delivery.payload).ok()?;
    payload.shift_remove(PERSONAL);
    if let Some(inner) = payload.get("tool_output").and_then(Value::as_str).map(str::to_owned) {
        // A tool's result is JSON in a string.
        let value = serde_json::from_str::<Value>(&inner).ok().filter(Value::is_object);
        payload.insert("tool_output".to_owned(), value.unwrap_or(Value::String(inner)));
    }
    if payload.get("hook_event_name").and_then(Value::as_str) == Some("afterFileEdit") {
        let input = ["file_path", "edits"]
            .iter()
            .filter_map(|field| Some(((*field).to_owned(), payload.shift_remove(*field)?)));
        let input: Map<String, Value> = input.collect();
        payload.insert("tool_name".to_owned(), EDIT.into());
        payload.insert("tool_input".to_owned(), input.into());
    }
    let payload = Value::Object(payload).to_string().into_bytes();
    Some(Deliver { payload, ..delivery.clone() })
}

fn with_context(text: &str) -> Vec<u8> {
    answer::line([("additional_context".to_owned(), text.into())].into_iter().collect())
}

fn envelope(event: &str, output: &HookOutput) -> Vec<u8> {
    let mut object = Map::new();
    if let Some(context) = &output.context {
        if event == "beforeSubmitPrompt" {
            object.insert("continue".to_owned(), true.into());
        }
        object.insert("additional_context".to_owned(), context.as_str().into());
    }
    answer::line(object)
}
