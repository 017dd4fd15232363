//! The pi coding agent, by the types of 0.73.1. It has no command hooks: an extension runs the hook client.

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;

use super::failure::FailureRules;
use super::format::Format;
use super::format::tools::{Tool, Tools};
use super::settings::{AgentVersion, Content, Install, OwnFile, Part, Place};
use super::{AgentSpec, Cap, EventSpec, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "pi",
    title: "pi coding agent",
    host: Host {
        program: "pi",
        folder: ".pi/agent",
        assumed_version: AgentVersion(0, 73, 1),
        ..AgentSpec::PLAIN.host
    },
    events: EVENTS,
    read: |delivery: &Deliver| -> Result<HookEvent, Unreadable> { FORMAT.read(delivery) },
    action: |tool, input, response| FORMAT.tools.action(tool, input, response),
    failures: FORMAT.failures,
    install: Install {
        hooks: &[Part {
            place: Place::own("extensions/recall.ts", &[".pi/extensions/recall.ts"]),
            content: Content::OwnFile(OwnFile::text(include_str!("extension.ts"))),
        }],
        server: &[],
        then: None,
    },
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };

/// The events, as the extension names them.
const EVENTS: &[EventSpec] = &[
    EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
    EventSpec::reported("PostToolUse", EventName::Tool),
    EventSpec::reported("PostToolUseFailure", EventName::ToolFailure),
    EventSpec::reported("PreCompact", EventName::PreCompact),
    EventSpec::reported("PostCompact", EventName::PostCompact),
    EventSpec::reported("Stop", EventName::Stop),
    EventSpec::reported("SessionEnd", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[],
    tools: Tools(&[
        ("read", Tool::Read),
        ("write", Tool::Write),
        ("edit", Tool::Edit),
        ("bash", Tool::Command),
        ("grep", Tool::Search),
        ("find", Tool::Search),
        ("ls", Tool::Search),
    ]),
    failures: FailureRules::COMMON,
};
