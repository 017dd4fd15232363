//! Copilot in VS Code, according to the source of its extension. Not run here.
//!
//! It reads the hook file of Copilot CLI, so that one file serves both, and also runs the hooks of Claude Code. The
//! folder of its transcripts identifies its payloads.

use super::copilot_cli;
use super::failure::FailureRules;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::history::{self, RecordedHistory};
use super::settings::{
    AgentVersion, Base, FilePlace, Install, InstalledPart, JsonValues, SettingValue, Syntax,
};
use super::{Advice, Advised, AgentSpec, Asking, CommandChange, GuardAnswers, HookOutput, Host, Mark};
use recall_domain::event::EventName;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "vscode-copilot",
    title: "Copilot in VS Code",
    host: Host {
        program: "code",
        folder: FOLDER,
        assumed_version: AgentVersion(1, 120, 0),
        marks: &[Mark { field: "transcript_path", part: "/workspaceStorage/" }],
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    envelope: answer::nested_and_flat,
    // Before a call only the hooks of Claude Code run, because in its own file the event would be Copilot CLI's, too.
    guards: GuardAnswers {
        before: None,
        refusal: Some(answer::refusal),
        asking: Asking::Asks,
        advice: Some(Advice { to: Advised::Model, answer: |text| with_context("PreToolUse", text) }),
        command_change: Some(CommandChange {
            tools: &["run_in_terminal", "runTerminalCommand"],
            add: |answer, input| answer::with_input("PreToolUse", "updatedInput", answer, input),
        }),
        warning: Some(|text| with_context("PostToolUse", text)),
    },
    install: Install {
        hooks: &[InstalledPart {
            place: FilePlace {
                base: Base::Home,
                user: ".copilot/hooks/recall.json",
                project: copilot_cli::HOOKS.place.project,
            },
            content: copilot_cli::HOOKS.content,
        }],
        server: &[InstalledPart::values(
            FilePlace::own("mcp.json", &[".vscode/mcp.json"]),
            JsonValues::new(
                Syntax::CommentsAndTrailingCommas,
                &[(&["servers", "recall"], SettingValue::STDIO)],
            ),
        )],
        then: None,
    },
    history: Some(HISTORY),
    ..AgentSpec::PLAIN
};

fn with_context(event: &str, text: &str) -> Vec<u8> {
    let output = HookOutput { event: EventName::Tool, context: Some(text.to_owned()), notice: None };
    answer::nested_and_flat(event, &output)
}

const FOLDER: &str =
    if cfg!(target_os = "macos") { "Library/Application Support/Code/User" } else { ".config/Code/User" };

/// The records have Copilot CLI's format. VS Code deletes old ones.
const HISTORY: RecordedHistory = RecordedHistory {
    place: history::HistoryFolder::Agent("workspaceStorage"),
    also: &[],
    is_session: |path| {
        let is_jsonl = path.extension().is_some_and(|extension| extension == "jsonl");
        is_jsonl && path.parent().is_some_and(|folder| folder.ends_with("GitHub.copilot-chat/transcripts"))
    },
    inside: None,
    read: copilot_cli::history::read,
    each: None,
    tail: Some(copilot_cli::history::read_records),
    prompts: None,
    kin: None,
    end: Some("SessionEnd"),
};

const FORMAT: Format = Format {
    events: copilot_cli::EVENTS,
    also: &[("pretooluse", Meaning::Is(EventName::ToolStart)), ("agentstop", Meaning::Is(EventName::Stop))],
    tools: Tools(&[
        ("read_file", Tool::Read),
        ("create_file", Tool::Write),
        ("replace_string_in_file", Tool::Edit),
        ("multi_replace_string_in_file", Tool::Edit),
        ("apply_patch", Tool::Edit),
        ("insert_edit_into_file", Tool::Edit),
        ("run_in_terminal", Tool::Command),
        ("runTerminalCommand", Tool::Command),
        ("grep_search", Tool::Search),
        ("file_search", Tool::Search),
        ("semantic_search", Tool::Search),
        ("list_dir", Tool::Search),
        ("fetch_webpage", Tool::Fetch),
        ("runSubagent", Tool::Delegate),
        ("manage_todo_list", Tool::TodoList),
    ]),
    failures: FailureRules {
        exit_code_line: Some(("Command exited with code ", "")),
        ..FailureRules::COMMON
    },
    ..Format::PLAIN
};
