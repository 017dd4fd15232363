//! Augment's Auggie, by its package 0.36.0; not run here.
//!
//! It starts a hook's program without a shell. It does not report a turn's last message.

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;
use serde_json::{Map, json};

use super::failure::FailureRules;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::settings::{AgentVersion, Content, Install, JsonHooks, JsonValues, Part, Place, Syntax};
use super::{AgentSpec, Cap, EventSpec, HookOutput, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "auggie",
    title: "Auggie",
    host: Host {
        program: "auggie",
        folder: ".augment",
        assumed_version: AgentVersion(0, 36, 0),
        ..AgentSpec::PLAIN.host
    },
    events: EVENTS,
    prompt_field: "user_prompt",
    read: |delivery: &Deliver| -> Result<HookEvent, Unreadable> { FORMAT.read(delivery) },
    envelope,
    action: |tool, input, response| FORMAT.tools.action(tool, input, response),
    failures: FORMAT.failures,
    install: Install {
        hooks: &[Part {
            place: Place::own("settings.json", &[".augment/settings.json"]),
            content: Content::JsonHooks(JsonHooks {
                // No timeout, because its unit is unknown. The program's default is a minute.
                entry: |call| {
                    let entry = [
                        ("type", "command".into()),
                        ("command", call.shim.into()),
                        ("args", json!([SPEC.name, call.event.name])),
                    ];
                    entry.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
                },
                ..JsonHooks::GROUPED
            }),
        }],
        server: &[Part {
            place: Place::own("settings.json", &[".augment/settings.json"]),
            content: Content::JsonValues(JsonValues::new(Syntax::Json, |programs| {
                let server = json!({"command": programs.recall, "args": ["mcp"]});
                vec![(&["mcpServers", "recall"], server)]
            })),
        }],
        then: None,
    },
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };

/// The program's name for a prompt, which its nested answer does not accept.
const PROMPT: &str = "PromptSubmit";

const EVENTS: &[EventSpec] = &[
    EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered(PROMPT, EventName::Prompt, Wait::Answer, CAP),
    EventSpec::reported("PostToolUse", EventName::Tool),
    EventSpec::reported("Stop", EventName::Stop),
    EventSpec::reported("SessionEnd", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[("pretooluse", Meaning::Is(EventName::ToolStart))],
    tools: Tools(&[
        ("view", Tool::Read),
        ("save-file", Tool::Write),
        ("str-replace-editor", Tool::Edit),
        ("launch-process", Tool::Command),
        ("codebase-retrieval", Tool::Search),
        ("web-fetch", Tool::Fetch),
        ("web-search", Tool::Fetch),
    ]),
    failures: FailureRules::COMMON,
};

fn envelope(event: &str, output: &HookOutput) -> Vec<u8> {
    match &output.context {
        Some(context) if event == PROMPT => {
            answer::line(Map::from_iter([("additionalContext".to_owned(), context.as_str().into())]))
        }
        _ => answer::nested(event, output),
    }
}
