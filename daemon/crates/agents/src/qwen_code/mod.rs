//! Qwen Code, checked against 0.24.4: the hooks of Claude Code, the tools and settings of Gemini CLI.
//!
//! `UserPromptSubmit` fires for each model call, also after each round of tools. Only the one with the submitted text
//! is a prompt. A failed command is reported as a failed call.

mod history;

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;

use super::copied_format;
use super::failure::FailureRules;
use super::format::payload::Payload;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::gemini_cli::without_whole_files;
use super::settings::{
    AgentVersion, FilePlace, Install, InstalledPart, JsonHooks, SKILL, SettingValue, Syntax,
};
use super::{Advice, AgentSpec, Asking, Cap, EventSpec, GuardAnswers, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent, HookEventKind, PromptText};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "qwen-code",
    title: "Qwen Code",
    host: Host {
        program: "qwen",
        folder: ".qwen",
        assumed_version: AgentVersion(0, 24, 4),
        tried: Some(AgentVersion(0, 24, 4)),
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read,
    guards: GuardAnswers {
        before: Some(EventSpec::reported("PreToolUse", EventName::ToolStart)),
        refusal: Some(answer::refusal),
        asking: Asking::Asks,
        advice: Some(Advice::CONTEXT),
        command_change: None,
        warning: Some(answer::warning),
    },
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("settings.json", &[".qwen/settings.json"]),
            JsonHooks {
                syntax: Syntax::Comments,
                entry: &[
                    ("type", SettingValue::Text("command")),
                    ("name", SettingValue::Text("recall")),
                    ("command", SettingValue::ShimLine),
                    // In seconds; 1000 or more would be milliseconds.
                    ("timeout", SettingValue::Number(5)),
                ],
                switched_off: &[copied_format::ALL_OFF],
                ..JsonHooks::GROUPED
            },
        )],
        server: &[
            InstalledPart::server(
                FilePlace::own("settings.json", &[".qwen/settings.json"]),
                Syntax::Comments,
            ),
            InstalledPart::own_file(
                FilePlace::own("skills/recall/SKILL.md", &[".qwen/skills/recall/SKILL.md"]),
                SKILL,
            ),
        ],
        then: None,
    },
    history: Some(history::HISTORY),
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };

/// Left out: `PostToolBatch`, which repeats results, and `MessageDisplay`, which fires five times a second.
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
    EventSpec::reported("SessionEnd", EventName::SessionEnd),
    // Older versions lack it.
    EventSpec {
        since: AgentVersion(0, 24, 4),
        ..EventSpec::reported("SessionDelete", EventName::SessionDelete)
    },
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[
        ("pretooluse", Meaning::Is(EventName::ToolStart)),
        ("posttoolbatch", Meaning::Internal),
        ("messagedisplay", Meaning::Internal),
    ],
    tools: Tools(&[
        ("read_file", Tool::Read),
        ("write_file", Tool::Write),
        ("edit", Tool::Edit),
        ("notebook_edit", Tool::NotebookEdit),
        ("run_shell_command", Tool::Command),
        ("grep_search", Tool::Search),
        ("glob", Tool::Search),
        ("list_directory", Tool::Search),
        ("web_fetch", Tool::Fetch),
        ("agent", Tool::Delegate),
        ("todo_write", Tool::TodoList),
    ]),
    failures: FailureRules { exit_code_line: Some(("Exit Code: ", "")), ..FailureRules::COMMON },
    ..Format::PLAIN
};

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let payload = Payload::read(delivery)?;
    let mut event = format.event(&payload, delivery)?;
    match &mut event.what {
        HookEventKind::Prompt { text: PromptText::Text(text), .. } => {
            match payload.text(&["submitted_prompt"]) {
                Some(submitted) => *text = submitted,
                None if text.trim().is_empty() => {
                    event.what = HookEventKind::Internal { name: "UserPromptSubmit".to_owned() };
                }
                // Older versions and editors send none.
                None => {}
            }
        }
        HookEventKind::Tool(call) => without_whole_files(&mut call.result),
        _ => {}
    }
    Ok(event)
}
