//! Antigravity CLI (`agy`), the successor of Gemini CLI; not run here.
//!
//! Sources: the page `hooks.md` that comes with the program (read in a public transcript, September 2026), and public
//! programs with payloads captured from 1.0.14 to 1.3.0 (`entireio/cli`, `Kewton/CommandMate`, `ingo-eichhorst/Irrlicht`).
//!
//! It differs from all others:
//! - No payload names its event, so the command line does.
//! - No event reports a prompt, an answer or a call's result. Prompts and answers come from the conversation's record
//!   ([`history`]).
//! - `PreInvocation` runs before each call of the model. The first one of a conversation is its start: only the prompt
//!   is there then.
//! - Before a call, silence and an empty object both refuse the call. So recall never registers `PreToolUse`, and the
//!   hook client has a harmless answer for it.
//! - Hooks run in the folder of their file. The payload names the project's folder, except after `agy -p` without
//!   `--add-dir`: then the program works in a folder of its own.

mod history;

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;
use serde_json::{Map, Value, json};

use super::failure::FailureRules;
use super::format::payload::Payload;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::settings::{
    AgentVersion, Base, FilePlace, Groups, Install, InstalledPart, JsonHooks, Off, OffSwitch, SKILL,
    SettingValue, Syntax,
};
use super::{AgentSpec, Cap, EventSpec, HookOutput, Host, Mark, Unreadable};
use recall_domain::event::{EventName, HookEvent, HookEventKind};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "antigravity",
    title: "Antigravity CLI",
    host: Host {
        program: "agy",
        other_places: &[".local/bin/agy"],
        folder: ".gemini/antigravity-cli",
        assumed_version: AgentVersion(1, 0, 0),
        marks: &[Mark { field: "artifactDirectoryPath", part: "" }],
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read,
    envelope: |_, output: &HookOutput| {
        let messages = output.context.iter().map(|text| json!({"ephemeralMessage": text}));
        let steps: Vec<Value> = messages.collect();
        let object = (!steps.is_empty()).then(|| ("injectSteps".to_owned(), steps.into()));
        answer::line(object.into_iter().collect())
    },
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace {
                base: Base::Home,
                user: ".gemini/config/hooks.json",
                project: &[".agents/hooks.json"],
            },
            JsonHooks {
                // Each key is a named hook that contains its events.
                key: "recall",
                groups: Groups::Nested,
                flat_events: &["PreInvocation", "PostInvocation", "Stop"],
                matcher: Some("*"),
                other_keys: &["enabled"],
                entry: &[
                    ("type", SettingValue::Text("command")),
                    ("command", SettingValue::ShimLineWithEvent),
                    // In seconds.
                    ("timeout", SettingValue::Number(10)),
                ],
                switched_off: &[OffSwitch {
                    at: "/recall/enabled",
                    off: Off::If(false),
                    title: "recall.enabled = false",
                }],
                ..JsonHooks::GROUPED
            },
        )],
        server: &[
            InstalledPart::server(
                FilePlace {
                    base: Base::Home,
                    user: ".gemini/config/mcp_config.json",
                    project: &[".agents/mcp_config.json"],
                },
                Syntax::Json,
            ),
            InstalledPart::own_file(
                FilePlace { base: Base::Home, user: ".gemini/config/skills/recall/SKILL.md", project: &[] },
                SKILL,
            ),
        ],
        then: None,
    },
    history: Some(history::HISTORY),
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };

/// Left out: `PreToolUse` (see above), `PostInvocation`, which repeats the next event, and `SessionStart`, which its
/// documentation does not mention.
const EVENTS: &[EventSpec] = &[
    EventSpec::answered(START, EventName::SessionStart, Wait::Start, CAP),
    EventSpec::reported("PostToolUse", EventName::Tool),
    EventSpec::reported("Stop", EventName::Stop),
];

const START: &str = "PreInvocation";

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[
        ("pretooluse", Meaning::Is(EventName::ToolStart)),
        ("postinvocation", Meaning::Internal),
        // The event name of prompts from the record.
        ("userpromptsubmit", Meaning::Is(EventName::Prompt)),
    ],
    tools: Tools(&[
        ("view_file", Tool::Read),
        ("write_to_file", Tool::Write),
        ("replace_file_content", Tool::Edit),
        ("multi_replace_file_content", Tool::Edit),
        ("run_command", Tool::Command),
        ("grep_search", Tool::Search),
        ("find_by_name", Tool::Search),
        ("list_dir", Tool::Search),
    ]),
    failures: FailureRules::COMMON,
    ..Format::PLAIN
};

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let name = Payload::read(delivery)?.event_name(delivery).ok_or(Unreadable::NoEvent)?;
    let mut fields: Map<String, Value> = serde_json::from_slice(&delivery.payload)?;
    if let Some(Value::Object(mut call)) = fields.remove("toolCall") {
        fields.extend(call.remove("name").map(|name| ("tool_name".to_owned(), name)));
        fields.extend(call.remove("args").map(|input| ("tool_input".to_owned(), unquoted(input))));
    }
    let step = fields.get("stepIdx").map(|step| format!("step {step}"));
    fields.extend(step.map(|step| ("tool_use_id".to_owned(), step.into())));
    let payload = Value::Object(fields).to_string().into_bytes();
    let shaped = Deliver { payload, ..delivery.clone() };
    let payload = Payload::read(&shaped)?;
    let mut event = format.event(&payload, &shaped)?;
    // A conversation's id does not identify the author.
    event.origin = None;
    if event.cwd.is_none() {
        event.cwd = event.transcript_path.as_deref().and_then(own_folder);
    }
    match &mut event.what {
        HookEventKind::SessionStart { .. } if !is_first(&payload) => {
            event.what = HookEventKind::Internal { name };
        }
        // A step of the model itself, without a tool.
        HookEventKind::Other { .. } if name == "PostToolUse" => {
            event.what = HookEventKind::Internal { name };
        }
        HookEventKind::Stop { .. } => {
            if let Some(error) = payload.word(&["error"]) {
                let detail = String::from_utf8_lossy(&delivery.payload).into_owned();
                event.what = HookEventKind::StopFailure { error, detail };
            }
        }
        _ => {}
    }
    Ok(event)
}

/// Whether the conversation consists of this prompt only.
fn is_first(payload: &Payload) -> bool {
    payload.number(&["invocationNum"]).unwrap_or_default() == 0
        && payload.number(&["initialNumSteps"]).is_some_and(|steps| steps <= 1)
}

/// The program's default working folder.
fn own_folder(transcript: &str) -> Option<String> {
    let (own, _) = transcript.split_once("/brain/")?;
    Some(format!("{own}/scratch"))
}

/// Decodes a call's arguments. Some versions write each value as JSON in a string.
fn unquoted(input: Value) -> Value {
    let Value::Object(arguments) = input else { return input };
    let value = |value: Value| match &value {
        Value::String(text) if text.starts_with('"') => serde_json::from_str(text).unwrap_or(value),
        // Only an edit's parts are a list.
        Value::String(text) if text.starts_with("[{") => serde_json::from_str(text).unwrap_or(value),
        _ => value,
    };
    Value::Object(arguments.into_iter().map(|(name, argument)| (name, value(argument))).collect())
}
