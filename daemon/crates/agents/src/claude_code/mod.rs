//! Claude Code: parses hook payloads and renders hook answers.
//!
//! Format: the hooks reference of Claude Code, checked against 2.1.329.

pub(super) mod demo;
mod history;
mod rejection;
mod settings;
mod transcript;

use recall_protocol::wire::Deliver;

use super::failure::FailureRules;
use super::format::payload::Payload;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer, plans};
use super::memories::{Memories, OwnMemories};
use super::settings::AgentVersion;
use super::{Advice, AgentSpec, CommandChange, GuardAnswers, Host, NotesProgram, Unreadable};
use recall_domain::conventions::Conventions;
use recall_domain::event::{Audience, EventName, HookEvent, HookEventKind, StartSource};
use recall_domain::material::BatchSource;

pub(super) use self::settings::ALL_OFF;

const NAME: &str = "claude-code";

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: NAME,
    title: "Claude Code",
    host: Host {
        program: "claude",
        other_places: &[".local/bin/claude", ".claude/local/claude"],
        folder: ".claude",
        folder_variable: Some("CLAUDE_CONFIG_DIR"),
        assumed_version: AgentVersion(2, 1, 76),
        tried: Some(AgentVersion(2, 1, 329)),
        marks: &[],
    },
    format: FORMAT,
    read,
    rejected: rejection::rejected,
    reply: transcript::reply,
    plan_file: |request| {
        let own = SPEC.host.folders(&request.home, request.config_dir.as_deref());
        plans::plan_file(own.iter().map(|folder| folder.join("plans")).collect(), request)
    },
    guards: GuardAnswers {
        refusal: Some(answer::refusal),
        advice: Some(Advice::CONTEXT),
        command_change: Some(CommandChange {
            tools: &["Bash"],
            add: |answer, input| answer::with_input("PreToolUse", "updatedInput", answer, input),
        }),
        warning: Some(answer::warning),
        ..GuardAnswers::NONE
    },
    injected_block: Some((REMINDER, "</system-reminder>")),
    conventions: Conventions {
        // EnterWorktree creates a session's work tree here.
        work_trees: &[".claude/worktrees/"],
        plan_prompts: &["Implement the following plan:"],
        machine_prompts: &[
            ("<task-notification>", BatchSource::AgentNotification),
            ("[SYSTEM NOTIFICATION", BatchSource::AgentNotification),
            ("<agent-message", BatchSource::AgentMessage),
            ("<teammate-message", BatchSource::AgentMessage),
            ("<cross-session-message", BatchSource::AgentMessage),
            ("<\\cross-session-message", BatchSource::AgentMessage),
            ("<session-message", BatchSource::AgentMessage),
            ("<project_claude_message", BatchSource::AgentMessage),
            ("<relay ", BatchSource::AgentMessage),
            ("<slack-tag-message", BatchSource::AgentMessage),
            ("<channel source=", BatchSource::AgentMessage),
            ("Another Claude session sent a message:", BatchSource::AgentMessage),
            ("[Subagent hand-back]", BatchSource::AgentMessage),
            ("[Cross-session ", BatchSource::AgentMessage),
            ("<fetched-web-content", BatchSource::System),
            ("<tick>", BatchSource::System),
            ("<local-command", BatchSource::System),
            ("<command-", BatchSource::System),
            ("<bash-", BatchSource::System),
            ("<user-prompt-submit-hook>", BatchSource::System),
            ("Stop hook feedback:", BatchSource::System),
            ("SubagentStop hook feedback:", BatchSource::System),
            ("[Request interrupted", BatchSource::System),
            ("Caveat: The messages below", BatchSource::System),
            ("Base directory for this skill", BatchSource::System),
            ("This session is being continued from", BatchSource::System),
        ],
        foreign_lines: &["This came from another Claude session", "Another Claude session sent a message:"],
        empty_answers: &["no response requested."],
        // As found in `Stop` hooks of recorded sessions.
        failed_answers: &["API Error: ", "Please run /login · API Error: "],
    },
    plan_folders: &[".claude/plans"],
    skipped_tools: &["ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite", "AskUserQuestion"],
    install: settings::INSTALL,
    history: Some(history::HISTORY),
    memories: Some(Memories {
        of_project: &["CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", ".claude/rules/*.md"],
        own: Some(OwnMemories::Folders { before: "projects", after: "memory" }),
    }),
    notes: Some(NotesProgram { backend: "claude-cli", model: "haiku" }),
    ..AgentSpec::PLAIN
};

const REMINDER: &str = "<system-reminder>";

pub(super) const FORMAT: Format = Format {
    events: &settings::EVENTS,
    // Its mod reports messages of other sessions.
    also: &[("messagereceived", Meaning::Is(EventName::MessageReceived))],
    tools: TOOLS,
    failures: FailureRules {
        // `grep` returns 1 if it finds nothing.
        exit_code_note: Some("returnCodeInterpretation"),
        ..FailureRules::COMMON
    },
    ..Format::PLAIN
};

pub(super) const TOOLS: Tools = Tools(&[
    ("Read", Tool::Read),
    ("NotebookRead", Tool::Read),
    ("Edit", Tool::Edit),
    ("MultiEdit", Tool::Edit),
    ("NotebookEdit", Tool::NotebookEdit),
    ("Write", Tool::Write),
    ("Bash", Tool::Command),
    ("PowerShell", Tool::Command),
    ("Grep", Tool::Search),
    ("Glob", Tool::Search),
    ("LS", Tool::Search),
    ("WebFetch", Tool::Fetch),
    ("WebSearch", Tool::Fetch),
    ("Agent", Tool::Delegate),
    ("Task", Tool::Delegate),
    ("AskUserQuestion", Tool::Ask),
    ("ExitPlanMode", Tool::Plan),
    ("TodoWrite", Tool::TodoList),
    ("TaskCreate", Tool::TaskCreate),
    ("TaskUpdate", Tool::TaskUpdate),
]);

/// Reads one hook payload.
fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let payload = Payload::read(delivery)?;
    Ok(as_meant(format.event(&payload, delivery)?, &payload))
}

/// Handles the peculiarities of this agent, and of hosts that are built on its kit.
pub(super) fn as_meant(mut event: HookEvent, payload: &Payload) -> HookEvent {
    let without_blocks = |text: &mut Option<String>| {
        *text = text.take().map(|text| SPEC.without_injected_blocks(&text));
    };
    match &mut event.what {
        // `claude -p` starts without a model. `/clear` exists only in interactive sessions.
        HookEventKind::SessionStart { source, audience }
            if payload.word(&["model"]).is_some() || *source == StartSource::Clear =>
        {
            *audience = Audience::Person;
        }
        // Compaction runs as a subagent without a type. PostCompact repeats its text.
        HookEventKind::SubagentStop { message } => {
            if payload.text(&["agent_type"]).is_some_and(|kind| kind.is_empty()) {
                event.what = HookEventKind::Internal { name: "SubagentStop".to_owned() };
            } else {
                without_blocks(message);
            }
        }
        HookEventKind::Stop { message } => without_blocks(message),
        HookEventKind::PostCompact { summary, .. } => {
            *summary = summary.take().map(|text| summary_of(&text));
        }
        _ => {}
    }
    event
}

/// A compaction's summary without the model's preceding analysis.
fn summary_of(text: &str) -> String {
    let inside = text.split_once("<summary>").map_or(text, |(_, inside)| inside);
    let summary = inside.rsplit_once("</summary>").map_or(inside, |(summary, _)| summary);
    SPEC.without_injected_blocks(summary).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::HookOutput;
    use recall_domain::event::EventName;

    #[test]
    fn a_moved_agent_folder_comes_before_the_default_folder() {
        let folders = |moved| SPEC.host.folders("/home/dev".as_ref(), moved);
        assert_eq!(folders(None), [Path::new("/home/dev/.claude")]);
        assert_eq!(folders(Some("/data")), [Path::new("/data"), Path::new("/home/dev/.claude")]);
    }

    #[test]
    fn a_tool_call_is_answered_with_context_and_no_decision() {
        let answer = |event| SPEC.answer(HookOutput { event, context: Some("x".to_owned()), notice: None });
        let bytes =
            b"{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"additionalContext\":\"x\"}}\n";
        assert_eq!(answer(EventName::ToolStart), bytes);
        assert_eq!(answer(EventName::Tool), b"");
    }
}
