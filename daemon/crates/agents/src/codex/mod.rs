//! Codex CLI, checked against 0.169.0.
//!
//! It parses answers strictly: one unknown key, and the context is lost. It copies a text of more than about 10,000
//! bytes unencrypted to the temporary folder, so the cap is below that. It asks the user once to trust hooks, and
//! again whenever their command, timeout or position changes; so the entry contains no version.

mod history;

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;

use super::failure::FailureRules;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::memories::{Memories, OwnMemories, Parts};
use super::settings::{
    AgentVersion, FilePlace, Install, InstalledPart, JsonHooks, Off, OffSwitch, PartContent, SKILL,
    SettingValue, TomlHooks, TomlTable,
};
use super::{Advice, AgentSpec, Asking, Cap, EventSpec, GuardAnswers, Host, Unreadable};
use recall_domain::conventions::Conventions;
use recall_domain::event::{EventName, HookEvent};
use recall_domain::material::BatchSource;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "codex",
    title: "Codex CLI",
    host: Host {
        program: "codex",
        other_places: &[".local/bin/codex"],
        folder: ".codex",
        folder_variable: Some("CODEX_HOME"),
        assumed_version: AgentVersion(0, 169, 0),
        tried: Some(AgentVersion(0, 169, 0)),
        marks: &[],
    },
    format: FORMAT,
    read,
    guards: GuardAnswers {
        before: Some(EventSpec::reported("PreToolUse", EventName::ToolStart)),
        // `ask` makes the whole answer invalid.
        refusal: Some(answer::plain_refusal),
        asking: Asking::Refuses,
        advice: Some(Advice::CONTEXT),
        // It accepts a new input only together with consent to the call.
        command_change: None,
        warning: Some(answer::warning),
    },
    conventions: Conventions {
        work_trees: &[],
        plan_prompts: &["Implement the plan."],
        machine_prompts: &[
            ("# AGENTS.md instructions", BatchSource::System),
            ("<environment_context>", BatchSource::System),
            ("<user_instructions>", BatchSource::System),
            ("<hook_prompt", BatchSource::System),
            ("<turn_aborted>", BatchSource::System),
            ("<skill>", BatchSource::System),
            ("<user_shell_command>", BatchSource::System),
            ("<subagent_notification>", BatchSource::AgentNotification),
        ],
        foreign_lines: &[],
        empty_answers: &[],
        failed_answers: &[],
    },
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("hooks.json", &[".codex/hooks.json"]),
            JsonHooks {
                or_toml: Some(TomlHooks {
                    place: CONFIG,
                    switched_off: OffSwitch {
                        at: "/features/hooks",
                        off: Off::If(false),
                        title: "features.hooks = false",
                    },
                }),
                entry: &[
                    ("type", SettingValue::Text("command")),
                    ("command", SettingValue::ShimLine),
                    // It shortens longer timeouts of these two, with a warning at each start.
                    ("timeout", SettingValue::NumberExcept(10, &[("Interrupt", 3), ("SessionEnd", 3)])),
                ],
                ..JsonHooks::GROUPED
            },
        )],
        server: &[
            InstalledPart { place: CONFIG, content: PartContent::TomlTable(TomlTable::SERVER) },
            InstalledPart::own_file(
                FilePlace::own("skills/recall/SKILL.md", &[".codex/skills/recall/SKILL.md"]),
                SKILL,
            ),
        ],
        then: Some(
            "Codex CLI asks once whether it may run the hooks: start it, and accept them (or type /hooks).",
        ),
    },
    history: Some(history::HISTORY),
    memories: Some(Memories {
        of_project: &[],
        own: Some(OwnMemories::Parts(Parts {
            file: "memories/MEMORY.md",
            heading: "# Task Group:",
            folders: "applies_to: cwd=",
            about: "scope:",
            left_out: &["rollout_summary_files", "keywords"],
        })),
    }),
    ..AgentSpec::PLAIN
};

const CONFIG: FilePlace = FilePlace::own("config.toml", &[".codex/config.toml"]);

const CAP: Cap = Cap { utf16_units: 9_000 };

/// Left out: `PreModelRequest` and `PostModelRequest` (one process for each model call), `PermissionRequest`, and
/// `PreToolUse`, because shell commands read files (only guards need it).
const EVENTS: &[EventSpec] = &[
    EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
    EventSpec::reported("PostToolUse", EventName::Tool),
    EventSpec::reported("PreCompact", EventName::PreCompact),
    EventSpec::reported("PostCompact", EventName::PostCompact),
    EventSpec { wait: Wait::Answer, ..EventSpec::reported("SubagentStart", EventName::SubagentStart) },
    EventSpec::reported("SubagentStop", EventName::SubagentStop),
    EventSpec::reported("Stop", EventName::Stop),
    // The user has stopped the turn; no Stop follows.
    EventSpec::reported("Interrupt", EventName::Stop),
    EventSpec::reported("SessionEnd", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[("pretooluse", Meaning::Is(EventName::ToolStart))],
    tools: Tools(&[
        ("Bash", Tool::Command),
        ("apply_patch", Tool::Edit),
        ("spawn_agent", Tool::Delegate),
        ("update_plan", Tool::TodoList),
        ("view_image", Tool::Read),
        ("web_search", Tool::Fetch),
    ]),
    // The exit code of a command is not reported.
    failures: FailureRules { exit_code_line: Some(("Exit code: ", "")), ..FailureRules::COMMON },
    ..Format::PLAIN
};

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let mut event = format.read(delivery)?;
    if event.subagent.is_some() {
        // The payload names the subagent's turn, and not the session's.
        event.prompt = None;
    }
    Ok(event)
}
