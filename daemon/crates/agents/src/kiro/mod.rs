//! Kiro's command line, according to its vendor's page. Not run here.
//!
//! Hooks are in the files of custom agents. A custom agent without a list of tools has no tools, so recall never
//! creates such a file: it adds its hooks to existing ones. A hook's output at a start or a prompt is the context
//! itself. No event reports a session's end; silence ends it.

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;
use serde_json::{Map, Value};

use super::failure::FailureRules;
use super::format::payload::Payload;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning};
use super::settings::{
    AgentVersion, FilePlace, Groups, Install, InstalledPart, JsonHooks, SettingValue, Syntax,
};
use super::{AgentSpec, Cap, EventSpec, HookOutput, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "kiro",
    title: "Kiro CLI",
    host: Host {
        program: "kiro-cli",
        other_places: &[".local/bin/kiro-cli"],
        folder: ".kiro",
        folder_variable: Some("KIRO_HOME"),
        assumed_version: AgentVersion(1, 0, 0),
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read,
    envelope: |_, output: &HookOutput| output.context.clone().unwrap_or_default().into_bytes(),
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("agents/*.json", &[".kiro/agents/*.json"]),
            JsonHooks {
                groups: Groups::Flat,
                entry: &[
                    ("command", SettingValue::ShimLineWithEvent),
                    ("timeout_ms", SettingValue::Number(10_000)),
                ],
                ..JsonHooks::GROUPED
            },
        )],
        server: &[InstalledPart::server(
            FilePlace::own("settings/mcp.json", &[".kiro/settings/mcp.json"]),
            Syntax::Json,
        )],
        then: Some(
            "Kiro CLI has hooks only in custom agents: run `recall install` again after you have made one.",
        ),
    },
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };

/// Left out: `preToolUse`, whose answer takes no context.
const EVENTS: &[EventSpec] = &[
    EventSpec::answered("agentSpawn", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("userPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
    EventSpec::reported("postToolUse", EventName::Tool),
    EventSpec::reported("stop", EventName::Stop),
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[("pretooluse", Meaning::Is(EventName::ToolStart))],
    // Under both names that the agent uses.
    tools: Tools(&[
        ("fs_read", Tool::Read),
        ("read", Tool::Read),
        ("fs_write", Tool::Write),
        ("write", Tool::Write),
        ("execute_bash", Tool::Command),
        ("shell", Tool::Command),
        ("grep", Tool::Search),
        ("glob", Tool::Search),
        ("web_fetch", Tool::Fetch),
        ("web_search", Tool::Fetch),
        ("use_subagent", Tool::Delegate),
    ]),
    failures: FailureRules::COMMON,
    ..Format::PLAIN
};

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let payload = Payload::read(delivery)?;
    // Older versions name no session: all work in a folder is one session, which silence ends.
    match (payload.session(), payload.folder()) {
        (None, Some(folder)) => {
            let mut fields: Map<String, Value> = serde_json::from_slice(&delivery.payload)?;
            fields.insert("session_id".to_owned(), format!("folder {folder}").into());
            let payload = Value::Object(fields).to_string().into_bytes();
            format.read(&Deliver { payload, ..delivery.clone() })
        }
        _ => format.event(&payload, delivery),
    }
}
