//! Devin's command line, by its vendor's page: the hooks of Claude Code with lower-case tools, and no folder in the
//! payload. Not run here.
//!
//! It also runs the hooks in Claude Code's settings. The hook client recognises it by the variable that names its
//! project.

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;
use serde_json::json;

use super::failure::FailureRules;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning};
use super::settings::{
    AgentVersion, Content, Install, JsonHooks, JsonValues, Part, Place, Syntax, shell_line,
};
use super::{AgentSpec, Cap, EventSpec, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "devin",
    title: "Devin",
    host: Host {
        program: "devin",
        other_places: &[".local/bin/devin"],
        folder: ".config/devin",
        assumed_version: AgentVersion(1, 0, 0),
        ..AgentSpec::PLAIN.host
    },
    events: EVENTS,
    read: |delivery: &Deliver| -> Result<HookEvent, Unreadable> { FORMAT.read(delivery) },
    action: |tool, input, response| FORMAT.tools.action(tool, input, response),
    failures: FORMAT.failures,
    install: Install {
        hooks: &[Part {
            place: Place::own("config.json", &[]),
            content: Content::JsonHooks(JsonHooks {
                syntax: Syntax::Comments,
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
            place: Place::own("config.json", &[]),
            content: Content::JsonValues(JsonValues::new(Syntax::Comments, |programs| {
                let server = json!({"command": programs.recall, "args": ["mcp"]});
                vec![(&["mcpServers", "recall"], server)]
            })),
        }],
        then: None,
    },
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };

/// Left out: `PreToolUse`, whose answer may rewrite or approve a call.
const EVENTS: &[EventSpec] = &[
    EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
    EventSpec::reported("PostToolUse", EventName::Tool),
    EventSpec::reported("Stop", EventName::Stop),
    EventSpec::reported("SessionEnd", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[("pretooluse", Meaning::Is(EventName::ToolStart))],
    tools: Tools(&[
        ("read", Tool::Read),
        ("write", Tool::Write),
        ("edit", Tool::Edit),
        ("exec", Tool::Command),
        ("grep", Tool::Search),
        ("glob", Tool::Search),
        ("todo_write", Tool::TodoList),
    ]),
    failures: FailureRules::COMMON,
};
