//! Goose, checked against 1.52.0.
//!
//! A plugin's folder contains a file of hooks. The agent reads their output only before a call and at a turn's end,
//! as a decision, so it receives no context. Before a call, silence allows it. No event contains what a tool returned,
//! and only calls and a turn's end name the folder.

use serde_json::json;

use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::settings::{AgentVersion, Base, FilePlace, Install, InstalledPart, JsonHooks, OwnFile};
use super::{AgentSpec, Asking, EventSpec, GuardAnswers, Host};
use recall_domain::event::EventName;
use recall_domain::guard::Refusal;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "goose",
    title: "Goose",
    host: Host {
        program: "goose",
        other_places: &[".local/bin/goose"],
        folder: ".config/goose",
        assumed_version: AgentVersion(1, 38, 0),
        tried: Some(AgentVersion(1, 52, 0)),
        ..AgentSpec::PLAIN.host
    },
    format: Format {
        // Left out: `PreToolUse` (only guards need it), `PreToolUseResult`, and the events of files and shells, which say
        // less than those of all tools.
        events: &[
            EventSpec::reported("SessionStart", EventName::SessionStart),
            EventSpec::reported("UserPromptSubmit", EventName::Prompt),
            EventSpec::reported("PostToolUse", EventName::Tool),
            EventSpec::reported("PostToolUseFailure", EventName::ToolFailure),
            EventSpec::reported("Stop", EventName::Stop),
            EventSpec::reported("SessionEnd", EventName::SessionEnd),
        ],
        also: &[
            ("pretooluse", Meaning::Is(EventName::ToolStart)),
            ("pretooluseresult", Meaning::Internal),
            ("beforereadfile", Meaning::Internal),
            ("afterfileedit", Meaning::Internal),
            ("beforeshellexecution", Meaning::Internal),
            ("aftershellexecution", Meaning::Internal),
        ],
        // Its documents have the names with the extension in front.
        tools: Tools(&[
            ("shell", Tool::Command),
            ("write", Tool::Write),
            ("edit", Tool::Edit),
            ("tree", Tool::Search),
            ("read_image", Tool::Read),
            ("developer__shell", Tool::Command),
            ("developer__write", Tool::Write),
            ("developer__edit", Tool::Edit),
            ("developer__tree", Tool::Search),
            ("developer__read_image", Tool::Read),
        ]),
        prompt_field: "message",
        ..Format::PLAIN
    },
    guards: GuardAnswers {
        before: Some(EventSpec::reported("PreToolUse", EventName::ToolStart)),
        refusal: Some(refusal),
        asking: Asking::Refuses,
        ..GuardAnswers::NONE
    },
    install: Install {
        hooks: &[
            InstalledPart::hooks(plugin(HOOKS, &[HOOKS]), JsonHooks::GROUPED),
            InstalledPart::own_file(
                plugin(MANIFEST, &[MANIFEST]),
                OwnFile::text(include_str!("plugin.json")),
            ),
        ],
        server: &[],
        then: None,
    },
    ..AgentSpec::PLAIN
};

const HOOKS: &str = ".agents/plugins/recall/hooks/hooks.json";
const MANIFEST: &str = ".agents/plugins/recall/plugin.json";

/// A file of the plugin.
const fn plugin(user: &'static str, project: &'static [&'static str]) -> FilePlace {
    FilePlace { base: Base::Home, user, project }
}

/// Refuses a call. Its hooks cannot ask the user. Goose adds a full stop to the reason.
fn refusal(refusal: Refusal, reason: &str) -> Vec<u8> {
    let reason = match refusal {
        Refusal::Deny => reason.to_owned(),
        Refusal::Ask => format!("{reason} A hook cannot ask here, so the call is refused."),
    };
    let answer = [("decision", json!("block")), ("reason", json!(reason.trim_end_matches('.')))];
    answer::line(answer.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
