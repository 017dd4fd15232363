//! Augment's Auggie, according to its package 0.36.0. Not run here.
//!
//! It starts a hook's program without a shell. It does not report a turn's last message.

use recall_protocol::agents::Wait;
use serde_json::Map;

use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::settings::{AgentVersion, FilePlace, Install, InstalledPart, JsonHooks, SettingValue, Syntax};
use super::{AgentSpec, Cap, EventSpec, HookOutput, Host};
use recall_domain::event::EventName;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "auggie",
    title: "Auggie",
    host: Host {
        program: "auggie",
        folder: ".augment",
        assumed_version: AgentVersion(0, 36, 0),
        ..AgentSpec::PLAIN.host
    },
    format: Format {
        events: &[
            EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
            EventSpec::answered(PROMPT, EventName::Prompt, Wait::Answer, CAP),
            EventSpec::reported("PostToolUse", EventName::Tool),
            EventSpec::reported("Stop", EventName::Stop),
            EventSpec::reported("SessionEnd", EventName::SessionEnd),
        ],
        also: &[("pretooluse", Meaning::Is(EventName::ToolStart))],
        tools: Tools(&[
            ("view", Tool::Read),
            ("save-file", Tool::Write),
            ("str-replace-editor", Tool::Edit),
            ("launch-process", Tool::Command),
            ("codebase-retrieval", Tool::Search),
            ("web-fetch", Tool::Fetch),
            ("web-search", Tool::Fetch),
        ]),
        prompt_field: "user_prompt",
        ..Format::PLAIN
    },
    envelope,
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("settings.json", &[".augment/settings.json"]),
            JsonHooks {
                // No timeout, because its unit is unknown. The program's default is a minute.
                entry: &[
                    ("type", SettingValue::Text("command")),
                    ("command", SettingValue::Shim),
                    ("args", SettingValue::ShimArgumentsWithEvent),
                ],
                ..JsonHooks::GROUPED
            },
        )],
        server: &[InstalledPart::server(
            FilePlace::own("settings.json", &[".augment/settings.json"]),
            Syntax::Json,
        )],
        then: None,
    },
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };

/// The program's name for a prompt, which its nested answer does not accept.
const PROMPT: &str = "PromptSubmit";

fn envelope(event: &str, output: &HookOutput) -> Vec<u8> {
    match &output.context {
        Some(context) if event == PROMPT => {
            answer::line(Map::from_iter([("additionalContext".to_owned(), context.as_str().into())]))
        }
        _ => answer::nested(event, output),
    }
}
