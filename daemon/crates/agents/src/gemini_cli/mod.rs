//! Gemini CLI, checked against 0.61.0.
//!
//! It has three peculiarities. Without a terminal, it puts the context of a session's start in front of the prompt.
//! `PreCompress` fires before every request to the model, whether anything is compressed or not. Results of file
//! tools contain the whole file twice.

mod history;

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;

use super::failure::FailureRules;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::json::without_inner;
use super::settings::{
    AgentVersion, FilePlace, Install, InstalledPart, JsonHooks, Off, OffSwitch, SKILL, SettingValue, Syntax,
};
use super::{
    Advice, Advised, AgentSpec, Asking, Cap, CommandChange, EventSpec, GuardAnswers, HookOutput, Host,
    Unreadable,
};
use recall_domain::event::{EventName, HookEvent, HookEventKind, PromptText, ToolResult};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "gemini-cli",
    title: "Gemini CLI",
    host: Host {
        program: "gemini",
        folder: ".gemini",
        assumed_version: AgentVersion(0, 61, 0),
        tried: Some(AgentVersion(0, 61, 0)),
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read,
    guards: GuardAnswers {
        before: Some(EventSpec::reported("BeforeTool", EventName::ToolStart)),
        refusal: Some(|decision, reason| {
            let fields = [("decision", decision.name()), ("reason", reason)];
            answer::line(fields.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect())
        }),
        asking: Asking::Asks,
        // It accepts no context before a call.
        advice: Some(Advice {
            to: Advised::User,
            answer: |text| answer::line([("systemMessage".to_owned(), text.into())].into_iter().collect()),
        }),
        command_change: Some(CommandChange {
            tools: &["run_shell_command"],
            add: |answer, input| answer::with_input("BeforeTool", "tool_input", answer, input),
        }),
        warning: Some(|text| {
            let output = HookOutput { event: EventName::Tool, context: Some(text.to_owned()), notice: None };
            answer::nested("AfterTool", &output)
        }),
    },
    plan_folders: &[".gemini/plans"],
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("settings.json", &[".gemini/settings.json"]),
            JsonHooks {
                syntax: Syntax::Comments,
                // Older versions kept these keys among the events.
                other_keys: &["enabled", "disabled", "notifications"],
                entry: &[
                    // The name by which a user can turn it off.
                    ("name", SettingValue::Text("recall")),
                    ("type", SettingValue::Text("command")),
                    ("command", SettingValue::ShimLine),
                    // In milliseconds.
                    ("timeout", SettingValue::Number(5_000)),
                ],
                switched_off: &[
                    OffSwitch {
                        at: "/hooksConfig/enabled",
                        off: Off::If(false),
                        title: "hooksConfig.enabled = false",
                    },
                    OffSwitch {
                        at: "/hooksConfig/disabled",
                        off: Off::Listed,
                        title: "hooksConfig.disabled with recall in it",
                    },
                ],
                ..JsonHooks::GROUPED
            },
        )],
        server: &[
            InstalledPart::server(
                FilePlace::own("settings.json", &[".gemini/settings.json"]),
                Syntax::Comments,
            ),
            InstalledPart::own_file(
                FilePlace::own("skills/recall/SKILL.md", &[".gemini/skills/recall/SKILL.md"]),
                SKILL,
            ),
        ],
        then: Some("Gemini CLI runs hooks only in folders that you have told it to trust."),
    },
    history: Some(history::HISTORY),
    ..AgentSpec::PLAIN
};

const CAP: Cap = Cap { utf16_units: 10_000 };

/// Left out: `PreCompress` (see above), the events of model requests (the whole conversation each time), and
/// `BeforeTool`, whose answer takes no context.
const EVENTS: &[EventSpec] = &[
    EventSpec::answered("SessionStart", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("BeforeAgent", EventName::Prompt, Wait::Answer, CAP),
    EventSpec::answered("AfterTool", EventName::Tool, Wait::Report, CAP),
    EventSpec::reported("AfterAgent", EventName::Stop),
    EventSpec::reported("Notification", EventName::Notification),
    EventSpec::reported("SessionEnd", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[
        ("beforetool", Meaning::Is(EventName::ToolStart)),
        ("precompress", Meaning::Is(EventName::PreCompact)),
    ],
    tools: TOOLS,
    failures: FailureRules { exit_code_line: Some(("Exit Code: ", "")), ..FailureRules::COMMON },
    ..Format::PLAIN
};

const TOOLS: Tools = Tools(&[
    ("read_file", Tool::Read),
    ("write_file", Tool::Write),
    ("replace", Tool::Edit),
    ("run_shell_command", Tool::Command),
    ("grep_search", Tool::Search),
    ("search_file_content", Tool::Search),
    ("glob", Tool::Search),
    ("list_directory", Tool::Search),
    ("web_fetch", Tool::Fetch),
    ("google_web_search", Tool::Fetch),
    ("write_todos", Tool::TodoList),
]);

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let mut event = format.read(delivery)?;
    match &mut event.what {
        HookEventKind::Prompt { text: PromptText::Text(text), .. } => *text = without_context(text),
        HookEventKind::PreCompact { trigger } if trigger == "auto" => {
            event.what = HookEventKind::Internal { name: "PreCompress".to_owned() };
        }
        HookEventKind::Tool(call) => without_whole_files(&mut call.result),
        _ => {}
    }
    Ok(event)
}

/// Removes the context from the front of a prompt.
fn without_context(prompt: &str) -> String {
    let inside = prompt.trim_start().strip_prefix("<hook_context>");
    let after = inside.and_then(|inside| inside.split_once("</hook_context>"));
    after.map_or(prompt, |(_, after)| after.trim_start_matches('\n')).to_owned()
}

/// Removes whole files from results. A fork of this agent has the same results.
pub(super) fn without_whole_files(result: &mut ToolResult) {
    if let ToolResult::Done(response) = result
        && let Some(shorter) = without_inner(response, "returnDisplay", &["originalContent", "newContent"])
    {
        *response = shorter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hook_context_in_front_of_a_prompt_is_removed() {
        for (prompt, expected) in [
            ("<hook_context>recall: a &lt;b&gt;</hook_context>\n\nfix it", "fix it"),
            ("fix <hook_context>x</hook_context>", "fix <hook_context>x</hook_context>"),
            ("<hook_context>never closed", "<hook_context>never closed"),
            ("fix it", "fix it"),
        ] {
            assert_eq!(without_context(prompt), expected);
        }
    }
}
