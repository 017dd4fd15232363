//! Command Code, checked against 1.64.0, and according to the code of its program 1.53.1.
//!
//! It has four events. None reports a prompt or an answer: both come from the session's record ([`history`]).
//! With `-p` no hook runs at a session's start. An entry with a matcher would never receive the events that are
//! not calls. A session's context is delivered with the first prompt. Before a call, a hook that takes too long or
//! prints something unknown has no effect.

mod history;

use recall_protocol::agents::Wait;

use super::failure::FailureRules;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::settings::{
    AgentVersion, FilePlace, Install, InstalledPart, JsonHooks, SKILL, SettingValue, Syntax,
};
use super::{Advice, AgentSpec, Asking, Cap, EventSpec, GuardAnswers, Host};
use recall_domain::event::EventName;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "command-code",
    title: "Command Code",
    host: Host {
        program: "command-code",
        other_places: &[".local/bin/command-code"],
        folder: ".commandcode",
        assumed_version: AgentVersion(1, 53, 1),
        tried: Some(AgentVersion(1, 64, 0)),
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    guards: GuardAnswers {
        before: Some(EventSpec::reported("PreToolUse", EventName::ToolStart)),
        // It knows only `deny`, and ignores every other decision.
        refusal: Some(answer::plain_refusal),
        asking: Asking::Refuses,
        advice: Some(Advice::CONTEXT),
        command_change: None,
        warning: Some(answer::warning),
    },
    plan_folders: &[".commandcode/plans"],
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("settings.json", &[".commandcode/settings.json"]),
            JsonHooks {
                entry: &[
                    ("type", SettingValue::Text("command")),
                    ("command", SettingValue::ShimLine),
                    // In seconds.
                    ("timeout", SettingValue::Number(10)),
                ],
                ..JsonHooks::GROUPED
            },
        )],
        server: &[
            InstalledPart::server(FilePlace::own("mcp.json", &[".mcp.json"]), Syntax::Json),
            InstalledPart::own_file(
                FilePlace::own("skills/recall/SKILL.md", &[".commandcode/skills/recall/SKILL.md"]),
                SKILL,
            ),
        ],
        then: None,
    },
    history: Some(history::HISTORY),
    ..AgentSpec::PLAIN
};

/// Longer texts are cut.
const CAP: Cap = Cap { utf16_units: 4_000 };

const FORMAT: Format = Format {
    events: &[
        EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
        EventSpec::reported("PostToolUse", EventName::Tool),
        EventSpec::reported("Stop", EventName::Stop),
    ],
    also: &[
        ("pretooluse", Meaning::Is(EventName::ToolStart)),
        // The event names of the record.
        ("userpromptsubmit", Meaning::Is(EventName::Prompt)),
    ],
    tools: Tools(&[
        ("read_file", Tool::Read),
        ("read_multiple_files", Tool::Read),
        ("write_file", Tool::Write),
        ("edit_file", Tool::Edit),
        ("shell_command", Tool::Command),
        ("grep", Tool::Search),
        ("glob", Tool::Search),
        ("read_directory", Tool::Search),
        ("web_fetch", Tool::Fetch),
        ("web_search", Tool::Fetch),
        ("todo_write", Tool::TodoList),
        ("ask_user_question", Tool::Ask),
    ]),
    failures: FailureRules { exit_code_first: Some("Exit code: "), ..FailureRules::COMMON },
    ..Format::PLAIN
};
