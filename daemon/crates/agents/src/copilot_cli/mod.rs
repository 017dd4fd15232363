//! GitHub Copilot CLI, checked against 1.0.102.
//!
//! It has two dialects, chosen by the spelling of the event in the settings. Recall asks for Claude Code's dialect, but
//! some events still come in the other one. VS Code reads the same file, and calls the hook client under this agent's
//! name.

pub(super) mod history;

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;
use serde_json::{Map, Value, json};

use super::failure::FailureRules;
use super::format::payload::Payload;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::settings::{
    AgentVersion, Base, Content, Groups, HookCall, Install, JsonHooks, JsonValues, Part, Place, SKILL,
    Syntax, shell_line,
};
use super::{AgentSpec, Cap, EventSpec, GuardAnswers, HookOutput, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent};
use recall_domain::ids::SessionId;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "copilot-cli",
    title: "GitHub Copilot CLI",
    host: Host {
        program: "copilot",
        folder: ".copilot",
        folder_variable: Some("COPILOT_HOME"),
        assumed_version: AgentVersion(1, 0, 102),
        ..AgentSpec::PLAIN.host
    },
    events: EVENTS,
    read,
    envelope: answer::nested_and_flat,
    action: |tool, input, response| FORMAT.tools.action(tool, input, response),
    failures: FORMAT.failures,
    // A hook that fails before a call would deny the user's tool, so there is none.
    guards: GuardAnswers {
        warning: Some(|text| {
            let output = HookOutput { event: EventName::Tool, context: Some(text.to_owned()), notice: None };
            answer::nested_and_flat("PostToolUse", &output)
        }),
        ..GuardAnswers::NONE
    },
    install: Install {
        hooks: &[HOOKS],
        server: &[
            Part {
                place: Place::own("mcp-config.json", &[".github/mcp.json"]),
                content: Content::JsonValues(JsonValues::new(Syntax::Comments, |programs| {
                    let server =
                        json!({"type": "local", "command": programs.recall, "args": ["mcp"], "tools": ["*"]});
                    vec![(&["mcpServers", "recall"], server)]
                })),
            },
            Part {
                place: Place::own("skills/recall/SKILL.md", &[".github/skills/recall/SKILL.md"]),
                content: Content::OwnFile(SKILL),
            },
        ],
        then: None,
    },
    history: Some(history::HISTORY),
    ..AgentSpec::PLAIN
};

/// A file that recall writes, and that VS Code also reads.
pub(super) const HOOKS: Part = Part {
    place: Place { base: Base::Folder, user: "hooks/recall.json", project: &[".github/hooks/recall.json"] },
    content: Content::JsonHooks(JsonHooks {
        groups: Groups::Flat,
        frame: Some(("version", 1)),
        entry,
        switched_off: |settings| {
            (settings.get("disableAllHooks") == Some(&Value::Bool(true))).then_some("disableAllHooks")
        },
        ..JsonHooks::GROUPED
    }),
};

const CAP: Cap = Cap { utf16_units: 10_000 };

/// Left out: `PreToolUse` and `PermissionRequest`, because a hook that fails there denies the user's tool.
pub(super) const EVENTS: &[EventSpec] = &[
    EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
    EventSpec::reported("PostToolUse", EventName::Tool),
    EventSpec::reported("PostToolUseFailure", EventName::ToolFailure),
    EventSpec::reported("PreCompact", EventName::PreCompact),
    EventSpec { wait: Wait::Answer, ..EventSpec::reported("SubagentStart", EventName::SubagentStart) },
    EventSpec::reported("SubagentStop", EventName::SubagentStop),
    EventSpec::reported("Stop", EventName::Stop),
    EventSpec::reported("SessionEnd", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[
        ("userpromptsubmitted", Meaning::Is(EventName::Prompt)),
        ("userprompttransformed", Meaning::Internal),
        ("pretooluse", Meaning::Is(EventName::ToolStart)),
        ("premcptoolcall", Meaning::Internal),
        ("agentstop", Meaning::Is(EventName::Stop)),
    ],
    // The names in both dialects.
    tools: Tools(&[
        ("Read", Tool::Read),
        ("view", Tool::Read),
        ("Edit", Tool::Edit),
        ("edit", Tool::Edit),
        ("apply_patch", Tool::Edit),
        ("Write", Tool::Write),
        ("create", Tool::Write),
        ("Bash", Tool::Command),
        ("bash", Tool::Command),
        ("Grep", Tool::Search),
        ("grep", Tool::Search),
        ("Glob", Tool::Search),
        ("glob", Tool::Search),
        ("WebFetch", Tool::Fetch),
        ("web_fetch", Tool::Fetch),
        ("Agent", Tool::Delegate),
        ("task", Tool::Delegate),
    ]),
    // A failed command is reported as a success.
    failures: FailureRules {
        exit_code_line: Some((" completed with exit code ", ">")),
        ..FailureRules::COMMON
    },
};

fn read(delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let payload = Payload::read(delivery)?;
    let mut event = FORMAT.event(&payload, delivery)?;
    // Inside a subagent the payload names the subagent's own session.
    if let Some(parent) = payload.word(&["parent_agent_id", "parentAgentId"]) {
        event.session = SessionId(parent);
    }
    Ok(event)
}

fn entry(call: &HookCall<'_>) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("type".into(), "command".into());
    // Some payloads do not name their event.
    entry.insert("command".into(), shell_line(call.shim, &[SPEC.name, call.event.name]).into());
    // Both are in seconds: the first is VS Code's.
    entry.insert("timeout".into(), 5.into());
    entry.insert("timeoutSec".into(), 5.into());
    entry
}
