//! OpenCode, checked against 1.18.33. It has no command hooks: a plugin runs the hook client.

pub(super) mod history;

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;

use super::failure::FailureRules;
use super::format::Format;
use super::format::tools::{Tool, Tools};
use super::settings::{
    AgentVersion, FilePlace, Install, InstalledPart, JsonValues, OwnFile, SKILL, SettingValue, Syntax,
};
use super::{AgentSpec, Cap, EventSpec, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent, HookEventKind, PromptText};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "opencode",
    title: "OpenCode",
    host: Host {
        program: "opencode",
        other_places: &[".opencode/bin/opencode"],
        folder: ".config/opencode",
        folder_variable: Some("OPENCODE_CONFIG_DIR"),
        assumed_version: AgentVersion(1, 18, 33),
        tried: Some(AgentVersion(1, 18, 33)),
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read,
    install: Install {
        hooks: &[InstalledPart::own_file(
            FilePlace::own("plugins/recall.js", &[".opencode/plugins/recall.js"]),
            OwnFile::text(PLUGIN),
        )],
        server: &[
            InstalledPart::values(
                FilePlace::own("opencode.json", &["opencode.json"]),
                JsonValues::new(Syntax::CommentsAndTrailingCommas, &[(&["mcp", "recall"], SERVER)]),
            ),
            InstalledPart::own_file(
                FilePlace::own("skills/recall/SKILL.md", &[".opencode/skills/recall/SKILL.md"]),
                SKILL,
            ),
        ],
        then: None,
    },
    history: Some(history::HISTORY),
    ..AgentSpec::PLAIN
};

/// The MCP server's entry; a fork uses the same.
pub(super) const SERVER: SettingValue = SettingValue::Fields(&[
    ("type", SettingValue::Text("local")),
    ("command", SettingValue::RecallMcp),
    ("enabled", SettingValue::Flag(true)),
]);

/// The plugin; a fork uses the same.
pub(super) const PLUGIN: &str = concat!(include_str!("../hook_client.js"), include_str!("plugin.js"));

const CAP: Cap = Cap { utf16_units: 10_000 };

/// The events, named by the plugin.
const EVENTS: &[EventSpec] = &[
    EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
    EventSpec::reported("PostToolUse", EventName::Tool),
    EventSpec::reported("PostToolUseFailure", EventName::ToolFailure),
    EventSpec { wait: Wait::Answer, ..EventSpec::reported("SubagentStart", EventName::SubagentStart) },
    EventSpec::reported("SubagentStop", EventName::SubagentStop),
    EventSpec::reported("PreCompact", EventName::PreCompact),
    EventSpec::reported("PostCompact", EventName::PostCompact),
    EventSpec::reported("Stop", EventName::Stop),
    EventSpec::reported("StopFailure", EventName::StopFailure),
    EventSpec::reported("SessionEnd", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[],
    tools: Tools(&[
        ("read", Tool::Read),
        ("edit", Tool::Edit),
        ("patch", Tool::Edit),
        ("write", Tool::Write),
        ("bash", Tool::Command),
        ("grep", Tool::Search),
        ("glob", Tool::Search),
        ("list", Tool::Search),
        ("webfetch", Tool::Fetch),
        ("task", Tool::Delegate),
        ("todowrite", Tool::TodoList),
    ]),
    failures: FailureRules { inner_exit_code: Some(("metadata", "exit")), ..FailureRules::COMMON },
    ..Format::PLAIN
};

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let mut event = format.read(delivery)?;
    // `opencode run` puts quotes around the prompt.
    if let HookEventKind::Prompt { text: PromptText::Text(text), .. } = &mut event.what
        && let Some(inside) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'))
        && !inside.contains('"')
    {
        *text = inside.to_owned();
    }
    Ok(event)
}
