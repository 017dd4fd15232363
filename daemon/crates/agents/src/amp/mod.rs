//! Amp, according to the documentation of its plugin interface in 0.0.1790142911. Not run here, because it needs its
//! vendor's server. It has no command hooks: a plugin runs the hook client. No event reports a thread's end; silence
//! ends it.

use recall_protocol::agents::Wait;

use super::format::Format;
use super::format::tools::{Tool, Tools};
use super::settings::{
    AgentVersion, FilePlace, Install, InstalledPart, JsonValues, OwnFile, SettingValue, Syntax,
};
use super::{AgentSpec, Cap, EventSpec, Host};
use recall_domain::event::EventName;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "amp",
    title: "Amp",
    host: Host {
        program: "amp",
        other_places: &[".local/bin/amp"],
        folder: ".config/amp",
        assumed_version: AgentVersion(0, 0, 0),
        ..AgentSpec::PLAIN.host
    },
    format: Format {
        // Named by the plugin.
        events: &[
            EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
            EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
            EventSpec::reported("PostToolUse", EventName::Tool),
            EventSpec::reported("PostToolUseFailure", EventName::ToolFailure),
            EventSpec::reported("Stop", EventName::Stop),
            EventSpec::reported("StopFailure", EventName::StopFailure),
        ],
        tools: Tools(&[
            ("Read", Tool::Read),
            ("create_file", Tool::Write),
            ("edit_file", Tool::Edit),
            ("apply_patch", Tool::Edit),
            ("Bash", Tool::Command),
            ("shell_command", Tool::Command),
            ("Grep", Tool::Search),
            ("glob", Tool::Search),
        ]),
        ..Format::PLAIN
    },
    install: Install {
        hooks: &[InstalledPart::own_file(
            FilePlace::own("plugins/recall.ts", &[".amp/plugins/recall.ts"]),
            OwnFile::text(concat!(include_str!("../hook_client.js"), include_str!("plugin.ts"))),
        )],
        server: &[InstalledPart::values(
            FilePlace::own("settings.json", &[]),
            JsonValues::new(Syntax::Comments, &[(&["amp.mcpServers", "recall"], SettingValue::SERVER)]),
        )],
        then: None,
    },
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };
