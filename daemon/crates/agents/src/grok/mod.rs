//! Grok Build, xAI's command line: the hooks of Claude Code with its own tools. According to its vendor's page on
//! hooks and to public programs that read its events; not run here.
//!
//! It also runs the hook files of Claude Code and Cursor. The hook client recognises it by a variable that it sets
//! for hooks. It ignores what a hook prints at a session's start and at a prompt, so it receives no context there.
//! Only a refusal before a call is read; silence allows the call.

use recall_protocol::wire::Deliver;
use serde_json::json;

use super::failure::FailureRules;
use super::format::payload::Payload;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::settings::{
    AgentVersion, FilePlace, Install, InstalledPart, JsonHooks, PartContent, SKILL, TomlTable,
};
use super::{AgentSpec, Asking, EventSpec, GuardAnswers, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent, HookEventKind, StartSource};
use recall_domain::guard::Refusal;
use recall_domain::material::BatchSource;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "grok",
    title: "Grok Build",
    host: Host {
        program: "grok",
        other_places: &[".grok/bin/grok"],
        folder: ".grok",
        folder_variable: Some("GROK_HOME"),
        assumed_version: AgentVersion(1, 0, 0),
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read,
    guards: GuardAnswers {
        before: Some(EventSpec::reported("PreToolUse", EventName::ToolStart)),
        refusal: Some(refusal),
        asking: Asking::Refuses,
        advice: None,
        command_change: None,
        warning: None,
    },
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("hooks/recall.json", &[".grok/hooks/recall.json"]),
            JsonHooks::GROUPED,
        )],
        server: &[
            InstalledPart {
                place: FilePlace::own("config.toml", &[".grok/config.toml"]),
                content: PartContent::TomlTable(TomlTable::SERVER),
            },
            InstalledPart::own_file(
                FilePlace::own("skills/recall/SKILL.md", &[".grok/skills/recall/SKILL.md"]),
                SKILL,
            ),
        ],
        then: None,
    },
    ..AgentSpec::PLAIN
};

const EVENTS: &[EventSpec] = &[
    EventSpec::reported("SessionStart", EventName::SessionStart),
    EventSpec::reported("UserPromptSubmit", EventName::Prompt),
    EventSpec::reported("PostToolUse", EventName::Tool),
    EventSpec::reported("PostToolUseFailure", EventName::ToolFailure),
    EventSpec::reported("PreCompact", EventName::PreCompact),
    EventSpec::reported("PostCompact", EventName::PostCompact),
    EventSpec::reported("Stop", EventName::Stop),
    EventSpec::reported("StopFailure", EventName::StopFailure),
    EventSpec::reported("SessionEnd", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[
        ("pretooluse", Meaning::Is(EventName::ToolStart)),
        // A subagent has its own session, whose events report the same.
        ("subagentstart", Meaning::Internal),
        ("subagentstop", Meaning::Internal),
        // The names of Cursor's file.
        ("beforesubmitprompt", Meaning::Is(EventName::Prompt)),
    ],
    // Its own names, and Claude Code's names that it accepts in matchers.
    tools: Tools(&[
        ("run_terminal_command", Tool::Command),
        ("run_terminal_cmd", Tool::Command),
        ("Bash", Tool::Command),
        ("read_file", Tool::Read),
        ("Read", Tool::Read),
        ("search_replace", Tool::Edit),
        ("Edit", Tool::Edit),
        ("write", Tool::Write),
        ("Write", Tool::Write),
        ("grep", Tool::Search),
        ("list_dir", Tool::Search),
        ("web_fetch", Tool::Fetch),
        ("web_search", Tool::Fetch),
        ("task", Tool::Delegate),
        ("todo", Tool::TodoList),
    ]),
    failures: FailureRules::COMMON,
    ..Format::PLAIN
};

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let payload = Payload::read(delivery)?;
    let mut event = format.event(&payload, delivery)?;
    match &mut event.what {
        HookEventKind::SessionStart { source, .. }
            if payload.word(&["source"]).as_deref() == Some("load") =>
        {
            *source = StartSource::Resume;
        }
        // In a subagent's session the agent writes the prompts.
        HookEventKind::Prompt { source, .. }
            if payload.word(&["subagentType", "subagent_type"]).is_some() =>
        {
            *source = BatchSource::AgentMessage;
        }
        _ => {}
    }
    Ok(event)
}

/// Refuses a call. Its hooks cannot ask the user, and it shows only the first 256 characters of a reason.
fn refusal(refusal: Refusal, reason: &str) -> Vec<u8> {
    let reason = match refusal {
        Refusal::Deny => reason.to_owned(),
        Refusal::Ask => format!("{reason} A hook cannot ask here, so the call is refused."),
    };
    let answer = [("decision", json!("deny")), ("reason", json!(reason))];
    answer::line(answer.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
