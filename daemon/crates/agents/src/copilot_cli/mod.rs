//! GitHub Copilot CLI, checked against 1.0.102.
//!
//! It has two dialects, chosen by the spelling of the event in the settings. Recall asks for Claude Code's dialect, but
//! some events still come in the other one. VS Code reads the same file, and calls the hook client under this agent's
//! name.

pub(super) mod history;

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;

use super::copied_format;
use super::failure::FailureRules;
use super::format::payload::Payload;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::memories::Memories;
use super::settings::{
    AgentVersion, Base, FilePlace, Groups, Install, InstalledPart, JsonHooks, JsonValues, SKILL,
    SettingValue, Syntax,
};
use super::{AgentSpec, Cap, EventSpec, GuardAnswers, HookOutput, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent};
use recall_domain::ids::SessionId;

const NAME: &str = "copilot-cli";

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: NAME,
    title: "GitHub Copilot CLI",
    host: Host {
        program: "copilot",
        folder: ".copilot",
        folder_variable: Some("COPILOT_HOME"),
        assumed_version: AgentVersion(1, 0, 102),
        tried: Some(AgentVersion(1, 0, 102)),
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read,
    envelope: answer::nested_and_flat,
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
            InstalledPart::values(
                FilePlace::own("mcp-config.json", &[".github/mcp.json"]),
                JsonValues::new(Syntax::Comments, &[(&["mcpServers", "recall"], SERVER)]),
            ),
            InstalledPart::own_file(
                FilePlace::own("skills/recall/SKILL.md", &[".github/skills/recall/SKILL.md"]),
                SKILL,
            ),
        ],
        then: None,
    },
    history: Some(history::HISTORY),
    // Its own memory is on its vendor's servers.
    memories: Some(Memories {
        of_project: &[".github/copilot-instructions.md", ".github/instructions/*.instructions.md"],
        own: None,
    }),
    ..AgentSpec::PLAIN
};

const SERVER: SettingValue = SettingValue::Fields(&[
    ("type", SettingValue::Text("local")),
    ("command", SettingValue::Recall),
    ("args", SettingValue::Texts(&["mcp"])),
    ("tools", SettingValue::Texts(&["*"])),
]);

/// A file that recall writes, and that VS Code also reads.
pub(super) const HOOKS: InstalledPart = InstalledPart::hooks(
    FilePlace { base: Base::Folder, user: "hooks/recall.json", project: &[".github/hooks/recall.json"] },
    JsonHooks {
        groups: Groups::Flat,
        frame: Some(("version", 1)),
        owner: Some(NAME),
        entry: &[
            ("type", SettingValue::Text("command")),
            // Some payloads do not name their event.
            ("command", SettingValue::ShimLineWithEvent),
            // Both are in seconds: the first is VS Code's.
            ("timeout", SettingValue::Number(5)),
            ("timeoutSec", SettingValue::Number(5)),
        ],
        switched_off: &[copied_format::ALL_OFF],
        ..JsonHooks::GROUPED
    },
);

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
    ..Format::PLAIN
};

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let payload = Payload::read(delivery)?;
    let mut event = format.event(&payload, delivery)?;
    // Inside a subagent the payload names the subagent's own session.
    if let Some(parent) = payload.word(&["parent_agent_id", "parentAgentId"]) {
        event.session = SessionId(parent);
    }
    Ok(event)
}
