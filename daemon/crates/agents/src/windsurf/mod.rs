//! Windsurf Cascade, according to its vendor's page. Not run here.
//!
//! Its hooks only report: their output does not reach the model. It has no event for a session's start or end, so the
//! first event begins a session and silence ends it.

use recall_protocol::wire::Deliver;

use super::failure::{FailureRules, ResultSource};
use super::format::payload::Payload;
use super::format::tools::{Tool, Tools};
use super::format::{Format, prompt_text};
use super::json::JsonFields;
use super::settings::{
    AgentVersion, FilePlace, Groups, Install, InstalledPart, JsonHooks, OwnFile, SettingValue, Syntax,
    about_the_memory,
};
use super::{AgentSpec, EventSpec, Host, Mark, Unreadable};
use recall_domain::event::{EventName, HookEvent, HookEventKind, StartContext, ToolCall, ToolResult};
use recall_domain::ids::{PromptId, SessionId};
use recall_domain::material::BatchSource;

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "windsurf",
    title: "Windsurf",
    host: Host {
        program: "windsurf",
        folder: ".codeium/windsurf",
        assumed_version: AgentVersion(1, 0, 0),
        marks: &[Mark { field: EVENT, part: "" }],
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read,
    envelope: |_, _| Vec::new(),
    plan_folders: &[".windsurf/plans"],
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("hooks.json", &[".windsurf/hooks.json"]),
            JsonHooks {
                groups: Groups::Flat,
                entry: &[
                    ("command", SettingValue::ShimLineWithEvent),
                    ("show_output", SettingValue::Flag(false)),
                ],
                ..JsonHooks::GROUPED
            },
        )],
        server: &[
            InstalledPart::server(FilePlace::own("mcp_config.json", &[]), Syntax::Json),
            InstalledPart::own_file(
                FilePlace::of_project(&[".windsurf/rules/recall.md"]),
                OwnFile::text(about_the_memory!("trigger: model_decision\n")),
            ),
        ],
        then: None,
    },
    ..AgentSpec::PLAIN
};

const EVENT: &str = "agent_action_name";
const PROMPT: &str = "user_prompt";

/// Left out: the other `pre_` events, which can only block.
const EVENTS: &[EventSpec] = &[
    EventSpec::reported("pre_user_prompt", EventName::Prompt),
    EventSpec::reported("post_cascade_response", EventName::Stop),
    EventSpec::reported("post_write_code", EventName::Tool),
    EventSpec::reported("post_run_command", EventName::Tool),
    EventSpec::reported("post_mcp_tool_use", EventName::Tool),
    EventSpec::reported("post_read_code", EventName::Tool),
];

const FORMAT: Format = Format { events: EVENTS, tools: TOOLS, prompt_field: PROMPT, ..Format::PLAIN };

/// Tools, named by the events that report their calls.
const TOOLS: Tools =
    Tools(&[("write_code", Tool::Edit), ("run_command", Tool::Command), ("read_code", Tool::Read)]);

fn read(_: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let payload = Payload::read(delivery)?;
    let session = payload.session().ok_or(Unreadable::NoSession)?;
    let name = payload.event_name(delivery).ok_or(Unreadable::NoEvent)?;
    let raw = payload.raw(&["tool_info"]).unwrap_or("{}");
    let info = JsonFields::read(raw.as_bytes())?;
    let what = match name.as_str() {
        "pre_user_prompt" => {
            let text = prompt_text(info.text(PROMPT), delivery);
            HookEventKind::Prompt { text, source: BatchSource::User, start: StartContext::Shown }
        }
        "post_cascade_response" => {
            HookEventKind::Stop { message: info.text("response").map(|text| last(&text)) }
        }
        "post_cascade_response_with_transcript" => HookEventKind::Stop { message: None },
        "post_mcp_tool_use" => {
            let part = |name: &str| info.word(name).unwrap_or_default();
            let tool = format!("mcp__{}__{}", part("mcp_server_name"), part("mcp_tool_name"));
            let input = info.raw("mcp_tool_arguments").unwrap_or("{}").to_owned();
            HookEventKind::Tool(call(tool, input, info.raw("mcp_result"), &info))
        }
        _ if EVENTS.iter().any(|event| event.name == name) => {
            let tool = name.trim_start_matches("post_").to_owned();
            HookEventKind::Tool(call(tool, raw.to_owned(), Some(raw), &info))
        }
        _ => {
            let detail = String::from_utf8_lossy(&delivery.payload).into_owned();
            HookEventKind::Other { name, detail }
        }
    };
    Ok(HookEvent {
        session: SessionId(session),
        prompt: payload.word(&["execution_id"]).map(PromptId),
        cwd: info.word("cwd"),
        transcript_path: info.word("transcript_path"),
        title: None,
        subagent: None,
        origin: None,
        host: None,
        what,
    })
}

fn call(name: String, input: String, response: Option<&str>, info: &JsonFields) -> ToolCall {
    let failure = FailureRules::COMMON.error_text(ResultSource::of(&name), info, response);
    ToolCall {
        name,
        use_id: None,
        input,
        result: match failure {
            Some(words) => ToolResult::Failed(words),
            None => ToolResult::Done(response.unwrap_or("null").to_owned()),
        },
        duration_ms: None,
        plan: None,
        launched: None,
        rewrote: None,
    }
}

/// The last answer of a turn.
fn last(response: &str) -> String {
    let answer = response.rsplit_once("### Planner Response").map_or(response, |(_, answer)| answer);
    answer.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_responses_is_the_answer() {
        let response = "### Planner Response\n\nI look.\n\n*Viewed `/a`*\n\n### Planner Response\n\nDone.\n";
        assert_eq!(last(response), "Done.");
        assert_eq!(last("Done."), "Done.");
    }
}
