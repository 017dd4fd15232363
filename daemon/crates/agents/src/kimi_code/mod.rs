//! Kimi Code, checked against 2.1.0.
//!
//! It ignores what a hook prints at a session's start, so the first prompt gets the start's context. It passes any
//! output at a prompt to the model, so silence must be no output at all. A turn's end comes without the answer, which
//! is in the session's record. No event names the record, but its path follows from folder and session.

mod history;

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;
use serde_json::json;

use super::failure::FailureRules;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::settings::{
    AgentVersion, FilePlace, Install, InstalledPart, PartContent, SKILL, SettingValue, Syntax, TomlList,
};
use super::{AgentSpec, Asking, Cap, EventSpec, GuardAnswers, HookOutput, Host, Unreadable};
use recall_domain::event::{EventName, HookEvent, HookEventKind, StartContext};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "kimi-code",
    title: "Kimi Code",
    host: Host {
        program: "kimi",
        other_places: &[".local/bin/kimi"],
        folder: ".kimi-code",
        folder_variable: Some("KIMI_CODE_HOME"),
        assumed_version: AgentVersion(2, 0, 0),
        tried: Some(AgentVersion(2, 1, 0)),
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read,
    envelope: |_, output: &HookOutput| {
        let message = output.context.as_ref().map(|context| ("message".to_owned(), json!(context)));
        answer::line(message.into_iter().collect())
    },
    guards: GuardAnswers {
        before: Some(EventSpec::reported("PreToolUse", EventName::ToolStart)),
        refusal: Some(answer::plain_refusal),
        asking: Asking::Refuses,
        ..GuardAnswers::NONE
    },
    install: Install {
        hooks: &[InstalledPart {
            place: FilePlace::own("config.toml", &[]),
            content: PartContent::TomlList(TomlList {
                key: "hooks",
                // The program rejects the whole file because of one unknown field.
                entry: &[
                    ("event", SettingValue::Event),
                    ("command", SettingValue::ShimLine),
                    // In seconds.
                    ("timeout", SettingValue::Number(10)),
                ],
            }),
        }],
        server: &[
            InstalledPart::server(FilePlace::own("mcp.json", &[".kimi-code/mcp.json"]), Syntax::Json),
            InstalledPart::own_file(
                FilePlace::own("skills/recall/SKILL.md", &[".kimi-code/skills/recall/SKILL.md"]),
                SKILL,
            ),
        ],
        then: None,
    },
    history: Some(history::HISTORY),
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };

const FORMAT: Format = Format {
    // Left out: events that repeat others.
    events: &[
        EventSpec { wait: Wait::Start, ..EventSpec::reported("SessionStart", EventName::SessionStart) },
        EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
        EventSpec::reported("PostToolUse", EventName::Tool),
        EventSpec::reported("PostToolUseFailure", EventName::ToolFailure),
        EventSpec::reported("SubagentStop", EventName::SubagentStop),
        EventSpec::reported("PreCompact", EventName::PreCompact),
        EventSpec::reported("PostCompact", EventName::PostCompact),
        EventSpec::reported("Stop", EventName::Stop),
        EventSpec::reported("StopFailure", EventName::StopFailure),
        // The user has stopped the turn. An older version may reject the whole file because of an unknown name.
        EventSpec { since: AgentVersion(2, 1, 0), ..EventSpec::reported("Interrupt", EventName::Stop) },
        EventSpec::reported("SessionEnd", EventName::SessionEnd),
    ],
    also: &[
        ("pretooluse", Meaning::Is(EventName::ToolStart)),
        ("subagentstart", Meaning::Internal),
        ("userpromptqueued", Meaning::Internal),
        ("turnstarted", Meaning::Internal),
        ("taskstarted", Meaning::Internal),
        ("sessionheartbeat", Meaning::Internal),
        ("permissionrequest", Meaning::Internal),
        ("permissionresult", Meaning::Internal),
    ],
    tools: Tools(&[
        ("Read", Tool::Read),
        ("Write", Tool::Write),
        ("Edit", Tool::Edit),
        ("Bash", Tool::Command),
        ("Grep", Tool::Search),
        ("Glob", Tool::Search),
        ("FetchURL", Tool::Fetch),
        ("WebSearch", Tool::Fetch),
        ("Agent", Tool::Delegate),
        ("TodoList", Tool::TodoList),
    ]),
    failures: FailureRules {
        exit_code_line: Some(("Command failed with exit code: ", ".")),
        ..FailureRules::COMMON
    },
    ..Format::PLAIN
};

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let mut event = format.read(delivery)?;
    if let HookEventKind::Prompt { start, .. } = &mut event.what {
        *start = StartContext::Dropped;
    }
    // Only a few events name their turn, by a number that prompts lack.
    event.prompt = None;
    event.transcript_path = event.cwd.as_deref().map(|cwd| history::record_of(cwd, event.session.as_str()));
    Ok(event)
}
