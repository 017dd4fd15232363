//! Devin's command line, according to its vendor's page and to payloads of 3000.6 that users published: the hooks of
//! Claude Code with lower-case tools, and no folder in the payload. Not run here.
//!
//! It also runs the hooks in Claude Code's settings. The hook client recognises it by the variable that names its
//! project.

use recall_protocol::agents::Wait;

use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning};
use super::settings::{AgentVersion, FilePlace, Install, InstalledPart, JsonHooks, Syntax};
use super::{AgentSpec, Cap, EventSpec, Host};
use recall_domain::event::EventName;

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
    // Left out: `PreToolUse`, whose answer may rewrite or approve a call.
    format: Format {
        events: &[
            EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
            EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
            EventSpec::reported("PostToolUse", EventName::Tool),
            EventSpec::reported("Stop", EventName::Stop),
            EventSpec::reported("SessionEnd", EventName::SessionEnd),
            // An unknown event makes it reject the whole file. This version is the oldest that is known to accept
            // this event.
            EventSpec {
                since: AgentVersion(3000, 11, 1),
                ..EventSpec::reported("PostCompaction", EventName::PostCompact)
            },
        ],
        also: &[("pretooluse", Meaning::Is(EventName::ToolStart))],
        tools: Tools(&[
            ("read", Tool::Read),
            ("write", Tool::Write),
            ("edit", Tool::Edit),
            ("exec", Tool::Command),
            ("grep", Tool::Search),
            ("glob", Tool::Search),
            ("todo_write", Tool::TodoList),
            ("notebook_read", Tool::Read),
            ("notebook_edit", Tool::NotebookEdit),
            ("webfetch", Tool::Fetch),
            ("run_subagent", Tool::Delegate),
            ("ask_user_question", Tool::Ask),
        ]),
        ..Format::PLAIN
    },
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("config.json", &[]),
            JsonHooks { syntax: Syntax::Comments, ..JsonHooks::GROUPED },
        )],
        server: &[InstalledPart::server(FilePlace::own("config.json", &[]), Syntax::Comments)],
        then: None,
    },
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };
