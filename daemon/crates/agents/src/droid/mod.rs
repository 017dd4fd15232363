//! Factory Droid, according to its vendor's page: the hooks of Claude Code with other tool names. Not run here.

use recall_protocol::agents::Wait;

use super::failure::FailureRules;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::settings::{
    AgentVersion, FilePlace, Install, InstalledPart, JsonHooks, JsonValues, SettingValue, Syntax,
};
use super::{AgentSpec, Asking, Cap, EventSpec, GuardAnswers, Host};
use recall_domain::event::EventName;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "droid",
    title: "Factory Droid",
    host: Host {
        program: "droid",
        other_places: &[".local/bin/droid"],
        folder: ".factory",
        assumed_version: AgentVersion(1, 0, 0),
        ..AgentSpec::PLAIN.host
    },
    format: Format {
        events: &[
            EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
            EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
            EventSpec::reported("PostToolUse", EventName::Tool),
            EventSpec::reported("SubagentStop", EventName::SubagentStop),
            EventSpec::reported("PreCompact", EventName::PreCompact),
            EventSpec::reported("Stop", EventName::Stop),
            EventSpec::reported("SessionEnd", EventName::SessionEnd),
        ],
        also: &[("pretooluse", Meaning::Is(EventName::ToolStart))],
        tools: Tools(&[
            ("Read", Tool::Read),
            ("Create", Tool::Write),
            ("Edit", Tool::Edit),
            ("MultiEdit", Tool::Edit),
            ("ApplyPatch", Tool::Edit),
            ("Execute", Tool::Command),
            ("Grep", Tool::Search),
            ("Glob", Tool::Search),
            ("LS", Tool::Search),
            ("FetchUrl", Tool::Fetch),
            ("WebSearch", Tool::Fetch),
            ("Task", Tool::Delegate),
            ("TodoWrite", Tool::TodoList),
        ]),
        failures: FailureRules {
            exit_code_line: Some(("[Process exited with code ", "]")),
            ..FailureRules::COMMON
        },
        ..Format::PLAIN
    },
    // Its documentation mentions no context before or after a call.
    guards: GuardAnswers {
        before: Some(EventSpec::reported("PreToolUse", EventName::ToolStart)),
        refusal: Some(answer::refusal),
        asking: Asking::Asks,
        advice: None,
        command_change: None,
        warning: None,
    },
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("hooks.json", &[".factory/hooks.json"]),
            JsonHooks::GROUPED,
        )],
        server: &[InstalledPart::values(
            FilePlace::own("mcp.json", &[".factory/mcp.json"]),
            JsonValues::new(Syntax::Json, &[(&["mcpServers", "recall"], SettingValue::STDIO)]),
        )],
        then: Some("Factory Droid asks once to review hooks that were changed outside: type /hooks."),
    },
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };
