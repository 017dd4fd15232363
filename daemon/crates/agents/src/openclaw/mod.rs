//! OpenClaw, according to the types of 2026.9.6. Not run here. It is a long-running gateway for chat channels that
//! serves many sessions. It has no command hooks: a plugin runs the hook client, and needs the owner's permission to
//! read conversations.

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;

use super::failure::FailureRules;
use super::format::Format;
use super::format::payload::Payload;
use super::format::tools::{Tool, Tools};
use super::host::{SPELLINGS, of_gateway};
use super::settings::{
    AgentVersion, FilePlace, Install, InstalledPart, JsonValues, Off, OffSwitch, OwnFile, SettingValue,
    Syntax,
};
use super::{AgentSpec, Cap, EventSpec, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent, HookEventKind};
use recall_domain::material::BatchSource;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "openclaw",
    title: "OpenClaw",
    host: Host {
        program: "openclaw",
        folder: ".openclaw",
        assumed_version: AgentVersion(2026, 9, 6),
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read,
    install: Install {
        hooks: &[
            file("extensions/recall/index.js", include_str!("plugin/index.js")),
            file("extensions/recall/openclaw.plugin.json", include_str!("plugin/openclaw.plugin.json")),
            file("extensions/recall/package.json", include_str!("plugin/package.json")),
            InstalledPart::values(
                FilePlace::own(CONFIG, &[]),
                JsonValues {
                    refused: Some(OffSwitch {
                        at: "/plugins/deny",
                        off: Off::Listed,
                        title: "plugins.deny names recall",
                    }),
                    allowed: Some(&["plugins", "allow"]),
                    ..JsonValues::new(Syntax::Json5, &[(&["plugins", "entries", "recall"], ENTRY)])
                },
            ),
        ],
        server: &[InstalledPart::values(
            FilePlace::own(CONFIG, &[]),
            JsonValues::new(Syntax::Json5, &[(&["mcp", "servers", "recall"], SettingValue::SERVER)]),
        )],
        then: Some(
            "OpenClaw loads plugins at its start: run `openclaw plugins reload recall`, or restart the gateway.",
        ),
    },
    ..AgentSpec::PLAIN
};

const CONFIG: &str = "openclaw.json";

const ENTRY: SettingValue = SettingValue::Fields(&[
    ("enabled", SettingValue::Flag(true)),
    ("hooks", SettingValue::Fields(&[("allowConversationAccess", SettingValue::Flag(true))])),
]);

const fn file(user: &'static str, text: &'static str) -> InstalledPart {
    InstalledPart::own_file(FilePlace::own(user, &[]), OwnFile::text(text))
}

const CAP: Cap = Cap { utf16_units: 10_000 };

/// The events, named by the plugin.
const EVENTS: &[EventSpec] = &[
    EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
    EventSpec::reported("PostToolUse", EventName::Tool),
    EventSpec::reported("PostToolUseFailure", EventName::ToolFailure),
    EventSpec::reported("PreCompact", EventName::PreCompact),
    EventSpec::reported("PostCompact", EventName::PostCompact),
    EventSpec { wait: Wait::Answer, ..EventSpec::reported("SubagentStart", EventName::SubagentStart) },
    EventSpec::reported("SubagentStop", EventName::SubagentStop),
    EventSpec::reported("Stop", EventName::Stop),
    EventSpec::reported("StopFailure", EventName::StopFailure),
    EventSpec::reported("MessageReceived", EventName::MessageReceived),
    EventSpec::reported("SessionSuspend", EventName::SessionSuspend),
    EventSpec::reported("SessionResume", EventName::SessionResume),
    EventSpec::reported("SessionEnd", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
    // Names from its other hook system, and from its forks.
    also: SPELLINGS,
    tools: Tools(&[
        ("exec", Tool::Command),
        ("read", Tool::Read),
        ("write", Tool::Write),
        ("edit", Tool::Edit),
        ("apply_patch", Tool::Edit),
        ("web_search", Tool::Fetch),
        ("web_fetch", Tool::Fetch),
        ("sessions_spawn", Tool::Delegate),
    ]),
    failures: FailureRules { inner_exit_code: Some(("details", "exitCode")), ..FailureRules::COMMON },
    ..Format::PLAIN
};

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let payload = Payload::read(delivery)?;
    let mut event = of_gateway(format.event(&payload, delivery)?, &payload, delivery);
    if let HookEventKind::Prompt { source, .. } = &mut event.what {
        // A heartbeat, a schedule or another session sent it, so no person waits for an answer.
        let is_person = |field: &str, person: &str| payload.top.word(field).is_none_or(|word| word == person);
        let is_typed = is_person("trigger", "user") && is_person("origin", "external_user");
        if !is_typed && !source.is_made_by_machine() {
            *source = BatchSource::System;
        }
    }
    Ok(event)
}
