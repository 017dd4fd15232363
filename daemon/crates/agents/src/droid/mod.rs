//! Factory Droid, by its vendor's page: the hooks of Claude Code with other tool names. Not run here.

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;
use serde_json::json;

use super::failure::FailureRules;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::settings::{
    AgentVersion, Content, Install, JsonHooks, JsonValues, Part, Place, Syntax, shell_line,
};
use super::{AgentSpec, Asking, Cap, EventSpec, GuardAnswers, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent};

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
    events: EVENTS,
    read: |delivery: &Deliver| -> Result<HookEvent, Unreadable> { FORMAT.read(delivery) },
    action: |tool, input, response| FORMAT.tools.action(tool, input, response),
    failures: FORMAT.failures,
    // Its documents mention no context before or after a call.
    guards: GuardAnswers {
        before: Some(EventSpec::reported("PreToolUse", EventName::ToolStart)),
        refusal: Some(answer::refusal),
        asking: Asking::Asks,
        advice: None,
        command_change: None,
        warning: None,
    },
    install: Install {
        hooks: &[Part {
            place: Place::own("hooks.json", &[".factory/hooks.json"]),
            content: Content::JsonHooks(JsonHooks {
                entry: |call| {
                    let line = shell_line(call.shim, &[SPEC.name]);
                    let entry =
                        [("type", "command".into()), ("command", line.into()), ("timeout", 10.into())];
                    entry.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
                },
                ..JsonHooks::GROUPED
            }),
        }],
        server: &[Part {
            place: Place::own("mcp.json", &[".factory/mcp.json"]),
            content: Content::JsonValues(JsonValues::new(Syntax::Json, |programs| {
                let server = json!({"type": "stdio", "command": programs.recall, "args": ["mcp"]});
                vec![(&["mcpServers", "recall"], server)]
            })),
        }],
        then: Some("Factory Droid asks once to review hooks that were changed outside: type /hooks."),
    },
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };

const EVENTS: &[EventSpec] = &[
    EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
    EventSpec::reported("PostToolUse", EventName::Tool),
    EventSpec::reported("SubagentStop", EventName::SubagentStop),
    EventSpec::reported("PreCompact", EventName::PreCompact),
    EventSpec::reported("Stop", EventName::Stop),
    EventSpec::reported("SessionEnd", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
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
};
