//! The pi coding agent, according to the types of 0.73.1. It has no command hooks: an extension runs the hook client.

use recall_protocol::agents::Wait;

use super::format::Format;
use super::format::tools::{Tool, Tools};
use super::settings::{AgentVersion, FilePlace, Install, InstalledPart, OwnFile};
use super::{AgentSpec, Cap, EventSpec, Host};
use recall_domain::event::EventName;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "pi",
    title: "pi coding agent",
    host: Host {
        program: "pi",
        folder: ".pi/agent",
        assumed_version: AgentVersion(0, 73, 1),
        ..AgentSpec::PLAIN.host
    },
    // The events, named by the extension.
    format: Format {
        events: &[
            EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
            EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
            EventSpec::reported("PostToolUse", EventName::Tool),
            EventSpec::reported("PostToolUseFailure", EventName::ToolFailure),
            EventSpec::reported("PreCompact", EventName::PreCompact),
            EventSpec::reported("PostCompact", EventName::PostCompact),
            EventSpec::reported("Stop", EventName::Stop),
            EventSpec::reported("SessionEnd", EventName::SessionEnd),
        ],
        tools: Tools(&[
            ("read", Tool::Read),
            ("write", Tool::Write),
            ("edit", Tool::Edit),
            ("bash", Tool::Command),
            ("grep", Tool::Search),
            ("find", Tool::Search),
            ("ls", Tool::Search),
        ]),
        ..Format::PLAIN
    },
    install: Install {
        hooks: &[InstalledPart::own_file(
            FilePlace::own("extensions/recall.ts", &[".pi/extensions/recall.ts"]),
            OwnFile::text(concat!(include_str!("../hook_client.js"), include_str!("extension.ts"))),
        )],
        server: &[],
        then: None,
    },
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };
